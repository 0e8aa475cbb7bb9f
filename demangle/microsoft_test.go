package demangle

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestMicrosoft has a name for each rule of the grammar, in full and in brief.
func TestMicrosoft(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, full, brief string }{
		// Variables.
		{"?x@@3HA", "int x", "x"},
		{"?x@A@@0HA", "private: static int A::x", "A::x"},
		{"?x@A@@4PBHB", "int const *A::x", "A::x"},
		{"?x@@3P6AHH@ZA", "int (__cdecl *x)(int)", "x"},
		{"?x@@3P8A@@EBAHH@ZEQ1@", "int (__cdecl A::*x)(int) const", "x"},
		{"?x@@3PEQA@@HEQ1@", "int A::*x", "x"},
		{"?x@@3PAY124HA", "int (*x)[3][5]", "x"},
		{"??$x@H@@3HA", "int x<int>", "x<int>"},
		// Functions.
		{"?f@@YAXXZ", "void __cdecl f(void)", "f(void)"},
		{"?f@@YAXHZZ", "void __cdecl f(int, ...)", "f(int, ...)"},
		{"?f@@YA?AVA@@PEBDAEAV1@$$QEAV1@@Z", "class A __cdecl f(char const *, class A &, class A &&)", "f(char const*, A&, A&&)"},
		{"?f@@YAP6AHXZXZ", "int (__cdecl * __cdecl f(void))(void)", "f(void)"},
		{"?f@@YAXQEAHQEAY01HP6AXH@Z@Z", "void __cdecl f(int *const, int (*const)[2], void (__cdecl *)(int))", "f(int* const, int (* const)[2], void (*)(int))"},
		{"?f@A@@EEBAXXZ", "private: virtual void __cdecl A::f(void) const", "A::f(void) const"},
		{"?f@A@@SAXXZ", "public: static void __cdecl A::f(void)", "A::f(void)"},
		{"?f@A@@QEHAAXXZ", "public: void __cdecl A::f(void) &&", "A::f(void) &&"},
		{"?f@@YAXQEAY01PEAHP6APEAHXZ@Z", "void __cdecl f(int *(*const)[2], int * (__cdecl *)(void))", "f(int* (* const)[2], int* (*)(void))"},
		{"?f@@YA_J_K@Z", "__int64 __cdecl f(unsigned __int64)", "f(uint64_t)"},
		{"?f@@YAXX_E", "void __cdecl f(void) noexcept", "f(void) noexcept"},
		{"?f@@$$J0YAXXZ", `extern "C" void __cdecl f(void)`, "f(void)"},
		{"?f@@9", `extern "C" f`, "f"},
		{"?f@A@@W7EAAXXZ", "[thunk]: public: virtual void __cdecl A::f`adjustor{8}'(void)", "A::f(void)"},
		{"?f@A@@$4PPPPPPPM@A@EAAXXZ", "[thunk]: public: virtual void __cdecl A::f`vtordisp{-4, 0}'(void)", "A::f(void)"},
		{"?f@A@@$R477PPPPPPPM@7EAAXXZ", "[thunk]: public: virtual void __cdecl A::f`vtordispex{8, 8, -4, 8}'(void)", "A::f(void)"},
		{"?f@A@@G3AEXXZ", "[thunk]: private: virtual void __thiscall A::f`adjustor{4}'(void)", "A::f(void)"},
		{"?f@@YAX_L_D@Z", "void __cdecl f(__int128, __int8)", "f(int128_t, __int8)"},
		{"?f@@YAXW0E@@@Z", "void __cdecl f(enum E)", "f(E)"},
		{"?f@@YAXPE$AAVS@@A$CAH@Z", "void __cdecl f(class S ^, int %)", "f(S^, int%)"},
		{"?f@@YAHXZ::<!a.b>", "int __cdecl f(void)", "f(void)"},
		{"?f@@YAHXZ.resume", "int __cdecl f(void) (.resume)", "f(void) (.resume)"},
		{"?f@@$$hYAHXZ", "int __cdecl f(void)", "f(void)"},
		// Operators and functions that the compiler makes.
		{"??0A@@QEAA@XZ", "public: __cdecl A::A(void)", "A::A(void)"},
		{"??1?$A@H@@UEAA@XZ", "public: virtual __cdecl A<int>::~A<int>(void)", "A<int>::~A<int>(void)"},
		{"??$?0H@A@@QEAA@H@Z", "public: __cdecl A::A<int>(int)", "A::A<int>(int)"},
		{"??BA@@QEAAHXZ", "public: int __cdecl A::operator int(void)", "A::operator int(void)"},
		{"??__K_km@@YAHH@Z", `int __cdecl operator ""_km(int)`, `operator ""_km(int)`},
		{"??_GA@@UEAAPEAXI@Z", "public: virtual void * __cdecl A::`scalar deleting dtor'(unsigned int)", "A::`scalar deleting destructor'(unsigned int)"},
		{"??_H@YAXPEAX_KHP6APEAX0@Z@Z", "void __cdecl `vector ctor iterator'(void *, unsigned __int64, int, void * (__cdecl *)(void *))", "`vector constructor iterator'(void*, uint64_t, int, void* (*)(void*))"},
		{"??_PA@@YAXXZ", "", ""},
		// Tables, run-time types, guards, initializers.
		{"??_7A@@6B@", "const A::`vftable'", "const A::`vftable'"},
		{"??_7A@@6BB@@C@@@", "const A::`vftable'{for `B's `C'}", "const A::`vftable'{for `B's `C'}"},
		{"??_8A@@7B@", "const A::`vbtable'", "const A::`vbtable'"},
		{"??_9A@@$B7AA", "[thunk]: __cdecl A::`vcall'{8, {flat}}", "A::`vcall'{8, {flat}}"},
		{"??_R0?AVA@@@8", "class A `RTTI Type Descriptor'", "A `RTTI Type Descriptor'"},
		{"??_R1A@?0A@EA@A@@8", "A::`RTTI Base Class Descriptor at (0, -1, 0, 64)'", "A::`RTTI Base Class Descriptor at (0, -1, 0, 64)'"},
		{"??_R4A@@6B@", "const A::`RTTI Complete Object Locator'", "const A::`RTTI Complete Object Locator'"},
		{"??_B?1??f@@YAHXZ@51", "`int __cdecl f(void)'::`2'::`local static guard'{2}", "`f(void)'::`2'::`local static guard'{2}"},
		{"?$TSS0@?1??f@@YAHXZ@4HA", "int `int __cdecl f(void)'::`2'::$TSS0", "`f(void)'::`2'::$TSS0"},
		{"??__Ex@@YAXXZ", "void __cdecl `dynamic initializer for 'x''(void)", "`dynamic initializer for 'x''(void)"},
		{"??__F?x@A@@2HA@@YAXXZ", "void __cdecl `dynamic atexit destructor for `public: static int A::x''(void)", "`dynamic atexit destructor for `A::x''(void)"},
		{"??__E?$x@H@@YAXXZ", "void __cdecl `dynamic initializer for 'x<int>''(void)", "`dynamic initializer for 'x<int>''(void)"},
		{".?AV?$A@H@@", "class A<int> `RTTI Type Descriptor Name'", "A<int> `RTTI Type Descriptor Name'"},
		// String literals.
		{"??_C@_05CJBACGMB@hello?$AA@", `"hello"`, `"hello"`},
		{"??_C@_13FPGAJAPJ@?$AA?2@", `L"\\"`, `L"\\"`},
		{"??_C@_15KEKAGNIG@?$AAh?$AAi?$AA?$AA@", `L"hi"`, `L"hi"`},
		// Templates.
		{"??$f@$$V@@YAXXZ", "void __cdecl f<>(void)", "f<>(void)"},
		{"??$f@$0?0$0BAA@@@YAXXZ", "void __cdecl f<-1, 256>(void)", "f<-1, 256>(void)"},
		{"??$f@V?$g@V?$h@H@@@@@@YAXXZ", "void __cdecl f<class g<class h<int>>>(void)", "f<g<h<int> > >(void)"},
		{"??$f@$1?g@A@@QEAAXXZ@@YAXXZ", "void __cdecl f<&public: void __cdecl A::g(void)>(void)", "f<&A::g(void)>(void)"},
		{"??$f@$H?g@A@@QEAAXXZA@@@YAXXZ", "void __cdecl f<{public: void __cdecl A::g(void), 0}>(void)", "f<{A::g(void), 0}>(void)"},
		{"??$f@$G3A@A@@@YAXXZ", "void __cdecl f<{4, 0, 0}>(void)", "f<{4, 0, 0}>(void)"},
		{"??$f@$MPEAH1?x@@3HA@@YAXXZ", "void __cdecl f<&int x>(void)", "f<&x>(void)"},
		{"??$f@$$A6AHH@Z@@YAXXZ", "void __cdecl f<int __cdecl(int)>(void)", "f<int (int)>(void)"},
		{"??$f@$$BY02H@@YAXXZ", "void __cdecl f<int[3]>(void)", "f<int[3]>(void)"},
		{"??$f@$2UN@@H00PEBD0A@3H01@02@@@@@YAXXZ", "void __cdecl f<struct N{1, 0, {2, 3}}>(void)", "f<N{1, 0, {2, 3}}>(void)"},
		{"??$f@$7TN@@b@0HI@@@@YAXXZ", "void __cdecl f<union N{.b = 120}>(void)", "f<N{.b = 120}>(void)"},
		{"??$f@$BDPPIAAAAAAAAAAAA@@@YAXXZ", "void __cdecl f<1.5>(void)", "f<1.5>(void)"},
		{"??$f@$61?n@@3UN@@Aa@@@@YAXXZ", "void __cdecl f<&struct N n.a>(void)", "f<&n.a>(void)"},
		// Back-references, whose tables differ between compilers.
		{"?f@@YAXV?$A@V?$B@H@@@@V?$B@H@@0@Z", "void __cdecl f(class A<class B<int>>, class B<int>, class A<class B<int>>)", "f(A<B<int> >, B<int>, A<B<int> >)"},
		{"?f@?A0x3c33a7a1@@YAXAEBVB@1@@Z", "void __cdecl `anonymous namespace'::f(class `anonymous namespace'::B const &)", "(anonymous namespace)::f((anonymous namespace)::B const&)"},
		{"?f@?A0xCA0480CB@@YAXUB@?A0xCA0480CB@@PEAU1?A0xCA0480CB@@@Z", "void __cdecl `anonymous namespace'::f(struct `anonymous namespace'::B, struct `anonymous namespace'::B *)", "(anonymous namespace)::f((anonymous namespace)::B, (anonymous namespace)::B*)"},
		{"?f@?A0x10000000@@YAXUB@?A0x10000000@@PEAU1?A0x10000000@@@Z", "void __cdecl `anonymous namespace'::f(struct `anonymous namespace'::B, struct `anonymous namespace'::B *)", "(anonymous namespace)::f((anonymous namespace)::B, (anonymous namespace)::B*)"},
		{"??$sin@M@std@@YA?AV?$complex@M@1@AEBV21@@Z", "class std::complex<float> __cdecl std::sin<float>(class std::complex<float> const &)", "std::sin<float>(std::complex<float> const&)"},
		// Local scopes, lambdas, deduced types.
		{"?x@?BA@??f@@YAXXZ@4HA", "int `void __cdecl f(void)'::`16'::x", "`f(void)'::`16'::x"},
		{"?fin$0@?0?main@4HA", "int `main'::`1'::fin$0", "`main'::`1'::fin$0"},
		{"?dtor$1@?0??f@@YAXXZ.destroy@4HA", "int `void __cdecl f(void) (.destroy)'::`1'::dtor$1", "`f(void) (.destroy)'::`1'::dtor$1"},
		{"??R<lambda_1>@?0??g@@YAXXZ@QEBA?A?<auto>@@XZ", "public: <auto> __cdecl `void __cdecl g(void)'::`1'::<lambda_1>::operator()(void) const", "`g(void)'::`1'::<lambda_1>::operator()(void) const"},
		{"?f@@YA_PXZ", "auto __cdecl f(void)", "f(void)"},
		{"??@a6a285da2eea70dba6b578022be61d81@", "??@a6a285da2eea70dba6b578022be61d81@", "??@a6a285da2eea70dba6b578022be61d81@"},
		// Damage.
		{"", "", ""}, {"?", "", ""}, {"??", "", ""}, {"?f", "", ""}, {"?f@@", "", ""}, {"?f@@YAX", "", ""}, {"?f@@YAXXZ?", "", ""},
		{"?f@@YAX0@Z", "", ""}, {"?f@@YAXV9@@Z", "", ""}, {"?f@@YKXXZ", "", ""}, {"??0@QEAA@XZ", "", ""}, {"??B@@QEAA@XZ", "", ""},
		{"??_C@_05CJBACGMB@hel", "", ""}, {"?x@@3P6AHH@", "", ""}, {"?f@@YAXPAYBAAAAAAA@H@Z", "", ""}, {"?f@@YAXXZ.", "", ""}, {"?f@@YAXXZ::<!a", "", ""},
	} {
		for flags, want := range map[Flags]string{0: c.full, Brief: c.brief} {
			got, err := Microsoft(c.raw, flags)
			if want == "" {
				if err == nil || got != c.raw {
					t.Errorf("%q: got %q, error %v; want the name itself and an error", c.raw, got, err)
				}
			} else if got != want || err != nil {
				t.Errorf("%q, flags %x:\n got %s, error %v\nwant %s", c.raw, uint(flags), got, err, want)
			}
		}
	}
}

