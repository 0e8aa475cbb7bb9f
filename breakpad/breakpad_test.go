package breakpad

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/debugid"
)

func id(t *testing.T, s string) debugid.ID {
	t.Helper()
	v, err := debugid.ParseBreakpad(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseHeader(t *testing.T) {
	const g = "3198517245D844EDB92B943840F8C3D81"
	for _, tt := range []struct {
		name, in string
		want     Header
	}{
		{"plain", "MODULE Linux x86_64 " + g + " prog\nFILE 0 a.c\n", Header{OS: "Linux", Arch: "x86_64", ID: id(t, g), Name: "prog"}},
		{"no line end", "MODULE mac arm64 " + g + " prog", Header{OS: "mac", Arch: "arm64", ID: id(t, g), Name: "prog"}},
		{"windows", "MODULE windows x86_64 " + g + " winpty.pdb\r\nINFO CODE_ID 69485E8C45000 winpty.dll\r\nFUNC 1 2 0 x\r\n",
			Header{OS: "windows", Arch: "x86_64", ID: id(t, g), Name: "winpty.pdb", CodeID: "69485E8C45000", CodeName: "winpty.dll"}},
		{"spaces", "MODULE windows x86 " + g + " My Program 2.pdb\nINFO CODE_ID 5AB380779000 My Program 2.exe\n",
			Header{OS: "windows", Arch: "x86", ID: id(t, g), Name: "My Program 2.pdb", CodeID: "5AB380779000", CodeName: "My Program 2.exe"}},
		{"generator and others", "MODULE Linux arm " + g + " a\nINFO GENERATOR mozilla/dump_syms 2.3.4\nINFO URL https://x/y\nINFO CODE_ID AB12\nINFO\nINFO CODE_ID FF\n",
			Header{OS: "Linux", Arch: "arm", ID: id(t, g), Name: "a", CodeID: "AB12", Generator: "mozilla/dump_syms 2.3.4"}},
		{"NUL", "MODULE Linux arm " + g + " a\x00b\n", Header{OS: "Linux", Arch: "arm", ID: id(t, g), Name: "a_b"}},
		{"PDB 2.0", "MODULE windows x86 418E89C31 a.pdb\n", Header{OS: "windows", Arch: "x86", ID: debugid.PDB20(0x418E89C3, 1), Name: "a.pdb"}},
		{"large age", "MODULE windows x86 DFB8E43AF2423D73A453AEB6A777EF75feedface a.pdb\n",
			Header{OS: "windows", Arch: "x86", ID: id(t, "DFB8E43AF2423D73A453AEB6A777EF75feedface"), Name: "a.pdb"}},
		{"no id", "MODULE Linux x86 000000000000000000000000000000000 a\n", Header{OS: "Linux", Arch: "x86", Name: "a"}},
		{"INFO line too long", "MODULE Linux x86 " + g + " a\nINFO CODE_ID AA\nINFO X " + strings.Repeat("y", 2*maxLine) + "\n",
			Header{OS: "Linux", Arch: "x86", ID: id(t, g), Name: "a", CodeID: "AA"}},
	} {
		got, err := ParseHeader(strings.NewReader(tt.in))
		if err != nil {
			t.Errorf("%s: ParseHeader: error %v, want no error", tt.name, err)
		} else if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf(`%s: Diff: %s, want ""`, tt.name, d)
		}
	}
}

func TestParseHeaderErrors(t *testing.T) {
	const g = "3198517245D844EDB92B943840F8C3D8"
	for _, in := range []string{
		"", "\n", "MODULE", "MODULE ", "FUNC 1 2 3 4", "MODULE Linux x86_64 " + g + "1", "MODULE Linux x86_64 " + g + "1 ",
		"MODULE Linux x86_64 " + g + " noage", "MODULE Linux x86_64 " + g[:31] + " a", "MODULE Linux x86_64 " + g + "123456789 a",
		"MODULE Linux x86_64 31985172-45D8-44ED-B92B-943840F8C3D81 a", "MODULES Linux x86_64 " + g + "1 a",
		"MODULE Linux x86 " + g + "1 " + strings.Repeat("n", 2*maxLine),
	} {
		if h, err := ParseHeader(strings.NewReader(in)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.60q: ParseHeader: %+v, error %v; want ErrSyntax", in, h, err)
		}
	}
	boom := errors.New("boom")
	for _, in := range []string{"", "MODULE Linux x86 " + g + "1 a\nINFO "} {
		if _, err := ParseHeader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(boom))); !errors.Is(err, boom) {
			t.Errorf("read failure after %q: %v, want %v", in, err, boom)
		}
	}
}

