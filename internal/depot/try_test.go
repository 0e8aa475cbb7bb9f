package depot

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
)

// TestTryOutranksNothing: a file of a try build is an answer only if no other
// transaction has one, however the order in which they came.
func TestTryOutranksNothing(t *testing.T) {
	d, c := newDepot(t)
	regular, try := symFile(symID, 300), symFile(symID, 900)
	want := func(what string, content []byte) {
		t.Helper()
		_, got, err := get(t, d, answer.Scope{}, symPath)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: a lookup answers %d bytes, error %v; want the %d bytes", what, len(got), err, len(content))
		}
	}
	push := func(class string, content []byte) int64 {
		c.advance(time.Second)
		return pushBuild(t, d, stage.Labels{Product: "Firefox", Class: class}, []file{{"app.sym", content}})
	}
	push("try", try)
	want("only a try build", try)
	first := push("", regular)
	want("a regular build after a try build", regular)
	push("try", try)
	want("a try build after a regular build", regular)
	push("try", regular)
	want("a try build with the bytes of the regular build", regular)
	if _, err := d.Retention.Remove(t.Context(), first, ""); err != nil {
		t.Fatal(err)
	}
	push("nightly", try)
	want("a build of another class with the bytes of a try build", try)
}

// TestUnreadableSymbols: a .sym file without functions does not hide a readable file of
// the module. If there is none, the answer says why.
func TestUnreadableSymbols(t *testing.T) {
	const id = helloID
	empty := []byte("MODULE windows x86_64 " + id + " hello-x64.pdb\nFILE 0 a.c\n")
	good := []byte("MODULE windows x86_64 " + id + " hello-x64.pdb\nFUNC 1000 20 0 from_sym\n")
	q := symbolicate.ModuleQuery{DebugFile: "hello-x64.pdb", DebugID: id}
	for _, tt := range []struct {
		what  string
		files []file
		want  string // the kind of file that answers; empty: none
	}{
		{"another .sym", []file{{"hello-x64.sym", good}}, "breakpad"},
		{"the PDB", []file{testdata(t, "pdb/hello-x64.pdb")}, "pdb"},
		{"nothing", nil, ""},
	} {
		d := openNew(t)
		works(t, d)
		for _, f := range append(tt.files, file{"hello-x64.sym", empty}) {
			add(t, d, "", f)
		}
		hold := func(ctx context.Context, wait func(context.Context) error) (bool, error) { return false, wait(ctx) }
		for name, src := range map[string]symbolicate.Source{"server": d.Symbols.Source(SymbolsAsk{Hold: hold}), "command": symbolicate.Direct{Service: d.Symbols.SymbolsWork}} {
			for range 2 { // the second answer is of the remembered failure
				m, err := src.Module(t.Context(), q)
				switch {
				case tt.want == "" && name == "server":
					if !errors.As(err, new(symbolicate.UnusableError)) {
						t.Errorf("%s, only a .sym without functions: error %v, want one that says that it cannot be read", name, err)
					}
				case tt.want == "":
					if !errors.Is(err, symbolicate.ErrNoFunctions) {
						t.Errorf("%s, only a .sym without functions: error %v, want ErrNoFunctions", name, err)
					}
				case err != nil || !strings.HasPrefix(m.From, tt.want):
					t.Errorf("%s, with %s besides: %+v, error %v; want an answer of the %s", name, tt.what, m, err, tt.want)
				}
				if m != nil {
					m.Done()
				}
			}
		}
	}
}

// TestSymbolsWithoutID: a .sym file whose MODULE record has only zeros is not kept: its code
// id alone leads nowhere.
func TestSymbolsWithoutID(t *testing.T) {
	sym := "MODULE windows x86_64 000000000000000000000000000000000 a.pdb\nINFO CODE_ID 5F000000A000 a.exe\nFUNC 1000 10 0 main\n"
	if _, err := DryRun(t.Context(), nil, Source{Path: "a.sym", Content: bytesContent{Reader: bytes.NewReader([]byte(sym))}}); !errors.Is(err, ErrNoID) {
		t.Errorf("a .sym without an id: error %v, want ErrNoID", err)
	}
}
