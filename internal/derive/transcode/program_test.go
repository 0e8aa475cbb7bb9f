package transcode

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/derive/transcode/transcodetest"
	"github.com/symdepot/symdepot/symcache"
)

func TestMain(m *testing.M) {
	transcodetest.Main()
	os.Exit(m.Run())
}

func room(t *testing.T) *Workspace {
	t.Helper()
	r, err := OpenWorkspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func samplePDB(t *testing.T) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(probePDB))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// with returns a scratch folder with the PDB of that name in it.
func with(t *testing.T, r *Workspace, name string) *Scratch {
	t.Helper()
	sc, err := r.New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sc.Remove)
	if err := os.WriteFile(sc.PDB(), samplePDB(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return sc
}

func probed(t *testing.T, r *Workspace, programs ...Program) *Transcoders {
	t.Helper()
	ts := NewTranscoders(r, nil, programs...)
	if err := ts.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ts
}

func versions(ts *Transcoders) string { return fmt.Sprint(ts.Versions()) }

func TestTranscode(t *testing.T) {
	t.Setenv("SECRET_FOR_TESTS", "x") // which the program must not see
	r := room(t)
	ts := probed(t, r, Program{Name: "test", Command: transcodetest.Command("-version", "3.1.0", "-mode", "chatty")})
	if got := versions(ts); got != "[3.1.0]" {
		t.Fatalf(`versions: %q, want "[3.1.0]"`, got)
	}
	sc := with(t, r, "Strange name %s;$(x).pdb")
	m, err := ts.Transcode(t.Context(), sc, Job{Name: "Strange name %s;$(x).pdb", ID: probeID, Major: 3})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(m.Path)
	if want := transcodetest.Body("x.pdb", probeID, "3.1.0"); err != nil || !bytes.Equal(b, want) || m.Size != int64(len(want)) {
		t.Errorf("%q, %v; want %q", b, err, want)
	}
	if m.Version.String() != "3.1.0" || m.Age != 1 || m.Program != "test" || m.Took <= 0 {
		t.Errorf(`got %+v, want Version.String() "3.1.0", Age 1, Program "test", Took more than 0`, m)
	}
	if len(m.Output) > maxOutput || !strings.HasSuffix(m.Output, "line 9999") {
		t.Errorf("output of %d bytes, %q; want at most %d, up to line 9999", len(m.Output), m.Output[max(0, len(m.Output)-50):], maxOutput)
	}
}

func TestFailingPrograms(t *testing.T) {
	t.Parallel()
	r := room(t)
	for _, c := range []struct {
		mode  string
		class Class
		text  string
	}{
		{"fail", ClassExit, "this PDB is not liked"},
		{"fail-with-output", ClassExit, "failed as asked"},
		{"crash", ClassExit, ""},
		{"nothing", ClassNoOutput, ""},
		{"empty", ClassBadOutput, ""},
		{"two", ClassBadOutput, ""},
		{"guid", ClassBadOutput, ""},
		{"age", ClassBadOutput, ""},
		{"version", ClassBadOutput, ""},
		{"major", ClassBadOutput, ""},
		{"sentry", ClassBadOutput, ""},
		{"hang", ClassTimeout, ""},
		{"huge", ClassTooLarge, ""},
		{"onehuge", ClassTooLarge, ""},
		{"memory", ClassMemory, ""},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			if c.mode == "memory" && runtime.GOOS != "linux" && runtime.GOOS != "windows" {
				t.Skip("this system cannot limit the memory of another process")
			}
			p := Program{Name: "test", Command: transcodetest.Command("-mode", c.mode), Limits: ProgramLimits{Output: 8 << 20}}
			if c.mode == "memory" {
				symtest.NeedsMoreThanWine(t, "a job object has no memory limit")
				p.Limits.Memory = 256 << 20
				if err := NewTranscoders(r, nil, p).Probe(t.Context()); err != nil && strings.Contains(err.Error(), "exit status 66") {
					t.Skip("the race detector needs more memory than that")
				}
			}
			ts := probed(t, r, p)
			if c.mode == "hang" {
				ts.list[0].Limits.Time = 300 * time.Millisecond
			}
			_, err := ts.Transcode(t.Context(), with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: 3})
			e, ok := errors.AsType[*ProgramError](err)
			if !ok || e.Class != c.class || e.Version.String() != "3.1.0" || e.Program != "test" || !strings.Contains(e.Output, c.text) {
				t.Errorf("Transcode: %v (%+v), want a ProgramError of class %s by test 3.1.0 with %q in its output", err, e, c.class, c.text)
			}
		})
	}
}

