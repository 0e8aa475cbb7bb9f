package watch

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/scan"
)

// stretched makes an ELF file of 64 bits larger: n random bytes are in front of its symbol
// table, which stays near its section headers.
func stretched(t testing.TB, file []byte, n int, r *rand.Rand) []byte {
	t.Helper()
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	at := int(f.Section(".shstrtab").Offset)
	if s := f.Section(".symtab"); s != nil {
		at = min(at, int(s.Offset))
	}
	middle := make([]byte, n)
	for i := range middle {
		middle[i] = 'a' + byte(r.IntN(16))
	}
	b := slices.Concat(file[:at], middle, file[at:])
	le := binary.LittleEndian
	shoff := int(le.Uint64(b[40:])) + n
	le.PutUint64(b[40:], uint64(shoff))
	for i := range f.Sections {
		off := b[shoff+64*i+24:]
		if le.Uint64(off) >= uint64(at) {
			le.PutUint64(off, le.Uint64(off)+uint64(n))
		}
	}
	return b
}

// withID gives an ELF file another build-id of the same length.
func withID(t testing.TB, file []byte, r *rand.Rand) (changed []byte, id string) {
	t.Helper()
	id = buildID(t, file)
	old, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	fresh := make([]byte, len(old))
	for i := range fresh {
		fresh[i] = byte(r.Uint32())
	}
	return bytes.Replace(file, old, fresh, 1), hex.EncodeToString(fresh)
}

