package account_test

import (
	"testing"

	"github.com/symdepot/symdepot/internal/base/account"
)

func TestQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "''", "/var/lib/symdepot": "/var/lib/symdepot", "a b": "'a b'", "it's": `'it'\''s'`, "#1000": "'#1000'", "$HOME": "'$HOME'",
	} {
		if got := account.Quote(in); got != want {
			t.Errorf("Quote(%q) = %s, want %s", in, got, want)
		}
	}
}
