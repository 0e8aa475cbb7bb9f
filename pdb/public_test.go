package pdb

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/functab"
)

// stripped returns the public form of a PDB.
func stripped(t testing.TB, b []byte, o PublicOptions) ([]byte, PublicReport) {
	t.Helper()
	var out bytes.Buffer
	r, err := WritePublic(&out, bytes.NewReader(b), int64(len(b)), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Size != int64(out.Len()) || r.PrivateSize != int64(len(b)) {
		t.Errorf("the report says %d and %d bytes, want %d and %d", r.PrivateSize, r.Size, len(b), out.Len())
	}
	return out.Bytes(), r
}

// linked returns PDBs that linkers wrote.
func linked(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range []string{"hello-arm64.pdb", "hello-x64.pdb", "hello-x86.pdb"} {
		all[name] = readFile(t, name)
	}
	paths := msvcPDBs()
	if os.Getenv("SYMDEPOT_MATERIAL") != "" {
		paths = append(paths, materialPDBs(t)...)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if Detect(b) == MSF {
			all[filepath.Base(path)] = b
		}
	}
	return all
}

// msvcPDBs returns the paths of the PDBs that scripts/oracles copies from the tests of dump_syms.
func msvcPDBs() []string {
	paths, _ := filepath.Glob(filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "pdb", "*.pdb"))
	return paths
}

// symbols returns the public symbols of a PDB in the order of the file.
func symbols(t testing.TB, f *File) []string {
	t.Helper()
	p := &publicSymbols{f: f}
	in, err := p.open()
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for {
		r, err := in.next()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d:%#x %d %s", r.seg, r.off, r.flags, r.name))
	}
}

// dbiPart returns the bytes of a part of the DBI stream: its place in the order of the header.
func dbiPart(t testing.TB, f *File, part int) []byte {
	t.Helper()
	b := contents(t, f)[DBIStream]
	at := 64
	for _, off := range []int{24, 28, 32, 36, 40, 52, 48}[:part] {
		at += int(le.Uint32(b[off:]))
	}
	return b[at : at+int(le.Uint32(b[[]int{24, 28, 32, 36, 40, 52, 48}[part]:]))]
}

// The public form of each real PDB has the same ids, symbols, sections, contributions and frame data; its
// functions have the same names at the addresses of public symbols; nothing else is left.
func TestWritePublic(t *testing.T) {
	t.Parallel()
	var private, left int64
	for name, b := range linked(t) {
		t.Run(name, func(t *testing.T) {
			out, report := stripped(t, b, PublicOptions{NoStatic: true})
			private, left = private+int64(len(b)), left+int64(len(out))
			t.Logf("%+v", report)
			checkMSF(t, out)
			f, g := mustOpen(t, b), mustOpen(t, out)
			checkNames(t, g)
			if g.ID() != f.ID() || g.InfoAge != f.InfoAge || g.Signature != f.Signature || g.Version != f.Version || g.Machine != f.Machine ||
				g.PageSize != f.PageSize {
				t.Errorf("%s\nwant the ids of\n%s", facts(g), facts(f))
			}
			if flavor, err := g.Flavor(); flavor != Public || err != nil || !g.Stripped {
				t.Errorf("flavor %q, stripped %t, error %v; want a public PDB", flavor, g.Stripped, err)
			}
			if diff := cmp.Diff(map[string]int{"/LinkInfo": publicLinkInfo, "/names": publicNames}, must(g.Names())(t)); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(symbols(t, f), symbols(t, g)); diff != "" && !f.Stripped {
				t.Errorf("symbols (-want +got):\n%s", diff)
			}
			if report.Publics != int64(len(symbols(t, g))) {
				t.Errorf("the report says %d public symbols, the file has %d", report.Publics, len(symbols(t, g)))
			}
			checkSymbolTables(t, g)
			for what, size := range map[int]int64{optFPO: 16, optOMAP: 8, optToSource: 8, optSections: 40, optOriginal: 40} {
				if was, is := must(f.optionalStream(what, size, 1<<24))(t), must(g.optionalStream(what, size, 1<<24))(t); !bytes.Equal(was, is) {
					t.Errorf("stream %d of the optional debug header differs", what)
				}
			}
			if !bytes.Equal(dbiPart(t, f, 2), dbiPart(t, g, 2)) {
				t.Error("the section maps differ")
			}
			was, is := dbiPart(t, f, 1), dbiPart(t, g, 1)
			if len(was) != len(is) {
				t.Errorf("%d bytes of contributions, want %d", len(is), len(was))
			}
			for _, m := range must(g.readModules())(t) {
				if m.stream != noStream || m.symbols+m.c11+m.c13 != 0 || strings.ContainsAny(m.name+m.object, `\/`) {
					t.Errorf("module %+v, want its name only", m)
				}
			}
			checkPublics(t, f, g)
			checkTables(t, tableOf(t, bytes.NewReader(b), int64(len(b)), 0), tableOf(t, bytes.NewReader(out), int64(len(out)), 0))
			checkNoPrivate(t, b, out, PublicOptions{})
			// A public PDB stays as it is.
			if again, _ := stripped(t, out, PublicOptions{NoStatic: true}); !bytes.Equal(again, out) {
				t.Error("the public form of the public form differs")
			}
			whole, _ := stripped(t, b, PublicOptions{})
			checkNoPrivate(t, b, whole, PublicOptions{})
			if again, _ := stripped(t, whole, PublicOptions{}); !bytes.Equal(again, whole) {
				t.Error("the public form with static functions of that form differs")
			}
			checkSymbolTables(t, mustOpen(t, whole))
			checkStarts(t, tableOf(t, bytes.NewReader(b), int64(len(b)), 0), openPublics(t, mustOpen(t, whole)))
		})
	}
	if left*100 > 15*private && len(msvcPDBs()) == 0 && os.Getenv("SYMDEPOT_MATERIAL") != "" {
		t.Errorf("%d of %d bytes are left, want at most 15 percent", left, private)
	}
}

