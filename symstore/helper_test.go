package symstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// peImage is a small PE image with the given key parts, filled with content.
func peImage(stamp, size uint32, content string) []byte {
	b := make([]byte, 0x200, 0x200+len(content))
	copy(b, "MZ")
	le := binary.LittleEndian
	le.PutUint32(b[0x3c:], 0x80)
	pe := b[0x80:]
	copy(pe, "PE\x00\x00")
	le.PutUint16(pe[4:], 0x8664)
	le.PutUint32(pe[8:], stamp)
	le.PutUint16(pe[20:], 240)
	le.PutUint16(pe[22:], 0x22)
	le.PutUint16(pe[24:], 0x20b)
	le.PutUint32(pe[24+56:], size)
	le.PutUint32(pe[24+60:], 0x200)
	le.PutUint32(pe[24+108:], 16)
	return append(b, content...)
}

// writeFile makes a file and its folder.
func writeFile(t testing.TB, name string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// files yields files.
func files(list ...File) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for _, f := range list {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// paths yields files by their paths.
func paths(list ...string) iter.Seq2[File, error] {
	var fs []File
	for _, p := range list {
		fs = append(fs, File{Path: p})
	}
	return files(fs...)
}

// at is a clock that stands still.
func at(stamp string) func() time.Time {
	t, err := time.ParseInLocation("2006-01-02 15:04:05", stamp, time.Local)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return t }
}

func create(t testing.TB, dir string, tiers Tiers, opt Options) *Store {
	t.Helper()
	s, err := Create(dir, tiers, opt)
	if err != nil {
		t.Fatal(err)
	}
	s.tree.Faults = noFlush
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// noFlush omits the flushes: they matter in a power loss only, and take most of
// the time of a test.
func noFlush(op durable.Op, _ string) (land bool, err error) {
	return op != durable.OpSync && op != durable.OpSyncAll && op != durable.OpSyncDir, nil
}

func mustAdd(t testing.TB, s *Store, opt AddOptions, list iter.Seq2[File, error]) AddResult {
	t.Helper()
	r, err := s.Add(context.Background(), opt, list)
	if err != nil || r.Failed > 0 {
		t.Fatalf("add: %d files failed, error %v, first error of a file: %v; want none", r.Failed, err, r.Err)
	}
	return r
}

// counts are those of an AddResult.
type counts struct{ Stored, Repeated, Ignored, Failed int }

// wantCounts checks the result of an Add.
func wantCounts(t testing.TB, r AddResult, err error, w counts) {
	t.Helper()
	if err != nil {
		t.Errorf("add: error %v, want none", err)
	}
	if got := (counts{r.Stored, r.Repeated, r.Ignored, r.Failed}); got != w {
		t.Errorf("add counts %+v, want %+v; first error of a file: %v", got, w, r.Err)
	}
}

// wantError checks that an error is of a kind.
func wantError(t testing.TB, what string, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: error %v, want %v", what, err, kind)
	}
}

// wantUnchanged compares the store with an earlier tree.
func wantUnchanged(t testing.TB, s *Store, what string, before map[string]string) {
	t.Helper()
	if d := differ(before, tree(t, s.Dir())); d != "" {
		t.Errorf("%s changes the store, want no change:\n%s", what, d)
	}
}

// wantNoLeftovers checks that no writer has left anything.
func wantNoLeftovers(t testing.TB, s *Store) {
	t.Helper()
	if left := leftovers(t, s); len(left) > 0 {
		t.Errorf("files of writers are left: %q, want none", left)
	}
}

// awaitForks waits until no program is between fork and exec. There it has the files of this
// process, and with them the lock of a writer that was stopped: the writer seems to live.
func awaitForks() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}

// mustFind returns what the store has under a key.
func mustFind(t testing.TB, s *Store, name, key string) *Found {
	t.Helper()
	f, err := s.Find(name, key)
	if err != nil {
		t.Fatalf("find %s/%s: %v", name, key, err)
	}
	return f
}

func mustDel(t testing.TB, s *Store, id ID) DelResult {
	t.Helper()
	r, err := s.Del(context.Background(), id)
	if err != nil {
		t.Fatalf("del %s: %v", id, err)
	}
	return r
}

// noFile is what read returns for a file that does not exist.
const noFile = "NO SUCH FILE"

// read returns the content of a file of the store.
func read(t testing.TB, s *Store, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir(), filepath.FromSlash(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return noFile
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// want checks the content of a file of the store.
func want(t testing.TB, s *Store, name, content string) {
	t.Helper()
	if got := read(t, s, name); got != content {
		t.Errorf("%s:\n got %q\nwant %q", name, got, content)
	}
}

// tree lists what a store holds, without what symdepot keeps for itself.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		rel = filepath.ToSlash(rel)
		if strings.HasPrefix(rel, adminDir+"/symdepot.") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			out[rel+"/"] = ""
			return nil
		}
		data, err := os.ReadFile(p)
		out[rel] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// differ says how two trees differ.
func differ(a, b map[string]string) string {
	var list []string
	for k, v := range a {
		if w, ok := b[k]; !ok {
			list = append(list, "-"+k)
		} else if v != w {
			list = append(list, fmt.Sprintf("~%s: %.200q and %.200q", k, v, w))
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			list = append(list, "+"+k)
		}
	}
	sort.Strings(list)
	return strings.Join(list, "\n")
}

// leftovers lists what symdepot has left below 000Admin besides its lock.
func leftovers(t testing.TB, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(s.Dir(), filepath.FromSlash(journalDir)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
