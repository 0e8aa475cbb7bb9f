package clip

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