// checkSymbolTables checks that the hash table finds each symbol, and that the map is sorted by address.
func checkSymbolTables(t testing.TB, f *File) {
	t.Helper()
	all := contents(t, f)
	records, b := all[f.dbi.record], all[f.dbi.publics]
	hash, byAddress := b[28:28+le.Uint32(b)], b[28+le.Uint32(b):][:le.Uint32(b[4:])]
	n := int(le.Uint32(hash[8:])) / 8
	name := func(at uint32) []byte { return nameAt(records[at+4:at+2+uint32(le.Uint16(records[at:]))], 10) }
	start, seen := 0, map[uint32]bool{}
	for i := 0; n > 0 && i < hashBuckets; i++ {
		bits := hash[16+8*n:][:bucketBits]
		if bits[i/8]>>(i%8)&1 == 0 {
			continue
		}
		offsets := hash[16+8*n+bucketBits:]
		from, to := int(le.Uint32(offsets[4*start:]))/12, n
		if start++; 4*start < len(offsets) {
			to = int(le.Uint32(offsets[4*start:])) / 12
		}
		for j := from; j < to; j++ {
			at := le.Uint32(hash[16+8*j:]) - 1
			if int(hashText(name(at))%hashBuckets) != i || seen[at] {
				t.Fatalf("symbol %d, %q, is in bucket %d, or twice", j, name(at), i)
			}
			if seen[at] = true; j > from && compareNames(name(le.Uint32(hash[8+8*j:])-1), name(at)) > 0 {
				t.Fatalf("bucket %d is not sorted at %q", i, name(at))
			}
		}
	}
	// The other hash table has the first symbol, so that it is not empty.
	if g := all[f.dbi.globals]; n > 0 && (le.Uint32(g[8:]) != 8 || le.Uint32(g[12:]) != bucketBits+4 || le.Uint32(g[16:]) != 1 ||
		g[24:][hashText(name(0))%hashBuckets/8]>>(hashText(name(0))%8)&1 == 0) {
		t.Errorf("the hash table of other symbols is %x, want one with the first public symbol", g)
	}
	if len(seen) != n || len(byAddress) != 4*n || n != len(symbols(t, f)) {
		t.Fatalf("%d symbols by name and %d by address, want %d", len(seen), len(byAddress)/4, len(symbols(t, f)))
	}
	last := uint64(0)
	for i := range n {
		at := le.Uint32(byAddress[4*i:])
		addr := uint64(le.Uint16(records[at+12:]))<<32 | uint64(le.Uint32(records[at+8:]))
		if addr < last || !seen[at] {
			t.Fatalf("symbol %d by address is out of order", i)
		}
		last = addr
	}
}

// checkTables checks that two PDBs have the same frame data, and that the public one has public symbols
// only.
func checkTables(t testing.TB, private, public *functab.Table) {
	t.Helper()
	frames := func(table *functab.Table) (list []string) {
		for f := range table.Frames() {
			if f.Win != nil {
				list = append(list, fmt.Sprintf("%x %x %+v", f.Start, f.Size, *f.Win))
			}
		}
		return list
	}
	if diff := cmp.Diff(frames(private), frames(public)); diff != "" {
		t.Errorf("frame data (-private +public):\n%.2000s", diff)
	}
	for s := range public.Symbols() {
		if is, ok := public.Lookup(s.Address); !s.Marker && (!ok || len(is.Frames) != 1 || is.Frames[0].Line != 0 || is.Frames[0].File != "") {
			t.Fatalf("at %#x: %+v", s.Address, is.Frames)
		}
	}
	if c := public.Counts(); c.Functions+c.Rows > 0 {
		t.Errorf("%+v, want no functions and no lines", c)
	}
}

// checkStarts checks that each function has a symbol.
func checkStarts(t testing.TB, private *functab.Table, public *publics) {
	t.Helper()
	all, lacking := 0, 0
	for f := range private.Functions() {
		name, _ := private.NameOf(f.Name)
		if f.Jump || strings.HasPrefix(name, "<unknown in ") {
			continue // lines without a function
		}
		all++
		if i := public.from(f.Start); i == len(public.list) || uint64(public.list[i].addr) != f.Start {
			t.Logf("no symbol at %#x: %s", f.Start, name)
			lacking++
		}
	}
	if lacking > 0 {
		t.Errorf("%d of %d functions have no symbol", lacking, all)
	}
}

