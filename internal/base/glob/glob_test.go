package glob

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"", "a", false}, {"a", "a", true}, {"a", "b", false}, {"a", "ab", false}, {"ab", "a", false}, {"a", "A", false},
		{"*", "", true}, {"*", "a/b@c", true}, {"**", "x", true}, {"a*", "ab", true}, {"*b", "ab", true}, {"*b", "abc", false},
		{"a*b", "ab", true}, {"a*b", "a", false}, {"ab*b", "ab", false}, {"a*b*c", "aXXbYYc", true}, {"a*b*c", "acb", false},
		{"*.pdb", "x.pdb.pdb", true}, {"a*b*c", "a@b/c", true}, {"*@*", "a@b", true}, {"**a**", "bab", true}, {"*aab", "aaaab", true}, {"*a*b*", "xxbxxaxx", false},
		{"?", "", false}, {"?", "a", true}, {"?", "ab", false}, {"h?llo.p*b", "hello.pdb", true}, {"?", "é", true}, {"??", "é", false},
		{"é*", "été", true}, {"*é", "é", true}, {"?", "\xff", true}, {"\xff", "\xfe", false}, {"é", "\xc3", false},
		{"[a]", "a", false}, {"[a]", "[a]", true}, {"a*", "*", false}, {"*", "*", true}, {"?", "?", true}, {"\\*", "\\x", true},
		{strings.Repeat("a*", 2000) + "b", strings.Repeat("a", 3000), false},
	} {
		if got := Match(c.pattern, c.s); got != c.want {
			t.Errorf("Match(%.30q, %.30q) is %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

func TestMatchAccount(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true}, {"a", "a", true}, {"a", "b", false}, {"*", "", true}, {"*", "abc", true}, {"*", "a@b", false}, {"a?c", "abc", false}, {"a?c", "a?c", true},
		{"*@b", "a@b", true}, {"*@b", "@b", true}, {"*@b", "a@a@b", false}, {"*@b", "a@bc", false}, {"*@b", "é@b", true},
		{"a*@*", "abc@DEF", true}, {"a*c@*", "abcbc@DEF", true}, {"a*c@*", "abcb@cDEF", false}, {"*a*b*", "xxaxxbxx", true}, {"*a*b*", "xxbxxaxx", false},
		{"**", "abc", true}, {"a**b", "ab", true}, {"*aab", "aaaab", true}, {"a*@x", "ab@y", false}, {"a@*b", "a@cbcb", true}, {"a@*b", "a@cb@b", false},
	} {
		if got := MatchAccount(c.pattern, c.s); got != c.want {
			t.Errorf("MatchAccount(%q, %q) is %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

func TestMatchSegments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"*", "abc", true}, {"*", "a/b", false}, {"o/*", "o/r", true}, {"o/*", "o/r/s", false}, {"o/*", "o2/r", false}, {"repo:o/*:ref:refs/heads/main", "repo:o/r:ref:refs/heads/main", true},
		{"repo:o/*:ref:refs/heads/*", "repo:o/r:ref:refs/heads/a/b", false}, {"repo:o/*:ref:refs/heads/main", "repo:o/r:ref:refs/heads/main2", false}, {"a?c", "abc", false}, {"a@*", "a@b", true},
		{"refs/*/v*", "refs/tags/v1", true}, {"refs/*/v*", "refs/tags/x/v1", false},
	} {
		if got := MatchSegments(c.pattern, c.s); got != c.want {
			t.Errorf("MatchSegments(%q, %q) is %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
}

// FuzzMatch compares with regular expressions.
func FuzzMatch(f *testing.F) {
	f.Add("a*b?c", "aXbYc")
	f.Add("*@*", "a@b")
	f.Add("é*", "été")
	f.Add("*electron*", "electron.exe.pdb")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 64 || !utf8.ValidString(pattern) || !utf8.ValidString(s) {
			Match(pattern, s)
			MatchAccount(pattern, s)
			return
		}
		quoted := regexp.QuoteMeta(pattern)
		any := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
		if want := regexp.MustCompile(`(?s)\A` + any + `\z`).MatchString(s); Match(pattern, s) != want {
			t.Errorf("Match(%q, %q) is %v, want %v", pattern, s, !want, want)
		}
		account := strings.ReplaceAll(quoted, `\*`, `[^@]*`)
		if want := regexp.MustCompile(`(?s)\A` + account + `\z`).MatchString(s); MatchAccount(pattern, s) != want {
			t.Errorf("MatchAccount(%q, %q) is %v, want %v", pattern, s, !want, want)
		}
		segments := strings.ReplaceAll(quoted, `\*`, `[^/]*`)
		if want := regexp.MustCompile(`(?s)\A` + segments + `\z`).MatchString(s); MatchSegments(pattern, s) != want {
			t.Errorf("MatchSegments(%q, %q) is %v, want %v", pattern, s, !want, want)
		}
	})
}
