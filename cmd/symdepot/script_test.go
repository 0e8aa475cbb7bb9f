package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symdepot/symdepot/internal/command"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/symtest"
	"github.com/symdepot/symdepot/internal/transcode/transcodetest"
)

// TestMain makes the test binary the real command when a script calls it.
func TestMain(m *testing.M) {
	transcodetest.Main() // what some tests use as a transcoder
	setClock()
	opt := hasten()
	opt.Version = version
	program := func() { command.Main(opt) }
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
	return t.M.Run()
}

// TestScripts runs testdata/script: the real binary, real files, and the real
// clients that are installed. A script that needs a missing one skips.
func TestScripts(t *testing.T) {
	t.Parallel()
	repo, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	files := scriptsHere(t)
	requireTools(t, files)
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("REPO", repo)
			env.Setenv("TESTDATA", filepath.Join(repo, "testdata"))
			env.Setenv("PEERS", os.Getenv("SYMDEPOT_PEERS"))
			env.Setenv("MATERIAL", os.Getenv("SYMDEPOT_MATERIAL"))
			env.Setenv("SYMDEPOT_DEPOT", filepath.Join(env.WorkDir, "depot"))
			env.Setenv("DEBUGINFOD_CACHE_PATH", filepath.Join(env.WorkDir, "cache"))
			env.Setenv("HOME", env.WorkDir)
			if home, err := os.UserHomeDir(); err == nil {
				env.Setenv("RUSTUP_HOME", cmp.Or(os.Getenv("RUSTUP_HOME"), filepath.Join(home, ".rustup")))
			}
			if dir, err := os.UserCacheDir(); err == nil && os.Getenv("GOCACHE") == "" {
				env.Setenv("GOCACHE", filepath.Join(dir, "go-build"))
			} else {
				env.Setenv("GOCACHE", os.Getenv("GOCACHE"))
			}
			env.Setenv("PATH", os.Getenv("SYMDEPOT_PEERS")+string(os.PathListSeparator)+env.Getenv("PATH"))
			return os.Mkdir(filepath.Join(env.WorkDir, "cache"), 0o755)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "material":
				_, err := os.Stat(filepath.Join(os.Getenv("SYMDEPOT_MATERIAL"), "expected.tsv"))
				return os.Getenv("SYMDEPOT_MATERIAL") != "" && err == nil, nil
			case "root":
				return os.Getuid() == 0, nil
			case "brokenfile": // a file of the system that can be opened, but not read
				_, err := os.ReadFile("/sys/class/net/lo/speed")
				var path *fs.PathError
				return runtime.GOOS != "windows" && errors.As(err, &path) && path.Op == "read", nil
			}
			if path, ok := strings.CutPrefix(cond, "exists:"); ok {
				_, err := os.Stat(path)
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: scriptCommands(),
	})
}

// requireTools fails for the programs without which a script skips or leaves out lines,
// where SYMDEPOT_REQUIRE names them.
func requireTools(t *testing.T, files []string) {
	t.Helper()
	conditions := regexp.MustCompile(`\[!?exec:([^\]]+)\]`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range conditions.FindAllSubmatch(text, -1) {
			if program := string(m[1]); !slices.Contains(ownPrograms, program) {
				symtest.Judge(t, program)
			}
		}
	}
}

// ownPrograms are the names under which scripts run this program, and cmd is part of
// Windows.
var ownPrograms = []string{"symdepot", "symstore", "convertstore", "agestore", "symchk", "cmd"}