// checkPublics checks that both PDBs have the same name at the address of each public symbol.
func checkPublics(t testing.TB, private, public *File) {
	t.Helper()
	was, is := openPublics(t, private), openPublics(t, public)
	if len(was.list) != len(is.list) || len(was.list) == 0 {
		t.Fatalf("%d symbols of code, want %d", len(is.list), len(was.list))
	}
	for _, p := range was.list {
		a, hasA := was.at(uint64(p.addr))
		b, hasB := is.at(uint64(p.addr))
		if a != b || hasA != hasB {
			t.Errorf("at %#x: %+v, want %+v", p.addr, b, a)
		}
	}
}

// openPublics returns the public symbols of the sections of code.
func openPublics(t testing.TB, f *File) *publics {
	t.Helper()
	return must(f.readPublics(t.Context(), must(f.readAddresses())(t)))(t)
}

// checkNoPrivate proves by PrivateStrings, and by a second way that knows nothing of PDBs but the
// names in it, that no private string is left.
func checkNoPrivate(t testing.TB, private, public []byte, o PublicOptions) {
	t.Helper()
	list, err := PrivateStrings(bytes.NewReader(private), int64(len(private)), bytes.NewReader(public), int64(len(public)), o)
	if err != nil || len(list) > 0 {
		t.Errorf("private strings are left: %v, error %v", list, err)
	}
	f := mustOpen(t, public)
	kept := strings.Join(symbols(t, f), "\n") + MagicMSF + "/LinkInfo/names.textbss"
	for _, m := range must(f.readModules())(t) {
		kept += "\n" + m.name + "\n" + m.object
	}
	frames := must(f.readFrames())(t)
	names := must(f.readNames())(t)
	seen := map[uint32]bool{}
	for _, r := range frames {
		if !seen[r.program] {
			seen[r.program] = true
			kept += "\n" + names.text(r.program, maxProgram)
		}
	}
	tables := 0
	for _, text := range bytes.FieldsFunc(public, func(r rune) bool { return r < ' ' || r > '~' }) {
		if len(text) >= 8 && !strings.Contains(kept, string(text)) && bytes.Contains(private, text) {
			// The bits of the used buckets can be any text.
			if tables++; tables > 1 || len(text) > 12 {
				t.Errorf("%q is left", text)
			}
		}
	}
}

// secret is a text that stands everywhere in a private PDB but in the names that are kept.
const secret = "SECRETSECRET"

