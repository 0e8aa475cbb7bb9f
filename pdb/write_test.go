package pdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// copyWith returns the copy of f with the stream.
func copyWith(t testing.TB, f *File, name string, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := f.CopyWith(&b, map[string][]byte{name: content}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// contents returns the contents of the streams. Nil streams are nil.
func contents(t testing.TB, f *File) [][]byte {
	t.Helper()
	var all [][]byte
	for n := range f.Streams() {
		s, err := f.Stream(n)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, s.Size())
		if err := readFull(s, b, 0); err != nil {
			t.Fatalf("stream %d: %v", n, err)
		}
		all = append(all, b)
	}
	return all
}

// named returns the content of a named stream.
func named(t testing.TB, f *File, name string) []byte {
	t.Helper()
	names, err := f.Names()
	if err != nil {
		t.Fatal(err)
	}
	n, ok := names[name]
	if !ok {
		t.Fatalf("no stream %q in %v", name, names)
	}
	return contents(t, f)[n]
}

// checkMSF checks what readers do not look at: each page of an MSF file is used
// once, the free page map says so, and the file has the length of its pages.
func checkMSF(t testing.TB, b []byte) {
	t.Helper()
	f := mustOpen(t, b)
	m := f.c.(*msf)
	if int64(len(b)) != m.pages*m.page {
		t.Fatalf("%d bytes, but %d pages of %d", len(b), m.pages, m.page)
	}
	used := map[int64]string{0: "the superblock"}
	take := func(n uint32, what string) {
		if by, ok := used[int64(n)]; ok || n == 0 || int64(n) >= m.pages {
			t.Fatalf("%s has page %d of %d, which %q has", what, n, m.pages, by)
		}
		used[int64(n)] = what
	}
	for n := int64(0); n < m.pages; n += m.page {
		for _, k := range []int64{n + 1, n + 2} {
			if k < m.pages {
				take(uint32(k), "a free page map")
			}
		}
	}
	mapPages := m.pagesFor(4 * m.pagesFor(m.dir.size))
	blockMap := make([]byte, 0, mapPages*m.page)
	for i := range mapPages {
		n := le.Uint32(b[52+4*i:])
		take(n, "the block map")
		blockMap = append(blockMap, b[int64(n)*m.page:][:m.page]...)
	}
	dir := make([]byte, m.dir.size)
	if err := readFull(&m.dir, dir, 0); err != nil {
		t.Fatal(err)
	}
	for i := range m.pagesFor(m.dir.size) {
		take(le.Uint32(blockMap[4*i:]), "the directory")
	}
	for rest := dir[4+4*m.streams:]; len(rest) > 0; rest = rest[4:] {
		take(le.Uint32(rest), "a stream")
	}
	if int64(len(used)) != m.pages {
		t.Errorf("%d pages are used, the file has %d", len(used), m.pages)
	}
	current := int64(le.Uint32(b[36:]))
	for n := int64(0); n < (m.pages+8*m.page-1)/(8*m.page)*8*m.page; n++ {
		at := (current+n/(8*m.page)*m.page)*m.page + n/8%m.page
		if free := b[at]>>(n%8)&1 == 1; free == (n < m.pages) {
			t.Fatalf("the map says free=%t of page %d of %d", free, n, m.pages)
		}
	}
}

// checkNames checks that a hash table finds each name.
func checkNames(t testing.TB, f *File) {
	t.Helper()
	s, err := f.Stream(InfoStream)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, s.Size())
	if err := readFull(s, b, 0); err != nil {
		t.Fatal(err)
	}
	text := b[32:][:le.Uint32(b[28:])]
	c := &cursor{b: b[32+len(text):]}
	c.u32()
	const free = "\x00" // no name: those end at a zero byte, and one may be empty
	buckets := slices.Repeat([]string{free}, int(c.u32()))
	present := c.take(4 * uint64(c.u32()))
	c.take(4 * uint64(c.u32()))
	for i := range 8 * len(present) {
		if present[i/8]>>(i%8)&1 == 1 {
			name, _ := untilNUL(text[c.u32():])
			buckets[i] = string(name)
			c.u32()
		}
	}
	names, err := f.Names()
	if err != nil {
		t.Fatal(err)
	}
	for name := range names {
		at := int(hashName(name)) % len(buckets)
		for buckets[at] != name {
			if buckets[at] == free {
				t.Errorf("a look-up of %q ends at a free bucket of %q", name, buckets)
				break
			}
			at = (at + 1) % len(buckets)
		}
	}
}

