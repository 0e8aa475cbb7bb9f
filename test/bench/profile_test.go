//go:build unix

package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestProfile does what servers and clients of users do most, for scripts/bench profile: each
// process of the program leaves a profile of its processor time in the folder that
// SYMDEPOT_TEST_PROFILES names, and make release optimizes for what they have in common.
func TestProfile(t *testing.T) {
	commandtest.NeedBench(t)
	if os.Getenv("SYMDEPOT_TEST_PROFILES") == "" {
		t.Skip("runs with scripts/bench profile (SYMDEPOT_TEST_PROFILES)")
	}
	t.Run("serve", func(t *testing.T) {
		tree := t.TempDir()
		loads := map[string][]string{"large": commandtest.RandomSyms(t, tree, 8, 10<<20), "small": commandtest.RandomSyms(t, tree, 256, 64<<10)}
		depot := filepath.Join(t.TempDir(), "depot")
		if code, _, errs := commandtest.Symdepot(t, depot, "add", tree); code != 0 {
			t.Fatalf("add: exit %d, %s; want 0", code, errs)
		}
		for name, paths := range loads {
			t.Run(name, func(t *testing.T) {
				load(t, commandtest.ServeDepot(t, depot, "--quiet").URL, 10, 32, paths, http.StatusOK)
			})
		}
		t.Run("missing", func(t *testing.T) {
			load(t, commandtest.ServeDepot(t, depot, "--quiet").URL, 10, 32, missingPaths(), http.StatusNotFound)
		})
		t.Run("logged", func(t *testing.T) { // with an access log
			load(t, commandtest.ServeDepot(t, depot).URL, 5, 32, missingPaths(), http.StatusNotFound)
		})
	})
	program := filepath.Join(t.TempDir(), "program")
	runMeasured(t, "go", "build", "-o", program, "../../cmd/symdepot")
	for name, path := range map[string]string{
		"PDB": filepath.Join(symtest.Material(t), "public/npm/electron-winstaller/Setup.pdb"), "ELF": program,
	} {
		t.Run("symbolicate "+name, func(t *testing.T) { symbolicateFor(t, path, 10*time.Second) })
	}
	t.Run("push", func(t *testing.T) {
		src := t.TempDir()
		commandtest.RandomSyms(t, src, 500, 1<<20)
		p := commandtest.NewPushDepot(t)
		for _, encoding := range []string{"none", "zstd"} {
			p.Must(t, "push", "--server", p.Serving.URL, "--product", "app", "--version", encoding, "--encoding", encoding, src)
		}
	})
}

// symbolicateFor asks a server for the functions of one file's addresses for some time.
func symbolicateFor(t *testing.T, path string, long time.Duration) {
	depot, sym := filepath.Join(t.TempDir(), "depot"), filepath.Join(t.TempDir(), "x.sym")
	if code, _, errs := commandtest.Symdepot(t, depot, "add", path); code != 0 {
		t.Fatalf("add: exit %d, %s; want 0", code, errs)
	}
	runMeasured(t, "sh", "-c", fmt.Sprintf("symdepot dump-syms %s >%s", path, sym))
	module, id, at := lineAddresses(t, sym, 100_000)
	s := commandtest.ServeDepot(t, depot, "--quiet")
	for end := time.Now().Add(long); time.Now().Before(end); {
		for from := 0; from < len(at); from += 1000 {
			resp, err := http.Post(s.URL+"/symbolicate/v5", "application/json", bytes.NewReader(v5Body(module, id, at[from:min(from+1000, len(at))])))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("symbolicate: status %d, want 200", resp.StatusCode)
			}
		}
	}
}
