package main

import "testing"

// TestVersions: versions of tags, and of commits behind them, which sort before the
// next version.
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		tag     string
		commits int
		commit  string
		want    version
	}{
		{"v1.2.3", 0, "", version{"1.2.3", "1.2.3", "1.2.3"}},
		{"1.2.3", 0, "", version{"1.2.3", "1.2.3", "1.2.3"}},
		{"v1.2.3-rc1", 0, "", version{"1.2.3-rc1", "1.2.3-rc1", "1.2.3"}},
		{"v1.2.3", 7, "abc", version{"1.2.4-pre7", "1.2.4-pre7+gabc", "1.2.4"}},
		{"v1.2.3-rc1", 7, "abc", version{"1.2.3-pre7", "1.2.3-pre7+gabc", "1.2.3"}},
		{"v0.0.0", 900, "abc.dirty", version{"0.0.0-pre900", "0.0.0-pre900+gabc.dirty", "0.0.0"}},
		{"v1.2.3", 0, "abc.dirty", version{"1.2.3", "1.2.3+gabc.dirty", "1.2.3"}},
	} {
		got, err := newVersion(c.tag, c.commits, c.commit)
		if err != nil || got != c.want {
			t.Errorf("%s and %d commits, %q: %+v, %v; want %+v", c.tag, c.commits, c.commit, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "1.2", "v1.2.3.4", "v1.2.3 4", "v1.2.3-rc.1", "latest"} {
		if v, err := newVersion(bad, 0, ""); err == nil {
			t.Errorf("the tag %q: %+v, want an error", bad, v)
		}
	}
}
