package term

import (
	"slices"
	"strings"
	"testing"
)

func TestRenamedFlags(t *testing.T) {
	names := map[string]string{"--source": "--upstream"}
	for _, c := range []struct{ args, want, warning string }{
		{"cache list --upstream ms", "cache list --upstream ms", ""},
		{"cache list --source ms", "cache list --upstream ms", "symdepot: --source is now --upstream\n"},
		{"cache list --source=a=b", "cache list --upstream=a=b", "symdepot: --source is now --upstream\n"},
		{"get -- --source", "get -- --source", ""},
		{"cache list --sources x", "cache list --sources x", ""},
	} {
		var warn strings.Builder
		args := strings.Fields(c.args)
		got := RenamedFlags(args, names, &warn)
		if !slices.Equal(got, strings.Fields(c.want)) || warn.String() != c.warning {
			t.Errorf("%s: %q with warning %q, want %s with %q", c.args, got, warn.String(), c.want, c.warning)
		}
		if strings.Join(args, " ") != c.args {
			t.Errorf("%s: the arguments of the caller became %q, want them as they were", c.args, args)
		}
	}
}

func TestFlagText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`--depot: expected string value but got "EOL" (<EOL>)`, "--depot: a value is expected"},
		{`--grace: expected value value but got "-1h" (short flag); perhaps try --grace="-1h"?`, "--grace: a value is expected, not -1h; a value that begins with - is written as --grace=-1h"},
		{`--as must be one of "","sha1","jsmap" but got "foo"`, `--as must be one of sha1, jsmap, but got "foo"`},
		{"unknown flag --x", "unknown flag --x"},
		{`expected "<plan>"`, "the argument <plan> is missing"},
		{`expected "<query> ..."`, "the argument <query> is missing"},
		{`expected "<tx> <reason>"`, "the arguments <tx> <reason> are missing"},
	} {
		if got := FlagText(c.text); got != c.want {
			t.Errorf("FlagText(%s) = %s, want %s", c.text, got, c.want)
		}
	}
}
