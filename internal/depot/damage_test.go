package depot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/forms"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// blobPath returns the file of a content on disk.
func blobPath(d *Depot, ref blob.Ref) string { return d.Cold.Store().Below().(*blob.Disk).Path(ref) }

// overwrite changes the stored bytes of a content behind the depot's back.
func overwrite(t *testing.T, d *Depot, content, stored []byte) {
	t.Helper()
	if err := os.WriteFile(blobPath(d, blob.Sum(content)), stored, 0o644); err != nil {
		t.Fatal(err)
	}
}

// lossy are the ways in which the disk loses a content.
var lossy = map[string]func(t *testing.T, d *Depot, content []byte){
	"flipped": func(t *testing.T, d *Depot, b []byte) {
		c := bytes.Clone(b)
		c[len(c)/2] ^= 1
		overwrite(t, d, b, c)
	},
	"cut":     func(t *testing.T, d *Depot, b []byte) { overwrite(t, d, b, b[:len(b)-1]) },
	"grown":   func(t *testing.T, d *Depot, b []byte) { overwrite(t, d, b, append(bytes.Clone(b), 0)) },
	"empty":   func(t *testing.T, d *Depot, b []byte) { overwrite(t, d, b, nil) },
	"swapped": func(t *testing.T, d *Depot, b []byte) { overwrite(t, d, b, bytes.ToUpper(b)) },
	"missing": func(t *testing.T, d *Depot, b []byte) {
		if err := os.Remove(blobPath(d, blob.Sum(b))); err != nil {
			t.Fatal(err)
		}
	},
	"a folder in its place": func(t *testing.T, d *Depot, b []byte) {
		p := blobPath(d, blob.Sum(b))
		if err := errors.Join(os.Remove(p), os.Mkdir(p, 0o755)); err != nil {
			t.Fatal(err)
		}
	},
}

// logged is a depot whose log the test reads.
func logged(t *testing.T, opt Options) (*Depot, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	opt.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, &log
}

// whole reads an answer in order, as a server does.
func whole(t *testing.T, d *Depot, path string) ([]byte, error) {
	t.Helper()
	f, err := d.Open(t.Context(), answer.Scope{}, request(t, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
}

func TestDamagedIsNeverServed(t *testing.T) {
	for _, size := range []int{5000, blob.HashedAtOpen + 70_000} {
		for name, damage := range lossy {
			body := symFile(symID, size)
			t.Run(name+" "+map[bool]string{true: "small", false: "large"}[size <= blob.HashedAtOpen], func(t *testing.T) {
				d, log := logged(t, Options{})
				add(t, d, "app", file{"build/app.sym", body})
				damage(t, d, body)
				got, err := whole(t, d, symPath)
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("read of a damaged file: %v, want fs.ErrNotExist", err)
				}
				if len(got) > max(0, len(body)-blob.Withheld) {
					t.Errorf("%d of %d damaged bytes were returned, want the end to be withheld", len(got), len(body))
				}
				if _, err := whole(t, d, symPath); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("second read of a damaged file: %v, want fs.ErrNotExist", err)
				}
				if n := strings.Count(log.String(), "level=ERROR"); n != 1 || !strings.Contains(log.String(), blob.Sum(body).String()) {
					t.Errorf("%d errors in the log, want 1 that names the content:\n%s", n, log)
				}
			})
		}
	}
}

func TestAddHealsDamage(t *testing.T) {
	for name, damage := range lossy {
		if name == "a folder in its place" {
			continue // only Repair clears the way
		}
		body := symFile(symID, 5000)
		t.Run(name, func(t *testing.T) {
			d, _ := logged(t, Options{})
			add(t, d, "app", file{"build/app.sym", body})
			damage(t, d, body)
			wantRestored(t, d, "build/app.sym", body, true)
			wantRestored(t, d, "build/app.sym", body, false)
			if got, err := whole(t, d, symPath); err != nil || !bytes.Equal(got, body) {
				t.Errorf("after adding it again: %d bytes, %v; want %d", len(got), err, len(body))
			}
			if v, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("fault: %+v", f) }, nil); err != nil || v.Faults != 0 {
				t.Errorf("verify after adding it again: %d faults, %v; want no error and 0", v.Faults, err)
			}
		})
	}
}

