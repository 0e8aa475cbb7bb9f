package watch

import (
	"bytes"
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestGroom: a scan of a few folders leaves the keys of files that it has dropped; the next
// scan of all deletes them.
func TestGroom(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "a/prog", m.stripped)
	put(t, dir, "a/lib", m.lib)
	f := open(t, dir, Options{})
	scanned(t, f)
	left := func() int64 {
		t.Helper()
		rows, err := f.db.Groom(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, c := range []struct {
		file  string
		whole bool // whether a scan of all follows
	}{{"a/prog", false}, {"a/lib", true}} {
		if err := os.Remove(filepath.Join(dir, c.file)); err != nil {
			t.Fatal(err)
		}
		if s, err := f.scan(t.Context(), []string{"a"}); err != nil || s.Gone != 1 {
			t.Fatalf("a scan of one folder: %+v, %v, want one file gone", s, err)
		}
		if c.whole {
			scanned(t, f)
		}
		if n := left(); (n == 0) != c.whole {
			t.Errorf("%s: %d rows are left, with a scan of all: %v; want none only then", c.file, n, c.whole)
		}
	}
}

// TestUnopened: a file that cannot be opened is counted by each scan, and named once in the
// log, until it can be opened.
func TestUnopened(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	dir := t.TempDir()
	put(t, dir, "prog", m.stripped)
	put(t, dir, "cut.deb", makeDeb(t, true, entry{"x", m.lib})[:300])
	var log bytes.Buffer
	f := open(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Workers: 1})
	own := f.src
	f.src = &locked{own}
	for range 2 {
		if s := scanned(t, f); s.Unopened != 1 || s.LeftOut != 2 || s.Objects != 0 {
			t.Errorf("the scan has %d files that cannot be opened, left out %d, found %d objects; want 1, 2 and none", s.Unopened, s.LeftOut, s.Objects)
		}
	}
	if n := strings.Count(log.String(), "cannot be opened"); n != 1 {
		t.Errorf("the log says it %d times, want once:\n%s", n, log.String())
	}
	f.src = own
	if s := scanned(t, f); s.Unopened != 0 || s.LeftOut != 1 || s.Objects != 1 {
		t.Errorf("later, %d files cannot be opened, %d are left out, %d objects were found; want none, 1 and 1", s.Unopened, s.LeftOut, s.Objects)
	}
	wantBytes(t, f, "buildid/"+m.id+"/executable", m.stripped)
}

// locked is a folder in which prog cannot be opened.
type locked struct{ origin }

func (l *locked) open(ctx context.Context, path string) (handle, error) {
	if path == "prog" {
		return nil, fs.ErrPermission
	}
	return l.origin.open(ctx, path)
}

// TestUnsettled: a scan waits until a file is older than the steps of the clock that stamps
// it, which are whole seconds on some file systems.
func TestUnsettled(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000_000, 500_000_000)
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	for _, c := range []struct {
		name string
		s    stamp
		want time.Duration
	}{
		{"fine, old", stamp{mtime: at(-time.Hour - 1), ctime: at(-time.Second - 1)}, 0},
		{"fine, just written", stamp{mtime: at(-time.Hour - 1), ctime: at(-5*time.Millisecond - 1)}, 15*time.Millisecond - 1},
		{"fine, without a time of change", stamp{mtime: at(-5*time.Millisecond - 1)}, 15*time.Millisecond - 1},
		{"in the future", stamp{mtime: at(time.Hour)}, 0},
		{"whole seconds, just written", stamp{mtime: at(-500 * time.Millisecond)}, 1600 * time.Millisecond},
		{"whole seconds, old", stamp{mtime: at(-2500 * time.Millisecond), ctime: at(-2500 * time.Millisecond)}, 0},
		{"whole seconds, with an entity tag", stamp{mtime: at(-500 * time.Millisecond), tag: "x"}, 0},
		{"a whole second that was set", stamp{mtime: at(-500 * time.Millisecond), ctime: at(-time.Second - 1)}, 0},
	} {
		if got := c.s.unsettled(now); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
