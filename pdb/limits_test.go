package pdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// counter counts the bytes that were asked for.
type counter struct {
	r    io.ReaderAt
	n    int64
	most int64 // 0 means no limit
}

var errSpent = errors.New("budget is spent")

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	if c.n += int64(len(p)); c.most > 0 && c.n > c.most {
		return 0, errSpent
	}
	return c.r.ReadAt(p, off)
}

// bigFile builds a sparse PDB file and returns it with its size.
func bigFile(t testing.TB, page int64, streams []content) (*os.File, int64) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "big.pdb"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	size := buildMSF(t, f, page, streams)
	return f, size
}

// manyStreams returns the sample with a large old directory before and n
// module streams behind it. All pages of the sample come after them in the
// file.
func manyStreams(n int, each int64) []content {
	s := sample()
	s[0] = content{size: 300 << 20}
	for range n {
		s = append(s, content{size: each})
	}
	return s
}

// bigCases are files that a reader of whole directories cannot name cheaply.
var bigCases = []struct {
	name    string
	page    int64
	streams func() []content
	over    int64 // the file is larger than this
	maps    int64 // pages of the block map
}{
	{"5 GB, 8 KiB pages, 2.6 MB directory", 8192, func() []content { return manyStreams(5, 1<<30) }, 5 << 30, 1},
	{"5 GB, 8 KiB pages, 65000 streams", 8192, func() []content { return manyStreams(65000, 77<<10) }, 5 << 30, 1},
	{"block map of 6 pages, 4 KiB pages", 4096, func() []content { return manyStreams(5, 4<<30-4096) }, 20 << 30, 6},
	{"block map of 82 pages, 512-byte pages", 512, func() []content { return manyStreams(65000, 5000) }, 300 << 20, 82},
}

const wantBig = "id=C9A61DDDD7E44353A668E39AC614A7EAa info=12 dbi=10 nodbi=false old=false arch=x86_64 sort=private sources symtab unwind"

