package login

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCanonical(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"https://symbols.example.com":            "https://symbols.example.com",
		"HTTPS://Symbols.Example.COM:443/":       "https://symbols.example.com",
		"https://symbols.example.com.:8443/a/b/": "https://symbols.example.com:8443/a/b",
		"https://symbols.example.com:80":         "https://symbols.example.com:80",
		"http://localhost:80":                    "http://localhost",
		"http://127.0.0.1:8080/":                 "http://127.0.0.1:8080",
		"http://[::1]:8080":                      "http://[::1]:8080",
		"https://[2001:DB8::1]/":                 "https://[2001:db8::1]",
		"https://a/%7Ex":                         "https://a/%7Ex",
	} {
		if got, err := Canonical(server); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", server, got, err, want)
		}
		if again, err := Canonical(want); again != want || err != nil {
			t.Errorf("%s: %q, %v; want itself", want, again, err)
		}
	}
	for server, want := range map[string]string{
		"": "is not the URL of a server", "symbols.example.com": "is not the URL", "ftp://a": "is not the URL", "https://": "is not the URL",
		"https://:8080": "is not the URL", "https:a": "is not the URL", "https://a b": "is not the URL",
		"https://user:planted@a":     "has a user or password",
		"https://a?x":                "what follows ?",
		"https://a/#x":               "what follows ?",
		"https://a/b/../c":           "is not that of a server",
		"http://symbols.example.com": "use https",
		"http://127.0.0.1.evil.com":  "use https",
		"http://10.0.0.1":            "use https",
	} {
		got, err := Canonical(server)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %q, %v; want %q", server, got, err, want)
		}
	}
}

func TestCovers(t *testing.T) {
	t.Parallel()
	const server = "https://symbols.example.com/corp"
	for address, want := range map[string]bool{
		"https://symbols.example.com/corp":                      true,
		"https://symbols.example.com/corp/":                     true,
		"https://SYMBOLS.example.com:443/corp/a.pdb/1/a":        true,
		"https://symbols.example.com/corporation":               false,
		"https://symbols.example.com/":                          false,
		"https://symbols.example.com/corp/../x":                 false,
		"https://symbols.example.com/corp/%2e%2e/x":             false,
		"https://symbols.example.com:8443/corp/x":               false,
		"http://symbols.example.com/corp/x":                     false,
		"https://symbols.example.com.evil.example/corp/x":       false,
		"https://symbols.example.com@evil.example/corp/x":       false,
		"https://evil.example/https://symbols.example.com/corp": false,
		"https://xsymbols.example.com/corp":                     false,
		"symbols.example.com/corp":                              false,
		"":                                                      false,
	} {
		if got := Covers(server, address); got != want {
			t.Errorf("%s: %v, want %v", address, got, want)
		}
	}
}

// TestBrowserCommand: the program that the environment names gets the address as an argument.
func TestBrowserCommand(t *testing.T) {
	t.Parallel()
	spaced := filepath.Join(t.TempDir(), "my browser")
	if err := os.WriteFile(spaced, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	list := string(filepath.ListSeparator)
	for name, tt := range map[string]struct {
		ours, common string
		want         []string
	}{
		"none":     {"", "", nil},
		"ours":     {"firefox", "chromium", []string{"firefox", "URL"}},
		"common":   {"", "chromium" + list + "w3m", []string{"chromium", "URL"}},
		"with %s":  {"firefox --new-window %s --x", "", []string{"firefox", "--new-window", "URL", "--x"}},
		"a space":  {spaced, "", []string{spaced, "URL"}},
		"no shell": {"echo ;rm", "", []string{"echo", ";rm", "URL"}},
	} {
		env := map[string]string{BrowserVariable: tt.ours, commonVariable: tt.common}
		if got := browserCommand("URL", func(k string) string { return env[k] }); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	for _, address := range []string{"javascript:alert(1)", "file:///etc/passwd", "-x", "https:x", "C:\\x.exe"} {
		if err := OpenBrowser(t.Context(), address, 0, func(string) string { return "false" }); err == nil {
			t.Errorf("%s: no error", address)
		}
	}
}
