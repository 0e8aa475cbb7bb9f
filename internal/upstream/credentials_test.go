package upstream

import (
	"errors"
	"testing"
)

// TestGiveCredentials: credentials are given to exactly one private host, or to
// none.
func TestGiveCredentials(t *testing.T) {
	t.Parallel()
	preset, err := PresetByName("microsoft")
	if err != nil {
		t.Fatal(err)
	}
	server := func(address string) Spec { return Spec{Type: TypeHTTP, URL: address} }
	bucket := Spec{Type: TypeBucket, URL: "s3://b/x"}
	for _, c := range []struct {
		name  string
		specs []Spec
		given []bool
		want  error
	}{
		{"one server", []Spec{preset, server("https://corp.example/a"), bucket}, []bool{false, true, false}, nil},
		{"two paths of one host", []Spec{server("https://corp.example/a"), server("https://CORP.example/b")}, []bool{true, true}, nil},
		{"two hosts", []Spec{server("https://corp.example/a"), server("https://other.example")}, []bool{false, false}, ErrManyPrivateServers},
		{"presets only", []Spec{preset, bucket}, []bool{false, false}, ErrNoPrivateServer},
	} {
		if err := GiveCredentials(c.specs, Credentials{Token: "secret"}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
		for i, s := range c.specs {
			if got := s.Credentials.Token != ""; got != c.given[i] {
				t.Errorf("%s: %s has credentials: %v, want %v", c.name, s.URL, got, c.given[i])
			}
		}
	}
}
