package pdb

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// facts is everything that a File says about itself, as text.
func facts(f *File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v page=%d id=%s info=%d dbi=%d nodbi=%t old=%t arch=%s", f.Format, f.PageSize, f.ID().Breakpad(), f.InfoAge, f.DBIAge, f.NoDBI, f.OldDBI, f.Arch())
	s, err := f.Flavor()
	fmt.Fprintf(&b, " sort=%s%s", s, note(err))
	for _, q := range []struct {
		name string
		ask  func() (bool, error)
	}{{"sources", f.HasSources}, {"symtab", f.HasSymtab}, {"unwind", f.HasUnwind}, {"fastlink", f.FastLink}} {
		is, err := q.ask()
		if is || err != nil {
			fmt.Fprintf(&b, " %s%s", q.name, note(err))
		}
	}
	return b.String()
}

func note(err error) string {
	if err == nil {
		return ""
	}
	return "!(" + err.Error() + ")"
}

func mustOpen(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "testdata", "pdb", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestFixtures compares with the output of llvm-pdbutil for files of lld.
func TestFixtures(t *testing.T) {
	for name, want := range map[string]string{
		"hello-arm64.pdb": "MSF page=4096 id=F37C719627168BA94C4C44205044422E1 info=1 dbi=1 nodbi=false old=false arch=arm64 sort=private symtab",
		"hello-x64.pdb":   "MSF page=4096 id=F9EFE0B6AE7500394C4C44205044422E1 info=1 dbi=1 nodbi=false old=false arch=x86_64 sort=private sources symtab",
		"hello-x86.pdb":   "MSF page=4096 id=A822F3E889973BA54C4C44205044422E1 info=1 dbi=1 nodbi=false old=false arch=x86 sort=private symtab unwind",
	} {
		f := mustOpen(t, readFile(t, name))
		if got := facts(f); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		if f.Truncated != 0 {
			t.Errorf("%s: %d bytes missing", name, f.Truncated)
		}
	}
}

// TestForms reads one PDB in every container.
func TestForms(t *testing.T) {
	want := "info=12 dbi=10 nodbi=false old=false arch=x86_64 sort=private sources symtab unwind"
	guid := "id=C9A61DDDD7E44353A668E39AC614A7EAa "
	forms := map[string][]byte{
		"MSF page=512 " + guid:   msfBytes(t, 512, sample()),
		"MSF page=4096 " + guid:  msfBytes(t, 4096, sample()),
		"MSF page=65536 " + guid: msfBytes(t, 65536, sample()),
	}
	old := sample()
	old[InfoStream].data = infoBytes(19970604, 0x37A8F40E, 2, testGUID, map[string]int{"srcsrv": 6})
	if got, want := facts(mustOpen(t, jgBytes(t, 1024, old))), "PDB20 page=1024 id=37A8F40E2 "+strings.Replace(want, "12", "2", 1); got != want {
		t.Errorf("PDB20:\n got %s\nwant %s", got, want)
	}
	for head, b := range forms {
		if got := facts(mustOpen(t, b)); got != head+want {
			t.Errorf("\n got %s\nwant %s", got, head+want)
		}
	}
	for _, method := range []uint32{plain, zstdM, deflate} {
		for _, chunk := range []int{100, 1000, 1 << 20} {
			b := msfzBytes(t, method, chunk, sample())
			if got, want := facts(mustOpen(t, b)), "MSFZ page=0 "+guid+want; got != want {
				t.Errorf("MSFZ, method %d, chunk %d:\n got %s\nwant %s", method, chunk, got, want)
			}
		}
	}
}

// TestStreams reads every stream of every form back, whole and in parts.
func TestStreams(t *testing.T) {
	streams := sample()
	long := make([]byte, 3<<20+77)
	for i := range long {
		long[i] = byte(i * i >> 7)
	}
	streams = append(streams, content{data: long}, content{null: true}, content{data: []byte{1}})
	for name, b := range map[string][]byte{
		"MSF 512": msfBytes(t, 512, streams), "MSF 32768": msfBytes(t, 32768, streams), "JG": jgBytes(t, 4096, streams),
		"zstd": msfzBytes(t, zstdM, 1<<20, streams), "zstd, one chunk": msfzBytes(t, zstdM, 1<<30, streams),
		"deflate": msfzBytes(t, deflate, 1<<19, streams), "plain chunks": msfzBytes(t, plain, 1000, streams),
	} {
		f := mustOpen(t, b)
		if f.Streams() != len(streams) {
			t.Fatalf("%s: %d streams, want %d", name, f.Streams(), len(streams))
		}
		for i, want := range streams {
			s, err := f.Stream(i)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(s)
			if err != nil || !bytes.Equal(got, want.data) || s.Size() != int64(len(want.data)) {
				t.Errorf("%s: stream %d: %d bytes, error %v; want %d bytes", name, i, len(got), err, len(want.data))
			}
			for _, off := range []int64{0, 1, 511, 512, 999, s.Size() - 1} {
				if off < 0 || off >= s.Size() {
					continue
				}
				p := make([]byte, min(700, s.Size()-off))
				if _, err := s.ReadAt(p, off); err != nil || !bytes.Equal(p, want.data[off:off+int64(len(p))]) {
					t.Errorf("%s: stream %d at %d: error %v; want the bytes of the stream", name, i, off, err)
				}
			}
		}
		for _, n := range []int{-1, len(streams), 1 << 40} {
			if _, err := f.Stream(n); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: stream %d: error %v, want not found", name, n, err)
			}
		}
	}
}

