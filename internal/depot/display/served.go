package display

import (
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/inplace"
)

// ServedFolder is a folder that is served where it lies, in JSON.
type ServedFolder struct {
	Name         string `json:"name"`
	Layout       string `json:"layout"`
	Lists        bool   `json:"lists"`   // a search finds its files by their names
	Answers      bool   `json:"answers"` // its disk answers; else nothing else is known
	Transactions int    `json:"builds,omitempty"`
	Names        int    `json:"names,omitempty"`
}

// NewServedFolder describes a folder.
func NewServedFolder(f inplace.ServedFolder) ServedFolder {
	l := ServedFolder{Name: f.Name, Lists: f.Lists, Answers: f.Answers, Transactions: f.Transactions, Names: f.Names}
	if f.Answers {
		l.Layout = f.Layout.Name()
	}
	return l
}

// Text describes the folder in a few words.
func (f ServedFolder) Text() string {
	words := []string{f.Layout}
	switch {
	case !f.Answers:
		words = []string{"its disk does not answer"}
	case f.Transactions > 0:
		words = append(words, term.Count(int64(f.Transactions), "build"))
	case f.Names > 0:
		words = append(words, term.Count(int64(f.Names), "name"))
	}
	if f.Answers && !f.Lists {
		words = append(words, "served, but not listed")
	}
	return fmt.Sprintf("%s (%s)", term.Printable(f.Name), strings.Join(words, ", "))
}

// ServedText names the folders in one line; "" if there are none.
func ServedText(list []ServedFolder) string {
	if len(list) == 0 {
		return ""
	}
	texts := make([]string, len(list))
	for i, f := range list {
		texts[i] = f.Text()
	}
	return "served where they lie: " + strings.Join(texts, "; ")
}

// UnsearchedText says which of the folders a search by name cannot look into; "" if it looks
// into all.
func UnsearchedText(list []ServedFolder) string {
	var names []string
	for _, f := range list {
		if !f.Lists {
			names = append(names, term.Printable(f.Name))
		}
	}
	if names == nil {
		return ""
	}
	return "the files of " + strings.Join(names, ", ") + " are served, but not listed"
}
