package depot

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/check"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/dumps"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// keptDump keeps a dump, and returns its id and its bytes.
func keptDump(t *testing.T, d *Depot, name string, body []byte) string {
	t.Helper()
	k, err := d.Dumps.Keep(t.Context(), dumps.Dump{Name: name, Key: "k", Reason: "SIGSEGV"}, bytes.NewReader(body), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	return k.ID
}

// dumpBytes reads a kept dump; nil: there is none.
func dumpBytes(t *testing.T, d *Depot, id string) []byte {
	t.Helper()
	k, err := d.Dumps.Find(t.Context(), id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Dumps.Open(t.Context(), &k)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestDumps keeps dumps on disk and in a bucket, beside cold files. No list or lookup of files has them, cooling and
// garbage collection leave them, and after their time, or when they are deleted, their bytes are gone.
func TestDumps(t *testing.T) {
	for _, in := range []string{"disk", "bucket"} {
		t.Run(in, func(t *testing.T) {
			c := &clock{t: time.Now()}
			opt := Options{Now: c.now, KeepDumps: 48 * time.Hour}
			stored := func(*Depot) (keys []string) { return nil }
			if in == "bucket" {
				p := buckettest.S3(t)
				opt.Bucket = bucketOf(t, p)
				stored = func(*Depot) (keys []string) {
					for o, err := range bucketOf(t, p).List(t.Context(), "") {
						if err != nil {
							t.Fatal(err)
						}
						keys = append(keys, o.Key)
					}
					return keys
				}
			} else {
				stored = func(d *Depot) (keys []string) {
					for i, err := range d.blobs.List(t.Context()) {
						if err != nil {
							t.Fatal(err)
						}
						keys = append(keys, i.Ref.String())
					}
					return keys
				}
			}
			d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			d.Cold.Space = func() (total, free int64, err error) { return 1 << 40, 1 << 39, nil }
			has := func(body []byte) bool {
				t.Helper()
				return strings.Contains(strings.Join(stored(d), "\n"), blob.Sum(body).String())
			}
			n := newNightly("app.so", 1, 9000)
			want := map[string][]byte{}
			var last file
			for range 3 {
				f, path := n.build(len(want))
				last, want[path] = f, f.body
				add(t, d, "app", f)
				c.advance(24 * time.Hour)
			}
			before, err := d.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			// One dump has the bytes of a file that can be looked up: they stay when the dump goes.
			one, two, file := numbered(1, 4000).body, bytes.Repeat([]byte("secret "), 5000), keptDump(t, d, "file.dmp", last.body)
			first := keptDump(t, d, "one.dmp", one)
			again := keptDump(t, d, "again.dmp", one)
			if got, err := d.Stats(t.Context()); err != nil || got.Objects != before.Objects || got.Lookups != before.Lookups || got.Contents != before.Contents+1 {
				t.Errorf("%+v, %v; want the files of before and one content more: %+v", got, err, before)
			}
			if _, _, err := get(t, d, answer.Scope{}, "n1.sym/00000000000000000000000000000002"+"0/n1.sym"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the symbol file that is kept as a dump: %v, want fs.ErrNotExist", err)
			}
			if sum, err := d.Cold.Cool(t.Context(), coldstore.CoolOptions{After: time.Hour, Grace: coldstore.CoolGrace}); err != nil || sum.Contents != 2 {
				t.Errorf("cool: %+v, %v, want the two old builds", sum, err)
			}
			c.advance(2 * time.Hour)
			if n, err := d.Cold.Strip(t.Context(), coldstore.CoolGrace); err != nil || n != 2 {
				t.Errorf("strip: %d, %v, want 2", n, err)
			}
			if _, err := d.Collect(t.Context(), -1, false); err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{first, again} {
				if got := dumpBytes(t, d, id); !bytes.Equal(got, one) {
					t.Errorf("a dump has %d bytes after cooling and gc, want %d", len(got), len(one))
				}
			}
			if err := d.Dumps.Remove(t.Context(), first); err != nil || dumpBytes(t, d, first) != nil || !bytes.Equal(dumpBytes(t, d, again), one) {
				t.Errorf("one of two equal dumps is deleted: %v; want the other whole", err)
			}
			if err := d.Dumps.Remove(t.Context(), again); err != nil || has(one) {
				t.Errorf("both are deleted: %v, their bytes are stored: %v; want none", err, has(one))
			}
			if err := d.Dumps.Remove(t.Context(), again); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("deleted again: %v, want fs.ErrNotExist", err)
			}
			if err := d.Dumps.Remove(t.Context(), file); err != nil {
				t.Error(err)
			}
			answers(t, d, want)

			timed := keptDump(t, d, "two.dmp", two)
			if got := dumpBytes(t, d, timed); !bytes.Equal(got, two) || !has(two) {
				t.Errorf("a dump of %d bytes, want %d", len(got), len(two))
			}
			c.advance(48 * time.Hour)
			if dumpBytes(t, d, timed) != nil {
				t.Error("a dump can be read after its time")
			}
			if err := sweepRows(t.Context(), d, c.now()); err != nil || has(two) {
				t.Errorf("the sweep: %v; the bytes are stored: %v; want none", err, has(two))
			}
			if list, err := d.Dumps.List(t.Context(), 0, 10); err != nil || len(list) > 0 {
				t.Errorf("%+v, %v; want no dumps", list, err)
			}
			answers(t, d, want)
			if v, faults := verified(t, d, check.Options{Restore: true}); len(faults) > 0 || v.Strays > 0 {
				t.Errorf("verify: %+v, %+v, want no faults and no strays", v, faults)
			}
			if problems, err := d.db.Check(t.Context()); err != nil || len(problems) > 0 {
				t.Errorf("the index: %q, %v, want no problems", problems, err)
			}
		})
	}
}

// TestDumpsInCopies: a backup and a migrated depot have the kept dumps, with their bytes. A dump whose time is over is
// gone in the restored depot too, with its next sweep.
func TestDumpsInCopies(t *testing.T) {
	c := &clock{t: time.Now()}
	opt := Options{Now: c.now, KeepDumps: time.Hour}
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "depot"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	add(t, d, "app", numbered(1, 100))
	body := bytes.Repeat([]byte("secret "), 5000)
	id := keptDump(t, d, "a.dmp", body)
	dir, fresh, moved := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "fresh"), filepath.Join(t.TempDir(), "moved")
	if b := backUp(t, d, dir, backup.Options{}); b.Contents != 2 {
		t.Errorf("backup: %+v, want 2 contents", b)
	}
	if _, err := backup.Restore(t.Context(), dir, fresh, backup.Options{}); err != nil {
		t.Fatal(err)
	}
	to, err := Open(t.Context(), moved, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	if m, err := d.Migrate(t.Context(), to, func(int64, int64) {}); err != nil || m.Contents != 2 {
		t.Errorf("migrate: %+v, %v, want 2 contents", m, err)
	}
	restored, err := Open(t.Context(), fresh, Options{Now: c.now}) // which keeps no new dumps
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = restored.Close() })
	for name, copied := range map[string]*Depot{"restored": restored, "migrated": to} {
		if got := dumpBytes(t, copied, id); !bytes.Equal(got, body) {
			t.Errorf("%s: the dump has %d bytes, want %d", name, len(got), len(body))
		}
	}
	c.advance(time.Hour)
	for dir, copied := range map[string]*Depot{fresh: restored, moved: to} {
		if dumpBytes(t, copied, id) != nil {
			t.Errorf("%s: the dump can be read after its time", dir)
		}
		if err := sweepRows(t.Context(), copied, c.now()); err != nil {
			t.Error(err)
		}
		sum := blob.Sum(body).String()
		if _, err := os.Stat(filepath.Join(dir, "blobs", sum[:2], sum[2:])); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the bytes of the dump after its time: %v, want fs.ErrNotExist", dir, err)
		}
	}
}

// TestDumpThatStays: the bytes of a dump that cannot be deleted are told, and do not keep those of others.
func TestDumpThatStays(t *testing.T) {
	c := &clock{t: time.Now()}
	dir := filepath.Join(t.TempDir(), "depot")
	d, err := Open(t.Context(), dir, Options{Now: c.now, KeepDumps: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	path := func(body string) string {
		keptDump(t, d, "a.dmp", []byte(body))
		sum := blob.Sum([]byte(body)).String()
		return filepath.Join(dir, "blobs", sum[:2], sum[2:])
	}
	one, two := path("one"), path("two")
	if err := errors.Join(os.Remove(one), os.MkdirAll(filepath.Join(one, "in the way"), 0o755)); err != nil {
		t.Fatal(err)
	}
	c.advance(time.Hour)
	if err := sweepRows(t.Context(), d, c.now()); err == nil || !strings.Contains(err.Error(), "gc deletes") {
		t.Errorf("a dump that cannot be deleted: error %v, want what becomes of it", err)
	}
	if _, err := os.Stat(two); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the bytes of the other one: %v, want fs.ErrNotExist", err)
	}
}
