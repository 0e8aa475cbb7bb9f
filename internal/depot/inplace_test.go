package depot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/remote/watch"
	"github.com/symdepot/symdepot/layout"
)

// unpackedAtOnce is more than the number of unpacked files of one watched folder that may be in
// use.
const unpackedAtOnce = 300

// TestInPlaceForAll: clients, symbolication and the making of SymCache files look for a file in
// place alike. A file that cannot be unpacked now is not missing for any of them, and a watched
// folder that fails hides no tree. Only those who make files of it are told of the failure.
func TestInPlaceForAll(t *testing.T) {
	t.Parallel()
	path := func(n int) string { return fmt.Sprintf("app.pdb/%032X1/app.sym", n+1) }
	packed := t.TempDir()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for n := range unpackedAtOnce {
		body := symFile(fmt.Sprintf("%032X1", n+1), 100)
		check1(t, w.WriteHeader(&tar.Header{Name: path(n), Size: int64(len(body)), Mode: 0o644}))
		_, err := w.Write(body)
		check1(t, err)
	}
	check1(t, errors.Join(w.Close(), z.Close()))
	place(t, packed, "symbols.tar.gz", b.Bytes())
	const wanted = 0
	served := t.TempDir()
	ofTree := symFile(fmt.Sprintf("%032X1", wanted+1), 200)
	place(t, served, path(wanted), ofTree)

	full := func(t *testing.T, f *watch.Folder) {
		for n := unpackedAtOnce - 1; n > wanted; n-- { // backwards: those that follow one are unpacked with it
			held, err := f.Open(t.Context(), request(t, path(n)))
			if errors.Is(err, fs.ErrNotExist) {
				return
			}
			check1(t, err)
			t.Cleanup(func() { _ = held.Close() })
		}
		t.Fatalf("%d unpacked files are in use, and none is refused", unpackedAtOnce-1)
	}
	fails := func(t *testing.T, f *watch.Folder) { check1(t, f.Close()) } // its index is not readable any more
	busy := func(err error) bool {
		return errors.Is(err, content.ErrUnavailable) && !errors.Is(err, fs.ErrNotExist)
	}
	missing := func(err error) bool { return errors.Is(err, fs.ErrNotExist) }
	failed := func(err error) bool { return err != nil && !errors.Is(err, fs.ErrNotExist) }
	for _, c := range []struct {
		name           string
		folder         func(*testing.T, *watch.Folder)
		tree           bool
		client, makers func(error) bool // nil: they get the file of the tree
	}{
		{"full", full, false, busy, busy},
		{"full, and a tree has it", full, true, nil, nil},
		{"failing", fails, false, missing, failed},
		{"failing, and a tree has it", fails, true, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var opt Options
			if c.tree {
				s, err := tree.Open(t.Context(), served, tree.Options{})
				check1(t, err)
				t.Cleanup(func() { _ = s.Close() })
				opt.Sources = []*tree.Folder{s}
			}
			d := openWith(t, opt)
			f, err := watch.Open(t.Context(), packed, watch.Options{Index: filepath.Join(t.TempDir(), "index"), TempDir: t.TempDir()})
			check1(t, err)
			t.Cleanup(func() { _ = f.Close() })
			_, err = f.Scan(t.Context())
			check1(t, err)
			d.Watched.Use([]*watch.Folder{f})
			c.folder(t, f)
			sym, cache := symbolsDepot{inPlace: d.inPlace}, symcacheDepot{inPlace: d.inPlace}
			for _, by := range []struct {
				who  string
				open func(context.Context, layout.Request) (int64, error)
				says func(error) bool
			}{
				{"a client", func(ctx context.Context, req layout.Request) (int64, error) {
					return closedSize(d.Open(ctx, answer.Scope{}, req))
				}, c.client},
				{"a client for whom files are made", func(ctx context.Context, req layout.Request) (int64, error) {
					return closedSize(d.Get(ctx, answer.Question{Request: req}))
				}, c.client},
				{"symbolication", func(ctx context.Context, req layout.Request) (int64, error) {
					f, err := sym.InTrees(ctx, nil, req)
					if err != nil {
						return 0, err
					}
					_, _, size := f.Content()
					return size, f.Close()
				}, c.makers},
				{"the making of SymCache files", func(ctx context.Context, req layout.Request) (int64, error) {
					return int64(len(ofTree)), cache.InTrees(ctx, req)
				}, c.makers},
			} {
				size, err := by.open(t.Context(), request(t, path(wanted)))
				if by.says == nil && (err != nil || size != int64(len(ofTree))) {
					t.Errorf("%s: %d bytes, error %v; want the %d bytes of the tree", by.who, size, err, len(ofTree))
				}
				if by.says != nil && !by.says(err) {
					t.Errorf("%s: error %v", by.who, err)
				}
			}
		})
	}
}

// closedSize returns the size of an answer, and closes it.
func closedSize(f *answer.File, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return f.Size, f.Close()
}
