package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
)

// TestBenchQuery queries a store of 200,000 keys for one file, with a separate
// process each time, as build scripts do.
func TestBenchQuery(t *testing.T) {
	commandtest.NeedBench(t, "go")
	work := t.TempDir()
	bin := filepath.Join(work, "symstore")
	run := func(want int, name string, args ...string) time.Duration {
		began := time.Now()
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		took := time.Since(began)
		code := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			code, err = exit.ExitCode(), nil
		}
		if err != nil || code != want {
			t.Fatalf("got %s, %q, %d, error %v, %s; want %v", name, args, code, err, out, want)
		}
		return took
	}
	run(0, "go", "build", "-o", bin, "../../cmd/symdepot")
	pdb, err := filepath.Abs("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(work, "HELLO-x64.PDB") // the store spells it otherwise
	body, err := os.ReadFile(pdb)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tiers := range []string{"", "/3"} {
		store := filepath.Join(work, "store"+strings.TrimLeft(tiers, "/"))
		run(0, bin, slices.DeleteFunc([]string{"add", "/f", pdb, "/s", store, "/t", "x", tiers}, func(s string) bool { return s == "" })...)
		for i := range 200_000 {
			n := i / 10 // so many keys has a name
			name, above := fmt.Sprintf("%c%clib%d.dll", 'a'+n%26, 'a'+n/26%26, n), ""
			if tiers != "" {
				above = name[:2]
			}
			dir := filepath.Join(store, above, name, fmt.Sprintf("%08X%x", i, 0x1000*(i%97+1)))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			what, file string
			code       int
		}{{"a file that is there", pdb, 0}, {"in another case", other, 0}, {"a file that is not there", bin + ".pdb", 1}} {
			if c.code == 1 {
				if err := os.WriteFile(c.file, body, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var took, nothing []float64
			for range 51 {
				took = append(took, run(c.code, bin, "query", "/f", c.file, "/s", store).Seconds()*1000)
				nothing = append(nothing, run(0, "true").Seconds()*1000)
			}
			verdict := "reached"
			if median(took) > 20 {
				verdict = "NOT REACHED"
			}
			t.Logf("query of %s among 200,000 keys%s: %.1f ms, at most %.1f ms (want 20: %s); a process that does nothing %.1f ms", c.what,
				map[string]string{"": "", "/3": ", two tiers"}[tiers], median(took), slices.Max(took), verdict, median(nothing))
		}
	}
}
