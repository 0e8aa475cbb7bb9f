package version

import (
	"runtime/debug"
	"testing"
)

// TestCommitText: the commit is named whichever command of Go has built the program.
func TestCommitText(t *testing.T) {
	t.Parallel()
	setting := func(key, value string) debug.BuildSetting { return debug.BuildSetting{Key: key, Value: value} }
	for _, tt := range []struct {
		name, version string
		settings      []debug.BuildSetting
		want          string
	}{
		{"go build", "v0.0.0-20261128170000-5e1060850123", []debug.BuildSetting{
			setting("vcs.revision", "5e106085012345678901234567890123456789ab"), setting("vcs.modified", "false"),
		}, "commit 5e1060850123"},
		{"go build with changes", "v0.0.0-20261128170000-5e1060850123+dirty", []debug.BuildSetting{
			setting("vcs.revision", "5e106085012345678901234567890123456789ab"), setting("vcs.modified", "true"),
		}, "commit 5e1060850123, with changes"},
		{"go install at a commit", "v1.2.4-0.20261128170000-5e1060850123", nil, "commit 5e1060850123"},
		{"go install at a tag", "v1.2.3", nil, "the commit of that tag"},
		{"go run", "(devel)", nil, "commit not recorded: go run -buildvcs=true or go build records it"},
		{"go test", "", nil, "commit not recorded: go run -buildvcs=true or go build records it"},
	} {
		bi := &debug.BuildInfo{Main: debug.Module{Version: tt.version}, Settings: tt.settings}
		if got := commitText(bi); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