// writable returns PDBs of every producer that the tests have.
func writable(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range []string{"hello-arm64.pdb", "hello-x64.pdb", "hello-x86.pdb"} {
		all[name] = readFile(t, name)
	}
	streams := append(sample(), content{data: bytes.Repeat([]byte("a stream of many pages."), 150000)}, content{null: true}, content{data: []byte{1}})
	for page := int64(minPage); page <= maxPage; page *= 2 {
		all[fmt.Sprintf("pages of %d", page)] = msfBytes(t, page, streams)
	}
	if os.Getenv("SYMDEPOT_MATERIAL") != "" {
		for _, path := range materialPDBs(t) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if Detect(b) == MSF {
				all[filepath.Base(path)] = b
			}
		}
	}
	return all
}

// TestCopyWith adds a stream to PDBs of all producers, replaces it and removes
// it: all other streams stay, and the copies are whole.
func TestCopyWith(t *testing.T) {
	t.Parallel()
	for name, b := range writable(t) {
		t.Run(name, func(t *testing.T) {
			f := mustOpen(t, b)
			checkNames(t, f)
			before, names := contents(t, f), must(f.Names())(t)
			before[0], before[InfoStream] = []byte{}, nil
			big := bytes.Repeat([]byte("0123456789abcde\n"), 9999)
			added := copyWith(t, f, "added", big)
			for _, step := range []struct {
				name string
				b    []byte
				want []byte
			}{{"added", added, big}, {"replaced", copyWith(t, mustOpen(t, added), "added", []byte("short")), []byte("short")},
				{"empty", copyWith(t, mustOpen(t, added), "added", nil), []byte{}}} {
				checkMSF(t, step.b)
				g := mustOpen(t, step.b)
				checkNames(t, g)
				if got := named(t, g, "added"); !bytes.Equal(got, step.want) {
					t.Errorf("%s: the stream has %d bytes, want %d", step.name, len(got), len(step.want))
				}
				wantNames := maps.Clone(names)
				wantNames["added"] = f.Streams()
				if diff := cmp.Diff(wantNames, must(g.Names())(t)); diff != "" {
					t.Errorf("%s: names (-want +got):\n%s", step.name, diff)
				}
				after := contents(t, g)
				after[InfoStream] = nil
				if !slices.EqualFunc(before, after[:len(before)], bytes.Equal) {
					t.Errorf("%s: other streams differ", step.name)
				}
				if got, want := facts(g), facts(f); got != want {
					t.Errorf("%s:\n got %s\nwant %s", step.name, got, want)
				}
				if diff := cmp.Diff(must(f.FeatureCodes())(t), must(g.FeatureCodes())(t)); diff != "" {
					t.Errorf("%s: feature codes (-want +got):\n%s", step.name, diff)
				}
			}
			// Whatever was there before, the copy without the stream is the same.
			var without, again bytes.Buffer
			if err := mustOpen(t, added).CopyWithout(&without, "added"); err != nil {
				t.Fatal(err)
			}
			checkMSF(t, without.Bytes())
			if bytes.Contains(without.Bytes(), big[:64]) {
				t.Error("the removed stream is still in the file")
			}
			g := mustOpen(t, without.Bytes())
			if diff := cmp.Diff(names, must(g.Names())(t)); diff != "" || g.Streams() != f.Streams() {
				t.Errorf("after the removal %d streams, want %d; names (-want +got):\n%s", g.Streams(), f.Streams(), diff)
			}
			if err := mustOpen(t, copyWith(t, g, "added", []byte("x"))).CopyWithout(&again, "added"); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(without.Bytes(), again.Bytes()) {
				t.Error("adding and removing once more gives another file")
			}
		})
	}
}

