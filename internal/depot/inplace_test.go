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
	"github.com/symdepot/symdepot/symfile"
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
			sym, cache := symbolsDepot{inPlace: d.InPlace}, symcacheDepot{inPlace: d.InPlace}
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

// TestServedFoldersSeen: the files of a served tree are found by their names, by those who may read
// files without a product, and the tree is described to them.
func TestServedFoldersSeen(t *testing.T) {
	t.Parallel()
	share, plain := filepath.Join(t.TempDir(), "share"), filepath.Join(t.TempDir(), "plain")
	const id = "F9EFE0B6AE7500394C4C44205044422E1"
	place(t, share, "hello-x64.pdb/"+id+"/hello-x64.pdb", []byte("a file that a listing does not read"))
	place(t, share, "000Admin/server.txt", []byte("0000000001,add,file,07/29/2026,10:00:00,\"Game\",\"1\",\"\",\n"))
	place(t, plain, ".build-id/aa/bb.debug", []byte("x"))
	var opt Options
	for _, dir := range []string{share, plain} {
		s, err := tree.Open(t.Context(), dir, tree.Options{})
		check1(t, err)
		t.Cleanup(func() { _ = s.Close() })
		opt.Sources = append(opt.Sources, s)
	}
	d := openWith(t, opt)
	none := answer.Scope{Products: []string{"Game"}}
	all := d.InPlace.ServedFolders(t.Context(), answer.Scope{})
	if len(all) != 2 || all[0].Name != "share" || all[0].Transactions != 1 || !all[0].Lists || all[1].Name != "plain" || all[1].Lists || !all[1].Answers {
		t.Errorf("the served folders are %+v", all)
	}
	if list := d.InPlace.ServedFolders(t.Context(), none); len(list) != 0 {
		t.Errorf("a caller that may not read the folders sees %+v", list)
	}
	for text, want := range map[string]int{
		"hello-x64.pdb": 1, "HELLO*": 1, "hello-x64.pdb/" + id + "/hello-x64.pdb": 1, `\\srv\s\hello-x64.pdb\` + id + `\hello-x64.pd_`: 1,
		"hello-x64.pdb/" + id[:32] + "2/hello-x64.pdb": 0, "other.pdb": 0, "": 0, id: 0,
	} {
		list, err := d.InPlace.Find(t.Context(), answer.Scope{}, text, symfile.KindUnknown, 10)
		if err != nil || len(list) != want {
			t.Errorf("%q: %d files, %v; want %d", text, len(list), err, want)
		}
		if want > 0 && (len(list) == 0 || list[0].Path != "share/hello-x64.pdb/"+id+"/hello-x64.pdb" || list[0].Object.Kind != symfile.PDB) {
			t.Errorf("%q: %+v", text, list)
		}
		if list, err := d.InPlace.Find(t.Context(), none, text, symfile.KindUnknown, 10); err != nil || len(list) != 0 {
			t.Errorf("%q, by a caller that may not read it: %d files, %v; want none", text, len(list), err)
		}
	}
}
