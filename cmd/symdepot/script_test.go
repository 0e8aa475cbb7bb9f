package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestMain makes the test binary the real command when a script calls it.
func TestMain(m *testing.M) { commandtest.Main(m) }

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
// until it says its base URL, and puts that into $URL and its address into $ADDR. It ends with the script,
// which fails unless the server then stops by itself with exit code 0.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("serve cannot be negated")
	}
	s, err := commandtest.StartServe(ts.Getenv, ts.MkAbs("."), args...)
	ts.Check(err)
	ts.Setenv("URL", s.URL)
	_, addr, _ := strings.Cut(s.URL, "://")
	ts.Setenv("ADDR", addr)
	ts.Setenv("DEBUGINFOD_URLS", s.URL)
	ts.Defer(func() {
		if err := s.Stop(); err != nil {
			ts.Fatalf("serve: %v\n%s", err, s.Log.String())
		}
	})
}

// stopCommand interrupts a process, or kills it where that is not possible.
func stopCommand(cmd *exec.Cmd) error {
	err := commandtest.Interrupt(cmd)
	if errors.Is(err, commandtest.ErrKilled) {
		return cmd.Process.Kill()
	}
	return err
}
