package display

import (
	"strings"
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

// word quotes a text for a shell. Texts come from clients.
func word(s string) string {
	s = term.Printable(s)
	plain := s != "" && s[0] != '-'
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && strings.IndexByte("-._/+:@%", c) < 0 {
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
