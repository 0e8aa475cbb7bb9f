package depot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// endsAfter is a context that ends after its error was asked for some times.
type endsAfter struct {
	context.Context
	left atomic.Int64
}

func endAfter(ctx context.Context, asked int64) context.Context {
	c := &endsAfter{Context: ctx}
	c.left.Store(asked)
	return c
}

func (c *endsAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestCountGoesOn: a count of sources that was interrupted goes on where it was; after a restart of the server it begins
// anew, and ends with the same numbers.
func TestCountGoesOn(t *testing.T) {
	t.Parallel()
	gcc := symtest.Tool(t, "gcc")
	const files = 300
	src := t.TempDir()
	var main strings.Builder
	for i := range files {
		name := fmt.Sprintf("dir%d/file%d.h", i%7, i)
		symtest.Put(t, src, name, fmt.Appendf(nil, "int f%d(int x) { return x + %d; }\n", i, i))
		fmt.Fprintf(&main, "#include \"%s\"\n", name)
	}
	symtest.Put(t, src, "main.c", []byte(main.String()))
	cmd := exec.CommandContext(t.Context(), gcc, "-g", "-shared", "-fPIC", "-Wl,--build-id", "-fdebug-prefix-map="+src+"=/src", "-o", "prog.so", "main.c")
	cmd.Dir = src
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	body, err := os.ReadFile(filepath.Join(src, "prog.so"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := Open(t.Context(), dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	add(t, d, "app", file{"prog.so", body})
	ref := blob.Sum(body)
	ignored := []string{"*/dir3/*", "*/sysdeps/*", "*/csu/*"}
	named := int64(0)
	part := func() int64 {
		t.Helper()
		n, err := d.Sources.Count(endAfter(t.Context(), 60), answer.Scope{}, ref, ignored)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%+v, %v; want that the time is over", n, err)
		}
		return n.Named
	}
	for range 3 {
		n := part()
		if n <= named || n >= files {
			t.Fatalf("%d sources are counted after %d; want more, and not all", n, named)
		}
		named = n
	}
	whole := func() {
		t.Helper()
		n, err := d.Sources.Count(t.Context(), answer.Scope{}, ref, ignored)
		if want := int64(1 + files - 43); err != nil || n.Named != want || n.Found != 0 || len(n.Missing) != 20 { // main.c, and those of 6 folders
			t.Errorf("%+v, %v; want %d sources that are missing", n, err, want)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if d, err = Open(t.Context(), dir, Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if n := part(); n >= named {
		t.Errorf("%d sources are counted in the first part after a restart, want fewer than the %d of three parts", n, named)
	}
	whole()
	whole() // from memory
	if _, err := d.Sources.Count(endAfter(t.Context(), 20), answer.Scope{}, ref, ignored); err != nil {
		t.Errorf("the result is not remembered: %v", err)
	}
	add(t, d, "", file{"prog.so", body})
	for _, products := range [][]string{{""}, {}, {"app"}, {"other"}} {
		n, err := d.Sources.Count(t.Context(), answer.Scope{Products: products}, ref, ignored)
		if sees := len(products) > 0 && products[0] != "other"; err != nil || (n.Named > 0) != sees {
			t.Errorf("who sees the products %q is told of %d sources, %v", products, n.Named, err)
		}
	}
}
