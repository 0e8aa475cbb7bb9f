package demangle

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw, want string
		opt       Options
	}{
		{"", "", Options{}},
		{"main", "main", Options{}},
		// Microsoft.
		{"?f@A@@QEAAHH@Z", "A::f(int)", Options{}},
		{"?f@A@@QEAAHH@Z", "int A::f(int)", Options{Return: true}},
		{"@?f@A@@QEAAHH@Z", "A::f(int)", Options{}},
		{"?f@A@@QEAAHH@Z.cold", "A::f(int)", Options{}},
		{"?f@A@@QEAAHH@Z.cold", "A::f(int) [clone .cold]", Options{KeepClones: true}},
		{"?f@A@@QEAAHH", "?f@A@@QEAAHH", Options{}},
		{"??@a6a285da2eea70dba6b578022be61d81@", "??@a6a285da2eea70dba6b578022be61d81@", Options{}},
		// Itanium.
		{"_Z1fi", "f(int)", Options{}},
		{"__Z1fi", "f(int)", Options{}},
		{"_ZN1AC2Ev", "A::A()", Options{}},
		{"_Z1fIiEvT_", "f<int>(int)", Options{}},
		{"_Z1fIiEvT_", "void f<int>(int)", Options{Return: true}},
		{"_Z1fIPFvvEET_S2_", "f<void (*)()>(void (*)())", Options{}},
		{"_ZNK1A1fIiEEvT_", "A::f<int>(int) const", Options{}},
		{"_Z1fv.cold.1", "f()", Options{}},
		{"_Z1fv.part.0.cold", "f() [clone .part.0.cold]", Options{KeepClones: true}},
		{"_Z1fv.resume", "f() (.resume)", Options{}},
		{"___Z1fv_block_invoke", "invocation function for block in f()", Options{}},
		{"____Z1fv_block_invoke_2", "invocation function for block in f()", Options{}},
		{"_ZTV1A", "vtable for A", Options{}},
		{"_ZThn8_N1A1fEv", "non-virtual thunk to A::f()", Options{}},
		{"_Z1fv$0123456789abcdef0123456789ABCDEF", "f()", Options{}},
		{"_Z1fv@@", "_Z1fv@@", Options{}},
		{"_Z", "_Z", Options{}},
		{"_Zfoo", "_Zfoo", Options{}},
		// Rust.
		{"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt", Options{}},
		{"_ZN3std3sys9backtrace28__rust_begin_short_backtrace17h0123456789abcdefE", "std::sys::backtrace::__rust_begin_short_backtrace", Options{}},
		{"_ZN4main2_a1_48_$LT$impl$u20$core..fmt..Debug$u20$for$u20$S$GT$17h0123456789abcdefE", "main::_a::_::<impl core::fmt::Debug for S>", Options{}},
		{"_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.123", "core::fmt::Write::write_fmt", Options{}},
		{"_RNvC6_123foo3bar", "123foo::bar", Options{}},
		{"__RNvCs1234_7mycrate3foo", "mycrate::foo", Options{}},
		{"_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE", "std::mem::align_of::<std::mem::Discriminant>", Options{}},
		// Kept as they are.
		{"$s4main3fooyyF", "$s4main3fooyyF", Options{}},
		{"_$s4main3fooyyF", "_$s4main3fooyyF", Options{Arch386: true}},
		{"_T04main3fooyyF", "_T04main3fooyyF", Options{}},
		{"_TtC4main3Foo", "_TtC4main3Foo", Options{}},
		{"-[A b:]", "-[A b:]", Options{}},
		{"+[A b]", "+[A b]", Options{}},
		{"main.(*T).part", "main.(*T).part", Options{}},
		{"type..eq.main.T", "type..eq.main.T", Options{}},
		{"camlA__b_12", "camlA__b_12", Options{}},
		{"_Dmain", "_Dmain", Options{}},
		// C of Windows.
		{"_f@12", "f", Options{Arch386: true}},
		{"@f@12", "f", Options{Arch386: true}},
		{"f@@12", "f", Options{Arch386: true}},
		{"_f", "f", Options{Arch386: true}},
		{"_f@12", "_f@12", Options{}},
		{"_f", "_f", Options{}},
		{"_", "_", Options{Arch386: true}},
	} {
		if got := Name(c.raw, c.opt); got != c.want {
			t.Errorf("Name(%q, %+v): got %q, want %q", c.raw, c.opt, got, c.want)
		}
	}
}

func TestStripClones(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"hello": "hello", "hello.llvm.1234567890": "hello", "hello.str.158.llvm.1786438672924483777": "hello",
		"hello [clone .constprop.0] [clone .isra.0] [clone .cold]": "hello", "hello.localalias": "hello", "hello.localalias.3": "hello",
		"hello.constprop.0.isra.0": "hello", "hello.cold": "hello", "hello.cold.12": "hello", "hello.lto_priv.0": "hello",
		"hello[clone .cold]": "hello", "hello [clone foo][bar]": "hello [clone foo][bar]", "hello [clone a] ": "hello",
		"main.part": "main.part", "a.str": "a.str", "a.warm.1": "a.warm.1", "a.12": "a.12", "12": "12", ".12": ".12", "": "", ".cold": ".cold", ".": ".",
	} {
		if got := StripClones(raw); got != want {
			t.Errorf("StripClones(%q): got %q, want %q", raw, got, want)
		}
	}
}