func TestParseHeaderIsBounded(t *testing.T) {
	r := &counter{r: io.MultiReader(strings.NewReader("MODULE Linux x86 3198517245D844EDB92B943840F8C3D81 a\n"), endless("INFO X y\n"))}
	if _, err := ParseHeader(r); err != nil {
		t.Fatal(err)
	}
	if r.n > maxHeader {
		t.Errorf("read %d bytes of an endless header, limit is %d", r.n, maxHeader)
	}
}

type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

type endless string

func (e endless) Read(p []byte) (int, error) { return copy(p, e), nil }

// TestRoundTrip checks that what WriteHeader writes is what ParseHeader reads.
func TestRoundTrip(t *testing.T) {
	word := rapid.StringMatching(`[!-~]{1,20}`)
	text := rapid.StringMatching(`([!-~äß]([ -~äß]{0,20}[!-~])?)?`)
	rapid.Check(t, func(t *rapid.T) {
		want := Header{
			OS: word.Draw(t, "os"), Arch: word.Draw(t, "arch"), Name: "n" + text.Draw(t, "name"),
			ID:        debugid.ID{Age: rapid.Uint32().Draw(t, "age")},
			Generator: text.Draw(t, "generator"),
		}
		copy(want.ID.GUID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "guid"))
		want.ID.GUID[0] |= 1
		if rapid.Bool().Draw(t, "code") {
			want.CodeID, want.CodeName = word.Draw(t, "code id"), text.Draw(t, "code name")
		}
		var b bytes.Buffer
		if err := WriteHeader(&b, want); err != nil {
			t.Fatal(err)
		}
		got, err := ParseHeader(&b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf(`Diff: %q, want ""`, d)
		}
	})
}

func TestWriteHeaderRefuses(t *testing.T) {
	ok := Header{OS: "Linux", Arch: "x86", Name: "a"}
	if err := WriteHeader(io.Discard, ok); err != nil {
		t.Fatal(err)
	}
	for _, edit := range []func(*Header){
		func(h *Header) { h.Name = "a\nFUNC 0 1 0 x" }, func(h *Header) { h.Name = "" }, func(h *Header) { h.OS = "a b" },
		func(h *Header) { h.CodeName = "x" }, func(h *Header) { h.Generator = "a\rb" }, func(h *Header) { h.Name = " a" },
	} {
		h := ok
		edit(&h)
		var b bytes.Buffer
		if err := WriteHeader(&b, h); !errors.Is(err, ErrSyntax) || b.Len() > 0 {
			t.Errorf("%+v: %v, wrote %q; want %v and nothing written", h, err, &b, ErrSyntax)
		}
	}
}

func TestSymName(t *testing.T) {
	for in, want := range map[string]string{
		"crash.pdb": "crash.sym", "Foo.PDB": "Foo.sym", "crash.exe": "crash.exe.sym", "foo.pdb.dll": "foo.pdb.dll.sym",
		"libm-2.23.so": "libm-2.23.so.sym", ".pdb": ".pdb.sym", "": ".sym",
	} {
		if got := SymName(in); got != want {
			t.Errorf("SymName(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte("MODULE windows x86_64 3198517245D844EDB92B943840F8C3D81 winpty.pdb\r\nINFO CODE_ID 69485E8C45000 winpty.dll\r\nFUNC 1 2 0 x\r\n"))
	f.Add([]byte("MODULE Linux x86_64 AA45ACAD1B2331BA43D7AF433767C61F0 prog-sha1\nINFO CODE_ID ADAC45AA231BBA3143D7AF433767C61F31021C16\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := ParseHeader(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := WriteHeader(&out, h); err != nil {
			return
		}
		again, err := ParseHeader(&out)
		if err != nil || again.ID != h.ID && !h.ID.IsZero() || again.Name != h.Name {
			t.Errorf("%+v reads back as %+v, %v, want the same id and name", h, again, err)
		}
	})
}
