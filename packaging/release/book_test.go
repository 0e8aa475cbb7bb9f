package main

import "testing"

// TestPublished: links between pages that are published stay, others lead to the repository.
func TestPublished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ folder, text, want string }{
		{".", "[a](docs/install.md#several-machines), [b](CONTRIBUTING.md#rules)",
			"[a](docs/install.md#several-machines), [b](" + repository + "/blob/main/CONTRIBUTING.md#rules)"},
		{"docs", "[c](../ci) [d](../cmd/symdepot/main.go) [e](start/linux.md)",
			"[c](../ci) [d](" + repository + "/blob/main/cmd/symdepot/main.go) [e](start/linux.md)"},
		{"docs", "[f](#below) [g](https://go.dev) f(x)", "[f](#below) [g](https://go.dev) f(x)"},
	} {
		if got := published(c.text, c.folder); got != c.want {
			t.Errorf("in %s: %q, want %q", c.folder, got, c.want)
		}
	}
}
