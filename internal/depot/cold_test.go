package depot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
	"github.com/symdepot/symdepot/symfile"
)

// nightly makes the builds of one module as Breakpad files: each differs from the one
// before in some addresses and a few functions.
type nightly struct {
	name  string
	rand  *rand.Rand
	funcs []int // sizes
}

func newNightly(name string, seed uint64, funcs int) *nightly {
	n := &nightly{name: name, rand: rand.New(rand.NewPCG(seed, 1))}
	for range funcs {
		n.funcs = append(n.funcs, 16+n.rand.IntN(4000))
	}
	return n
}

// build returns the file of a build, and the path under which it is asked for.
func (n *nightly) build(no int) (file, string) {
	for range 3 {
		n.funcs[n.rand.IntN(len(n.funcs))] += 16
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", n.name, no))
	id := strings.ToUpper(fmt.Sprintf("%x1", sum[:16]))
	b := fmt.Appendf(nil, "MODULE Linux x86_64 %s %s\n", id, n.name)
	at := 0x1000
	for i, size := range n.funcs {
		b = symtest.AppendFunction(b, at, size, i)
		at += size
	}
	return file{"build/" + n.name + ".sym", b}, n.name + "/" + id + "/" + n.name + ".sym"
}

// addresses returns a name of a source file that holds where the functions are, as a program does: in
// a cold file they are fields that moved.
func (n *nightly) addresses() []byte {
	line := []byte("FILE 1 ")
	at := uint32(0x41000000)
	for _, size := range n.funcs {
		if word := binary.LittleEndian.AppendUint32(nil, at); !bytes.ContainsAny(word, "\x00\r\n") {
			line = append(line, word...)
		}
		at += uint32(size)
	}
	return append(line, '\n')
}

// roomyDepot returns a new depot on a disk with enough space for coldstore.
func roomyDepot(t *testing.T) (*Depot, *clock) {
	t.Helper()
	d, c := newDepot(t)
	d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
	return d, c
}

// onBoth runs a test with a depot on disk and with one in a bucket.
func onBoth(t *testing.T, test func(t *testing.T, d *Depot, c *clock)) {
	t.Run("disk", func(t *testing.T) {
		d, c := roomyDepot(t)
		test(t, d, c)
	})
	t.Run("bucket", func(t *testing.T) {
		c := &clock{t: time.Now()}
		test(t, bucketDepot(t, c), c)
	})
}

// bucketDepot returns a new depot with its contents in a bucket.
func bucketDepot(t *testing.T, c *clock) *Depot {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Bucket: bucketOf(t, buckettest.S3(t)), Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// answers checks that requests get the right bytes.
func answers(t *testing.T, d *Depot, want map[string][]byte) {
	t.Helper()
	for path, body := range want {
		_, b, err := get(t, d, answer.Scope{}, path)
		if err != nil || !bytes.Equal(b, body) {
			t.Fatalf("%s: %d bytes, %v; want the %d bytes that were added", path, len(b), err, len(body))
		}
	}
}

func verified(t *testing.T, d *Depot, opt check.Options) (check.Verified, []content.Fault) {
	t.Helper()
	var faults []content.Fault
	v, err := d.Check.Run(t.Context(), opt, func(f content.Fault) { faults = append(faults, f) }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v, faults
}

// TestCold lets the builds of a module become cold, reads them, makes them plain again,
// and lets retention take some of them.
func TestCold(t *testing.T) {
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		ctx := t.Context()
		n := newNightly("app.so", 1, 9000)
		want := map[string][]byte{}
		var refs []blob.Ref
		for i := range 6 {
			f, path := n.build(i)
			want[path] = f.body
			refs = append(refs, blob.Sum(f.body))
			add(t, d, "app", f)
			c.advance(24 * time.Hour)
		}
		plain := int64(len(want["x"]))
		for _, b := range want {
			plain += int64(len(b))
		}
		dry, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: 12 * time.Hour, DryRun: true})
		if err != nil || dry.Contents != 5 {
			t.Fatalf("dry run: %+v, %v, want 5 contents: all but the newest", dry, err)
		}
		sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: 12 * time.Hour, Grace: coldstore.CoolGrace})
		if err != nil || sum.Contents != 5 || sum.After*8 > sum.Before {
			t.Fatalf("cool: %+v, %v, want 5 contents and less than an eighth of the bytes", sum, err)
		}
		s, err := d.Cold.Stats(ctx)
		if err != nil || s.Contents != 5 || s.Keys != 0 || s.Both != 5 {
			t.Fatalf("sums %+v, %v, want five deltas to the newest content, all plain too", s, err)
		}
		// With the next build, what was the newest content becomes a key.
		f, path := n.build(6)
		want[path] = f.body
		refs = append(refs, blob.Sum(f.body))
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
		if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: 12 * time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 1 {
			t.Fatalf("cool: %+v, %v, want 1 content", sum, err)
		}
		if s, err = d.Cold.Stats(ctx); err != nil || s.Contents != 6 || s.Keys != 1 || s.Both != 6 {
			t.Fatalf("sums %+v, %v, want a key and five deltas", s, err)
		}
		answers(t, d, want)
		if n, err := d.Cold.Strip(ctx, 48*time.Hour); n != 0 || err != nil {
			t.Errorf("strip within the grace: %d, %v, want 0", n, err)
		}
		c.advance(2 * time.Hour)
		if n, err := d.Cold.Strip(ctx, coldstore.CoolGrace); n != 6 || err != nil {
			t.Errorf("strip after the grace: %d, %v, want 6", n, err)
		}
		for _, ref := range refs[:6] {
			if _, err := d.Cold.Store().Below().Stat(ctx, ref); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("plain bytes of a cold content: %v, want fs.ErrNotExist", err)
			}
		}
		answers(t, d, want)
		answers(t, d, want) // from the near cache
		if v, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 || v.Cold != 6 || v.Restored != 6 {
			t.Fatalf("verify: %+v, %+v, want 6 cold contents and no faults", v, faults)
		}

		// A file that is added again stays cold.
		c.advance(time.Hour)
		f, _ = newNightly("app.so", 1, 9000).build(0)
		add(t, d, "app", f)
		if _, err := d.Cold.Store().Below().Stat(ctx, refs[0]); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("plain bytes after the file was added again: %v, want fs.ErrNotExist", err)
		}

		// The key outlives its transactions; the last delta takes it along.
		for tx := int64(1); tx <= 8; tx++ {
			if tx == 3 || tx == 7 {
				continue
			}
			if _, err := d.Retention.Remove(ctx, tx, ""); err != nil {
				t.Fatal(err)
			}
		}
		c.advance(48 * time.Hour)
		for range 2 {
			if _, err := d.Collect(ctx, time.Hour, false); err != nil {
				t.Fatal(err)
			}
		}
		if s, err = d.Cold.Stats(ctx); err != nil || s.Contents != 2 || s.Pinned != 1 {
			t.Fatalf("sums after the removal %+v, %v, want a delta and its pinned key", s, err)
		}
		f3, path3 := f, ""
		m := newNightly("app.so", 1, 9000)
		for i := range 3 {
			f3, path3 = m.build(i)
		}
		answers(t, d, map[string][]byte{path3: f3.body})
		if err := d.Cold.Unpin(ctx, nil); err != nil {
			t.Fatal(err)
		}
		c.advance(48 * time.Hour)
		for range 2 {
			if _, err := d.Collect(ctx, time.Hour, false); err != nil {
				t.Fatal(err)
			}
		}
		if s, err = d.Cold.Stats(ctx); err != nil || s != (coldstore.ColdStats{}) {
			t.Fatalf("sums after the exchange %+v, %v, want none", s, err)
		}
		answers(t, d, map[string][]byte{path3: f3.body})
		if _, faults := verified(t, d, check.Options{}); len(faults) > 0 {
			t.Errorf("faults at the end: %+v, want none", faults)
		}
		if stats, _ := d.Stats(ctx); stats.Contents != 2 {
			t.Errorf("%d contents at the end, want the 2 live ones", stats.Contents)
		}
	})
}