// TestDescendantsKilled: a descendant that left the process group is killed too.
func TestDescendantsKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "windows" {
		t.Skip("here only the process group is ended")
	}
	r := room(t)
	for _, mode := range []string{"hang-with-child", "leave-child"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			treeEnds(t, r, mode)
		})
	}
}

func treeEnds(t *testing.T, r *Workspace, mode string) {
	ts := probed(t, r, Program{Name: "test", Command: transcodetest.Command("-mode", mode)})
	ts.list[0].Limits.Time = 2 * time.Second
	ctx := t.Context()
	m, err := ts.Transcode(ctx, with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: 3})
	out := ""
	if mode == "leave-child" {
		if err != nil {
			t.Fatal(err)
		}
		out = m.Output
	} else if e, ok := errors.AsType[*ProgramError](err); ok && e.Class == ClassTimeout {
		out = e.Output
	} else {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out, "child")))
	if err != nil {
		t.Fatalf("Atoi: %v, %v, error %v; want no error", mode, out, err)
	}
	// A killed process ends when the system runs it for the last time.
	if p, err := os.FindProcess(pid); err == nil {
		symtest.Await(t, 10*time.Second, fmt.Sprintf("%s: the end of the child %d", mode, pid), func() bool { return !running(p) })
	}
}

// running reports whether a process lives and is no zombie.
func running(p *os.Process) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	r := room(t)
	ts := probed(t, r, Program{Name: "test", Command: transcodetest.Command("-mode", "hang", "-log", filepath.Join(t.TempDir(), "log"))})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := ts.Transcode(ctx, with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: 3})
	if !errors.Is(err, context.Canceled) || ClassOf(err) != ClassInfra {
		t.Error(err)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	r := room(t)
	ts := probed(t, r, Program{Name: "test", Command: transcodetest.Command("-mode", "fail")})
	r.free = func(string) (int64, error) { return 100, nil }
	_, err := ts.Transcode(t.Context(), with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: 3})
	if ClassOf(err) != ClassInfra || !strings.Contains(err.Error(), "disk") {
		t.Error(err)
	}
}

func TestUnusable(t *testing.T) {
	t.Parallel()
	r := room(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    Program
		want string
	}{
		{Program{Name: "a"}, "the command is empty"},
		{Program{Name: "a", Command: []string{"/nowhere/symcachegen", "-pdb", "{pdb}"}}, "/nowhere/symcachegen (with 2 arguments) cannot be run"},
		{Program{Name: "a", Command: []string{plain, "{pdb}"}}, "cannot be run"},
		{Program{Name: "a", Command: transcodetest.Command("-version", "3.1.0"), Version: "3.2.0"}, "makes version 3.1.0, but is configured to make 3.2.0"},
	} {
		ts := NewTranscoders(r, nil, c.p)
		if err := ts.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: Probe: error %v, want an error, one with %q", c.p.Command, err, c.want)
		}
		if got := ts.Versions(); len(got) != 0 {
			t.Errorf("Versions: %v, want none", got)
		}
		_, err := ts.Transcode(t.Context(), with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: 3})
		if ClassOf(err) != ClassInfra {
			t.Error(err)
		}
	}
}