// scriptsHere returns the scripts that this system can run. On Windows these are
// the ones that call no program of Unix unconditionally, unless they skip or stop
// without it themselves. The others become skipped tests.
func scriptsHere(t *testing.T) []string {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("scripts: %d, %v; want at least one", len(files), err)
	}
	if runtime.GOOS != "windows" {
		return files
	}
	calls := regexp.MustCompile(`(?m)^(?:! )?exec ([a-z0-9-]+)`)
	return slices.DeleteFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range calls.FindAllStringSubmatch(string(text), -1) {
			if slices.Contains(ownPrograms[:len(ownPrograms)-1], call[1]) || strings.Contains(string(text), "[!exec:"+call[1]+"] s") || strings.Contains(string(text), "\n[windows] skip") {
				continue
			}
			if _, err := exec.LookPath(call[1]); err != nil {
				t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) { t.Skipf("needs %s", call[1]) })
				return true
			}
		}
		return false
	})
}

// cmdServe starts `symdepot serve` on a free port with further arguments, waits
// until it says its base URL, and puts that into $URL. It ends with the script,
// which fails unless the server then stops by itself with exit code 0.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("serve cannot be negated")
	}
	s, err := startServe(ts.Getenv, ts.MkAbs("."), args...)
	ts.Check(err)
	ts.Setenv("URL", s.url)
	ts.Setenv("DEBUGINFOD_URLS", s.url)
	ts.Defer(func() {
		if err := s.stop(); err != nil {
			ts.Fatalf("serve: %v\n%s", err, s.log.String())
		}
	})
}

// errKilled says that this system cannot interrupt one process of a test.
var errKilled = errors.New("killed instead of interrupted")

// serving is a running server process.
type serving struct {
	cmd *exec.Cmd
	url string
	log symtest.Output // its standard error
}

// startServe runs this test binary as `symdepot serve`.
func startServe(getenv func(string) string, dir string, args ...string) (*serving, error) {
	return startServer(getenv, dir, append([]string{"serve"}, args...)...)
}

// startServer runs this test binary with a command that serves, on a free port.
func startServer(getenv func(string) string, dir string, args ...string) (*serving, error) {
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
	s := &serving{cmd: exec.CommandContext(context.Background(), exe, slices.Concat(args[:1], []string{"--listen", "127.0.0.1:0"}, args[1:])...)}
	s.cmd.Dir = dir
	prepareInterrupt(s.cmd)
	for _, k := range []string{"PATH", "HOME", "SYMDEPOT_DEPOT", "TMPDIR", "TESTSCRIPT_COMMAND", "LOCALAPPDATA", "TEMP", "TMP",
		"SYMDEPOT_DEPOT_BLOBS", "SYMDEPOT_TEST_TIMES", "SYMDEPOT_TEST_REACH", "SYMDEPOT_TEST_CLOCK", "PGPASSWORD", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		s.cmd.Env = append(s.cmd.Env, k+"="+getenv(k))
	}
	for _, k := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		if v := getenv(k); v != "" {
			s.cmd.Env = append(s.cmd.Env, k+"="+v)
		}
	}
	s.cmd.Stderr = &s.log
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	timer := time.AfterFunc(time.Minute, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	sc := bufio.NewScanner(out)
	for sc.Scan() {
		if _, at, ok := strings.Cut(sc.Text(), "://127.0.0.1:"); ok {
			s.url = "http://127.0.0.1:" + strings.TrimRight(strings.Fields(at)[0], "/.,")
			if strings.Contains(sc.Text(), "https:") {
				s.url = "https" + strings.TrimPrefix(s.url, "http")
			}
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return s, nil
		}
	}
	_ = s.cmd.Wait()
	return nil, fmt.Errorf("serve did not say its base URL: %s", s.log.String())
}

// stopCommand interrupts a process, or kills it where that is not possible.
func stopCommand(cmd *exec.Cmd) error {
	err := interrupt(cmd)
	if errors.Is(err, errKilled) {
		return cmd.Process.Kill()
	}
	return err
}

// stop interrupts the server and waits for its end.
func (s *serving) stop() error {
	err := interrupt(s.cmd)
	if errors.Is(err, errKilled) {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return nil
	}
	if err != nil {
		return err
	}
	timer := time.AfterFunc(40*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer timer.Stop()
	return s.cmd.Wait()
}
