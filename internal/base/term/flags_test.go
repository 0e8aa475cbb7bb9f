package term

import (
	"testing"
)

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