func TestSeveral(t *testing.T) {
	t.Parallel()
	r := room(t)
	p := func(v, mode string) Program {
		return Program{Name: v, Command: transcodetest.Command("-version", v, "-mode", mode)}
	}
	ts := probed(t, r, p("3.1.0", ""), p("3.2.0", ""), p("4.1.0", ""), p("4.0.7", "fail"))
	if got := versions(ts); got != "[3.2.0 4.1.0]" {
		t.Errorf(`versions: %q, want "[3.2.0 4.1.0]"`, got)
	}
	for major, want := range map[int]string{3: "3.2.0", 4: "4.1.0", 5: ""} {
		m, err := ts.Transcode(t.Context(), with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: major})
		if want == "" {
			if ClassOf(err) != ClassInfra {
				t.Error(err)
			}
		} else if err != nil || m.Version.String() != want {
			t.Errorf("%d: got %+v, error %v; want Version.String() %v", major, m, err, want)
		}
	}
}

// TestProgramChanges: a replaced program is probed before it gets work, and the
// spare gets the work of a missing one.
func TestProgramChanges(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a script as the program")
	}
	r := room(t)
	exe := filepath.Join(t.TempDir(), "prog")
	script := func(version string) {
		t.Helper()
		cmd := transcodetest.Command("-version", version)
		text := "#!/bin/sh\nexec '" + cmd[0] + "' " + strings.Join(cmd[1:len(cmd)-1], " ") + " \"$1\"\n"
		if err := os.WriteFile(exe+".new", []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(exe+".new", exe); err != nil {
			t.Fatal(err)
		}
	}
	script("3.2.0")
	ts := probed(t, r, Program{Name: "changing", Command: []string{exe, "{pdb}"}}, Program{Name: "spare", Command: transcodetest.Command("-version", "3.1.0")})
	made := func() string {
		t.Helper()
		m, err := ts.Transcode(t.Context(), with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: 3})
		if err != nil {
			t.Fatal(err)
		}
		return m.Version.String()
	}
	if v := made(); v != "3.2.0" {
		t.Errorf(`made: %q, want "3.2.0"`, v)
	}
	script("3.30.0")
	if v := made(); v != "3.30.0" || versions(ts) != "[3.30.0]" {
		t.Errorf(`made: %q, %q; want "3.30.0", "[3.30.0]"`, v, versions(ts))
	}
	if err := os.Remove(exe); err != nil {
		t.Fatal(err)
	}
	if v := made(); v != "3.1.0" || versions(ts) != "[3.1.0]" {
		t.Errorf(`made: %q, %q; want "3.1.0", "[3.1.0]"`, v, versions(ts))
	}
	script("3.4.0")
	if ts.Refresh(t.Context()); versions(ts) != "[3.4.0]" {
		t.Errorf(`got %q, want "[3.4.0]"`, versions(ts))
	}
}

