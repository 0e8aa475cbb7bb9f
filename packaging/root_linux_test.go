package packaging

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// root is a folder that programs take for the whole system. It has a shell for the
// scripts of packages, and nothing else.
type root struct{ dir string }

// newRoot makes an empty system. Only root may run programs in one.
func newRoot(t *testing.T) root {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root runs programs with another root folder")
	}
	// The folders of t.TempDir are closed to other users.
	dir, err := os.MkdirTemp("", "symdepot-root-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return root{dir}
}

// addShell copies the shell of this machine and further programs, with their
// libraries, and makes the folders and files of dpkg.
func (r root) addShell(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range append(programs, "/bin/sh") {
		libraries, err := exec.Command("ldd", program).Output()
		if err != nil {
			t.Skipf("ldd does not name the libraries of %s: %v", program, err)
		}
		for _, name := range append(regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1), program) {
			r.add(t, name)
		}
	}
	for _, dir := range []string{"tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "dev"} {
		if err := os.MkdirAll(filepath.Join(r.dir, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(r.dir, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// add copies a file of this machine.
func (r root) add(t *testing.T, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o755); err != nil {
		t.Fatal(err)
	}
}

// must runs a program of this machine that must succeed.
func must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// need skips a test where a program is missing.
func need(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		symtest.Tool(t, name)
	}
}

// command is a program of the root, run by a user who is not root.
func (r root) command(ctx context.Context, id uint32, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: r.dir, Credential: &syscall.Credential{Uid: id, Gid: id}}
	return cmd
}

// serve runs a server in the root until the test ends, and returns its base URL.
func (r root) serve(t *testing.T, id uint32, env []string, args ...string) string {
	t.Helper()
	cmd := r.command(context.Background(), id, args...)
	cmd.Env = env
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, at, ok := strings.Cut(lines.Text(), "http://"); ok {
			killer.Stop()
			go func() { _, _ = io.Copy(io.Discard, out) }()
			t.Cleanup(func() {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					t.Error(err)
				}
				if err := cmd.Wait(); err != nil {
					t.Errorf("%s: %v\n%s", strings.Join(args, " "), err, log.String())
				}
			})
			return "http://" + strings.TrimRight(strings.Fields(at)[0], "/.,")
		}
	}
	_ = cmd.Wait()
	t.Fatalf("%s did not say its base URL:\n%s", strings.Join(args, " "), log.String())
	return ""
}

// answers checks that a server is ready, and has a file that was added in the root.
func (r root) answers(t *testing.T, base string, id uint32, env []string) {
	t.Helper()
	get := func(path string) (int, []byte) {
		answer, err := http.Get(base + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, body
	}
	if status, body := get("/readyz"); status != http.StatusOK {
		t.Errorf("/readyz: %d %s, want 200", status, body)
	}
	file, err := os.ReadFile("../testdata/elf/prog-sha1")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, "tmp/prog"), file, 0o644); err != nil {
		t.Fatal(err)
	}
	add := r.command(t.Context(), id, "/usr/bin/symdepot", "add", "/tmp/prog")
	add.Env = env
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("symdepot add: %v\n%s", err, out)
	}
	const id1 = "adac45aa231bba3143d7af433767c61f31021c16"
	if status, body := get("/buildid/" + id1 + "/executable"); status != http.StatusOK || string(body) != string(file) {
		t.Errorf("the added file: status %d, %d bytes; want 200, %d bytes", status, len(body), len(file))
	}
	health := r.command(t.Context(), id, "/usr/bin/symdepot", "health", base)
	health.Env = env
	if out, err := health.CombinedOutput(); err != nil {
		t.Errorf("symdepot health: %v\n%s", err, out)
	}
}

