package tree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

func TestSource(t *testing.T) {
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	dir := filepath.Join(t.TempDir(), "later")
	now := time.Now()
	s := NewSource("disk", dir, Options{Layout: layout.SymStore, Now: func() time.Time { return now }})
	defer s.Close()
	for range 2 {
		if _, _, err := all(t, s, wish(t, pdbPath)); fetch.ClassOf(err) != fetch.ClassBroken || errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("a folder that is not there: %v", err)
		}
	}
	now = now.Add(folderRetry)
	symtest.Put(t, dir, "Hello-X64.pdb/"+pdbKey+"/hello-x64.pdb", pdb)
	symtest.Put(t, dir, "zst.pdb/"+pdbKey+"/zst.pdb", zs(pdb))
	for _, path := range []string{pdbPath, "zst.pdb/" + pdbKey + "/zst.pdb"} {
		reply, got, err := all(t, s, wish(t, path))
		if err != nil || !bytes.Equal(got, pdb) || !reply.Local || reply.Size != int64(len(pdb)) {
			t.Fatalf("%d bytes, %+v, %v; want the local PDB", len(got), reply, err)
		}
		ask := wish(t, path)
		ask.Resume = &fetch.Resume{Path: reply.Path, Tag: reply.Tag, Offset: 100}
		if reply, got, err = all(t, s, ask); err != nil || reply.Offset != 100 || !bytes.Equal(got, pdb[100:]) {
			t.Errorf("resumed: %d bytes, %v; want the rest from byte 100", len(got), err)
		}
		ask.Resume, ask.Limit = nil, 100
		if _, _, err = all(t, s, ask); fetch.ClassOf(err) != fetch.ClassTooLarge {
			t.Errorf("too large: %v", err)
		}
	}
	if _, _, err := all(t, s, wish(t, "other.pdb/"+pdbKey+"/other.pdb")); fetch.ClassOf(err) != fetch.ClassNotFound || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: %v, want not found", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	reply, err := s.Fetch(ctx, wish(t, pdbPath))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := reply.Body.Read(make([]byte, 10)); fetch.ClassOf(err) != fetch.ClassTimeout {
		t.Errorf("given up: %v, want a timeout", err)
	}
	_ = reply.Body.Close()
}