// known explains why a text differs from that of llvm-undname 19.1.7. It returns
// "" for a difference without a known reason.
func known(raw, theirs, ours string, err error) string {
	var anonymous = regexp.MustCompile(`\b0x[0-9a-f]{8}\b`)
	switch {
	case theirs == "" && err == nil:
		return "llvm-undname refuses the name"
	case anonymous.ReplaceAllString(theirs, "`anonymous namespace'") == ours:
		return "llvm-undname writes the key of an anonymous namespace for a back-reference"
	case strings.Contains(raw, "?A0x") && strings.Contains(theirs, "`anonymous namespace'::0x"):
		return "llvm-undname counts anonymous namespaces in names of clang"
	case regexp.MustCompile(` \(\.[a-z._]+\)`).ReplaceAllString(ours, "") == theirs:
		return "llvm-undname drops the suffix of a part of a coroutine"
	case strings.Contains(raw, "Yw") && strings.ReplaceAll(ours, "__regcall ", "") == theirs:
		return "llvm-undname does not name __regcall"
	case strings.Contains(raw, "@@G") && strings.Replace(ours, "private: virtual", "private:", 1) == theirs:
		return "llvm-undname calls a private adjustor thunk not virtual"
	case strings.Contains(ours, "'s `"):
		return "llvm-undname shows one base of a table only"
	case err != nil && regexp.MustCompile(`[^.a-z0-9_]\.[A-Za-z0-9_.]*$|\$(filt|fin)\$|^\.L`).MatchString(raw):
		return "llvm-undname ignores what follows the name"
	}
	return ""
}

