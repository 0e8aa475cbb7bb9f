// Package commandtest runs the program in tests: the test binary is the program too, and
// servers, clusters and clients of it are processes of that binary.
package commandtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/derive/transcode/transcodetest"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/run/command"
)

// Main runs the tests of a package whose test binary is also the program: under the name of
// the program, it is the real command.
func Main(m *testing.M) {
	transcodetest.Main() // what some tests use as a transcoder
	setClock()
	opt := hasten()
	program := func() { os.Exit(profiled(func() int { return command.Main(opt) })) }
	commands := map[string]func(){
		"symdepot":     program,
		"symstore":     program,
		"convertstore": program,
		"agestore":     program,
		"symchk":       program,
		"loadgen":      loadgen,
	}
	maps.Copy(commands, systemCommands())
	testscript.Main(tests{m}, commands)
}

// tests ends what the tests of this process share.
type tests struct{ *testing.M }

func (t tests) Run() int {
	defer pgtest.End()
	// Pushes remember hashes there, and the next test must not know them.
	if dir, err := os.MkdirTemp("", "symdepot-cache"); err == nil && os.Setenv("XDG_CACHE_HOME", dir) == nil {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	return t.M.Run()
}

// ErrKilled says that this system cannot interrupt one process of a test.
var ErrKilled = errors.New("killed instead of interrupted")

// Serving is a running server process.
type Serving struct {
	Cmd *exec.Cmd
	URL string
	Out symtest.Output // its standard output
	Log symtest.Output // its standard error
}

// StartServe runs this test binary as `symdepot serve`.
func StartServe(getenv func(string) string, dir string, args ...string) (*Serving, error) {
	return StartServer(getenv, dir, append([]string{"serve"}, args...)...)
}

// StartServer runs this test binary with a command that serves, on a free port.
func StartServer(getenv func(string) string, dir string, args ...string) (*Serving, error) {
	exe := filepath.Join(getenv("REPO"), "symdepot")
	if p, err := exec.LookPath("symdepot"); err == nil {
		exe = p
	}
	for _, d := range filepath.SplitList(getenv("PATH")) {
		if p, err := exec.LookPath(filepath.Join(d, "symdepot")); err == nil {
			exe = p
			break
		}
	}
	s := &Serving{Cmd: exec.CommandContext(context.Background(), exe, slices.Concat(args[:1], []string{"--listen", "127.0.0.1:0"}, args[1:])...)}
	s.Cmd.Dir = dir
	PrepareInterrupt(s.Cmd)
	for _, k := range []string{"PATH", "HOME", "SYMDEPOT_DEPOT", "TMPDIR", "TESTSCRIPT_COMMAND", "LOCALAPPDATA", "TEMP", "TMP",
		"SYMDEPOT_DEPOT_BLOBS", "SYMDEPOT_TEST_TIMES", "SYMDEPOT_TEST_REACH", "SYMDEPOT_TEST_CLOCK", "PGPASSWORD", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		s.Cmd.Env = append(s.Cmd.Env, k+"="+getenv(k))
	}
	for _, k := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if v := getenv(k); v != "" {
			s.Cmd.Env = append(s.Cmd.Env, k+"="+v)
		}
	}
	s.Cmd.Env = append(s.Cmd.Env, profilesVariable+"="+os.Getenv(profilesVariable))
	s.Cmd.Stderr = &s.Log
	stdout, err := s.Cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	out := io.TeeReader(stdout, &s.Out)
	if err := s.Cmd.Start(); err != nil {
		return nil, err
	}
	timer := time.AfterFunc(time.Minute, func() { _ = s.Cmd.Process.Kill() })
	defer timer.Stop()
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if _, at, ok := strings.Cut(sc.Text(), "://127.0.0.1:"); ok {
			s.URL = "http://127.0.0.1:" + strings.TrimRight(strings.Fields(at)[0], "/.,")
			if strings.Contains(sc.Text(), "https:") {
				s.URL = "https" + strings.TrimPrefix(s.URL, "http")
			}
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return s, nil
		}
	}
	_ = s.Cmd.Wait()
	return nil, fmt.Errorf("serve did not say its base URL: %s", s.Log.String())
}

// Stop interrupts the server and waits for its end.
func (s *Serving) Stop() error {
	err := Interrupt(s.Cmd)
	if errors.Is(err, ErrKilled) {
		_ = s.Cmd.Process.Kill()
		_ = s.Cmd.Wait()
		return nil
	}
	if err != nil {
		return err
	}
	timer := time.AfterFunc(40*time.Second, func() { _ = s.Cmd.Process.Kill() })
	defer timer.Stop()
	return s.Cmd.Wait()
}

// Symdepot runs the real command on a depot and returns its exit code.
func Symdepot(t *testing.T, depot string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "symdepot", append([]string{"--depot", depot}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// SymFiles writes n Breakpad files into a folder: the cheapest real symbol
// files that are all different. Their ids carry series and number.
func SymFiles(t *testing.T, dir string, series, n, size int) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		body := fmt.Sprintf("MODULE Linux x86_64 %s lib%d-%d.so\nFUNC 1000 10 0 f\n", SymID(series, i), series, i)
		body += strings.Repeat("PUBLIC 2000 0 g\n", 1+size*(i%5)/16)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("lib%d-%d.so.sym", series, i)), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// SymID returns the id of file i of a series, as a Breakpad file has it.
func SymID(series, i int) string { return fmt.Sprintf("%08X%024X0", series+1, i+1) }

// ServeDepot runs the real server on a depot for the length of the test.
func ServeDepot(t *testing.T, depot string, args ...string) *Serving {
	t.Helper()
	return ServeDepotOf(t, "", depot, args...)
}

// ServeDepotOf is ServeDepot with the program of a folder; "": this test binary.
func ServeDepotOf(t *testing.T, program, depot string, args ...string) *Serving {
	t.Helper()
	path := os.Getenv("PATH")
	if program != "" {
		path = program + string(filepath.ListSeparator) + path
	}
	env := map[string]string{"SYMDEPOT_DEPOT": depot, "PATH": path, "HOME": t.TempDir()}
	s, err := StartServe(func(k string) string { return env[k] }, ".", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("serve: %v\n%s", err, s.Log.String())
		}
	})
	return s
}