// TestWarmAll makes everything plain again.
func TestWarmAll(t *testing.T) {
	symtest.Sequential(t)
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		n := newNightly("lib.so", 2, 9000)
		want := map[string][]byte{}
		for i := range 4 {
			f, path := n.build(i)
			want[path] = f.body
			add(t, d, "lib", f)
			c.advance(24 * time.Hour)
		}
		if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 3 {
			t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
		}
		if w, err := d.Cold.WarmAll(t.Context(), coldstore.Warming{}); err != nil || w.Contents != 3 || w.Bytes == 0 || w.Failed != 0 {
			t.Fatalf("warm: %+v, %v; want 3 contents", w, err)
		}
		answers(t, d, want)
		if v, faults := verified(t, d, check.Options{}); len(faults) > 0 || v.Cold != 0 {
			t.Errorf("verify: %+v, %+v, want no cold contents and no faults", v, faults)
		}
	})
}

// TestColdDamage flips a byte of the key: each content that needs it is named, is
// absent, and is healed by adding the file again.
func TestColdDamage(t *testing.T) {
	d, c := roomyDepot(t)
	ctx := t.Context()
	n := newNightly("app.so", 3, 9000)
	var files []file
	var paths []string
	for i := range 4 {
		f, path := n.build(i)
		files, paths = append(files, f), append(paths, path)
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
		if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != int64(min(i, 1)) {
			t.Fatalf("cool: %+v, %v, want the content before the newest", sum, err)
		}
	}
	key, err := d.Cold.Of(ctx, blob.Sum(files[1].body))
	if err != nil || key.Base != nil {
		t.Fatalf("the second content %+v, %v, want a key", key, err)
	}
	if d, err = Open(ctx, d.dir, Options{Now: c.now}); err != nil { // with an empty near cache
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	hash := key.File.Ref.String()
	path := filepath.Join(d.dir, "blobs", hash[:2], hash[2:])
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 4
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, faults := verified(t, d, check.Options{}); len(faults) != 4 {
		t.Fatalf("%d faults %+v, want the key's file and the three contents that need it", len(faults), faults)
	}
	for _, p := range paths[:3] {
		if f, b, err := get(t, d, answer.Scope{}, p); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v, %d bytes, %v, want fs.ErrNotExist", p, f, len(b), err)
		}
	}
	if _, faults := verified(t, d, check.Options{Repair: true}); len(faults) != 4 {
		t.Fatalf("%d faults %+v while repairing, want 4", len(faults), faults)
	}
	add(t, d, "app", files[1]) // its bytes are used at once
	want := map[string][]byte{}
	for i, p := range paths {
		want[p] = files[i].body
	}
	answers(t, d, want)
	c.advance(48 * time.Hour)
	if _, err := d.Collect(ctx, time.Hour, false); err != nil { // the plain bytes heal the key
		t.Fatal(err)
	}
	answers(t, d, want)
	if _, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 {
		t.Errorf("faults after the key was added again: %+v, want none", faults)
	}
}