// wantRestored adds a file and fails unless the transaction reports whether it
// restored a damaged content.
func wantRestored(t *testing.T, d *Depot, path string, body []byte, want bool) {
	t.Helper()
	tx, err := d.Begin(t.Context(), TxInfo{})
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	added, err := tx.Add(t.Context(), Source{Path: path, Content: bytesContent{Reader: bytes.NewReader(body)}})
	if err != nil {
		t.Fatal(err)
	}
	if len(added) != 1 || added[0].Restored != want || !added[0].Known {
		t.Errorf("add of %s: %+v, want one known object with Restored %v", path, added, want)
	}
	if _, err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestSiblingAnswersForDamage: while the best file of a key is damaged, a
// different file of the key is served.
func TestSiblingAnswersForDamage(t *testing.T) {
	d, _ := logged(t, Options{})
	better, other := testdata(t, "elf/prog-sha1.debug"), testdata(t, "elf/prog-sha1")
	add(t, d, "", better, other)
	lossy["flipped"](t, d, better.body)
	const path = "buildid/" + progID + "/debuginfo"
	if got, err := whole(t, d, path); err != nil || !bytes.Equal(got, other.body) {
		t.Errorf("debug information while the best file is damaged: %d bytes, %v; want the %d of the other", len(got), err, len(other.body))
	}
}

// TestUpstreamHealsDamage: a damaged cached file is downloaded again.
func TestUpstreamHealsDamage(t *testing.T) {
	for name, damage := range lossy {
		if name == "a folder in its place" {
			continue
		}
		body := symFile(symID, 5000)
		t.Run(name, func(t *testing.T) {
			s := &elsewhere{name: "s"}
			s.sends("app.sym", body)
			d, _ := withUpstreams(t, Options{}, s)
			add(t, d, "", file{"app.sym", body})
			damage(t, d, body)
			for range 2 {
				if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, body) {
					t.Errorf("%d bytes, %v; want the %d of the upstream", len(got), err, len(body))
				}
			}
			if n := s.asked.Load(); n != 1 {
				t.Errorf("the upstream was asked %d times, want once", n)
			}
			if v, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("fault: %+v", f) }, nil); err != nil || v.Faults != 0 {
				t.Errorf("verify after the download: %d faults, %v; want no error and 0", v.Faults, err)
			}
		})
	}
}

