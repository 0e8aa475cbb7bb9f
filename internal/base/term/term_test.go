package term

import (
	"strings"
	"testing"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain Größe 名.pdb":   "plain Größe 名.pdb",
		"a\x1b[2Jb\r\n\tc":    "a?[2Jb???c",
		"exe\u202efdp":        "exe?fdp", // right-to-left override
		"a\u2028b\u2029c":     "a?b?c",   // line and paragraph separators
		"\ufeffa\u200bb":      "?a?b",
		"\u2066a\u2069\u0085": "?a??",
		"a\u00adb\u007f":      "a?b?",
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q): %q, want %q", in, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 5 << 30: "5.0 GiB", 1 << 60: "1024.0 PiB"} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d): %s, want %s", n, got, want)
		}
	}
	if a, b := Count(1, "file"), Count(2, "file"); a != "1 file" || b != "2 files" {
		t.Errorf(`Count: %q, %q; want "1 file", "2 files"`, a, b)
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	tab := NewTable(&b, "A", "B")
	if err := tab.Flush(); err != nil || b.Len() > 0 {
		t.Errorf("an empty table prints %q, %v, want nothing", b.String(), err)
	}
	tab.Row("x\u202e", "y")
	if err := tab.Flush(); err != nil || b.String() != "A   B\nx?  y\n" {
		t.Errorf("table: %q, %v; want %q", b.String(), err, "A   B\nx?  y\n")
	}
}
