package version

import (
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestOf: the version names the commit, whichever command of Go has built the program, where Go
// has recorded one.
func TestOf(t *testing.T) {
	t.Parallel()
	const hash = "5e106085012345678901234567890123456789ab"
	vcs := func(modified string) []debug.BuildSetting {
		return []debug.BuildSetting{{Key: "vcs.revision", Value: hash}, {Key: "vcs.modified", Value: modified}}
	}
	for _, tt := range []struct {
		name, version string
		settings      []debug.BuildSetting
		want          string
	}{
		{"go build", "v0.0.0-20261128170000-5e1060850123", vcs("false"), Number + "-dev+g5e1060850123"},
		{"go build with changes", "v0.0.0-20261128170000-5e1060850123+dirty", vcs("true"), Number + "-dev+g5e1060850123.dirty"},
		{"go build at a tag", "v1.2.3", vcs("false"), "1.2.3"},
		{"go build at a tag with changes", "v1.2.3+dirty", vcs("true"), Number + "-dev+g5e1060850123.dirty"},
		{"go install at a commit", "v1.2.4-0.20261128170000-5e1060850123", nil, Number + "-dev+g5e1060850123"},
		{"go install at a tag", "v1.2.3", nil, "1.2.3"},
		{"go install at the tag of a candidate", "v1.2.3-rc1", nil, "1.2.3-rc1"},
		{"go run, and go build without .git", "(devel)", nil, Number + "-dev"},
		{"go run -buildvcs=true with an old Go", "(devel)", vcs("false"), Number + "-dev+g5e1060850123"},
		{"go test", "", nil, Number + "-dev"},
	} {
		bi := &debug.BuildInfo{Main: debug.Module{Version: tt.version}, Settings: tt.settings}
		if got := of(bi); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := Of("1.2.3"); got != "1.2.3" {
		t.Errorf("the linker's version: %q, want 1.2.3", got)
	}
}

// TestText: who reads the version learns that the commit is not known.
func TestText(t *testing.T) {
	t.Parallel()
	platform := " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	for linked, want := range map[string]string{
		"":      "symdepot " + Number + "-dev (commit not recorded)" + platform,
		"1.2.3": "symdepot 1.2.3" + platform,
	} {
		if got := Text(linked); got != want {
			t.Errorf("the text of the version %q is %q, want %q", linked, got, want)
		}
	}
}

// TestChangelog: the changes of this version stand first.
func TestChangelog(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n## ")
	if first, _, _ := strings.Cut(rest, "\n"); !regexp.MustCompile(`^` + regexp.QuoteMeta(Number) + `( |$)`).MatchString(first) {
		t.Errorf("the first heading of CHANGELOG.md is %q, want one that begins with %s, the version of this tree", first, Number)
	}
}