// serviceRuns makes the account and the folders of an installed package as systemd
// does, runs what the unit runs, and asks it.
func (r root) serviceRuns(t *testing.T) {
	t.Helper()
	must(t, "systemd-sysusers", "--root="+r.dir)
	must(t, "systemd-tmpfiles", "--root="+r.dir, "--create")
	passwd, err := os.ReadFile(filepath.Join(r.dir, "etc/passwd"))
	if err != nil {
		t.Fatal(err)
	}
	account := regexp.MustCompile(`(?m)^symdepot:[^:]*:(\d+):`).FindStringSubmatch(string(passwd))
	if account == nil {
		t.Fatalf("etc/passwd has no symdepot:\n%s", passwd)
	}
	id, err := strconv.ParseUint(account[1], 10, 32)
	if err != nil || id == 0 {
		t.Fatalf("the account has the number %s, want one that is not root's", account[1])
	}
	unit, err := os.ReadFile(filepath.Join(r.dir, "usr/lib/systemd/system/symdepot.service"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(string(unit))
	if line == nil {
		t.Fatalf("the unit has no ExecStart:\n%s", unit)
	}
	// A free port, as another server may use that of the configuration.
	env := []string{"SYMDEPOT_LISTEN=127.0.0.1:0"}
	r.answers(t, r.serve(t, uint32(id), env, strings.Fields(line[1])...), uint32(id), env)
	if _, err := os.Stat(filepath.Join(r.dir, "var/lib/symdepot/index.db")); err != nil {
		t.Errorf("the depot is not where the configuration says: %v", err)
	}
}

// saysHowToStart checks what an installation has printed: where the configuration is,
// how to start the server, and its address.
func saysHowToStart(t *testing.T, said, start string) {
	t.Helper()
	want := "symdepot: the configuration is /etc/symdepot/symdepot.yaml\n" +
		"symdepot: to start the server: " + start + "\n" +
		"symdepot: then open http://127.0.0.1:8080 on this machine\n"
	if !strings.Contains(said, want) {
		t.Errorf("the installation says\n%s\nwant\n%s", said, want)
	}
}

// TestDeb installs the deb package into an empty system, runs its service, and
// removes it.
func TestDeb(t *testing.T) {
	t.Parallel()
	need(t, "dpkg", "systemd-sysusers", "systemd-tmpfiles")
	r := newRoot(t)
	r.addShell(t)
	m := released(t)
	install := []string{"--root=" + r.dir, "--force-not-root", "--install", m.file(t, "-"+runtime.GOARCH+".deb")}
	saysHowToStart(t, must(t, "dpkg", install...), "symdepot serve, as the account symdepot")
	if again := must(t, "dpkg", install...); strings.Contains(again, "to start the server") {
		t.Errorf("an upgrade says again how to start the server:\n%s", again)
	}
	fields := must(t, "dpkg-query", "--root="+r.dir, "--show",
		"--showformat=${Maintainer}|${Homepage}|${Recommends}|${Description}", "symdepot")
	want := "The symdepot authors|https://github.com/symdepot/symdepot|ca-certificates|symbol server that"
	if !strings.HasPrefix(fields, want) {
		t.Errorf("the package says %q, want it to begin with %q", fields, want)
	}
	if lines := strings.Split(fields, "\n"); len(lines) < 7 || !slices.Contains(lines, " .") {
		t.Errorf("the description is %q, want one of several lines with paragraphs", lines)
	}
	if got := must(t, "dpkg-query", "--root="+r.dir, "--show", "--showformat=${Status} ${Version}", "symdepot"); got != "install ok installed 1.2.3~rc1" {
		t.Errorf("dpkg says %q, want %q", got, "install ok installed 1.2.3~rc1")
	}
	t.Run("service", func(t *testing.T) { r.serviceRuns(t) })
	must(t, "dpkg", "--root="+r.dir, "--remove", "symdepot")
	for name, want := range map[string]bool{"usr/bin/symdepot": false, "etc/symdepot/symdepot.yaml": true, "var/lib/symdepot/index.db": true} {
		if _, err := os.Stat(filepath.Join(r.dir, name)); (err == nil) != want {
			t.Errorf("after the removal: %s, %v; want it to exist: %v", name, err, want)
		}
	}
}

// TestDebWithoutSystemd installs the deb package where there is no systemd: the account
// and its folders are made, all of the documentation can be read by everybody and run by
// nobody, and after a purge no link of "systemctl enable" points to nothing.
func TestDebWithoutSystemd(t *testing.T) {
	t.Parallel()
	need(t, "dpkg")
	r := newRoot(t)
	r.addShell(t, "/usr/sbin/useradd", "/bin/grep", "/usr/bin/install", "/bin/rm")
	for name, text := range map[string]string{"etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n", "etc/shadow": "", "etc/gshadow": ""} {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r.add(t, "/etc/login.defs")
	m := released(t)
	must(t, "dpkg", "--root="+r.dir, "--install", m.file(t, "-"+runtime.GOARCH+".deb"))
	passwd, err := os.ReadFile(filepath.Join(r.dir, "etc/passwd"))
	account := regexp.MustCompile(`(?m)^symdepot:[^:]*:(\d+):(\d+):`).FindStringSubmatch(string(passwd))
	if err != nil || account == nil {
		t.Fatalf("etc/passwd has no symdepot (%v):\n%s", err, passwd)
	}
	for _, dir := range []string{"var/lib/symdepot", "var/cache/symdepot", "var/log/symdepot"} {
		info, err := os.Stat(filepath.Join(r.dir, dir))
		if err != nil {
			t.Errorf("%v, want the folder made by the installation", err)
			continue
		}
		owner := info.Sys().(*syscall.Stat_t)
		if got := fmt.Sprintf("%v %d:%d", info.Mode(), owner.Uid, owner.Gid); got != "drwxr-x--- "+account[1]+":"+account[2] {
			t.Errorf("%s is %s, want drwxr-x--- %s:%s", dir, got, account[1], account[2])
		}
	}
	err = filepath.WalkDir(filepath.Join(r.dir, "usr/share"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if want := map[bool]fs.FileMode{false: 0o644, true: 0o755}[d.IsDir()]; err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", strings.TrimPrefix(path, r.dir), info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	wants := filepath.Join(r.dir, "etc/systemd/system/multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{"symdepot.service", "other.service"} {
		if err := os.Symlink("/lib/systemd/system/"+unit, filepath.Join(wants, unit)); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "dpkg", "--root="+r.dir, "--purge", "symdepot")
	left, err := os.ReadDir(wants)
	if err != nil || len(left) != 1 || left[0].Name() != "other.service" {
		t.Errorf("after the purge there are the links %v, %v; want that of other.service only", left, err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "var/lib/symdepot")); err != nil {
		t.Errorf("the folder of the depot after the purge: %v, want it kept", err)
	}
}

// TestRPM does the same with the rpm package.
func TestRPM(t *testing.T) {
	t.Parallel()
	need(t, "rpm", "systemd-sysusers", "systemd-tmpfiles")
	r := newRoot(t)
	r.addShell(t)
	m := released(t)
	// No package of this root has the shell, and the processor's name may be spelled in another way.
	says := must(t, "rpm", "--root", r.dir, "--nodeps", "--ignorearch", "--install", m.file(t, "-"+runtime.GOARCH+".rpm"))
	saysHowToStart(t, says, "symdepot serve, as the account symdepot")
	fields := must(t, "rpm", "--root", r.dir, "-q", "symdepot", "--queryformat", "%{PACKAGER}|%{URL}|%{RECOMMENDNAME}|%{SUMMARY}|%{DESCRIPTION}")
	want := "The symdepot authors|https://github.com/symdepot/symdepot|ca-certificates|Symbol server for every debugger|symbol server that"
	if !strings.HasPrefix(fields, want) || !strings.Contains(fields, "caching proxy") {
		t.Errorf("the package says %q, want it to begin with %q, and the long description", fields, want)
	}
	if got := must(t, "rpm", "--root", r.dir, "-q", "symdepot", "--queryformat", "%{VERSION}"); got != "1.2.3~rc1" {
		t.Errorf("rpm says version %q, want 1.2.3~rc1", got)
	}
	t.Run("service", func(t *testing.T) { r.serviceRuns(t) })
	if out := must(t, "rpm", "--root", r.dir, "-q", "--configfiles", "symdepot"); !strings.Contains(out, "/etc/symdepot/symdepot.yaml") {
		t.Errorf("the configuration files are %q, want /etc/symdepot/symdepot.yaml among them", out)
	}
	must(t, "rpm", "--root", r.dir, "--nodeps", "--erase", "symdepot")
	if _, err := os.Stat(filepath.Join(r.dir, "usr/bin/symdepot")); err == nil {
		t.Error("the program is there after the removal")
	}
	if _, err := os.Stat(filepath.Join(r.dir, "var/lib/symdepot/index.db")); err != nil {
		t.Errorf("the depot after the removal: %v, want it kept", err)
	}
}

// TestUnit: systemd can read the units, and finds that the service can do little.
func TestUnit(t *testing.T) {
	t.Parallel()
	need(t, "systemd-analyze")
	out := must(t, "systemd-analyze", "security", "--offline=yes", "--no-pager", "linux/symdepot.service")
	m := regexp.MustCompile(`Overall exposure level for symdepot.service: ([0-9.]+)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("systemd-analyze says no level:\n%s", out)
	}
	if level, err := strconv.ParseFloat(m[1], 64); err != nil || level > 2.0 {
		t.Errorf("the exposure of the service is %s, want at most 2.0:\n%s", m[1], out)
	}
	said, err := exec.Command("systemd-analyze", "verify", "--man=no", "linux/symdepot.service", "linux/symdepot.socket").CombinedOutput()
	for line := range strings.Lines(string(said)) {
		// The program is not installed here, and units of this machine are checked too.
		if strings.HasPrefix(line, "symdepot") && !strings.Contains(line, "/usr/bin/symdepot is not executable") || strings.Contains(line, "packaging/linux") {
			t.Errorf("systemd-analyze verify: %s (%v)", strings.TrimSpace(line), err)
		}
	}
}

// TestImage unpacks the container image and runs it as its user, who is not root.
func TestImage(t *testing.T) {
	t.Parallel()
	m := released(t)
	dir := t.TempDir()
	f, err := os.Open(m.file(t, "-oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	untar(t, f, dir)
	type descriptor struct {
		MediaType, Digest string
		Size              int64
		Platform          struct{ OS, Architecture string }
	}
	read := func(d descriptor, into any) {
		t.Helper()
		name := filepath.Join(dir, "blobs", strings.Replace(d.Digest, ":", "/", 1))
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sums(t, filepath.Dir(name))[filepath.Base(name)]; "sha256:"+sum != d.Digest || int64(len(b)) != d.Size {
			t.Errorf("%s: sha256 %s, %d bytes; want %d bytes", d.Digest, sum, len(b), d.Size)
		}
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatal(err)
		}
	}
	var top, platforms struct{ Manifests []descriptor }
	b, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err == nil {
		err = json.Unmarshal(b, &top)
	}
	if err != nil || len(top.Manifests) != 1 {
		t.Fatalf("index.json: %v\n%s", err, b)
	}
	read(top.Manifests[0], &platforms)
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	for _, p := range platforms.Manifests {
		if p.Platform.OS == "linux" && p.Platform.Architecture == runtime.GOARCH {
			read(p, &manifest)
		}
	}
	if len(manifest.Layers) != 1 {
		t.Fatalf("the image for linux/%s has %d layers, want 1: %+v", runtime.GOARCH, len(manifest.Layers), platforms)
	}
	var image struct {
		Config struct {
			User            string
			Env             []string
			Entrypoint, Cmd []string
			Labels          map[string]string
			Healthcheck     struct{ Test []string }
		}
	}
	read(manifest.Config, &image)
	c := image.Config
	if c.Labels["org.opencontainers.image.version"] != testVersion {
		t.Errorf("the labels are %v, want the version %s", c.Labels, testVersion)
	}
	if got := strings.Join(c.Healthcheck.Test, " "); got != "CMD /usr/bin/symdepot health" {
		t.Errorf("the check of health is %q, want symdepot health", got)
	}
	id, err := strconv.ParseUint(strings.Split(c.User, ":")[0], 10, 32)
	if err != nil || id == 0 {
		t.Fatalf("the user is %q, want a number that is not root's", c.User)
	}
	r := newRoot(t)
	untarGz(t, filepath.Join(dir, "blobs", strings.Replace(manifest.Layers[0].Digest, ":", "/", 1)), r.dir)
	env := append(c.Env, "SYMDEPOT_LISTEN=127.0.0.1:0")
	r.answers(t, r.serve(t, uint32(id), env, append(c.Entrypoint, c.Cmd...)...), uint32(id), env)

	// Without consent, a container does not serve all machines that reach it.
	refused := r.command(t.Context(), uint32(id), append(c.Entrypoint, c.Cmd...)...)
	refused.Env = c.Env
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "--public") {
		t.Errorf("a container without settings: %v, %s; want a refusal that names --public", err, out)
	}
}
