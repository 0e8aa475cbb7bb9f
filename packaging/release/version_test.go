package main

import (
	"strings"
	"testing"
)

// TestVersions: versions of tags, and of commits behind them, which sort before the
// version that the tree has.
func TestVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number, tag string
		commits     int
		commit      string
		want        version
	}{
		{"1.2.3", "v1.2.3", 0, "", version{"1.2.3", "1.2.3", "1.2.3"}},
		{"1.2.3", "v1.2.3-rc1", 0, "", version{"1.2.3-rc1", "1.2.3-rc1", "1.2.3"}},
		{"1.2.3", "v1.2.3", 0, "abc.dirty", version{"1.2.3", "1.2.3+gabc.dirty", "1.2.3"}},
		{"1.3.0", "v1.2.3", 7, "abc", version{"1.3.0-pre7", "1.3.0-pre7+gabc", "1.3.0"}},
		{"1.2.3", "v1.2.3-rc1", 7, "abc", version{"1.2.3-pre7", "1.2.3-pre7+gabc", "1.2.3"}},
		{"0.1.0", "", 900, "abc.dirty", version{"0.1.0-pre900", "0.1.0-pre900+gabc.dirty", "0.1.0"}},
	} {
		got, err := newVersion(c.number, c.tag, c.commits, c.commit)
		if err != nil || got != c.want {
			t.Errorf("%s, %q and %d commits, %q: %+v, %v; want %+v", c.number, c.tag, c.commits, c.commit, got, err, c.want)
		}
	}
	for _, c := range []struct {
		tag     string
		commits int
		want    string // in the error
	}{
		{"v1.2.2", 0, "set Number"},
		{"v1.3.0-rc1", 0, "set Number"},
		{"v1.2.3", 1, "raise Number"},
		{"v1.2", 0, "want 1.2.3"},
	} {
		if v, err := newVersion("1.2.3", c.tag, c.commits, "abc"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("1.2.3 at %s and %d commits: %+v, %v; want an error with %q", c.tag, c.commits, v, err, c.want)
		}
	}
	if v, err := tagVersion("1.2.3", ""); err != nil || v.full != "1.2.3" {
		t.Errorf("the version without a v: %+v, %v; want 1.2.3", v, err)
	}
	for _, bad := range []string{"", "1.2", "v1.2.3.4", "v1.2.3 4", "v1.2.3-rc.1", "latest"} {
		if v, err := tagVersion(bad, ""); err == nil {
			t.Errorf("the tag %q: %+v, want an error", bad, v)
		}
	}
}