// compare counts the names whose texts equal those of llvm-undname, and reports
// differences without a known reason.
func compare(t *testing.T, names, texts []string) (equal int, reasons map[string]int) {
	t.Helper()
	reasons = map[string]int{}
	for i, raw := range names {
		got, err := Microsoft(raw, 0)
		switch {
		case err == nil && got == texts[i], err != nil && texts[i] == "":
			equal++
		default:
			why := known(raw, texts[i], got, err)
			if why == "" {
				t.Errorf("%q:\n got %s, error %v\nllvm-undname %s\nwant the same, or a reason on record", raw, got, err, texts[i])
			}
			reasons[why]++
		}
		if _, err := Microsoft(raw, Brief); (err == nil) != (got != raw || strings.HasPrefix(raw, "??@")) {
			t.Errorf("%q: brief: error %v, full: %s; want both demangled, or neither", raw, err, got)
		}
	}
	return equal, reasons
}

// TestMicrosoftGolden compares with stored texts of llvm-undname: names of
// testdata/names.cpp as clang 19 writes it for x64 and x86, and names of the
// symbols, types and exports of real files that MSVC made.
func TestMicrosoftGolden(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("testdata/microsoft.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	var names, texts []string
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, MaxLength)
	for lines.Scan() {
		if name, text, ok := strings.Cut(lines.Text(), "\t"); ok {
			names, texts = append(names, name), append(texts, text)
		}
	}
	if err := lines.Err(); err != nil || len(names) < 7000 {
		t.Fatalf("%d names, error %v; want at least 7000", len(names), err)
	}
	equal, reasons := compare(t, names, texts)
	t.Logf("%d names, %d equal to llvm-undname 19.1.7; %v", len(names), equal, reasons)
}

