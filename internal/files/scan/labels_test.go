package scan

import (
	"slices"
	"strings"
	"testing"
)

func TestLabel(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"out/a.pdb": "out/a.pdb", "/a//b/./c": "a/b/c", `x.zip!/..\..\etc\a.pdb`: "x.zip!/etc/a.pdb", "a\x00b/\xff": "a_b/_", "../../a": "a",
		strings.Repeat("d/", 600) + "a.pdb": strings.Repeat("d/", 509) + "a.pdb",
	} {
		if got := Label(path); got != want {
			t.Errorf("the label of %q is %q, want %q", path, got, want)
		}
	}
}

// TestLabels: labels do not depend on where the build is, and two roots with one
// name differ.
func TestLabels(t *testing.T) {
	t.Parallel()
	l := NewLabels([]string{"out", "/ci/17/bin", "/ci/18/bin", "../x/lib", "."})
	var labels []string
	for _, r := range l.roots {
		labels = append(labels, r.label)
	}
	if want := []string{"out", "bin", "~2/bin", "lib", "."}; !slices.Equal(labels, want) {
		t.Errorf("the roots are %q, want %q", labels, want)
	}
	for path, want := range map[string]string{
		"out/a.pdb": "out/a.pdb", "/ci/17/bin/a.pdb": "bin/a.pdb", "/ci/18/bin/x/a.pdb": "~2/bin/x/a.pdb", "/elsewhere/a.pdb": "a.pdb",
	} {
		if got := l.Of(path, "a.pdb"); got != want {
			t.Errorf("the label of %s is %q, want %q", path, got, want)
		}
	}
}