func TestBadInputs(t *testing.T) {
	t.Parallel()
	r := room(t)
	log := filepath.Join(t.TempDir(), "log")
	ts := probed(t, r, Program{Name: "test", Command: transcodetest.Command("-log", log)})
	good := samplePDB(t)
	other := probeID
	other.GUID[3]++
	for _, c := range []struct {
		what string
		body []byte
		id   debugid.ID
	}{
		{"portable", []byte("BSJB\x01\x00\x01\x00 and so on"), probeID},
		{"text", []byte("<html>sorry</html>"), probeID},
		{"empty", nil, probeID},
		{"cut", good[:len(good)/2], probeID},
		{"other", good, other},
	} {
		sc := with(t, r, "app.pdb")
		if err := os.WriteFile(sc.PDB(), c.body, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ts.Transcode(t.Context(), sc, Job{Name: "app.pdb", ID: c.id, Major: 3}); ClassOf(err) != ClassBadSource {
			t.Errorf("%s: Transcode: error %v, want ClassOf(err) %v", c.what, err, ClassBadSource)
		}
	}
	if b, err := os.ReadFile(log); err != nil || strings.Count(string(b), "\n") != 1 {
		t.Errorf("the program ran for them: %q, %v; want its one first run", b, err)
	}
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	a, err := OpenWorkspace(root)
	if err != nil {
		t.Fatal(err)
	}
	sc, err := a.New("app.pdb")
	if err != nil {
		t.Fatal(err)
	}
	// One whose process died, and folders that are none of ours.
	dead, err := OpenWorkspace(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.New("app.pdb"); err != nil {
		t.Fatal(err)
	}
	_ = dead.lock.Close()
	for _, d := range []string{"wabcdefg", "mine", "w2345678/data"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b, err := OpenWorkspace(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dead.dir); !os.IsNotExist(err) {
		t.Error("the dead one's folder stays:", err)
	}
	for _, d := range []string{filepath.Dir(sc.PDB()), b.dir, filepath.Join(root, "mine"), filepath.Join(root, "w2345678/data"), filepath.Join(root, "wabcdefg")} {
		if _, err := os.Stat(d); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(a.dir); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestLocalName(t *testing.T) {
	sc := &Scratch{dir: "/w/wabcdefg/1"}
	for name, want := range map[string]string{
		"app.pdb": "app.pdb", "a b.PDB": "x.pdb", "App_2-1.PDB": "App_2-1.PDB", "": "x.pdb", "..": "x.pdb", "a/b.pdb": "x.pdb", `a\b`: "x.pdb", "a:b": "x.pdb", "nul.pdb": "x.pdb", "COM1": "x.pdb",
		"x.": "x.pdb", "x ": "x.pdb", "a\x00": "x.pdb", strings.Repeat("n", 120): "x.pdb", "console.pdb": "console.pdb", "com10.pdb": "com10.pdb", "-rf": "x.pdb",
		"a;exec touch INJ;.pdb": "x.pdb", "a&calc&.pdb": "x.pdb", "$(id).pdb": "x.pdb", "`id`": "x.pdb", "a'b": "x.pdb", "%PATH%.pdb": "x.pdb",
		"a^b": "x.pdb", "a!b": "x.pdb", "a=b": "x.pdb", "a,b": "x.pdb", "a(b)": "x.pdb", "a{out}": "x.pdb", "~a": "x.pdb", "caf\u00e9.pdb": "x.pdb", "a\n": "x.pdb",
	} {
		if got := sc.localName(name); got != want {
			t.Errorf("%q: localName: %q, want %v", name, got, want)
		}
	}
}

// TestBatchFilesAreRefused: cmd.exe would read their arguments.
func TestBatchFilesAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run.bat", "RUN.CMD", "run.Bat"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		p := Program{Name: "x", Command: []string{path, "{pdb}"}}
		if exe, err := p.executable(); err == nil || !strings.Contains(err.Error(), "batch file") {
			t.Errorf("%s: executable() = %q, %v; want an error that says it is a batch file", name, exe, err)
		}
	}
}

// TestForeignScratchFolder: a folder that others may write to, a link and a file
// are not worked in.
func TestForeignScratchFolder(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes of folders are those of Unix")
	}
	for what, prepare := range map[string]func(root string) error{
		"writable for all":       func(root string) error { return errors.Join(os.Mkdir(root, 0o700), os.Chmod(root, 0o777)) },
		"writable for the group": func(root string) error { return errors.Join(os.Mkdir(root, 0o700), os.Chmod(root, 0o770)) },
		"a link":                 func(root string) error { return os.Symlink(t.TempDir(), root) },
		"a file":                 func(root string) error { return os.WriteFile(root, nil, 0o600) },
	} {
		root := filepath.Join(t.TempDir(), "sd")
		if err := prepare(root); err != nil {
			t.Fatal(err)
		}
		r, err := OpenWorkspace(root)
		if err != nil {
			t.Errorf("%s: OpenWorkspace: error %v, want no error", what, err)
			continue
		}
		if parent := filepath.Dir(r.dir); parent == root || filepath.Dir(parent) != filepath.Dir(root) {
			t.Errorf("%s: the room is %s; want it in a new folder beside %s", what, r.dir, root)
		} else if info, err := os.Lstat(parent); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: the new folder has mode %v (%v), want 0700", what, info.Mode(), err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("%s: close: %v", what, err)
		}
	}
	// One's own is used again.
	root := filepath.Join(t.TempDir(), "sd")
	for range 2 {
		r, err := OpenWorkspace(root)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(r.dir) != root {
			t.Errorf("the room is %s, want it in %s", r.dir, root)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLimits(t *testing.T) {
	for size, want := range map[int64]time.Duration{0: 2 * time.Minute, 1: 150 * time.Second, 100 << 20: 150 * time.Second, 250 << 20: 210 * time.Second, 1 << 40: time.Hour} {
		if got := (ProgramLimits{}).time(size); got != want {
			t.Errorf("%d: time: %v, want %v", size, got, want)
		}
	}
}

func TestNewest(t *testing.T) {
	var all []symcache.Version
	for _, s := range []string{"4.0.0", "3.1.0", "3.12.0", "3.2.9", "5.1.1"} {
		v, err := symcache.ParseVersion(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if got := fmt.Sprint(Newest(all)); got != "[3.12.0 4.0.0 5.1.1]" {
		t.Errorf(`got %q, want "[3.12.0 4.0.0 5.1.1]"`, got)
	}
}

// TestWine runs the program for tests as a Windows program, in a new prefix or
// in that of SYMDEPOT_WINEPREFIX.
func TestWine(t *testing.T) {
	wine := ""
	for _, name := range []string{"wine64", "wine", "wine64-stable", "/usr/lib/wine/wine64"} {
		if p, err := exec.LookPath(name); err == nil {
			wine = p
			break
		}
	}
	if wine == "" {
		t.Skip("needs Wine")
	}
	if testing.Short() {
		t.Skip("takes a minute")
	}
	exe := filepath.Join(t.TempDir(), "t.exe")
	build := exec.Command("go", "test", "-vet=off", "-c", "-o", exe, ".")
	build.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("CombinedOutput: error %v, %s; want no error", err, out)
	}
	r := room(t)
	ts := NewTranscoders(r, nil, Program{Name: "wine", Wine: true, WinePrefix: os.Getenv("SYMDEPOT_WINEPREFIX"), Command: []string{wine, exe, transcodetest.Word, "-version", "3.1.0", "-mode", "bad.pdb=fail,slow.pdb=hang", "-pdb", "{pdb}"}})
	if err := ts.Probe(t.Context()); err != nil {
		e, _ := errors.AsType[*ProgramError](err)
		if strings.Contains(e.Output, "bcryptprimitives.dll not found") {
			t.Skip("needs a Wine that runs programs made with Go (8.8 or newer)")
		}
		t.Fatalf("Probe: error %v, %s; want no error", err, e.Output)
	}
	m, err := ts.Transcode(t.Context(), with(t, r, "app.pdb"), Job{Name: "app.pdb", ID: probeID, Major: 3})
	if err != nil || m.Version.String() != "3.1.0" {
		t.Errorf(`Transcode: %+v, error %v; want Version.String() "3.1.0"`, m, err)
	}
	if _, err := ts.Transcode(t.Context(), with(t, r, "bad.pdb"), Job{Name: "bad.pdb", ID: probeID, Major: 3}); ClassOf(err) != ClassExit {
		t.Error(err)
	}
	ts.list[0].Limits.Time = 10 * time.Second
	if _, err := ts.Transcode(t.Context(), with(t, r, "slow.pdb"), Job{Name: "slow.pdb", ID: probeID, Major: 3}); ClassOf(err) != ClassTimeout {
		t.Error(err)
	}
}

// TestArgumentsAreNotShown: the arguments of a program, which may hold secrets, are neither
// in errors nor in the log.
func TestArgumentsAreNotShown(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("x"), 0o700); err != nil {
		t.Fatal(err)
	}
	const secret = "planted-argument"
	for what, program := range map[string]string{"missing": filepath.Join(t.TempDir(), "gone"), "not a program": plain, "failing": transcodetest.Command("-exit", "3")[0]} {
		var log strings.Builder
		command := []string{program, "--key=" + secret, secret, "{pdb}"}
		ts := NewTranscoders(room(t), slog.New(slog.NewJSONHandler(&log, nil)), Program{Name: "a", Command: command})
		err := ts.Probe(t.Context())
		if err == nil {
			t.Errorf("%s: Probe: no error, want one", what)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows an argument: %v", what, err)
		}
		if strings.Contains(log.String(), secret) || !strings.Contains(log.String(), filepath.Base(program)) || !strings.Contains(log.String(), "with 3 arguments") {
			t.Errorf("%s: the log is %s; want the program and the number of its arguments, not their text", what, log.String())
		}
	}
}
