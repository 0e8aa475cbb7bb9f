package client

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/filestamp"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

// TestPushHashes: a push with Hashes reads the files that are new or have changed, those that
// changed shortly before the last push, and those of which the server has found another hash.
func TestPushHashes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "f.sym")
	content := sym(1, 2000)
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(content)
	stamp := func() filestamp.Stamp {
		t.Helper()
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := filestamp.Of(f)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ids := func() uint64 {
		t.Helper()
		objs, err := objfile.Identify(bytes.NewReader(content), int64(len(content)), name, objfile.Options{IDs: true})
		if err != nil {
			t.Fatal(err)
		}
		return hashOf(objs)
	}
	if stamp().Changed == 0 {
		t.Skip("needs a file system that tells when a file was changed (Linux, macOS, NTFS)")
	}
	list := filepath.Join(t.TempDir(), "hashes")
	push := func(later time.Duration) (h *Hashes, err error) {
		t.Helper()
		h, err = OpenHashes(list)
		if err != nil {
			t.Fatal(err)
		}
		h.now = func() time.Time { return time.Now().Add(later) }
		p := newTestPusher(t, newPushServer())
		p.Hashes = h
		_, err = p.Push(t.Context(), PushOptions{PushSpec: wire.PushSpec{Product: "app"}, Paths: []string{dir}})
		if serr := h.Save(); serr != nil {
			t.Fatal(serr)
		}
		return h, err
	}
	known := func(h *Hashes) bool {
		t.Helper()
		ref, known := h.of(name, stamp(), ids())
		if known && ref != blob.Sum(content) {
			t.Errorf("remembered %s, want that of the content", ref)
		}
		return known
	}
	if h, err := push(0); err != nil || known(h) {
		t.Errorf("a file that has just changed: %v, remembered", err)
	}
	h, err := push(time.Hour)
	if err != nil || !known(h) {
		t.Errorf("a file that has not changed for an hour: %v, not remembered", err)
	}
	// Another hash in the list shows that the file is not read.
	h.all[name] = hashed{stamp(), blob.Sum([]byte("x")), ids(), h.today()}
	if err := h.Save(); err != nil {
		t.Fatal(err)
	}
	if h, err = push(time.Hour); err == nil || known(h) {
		t.Errorf("a wrong hash in the list: %v; want an error of the server, and that it is forgotten", err)
	}
	if h, err = push(time.Hour); err != nil || !known(h) {
		t.Errorf("the next push: %v; want that it reads the file", err)
	}
	content = sym(2, 2000)
	write(content)
	if h, err := push(time.Hour); err != nil || !known(h) {
		t.Errorf("a changed file: %v; want its hash", err)
	}
	// A program that still writes a file through a mapping may leave its times as they were.
	h.all[name] = hashed{stamp(), blob.Sum([]byte("x")), ids() + 1, h.today()}
	if err := h.Save(); err != nil {
		t.Fatal(err)
	}
	if h, err := push(time.Hour); err != nil || !known(h) {
		t.Errorf("a file with the times, but not the ids of before: %v; want that it is read", err)
	}
	if h, err := push((hashDays + 1) * 24 * time.Hour); err != nil || !known(h) {
		t.Errorf("a file that is pushed a month later: %v; want its hash", err)
	}
	if err := os.Rename(name, filepath.Join(dir, "g.sym")); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "g.sym")
	if h, err = push(2 * (hashDays + 1) * 24 * time.Hour); err != nil || len(h.all) != 2 {
		t.Errorf("a renamed file: %v, %d files", err, len(h.all))
	}
	if h, err = OpenHashes(list); err != nil || len(h.all) != 1 {
		t.Errorf("the list has %d files, %v; want that of the last push alone", len(h.all), err)
	}
}

// TestOpenHashes: a list that is damaged, of another version or hostile gives no entries beyond
// the damage, and no error.
func TestOpenHashes(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "hashes")
	line := strings.Repeat("ab", 32) + ` 1 2 3 4 5 6 "/a b"` + "\n"
	for text, want := range map[string]int{
		"": 0, "symdepot hashes 1\n" + line: 0, hashesTitle: 0, hashesTitle + "\n" + line: 1,
		hashesTitle + "\n" + line[:50]: 0, hashesTitle + "\n" + line + "x y\n" + strings.ReplaceAll(line, "/a", "/b"): 1,
		hashesTitle + "\n" + strings.Replace(line, " 2 ", " -2 ", 1):    0,
		hashesTitle + "\n" + strings.Replace(line, `"/a b"`, "/a b", 1): 0,
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := OpenHashes(name)
		if err != nil || len(h.all) != want {
			t.Errorf("%q: %d files, %v; want %d", text, len(h.all), err, want)
		}
		if ref, known := h.of("/a b", filestamp.Stamp{Inode: 2, Size: 1, Written: 3, Changed: 4}, 5); known != (want > 0) || known && ref[0] != 0xab {
			t.Errorf("%q: %v, %v", text, ref, known)
		}
	}
	if _, err := OpenHashes(t.TempDir()); err == nil {
		t.Error("a folder in place of the list is no error")
	}
}

