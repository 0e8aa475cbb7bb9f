package depot

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/storerecords"
	"github.com/symdepot/symdepot/layout"
)

// TestStoreRecords: the records list what a caller sees, and are an option.
func TestStoreRecords(t *testing.T) {
	t.Parallel()
	pdb, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	const line = `"hello-x64.pdb\F9EFE0B6AE7500394C4C44205044422E1","hello-x64.pdb"` + "\r\n"
	for _, on := range []bool{true, false} {
		d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Records: storerecords.Options{Refs: on, Index: on}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		add(t, d, "Game", file{"/home/eve/hello-x64.pdb", pdb})
		add(t, d, "Secret", file{`C:\secret\hello-x64.pdb`, pdb})
		all, game, secret := answer.Scope{}, answer.Scope{Products: []string{"Game"}}, answer.Scope{Products: []string{"Secret"}}
		for _, c := range []struct {
			name  string
			scope answer.Scope
			text  string
			found bool
		}{
			{"lastid.txt", all, "0000000002", true},
			{"lastid.txt", game, "0000000001", true},
			{"0000000001", game, line, true},
			{"0000000002", all, line, true},
			{"0000000002", game, "", false},
			{"lastid.txt", secret, "0000000002", true},
			{"0000000001", secret, "", true},
			{"0000000002", secret, line, true},
			{"0000000003", all, "", false},
			{"server.txt", all, "", false},
			{"lastid.txt", answer.Scope{Products: []string{}}, "0000000000", true},
		} {
			req, err := layout.RouteAdmin([]string{"000Admin", c.name})
			if err != nil {
				t.Fatal(err)
			}
			var text []byte
			f, err := d.Get(t.Context(), answer.Question{Scope: c.scope, Request: req})
			if err == nil {
				text, err = io.ReadAll(io.NewSectionReader(f, 0, f.Size))
				err = errors.Join(err, f.Close())
			}
			if found := on && c.found; found && (err != nil || string(text) != c.text) || !found && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("on %t, scope %v: %s is %q, error %v; want %q, found: %t", on, c.scope.Products, c.name, text, err, c.text, found)
			}
		}
	}
}
