package display

import (
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/symfile"
)

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

// watchedName names a watched folder for people: nobody needs to know where it is.
func watchedName(f *answer.TracedFolder) string {
	if f.Other {
		return "watched folders of another server"
	}
	return "watched folder " + term.Printable(symfile.BaseName(f.Dir))
}

func word(s string) string { return term.ShellWord(s) }