// TestUndname compares with llvm-undname itself on all public symbols and type names
// of the real PDBs, and on the names in the file that SYMDEPOT_NAMES names.
func TestUndname(t *testing.T) {
	t.Parallel()
	dir := symtest.Material(t)
	undname, pdbutil := symtest.Tool(t, "llvm-undname-19"), symtest.Tool(t, "llvm-pdbutil-19")
	set := map[string]bool{}
	add := func(text []byte, pattern string) {
		for _, m := range regexp.MustCompile(pattern).FindAllSubmatch(text, -1) {
			set[string(m[1])] = true
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.EqualFold(filepath.Ext(path), ".pdb") {
			return err
		}
		out, err := exec.Command(pdbutil, "dump", "--publics", "--types", path).Output()
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			return err
		}
		add(out, "`([?][^`\n]*)`\n")
		add(out, "unique name: `([.][?][^`\n]*)`")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("SYMDEPOT_NAMES"); name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		add(text, `(?m)^([?.].*)$`)
	}
	var names []string
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	cmd := exec.Command(undname)
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n") + "\n")
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	texts, err := parseUndname(names, string(out))
	if err != nil {
		t.Fatal(err)
	}
	equal, reasons := compare(t, names, texts)
	t.Logf("%d names, %d equal; %v", len(names), equal, reasons)
	if refused := reasons["llvm-undname refuses the name"]; len(names) < 10000 || (len(names)-refused)*998 > equal*1000 {
		t.Errorf("%d of %d names are equal, want 99.8 %% of those that llvm-undname accepts", equal, len(names))
	}
}