func TestBig(t *testing.T) {
	for _, c := range bigCases {
		t.Run(c.name, func(t *testing.T) {
			file, size := bigFile(t, c.page, c.streams())
			if size < c.over {
				t.Fatalf("the file has %d bytes only", size)
			}
			r := &counter{r: file}
			f, err := Open(r, size)
			if err != nil {
				t.Fatal(err)
			}
			opened := r.n
			if got := facts(f); !strings.HasSuffix(got, wantBig) {
				t.Errorf("got %s, want the end %s", got, wantBig)
			}
			m := f.c.(*msf)
			dirPages := m.pagesFor(m.dir.size)
			if got := m.pagesFor(4 * dirPages); got != c.maps {
				t.Errorf("the block map has %d pages, want %d", got, c.maps)
			}
			t.Logf("%d MB file, %d kB directory: %d bytes read for the ids, %d for the features", size>>20, m.dir.size>>10, opened, r.n-opened)
			if opened > 4096 || r.n > 64<<10 {
				t.Errorf("%d bytes read for the ids, %d in all; want at most 4 KiB and 64 KiB", opened, r.n)
			}
			// The last stream lies behind all others in the directory.
			r.n = 0
			s, err := f.Stream(f.Streams() - 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.ReadAt(make([]byte, 100), s.Size()-100); err != nil {
				t.Error(err)
			}
			if r.n > 600<<10 {
				t.Errorf("%d bytes read for the last stream, want at most 600 KiB", r.n)
			}
		})
	}
}

// BenchmarkIDs counts the bytes that naming a file takes.
func BenchmarkIDs(b *testing.B) {
	for _, c := range bigCases {
		b.Run(c.name, func(b *testing.B) {
			file, size := bigFile(b, c.page, c.streams())
			r := &counter{r: file}
			for b.Loop() {
				if _, err := Open(r, size); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(r.n)/float64(b.N), "bytes-read/op")
		})
	}
}

// TestBudget lets the reader fail after every number of bytes: each error is
// the reader's own.
func TestBudget(t *testing.T) {
	for name, b := range forms(t) {
		full := &counter{r: bytes.NewReader(b)}
		f, err := Open(full, int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		opened := full.n
		for most := int64(1); most < opened; most++ {
			if _, err := Open(&counter{r: bytes.NewReader(b), most: most}, int64(len(b))); !errors.Is(err, errSpent) {
				t.Fatalf("%s, %d bytes: error %v, want the reader's own", name, most, err)
			}
		}
		_ = facts(f)
		c := &counter{r: bytes.NewReader(b)}
		f, err = Open(c, int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		c.most = 1 // spent from now on
		for what, ask := range map[string]func() error{
			"sort":    func() error { _, err := f.Flavor(); return err },
			"sources": func() error { _, err := f.HasSources(); return err },
			"symtab":  func() error { _, err := f.HasSymtab(); return err },
			"unwind":  func() error { _, err := f.HasUnwind(); return err },
		} {
			// The directory of an MSFZ file may still be held.
			if err := ask(); err != nil && !errors.Is(err, errSpent) || err == nil && f.Format != MSFZ {
				t.Errorf("%s: %s: error %v, want the reader's own", name, what, err)
			}
		}
		c.most = 0
		if got, want := facts(f), facts(mustOpen(t, b)); got != want {
			t.Errorf("%s: after a spent budget:\n got %s\nwant %s", name, got, want)
		}
	}
}

// forms returns one small file of each container.
func forms(t testing.TB) map[string][]byte {
	old := sample()
	old[InfoStream].data = infoBytes(19970604, 0x37A8F40E, 2, testGUID, map[string]int{"srcsrv": 6})
	return map[string][]byte{
		"MSF": msfBytes(t, 512, sample()), "JG": jgBytes(t, 1024, old),
		"zstd": msfzBytes(t, zstdM, 1000, sample()), "deflate": msfzBytes(t, deflate, 1<<20, sample()),
	}
}

// TestTruncated cuts files everywhere: no form may be opened, or answer a
// question, wrongly.
func TestTruncated(t *testing.T) {
	for name, b := range forms(t) {
		want := facts(mustOpen(t, b))
		for n := range b {
			f, err := Open(bytes.NewReader(b[:n]), int64(n))
			if err != nil {
				if n >= SniffLen && errors.Is(err, ErrFormat) || n < 24 && !errors.Is(err, ErrFormat) {
					t.Errorf("%s cut to %d bytes: %v; want ErrFormat only below %d bytes", name, n, err, SniffLen)
				}
				continue
			}
			got := facts(f)
			if got != want && !strings.Contains(got, "!(") {
				t.Errorf("%s cut to %d bytes:\n got %s\nwant %s", name, n, got, want)
			}
			if f.Format == MSF && f.Truncated != int64(len(b)-n) {
				t.Errorf("%s cut to %d bytes: %d missing", name, n, f.Truncated)
			}
		}
	}
}

// TestHostile checks that lies are refused, by name, and cost little memory.
func TestHostile(t *testing.T) {
	base := msfBytes(t, 512, sample())
	blockMap := int(le.Uint32(base[52:])) * 512
	dir := int(le.Uint32(base[blockMap:])) * 512
	numbers := dir + 4 + 4*len(sample())
	z := msfzBytes(t, zstdM, 1000, sample())
	table := int(le.Uint64(z[48:]))
	jg := forms(t)["JG"]
	put := func(b []byte, pairs ...int) []byte {
		b = slices.Clone(b)
		for i := 0; i < len(pairs); i += 2 {
			le.PutUint32(b[pairs[i]:], uint32(pairs[i+1]))
		}
		return b
	}
	bomb := msfzBytes(t, zstdM, 1<<30, []content{{}, sample()[1], {}, {data: append(make([]byte, 60<<20), dbiBytes(dbiOpts{})...)}})
	for _, c := range []struct {
		name, want string
		b          []byte
	}{
		{"empty", "not a PDB", nil},
		{"text", "not a PDB", []byte("Microsoft C/C++ MSF 7.00\r\n\x1aXX, but no")},
		{"page size 0", "page size 0 ", put(base, 32, 0)},
		{"page size 513", "page size 513 ", put(base, 32, 513)},
		{"page size 128 KiB", "page size 131072 ", put(base, 32, 131072)},
		{"directory of 4 GiB", "directory of 4294967295 bytes", put(base, 44, math.MaxUint32)},
		{"directory of 3 bytes", "directory of 3 bytes", put(base, 44, 3)},
		{"block map that lists itself", "stream", put(base, blockMap, int(le.Uint32(base[52:])))},
		{"block map in the superblock", "block map refers to page 0", put(base, 52, 0)},
		{"block map beyond the pages", "block map refers to page 4294967295", put(base, 52, math.MaxUint32)},
		{"directory out of the file", "stream directory refers to page 4294967295", put(base, blockMap, math.MaxUint32)},
		{"pages that the file has not", "beyond the end of the file", put(base, 40, math.MaxUint32, blockMap, 5000)},
		{"no pages at all", "refers to page", put(base, 40, 0)},
		{"4 Gi streams", "4294967295 streams", put(base, dir, math.MaxUint32)},
		{"stream of 4 GiB", "8388608 pages of stream 1 do not fit", put(base, dir+8, 0xFFFFFFFE)},
		{"stream 0 of 4 GiB", "stream 1 do not fit", put(base, dir+4, 0xFFFFFFFE)},
		{"info stream out of the file", "stream 1 refers to page 65536", put(base, numbers, 65536)},
		{"info stream in the superblock", "stream 1 refers to page 0", put(base, numbers, 0)},
		{"nil info stream", "PDB info stream", put(base, dir+8, nilSize)},
		{"info stream of 11 bytes", "PDB info stream", put(base, dir+8, 11)},
		{"no info stream", "stream 1 of 1", msfBytes(t, 512, sample()[:1])},
		{"version 7", "version 7 is not known", put(base, int(le.Uint32(base[numbers:]))*512, 7)},
		{"DBI of 63 bytes", "DBI stream", put(base, dir+16, 63)},
		{"DBI of 3 bytes", "DBI stream", put(base, dir+16, 3)},
		{"PDB20 page size", "page size 7 ", put(jg, 44, 7)},
		{"PDB20 directory", "directory of 16777216 bytes", put(jg, 52, 1<<24)},
		{"PDB20 without pages", "is not one of the pages", put(jg, 48, 1)},
		{"MSFZ version", "version 1 is not supported", put(z, 32, 1)},
		{"MSFZ directory outside", "stream directory", put(z, 44, math.MaxUint32)},
		{"MSFZ directory of 4 GiB", "larger than the limit", put(z, 68, math.MaxUint32)},
		{"MSFZ directory shorter than said", "end before", put(z, 68, 8<<20)},
		{"MSFZ streams", "streams do not fit", put(z, 56, 1<<20)},
		{"MSFZ chunk table", "chunk table", put(z, 72, 1<<20)},
		{"MSFZ compression", "compression method 9", put(z, 60, 9)},
		{"MSFZ chunk outside", "chunk 0: ", put(z, table, math.MaxInt32)},
		{"MSFZ chunk of nothing", "chunk 0 is empty", put(z, table+16, 0)},
		{"MSFZ chunk compression", "compression method 3", put(z, table+8, 3)},
		{"MSFZ plain chunk of other sizes", "without compression", put(z, table+8, 0)},
		{"MSFZ bomb", "header: a part of", bomb},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(bytes.NewReader(c.b), int64(len(c.b)))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			// The bomb is only huge, not wrong in its first bytes.
			if c.name != "MSFZ bomb" {
				t.Errorf("%s: error %v, want %q", c.name, err, c.want)
			}
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
			t.Errorf("%s: %d bytes allocated, want at most 16 MiB", c.name, used)
		}
	}
}

// TestDeep reads at a high offset of a chunk that decompresses to many bytes.
func TestDeep(t *testing.T) {
	big := make([]byte, 70<<20)
	b := msfzBytes(t, zstdM, 1<<30, []content{{}, sample()[1], {}, {}, {data: big}})
	if len(b) > 1<<20 {
		t.Fatalf("got length %v, want at most 1 << 20", len(b))
	}
	s, err := mustOpen(t, b).Stream(4)
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := make([]byte, 100)
	if _, err := s.ReadAt(p, 63<<20); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d bytes allocated, want at most 16 MiB", used)
	}
	if _, err := s.ReadAt(p, 69<<20); err == nil || !strings.Contains(err.Error(), "deeper than the limit") {
		t.Errorf("error %v, want one that names the limit of the depth", err)
	}
}

// TestWork reads a stream whose fragments all lie deep in two chunks, turn by
// turn, so that each byte costs many megabytes.
func TestWork(t *testing.T) {
	if testing.Short() {
		t.Skip("inflates 1 GiB")
	}
	const chunk = 32 << 20
	b := msfzBytes(t, zstdM, chunk, []content{{}, sample()[1], {}, {}, {data: make([]byte, 2*chunk)}})
	dir := le.AppendUint32(nil, 0)
	dir = le.AppendUint32(dir, uint32(len(sample()[1].data)))
	dir = le.AppendUint64(dir, 80)
	for range 3 {
		dir = le.AppendUint32(dir, 0)
	}
	for i := range uint64(1000) {
		dir = le.AppendUint32(dir, 1)
		dir = le.AppendUint64(dir, 1<<63|i%2<<32|(chunk-1))
	}
	dir = le.AppendUint32(dir, 0)
	le.PutUint64(b[40:], uint64(len(b)))
	for i, v := range []int{5, plain, len(dir), len(dir)} {
		le.PutUint32(b[56+4*i:], uint32(v))
	}
	b = append(b, dir...)
	s, err := mustOpen(t, b).Stream(4)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(s); err == nil || !strings.Contains(err.Error(), "over and over") {
		t.Errorf("error %v, want one that says that a chunk is read over and over", err)
	}
}

// TestHostileInfo checks lies in the stream of names.
func TestHostileInfo(t *testing.T) {
	good := infoBytes(20000404, 1, 1, testGUID, map[string]int{"srcsrv": 6})
	for _, c := range []struct {
		name, want string
		data       []byte
	}{
		{"names of 4 GiB", "bytes needed", change(good, 28, math.MaxUint32)},
		{"name outside", "a name at offset 7", change(good, len(good)-12, 7)},
		{"name without end", "does not end", slices.Concat(good[:32], []byte("srcsrv!"), good[39:])},
		{"two bits, one name", "more than the 1 names", change(good, 32+7+12, 3)},
		{"no buckets", "names in 0 buckets", change(good, 32+7+4, 0)},
		{"words", "bytes needed", change(good, 32+7+8, math.MaxUint32)},
		{"no table", "bytes needed", good[:39]},
		{"2 MiB", "more than the limit", append(slices.Clone(good), make([]byte, 2<<20)...)},
	} {
		s := sample()
		s[InfoStream].data = c.data
		if _, err := mustOpen(t, msfBytes(t, 512, s)).HasSources(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// TestOldInfo: a broken map of names in a file of an old compiler is ignored.
func TestOldInfo(t *testing.T) {
	s := sample()
	s[InfoStream].data = append(infoBytes(19950623, 1, 1, testGUID, nil)[:12], 0xFF, 0xFF, 0xFF)
	f := mustOpen(t, jgBytes(t, 1024, s))
	if has, err := f.HasSources(); has || err != nil {
		t.Errorf("got %t, %v; want false and none", has, err)
	}
}

// change returns b with a word replaced.
func change(b []byte, at int, v uint32) []byte {
	b = slices.Clone(b)
	le.PutUint32(b[at:], v)
	return b
}

// TestHostileDBI checks lies in the DBI and TPI streams.
func TestHostileDBI(t *testing.T) {
	good := sample()[DBIStream].data
	for _, off := range []int{24, 28, 32, 36, 40, 48, 52} {
		for _, v := range []uint32{math.MaxUint32, math.MaxInt32, uint32(len(good))} {
			s := sample()
			s[DBIStream].data = change(good, off, v)
			b := msfBytes(t, 512, s)
			if _, err := Open(bytes.NewReader(b), int64(len(b))); err == nil || !strings.Contains(err.Error(), "DBI stream: header") {
				t.Errorf("size at %d is %d: error %v, want one that names the header of the DBI stream", off, v, err)
			}
		}
	}
	s := sample()
	s[DBIStream].data = dbiBytes(dbiOpts{modules: []module{{strings.Repeat("x", 1<<18), 4, 0, 0}}})
	if _, err := mustOpen(t, msfBytes(t, 512, s)).Flavor(); err == nil || !strings.Contains(err.Error(), "file name") {
		t.Errorf("long name: error %v, want one that names the file name", err)
	}
	s[DBIStream].data = slices.Concat(good[:64], bytes.Repeat([]byte{1}, len(good)-64))
	le.PutUint32(s[DBIStream].data[64+36:], 0)
	le.PutUint32(s[DBIStream].data[64+40:], 0)
	le.PutUint32(s[DBIStream].data[64+44:], 0)
	if _, err := mustOpen(t, msfBytes(t, 512, s)).Flavor(); err == nil || !strings.Contains(err.Error(), "module records") {
		t.Errorf("name without end: error %v", err)
	}
	s = sample()
	s[TPIStream].data = make([]byte, 15)
	if _, err := mustOpen(t, msfBytes(t, 512, s)).Flavor(); err == nil || !strings.Contains(err.Error(), "TPI stream") {
		t.Errorf("short TPI: error %v, want one that names the TPI stream", err)
	}
}

// TestManyModules ends on module records that say nothing for megabytes.
func TestManyModules(t *testing.T) {
	s := sample()
	s[DBIStream].data = slices.Concat(dbiBytes(dbiOpts{})[:64], make([]byte, maxModules+1000))
	le.PutUint32(s[DBIStream].data[24:], maxModules+900)
	le.PutUint32(s[DBIStream].data[28:], 0)
	f := mustOpen(t, msfBytes(t, 65536, s))
	if got, err := f.Flavor(); got != "" || err != nil {
		t.Errorf("got %q, %v; want neither", got, err)
	}
}

// compact returns a linker's file with its streams in small pages, which
// leaves a fuzzer less room to be lost in.
func compact(t testing.TB, name string) []byte {
	f := mustOpen(t, readFile(t, name))
	var streams []content
	for n := range f.Streams() {
		s, err := f.Stream(n)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(s)
		if err != nil {
			t.Fatal(err)
		}
		streams = append(streams, content{data: b})
	}
	return msfBytes(t, 512, streams)
}

// FuzzOpen asks everything of any file. Reading is limited as callers limit
// it.
func FuzzOpen(f *testing.F) {
	for _, b := range forms(f) {
		f.Add(b)
	}
	f.Add(compact(f, "hello-x64.pdb"))
	f.Add(compact(f, "hello-x86.pdb"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &counter{r: bytes.NewReader(b), most: 9 << 20}
		p, err := Open(r, int64(len(b)))
		if err != nil {
			return
		}
		if p.ID().Breakpad() == "" != p.ID().IsZero() {
			t.Error("an id that is and is not")
		}
		_ = facts(p)
		for n := range min(p.Streams(), 20) {
			s, err := p.Stream(n)
			if err != nil {
				continue
			}
			n, err := io.Copy(io.Discard, io.LimitReader(s, 1<<20))
			if err == nil && n < min(s.Size(), 1<<20) {
				t.Errorf("stream of %d bytes ended after %d", s.Size(), n)
			}
		}
		_ = fmt.Sprint(p.Names())
	})
}