func TestParamBytes(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		name  string
		bytes uint32
	}{
		"_f@12": {"f", 12}, "@f@8": {"f", 8}, "f@@16": {"f", 16}, "_f@0": {"f", 0}, "__f@4": {"_f", 4}, "_f@65535": {"f", 65535},
		"f@12": {}, "_f": {}, "_f@": {}, "_f@x": {}, "_@4": {}, "@4": {}, "@@4": {}, "?f@@YAXXZ": {}, "_f@1234567": {}, "?f@@4": {}, "_a@b@4": {}, "": {},
	} {
		name, bytes, ok := ParamBytes(raw)
		if name != want.name || bytes != want.bytes || ok != (want.name != "") {
			t.Errorf("ParamBytes(%q): got %q, %d, %t; want %q, %d", raw, name, bytes, ok, want.name, want.bytes)
		}
	}
}

// TestItaniumBombs bounds what the library makes of hostile names.
func TestItaniumBombs(t *testing.T) {
	t.Parallel()
	doubled := "_Z1fIi"
	for i := range 20 {
		doubled += "1AIS" + []string{"_", "0_", "1_"}[i%3] + "S" + []string{"_", "0_", "1_"}[i%3] + "E"
	}
	for name, raw := range map[string]string{
		"pointers":      "_Z1f" + strings.Repeat("P", 60000) + "i",
		"functions":     "_Z1f" + strings.Repeat("PFv", 20000),
		"templates":     "_Z1f" + strings.Repeat("1AI", 20000),
		"nested":        "_ZN" + strings.Repeat("1a", 30000) + "E",
		"substitutions": doubled + "EvT_",
		"rust":          "_R" + strings.Repeat("INvC1a1b", 8000),
		"rust backrefs": "_RINvC1a1b" + strings.Repeat("TB_", 20000),
	} {
		got := Name(raw, Options{})
		t.Logf("%s: %d bytes, %d bytes of text", name, len(raw), len(got))
		if len(got) > max(MaxLength, len(raw)) {
			t.Errorf("%s: %d bytes, want at most %d", name, len(got), max(MaxLength, len(raw)))
		}
	}
}

// shapes are names of the shapes of the Itanium ABI.
var shapes = strings.Fields(`
_Z1fv _Z1fiz _ZN1a1b1cEPKcRKi _ZNK1a1bEv _ZN1aC1Ev _ZN1aD0Ev _ZN1aIiEC2ERKS0_ _ZL1fPv _ZN12_GLOBAL__N_11fEv
_ZSt4moveIRN1a1bEEONSt16remove_referenceIT_E4typeEOS4_ _ZSt7forwardI1aEOT_RNSt16remove_referenceIS1_E4typeE
_ZNSt6vectorIiSaIiEE9push_backERKi _ZNSt6vectorIN1a1bESaIS1_EE12emplace_backIJRjEEERS1_DpOT_
_ZNSt3mapIySt10unique_ptrI1aSt14default_deleteIS1_EESt4lessIyESaISt4pairIKyS4_EEEixERS8_
_ZN1aIJEE1fIJiPcEEEvDpT_ _ZN1aplERKS_ _ZN1a1bILi5ELb1ELj3ELm7ELin2EE1fEv _ZN1aILN1b1cE2EE1dEv
_ZZN1a3runEjENKUlRKS_S1_E_clES1_S1_ _ZZ1fvENUlvE0_4_FUNEv _ZSt6__sortIPiZN1a3runEjEUlRKiS3_E_EvT_S5_T0_
_ZNSaIcEC1Ev _ZNSbIwSt11char_traitsIwESaIwEEC1Ev _ZN1aIXadL_Z1fvEEE1gEv _Z1fPFivE _Z1fRA3_i _Z1fM1aFivE _Z1fDn _ZN1aB5cxx111fEv
_ZNKR1a1fEv _ZN1acviEv _ZTV1a _ZThn8_N1a1fEv _ZGVZ1fvE1x _Z1fIiEvT_ _Z1fIJEEvDpT_ _Z1fIRiEvOT_ _Z1fIKiEvRKT_ _Z1fIRiEvOT_S2_ _Z1fIRiEvOT_OS1_ _Z1fIOiEvRT_S2_`)

// FuzzName checks that any name is bounded and does not panic.
func FuzzName(f *testing.F) {
	for _, raw := range []string{
		"_ZNK1A1fIiEEvT_.part.0.cold", "_RINvNtC3std3mem8align_ofNtNtC3std3mem12DiscriminantE", "?f@@YAXXZ", "_f@12", "____Z1fv_block_invoke_2", "x [clone .cold]",
	} {
		f.Add(raw, true, true)
	}
	for _, raw := range shapes {
		f.Add(raw, true, false)
	}
	f.Fuzz(func(t *testing.T, raw string, a, b bool) {
		got := Name(raw, Options{KeepClones: a, Return: b, Arch386: b})
		if len(got) > max(2*MaxLength, 2*len(raw)) {
			t.Errorf("%q: %d bytes, want at most %d", raw, len(got), max(2*MaxLength, 2*len(raw)))
		}
		if raw != "" && got == "" {
			t.Errorf("%q: no name", raw)
		}
	})
}
