package demangle

import "testing"

func TestBare(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"_ZN2ns1fEi":               "ns::f",
		"_ZNK2ns1S1gEPFvicE":       "ns::S::g",
		"_ZN2nsclEi":               "ns::operator()",
		"_ZN12_GLOBAL__N_11fEv":    "(anonymous namespace)::f",
		"?f@ns@@YAXH@Z":            "ns::f",
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
		if got := Bare(want, Options{}); got != want {
			t.Errorf("Bare(%q) = %q, want it unchanged", want, got)
		}
	}
}
