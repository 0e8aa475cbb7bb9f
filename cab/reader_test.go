package cab

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

func openBytes(b []byte, opt Options) (*Reader, error) {
	return Open(bytes.NewReader(b), int64(len(b)), opt)
}

// material is the folder of real files that are not ours to distribute.
func material(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{symtest.Material(t)}, elem...)...)
	if _, err := os.Stat(path); err != nil {
		symtest.Missing(t, "material", "not among the fetched files: %v", err)
	}
	return path
}

// TestRealCabinets compares members with the output of several other tools.
func TestRealCabinets(t *testing.T) {
	table, err := os.ReadFile(material(t, "cabs.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(material(t, "cabs.tsv"))
	type want struct {
		name, sum               string
		files, size, date, time uint64
		attr                    uint64
	}
	cabs := map[string]map[string]want{}
	for line := range strings.Lines(string(table)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if f[0] == "set" {
			continue
		}
		num := func(i, base int) uint64 { v, _ := strconv.ParseUint(f[i], base, 64); return v }
		if cabs[f[1]] == nil {
			cabs[f[1]] = map[string]want{}
		}
		cabs[f[1]][f[5]] = want{f[5], f[10], num(4, 10), num(6, 10), num(7, 16), num(8, 16), num(9, 16)}
	}
	for path, members := range cabs {
		b, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Log("not here: ", err)
			continue
		}
		r, err := openBytes(b, Options{})
		if err != nil {
			t.Errorf("%s: openBytes: error %v, want no error", path, err)
			continue
		}
		var sums []string
		check := func(f *File, in io.Reader) error {
			h := sha256.New()
			n, err := io.Copy(h, in)
			sums = append(sums, strings.ToLower(strings.ReplaceAll(f.Name, `\`, "/"))+"\t"+hex.EncodeToString(h.Sum(nil)))
			w, ok := members[f.Name]
			if !ok && len(members) == 13 { // the table holds the first twelve of long lists
				return nil
			}
			date, clock := toDOS(f.Modified)
			if f.Modified.IsZero() {
				date, clock = uint16(w.date), uint16(w.time)
			}
			if !ok || err != nil || n != f.Size || uint64(n) != w.size || hex.EncodeToString(h.Sum(nil)) != w.sum ||
				uint64(date) != w.date || uint64(clock) != w.time || uint64(f.Attributes) != w.attr {
				t.Errorf("%s: %s: %d bytes, %v, %04x %04x %x, %v; want %+v", path, f.Name, n, err, date, clock, f.Attributes, r.Folders()[f.Folder].Compression, w)
			}
			return nil
		}
		if got := len(r.Files()); uint64(got) != members["*"].files {
			t.Errorf("%s: %d files, want %d", path, got, members["*"].files)
		}
		quantum := false
		for _, f := range r.Files() {
			in, err := f.Open()
			if errors.Is(err, ErrQuantum) && r.Folders()[f.Folder].Compression.Method == Quantum {
				quantum = true
				continue
			}
			if err != nil {
				t.Errorf("%s, %s: got error %v, want no error", path, f.Name, err)
				continue
			}
			_ = check(f, in)
			in.Close()
		}
		sums = nil
		if err := r.Walk(check); quantum != errors.Is(err, ErrQuantum) || !quantum && err != nil {
			t.Errorf("%s: walk: %v; want ErrQuantum: %v", path, err, quantum)
		}
		if got := sumOfAll(sums); !quantum && got != members["*"].sum {
			t.Errorf("%s: all members: %s, want %s", path, got, members["*"].sum)
		}
	}
}

// sumOfAll is the SHA-256 of the lines "SHA-256  name", sorted by name.
func sumOfAll(lines []string) string {
	slices.Sort(lines)
	h := sha256.New()
	for _, l := range lines {
		name, sum, _ := strings.Cut(l, "\t")
		fmt.Fprintf(h, "%s  %s\n", sum, name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// TestDamaged opens cabinets that were made to break readers. None may be read
// to its end.
func TestDamaged(t *testing.T) {
	dir := material(t, "edge", "badcab")
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, error %v; want some", len(files), err)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		err = readAll(b)
		t.Logf("%s: %v", filepath.Base(path), err)
		if err == nil {
			t.Errorf("%s: read without an error", filepath.Base(path))
		} else if !known(err) {
			t.Errorf("%s: untyped error %v", filepath.Base(path), err)
		}
	}
}

// readAll reads every member of a cabinet.
func readAll(b []byte) error {
	r, err := openBytes(b, Options{MaxOutput: 64 << 20})
	if err != nil {
		return err
	}
	var first error
	for _, f := range r.Files() {
		in, err := f.Open()
		if err == nil {
			var n int64
			n, err = io.Copy(io.Discard, in)
			in.Close()
			if err == nil && n != f.Size {
				return fmt.Errorf("%d bytes of %d", n, f.Size)
			}
		}
		if first == nil {
			first = err
		}
	}
	err = r.Walk(func(_ *File, in io.Reader) error { _, err := io.Copy(io.Discard, in); return err })
	if first == nil {
		first = err
	}
	return first
}

func known(err error) bool {
	for _, e := range []error{ErrFormat, ErrSplit, ErrQuantum, ErrMethod, ErrLimit} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
