package depot

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// TestAsleepPastLease: an add stands still between its last upload and its commit,
// for longer than its leases. Another process gives the uploads up meanwhile. The add
// uploads again and commits.
func TestAsleepPastLease(t *testing.T) {
	t.Parallel()
	peer := buckettest.S3(t)
	dir := filepath.Join(t.TempDir(), "depot")
	var clock movable
	open := func(now func() time.Time) *Depot {
		t.Helper()
		d, err := Open(t.Context(), dir, Options{Bucket: bucketOf(t, peer), Local: t.TempDir(), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	other := open(clock.now)
	// Commit asks for the time after the contents are stored and before it writes the
	// rows.
	var armed atomic.Bool
	d := open(func() time.Time {
		if armed.Swap(false) {
			clock.move(3 * time.Hour)
			if _, err := other.Collect(t.Context(), 0, false); err != nil {
				t.Error(err)
			}
			if n, _, err := other.db.Places.Pending(t.Context()); n != 2 || err != nil {
				t.Errorf("%d uploads were given up, %v; want 2: the test proves nothing", n, err)
			}
		}
		return clock.now()
	})
	tx, err := d.Begin(t.Context(), TxInfo{Product: "app"})
	if err != nil {
		t.Fatal(err)
	}
	files := []file{numbered(1, 100), numbered(2, 5000)}
	for _, f := range files {
		if _, err := tx.Add(t.Context(), Source{Path: f.path, Content: bytesContent{Reader: bytes.NewReader(f.body)}}); err != nil {
			t.Fatal(err)
		}
	}
	tx.batch = &arming{repeating: tx.batch.(repeating), armed: &armed}
	if n, err := tx.Commit(t.Context()); n != 1 || err != nil {
		t.Fatalf("commit: build %d, %v; want 1", n, err)
	}
	v, err := other.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("fault: %+v, want none", f) }, nil)
	if err != nil || v.Contents != 2 {
		t.Errorf("verify: %+v, %v; want 2 contents", v, err)
	}
	for _, f := range files {
		id := strings.Fields(string(f.body))[3]
		name := strings.Fields(string(f.body))[4]
		if got, err := whole(t, other, name+"/"+id+"/"+name+".sym"); err != nil || !bytes.Equal(got, f.body) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(f.body))
		}
	}
}

// repeating is a batch that can store its contents again.
type repeating interface {
	blob.Batch
	Again(ctx context.Context) error
}

// arming arms the clock after its commit.
type arming struct {
	repeating
	armed *atomic.Bool
}

func (a *arming) Commit(ctx context.Context) error {
	err := a.repeating.Commit(ctx)
	a.armed.Store(true)
	return err
}