func TestRepair(t *testing.T) {
	s := &elsewhere{name: "far.example"}
	cached := symFile(symID, 5000)
	s.sends("app.sym", cached)
	d, _ := withUpstreams(t, Options{}, s)
	if _, err := fetched(t.Context(), t, d, symPath); err != nil {
		t.Fatal(err)
	}
	own := testdata(t, "elf/prog-sha1")
	n := add(t, d, "game", own)
	plain, err := d.Open(t.Context(), answer.Scope{}, request(t, "buildid/"+progID+"/executable"))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	made, err := d.forms.Derive(t.Context(), forms.Form{Ref: plain.Ref, Tool: forms.Codings["zstd"]})
	if err != nil || made.Size == 0 {
		t.Fatalf("derive: %+v, %v; want a content", made, err)
	}
	lossy["flipped"](t, d, own.body)
	lossy["cut"](t, d, cached)
	if err := os.Truncate(blobPath(d, made.Ref), 10); err != nil {
		t.Fatal(err)
	}
	faults := map[string]content.Fault{}
	v, err := d.Check.Repair(t.Context(), func(f content.Fault) { faults[f.Ref] = f }, nil)
	if err != nil || v.Faults != 3 {
		t.Fatalf("repair: %d faults, %v; want 3", v.Faults, err)
	}
	for _, c := range []struct {
		what, ref string
		lost      content.FaultFile
		remedy    string
	}{
		{"added", blob.Sum(own.body).String(), content.FaultFile{File: "prog-sha1", Path: own.path, Product: "game", Transaction: n}, "symdepot add"},
		{"cached", blob.Sum(cached).String(), content.FaultFile{File: "app.pdb", Path: "app.sym", FetchedFrom: "far.example"}, "downloads it again"},
		{"derived", made.Ref.String(), content.FaultFile{MadeFrom: plain.Ref.String(), Tool: forms.Codings["zstd"].Name}, "made again"},
	} {
		f := faults[c.ref]
		if len(f.Files) != 1 || f.Files[0] != c.lost {
			t.Errorf("%s content: lost files %+v, want %+v", c.what, f.Files, c.lost)
		}
		if !strings.Contains(f.Remedy, c.remedy) {
			t.Errorf("%s content: remedy %q, want one that says %q", c.what, f.Remedy, c.remedy)
		}
		if _, err := os.Stat(f.MovedTo); err != nil || filepath.Base(f.MovedTo) != c.ref {
			t.Errorf("%s content: moved to %q (%v), want a file named by its SHA-256", c.what, f.MovedTo, err)
		}
	}
	// Cached and derived contents need nothing; the added one is added again.
	v, err = d.Check.Verify(t.Context(), func(f content.Fault) {
		if f.Ref != blob.Sum(own.body).String() {
			t.Errorf("fault after the repair: %+v, want one of the damaged content only", f)
		}
	}, nil)
	if err != nil || v.Faults != 1 {
		t.Errorf("verify after the repair: %d faults, %v; want the one that only add mends", v.Faults, err)
	}
	if got, err := fetched(t.Context(), t, d, symPath); err != nil || !bytes.Equal(got, cached) {
		t.Errorf("the cached file after the repair: %d bytes, %v; want %d", len(got), err, len(cached))
	}
	add(t, d, "game", own)
	if again, err := d.forms.Derive(t.Context(), forms.Form{Ref: plain.Ref, Tool: forms.Codings["zstd"]}); err != nil || again != made {
		t.Errorf("derive after the repair: %+v, %v; want %+v", again, err, made)
	}
	if v, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("fault at the end: %+v", f) }, nil); err != nil || v.Faults != 0 {
		t.Errorf("verify at the end: %d faults, %v; want no error and 0", v.Faults, err)
	}
}

// TestContentIsHashed: contents that export and bundle read are hashed first.
func TestContentIsHashed(t *testing.T) {
	d, _ := logged(t, Options{})
	body := symFile(symID, blob.HashedAtOpen+1000)
	add(t, d, "", file{"app.sym", body})
	f, err := d.Content(t.Context(), blob.Sum(body))
	if err != nil || f.OSFile() == nil {
		t.Fatalf("content: %v, %v; want the file on disk", f, err)
	}
	_ = f.Close()
	lossy["flipped"](t, d, body)
	if _, err := d.Content(t.Context(), blob.Sum(body)); !errors.Is(err, blob.ErrDamaged) {
		t.Errorf("a damaged content: %v, want blob.ErrDamaged", err)
	}
}

