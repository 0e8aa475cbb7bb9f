package depot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// byName answers with the file of the requested name, and with ClassAbsent for
// other names.
func (e *elsewhere) byName(files map[string][]byte) {
	e.fetch = func(_ context.Context, ask fetch.Ask) (*fetch.Reply, error) {
		body, ok := files[ask.Request.Name]
		if !ok {
			return nil, &fetch.Failure{Source: e.name, Class: fetch.ClassNotFound, Err: fs.ErrNotExist}
		}
		return &fetch.Reply{Body: io.NopCloser(bytes.NewReader(body)), Size: int64(len(body)), Name: ask.Request.Name, Path: "http://" + e.name + "/" + ask.Request.Name}, nil
	}
}

// wantFile fails unless a request is answered with a content, after the upstream
// has been asked so often in all.
func wantFile(t *testing.T, d *Depot, s *elsewhere, path string, want []byte, asked int32) {
	t.Helper()
	got, err := fetched(t.Context(), t, d, path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("GET %s: %d bytes, %v; want the %d bytes of the file", path, len(got), err, len(want))
	}
	if n := s.asked.Load(); n != asked {
		t.Errorf("GET %s: the upstream has been asked %d times, want %d", path, n, asked)
	}
}

// TestOtherName: two files share an id. A cached one does not answer a request
// for the name of the other one as long as an upstream may have that.
func TestOtherName(t *testing.T) {
	t.Parallel()
	a := pdbBytes(t, 7)
	b := append(bytes.Clone(a), make([]byte, 512)...)
	key := pdbKey(t, 7)
	pathA, pathB := "a.pdb/"+key+"/a.pdb", "b.pdb/"+key+"/b.pdb"

	t.Run("the upstream has the name", func(t *testing.T) {
		t.Parallel()
		s := &elsewhere{name: "s"}
		s.byName(map[string][]byte{"a.pdb": a, "b.pdb": b})
		d, _ := withUpstreams(t, Options{}, s)
		wantFile(t, d, s, pathA, a, 1)
		wantFile(t, d, s, pathB, b, 2)
		wantFile(t, d, s, pathB, b, 2)
		wantFile(t, d, s, pathA, a, 2)
	})

	t.Run("no upstream has the name", func(t *testing.T) {
		t.Parallel()
		s := &elsewhere{name: "s"}
		s.byName(map[string][]byte{"a.pdb": a})
		d, clock := withUpstreams(t, Options{}, s)
		wantFile(t, d, s, pathA, a, 1)
		wantFile(t, d, s, pathB, a, 2)
		wantFile(t, d, s, pathB, a, 2)
		f, err := d.Get(t.Context(), answer.Question{Request: request(t, pathB)})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil || !f.Substitute {
			t.Errorf("GET %s: Substitute is %v (%v), want true: the upstream may get the file later", pathB, f.Substitute, err)
		}
		clock.t = clock.t.Add(2 * time.Hour) // the miss has expired
		s.byName(map[string][]byte{"b.pdb": b})
		wantFile(t, d, s, pathB, b, 3)
	})

	t.Run("the upstream ignores names", func(t *testing.T) {
		t.Parallel()
		s := &elsewhere{name: "s"}
		s.sends("a.pdb", a)
		d, _ := withUpstreams(t, Options{}, s)
		wantFile(t, d, s, pathA, a, 1)
		wantFile(t, d, s, pathB, a, 2)
		wantFile(t, d, s, pathB, a, 2)
	})

	t.Run("the other file was added", func(t *testing.T) {
		t.Parallel()
		s := &elsewhere{name: "s"}
		s.byName(map[string][]byte{"b.pdb": b})
		d, _ := withUpstreams(t, Options{}, s)
		add(t, d, "own", file{"a.pdb", a})
		wantFile(t, d, s, pathB, a, 0)
	})

	t.Run("the client asks for a cabinet", func(t *testing.T) {
		t.Parallel()
		s := &elsewhere{name: "s"}
		s.byName(map[string][]byte{"a.pdb": a, "b.pdb": b})
		d, _ := withUpstreams(t, Options{MakeCabinets: true}, s)
		wantFile(t, d, s, pathA, a, 1)
		cabinetA, cabinetB := answer.Question{Request: request(t, "a.pdb/"+key+"/a.pd_")}, answer.Question{Request: request(t, "b.pdb/"+key+"/b.pd_")}
		if _, err := d.Get(t.Context(), cabinetA); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the first request for a cabinet: %v, want fs.ErrNotExist", err)
		}
		if _, err := d.forms.Derive(t.Context(), <-d.forms.Queue()); err != nil {
			t.Fatal(err)
		}
		if f, err := d.Get(t.Context(), cabinetA); err != nil {
			t.Errorf("a.pd_, which has been made: %v", err)
		} else {
			_ = f.Close()
		}
		if _, err := d.Get(t.Context(), cabinetB); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("b.pd_: %v, want fs.ErrNotExist while b.pdb is being downloaded", err)
		}
		d.fetch.Wait()
		wantFile(t, d, s, pathB, b, 2)
	})
}

// TestNoName: requests without a name are answered from the cache, whatever the
// name of the cached file is.
func TestNoName(t *testing.T) {
	t.Parallel()
	body := testdata(t, "elf/prog-sha1").body
	s := &elsewhere{name: "s"}
	s.sends("prog-sha1", body)
	d, _ := withUpstreams(t, Options{}, s)
	wantFile(t, d, s, "prog-sha1/elf-buildid-"+progID+"/prog-sha1", body, 1)
	wantFile(t, d, s, "buildid/"+progID+"/executable", body, 1)
	wantFile(t, d, s, progID[:2]+"/"+progID[2:]+"/executable", body, 1)
}
