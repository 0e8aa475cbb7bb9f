package command

import (
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/files/sources"
)

// sourceFlags name the folders with sources.
type sourceFlags struct {
	Sources []string `help:"text:source_sources" placeholder:"DIR[=PREFIX]" sep:"none"`
}

// classFlags say by which rules of the retention policy a build is kept.
type classFlags struct {
	Branch string `help:"Branch that the build was made from." placeholder:"NAME" more:""`
	Class  string `help:"Class of the build, by which retention rules choose, such as nightly." placeholder:"NAME"`
}

// readFlags say what happens to files that cannot be taken.
type readFlags struct {
	SkipUnreadable bool `help:"Go on with the rest if a file or folder cannot be read." more:""`
	Strict         bool `help:"text:read_strict"`
}

// roots reads the folders.
func (f sourceFlags) roots() ([]sources.Root, error) {
	list, err := sources.ParseRoots(f.Sources)
	if err != nil {
		return nil, term.UsageError("--sources: " + err.Error())
	}
	return list, nil
}