// TestColdHealsInBucket: if the object of a key is gone, the contents that need it answer
// as soon as the key's file was added again.
func TestColdHealsInBucket(t *testing.T) {
	c := &clock{t: time.Now()}
	b := bucketOf(t, buckettest.S3(t))
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), Options{Bucket: b, Now: c.now, Cold: coldstore.ColdOptions{Near: 1}}) // nothing is kept near
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	ctx := t.Context()
	n := newNightly("app.so", 3, 9000)
	var files []file
	want := map[string][]byte{}
	for i := range 4 {
		f, path := n.build(i)
		files, want[path] = append(files, f), f.body
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
		if sum, err := d.Cold.Cool(ctx, coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != int64(min(i, 1)) {
			t.Fatalf("cool: %+v, %v, want the content before the newest", sum, err)
		}
	}
	key, err := d.Cold.Of(ctx, blob.Sum(files[1].body))
	if err != nil || key.Base != nil {
		t.Fatalf("the second content %+v, %v, want a key", key, err)
	}
	for info, err := range b.List(ctx, "c/"+key.File.Ref.String()[:2]+"/"+key.File.Ref.String()) {
		if err == nil {
			err = b.Delete(ctx, info.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	local := []blob.Ref{key.File.Ref}
	for _, f := range files {
		local = append(local, blob.Sum(f.body))
	}
	for _, ref := range local {
		if err := d.Cold.Store().Below().Delete(ctx, ref); err != nil { // from the local cache
			t.Fatal(err)
		}
	}
	lost := 0
	for path := range want {
		if _, _, err := get(t, d, answer.Scope{}, path); errors.Is(err, fs.ErrNotExist) {
			lost++
		} else if err != nil {
			t.Errorf("%s: %v, want fs.ErrNotExist", path, err)
		}
	}
	if lost != 3 {
		t.Errorf("%d contents are lost, want the key and its two deltas", lost)
	}
	add(t, d, "app", files[1])
	answers(t, d, want)
}

// TestColdPurge deletes a key at once: what is built from it becomes plain before.
func TestColdPurge(t *testing.T) {
	symtest.Sequential(t)
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		n := newNightly("app.so", 4, 9000)
		want := map[string][]byte{}
		var key blob.Ref
		for i := range 4 {
			f, path := n.build(i)
			if i == 1 {
				key = blob.Sum(f.body)
			} else {
				want[path] = f.body
			}
			add(t, d, "app", f)
			c.advance(24 * time.Hour)
			if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != int64(min(i, 1)) {
				t.Fatalf("cool: %+v, %v, want the content before the newest", sum, err)
			}
		}
		if row, err := d.Cold.Of(t.Context(), key); err != nil || row.Base != nil {
			t.Fatalf("the second content: %+v, %v, want a key", row, err)
		}
		if _, err := d.Retention.Purge(t.Context(), 2, "admin", "leak"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Content(t.Context(), key); !d.home.Placed && !errors.Is(err, fs.ErrNotExist) { // a bucket deletes later
			t.Errorf("the purged content: %v, want fs.ErrNotExist", err)
		}
		if known, err := d.db.HasContent(t.Context(), key); known || err != nil {
			t.Errorf("the purged content is still in the index, %v", err)
		}
		answers(t, d, want)
		if _, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 {
			t.Errorf("faults %+v, want none", faults)
		}
	})
}

// TestColdPurgeRefused: a transaction whose key cannot be exchanged is not purged, and
// the purge can be repeated. A damaged delta that goes with its key does not matter.
func TestColdPurgeRefused(t *testing.T) {
	d, c := roomyDepot(t)
	n := newNightly("app.so", 4, 9000)
	var files []file
	for range 4 {
		f, _ := n.build(len(files))
		files = append(files, f)
	}
	for _, f := range files {
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 3 {
		t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
	}
	delta := blob.Sum(files[1].body)
	row, err := d.Cold.Of(t.Context(), delta)
	if err != nil || row.Base == nil || row.Base.Ref != blob.Sum(files[3].body) {
		t.Fatalf("the second build: %+v, %v, want a delta to the last one", row, err)
	}
	if err := d.Cold.Store().Below().Delete(t.Context(), row.File.Ref); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := d.Retention.Purge(t.Context(), 4, "admin", "leak"); !errors.Is(err, blob.ErrDamaged) {
			t.Fatalf("purge of a key that a damaged delta needs: %v, want that the delta is damaged", err)
		}
	}
	if _, err := d.Retention.Purge(t.Context(), 2, "admin", "leak"); err != nil {
		t.Fatalf("purge of the damaged delta: %v", err)
	}
	if _, err := d.Retention.Purge(t.Context(), 4, "admin", "leak"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []file{files[1], files[3]} {
		if known, err := d.db.HasContent(t.Context(), blob.Sum(f.body)); known || err != nil {
			t.Errorf("a purged content is still in the index, %v", err)
		}
	}
	if _, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 {
		t.Errorf("faults %+v, want none", faults)
	}
}

// TestPinnedPlain: a base that is still plain when nothing but deltas needs it becomes a
// key.
func TestPinnedPlain(t *testing.T) {
	d, c := roomyDepot(t)
	n := newNightly("app.so", 4, 9000)
	want := map[string][]byte{}
	for i := range 4 {
		f, path := n.build(i)
		if want[path] = f.body; i == 3 {
			delete(want, path)
		}
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
	}
	if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour}); err != nil || sum.Contents != 3 {
		t.Fatalf("cool: %+v, %v, want 3 contents", sum, err)
	}
	if _, err := d.Retention.Remove(t.Context(), 4, ""); err != nil {
		t.Fatal(err)
	}
	before, err := d.Cold.Stats(t.Context())
	if err != nil || before.Pinned != 1 || before.Keys != 0 {
		t.Fatalf("sums %+v, %v, want a pinned base that is plain", before, err)
	}
	if err := d.Cold.Unpin(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if s, err := d.Cold.Stats(t.Context()); err != nil || s.Pinned != 1 || s.Keys != 1 || s.PinnedBytes >= before.PinnedBytes/2 {
		t.Errorf("sums %+v, %v, want that the pinned base is a key of less than half of %d bytes", s, err, before.PinnedBytes)
	}
	answers(t, d, want)
}

// TestPinnedByRemoved: when a base is exchanged, contents that nothing refers to stay cold.
func TestPinnedByRemoved(t *testing.T) {
	d, _, files, _ := chilled(t)
	if _, err := d.Retention.Purge(t.Context(), 3, "admin", "leak"); err != nil {
		t.Fatal(err)
	}
	for _, number := range []int64{1, 4} { // a delta and the base
		if _, err := d.Retention.Remove(t.Context(), number, ""); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := d.Cold.Stats(t.Context()); err != nil || s.Deltas != 2 || s.Pinned != 1 {
		t.Fatalf("sums %+v, %v, want two deltas and their pinned base", s, err)
	}
	if err := d.Cold.Unpin(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Cold.Of(t.Context(), blob.Sum(files[0].body)); err != nil {
		t.Errorf("the delta that was removed: %v, want that it is still cold", err)
	}
	if row, err := d.Cold.Of(t.Context(), blob.Sum(files[1].body)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other delta: %+v, %v, want that it is plain", row, err)
	}
}

// TestNewestOfEachName: a content that is the newest one of any name stays plain, although
// another name that it has has newer ones.
func TestNewestOfEachName(t *testing.T) {
	onBoth(t, func(t *testing.T, d *Depot, c *clock) {
		n := newNightly("app.so", 4, 9000)
		var refs []blob.Ref
		release := func(i int, size int64) { // the same bytes under the name of a release
			o := symfile.Object{Kind: symfile.Breakpad, Role: symfile.Debug, Name: "app-1.0.so", DebugID: debugid.ID{GUID: debugid.GUID{byte(i), 15: 1}, Age: 1}}
			e := record.Entry{Object: o, Arch: "x86_64", Ref: refs[i], Size: size, Aliases: o.Aliases(), Path: "release/app-1.0.sym"}
			if _, err := d.db.Commit(t.Context(), record.Tx{Kind: "add", Product: "app", Entries: []record.Entry{e}}, nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 4 {
			f, _ := n.build(i)
			refs = append(refs, blob.Sum(f.body))
			add(t, d, "app", f)
			if i < 2 {
				release(i, int64(len(f.body)))
			}
			c.advance(24 * time.Hour)
		}
		sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour})
		if err != nil || sum.Contents != 2 {
			t.Fatalf("cool: %+v, %v, want 2 contents: not the newest one of a name", sum, err)
		}
		for i, want := range []bool{true, false, true, false} {
			if _, err := d.Cold.Of(t.Context(), refs[i]); (err == nil) != want {
				t.Errorf("content %d: %v, want that it is cold: %v", i, err, want)
			}
		}
	})
}

// TestClockSetBack: after a clock was a year ahead and was set right, contents become cold
// as usual, and not all of them.
func TestClockSetBack(t *testing.T) {
	d, c := roomyDepot(t)
	d.Cold.Options.After = 48 * time.Hour
	ctx := t.Context()
	n := newNightly("app.so", 4, 9000)
	builds := 0
	nightly := func() {
		f, _ := n.build(builds)
		builds++
		add(t, d, "app", f)
		c.advance(24 * time.Hour)
		if err := d.Cold.Due(ctx); err != nil {
			t.Fatal(err)
		}
	}
	sums := func() coldstore.ColdStats {
		s, err := d.Cold.Stats(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	nightly()
	c.advance(365 * 24 * time.Hour)
	for range 4 {
		nightly()
	}
	if s := sums(); s.Contents != 4 {
		t.Fatalf("sums %+v, want 4 cold contents: all but the newest", s)
	}
	c.advance(-365 * 24 * time.Hour)
	for i, want := range []int64{4, 4, 6, 7} {
		if i > 0 {
			nightly()
		}
		if s := sums(); s.Contents != want {
			t.Errorf("sums %+v %d builds after the clock was set back, want %d cold contents of %d", s, i, want, builds)
		}
	}
	if s := sums(); s.Both > 1 {
		t.Errorf("sums %+v, want that only the plain bytes of the last one are still stored", s)
	}
}

// TestCoolGoesOn: a content that cannot be made cold does not keep those of other names
// from it.
func TestCoolGoesOn(t *testing.T) {
	d, c := roomyDepot(t)
	for _, name := range []string{"a.so", "b.so"} {
		n := newNightly(name, 4, 9000)
		for i := range 2 {
			f, _ := n.build(i)
			add(t, d, "app", f)
			c.advance(time.Hour)
		}
	}
	d.Cold.Options.After = time.Hour
	c.advance(48 * time.Hour)
	broken := errors.New("the disk has a bad block")
	if err := d.Cold.Pass(t.Context(), coldstore.Cooling{}, func(int) error { return broken }); !errors.Is(err, broken) {
		t.Fatalf("first pass: %v, want the error of the read", err)
	}
	st, err := d.Cold.Progress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Cold.Pass(t.Context(), st, nil); err != nil {
		t.Fatal(err)
	}
	if s, err := d.Cold.Stats(t.Context()); err != nil || s.Contents != 1 {
		t.Errorf("cold after the second pass: %+v, %v, want the content of the second name", s, err)
	}
}
