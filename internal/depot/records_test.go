package depot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/storerecords"
	"github.com/symdepot/symdepot/layout"
)

// TestRecords: refs.ptr and file.ptr of added files, only if they are asked for, and only
// of what a caller sees.
func TestRecords(t *testing.T) {
	t.Parallel()
	const (
		key  = "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/"
		line = `%010d,file,"hello-x64.pdb",pri,,N,,`
		to   = `PATH:\\server\symbols\hello-x64.pdb\F9EFE0B6AE7500394C4C44205044422E1\hello-x64.pdb`
	)
	all, game, none := answer.Scope{}, answer.Scope{Products: []string{"Game"}}, answer.Scope{Products: []string{}}
	pdb, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		opt       storerecords.Options
		refs, ptr bool
	}{
		"off":        {},
		"refs only":  {storerecords.Options{Refs: true}, true, false},
		"with share": {storerecords.Options{Refs: true, Share: `\\server\symbols`}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Records: c.opt})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			add(t, d, "Game", file{"/home/eve/build/hello-x64.pdb", pdb})
			add(t, d, "Secret", file{`C:\secret\hello-x64.pdb`, pdb})
			gone := add(t, d, "Game", file{"/home/eve/build/hello-x64.pdb", pdb})
			if _, err := d.Retention.Remove(t.Context(), gone, "eve"); err != nil {
				t.Fatal(err)
			}
			ask := func(what string, scope answer.Scope, leaf string, want string) {
				t.Helper()
				segs := strings.Split(strings.Trim(key, "/")+"/"+leaf, "/")
				req, err := layout.Route(segs)
				if err != nil {
					req, err = layout.RouteAdmin(segs)
				}
				if err != nil {
					t.Fatal(err)
				}
				var text []byte
				f, err := d.Get(t.Context(), answer.Question{Scope: scope, Request: req})
				if err == nil {
					defer f.Close()
					text, err = io.ReadAll(io.NewSectionReader(f, 0, f.Size))
				}
				if want == "" && !errors.Is(err, fs.ErrNotExist) || want != "" && (err != nil || string(text) != want) {
					t.Errorf("%s: %s is %q, error %v; want %q", what, leaf, text, err, want)
				}
			}
			refs := func(numbers ...int) (text string) {
				if !c.refs {
					return ""
				}
				for i, n := range numbers {
					if i > 0 {
						text += "\r\n"
					}
					text += fmt.Sprintf(line, n)
				}
				return text
			}
			ptr := ""
			if c.ptr {
				ptr = to
			}
			ask("all", all, "refs.ptr", refs(1, 2))
			ask("one product", game, "refs.ptr", refs(1))
			ask("nothing", none, "refs.ptr", "")
			ask("all", all, "file.ptr", ptr)
			ask("one product", game, "file.ptr", ptr)
			ask("nothing", none, "file.ptr", "")
		})
	}
}
