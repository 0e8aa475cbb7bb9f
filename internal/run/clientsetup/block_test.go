package clientsetup

import (
	"errors"
	"strings"
	"testing"
)

const here = "https://symbols.example"

// TestBlock: a block goes into a file on lines of its own, replaces an older one, and out of it
// again, whatever stands beside it.
func TestBlock(t *testing.T) {
	b := block{comment: "#", lines: []string{"one", "two"}}
	own := "# >>> symdepot " + here + "\none\ntwo\n# <<< symdepot " + here + "\n"
	other := strings.ReplaceAll(own, here, here+"/other")
	for name, c := range map[string]struct{ before, want, without string }{
		"no file":                {"", own, ""},
		"a line":                 {"a\n", "a\n" + own, "a\n"},
		"no line end":            {"a", "a\n" + own, "a\n"},
		"lines of Windows":       {"a\r\n", "a\r\n" + strings.ReplaceAll(own, "\n", "\r\n"), "a\r\n"},
		"an older one":           {"a\n" + strings.Replace(own, "two\n", "", 1) + "b\n", "a\n" + own + "b\n", "a\nb\n"},
		"another server":         {other, other + own, other},
		"a mark within a line":   {"echo '# >>> symdepot " + here + "'\n", "echo '# >>> symdepot " + here + "'\n" + own, "echo '# >>> symdepot " + here + "'\n"},
		"the end of another one": {"# <<< symdepot " + here + "\n", "# <<< symdepot " + here + "\n" + own, "# <<< symdepot " + here + "\n"},
	} {
		got, err := b.in([]byte(c.before), here)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
		if again, err := b.in(got, here); err != nil || string(again) != c.want {
			t.Errorf("%s, twice: %q, %v; want no other change", name, again, err)
		}
		if out, found, err := withoutBlocks(got, here); err != nil || !found || string(out) != c.without {
			t.Errorf("%s, taken out: %q, %v, %v; want %q", name, out, found, err, c.without)
		}
	}
	b.front = true
	if got, err := b.in([]byte("a\n"), here); err != nil || string(got) != own+"a\n" {
		t.Errorf("in front: %q, %v", got, err)
	}
	if _, err := b.in([]byte("# >>> symdepot "+here+"\na\n"), here); !errors.Is(err, errMark) {
		t.Errorf("a block without end: %v, want %v", err, errMark)
	}
}

// TestDiff: what is printed has the changed lines and where they are, and no token.
func TestDiff(t *testing.T) {
	token := "sd_" + strings.Repeat("x", 43)
	for _, c := range []struct {
		e    Edit
		want string
	}{
		{Edit{After: []byte("a\nAuthorization: Bearer " + token + "\n")}, "+a\n+Authorization: Bearer ...\n"},
		{Edit{Existed: true, Before: []byte("a\nb\nc\nd\n"), After: []byte("a\nx\nb\nc\ny\nd\n")}, "@@ line 2 @@\n+x\n@@ line 4 @@\n+y\n"},
		{Edit{Existed: true, Before: []byte("a\nb\n"), After: []byte("a\nc\n")}, "@@ line 2 @@\n-b\n+c\n"},
		{Edit{Existed: true, Before: []byte("machine a password old1\n"), After: []byte("machine a password new2 \x1b[2J\n")},
			"@@ line 1 @@\n-machine a password ...\n+machine a password ... ?[2J\n"},
	} {
		if got := c.e.Diff(); got != c.want {
			t.Errorf("%q to %q: %q, want %q", c.e.Before, c.e.After, got, c.want)
		}
	}
}
