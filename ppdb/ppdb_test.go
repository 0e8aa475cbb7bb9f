package ppdb

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

var le = binary.LittleEndian

// testID is ee4f138b-1b25-48fd-ba63-e986d370518f with stamp b7bd58b5 as it
// stands in a file.
var testID = [20]byte{0x8b, 0x13, 0x4f, 0xee, 0x25, 0x1b, 0xfd, 0x48, 0xba, 0x63, 0xe9, 0x86, 0xd3, 0x70, 0x51, 0x8f, 0xb5, 0x58, 0xbd, 0xb7}

// stream is a metadata stream to be built.
type stream struct {
	name string
	data []byte
}

// build writes metadata of the streams.
func build(version string, streams []stream) []byte {
	pad := func(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }
	v := pad(append([]byte(version), 0))
	b := append([]byte("BSJB"), 1, 0, 1, 0, 0, 0, 0, 0)
	b = append(le.AppendUint32(b, uint32(len(v))), v...)
	b = append(b, 0, 0, byte(len(streams)), byte(len(streams)>>8))
	off := len(b)
	for _, s := range streams {
		off += 8 + len(pad(append([]byte(s.name), 0)))
	}
	var body []byte
	for _, s := range streams {
		b = le.AppendUint32(b, uint32(off+len(body)))
		b = le.AppendUint32(b, uint32(len(s.data)))
		b = append(b, pad(append([]byte(s.name), 0))...)
		body = pad(append(body, s.data...))
	}
	return append(b, body...)
}

// tables returns a #~ stream with so many rows of each table.
func tables(rows map[int]uint32) []byte {
	b := make([]byte, 24)
	b[4] = 2
	var there uint64
	for i := range 64 {
		if n, ok := rows[i]; ok {
			there |= 1 << i
			b = le.AppendUint32(b, n)
		}
	}
	le.PutUint64(b[8:], there)
	return append(b, make([]byte, 40)...)
}

// sample returns the streams of a small portable PDB.
func sample() []stream {
	return []stream{
		{"#Pdb", append(testID[:], make([]byte, 12)...)},
		{"#~", tables(map[int]uint32{tableDocument: 1, tableMethod: 2, 0x37: 1})},
		{"#Strings", []byte{0}},
		{"#US", []byte{0}},
		{"#GUID", slices.Concat(make([]byte, 16), sourceLink[:])},
		{"#Blob", []byte{0}},
	}
}

