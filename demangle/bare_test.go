package demangle

import (
	"strings"
	"testing"
)

func TestBare(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"_ZN2ns1fEi":               "ns::f",
		"_ZNK2ns1S1gEPFvicE":       "ns::S::g",
		"_ZN2nsclEi":               "ns::operator()",
		"_ZN12_GLOBAL__N_11fEv":    "(anonymous namespace)::f",
		"?f@ns@@YAXH@Z":            "ns::f",
		"?get@S@ns@@QEBAHXZ":       "ns::S::get",
		"??RS@@QEBAHH@Z":           "S::operator()",
		"??BS@@QEBAP6AXH@ZXZ":      "S::operator void (*)(int)",
		"??$f@P6AXH@Z@@YAXH@Z":     "f<void (*)(int)>",
		"?x@?1??f@@YAXH@Z@4HA":     "`f'::`2'::x",
		"?f@@YAXH@Z.resume":        "f",
		"f<&(g)>":                  "f<&(g)>",
		"(a)":                      "(a)",
		"main":                     "main",
		"main.(*T).Method":         "main.(*T).Method",
		"main.(*T).Method.func1":   "main.(*T).Method.func1",
		"-[Foo(Bar) baz:]":         "-[Foo(Bar) baz:]",
		"ns::operator()":           "ns::operator()",
		"f(int (*)(char)) const &": "f",
		"_ZN2ns":                   "",
		"?f@ns":                    "",
		"$s4main1fyySiF":           "",
		"":                         "",
		")":                        ")",
	} {
		if got := Bare(raw, Options{}); got != want {
			t.Errorf("Bare(%q) = %q, want %q", raw, got, want)
		}
		if got := Bare(want, Options{}); got != want && !strings.HasSuffix(want, "void (*)(int)") {
			t.Errorf("Bare(%q) = %q, want it unchanged", want, got)
		}
	}
}
