package doctor

import (
	"fmt"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/setup"
)

// maxNamed is how many tokens one finding names.
const maxNamed = 20

// tokens looks for those whose makers may not use the server any more, or have lost rights.
func (e *examiner) tokens(rows []depot.Token) {
	gate := e.Config.Access()
	less, err := gate.Lessened(setup.TokenRows(rows), time.Now())
	if err != nil {
		e.add("tokens", Warning, "what their makers may do is not known: "+err.Error(), "correct the configuration of auth")
		return
	}
	var gone, fewer []string
	for _, l := range less {
		text := fmt.Sprintf("%s (%s, made by %s)", l.Row.ID, l.Row.Name, l.Maker)
		if l.Gone {
			gone = append(gone, text)
		} else {
			fewer = append(fewer, text)
		}
	}
	named := func(list []string) string {
		text := strings.Join(list[:min(len(list), maxNamed)], ", ")
		if len(list) > maxNamed {
			text += fmt.Sprintf(" and %d more", len(list)-maxNamed)
		}
		return text
	}
	if len(gone) > 0 {
		e.add("tokens", Warning,
			fmt.Sprintf("%s refused, because no grant and no file names the maker any more: %s", areOf(len(gone)), named(gone)),
			"revoke them: symdepot token revoke --made-by NAME; a token that shall stay is made anew on this machine: symdepot token new")
	}
	if len(fewer) > 0 {
		e.add("tokens", OK, fmt.Sprintf("%s limited to what the maker may still do: %s", areOf(len(fewer)), named(fewer)), "")
	}
}

func areOf(n int) string {
	if n == 1 {
		return "1 token is"
	}
	return term.Count(int64(n), "token") + " are"
}