func mustOpen(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// facts is everything that a File says about itself, as text.
func facts(f *File) string {
	debug, err1 := f.HasDebug()
	sources, err2 := f.HasSources()
	return fmt.Sprintf("%s %s debug=%t(%v) sources=%t(%v)", f.Version, f.ID().Breakpad(), debug, err1, sources, err2)
}

// TestFixture reads the file that other packages test with.
func TestFixture(t *testing.T) {
	name := filepath.Join("..", "testdata", "ppdb", "tiny.pdb")
	want := build("PDB v1.0", sample())
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b, want) {
		t.Errorf("%s is not what build makes of the sample", name)
	}
	if got, want := facts(mustOpen(t, b)), "PDB v1.0 EE4F138B1B2548FDBA63E986D370518Fb7bd58b5 debug=true(<nil>) sources=true(<nil>)"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestFeatures(t *testing.T) {
	for _, c := range []struct {
		name           string
		rows           map[int]uint32
		guids          []byte
		debug, sources bool
	}{
		{"nothing", nil, nil, false, false},
		{"other tables", map[int]uint32{0: 1, 6: 9, 0x2F: 1, 0x32: 5}, make([]byte, 64), false, false},
		{"documents", map[int]uint32{1: 7, tableDocument: 3}, nil, true, false},
		{"methods", map[int]uint32{tableDocument: 0, tableMethod: 1}, nil, true, false},
		{"embedded source", nil, embeddedSource[:], false, true},
		{"source link, last of many", nil, append(make([]byte, 5000*16), sourceLink[:]...), false, true},
		{"not on a boundary", nil, append(make([]byte, 8), sourceLink[:]...), false, false},
		{"cut", nil, sourceLink[:15], false, false},
	} {
		s := sample()
		s[1].data, s[4].data = tables(c.rows), c.guids
		f := mustOpen(t, build("PDB v1.0", s))
		debug, err1 := f.HasDebug()
		sources, err2 := f.HasSources()
		if debug != c.debug || sources != c.sources || err1 != nil || err2 != nil {
			t.Errorf("%s: got %s, %v, %v; want %v, %v", c.name, facts(f), debug, sources, c.debug, c.sources)
		}
	}
	f := mustOpen(t, build("PDB v1.0", sample()[:1]))
	if got := facts(f); !strings.HasSuffix(got, "debug=false(<nil>) sources=false(<nil>)") {
		t.Errorf(`#Pdb alone: %s, want one that ends with "debug=false(<nil>) sources=false(<nil>)"`, got)
	}
}

// TestChecksum compares with the hash of the file without its id.
func TestChecksum(t *testing.T) {
	b := build("PDB v1.0", sample())
	zeroed := bytes.Replace(b, testID[:], make([]byte, 20), 1)
	sum := sha256.Sum256(zeroed)
	for _, alg := range []string{"SHA256", "sha256"} {
		got, err := Checksum(bytes.NewReader(b), int64(len(b)), alg)
		if err != nil || !bytes.Equal(got, sum[:]) {
			t.Errorf("%s: Checksum: %x, error %v; want sum[:]", alg, got, err)
		}
	}
	for alg, n := range map[string]int{"SHA1": 20, "SHA384": 48, "SHA512": 64} {
		if got, err := Checksum(bytes.NewReader(b), int64(len(b)), alg); err != nil || len(got) != n {
			t.Errorf("%s: Checksum: %x, error %v; want length %v", alg, got, err, n)
		}
	}
	if _, err := Checksum(bytes.NewReader(b), int64(len(b)), "MD5"); err == nil {
		t.Error("MD5 is no algorithm of these checksums")
	}
	if _, err := Checksum(bytes.NewReader(b), int64(len(b))+1, "SHA1"); err == nil {
		t.Error("a file that is shorter than said has a checksum")
	}
}

// TestChecksumID is the worked example of Symbolicator's tests.
func TestChecksumID(t *testing.T) {
	sum, err := hex.DecodeString("87a82c4e5e82f386968f25b41ae1b5f3cc3f6d9e79cfb4464f8240400fc47dcd")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ChecksumID(sum).String(), "4e2ca887-825e-46f3-968f-25b41ae1b5f3-9e6d3fcc"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !ChecksumID(sum[:19]).IsZero() {
		t.Error("19 bytes gave an id")
	}
}

func TestHostile(t *testing.T) {
	base := build("PDB v1.0", sample())
	put := func(pairs ...int) []byte {
		b := slices.Clone(base)
		for i := 0; i < len(pairs); i += 2 {
			le.PutUint32(b[pairs[i]:], uint32(pairs[i+1]))
		}
		return b
	}
	many := make([]stream, 65)
	for i := range many {
		many[i].name = fmt.Sprint("#", i)
	}
	for _, c := range []struct {
		name, want string
		b          []byte
	}{
		{"empty", "not a portable PDB", nil},
		{"text", "not a portable PDB", []byte("BSJC and so on")},
		{"magic alone", "metadata root", []byte("BSJB")},
		{"an image's metadata", "not a portable PDB: metadata without a #Pdb stream", build("v4.0.30319", sample()[1:])},
		{"version of 4 GiB", "version of 4294967295 bytes exceeds", put(12, -1)},
		{"version of 257 bytes", "257 bytes exceeds the limit", put(12, 257)},
		{"65535 streams", "65535 streams exceed", put(28, 0xFFFF0000)},
		{"65 streams", "65 streams exceed", build("", many)},
		{"64 of 6 streams", "metadata root", put(28, 64<<16)},
		{"offset of 4 GiB", `stream "#Pdb", 32 bytes at offset 4294967295, lies outside`, put(32, -1)},
		{"size of 4 GiB", `stream "#Pdb", 4294967295 bytes`, put(36, -1)},
		{"short id", "19 bytes are fewer than the 20", put(36, 19)},
		{"twice", "two streams are named", build("", append(sample(), stream{"#Pdb", make([]byte, 20)}))},
		{"long name", "the name has no terminating NUL", build("", []stream{{strings.Repeat("x", 99), nil}})},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Open(bytes.NewReader(c.b), int64(len(c.b)))
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes allocated, want at most 1 MiB", c.name, used)
		}
	}
	s := sample()
	for _, data := range [][]byte{nil, make([]byte, 23), slices.Concat(make([]byte, 8), bytes.Repeat([]byte{0xFF}, 16))} {
		s[1].data = data
		if _, err := mustOpen(t, build("", s)).HasDebug(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("tables of %d bytes: %v, want io.ErrUnexpectedEOF", len(data), err)
		}
	}
}