// secretPDB returns the streams of a PDB whose every part has a secret.
func secretPDB() []content {
	utf := []byte{}
	for _, c := range utf16.Encode([]rune(secret)) {
		utf = le.AppendUint16(utf, c)
	}
	contrib := bin(uint16(1), []byte("SE"), 0x100, 0x40, 0x60000020, uint16(0), []byte("CR"), []byte("ETSECRET"))
	p := testPDB{
		machine: machineX86,
		modules: []testModule{
			{`c:\` + secret + `\a`, cat(
				rec(0x110D, 0x74, 0x10, uint16(2), "global"+secret),
				proc("outer"+secret, 0x100, 0x40, 0x1001), rec(symEnd),
				rec(symLocalProc, 0, 0, 0, 0x10, 0, 0, 0x1001, 0x180, uint16(1), uint8(0), "staticfunction"), rec(symEnd),
				rec(0x113D, uint8(0), "cmd", secret, "")), cat(testFiles(), lineBlock(0x100, 0x40, 0, 1))},
			{"* Linker *", cat(rec(0x1116, 0, 0, "link "+secret), rec(symExport, uint16(1), uint16(0), "fun"), rec(symExport, uint16(2), uint16(0), secret)), nil},
		},
		publics: cat(
			rec(0x1125, 0, 4, uint16(1), "outer"+secret),
			rec(symPublic, 2, 0x100, uint16(1), "?outer@ns@@YAHPAUArgument@@@Z", []byte("SEC")),
			rec(symPublic, 2, 0x140, uint16(1), "_fun@8"), rec(symPublic, 0, 0, uint16(2), "_data"),
			rec(symPublic, 2, 0x200, uint16(1), "?internal_helper@ns@@YAXXZ"), rec(0x110E, 2, 0x240, uint16(9), "?nowhere@@YAXXZ")),
		types:    [][]byte{rec(lfStructure, uint16(0), uint16(0), 0, 0, 0, uint16(12), secret)},
		ids:      [][]byte{rec(lfStringID, 0, secret)},
		names:    "a.c\x00" + secret + "\x00$T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + = \x00c:\\" + secret + "\\x.c\x00",
		fpo:      bin(0x1140, 0x20, 0, uint16(2), uint16(0)),
		frames:   cat(bin(0x1100, 0x40, 0, 4, 0, 18, uint16(0), uint16(0), 4), bin(0x1180, 0x10, 0, 4, 0, 64, uint16(0), uint16(0), 4)),
		contribs: cat(bin(uint32(0xF12EBA2D)), contrib),
	}
	streams := p.streams()
	copy(streams[7].data[:8], ".text\x00SE")
	n := len(streams)
	streams = append(streams, content{data: utf}, content{data: []byte(secret)}, content{data: bytes.Repeat(utf, 500)}, content{data: []byte(secret + "  ")})
	streams[InfoStream].data = infoBytes(20000404, 1, 1, testGUID, map[string]int{"/names": 5, "/src/" + secret: n, "sourcelink": n + 1, secret: n + 2}, 20140508, 0x54454E00)
	dbi := streams[DBIStream].data
	optional := dbi[len(dbi)-22:]
	le.PutUint16(optional[2:], uint16(n+3))  // exceptions
	le.PutUint16(optional[14:], uint16(n+2)) // xdata
	return streams
}

// Of a PDB that has a secret in each of its parts, nothing of it is in the public form, whatever the
// format and the options.
func TestWritePublicSecrets(t *testing.T) {
	t.Parallel()
	streams := secretPDB()
	msf := msfBytes(t, msfzPage, streams)
	for i := range msf { // the padding of pages
		if i%msfzPage == msfzPage-12 && bytes.Equal(msf[i:i+len(secret)], make([]byte, len(secret))) {
			copy(msf[i:], secret)
		}
	}
	for _, o := range []PublicOptions{{}, {Undecorated: true}, {Exported: true}, {NoStatic: true}, {Hide: []string{"*helper*"}}, {Undecorated: true, Hide: []string{"ns::*"}, Module: "engine"}} {
		out, report := stripped(t, msf, o)
		zipped, _ := stripped(t, msfzBytes(t, deflate, 700, streams), PublicOptions{Undecorated: o.Undecorated, Exported: o.Exported, NoStatic: o.NoStatic, Hide: o.Hide, Module: o.Module})
		if !bytes.Equal(out, zipped) {
			t.Errorf("%+v: MSFZ gives %d bytes, MSF %d", o, len(zipped), len(out))
		}
		for _, text := range []string{"SECR", "ECRET", "S\x00E\x00C\x00", "cmd", "a.c"} {
			if bytes.Contains(out, []byte(text)) {
				t.Errorf("%+v: %q is left", o, text)
			}
		}
		if list, err := PrivateStrings(bytes.NewReader(msf), int64(len(msf)), bytes.NewReader(out), int64(len(out)), o); len(list) > 0 || err != nil {
			t.Errorf("%+v: %v, %v", o, list, err)
		}
		t.Logf("%+v: %+v", o, report)
		checkMSF(t, out)
		checkSymbolTables(t, mustOpen(t, out))
	}
	out, report := stripped(t, msf, PublicOptions{})
	removed := map[RemovedKind]int64{}
	for _, r := range report.Removed {
		removed[r.Kind] = r.Count
		if r.Bytes <= 0 {
			t.Errorf("%s: %d bytes were taken away", r.Kind, r.Bytes)
		}
	}
	if diff := cmp.Diff(map[RemovedKind]int64{RemovedTypes: 1, RemovedIDs: 1, RemovedSymbols: 2, RemovedLines: 1, RemovedSources: 2,
		RemovedGlobals: 1, RemovedPaths: 2, RemovedStrings: 0, RemovedPrograms: 1, RemovedStreams: 3}, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	f := mustOpen(t, out)
	if got := printed(tableOf(t, bytes.NewReader(out), int64(len(out)), 1)); !strings.Contains(got, "STACK WIN 4 1100 40 0 0 4 0 0 0 1 $T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + =\n") ||
		!strings.Contains(got, "STACK WIN 0 1140 20") || !strings.Contains(got, "PUBLIC 1100 4 ns::outer(Argument*)\n") {
		t.Errorf("functions:\n%s", got)
	}
	if codes := must(f.FeatureCodes())(t); !slices.Equal(codes, []uint32{20140508}) {
		t.Errorf("feature codes %v", codes)
	}
}

// The options decide on the names.
func TestPublicOptions(t *testing.T) {
	t.Parallel()
	b := msfBytes(t, 512, secretPDB())
	names := func(o PublicOptions) string {
		out, _ := stripped(t, b, o)
		var list []string
		for _, s := range symbols(t, mustOpen(t, out)) {
			list = append(list, strings.SplitN(s, " ", 3)[2])
		}
		return strings.Join(list, " ")
	}
	for _, c := range []struct {
		o    PublicOptions
		want string
	}{
		{PublicOptions{}, "?outer@ns@@YAHPAUArgument@@@Z _fun@8 _data ?internal_helper@ns@@YAXXZ ?nowhere@@YAXXZ staticfunction"},
		{PublicOptions{Undecorated: true}, "ns::outer fun data ns::internal_helper nowhere staticfunction"},
		{PublicOptions{Exported: true}, "_fun@8"},
		{PublicOptions{NoStatic: true}, "?outer@ns@@YAHPAUArgument@@@Z _fun@8 _data ?internal_helper@ns@@YAXXZ ?nowhere@@YAXXZ"},
		{PublicOptions{NoStatic: true, Hide: []string{"ns::*"}}, "module+0x1100 _fun@8 _data module+0x1200 ?nowhere@@YAXXZ"},
		{PublicOptions{Hide: []string{"?nowhere*", "*static*"}, Module: "engine.dll"}, "?outer@ns@@YAHPAUArgument@@@Z _fun@8 _data ?internal_helper@ns@@YAXXZ engine.dll+0009:00000240 engine.dll+0x1180"},
		{PublicOptions{Hide: []string{"*"}, Undecorated: true}, "module+0x1100 module+0x1140 module+0x2000 module+0x1200 module+0009:00000240 module+0x1180"},
	} {
		if got := names(c.o); got != c.want {
			t.Errorf("%+v:\n%s\nwant\n%s", c.o, got, c.want)
		}
	}
	for page := int64(minPage); page <= maxPage; page *= 2 {
		out, _ := stripped(t, msfBytes(t, page, secretPDB()), PublicOptions{})
		checkMSF(t, out)
		if f := mustOpen(t, out); int64(f.PageSize) != page || len(symbols(t, f)) != 6 {
			t.Errorf("pages of %d bytes: the file has pages of %d", page, f.PageSize)
		}
	}
}

func TestIsProgram(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"$T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + = ": true, "$T1 $ebp 4 + = $T0 $T1 4 - 8 @ = $20 $T0 -36 - ^ =": true, "": true,
		`c:\src\a.c`: false, "a": false, "$": false, "/src/a.c": false, "$T0 secret =": false, "$T0 .raSearch = x.c": false, "++": false, ". .": false,
		"$" + strings.Repeat("x", 40): false, strings.Repeat("1 ", maxProgram/2): false,
	} {
		if got := isProgram(text); got != want {
			t.Errorf("%q is a program: %t, want %t", text, got, want)
		}
	}
}

// The form of each number is fixed: whoever changes the bytes changes PublicFormat, and this table.
func TestPublicFormat(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"hello-arm64.pdb": "2 848050a7a2e6b1eaadfb6ec4c2083fd8bb88e38a83a267d14d867fb3b9a36df2",
		"hello-x64.pdb":   "2 834df51cec3d6fd4040c77c1fed182f503c52bcc653b0b4d49446f37b51c7990",
		"hello-x86.pdb":   "2 9c53f9c22a73c2f29bbc4b3bfbc29fdb8fe6e214e1e017e08cc1b394f15f5af8",
	} {
		out, _ := stripped(t, readFile(t, name), PublicOptions{})
		if got := fmt.Sprintf("%d %x", PublicFormat, sha256.Sum256(out)); got != want {
			t.Errorf("%s: format and hash %s, want %s", name, got, want)
		}
	}
}

// PrivateStrings finds each string that is left, and only those.
func TestPrivateStrings(t *testing.T) {
	t.Parallel()
	private := msfBytes(t, 512, secretPDB())
	out, _ := stripped(t, private, PublicOptions{})
	f := mustOpen(t, out)
	streams := contents(t, f)
	with := func(stream int, b []byte) []byte {
		var list []content
		for i, c := range streams {
			if i == stream {
				c = b
			}
			list = append(list, content{data: c})
		}
		for len(list) <= stream {
			list = append(list, content{data: b})
		}
		return msfBytes(t, 512, list)
	}
	wide := []byte{7}
	for _, c := range []byte(secret) {
		wide = append(wide, c, 0)
	}
	records := streams[publicRecords]
	slack := with(publicNames, streams[publicNames])
	copy(slack[bytes.Index(slack, streams[publicNames])+len(streams[publicNames]):], secret)
	free := append(slices.Clone(out), make([]byte, 512)...)
	copy(free[len(out):], secret)
	le.PutUint32(free[40:], le.Uint32(free[40:])+1)
	for _, c := range []struct {
		name string
		b    []byte
		o    PublicOptions
		want string
	}{
		{"nothing", out, PublicOptions{}, `[]`},
		{"unknown stream", with(len(streams), []byte("x "+secret+" y")), PublicOptions{}, `[stream 13: " SECRETSECRET "]`},
		{"two bytes each, at an odd place", with(len(streams), wide), PublicOptions{}, `[stream 13: "SECRETSECRET"]`},
		{"a string of other files", with(len(streams), []byte("NOTSECRETAGAIN")), PublicOptions{}, `[]`},
		{"seven characters", with(len(streams), []byte("SECRETS")), PublicOptions{}, `[]`},
		{"types", with(TPIStream, streams[TPIStream]), PublicOptions{}, `[]`},
		{"all types", with(TPIStream, secretPDB()[TPIStream].data), PublicOptions{}, `[stream 2: "SECRETSECRET"]`},
		{"another symbol", with(publicRecords, cat(records, rec(0x1125, 0, 4, uint16(1), "outer"+secret))), PublicOptions{}, `[stream 9: "outerSECRETSECRET"]`},
		{"behind a name", with(publicRecords, cat(records, rec(symPublic, 2, 0, uint16(1), "x", []byte(secret)))), PublicOptions{}, `[stream 9: "SECRETSECRET"]`},
		{"a name that is hidden", out, PublicOptions{Hide: []string{"*helper*"}}, `[stream 9: "?internal_helper@ns@@YAXXZ"]`},
		{"a decorated name", out, PublicOptions{Undecorated: true}, `[stream 9: "?outer@ns@@YAHPAUArgument@@@Z" stream 9: "?internal_helper@ns@@YAXXZ" stream 9: "?nowhere@@YAXXZ"]`},
		{"padding", slack, PublicOptions{}, `[outside all streams: "SECRETSECRET"]`},
		{"an unused page", free, PublicOptions{}, `[outside all streams: "SECRETSECRET"]`},
	} {
		list, err := PrivateStrings(bytes.NewReader(private), int64(len(private)), bytes.NewReader(c.b), int64(len(c.b)), c.o)
		if got := fmt.Sprint(list); got != c.want || err != nil {
			t.Errorf("%s: %s, error %v; want %s", c.name, got, err, c.want)
		}
	}
	// The private file can have any form.
	left := with(len(streams), []byte(secret))
	for name, b := range map[string][]byte{"MSFZ": msfzBytes(t, zstdM, 700, secretPDB()), "PDB 2.0": jgBytes(t, 1024, secretPDB())} {
		if list, err := PrivateStrings(bytes.NewReader(b), int64(len(b)), bytes.NewReader(left), int64(len(left)), PublicOptions{}); len(list) != 1 || err != nil {
			t.Errorf("of %s: %v, error %v; want the secret", name, list, err)
		}
	}
	for name, b := range forms(t) {
		if name == "MSF" {
			continue
		}
		if _, err := PrivateStrings(bytes.NewReader(private), int64(len(private)), bytes.NewReader(b), int64(len(b)), PublicOptions{}); err == nil {
			t.Errorf("a public file of the form %s is accepted", name)
		}
	}
}

// What cannot be written is refused with a reason, and nothing is written.
func TestWritePublicRefused(t *testing.T) {
	t.Parallel()
	refuse := func(name string, b []byte, o PublicOptions, want error, text string) {
		t.Helper()
		var out bytes.Buffer
		report, err := WritePublic(&out, bytes.NewReader(b), int64(len(b)), o)
		if err == nil || want != nil && !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), text) || out.Len() > 0 || len(report.Removed) > 0 {
			t.Errorf("%s: error %v, %d bytes written; want an error with %q", name, err, out.Len(), text)
		}
	}
	with := func(change func(s []content)) []byte {
		s := secretPDB()
		change(s)
		return msfBytes(t, 512, s)
	}
	good := secretPDB()
	refuse("no PDB", []byte("MZ"), PublicOptions{}, ErrFormat, "")
	refuse("nothing", nil, PublicOptions{}, ErrFormat, "")
	refuse("PDB 2.0", forms(t)["PDB 2.0"], PublicOptions{}, nil, "")
	refuse("types only", with(func(s []content) { s[DBIStream].data = nil }), PublicOptions{}, ErrNotPublic, "types only")
	refuse("FASTLINK", with(func(s []content) {
		s[InfoStream].data = infoBytes(20000404, 1, 1, testGUID, nil, 20140508, FeatureMinimal)
	}), PublicOptions{}, ErrNotPublic, "FASTLINK")
	refuse("old DBI", with(func(s []content) { s[DBIStream].data = slices.Concat([]byte{0}, good[DBIStream].data[1:]) }), PublicOptions{}, ErrNotPublic, "1997")
	refuse("no records", with(func(s []content) { le.PutUint16(s[DBIStream].data[20:], noStream) }), PublicOptions{}, ErrNotPublic, "symbol records")
	refuse("records that are the types", with(func(s []content) { le.PutUint16(s[DBIStream].data[20:], TPIStream) }), PublicOptions{}, nil, "")
	refuse("frame data that is the types", with(func(s []content) { le.PutUint16(s[DBIStream].data[len(s[DBIStream].data)-22:], TPIStream) }), PublicOptions{}, nil,
		"which has something else")
	refuse("records that are a module", with(func(s []content) { le.PutUint16(s[DBIStream].data[20:], 12) }), PublicOptions{}, nil, "")
	refuse("text in place of frame data", with(func(s []content) { s[9].data = []byte(secret + "    ") }), PublicOptions{}, errText, "")
	refuse("cut records", with(func(s []content) { s[6].data = s[6].data[:len(s[6].data)-5] }), PublicOptions{}, nil, "no record")
	refuse("a short record", with(func(s []content) { s[6].data = cat(s[6].data, rec(symPublic, 1)) }), PublicOptions{}, nil, "a public symbol of 4 bytes")
	refuse("no exports", readFile(t, "hello-x64.pdb"), PublicOptions{Exported: true}, ErrNotPublic, "what the image exports")
	refuse("symbols of a module beyond its stream", with(func(s []content) { s[12].data = s[12].data[:10] }), PublicOptions{}, nil, "bytes of symbols")
	whole := readFile(t, "hello-x64.pdb")
	for n := 0; n < len(whole); n += 509 {
		refuse(fmt.Sprintf("the first %d bytes", n), whole[:n], PublicOptions{}, nil, "")
	}
	// Errors of the reader and the writer come back.
	b := msfBytes(t, 512, good)
	if _, err := WritePublic(failing{}, bytes.NewReader(b), int64(len(b)), PublicOptions{}); !errors.Is(err, errSpent) {
		t.Errorf("error %v, want that of the writer", err)
	}
	for n := int64(100); ; n += 100 {
		var out bytes.Buffer
		_, err := WritePublic(&out, &counter{r: bytes.NewReader(b), most: n}, int64(len(b)), PublicOptions{})
		if err == nil {
			break
		}
		if !errors.Is(err, errSpent) {
			t.Fatalf("error %v, want that of the reader", err)
		}
	}
}

// Names of more than the memory that sorts them at once give the same tables, and files of more than
// 4 GiB are read.
func TestWritePublicLarge(t *testing.T) {
	t.Parallel()
	p := testPDB{machine: 0x8664}
	var records []byte
	for i := range 3000 {
		records = append(records, pub(fmt.Sprintf("?function_%d@%s", i*7919%3000, strings.Repeat("x", i%200)), i)...)
	}
	p.publics = records
	streams := p.streams()
	for range 5 {
		streams = append(streams, content{size: 1 << 30})
	}
	in, out := &thin{parts: map[int64][]byte{}}, &thin{parts: map[int64][]byte{}}
	size := buildMSF(t, in, 8192, streams)
	report, err := WritePublic(out, in, size, PublicOptions{})
	if err != nil || report.Publics != 3000 || report.Size != out.size || out.size > 2<<20 {
		t.Fatalf("%+v, error %v; want 3000 symbols in less than 2 MiB", report, err)
	}
	b := make([]byte, out.size)
	if _, err := out.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	checkMSF(t, b)
	checkSymbolTables(t, mustOpen(t, b))
	f := mustOpen(t, msfBytes(t, 4096, p.streams()))
	order := func(most, atOnce int64) (*publicSymbols, []byte) {
		p := &publicSymbols{f: f, addr: &addresses{}}
		if err := p.choose(&stripper{f: f, removed: map[RemovedKind]*Removed{}}, most); err != nil {
			t.Fatal(err)
		}
		if err := p.sortByHash(atOnce); err != nil {
			t.Fatal(err)
		}
		return p, must(io.ReadAll(p.records()))(t)
	}
	inMemory, records1 := order(1<<20, 1)
	read, records2 := order(1000, 1<<20)
	parts, records3 := order(0, 1000)
	if inMemory.kept == nil || read.kept != nil || parts.kept != nil {
		t.Fatal("the limit of records in memory does not hold")
	}
	if !slices.Equal(inMemory.byHash, read.byHash) || !slices.Equal(inMemory.byHash, parts.byHash) || !bytes.Equal(records1, records2) || !bytes.Equal(records1, records3) {
		t.Error("the records or their order differ when they are not in memory")
	}
}

// What link /PDBSTRIPPED wrote, and what WritePublic makes of the private PDB of the same program, have the
// same symbols in the same order of the hash table and by address.
func TestPublicMSVC(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "pdb")
	genuine, err := os.ReadFile(filepath.Join(dir, "basic32-min.pdb"))
	if err != nil {
		t.Skipf("needs the PDBs that scripts/oracles copies: %v", err)
	}
	own, report := stripped(t, genuine, PublicOptions{})
	f, g := mustOpen(t, genuine), mustOpen(t, own)
	was, is := contents(t, f), contents(t, g)
	if diff := cmp.Diff(was[TPIStream], is[TPIStream]); diff != "" {
		t.Errorf("types (-genuine +own):\n%s", diff)
	}
	if diff := cmp.Diff(was[IPIStream], is[IPIStream]); diff != "" {
		t.Errorf("ids (-genuine +own):\n%s", diff)
	}
	for part, name := range map[int]string{2: "section map", 3: "source files", 5: "names of edit and continue"} {
		if !bytes.Equal(dbiPart(t, f, part), dbiPart(t, g, part)) {
			t.Errorf("%s: %x, genuine %x", name, dbiPart(t, g, part), dbiPart(t, f, part))
		}
	}
	if diff := cmp.Diff(must(f.FeatureCodes())(t), must(g.FeatureCodes())(t)); diff != "" {
		t.Errorf("feature codes (-genuine +own):\n%s", diff)
	}
	// The genuine file has its static functions in the streams of modules.
	statics := 0
	for _, m := range must(f.readModules())(t) {
		if m.stream == noStream {
			continue
		}
		if err := f.eachSymbol(&window{}, m, func(kind uint16, _ []byte) error {
			if kind == symLocalProc {
				statics++
			} else if kind != symEnd {
				t.Errorf("module %s has a symbol of kind %#x", m.name, kind)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if report.Static != int64(statics) || statics == 0 {
		t.Errorf("%d static functions, the genuine file has %d", report.Static, statics)
	}
	for _, name := range []string{"basic32-min.pdb", "basic32.pdb", "basic64.pdb"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := stripped(t, b, PublicOptions{NoStatic: true})
		was, is := publicOrder(t, b), publicOrder(t, out)
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%s: order of symbols (-linker +own):\n%.2000s", name, diff)
		}
	}
}

// publicDifferences are the parts of a public PDB in which what WritePublic writes and what link /PDBSTRIPPED writes
// differ, and why.
var publicDifferences = map[string]string{
	"directory before the last change": "the file is written at once",
	"module symbols":                   "a static function is a public symbol",
	"global symbols":                   "there are no static functions to refer to; one entry, because LLVM fails without any",
	"public symbols":                   "static functions are among them",
	"symbol records":                   "a static function has a public symbol in place of a reference to its module",
	"stream /names":                    "of texts for one place of the hash table, another is first",
	"DBI: modules":                     "names of object files and libraries have no paths, and modules have no stream of symbols",
	"DBI: contributions":               "checksums of the code are zero",
}

// parts returns the parts of a PDB: the bytes of each stream by its meaning, and of each part of the DBI stream. Those of
// several streams follow each other.
func parts(t testing.TB, f *File) map[string][]byte {
	t.Helper()
	list := map[string][]byte{}
	all, seen := contents(t, f), map[int]bool{}
	add := func(name string, n int) {
		if n != noStream && n < len(all) && !seen[n] && all[n] != nil {
			seen[n] = true
			list[name] = append(list[name], all[n]...)
		}
	}
	add("directory before the last change", 0)
	add("ids of the file", InfoStream)
	add("types", TPIStream)
	add("DBI", DBIStream)
	add("ids of types", IPIStream)
	for name, n := range must(f.Names())(t) {
		add("stream "+name, n)
	}
	add("global symbols", f.dbi.globals)
	add("public symbols", f.dbi.publics)
	add("symbol records", f.dbi.record)
	s := must(f.section(DBIStream))(t)
	for i := range optionalStreams {
		add(fmt.Sprintf("optional debug header: %d", i), must(f.optionalNumber(s, i))(t))
	}
	for _, m := range must(f.readModules())(t) {
		add("module symbols", m.stream)
	}
	for n := range all {
		add("unknown", n)
	}
	for i, name := range []string{"modules", "contributions", "section map", "source files", "type servers", "names of edit and continue", "optional debug header"} {
		list["DBI: "+name] = dbiPart(t, f, i)
	}
	// These have the numbers of the streams, and sizes.
	delete(list, "DBI")
	delete(list, "DBI: optional debug header")
	delete(list, "ids of the file")
	return list
}

// What link /PDBSTRIPPED wrote and what WritePublic makes of it are equal part by part, but for the differences
// that are known. docs/public-symbols.md lists them.
func TestPublicGenuine(t *testing.T) {
	t.Parallel()
	genuine, err := os.ReadFile(filepath.Join(os.Getenv("SYMDEPOT_PEERS"), "pdb", "basic32-min.pdb"))
	if err != nil {
		t.Skipf("needs the PDBs that scripts/oracles copies: %v", err)
	}
	out, _ := stripped(t, genuine, PublicOptions{})
	was, is := parts(t, mustOpen(t, genuine)), parts(t, mustOpen(t, out))
	names := slices.Collect(maps.Keys(was))
	for name := range is {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		reason, known := publicDifferences[name]
		t.Logf("%-34s %7d bytes, own %7d  %s", name, len(was[name]), len(is[name]), reason)
		if equal := bytes.Equal(was[name], is[name]); equal == known {
			t.Errorf("%s: equal is %t, and that it differs is known: %t", name, equal, known)
		}
	}
	texts := func(b []byte) []byte { return b[:12+le.Uint32(b[8:])] }
	if !bytes.Equal(texts(was["stream /names"]), texts(is["stream /names"])) {
		t.Error("/names: the texts differ")
	}
	for name := range publicDifferences {
		if !slices.Contains(names, name) {
			t.Errorf("%s: neither file has it", name)
		}
	}
}

// publicOrder returns the public symbols in the order of the hash table, then the buckets, then the
// symbols in the order of addresses. Names that differ in case only have one order.
func publicOrder(t testing.TB, b []byte) []string {
	t.Helper()
	f := mustOpen(t, b)
	all := contents(t, f)
	records, p := all[f.dbi.record], all[f.dbi.publics]
	hash, byAddress := p[28:28+le.Uint32(p)], p[28+le.Uint32(p):][:le.Uint32(p[4:])]
	text := func(at uint32) string {
		data := records[at+4 : at+2+uint32(le.Uint16(records[at:]))]
		return string(nameAt(data, 10))
	}
	n := int(le.Uint32(hash[8:])) / 8
	var list []string
	for i := range n {
		list = append(list, strings.ToLower(text(le.Uint32(hash[16+8*i:])-1)))
	}
	list = append(list, fmt.Sprintf("%x", hash[16+8*n:]))
	for i := range n {
		list = append(list, text(le.Uint32(byAddress[4*i:])))
	}
	return list
}

// FuzzWritePublic: of any file, either nothing is written, or a PDB that reads without errors, is its own
// public form and has no string of the input that it should not have.
func FuzzWritePublic(f *testing.F) {
	seeds := maps.Values(map[string][]byte{"x64": compact(f, "hello-x64.pdb"), "x86": compact(f, "hello-x86.pdb"), "own": msfBytes(f, 512, secretPDB()),
		"MSFZ": msfzBytes(f, zstdM, 700, secretPDB())})
	for b := range seeds {
		for flags := range uint8(8) {
			f.Add(b, flags)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, flags uint8) {
		o := PublicOptions{Undecorated: flags&1 != 0, NoStatic: flags&2 != 0}
		if flags&4 != 0 {
			o.Hide = []string{"*e*"}
		}
		var out bytes.Buffer
		r := &counter{r: bytes.NewReader(b), most: 64 << 20}
		_, _ = PrivateStrings(bytes.NewReader(b), int64(len(b)), bytes.NewReader(b), int64(len(b)), o)
		report, err := WritePublic(&out, r, int64(len(b)), o)
		if err != nil {
			if out.Len() > 0 && !errors.Is(err, errSpent) {
				t.Fatalf("%d bytes written before %v", out.Len(), err)
			}
			return
		}
		if report.Size != int64(out.Len()) {
			t.Errorf("the report says %d bytes, written are %d", report.Size, out.Len())
		}
		checkMSF(t, out.Bytes())
		g := mustOpen(t, out.Bytes())
		if flavor, err := g.Flavor(); flavor != Public || err != nil {
			t.Errorf("flavor %q, error %v", flavor, err)
		}
		checkSymbolTables(t, g)
		if list, err := PrivateStrings(bytes.NewReader(b), int64(len(b)), bytes.NewReader(out.Bytes()), int64(out.Len()), o); err != nil || len(list) > 0 {
			t.Errorf("private strings %v, error %v", list, err)
		}
	})
}
