package srclink

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Print prints the links of a PDB, and reports whether any of them leads somewhere.
func Print(w io.Writer, x *Index, asJSON bool) (bool, error) {
	links, err := x.Links()
	if err != nil {
		return false, err
	}
	leads := slices.ContainsFunc(links, func(l Link) bool { return l.Via != "" && l.Class != Broken })
	if asJSON {
		out := term.NewJSONLines(w)
		for _, l := range links {
			if err := out.Write(struct {
				PDB string `json:"pdb"`
				Link
			}{x.Path, l}); err != nil {
				return leads, err
			}
		}
		return leads, nil
	}
	if x.Script == nil && x.Map.Rules() == 0 {
		return false, nil
	}
	var parts []string
	if x.Script != nil {
		sum, err := x.Script.Summary()
		if err != nil {
			return leads, err
		}
		parts = append(parts,
			fmt.Sprintf("source server stream of version %d with %s, class %s", x.Script.Version, term.Count(int64(sum.Files), "line"), sum.Class))
	}
	if n := x.Map.Rules(); n > 0 {
		parts = append(parts, "Source Link with "+term.Count(int64(n), "rule"))
	}
	fmt.Fprintf(w, "%s: %s\n", term.Printable(x.Path), strings.Join(parts, "; "))
	t := term.NewTable(w, "FILE", "VIA", "CLASS", "LEADS TO")
	for _, l := range links {
		t.Row(l.Name, l.Via, string(l.Class), leadsTo(l))
	}
	return leads, t.Flush()
}

// leadsTo says in one line what a debugger does.
func leadsTo(l Link) string {
	switch {
	case l.Class == Command && l.Command != "":
		return "runs: " + l.Command
	case l.Target == "":
		return l.Reason
	}
	return l.Target
}

// PrintMade prints what became of the names.
func PrintMade(w io.Writer, x *Index, made []Made, asJSON bool) error {
	if asJSON {
		out := term.NewJSONLines(w)
		for _, m := range made {
			if err := out.Write(struct {
				PDB string `json:"pdb"`
				Made
			}{x.Path, m}); err != nil {
				return err
			}
		}
		return nil
	}
	urls, reasons := Counts(made)
	verb := "have"
	if len(made) == 1 {
		verb = "has"
	}
	line := fmt.Sprintf("%s: %d of %s %s a URL", x.Path, urls, term.Count(int64(len(made)), "source file"), verb)
	if len(reasons) > 0 {
		line += fmt.Sprintf("; without one %s", strings.Join(reasons[:min(8, len(reasons))], ", "))
	}
	_, err := fmt.Fprintln(w, term.Printable(line))
	return err
}
