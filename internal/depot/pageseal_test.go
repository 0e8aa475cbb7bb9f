package depot

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
)

// TestPagesTellNothing: the text of the begin of a page tells neither ids nor names nor sizes,
// not even by its length; another process of the depot reads it, and no other list takes it.
func TestPagesTellNothing(t *testing.T) {
	where := filepath.Join(t.TempDir(), "depot")
	open := func(where string) *Depot {
		d, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	d, other := open(where), open(where)
	names := []string{"a", "medium-name", strings.Repeat("long", 8), "z"}
	for i, name := range names {
		id := fmt.Sprintf("%08X2F41492B9369D6B9A05900001", i)
		add(t, d, "app", file{name + ".sym", bytes.Replace(symFile(id, 300+i), []byte("app.pdb"), []byte(name+".pdb"), 1)})
	}
	lists := map[string]func(d *Depot, after string) (n int, next string, err error){
		"objects by size": func(d *Depot, after string) (int, string, error) {
			p, err := d.Catalog.Objects(t.Context(), answer.Scope{}, catalog.ObjectQuery{Sort: catalog.SortSize, Limit: 1, After: after})
			return len(p.Objects), p.Next, err
		},
		"objects by name": func(d *Depot, after string) (int, string, error) {
			p, err := d.Catalog.Objects(t.Context(), answer.Scope{}, catalog.ObjectQuery{Sort: catalog.SortName, Limit: 1, After: after})
			return len(p.Objects), p.Next, err
		},
		"files": func(d *Depot, after string) (int, string, error) {
			p, err := d.Catalog.VersionFiles(t.Context(), answer.Scope{}, "app", "", catalog.FileQuery{Sort: catalog.SortName, Limit: 1, After: after})
			return len(p.Files), p.Next, err
		},
	}
	last := ""
	for list, page := range lists {
		seen, after, length := 0, "", 0
		for range names {
			n, next, err := page(d, after)
			if err != nil {
				t.Fatalf("%s: %v", list, err)
			}
			seen += n
			if next == "" {
				break
			}
			b, err := base64.RawURLEncoding.DecodeString(next)
			if err != nil || bytes.ContainsAny(b, `{`) && bytes.Contains(b, []byte(`"l"`)) {
				t.Errorf("%s: the begin of a page says %q, %v; want what nobody reads", list, b, err)
			}
			if length != 0 && len(next) != length {
				t.Errorf("%s: a begin has %d bytes and the one before %d, want equal lengths", list, len(next), length)
			}
			if _, again, err := page(other, after); err != nil || again != next {
				t.Errorf("%s: another process: %q, %v; want %q", list, again, err, next)
			}
			changed := []byte(next)
			changed[len(changed)/2] ^= 1
			for what, text := range map[string]string{"changed": string(changed), "cut": next[:8], "of another list": last} {
				if _, _, err := page(d, text); text != "" && !errors.Is(err, fs.ErrInvalid) {
					t.Errorf("%s: a begin that is %s: %v, want fs.ErrInvalid", list, what, err)
				}
			}
			after, length = next, len(next)
		}
		last = after
		if seen != len(names) {
			t.Errorf("%s: %d items on all pages, want %d", list, seen, len(names))
		}
	}
}