func makeCpio(entries ...entry) []byte {
	var b []byte
	for i, e := range append(entries, entry{"TRAILER!!!", nil}) {
		b = fmt.Appendf(b, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x", i, 0o100644, 0, 0, 1, 1_000_000_000, len(e.data), 0, 0, 0, 0, len(e.name)+1, 0)
		b = append(append(b, e.name...), 0)
		b = append(b, make([]byte, -len(b)&3)...)
		b = append(b, e.data...)
		b = append(b, make([]byte, -len(b)&3)...)
	}
	return b
}

// packed runs a program as a filter.
func packed(t testing.TB, plain []byte, tool string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(symtest.Tool(t, tool), args...)
	cmd.Stdin = bytes.NewReader(plain)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// inventory returns what a scan has found in a file, without the places.
func inventory(t *testing.T, f *Folder, file string) (list []string) {
	t.Helper()
	rows, err := f.db.Objects(t.Context(), 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row.File.Name == file {
			list = append(list, fmt.Sprintf("%s %d %x", row.Member, row.Size, row.Data))
		}
	}
	return list
}

// TestSkippedMiddles: in any archive a scan finds the same, whether the middles of members are
// skipped, are needed after all, or the archive is in one block.
func TestSkippedMiddles(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	zlib := symtest.Testdata(t, "elf/prog-zlib")
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // any will do
			var body []entry
			files := map[string][]byte{} // by build-id
			for i := range 5 + r.IntN(10) {
				name := fmt.Sprintf("usr/lib/debug/%d.debug", i)
				file, size := [][]byte{m.prog, m.debug, m.lib, m.stripped, zlib}[r.IntN(5)], r.IntN(150_000)
				switch k := r.IntN(10); {
				case i == 3:
					file = stretched(t, file, 1<<20, r)
				case k < 6:
					file = stretched(t, file, size, r)
				case k < 8: // the symbol table is far from the section headers
					file = grow(t, file, size)
				case k < 9:
					body = append(body, entry{fmt.Sprintf("usr/share/doc/%d", i), make([]byte, size)})
				}
				file, id := withID(t, file, r)
				files[id] = file
				body = append(body, entry{name, file})
			}
			dir := t.TempDir()
			for kind, plain := range map[string][]byte{"tar": linked(t, makeTar(t, body...)), "cpio": makeCpio(body...)} {
				put(t, dir, "plain."+kind, plain)
				put(t, dir, "one."+kind+".xz", packed(t, plain, "xz", "-0", "-T1"))
				put(t, dir, "blocks."+kind+".xz", packed(t, plain, "xz", "-0", "-T1", fmt.Sprintf("--block-size=%d", 5000+r.IntN(150_000))))
				put(t, dir, "checkless."+kind+".xz", packed(t, plain, "xz", "-0", "-T1", "--check=none", fmt.Sprintf("--block-size=%d", 5000+r.IntN(150_000))))
			}
			f := open(t, dir, Options{Workers: 1 + int(seed%3)})
			if s := scanned(t, f); s.Problems != 0 || s.Read != 8 {
				t.Fatalf("%d files were read, %d with problems, want 8 and none", s.Read, s.Problems)
			}
			want := inventory(t, f, "plain.tar")
			if len(want) != len(files) {
				t.Fatalf("%d objects, want %d", len(want), len(files))
			}
			for _, name := range []string{"one.tar.xz", "blocks.tar.xz", "checkless.tar.xz", "plain.cpio", "one.cpio.xz", "blocks.cpio.xz", "checkless.cpio.xz"} {
				if got := inventory(t, f, name); !slices.Equal(got, want) {
					t.Errorf("%s has %d objects\n%s\nwant %d\n%s", name, len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
				}
			}
			for _, name := range []string{"plain.tar", "one.tar.xz", "checkless.tar.xz", "plain.cpio", "one.cpio.xz", "checkless.cpio.xz"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			scanned(t, f)
			for id, file := range files { // at the places that were noted
				a, got, err := get(t, f, "buildid/"+id+"/debuginfo")
				if err != nil {
					a, got, err = get(t, f, "buildid/"+id+"/executable")
				}
				if err != nil || !bytes.Equal(got, file) {
					t.Errorf("%s: %d bytes, %v, want %d of %+v", id, len(got), err, len(file), a)
				}
			}
		})
	}
}

// linked puts hard links in front of the end of a tar archive.
func linked(t testing.TB, plain []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range 3 {
		h := &tar.Header{Typeflag: tar.TypeLink, Name: fmt.Sprintf("usr/lib/debug/link%d.debug", i), Linkname: "usr/lib/debug/0.debug", ModTime: time.Unix(1e9, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return append(bytes.TrimRight(plain[:len(plain)-1024], ""), b.Bytes()...)
}

// visited is a reading of an archive in memory.
func visited(t *testing.T, plain []byte) *reading {
	t.Helper()
	opt := Options{TempDir: t.TempDir()}
	r := &reading{ctx: t.Context(), opt: &opt, path: "a.tar.xz", at: bytes.NewReader(plain), size: int64(len(plain)), buf: new([]byte), sources: map[string]member{}, again: map[string]bool{}}
	if err := scan.Visit(t.Context(), scan.Source{Path: r.path, At: r.at, Size: r.size}, opt.scanOptions(), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMiddles: the middle of a debug file is skipped if a block ends in it. If a package's files
// have what is needed there, the others are read whole.
func TestMiddles(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // any will do
	zlib := symtest.Testdata(t, "elf/prog-zlib")
	list := func(file []byte) (body []entry) {
		for i := range 20 {
			body = append(body, entry{fmt.Sprintf("usr/lib/debug/%d.debug", i), stretched(t, file, 100_000, r)})
		}
		return body
	}
	for _, c := range []struct {
		name        string
		body        []entry
		size        int
		least, most int // of the members of which the middle is skipped
	}{
		{"blocks smaller than members", list(m.debug), 30_000, 16, 20},
		{"blocks larger than members", list(m.debug), 250_000, 5, 10},
		{"compressed sections", list(zlib), 3000, 1, 4},
		{"one block", list(m.debug), 10_000_000, 0, 0},
	} {
		v := visited(t, packed(t, makeTar(t, c.body...), "xz", "-0", "-T1", fmt.Sprintf("--block-size=%d", c.size)))
		if len(v.objects) != len(c.body) || v.problem != nil || v.skipped < c.least || v.skipped > c.most || v.missed > 2+v.skipped/4 {
			t.Errorf("%s: %d objects, %v, %d skipped, want %d to %d, %d of them in vain", c.name, len(v.objects), v.problem, v.skipped, c.least, c.most, v.missed)
		}
	}
}

// TestDamagedMiddle: damage of what a scan skips is found when the member is read, and that of
// what it reads leaves the package out.
func TestDamagedMiddle(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	r := rand.New(rand.NewPCG(1, 3)) //nolint:gosec // any will do
	first, id := withID(t, stretched(t, m.debug, 300_000, r), r)
	last, lastID := withID(t, stretched(t, m.debug, 300_000, r), r)
	whole := packed(t, makeTar(t, entry{"usr/lib/debug/first.debug", first}, entry{"usr/lib/debug/last.debug", last}), "xz", "-0", "-T1", "--block-size=50000")
	for _, c := range []struct {
		name  string
		at    int // of the byte that is changed
		found bool
	}{
		{"in the middle of a member", len(whole) / 4, true},
		{"in the head of a member", 300, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			bad := bytes.Clone(whole)
			bad[c.at] ^= 0x10
			dir := t.TempDir()
			put(t, dir, "p.tar.xz", bad)
			f := open(t, dir, Options{})
			s := scanned(t, f)
			if !c.found {
				if s.Problems != 1 || s.Objects != 0 {
					t.Errorf("%d problems and %d objects, want one and none", s.Problems, s.Objects)
				}
				return
			}
			if s.Problems != 0 || s.Objects != 2 {
				t.Fatalf("%d problems and %d objects, want none and two", s.Problems, s.Objects)
			}
			if _, _, err := get(t, f, "buildid/"+id+"/debuginfo"); err == nil {
				t.Error("the damaged member is given out, want an error")
			}
			wantBytes(t, f, "buildid/"+lastID+"/debuginfo", last)
		})
	}
}

// TestSparseMiddle: members with holes, which have fewer bytes in the archive than out of it, are
// found in blocks as elsewhere.
func TestSparseMiddle(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	r := rand.New(rand.NewPCG(1, 4)) //nolint:gosec // any will do
	from, dir := t.TempDir(), t.TempDir()
	files := map[string][]byte{}
	for i := range 6 {
		file := grow(t, m.prog, 200_000) // the section names are behind zeros
		if i%2 == 0 {
			file = stretched(t, m.debug, 100_000, r)
		}
		file, id := withID(t, file, r)
		files[id] = file
		name := fmt.Sprintf("usr/lib/debug/%d.debug", i)
		put(t, from, name, nil)
		holed, err := os.OpenFile(filepath.Join(from, name), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at := 0; at < len(file); at += 4096 {
			if page := file[at:min(at+4096, len(file))]; len(bytes.Trim(page, "\x00")) > 0 {
				if _, err := holed.WriteAt(page, int64(at)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := holed.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(symtest.Tool(t, "tar"), "--sparse", "--format=gnu", "--sort=name", "-cf", "-", "-C", from, "usr")
	plain, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if len(plain) > 500_000 {
		t.Fatalf("the archive has %d bytes, want one with holes", len(plain))
	}
	put(t, dir, "plain.tar", plain)
	put(t, dir, "blocks.tar.xz", packed(t, plain, "xz", "-0", "-T1", "--block-size=20000"))
	f := open(t, dir, Options{})
	scanned(t, f)
	want := inventory(t, f, "plain.tar")
	if got := inventory(t, f, "blocks.tar.xz"); len(got) != len(files) || !slices.Equal(got, want) {
		t.Errorf("%d objects, want %d that equal those of the archive that is not compressed", len(got), len(want))
	}
}
