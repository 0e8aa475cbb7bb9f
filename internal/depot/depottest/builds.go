package depottest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// File is a symbol file.
type File struct {
	Name string // base name
	Path string // of the request of a debugger
	Body []byte

	// downloaded: only the cache holds it, if nothing has held it before.
	downloaded bool
}

// Format makes the files of builds: those of one module are alike, so that they become cold.
type Format func(tb testing.TB, module, build int) File

// functions are the functions of a module: enough text for a file that becomes cold.
const functions = 5000

// Breakpad makes Breakpad files.
func Breakpad(tb testing.TB, module, build int) File {
	tb.Helper()
	id := idOf(module, build)
	name := fmt.Sprintf("app%d.so", module)
	body := fmt.Appendf(nil, "MODULE Linux x86_64 %X1 %s\n", id[:16], name)
	return fileOf(tb, layout.BreakpadTree, name+".sym", append(body, text(module, build)...))
}

// ELF makes ELF files with a build-id.
func ELF(tb testing.TB, module, build int) File {
	tb.Helper()
	b := symtest.Testdata(tb, "elf/libprog.so")
	var old []byte
	if _, err := fmt.Sscanf(string(identified(tb, b, "libprog.so").BuildID), "%x", &old); err != nil {
		tb.Fatal(err)
	}
	id := idOf(module, build)
	b = append(bytes.Replace(b, old, id[:len(old)], 1), text(module, build)...)
	return fileOf(tb, layout.Unified, fmt.Sprintf("app%d.so", module), b)
}

func idOf(module, build int) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%d %d", module, build))
}

// text lists functions. Each build has a few of other sizes than the one before.
func text(module, build int) []byte {
	r := rand.New(rand.NewPCG(uint64(module), 1))
	sizes := make([]int, functions)
	for i := range sizes {
		sizes[i] = 16 + r.IntN(4000)
	}
	for range 3 * build {
		sizes[r.IntN(functions)] += 16
	}
	var b []byte
	at := 0x1000
	for i, size := range sizes {
		b = symtest.AppendFunction(b, at, size, i)
		at += size
	}
	return b
}

func identified(tb testing.TB, body []byte, name string) objfile.Object {
	tb.Helper()
	list, err := objfile.Identify(bytes.NewReader(body), int64(len(body)), name, objfile.Options{})
	if err != nil || len(list) != 1 {
		tb.Fatalf("%s: objects %v, %v; want one", name, list, err)
	}
	return list[0]
}

func fileOf(tb testing.TB, l layout.Layout, name string, body []byte) File {
	tb.Helper()
	paths := l.Paths(identified(tb, body, name).Object)
	if len(paths) == 0 {
		tb.Fatalf("%s has no path in the layout %s, want one", name, l.Name())
	}
	return File{Name: name, Path: paths[0], Body: body}
}

// ObjectOf is the only object of a file.
func ObjectOf(tb testing.TB, name string, body []byte) symfile.Object {
	tb.Helper()
	return identified(tb, body, name).Object
}