func TestScrub(t *testing.T) {
	d, log := logged(t, Options{ScrubRate: 1 << 20})
	var waited time.Duration
	d.Check.Wait = func(_ context.Context, pause time.Duration) error { waited += pause; return nil }
	good, bad := symFile(symID, 300<<10), testdata(t, "elf/prog-sha1")
	add(t, d, "", file{"app.sym", good}, bad)
	lossy["flipped"](t, d, bad.body)
	if err := d.Check.ScrubDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	st, err := d.Check.Progress(t.Context())
	if err != nil || st.LastContents != 2 || st.LastDamaged != 1 || st.LastBytes != int64(len(good)+len(bad.body)) || st.Finished.IsZero() || !st.Started.IsZero() {
		t.Errorf("state after a pass: %+v, %v; want 2 contents, 1 damaged, a finished pass", st, err)
	}
	if waited < 200*time.Millisecond {
		t.Errorf("waited %v for %d bytes at 1 MiB/s, want at least 200ms", waited, st.LastBytes)
	}
	if !strings.Contains(log.String(), blob.Sum(bad.body).String()) {
		t.Errorf("the log does not name the damaged content:\n%s", log)
	}
	if _, err := whole(t, d, "buildid/"+progID+"/executable"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open after the pass: %v, want fs.ErrNotExist", err)
	}
	covers := func(when string, read, stored int64) {
		t.Helper()
		if _, n, err := d.Check.Coverage(t.Context()); err != nil || n != (check.Coverage{Read: read, Stored: stored}) {
			t.Errorf("%s: %+v, %v; want %d of %d contents read", when, n, err, read, stored)
		}
	}
	covers("after a pass", 2, 2)
	// The next pass is due in a week, and goes on where one was cut off.
	waited = 0
	if err := d.Check.ScrubDue(t.Context()); err != nil || waited != 0 {
		t.Errorf("a second pass at once: waited %v, %v; want none", waited, err)
	}
	st.Started, st.Position, st.Contents, st.Owner = time.Now(), 1, 1, d.Check.Owner()
	if err := d.db.Scrub.Put(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if err := d.Check.ScrubDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := d.Check.Progress(t.Context()); err != nil || again.LastContents != 2 || again.LastBytes >= st.LastBytes+st.Bytes && st.Bytes == 0 {
		t.Errorf("state after a continued pass: %+v, %v; want only the second content to be read", again, err)
	}
}

// TestScrubCoverage: a content counts as read when a pass has read it, and not before; one
// that is added during a pass is read by this pass. Verify counts as a pass.
func TestScrubCoverage(t *testing.T) {
	now := time.Now()
	d, _ := logged(t, Options{ScrubRate: 1, Now: func() time.Time { return now }})
	covers := func(when string, read, stored int64) {
		t.Helper()
		if _, n, err := d.Check.Coverage(t.Context()); err != nil || n != (check.Coverage{Read: read, Stored: stored}) {
			t.Errorf("%s: %+v, %v; want %d of %d contents read", when, n, err, read, stored)
		}
	}
	covers("empty", 0, 0)
	add(t, d, "", file{"app.sym", symFile(symID, 1000)})
	covers("before the first pass", 0, 1)
	extra := testdata(t, "elf/prog-sha1")
	d.Check.Wait = func(_ context.Context, pause time.Duration) error {
		now = now.Add(time.Minute)
		if extra.body != nil {
			add(t, d, "", extra)
			extra.body = nil
		}
		return nil
	}
	if err := d.Check.ScrubDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	covers("after a pass, during which one was added", 2, 2)
	now = now.Add(time.Minute)
	add(t, d, "", testdata(t, "pdb/hello-x64.pdb"))
	covers("after one more was added", 2, 3)
	// The next pass begins: what the last one read stays read.
	now = now.Add(8 * 24 * time.Hour)
	calls, stop := 0, errors.New("stopped")
	d.Check.Wait = func(context.Context, time.Duration) error {
		if calls++; calls > 1 {
			return stop
		}
		return nil
	}
	if err := d.Check.ScrubDue(t.Context()); !errors.Is(err, stop) {
		t.Fatalf("the pass: %v, want that it stops", err)
	}
	covers("in the next pass", 2, 3)
	verify := func() {
		t.Helper()
		if _, err := d.Check.Verify(t.Context(), func(f content.Fault) { t.Errorf("fault: %+v, want none", f) }, nil); err != nil {
			t.Fatal(err)
		}
	}
	verify()
	covers("after verify, while another process works on a pass", 2, 3)
	now = now.Add(2 * 5 * time.Minute)
	verify()
	covers("after verify", 3, 3)
	now = now.Add(time.Minute)
	add(t, d, "", testdata(t, "pdb/hello-x64.pdb"), file{"more.sym", symFile("000000000000000000000000000000019", 1000)})
	covers("after one more was added", 3, 4)
	if st, err := d.Check.Progress(t.Context()); err != nil || st.LastContents != 3 || st.LastDamaged != 0 || !st.Started.IsZero() {
		t.Errorf("state after verify: %+v, %v; want a complete pass of 3 contents", st, err)
	}
}

// TestAuditMonthly: a server compares the bucket with the index a month after the
// depot began, and then again a month later, without any garbage collection.
func TestAuditMonthly(t *testing.T) {
	now := time.Now()
	d, log := logged(t, Options{Bucket: bucketOf(t, buckettest.S3(t))})
	d.Check.Now = func() time.Time { return now }
	start, hours := now, 0
	var audits []time.Duration // since the start
	last := time.Time{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.Check.Wait = func(ctx context.Context, pause time.Duration) error {
		at, err := d.db.Places.Audited(ctx)
		if err != nil {
			t.Error(err)
		}
		if !at.Equal(last) {
			audits, last = append(audits, at.Sub(start).Round(pause)), at
		}
		if hours++; hours > 70*24 {
			cancel()
		}
		now = now.Add(pause)
		return ctx.Err()
	}
	d.Check.AuditMonthly(ctx)
	// The first time is that of the beginning.
	if want := []time.Duration{time.Hour, 721 * time.Hour, 1441 * time.Hour}; !slices.Equal(audits, want) {
		t.Errorf("audits after %v, want %v", audits, want)
	}
	if log.Len() > 0 {
		t.Errorf("warnings:\n%s, want none", log)
	}
}

// TestScrubLeavesOthersAlone: one process checks at a time.
func TestScrubLeavesOthersAlone(t *testing.T) {
	d, _ := logged(t, Options{})
	add(t, d, "", testdata(t, "elf/prog-sha1"))
	d.Check.Wait = func(context.Context, time.Duration) error { return nil }
	if err := d.db.Scrub.Put(t.Context(), places.ScrubState{Owner: "another", Updated: time.Now(), Started: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := d.Check.ScrubDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, err := d.Check.Progress(t.Context()); err != nil || st.Owner != "another" || st.Contents != 0 {
		t.Errorf("state: %+v, %v; want that of the other process", st, err)
	}
}

// TestRangeOfLargeFile: a range of a large file is served before the file has
// been hashed; the end of a whole GET is still withheld.
func TestRangeOfLargeFile(t *testing.T) {
	d, _ := logged(t, Options{})
	body := symFile(symID, blob.HashedAtOpen+100_000)
	add(t, d, "", file{"app.sym", body})
	f, err := d.Open(t.Context(), answer.Scope{}, request(t, symPath))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	part := make([]byte, 1000)
	if n, err := f.ReadAt(part, f.Size-1000); n != 1000 || err != nil && err != io.EOF || !bytes.Equal(part, body[len(body)-1000:]) {
		t.Errorf("the last 1000 bytes: %d, %v; want the bytes as added", n, err)
	}
	if f.OSFile() != nil {
		t.Error("the file on disk is given out before it was hashed")
	}
	if got, err := readAll(f); err != nil || !bytes.Equal(got, body) {
		t.Errorf("the whole after a part: %d bytes, %v; want %d", len(got), err, len(body))
	}
}

// TestSuspicion: what verify and the background check find is known to all processes, and
// what they find intact is not suspected any more.
func TestSuspicion(t *testing.T) {
	d, _ := logged(t, Options{})
	d.Check.Wait = func(context.Context, time.Duration) error { return nil }
	good, bad := symFile(symID, 5000), testdata(t, "elf/prog-sha1")
	add(t, d, "", file{"app.sym", good}, bad)
	checks := map[string]func(){
		"verify": func() { verified(t, d, check.Options{}) },
		"background check": func() {
			if err := d.db.Scrub.Put(t.Context(), places.ScrubState{}); err != nil {
				t.Fatal(err)
			}
			if err := d.Check.ScrubDue(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	}
	want := func(when string, refs ...blob.Ref) {
		t.Helper()
		d.contents.Close()
		got, err := d.contents.Suspected(t.Context())
		if err != nil || len(got) != len(refs) || len(refs) > 0 && !got[refs[0]] {
			t.Errorf("%s: suspected %v, %v; want %v", when, got, err, refs)
		}
	}
	for name, check := range checks {
		lossy["flipped"](t, d, bad.body)
		if err := d.db.Damages.Note(t.Context(), blob.Sum(good), "it was unreadable for a while"); err != nil {
			t.Fatal(err)
		}
		check()
		want(name, blob.Sum(bad.body))
		overwrite(t, d, bad.body, bad.body)
		check()
		want(name + " after the repair")
	}
}

// suspected returns how many contents were found damaged or missing.
func suspected(ctx context.Context, d *Depot) (n int, err error) {
	for _, err := range d.db.Damages.All(ctx) {
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
