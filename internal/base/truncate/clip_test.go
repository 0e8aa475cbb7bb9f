package truncate

import (
	"strings"
	"testing"
)

func TestTo(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"", 3, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"abcd", 0, "…"},
		{"aäöü", 4, "aä…"}, {"aäöü", 5, "aäö…"}, {"äöü", 1, "…"}, {"a€b", 3, "a…"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80…"}, // not text: cut anywhere near
	} {
		if got := To(c.s, c.n); got != c.want {
			t.Errorf("To(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
	if got := Text(strings.Repeat("x", 121)); len(got) != 120+len("…") {
		t.Errorf("Text of 121 bytes has %d bytes, want 120 and the ellipsis", len(got))
	}
}

// TestName: a name that somebody else has chosen moves no cursor.
func TestName(t *testing.T) {
	for s, want := range map[string]string{
		"lib/größe.pdb":                   "lib/größe.pdb",
		"a\x18\x1b[2Jb":                   `"a\x18\x1b[2Jb"`,
		"a\r\nb":                          `"a\r\nb"`,
		"\xff.pdb":                        `"\xff.pdb"`,
		"safe\u202egnp.exe":               `"safe\u202egnp.exe"`,
		strings.Repeat("x", 300):          strings.Repeat("x", 300),
		"\x1b" + strings.Repeat("x", 300): `"\x1b` + strings.Repeat("x", 119) + `…"`,
	} {
		if got := Name(s); got != want {
			t.Errorf("Name(%q) = %q, want %q", s, got, want)
		}
	}
}
