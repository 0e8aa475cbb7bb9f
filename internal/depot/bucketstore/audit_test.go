package bucketstore

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// TestAudit compares a bucket with the index: contents without their object are
// reported, old objects that the index does not know are deleted after the hold.
// Objects of contents, of running uploads and of dropped contents stay, and so does
// what has other names.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	start := time.Now() // the store's own time, for the ages of the objects
	s.now = start
	list := s.add(t, 1000, 2000, 3000, 4000, 5000)
	putAt := func(key string, n int) {
		t.Helper()
		if _, err := s.bucket.Put(t.Context(), key, int64(n), bytes.NewReader(make([]byte, n)), bucket.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	keyFor := func(c []byte) string {
		t.Helper()
		u, _, err := s.places.Of(t.Context(), blob.Sum(c))
		if err != nil {
			t.Fatal(err)
		}
		return keyOf(u)
	}
	if err := s.bucket.Delete(t.Context(), keyFor(list[0])); err != nil {
		t.Fatal(err)
	}
	putAt(keyFor(list[1]), 1999)
	stray := newUpload(blob.Sum([]byte("stray")), 77)
	putAt(keyOf(stray), 77)
	second := newUpload(blob.Sum(list[2]), 3000) // another object of a content
	putAt(keyOf(second), 3000)
	running := newUpload(blob.Sum([]byte("running")), 88)
	if err := s.places.Begin(t.Context(), "n", 400*24*time.Hour, []record.Upload{running}); err != nil {
		t.Fatal(err)
	}
	putAt(keyOf(running), 88)
	putAt("c/README", 5)
	ref := blob.Sum(list[4])
	for _, n := range s.txs[ref] {
		if _, err := s.db.Trash.Remove(t.Context(), removals.Removal{Number: n, Reason: "rm"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.db.DropContents(t.Context(), []blob.Ref{ref}, s.clock(), nil); n != 1 || err != nil {
		t.Fatalf("dropped %d, %v; want 1 and no error", n, err)
	}

	audit := func(want Audited, wantLost ...string) {
		t.Helper()
		var lost []string
		before := s.requests.n.Load()
		got, err := s.Audit(t.Context(), func(c record.Content, what string) error {
			lost = append(lost, fmt.Sprintf("%d: %s", c.Size, what))
			return nil
		})
		slices.Sort(lost)
		if err != nil || got != want || !slices.Equal(lost, wantLost) {
			t.Errorf("audit: %+v, %v, lost %q; want %+v, lost %q", got, err, lost, want, wantLost)
		}
		if n := s.requests.n.Load() - before; n > 3 {
			t.Errorf("%d requests, want one for the marker, at most one for a new turn, and one listing", n)
		}
	}
	lost := []string{"1000: its object is missing in the bucket", "2000: its object has 1999 bytes instead of 2000"}
	audit(Audited{Objects: 8, Missing: 2, Young: 2, Foreign: 1, Doomed: true}, lost...)
	if !s.Suspect(blob.Sum(list[0])) || !s.Suspect(blob.Sum(list[1])) || s.Suspect(blob.Sum(list[2])) {
		t.Error("the missing contents are not the suspected ones")
	}
	s.pass(strayAge + time.Hour)
	audit(Audited{Objects: 8, Missing: 2, Strays: 2, StrayBytes: 3077, Foreign: 1, Doomed: true}, lost...)
	audit(Audited{Objects: 8, Missing: 2, Foreign: 1, Doomed: true}, lost...) // doomed ones are known
	if n, err := s.Sweep(t.Context(), 0); n != 1 || err != nil {
		t.Errorf("deleted %d objects before the hold of the strays has passed, %v; want that of the dropped content", n, err)
	}
	s.pass(defaultHold + time.Hour)
	if n, err := s.Sweep(t.Context(), 0); n != 2 || err != nil {
		t.Errorf("deleted %d objects, %v; want the two strays", n, err)
	}
	audit(Audited{Objects: 5, Missing: 2, Foreign: 1, Doomed: true}, lost...)
	s.same(t, list[2])
	s.same(t, list[3])
	// A missing content is uploaded again by an add, and found again.
	for _, c := range list[:2] {
		if err := s.Put(t.Context(), blob.Sum(c), int64(len(c)), bytes.NewReader(c)); err != nil {
			t.Fatal(err)
		}
		s.same(t, c)
	}
	audit(Audited{Objects: 7, Foreign: 1, Doomed: true})
}

// TestAuditOfACopy dooms nothing: what a copy of the database does not know, the
// original may.
func TestAuditOfACopy(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	c := s.add(t, 1000)[0]
	id, err := s.places.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id.Database = "another"
	if err := s.writeMarker(t.Context(), id, false); err != nil {
		t.Fatal(err)
	}
	u := newUpload(blob.Sum([]byte("x")), 1)
	if _, err := s.bucket.Put(t.Context(), keyOf(u), 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s.now = time.Now().Add(strayAge + time.Hour)
	got, err := s.Audit(t.Context(), func(record.Content, string) error { return nil })
	if want := (Audited{Objects: 2, Strays: 1, StrayBytes: 1}); err != nil || got != want {
		t.Errorf("audit: %+v, %v; want %+v", got, err, want)
	}
	if known, err := s.places.Known(t.Context(), u); known || err != nil {
		t.Errorf("the unknown object was doomed: %v, %v; want false", known, err)
	}
	s.same(t, c)
}

// TestAuditInParts splits the listing of a large bucket.
func TestAuditInParts(t *testing.T) {
	t.Parallel()
	s := openStore(t, buckettest.S3(t), "p", 0)
	var lost []blob.Ref
	for i := range 20 {
		c := blobtest.Content(uint64(i), 100+i)
		if err := s.Put(t.Context(), blob.Sum(c), int64(len(c)), bytes.NewReader(c)); err != nil {
			t.Fatal(err)
		}
		if i%5 == 0 {
			u, _, err := s.places.Of(t.Context(), blob.Sum(c))
			if err != nil {
				t.Fatal(err)
			}
			if err := s.bucket.Delete(t.Context(), keyOf(u)); err != nil {
				t.Fatal(err)
			}
			lost = append(lost, u.Ref)
		}
	}
	if _, err := s.bucket.Put(t.Context(), "c/ab/"+rand.Text(), 1, strings.NewReader("x"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	var got []blob.Ref
	a := &audit{store: s.Store, missing: func(c record.Content, _ string) error { got = append(got, c.Ref); return nil }}
	for b := range 256 {
		if err := a.part(t.Context(), fmt.Sprintf("c/%02x/", b), byte(b), byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	order := func(a, b blob.Ref) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(lost, order)
	slices.SortFunc(got, order)
	if !slices.Equal(got, lost) || a.sum.Objects != 17 || a.sum.Foreign != 1 {
		t.Errorf("lost %v, %+v; want %v of 17 objects", got, a.sum, lost)
	}
}