// parseUndname splits the output of llvm-undname: a name, its text, and an empty line;
// no text for a name that it refuses.
func parseUndname(names []string, out string) ([]string, error) {
	lines := strings.Split(out, "\n")
	texts := make([]string, 0, len(names))
	for _, name := range names {
		if len(lines) < 2 || lines[0] != name {
			return nil, fmt.Errorf("the output of llvm-undname lacks %q", name)
		}
		if lines[1] == "" {
			texts, lines = append(texts, ""), lines[2:]
		} else {
			texts, lines = append(texts, lines[1]), lines[3:]
		}
	}
	return texts, nil
}

// bombs are names whose text, or whose reading, would be far longer than the names.
func bombs() map[string]string {
	// Each parameter is a function of two of the one before.
	types := "P6AXH@Z"
	for i := range 9 {
		types += fmt.Sprintf("P6AX%d%d@Z", i, i)
	}
	level := types
	for range 20 {
		level = "V?$A@P6AX" + level + "@Z@@"
		if len(level) > 3000 {
			break
		}
		level += types
	}
	return map[string]string{
		"types":           "?f@@YAX" + types + "@Z",
		"types of types":  "?f@@YAX" + level + "@Z",
		"pointers":        "?x@@3" + strings.Repeat("PA", 30000) + "HA",
		"functions":       "?x@@3" + strings.Repeat("P6A", 20000),
		"templates":       "?x@@3" + strings.Repeat("V?$A@", 12000),
		"scopes":          "?x" + strings.Repeat("@?1??f", 10000),
		"local scopes":    strings.Repeat("?x@?1?", 10000),
		"arrays":          "?x@@3PAY" + strings.Repeat("BAAA@0", 10000) + "HA",
		"dimensions":      "?x@@3PAYBAAA@" + strings.Repeat("PPPPPPPPPPPPPPPP@", 4096-256) + "HA",
		"template values": "??$f@" + strings.Repeat("$2UA@@", 10000),
		"parts":           "?x" + strings.Repeat("@a", 30000) + "@@3HA",
		"same names":      "?x" + strings.Repeat("@0", 30000) + "@@3HA",
		"long":            "?" + strings.Repeat("x", MaxLength) + "@@3HA",
	}
}