// TestTruncated cuts the file everywhere.
func TestTruncated(t *testing.T) {
	b := build("PDB v1.0", sample())
	for n := range len(b) - 3 { // three bytes of padding at the end
		_, err := Open(bytes.NewReader(b[:n]), int64(n))
		if err == nil || errors.Is(err, ErrFormat) != (n < 4) {
			t.Errorf("cut to %d bytes: %v, want ErrFormat below 4 bytes and another error from there on", n, err)
		}
	}
}

// counter counts the bytes that were asked for.
type counter struct {
	r       io.ReaderAt
	n, most int64
}

var errSpent = errors.New("budget is spent")

func (c *counter) ReadAt(p []byte, off int64) (int, error) {
	if c.n += int64(len(p)); c.n > c.most {
		return 0, errSpent
	}
	return c.r.ReadAt(p, off)
}

// TestBudget lets the reader fail after every number of bytes.
func TestBudget(t *testing.T) {
	b := build("PDB v1.0", sample())
	for most := int64(0); ; most++ {
		c := &counter{r: bytes.NewReader(b), most: most}
		f, err := Open(c, int64(len(b)))
		if err == nil {
			_, err = f.HasDebug()
		}
		if err == nil {
			_, err = f.HasSources()
		}
		if err == nil {
			break
		}
		if !errors.Is(err, errSpent) {
			t.Fatalf("%d bytes: %v, want %v", most, err, errSpent)
		}
		if most > 1000 {
			t.Fatal("more than 1000 bytes read")
		}
	}
}

// TestMaterial reads the portable PDBs of a folder with an expected.tsv.
func TestMaterial(t *testing.T) {
	dir, rows := symtest.Table(t)
	seen, named := 0, 0
	for _, row := range rows {
		if row["kind"] != "portablepdb" {
			continue
		}
		name := row["path"]
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		c := &counter{r: bytes.NewReader(b), most: 8192}
		f, err := Open(c, int64(len(b)))
		if err != nil {
			t.Errorf("Open: %s, error %v; want no error", name, err)
			continue
		}
		if got := f.ID().Breakpad(); got != row["debug_id"] {
			t.Errorf("%s: got %s, want %s", name, got, row["debug_id"])
		}
		got := facts(f)
		t.Logf("%s: %s; %d bytes read", name, got, c.n)
		if !strings.Contains(got, "debug=true(<nil>)") {
			t.Errorf(`got %s, %s; want one with "debug=true(<nil>)"`, name, got)
		}
		seen++
		for _, alg := range []string{"SHA1", "SHA256"} {
			sum, err := Checksum(bytes.NewReader(b), int64(len(b)), alg)
			if err != nil {
				t.Errorf("Checksum: %s, error %v; want no error", name, err)
			}
			if ChecksumID(sum) == f.ID() {
				named++
			}
		}
	}
	t.Logf("%d files, %d named by their checksum", seen, named)
	if seen > 0 && named == 0 {
		t.Error("no file is named by its checksum, as deterministic builds are")
	}
}

// FuzzOpen asks everything of any file.
func FuzzOpen(f *testing.F) {
	f.Add(build("PDB v1.0", sample()))
	f.Add(build("v4.0.30319", sample()[1:]))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		_ = facts(p)
		sum, err := Checksum(bytes.NewReader(b), int64(len(b)), "SHA256")
		if err != nil {
			t.Fatal(err)
		}
		// The checksum does not depend on the id.
		c := slices.Clone(b)
		clear(c[p.IDOffset : p.IDOffset+20])
		if want := sha256.Sum256(c); !bytes.Equal(sum, want[:]) {
			t.Errorf("checksum %x, want %x", sum, want)
		}
	})
}
