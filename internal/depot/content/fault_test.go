package content_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home/hometest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

func TestFaultFileString(t *testing.T) {
	for want, f := range map[string]content.FaultFile{
		"app.pdb of build 7": {File: "app.pdb", Transaction: 7},
		"app.pdb of build 7 (Game 1.2), added as build/app.pdb": {File: "app.pdb", Transaction: 7, Product: "Game", Version: "1.2", Path: "build/app.pdb"},
		"app.pdb of build 7 (Game), is built from it":           {File: "app.pdb", Transaction: 7, Product: "Game", BuiltFrom: true},
		"app.pdb, fetched from msdl":                            {File: "app.pdb", FetchedFrom: "msdl", Path: "http://msdl/app.pdb"},
		"derived by zstd from content ab12":                     {MadeFrom: "ab12", Tool: "zstd"},
		"content ab12, is built from it":                        {File: "ab12", BuiltFrom: true},
	} {
		if got := f.String(); got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
}

// TestDescribe names what is lost with a content, and how to get it back, by what holds it.
func TestDescribe(t *testing.T) {
	r := open(t)
	added, cached, derived, free := hometest.Sym("app", 1, 100), hometest.Sym("app", 2, 100), []byte("derived"), hometest.Sym("app", 3, 100)
	number := r.Add(t, "Game", "1", added)
	for _, body := range [][]byte{cached, derived} {
		if err := r.Blobs.Put(t.Context(), blob.Sum(body), int64(len(body)), bytes.NewReader(body)); err != nil {
			t.Fatal(err)
		}
	}
	entry := hometest.Entry(t, cached)
	if err := r.DB.Cached.Put(t.Context(), contents.CachedFile{
		Source: "far", Name: "app.sym", URL: "http://far/app.sym", Ref: blob.Sum(cached), Size: int64(len(cached)), Fetched: r.Now(), Entries: []record.Entry{entry},
	}, nil); err != nil {
		t.Fatal(err)
	}
	made := hometest.Content(derived)
	if err := r.DB.PutDerived(t.Context(), blob.Sum(added), record.Tool{Name: "zstd", Version: 1}, &made); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		body           []byte
		file           content.FaultFile
		repair, placed bool
		remedy         string
	}{
		{"added", added, content.FaultFile{File: "app", Path: "build/0.sym", Product: "Game", Version: "1", Transaction: number}, false, false, "add a file"},
		{"added, in a bucket", added, content.FaultFile{File: "app", Path: "build/0.sym", Product: "Game", Version: "1", Transaction: number}, false, true, "symdepot verify --repair, then add"},
		{"cached", cached, content.FaultFile{File: "app", Path: "build/0.sym", FetchedFrom: "far"}, false, false, "the next request downloads it again; --repair"},
		{"cached, repaired", cached, content.FaultFile{File: "app", Path: "build/0.sym", FetchedFrom: "far"}, true, false, "it was removed from the cache"},
		{"derived", derived, content.FaultFile{MadeFrom: blob.Sum(added).String(), Tool: "zstd"}, false, false, "--repair removes its record, so"},
		{"derived, repaired", derived, content.FaultFile{MadeFrom: blob.Sum(added).String(), Tool: "zstd"}, true, false, "its record was removed; it is made again"},
		{"unreferenced", free, content.FaultFile{}, false, false, "nothing refers to it; --repair or symdepot gc"},
		{"unreferenced, repaired", free, content.FaultFile{}, true, false, "nothing referred to it"},
	} {
		f, h, err := content.Faults{DB: r.DB, Placed: c.placed}.Describe(t.Context(), blob.Sum(c.body), "it was eaten", c.repair)
		if err != nil {
			t.Fatal(err)
		}
		if f.Ref != blob.Sum(c.body).String() || f.What != "it was eaten" || !strings.HasPrefix(f.Remedy, c.remedy) {
			t.Errorf("%s: %+v, want the damage of the content and the remedy %q", c.name, f, c.remedy)
		}
		switch {
		case c.file == content.FaultFile{}:
			if len(f.Files) > 0 || h != (content.Holding{}) {
				t.Errorf("%s: files %+v, holding %+v; want none", c.name, f.Files, h)
			}
		case len(f.Files) != 1 || f.Files[0] != c.file:
			t.Errorf("%s: files %+v, want %+v", c.name, f.Files, c.file)
		}
	}
}
