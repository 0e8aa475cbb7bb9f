package address

import (
	"fmt"
	"testing"
)

func TestKinds(t *testing.T) {
	for where, want := range map[string][2]bool{
		"/var/lib/symdepot": {false, false}, `C:\depot`: {false, false}, "": {false, false},
		"postgres://db/symdepot": {true, true}, "postgresql://db/symdepot": {true, true},
		"s3://bucket/prefix": {false, true}, "az://account/container": {false, true},
	} {
		if got := [2]bool{IsDatabase(where), IsBucket(where)}; got != want {
			t.Errorf("%q is a database, has a scheme: %v; want %v", where, got, want)
		}
	}
}

func TestShown(t *testing.T) {
	for where, want := range map[string]string{
		"postgres://u:secret@db:5433/symdepot?password=x": "postgres://db:5433/symdepot",
		"/var/lib/symdepot": "/var/lib/symdepot", "s3://bucket/prefix": "s3://bucket/prefix",
	} {
		if got := Shown(where); got != want {
			t.Errorf("%q is shown as %q, want %q", where, got, want)
		}
	}
}

func TestParseNetworks(t *testing.T) {
	got, _, err := ParseNetworks([]string{"10.0.0.5", "10.1.2.3/16", "::1", "2001:db8::/32", "::ffff:10.0.0.1"})
	if err != nil || fmt.Sprint(got) != "[10.0.0.5/32 10.1.0.0/16 ::1/128 2001:db8::/32 10.0.0.1/32]" {
		t.Errorf("networks %v, %v; want five", got, err)
	}
	for _, bad := range []string{"", "localhost", "10.0.0.0/33", "1.2.3"} {
		if _, i, err := ParseNetworks([]string{"10.0.0.5", bad}); err == nil || i != 1 {
			t.Errorf("%q is accepted or not named (%d), want an error", bad, i)
		}
	}
}
