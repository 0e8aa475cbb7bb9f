// Package version says which version of the program runs, and from which commit it was built.
package version

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// Number is the version that this tree becomes when it is released: three numbers. The first
// heading of CHANGELOG.md, the tag of the release and all packages have it.
const Number = "0.1.0"

var (
	// pseudo is the version that Go gives a module at a commit without a tag: the time and the
	// commit stand at its end.
	pseudo = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+|$)`)
	// tag is the version that Go gives a module at the tag of a release.
	tag = regexp.MustCompile(`^v(\d+\.\d+\.\d+(?:-[0-9A-Za-z.]+)?)$`)
)

// Of returns the version: that of a release if the linker has set one, or if Go built the program
// at the tag of one; else Number-dev, with the commit if Go has recorded one: 0.1.0-dev+g5e1060850123.
func Of(linked string) string {
	if linked != "" {
		return linked
	}
	if bi, ok := debug.ReadBuildInfo(); ok {
		return of(bi)
	}
	return Number + "-dev"
}

// Text returns the program with its version and its platform. It says so if the commit is not known.
func Text(linked string) string {
	version, note := Of(linked), ""
	if version == Number+"-dev" {
		note = " (commit not recorded)"
	}
	return fmt.Sprintf("symdepot %s%s %s %s/%s", version, note, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// of is Of for what Go has noted. go build notes the commit among the settings, go install in the
// version of the module, and go run does not note it.
func of(bi *debug.BuildInfo) string {
	commit, modified := "", ""
	for _, s := range bi.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ".dirty"
		}
	}
	if m := pseudo.FindStringSubmatch(bi.Main.Version); m != nil {
		commit = m[1]
	} else if m := tag.FindStringSubmatch(bi.Main.Version); m != nil {
		return m[1]
	}
	if commit == "" {
		return Number + "-dev"
	}
	return Number + "-dev+g" + commit[:min(12, len(commit))] + modified
}