// FuzzHashes: no file makes OpenHashes fail or panic, and what it reads is written and read alike.
func FuzzHashes(f *testing.F) {
	f.Add([]byte(hashesTitle + "\n" + strings.Repeat("ab", 32) + ` 1 2 3 4 5 6 "/a b"` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := &Hashes{name: filepath.Join(t.TempDir(), "hashes"), now: func() time.Time { return time.Unix(0, 0) }, all: map[string]hashed{}}
		h.parse(text)
		for path, e := range h.all {
			if e.day < -hashDays {
				delete(h.all, path)
			}
		}
		if err := h.Save(); err != nil {
			t.Fatal(err)
		}
		again, err := OpenHashes(h.name)
		if err != nil || len(again.all) != len(h.all) {
			t.Fatalf("%d of %d files, %v", len(again.all), len(h.all), err)
		}
		for path, e := range h.all {
			if again.all[path] != e {
				t.Errorf("%q: %+v, want %+v", path, again.all[path], e)
			}
		}
	})
}

// TestUserHashes: without a name, the hashes are in the cache folder of the user, for each set of
// paths, and only those of files on file systems that tell of every change. What another user may have
// written is not used, the oldest files go, and none is made if none is wanted.
func TestUserHashes(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HOME", cache)
	t.Setenv("XDG_CACHE_HOME", cache)
	if !filestamp.Known {
		if h, err := HashesFor("", []string{cache}); h != nil || err != nil {
			t.Errorf("the hashes are in %v, %v; want nowhere", h, err)
		}
		return
	}
	dir, src := filepath.Join(cache, "symdepot", "pushed"), t.TempDir()
	name := filepath.Join(src, "f.sym")
	if err := os.WriteFile(name, sym(1, 2000), 0o644); err != nil {
		t.Fatal(err)
	}
	push := func(own bool) *Hashes {
		t.Helper()
		h, err := HashesFor("", []string{src})
		if err != nil || h == nil || !h.own || len(h.all) != 0 {
			t.Fatalf("the hashes are %+v, %v; want an empty file in the cache folder", h, err)
		}
		h.own, h.now = own, func() time.Time { return time.Now().Add(time.Hour) }
		p := newTestPusher(t, newPushServer())
		p.Hashes = h
		if _, err := p.Push(t.Context(), PushOptions{PushSpec: wire.PushSpec{Product: "app"}, Paths: []string{src}}); err != nil {
			t.Fatal(err)
		}
		return h
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if h := push(true); (len(h.all) == 1) != filestamp.Tells(f) {
		t.Errorf("%d files are remembered; the file system tells of every change: %v", len(h.all), filestamp.Tells(f))
	}
	h := push(false)
	h.own = true
	for i := range keptLists + 3 {
		old := filepath.Join(dir, fmt.Sprint("old", i))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(old, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(old, time.Time{}, time.Now().Add(-time.Duration(i+1)*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Save(); err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != keptLists {
		t.Errorf("%d files, %v; want %d", len(list), err, keptLists)
	}
	if again := UserHashes([]string{src}); again == nil || len(again.all) != 1 || again.name != h.name {
		t.Errorf("the next push has %+v, want the hash of one file", again)
	}
	if other := UserHashes([]string{src, cache}); other == nil || len(other.all) != 0 || other.name == h.name {
		t.Errorf("a push of other paths has %+v, want another file", other)
	}
	if err := os.Chmod(h.name, 0o666); err != nil {
		t.Fatal(err)
	}
	if again := UserHashes([]string{src}); again != nil {
		t.Errorf("a file that others may write to is used: %+v", again)
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(cache, "no", "home"))
	if h := UserHashes([]string{src}); h != nil {
		t.Errorf("without a home: %+v", h)
	}
	if h, err := HashesFor(NoHashes, []string{src}); h != nil || err != nil || h.Save() != nil {
		t.Errorf("none: %+v, %v", h, err)
	}
}