// TestPageOrder reads a stream whose pages run backwards.
func TestPageOrder(t *testing.T) {
	s := sample()
	data := bytes.Repeat([]byte("0123456789abcdefghi"), 2000)
	s = append(s, content{data: data})
	b := msfBytes(t, 512, s)
	// The pages of the last stream were given out first, from page 3 on.
	pages := (len(data) + 511) / 512
	numbers := make([]byte, 0, 4*pages)
	for i := range pages {
		numbers = le.AppendUint32(numbers, uint32(3+i))
	}
	at := bytes.Index(b, numbers)
	turned := slices.Clone(b)
	for i := range pages {
		from, to := 3+i, 3+pages-1-i
		copy(turned[to*512:(to+1)*512], b[from*512:(from+1)*512])
		le.PutUint32(turned[at+4*i:], uint32(to))
	}
	r, err := mustOpen(t, turned).Stream(len(s) - 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, error %v; want the %d written", len(got), err, len(data))
	}
}

// TestIDs checks the choice of the age and the vectors of the SymStore
// reference, PDB 7.0 and 2.0 keys.
func TestIDs(t *testing.T) {
	with := func(change func(s []content)) []content { s := sample(); change(s); return s }
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"DBI age before info age", msfBytes(t, 512, sample()), "C9A61DDDD7E44353A668E39AC614A7EAa"},
		{"nil DBI", msfBytes(t, 512, with(func(s []content) { s[DBIStream] = content{null: true} })), "C9A61DDDD7E44353A668E39AC614A7EAc"},
		{"empty DBI", msfBytes(t, 512, with(func(s []content) { s[DBIStream] = content{} })), "C9A61DDDD7E44353A668E39AC614A7EAc"},
		{"three streams only", msfBytes(t, 512, sample()[:3]), "C9A61DDDD7E44353A668E39AC614A7EAc"},
		{"old DBI header", msfBytes(t, 512, with(func(s []content) { s[DBIStream].data = make([]byte, 24) })), "C9A61DDDD7E44353A668E39AC614A7EAc"},
		{"MSF with an old info stream", msfBytes(t, 512, with(func(s []content) { s[InfoStream].data = infoBytes(19990604, 0x11223344, 5, testGUID, nil) })), "112233445"},
		{"PDB20 without a map", jgBytes(t, 1024, with(func(s []content) { s[InfoStream].data = infoBytes(19950623, 0x37F2C227, 2, testGUID, nil)[:12] })), "37F2C2272"},
		{"PDB20 age 0", jgBytes(t, 512, with(func(s []content) { s[InfoStream].data = infoBytes(19970604, 0x11223344, 0, testGUID, nil) })), "112233440"},
	} {
		if got := mustOpen(t, c.b).ID().Breakpad(); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPatched makes the usual variants of a linker's file by changing bytes of
// it: the info age counted up, another DBI age, no DBI stream.
func TestPatched(t *testing.T) {
	orig := readFile(t, "hello-x64.pdb")
	f := mustOpen(t, orig)
	find := func(stream int) int {
		s, err := f.Stream(stream)
		if err != nil {
			t.Fatal(err)
		}
		head := make([]byte, 28)
		if _, err := s.ReadAt(head, 0); err != nil {
			t.Fatal(err)
		}
		return bytes.Index(orig, head)
	}
	aged := slices.Clone(orig)
	le.PutUint32(aged[find(InfoStream)+8:], 5)
	le.PutUint32(aged[find(DBIStream)+8:], 26)
	a := mustOpen(t, aged)
	if a.InfoAge != 5 || a.DBIAge != 26 || a.ID().Age != 26 || a.ID().GUID != f.GUID {
		t.Errorf("aged: %s, want ages 5 and 26 and the same GUID", facts(a))
	}
	stripped := slices.Clone(orig)
	stripped[find(DBIStream)+56] |= 2
	if s, err := mustOpen(t, stripped).Flavor(); s != Public || err != nil {
		t.Errorf("stripped: %s, %v; want %v", s, err, Public)
	}
	// The directory's page number is in the block map, whose own is at 52.
	blockMap := le.Uint32(orig[52:]) * 4096
	sizes := int(le.Uint32(orig[blockMap:])*4096) + 4
	for _, size := range []uint32{0, nilSize} {
		nodbi := slices.Clone(orig)
		le.PutUint32(nodbi[sizes+4*DBIStream:], size)
		n := mustOpen(t, nodbi)
		if s, err := n.Flavor(); !n.NoDBI || s != TypeOnly || err != nil || n.ID() != f.ID() {
			t.Errorf("no DBI: %s", facts(n))
		}
	}
}

// TestInfoVector is the info stream of vc140.pdb in the SymStore reference.
func TestInfoVector(t *testing.T) {
	raw, err := hex.DecodeString("942e3101e059bd5702000000fe6146a5a722504ca4763d4f2f6ebcd1" +
		"170000002f6e616d6573002f66652f636f6e747269622f70636800" + "0200000004000000" + "0100000006000000" + "00000000" +
		"0700000008000000" + "0000000005000000" + "00000000" + "dc513301")
	if err != nil || len(raw) != 99 {
		t.Fatalf("DecodeString: length %v, error %v; want 99", len(raw), err)
	}
	f := mustOpen(t, msfBytes(t, 512, []content{{}, {data: raw}, {}, {}}))
	names, err := f.Names()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]int{"/names": 5, "/fe/contrib/pch": 8}, names); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	if codes, err := f.FeatureCodes(); err != nil || !slices.Equal(codes, []uint32{20140508}) {
		t.Errorf("feature codes: got %v, error %v; want [20140508]", codes, err)
	}
	if got, want := facts(f), "MSF page=512 id=A54661FE22A74C50A4763D4F2F6EBCD12 info=2 dbi=0 nodbi=true old=false arch= sort=type-only"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestSort(t *testing.T) {
	for _, c := range []struct {
		name  string
		types uint32
		dbi   dbiOpts
		want  Flavor
	}{
		{"stripped flag", 10, dbiOpts{flags: 2, modules: []module{{"a", 100, 0, 0}}}, Public},
		{"types", 1, dbiOpts{}, Private},
		{"symbols", 0, dbiOpts{modules: []module{{"a", 4, 0, 0}, {"bc", 5, 0, 0}}}, Private},
		{"C11 lines", 0, dbiOpts{modules: []module{{"a", 4, 0, 0}, {"b", 4, 1, 0}}}, Private},
		{"C13 lines", 0, dbiOpts{modules: []module{{"abc", 4, 0, 0}, {"abcd", 4, 0, 1}}}, Private},
		{"signatures only", 0, dbiOpts{modules: []module{{"a", 4, 0, 0}, {strings.Repeat("n", 9000), 4, 0, 0}}}, Public},
		{"nothing", 0, dbiOpts{}, Public},
	} {
		s := sample()
		s[TPIStream].data, s[DBIStream].data = tpiBytes(c.types), dbiBytes(c.dbi)
		if got, err := mustOpen(t, msfBytes(t, 512, s)).Flavor(); got != c.want || err != nil {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestSources(t *testing.T) {
	for name, want := range map[string]bool{
		"srcsrv": true, "sourcelink": true, "sourcelink$1": true, "/src/headerblock": true, "/names": false, "sourcelinks": false, "": false,
	} {
		for stream, full := range map[int]bool{6: true, 7: false, 99: false, 0xFFFF: false} {
			s := sample()
			s[InfoStream].data = infoBytes(20000404, 1, 1, testGUID, map[string]int{name: stream}, FeatureMinimal)
			f := mustOpen(t, msfBytes(t, 512, s))
			if got, err := f.HasSources(); got != (want && full) || err != nil {
				t.Errorf("%q in stream %d: got %t, %v; want %t", name, stream, got, err, want && full)
			}
			if fast, err := f.FastLink(); !fast || err != nil {
				t.Errorf("FastLink: %t, %v; want true", fast, err)
			}
		}
	}
}

// TestMaterial reads the PDBs of a folder with an expected.tsv.
func TestMaterial(t *testing.T) {
	dir, rows := symtest.Table(t)
	seen := 0
	for _, row := range rows {
		if row["kind"] != "pdb" {
			continue
		}
		seen++
		name := row["path"]
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		r := &counter{r: bytes.NewReader(b)}
		f, err := Open(r, int64(len(b)))
		if err != nil {
			t.Errorf("Open: %s, error %v; want no error", name, err)
			continue
		}
		notes := fmt.Sprintf("info_age=%d;dbi_age=%d;page=%d", f.InfoAge, f.DBIAge, f.PageSize)
		if got := []string{f.ID().Breakpad(), f.Arch(), notes}; !slices.Equal(got, []string{row["debug_id"], row["arch"], row["notes"]}) {
			t.Errorf("%s: got %q, want those of the table", name, got)
		}
		opened := r.n
		t.Logf("%s: %s; read %d, then %d bytes", name, facts(f), opened, r.n-opened)
		if r.n > 64<<10 {
			t.Errorf("%s: %d bytes read, want at most 64 KiB", name, r.n)
		}
		names, err := f.Names()
		if err != nil {
			t.Errorf("Names: %s, error %v; want no error", name, err)
		}
		t.Log(slices.Sorted(maps.Keys(names)))
	}
	t.Log(strconv.Itoa(seen), "PDBs")
}

// TestOpenFile: what is wrong with a file on disk is said with its path.
func TestOpenFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{dir: ErrFormat, text: ErrFormat, filepath.Join(dir, "none.pdb"): fs.ErrNotExist} {
		f, c, err := OpenFile(path)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), path) || f != nil || c != nil {
			t.Errorf("%s: %v, %v, %v; want %v with the path", path, f, c, err, want)
		}
	}
	f, c, err := OpenFile("../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Names(); err != nil || len(n) == 0 {
		t.Errorf("the streams of an open file: %v, %v", n, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Functions(t.Context(), functab.NewBuilder(functab.Module{}, functab.Limits{}), FunctionOptions{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the functions of a closed file: %v, want %v", err, os.ErrClosed)
	}
}
