package commandtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// The figures of BENCHMARKS.md: ratios to a known program, as medians of
// alternated runs in one session. They run with `make bench` only.

// NeedBench skips a test that measures figures of BENCHMARKS.md unless make bench runs it, and if a tool is missing.
func NeedBench(t *testing.T, tools ...string) {
	t.Helper()
	if os.Getenv("SYMDEPOT_BENCH") == "" {
		t.Skip("runs with make bench (SYMDEPOT_BENCH=1)")
	}
	for _, tool := range tools {
		symtest.Tool(t, tool)
	}
}

// RandomSyms writes n Breakpad files of exactly size bytes that do not compress.
func RandomSyms(t *testing.T, dir string, n, size int) (paths []string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(7, uint64(size)))
	noise := make([]byte, size)
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	for i := range n {
		id := fmt.Sprintf("%016X%016X0", size, i+1)
		name := fmt.Sprintf("lib%d-%d.so", size, i)
		head := fmt.Sprintf("MODULE Linux x86_64 %s %s\nINFO URL ", id, name)
		copy(noise, head)
		for j := len(head); j+8 <= size; j += 8 {
			v := rng.Uint64()
			for k := range 8 {
				noise[j+k] = digits[v>>(6*k)&63]
			}
		}
		noise[size-1] = '\n'
		p := filepath.Join(name, id, name+".sym")
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, p)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, p), noise, 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, "/"+filepath.ToSlash(p))
	}
	return paths
}