// must takes the result of a call.
func must[V any](v V, err error) func(testing.TB) V {
	return func(t testing.TB) V {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// TestCopyPdbutil lets llvm-pdbutil read the copies: it finds the stream by its
// name, and prints the same of all else.
func TestCopyPdbutil(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "llvm-pdbutil-19")
	run := func(t *testing.T, args ...string) string {
		out, err := exec.Command("llvm-pdbutil-19", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("llvm-pdbutil-19 %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	content := bytes.Repeat([]byte("SRCSRV: a line of text\r\n"), 5000)
	for name, b := range writable(t) {
		if page := mustOpen(t, b).PageSize; strings.HasPrefix(name, "pages") || page > 32768 {
			continue // made by the test, with streams that only we read
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := func(n string) string { return filepath.Join(dir, n) }
			for n, c := range map[string][]byte{"old.pdb": b, "new.pdb": copyWith(t, mustOpen(t, b), "srcsrv", content)} {
				if err := os.WriteFile(path(n), c, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			run(t, "export", "--stream=srcsrv", "--out="+path("got"), path("new.pdb"))
			if got, err := os.ReadFile(path("got")); err != nil || !bytes.Equal(got, content) {
				t.Errorf("llvm-pdbutil exports %d bytes, error %v; want %d", len(got), err, len(content))
			}
			if out := run(t, "dump", "--named-streams", "--streams", path("new.pdb")); !strings.Contains(out, "srcsrv") {
				t.Errorf("llvm-pdbutil shows no srcsrv:\n%s", out)
			}
			for _, what := range []string{"--types", "--modules", "--files", "--publics", "--symbols", "--string-table", "-l"} {
				was, is := run(t, "dump", what, path("old.pdb")), run(t, "dump", what, path("new.pdb"))
				if was != is {
					t.Errorf("llvm-pdbutil dump %s differs: %d bytes, then %d", what, len(was), len(is))
				}
			}
		})
	}
}

// TestCopyRefused names what cannot be written.
func TestCopyRefused(t *testing.T) {
	all := forms(t)
	msfFile := mustOpen(t, all["MSF"])
	for form, b := range all {
		if form == "MSF" {
			continue
		}
		if err := mustOpen(t, b).CopyWith(io.Discard, map[string][]byte{"x": nil}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: error %v, want ErrUnsupported", form, err)
		}
	}
	for _, name := range []string{"", "a\x00b", strings.Repeat("x", maxName)} {
		if err := msfFile.CopyWith(io.Discard, map[string][]byte{name: nil}); err == nil {
			t.Errorf("a stream of the name %.20q was written", name)
		}
	}
	if err := msfFile.CopyWithout(io.Discard, "SRCSRV"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removing a stream that is not there: error %v, want fs.ErrNotExist", err)
	}
	if err := msfFile.CopyWith(failing{}, map[string][]byte{"x": nil}); !errors.Is(err, errSpent) {
		t.Errorf("error %v, want that of the writer", err)
	}
	broken := &counter{r: bytes.NewReader(all["MSF"])}
	f, err := Open(broken, int64(len(all["MSF"])))
	if err != nil {
		t.Fatal(err)
	}
	broken.most = 1
	if err := f.CopyWith(io.Discard, map[string][]byte{"x": nil}); !errors.Is(err, errSpent) {
		t.Errorf("error %v, want that of the reader", err)
	}
	// Streams that share pages would make a small file a huge one.
	m := msfBytes(t, 512, append(sample(), content{data: []byte{1}}))
	f = mustOpen(t, m)
	sizes := make([]byte, 4*f.Streams())
	if err := readFull(&f.c.(*msf).dir, sizes, 4); err != nil {
		t.Fatal(err)
	}
	le.PutUint32(m[bytes.Index(m, sizes)+len(sizes)-4:], 512*100)
	if err := mustOpen(t, m).CopyWith(io.Discard, map[string][]byte{"x": nil}); err == nil || !strings.Contains(err.Error(), "the file has") {
		t.Errorf("streams that share pages: error %v, want one about pages", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errSpent }

// TestCopyDamagedNames: a name with the number of a stream that belongs to the
// format or to another name does not let a copy lose that stream.
func TestCopyDamagedNames(t *testing.T) {
	streams := sample()
	streams[InfoStream].data = infoBytes(20000404, 1, 12, testGUID, map[string]int{"dbi": DBIStream, "a": 8, "b": 8, "far": 4000, "/names": 5})
	f := mustOpen(t, msfBytes(t, 512, streams))
	for _, name := range []string{"dbi", "a", "far"} {
		b := copyWith(t, f, name, []byte("mine"))
		g := mustOpen(t, b)
		if got := named(t, g, name); string(got) != "mine" {
			t.Errorf("%s: content %q", name, got)
		}
		var c bytes.Buffer
		if err := f.CopyWithout(&c, name); err != nil {
			t.Fatal(err)
		}
		for what, g := range map[string]*File{"with": g, "without": mustOpen(t, c.Bytes())} {
			after := contents(t, g)
			for _, n := range []int{DBIStream, 8} {
				if !bytes.Equal(after[n], streams[n].data) {
					t.Errorf("copy %s %s: stream %d has changed", what, name, n)
				}
			}
		}
	}
}

// TestCopyManyNames: the hash table grows with its names, and names with equal
// hashes cost no more than others.
func TestCopyManyNames(t *testing.T) {
	names := map[string]int{}
	for i := range 60000 {
		// Words of zeros do not change the hash.
		names[string(le.AppendUint32([]byte{byte(i%200 + 1)}, 0x01010101*uint32(i%255+1)))+fmt.Sprint(i/50000)] = i + 5
	}
	streams := sample()
	streams[InfoStream].data = infoBytes(20000404, 1, 12, testGUID, names)
	f := mustOpen(t, msfBytes(t, 4096, streams))
	g := mustOpen(t, copyWith(t, f, "srcsrv", []byte("x")))
	checkNames(t, g)
	if n := len(must(g.Names())(t)); n != len(names)+1 {
		t.Errorf("%d names, want %d", n, len(names)+1)
	}
	same := namedStreams{}
	for i := range 60000 {
		a := le.AppendUint32(nil, uint32(i)|0x80808080)
		same.entries = append(same.entries, namedStream{string(append(a, a...)), i})
	}
	used := 0
	for _, e := range same.buckets() {
		if e >= 0 {
			used++
		}
	}
	if used != 60000 {
		t.Errorf("%d names with equal hashes in the table, want 60000", used)
	}
}

// thin is a large file in memory, most of which is zeros.
type thin struct {
	parts map[int64][]byte // by offset / len(zeros)
	size  int64
}

var zeros [1 << 18]byte

func (f *thin) WriteAt(b []byte, off int64) (int, error) {
	for done := 0; done < len(b); {
		part, in := (off+int64(done))/int64(len(zeros)), (off+int64(done))%int64(len(zeros))
		n := min(len(b)-done, len(zeros)-int(in))
		if p := b[done : done+n]; f.parts[part] != nil || !bytes.Equal(p, zeros[:n]) {
			if f.parts[part] == nil {
				f.parts[part] = make([]byte, len(zeros))
			}
			copy(f.parts[part][in:], p)
		}
		done += n
	}
	f.size = max(f.size, off+int64(len(b)))
	return len(b), nil
}

func (f *thin) Write(b []byte) (int, error) { return f.WriteAt(b, f.size) }

func (f *thin) ReadAt(b []byte, off int64) (int, error) {
	for done := 0; done < len(b); {
		part, in := (off+int64(done))/int64(len(zeros)), (off+int64(done))%int64(len(zeros))
		n := min(len(b)-done, len(zeros)-int(in))
		if p := f.parts[part]; p != nil {
			copy(b[done:done+n], p[in:])
		} else {
			clear(b[done : done+n])
		}
		done += n
	}
	return len(b), nil
}

// A file of more than 4 GiB is copied, and one with too many pages gets larger
// ones.
func TestCopyLarge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		page, want int64
		each       int64
		n          int
	}{{8192, 8192, 1 << 30, 5}, {512, 1024, 90 << 20, 6}} {
		streams := sample()
		for range c.n {
			streams = append(streams, content{size: c.each})
		}
		in, out := &thin{parts: map[int64][]byte{}}, &thin{parts: map[int64][]byte{}}
		f, err := Open(in, buildMSF(t, in, c.page, streams))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.CopyWith(out, map[string][]byte{"added": []byte("text")}); err != nil {
			t.Fatal(err)
		}
		g, err := Open(out, out.size)
		if err != nil {
			t.Fatal(err)
		}
		if int64(g.PageSize) != c.want || g.Truncated != 0 || g.ID() != f.ID() {
			t.Errorf("page size %d, %d bytes missing, id %s; want %d, 0, %s", g.PageSize, g.Truncated, g.ID(), c.want, f.ID())
		}
		for n, want := range map[int]string{5: "names", must(g.Names())(t)["added"]: "text"} {
			s, err := g.Stream(n)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(s); err != nil || string(b) != want {
				t.Errorf("stream %d: %q, error %v; want %q", n, b, err, want)
			}
		}
		s, err := g.Stream(len(sample()) + c.n - 1)
		if err != nil || s.Size() != c.each {
			t.Errorf("the last large stream: %d bytes, error %v; want %d", s.Size(), err, c.each)
		}
	}
}

// A stream of a file of others may have an empty name. The names whose buckets are behind
// its own are found.
func TestCopyEmptyName(t *testing.T) {
	t.Parallel()
	streams := sample()
	info := namedStreams{head: streams[InfoStream].data[:28], entries: []namedStream{{"", len(streams) - 1}}, tail: make([]byte, 4)}
	streams[InfoStream].data = info.bytes()
	added := map[string][]byte{}
	for c := 'a'; c <= 'z'; c++ {
		added[string(c)] = []byte{byte(c)}
	}
	p, out := mustOpen(t, msfBytes(t, 512, streams)), bytes.Buffer{}
	if err := p.CopyWith(&out, added); err != nil {
		t.Fatal(err)
	}
	q := mustOpen(t, out.Bytes())
	checkNames(t, q)
	if names := must(q.Names())(t); len(names) != len(added)+1 || names[""] != len(streams)-1 {
		t.Errorf("names %v, want the empty one of stream %d and %d others", names, len(streams)-1, len(added))
	}
	for name, want := range added {
		if got := named(t, q, name); !bytes.Equal(got, want) {
			t.Errorf("the stream %q has %q, want %q", name, got, want)
		}
	}
}

// FuzzCopy: a copy is whole and has the streams of its original, or there is
// none.
func FuzzCopy(f *testing.F) {
	for _, b := range forms(f) {
		f.Add(b, "srcsrv", []byte("text"))
	}
	f.Add(compact(f, "hello-x64.pdb"), "srcsrv", []byte("text"))
	f.Add(compact(f, "hello-x86.pdb"), "sourcelink", []byte("{}"))
	f.Add(msfBytes(f, 512, manyStreams(3, 2000)[1:]), "/names", []byte{})
	f.Fuzz(func(t *testing.T, b []byte, name string, content []byte) {
		p, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := p.CopyWith(&out, map[string][]byte{name: content}); err != nil {
			return
		}
		if most := 2*len(b) + len(content) + len(name) + 20*65536; out.Len() > most {
			t.Fatalf("a copy of %d bytes of a file of %d", out.Len(), len(b))
		}
		checkMSF(t, out.Bytes())
		q := mustOpen(t, out.Bytes())
		checkNames(t, q)
		if got := named(t, q, name); !bytes.Equal(got, content) {
			t.Errorf("the stream has %q, want %q", got, content)
		}
		if q.ID() != p.ID() || q.InfoAge != p.InfoAge {
			t.Errorf("id %s, age %d; want %s, %d", q.ID(), q.InfoAge, p.ID(), p.InfoAge)
		}
		var again bytes.Buffer
		if err := q.CopyWithout(&again, name); err != nil {
			t.Fatal(err)
		}
		checkMSF(t, again.Bytes())
		if _, ok := must(mustOpen(t, again.Bytes()).Names())(t)[name]; ok {
			t.Error("the stream is still there")
		}
	})
}
