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
			t.Errorf("%s: the arguments of the caller became %q", c.args, args)
		}
	}
}