// TestMicrosoftBombs bounds the text and the work.
func TestMicrosoftBombs(t *testing.T) {
	t.Parallel()
	for name, raw := range bombs() {
		got, err := Microsoft(raw, 0)
		if len(got) > max(MaxLength, len(raw)) || err == nil && got == raw {
			t.Errorf("%s: %d bytes for a name of %d, error %v; want a demangled name of at most %d", name, len(got), len(raw), err, max(MaxLength, len(raw)))
		}
		t.Logf("%s: %d bytes, %d bytes of text, error %.80v", name, len(raw), len(got), err)
	}
}

// FuzzMicrosoft checks that any name is bounded and does not panic, and that both
// forms accept the same names.
func FuzzMicrosoft(f *testing.F) {
	for _, raw := range bombs() {
		f.Add(raw[:min(len(raw), 2000)])
	}
	for _, raw := range []string{
		"?f@@YAXV?$A@V?$B@H@@@@V?$B@H@@0@Z", "??$f@$2UN@@H00PEBD0A@3H01@02@@@@@YAXXZ", "??_C@_05CJBACGMB@hello?$AA@",
		"?f@A@@$R477PPPPPPPM@7EAAXXZ", "??__F?x@A@@2HA@@YAXXZ", "?x@?BA@??f@@YAXXZ@4HA", "??_R1A@?0A@EA@A@@8", "??_9A@@$B7AA",
		"?x@@3P8A@@EBAHH@ZEQ1@", "?f@?A0x10000000@@YAXUB@?A0x10000000@@PEAU1?A0x10000000@@@Z", ".?AV?$A@H@@", "??$f@$61?n@@3UN@@Aa@@@@YAXXZ",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		full, err := Microsoft(raw, 0)
		if err != nil && full != raw {
			t.Errorf("%q: %q with an error, want the raw name", raw, full)
		}
		if len(full) > max(len(raw), MaxLength) {
			t.Errorf("%q: %d bytes, want at most %d", raw, len(full), max(len(raw), MaxLength))
		}
		brief, err2 := Microsoft(raw, Brief)
		if err == nil && err2 != nil && len(full) < MaxLength/2 {
			t.Errorf("%q: %q in full, brief %q: %v; want both demangled", raw, full, brief, err2)
		}
	})
}
