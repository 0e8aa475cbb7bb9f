// Package version says which version of the program runs, and from which commit it was built.
package version

import (
	"cmp"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// Release returns the version of a release, or "devel". linked is what the linker has set.
func Release(linked string) string { return cmp.Or(linked, "devel") }

// Of returns the version of a release, or else the one that Go gave the build.
func Of(linked string) string {
	version := Release(linked)
	if bi, ok := debug.ReadBuildInfo(); ok && version == "devel" && bi.Main.Version != "" {
		return bi.Main.Version
	}
	return version
}

// Text returns the program with its version, its commit and its platform.
func Text(linked string) string {
	commit := ""
	if bi, ok := debug.ReadBuildInfo(); ok && Release(linked) == "devel" {
		commit = " (" + commitText(bi) + ")"
	}
	return fmt.Sprintf("symdepot %s%s %s %s/%s", Of(linked), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// pseudoVersion is the version of a module at a commit without a tag: the time and the commit
// stand at its end.
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+|$)`)

// commitText says which commit a program was built from. go build notes it, go install leaves it
// in the version of the module, go run notes it only if asked.
func commitText(bi *debug.BuildInfo) string {
	commit, modified := "", false
	for _, s := range bi.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value == "true"
		}
	}
	if m := pseudoVersion.FindStringSubmatch(bi.Main.Version); m != nil && commit == "" {
		commit = m[1]
	}
	switch {
	case commit == "" && bi.Main.Version != "" && bi.Main.Version != "(devel)":
		return "the commit of that tag"
	case commit == "":
		return "commit not recorded: go run -buildvcs=true or go build records it"
	case modified:
		return "commit " + commit[:min(12, len(commit))] + ", with changes"
	}
	return "commit " + commit[:min(12, len(commit))]
}
