package glob

import "testing"

func TestHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, host string
		want          bool
	}{
		{"example.com", "example.com", true},
		{"Example.com.", "EXAMPLE.com", true},
		{"example.com", "example.com.", true},
		{"example.com", "www.example.com", false},
		{"example.com", "example.com:8443", false},
		{"example.com:8443", "example.com:8443", true},
		{"*.example.com", "www.Example.com", true},
		{"*.example.com", "a.b.example.com.", true},
		{"*.example.com", "example.com", false},
		{"*.example.com", ".example.com", false},
		{"*.example.com", "badexample.com", false},
		{"*.", "example.com", false},
		{"*", "example.com", false},
		{"", "example.com", false},
		{"::1", "::1", true},
	} {
		if got := Host(tt.pattern, tt.host); got != tt.want {
			t.Errorf("Host(%q, %q) = %v, want %v", tt.pattern, tt.host, got, tt.want)
		}
	}
	for text, want := range map[string]bool{"example.com": true, "*.example.com": true, "example.com:80": true, "": false, "*.": false, "*": false, "a.*.com": false, "https://example.com": false, "me@example.com": false, "a b": false} {
		if got := IsHost(text); got != want {
			t.Errorf("IsHost(%q) = %v, want %v", text, got, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LOCALHOST": true, "localhost.": true, "127.0.0.1": true, "127.9.9.9": true, "::1": true,
		"": false, "0.0.0.0": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "10.0.0.1": false, "::": false,
	} {
		if got := IsLoopback(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}
