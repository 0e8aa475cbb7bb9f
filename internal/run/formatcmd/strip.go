package formatcmd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/public"
)

// Strip is the command symdepot strip.
type Strip struct {
	Out         string   `help:"File for the public form; an existing file is replaced." short:"o" placeholder:"FILE"`
	Check       bool     `help:"text:strip_check"`
	PublicNames []string `help:"text:strip_public_names" enum:"all,exported,undecorated" default:"all" placeholder:"WORDS"`
	Hide        []string `help:"text:strip_hide" placeholder:"PATTERN" sep:"none"`
	JSON        bool     `help:"Print JSON: one object for the public form, one per private text."`
	File        string   `arg:"" name:"file" help:"The private file: program, debug file, PDB, .sym or GSYM file."`
	Public      string   `arg:"" optional:"" name:"public" help:"With --check: a public form that exists already."`
}

// Run writes a public form, or checks one.
func (c Strip) Run(a *console.Console) error {
	o := public.Options{
		Exported: slices.Contains(c.PublicNames, "exported"), Undecorated: slices.Contains(c.PublicNames, "undecorated"), Hide: c.Hide,
	}
	switch {
	case c.Public != "" && (!c.Check || c.Out != ""):
		return term.UsageError("a second file is only checked: symdepot strip --check PRIVATE PUBLIC")
	case c.Out == "-":
		return term.UsageError("a public form is a file, because it is read again before it gets its name: symdepot strip FILE -o OUT")
	case c.Public == "" && c.Out == "" && !c.Check:
		return term.UsageError("name the file for the public form: symdepot strip FILE -o OUT")
	case c.Public != "":
		texts, err := public.CheckFiles(c.File, c.Public, o)
		if err != nil {
			return err
		}
		return c.printTexts(a, texts)
	}
	report, texts, err := public.WriteFile(c.Out, c.File, o, c.Check)
	if errors.Is(err, public.ErrSame) {
		return term.UsageError(err.Error() + ": name another file with -o")
	}
	if err != nil {
		return err
	}
	if len(texts) > 0 {
		return c.printTexts(a, texts)
	}
	return c.printReport(a, &report)
}

// printReport prints what is in the public form, and what is not.
func (c Strip) printReport(a *console.Console, r *public.Report) error {
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(report(r))
	}
	name := c.Out
	if name == "" {
		name = "the public form of " + c.File
	}
	fmt.Fprintf(a.Stdout, "%s: %s of %s, %s", term.Printable(name), term.Size(r.Size), term.Size(r.PrivateSize), term.Count(r.Names, "name"))
	if r.Hidden > 0 {
		fmt.Fprintf(a.Stdout, ", %d of them hidden", r.Hidden)
	}
	fmt.Fprintln(a.Stdout)
	if len(r.Removed) == 0 {
		fmt.Fprintln(a.Stdout, "nothing had to be taken away")
		return nil
	}
	t := term.NewTable(a.Stdout, "TAKEN AWAY", "COUNT", "SIZE")
	for _, x := range r.Removed {
		t.Row(string(x.Kind), fmt.Sprint(x.Count), term.Size(x.Bytes))
	}
	return t.Flush()
}

// printTexts prints private texts. There is one at least, or the answer is that all is well.
func (c Strip) printTexts(a *console.Console, texts []public.PrivateText) error {
	for _, t := range texts {
		if c.JSON {
			if err := term.NewJSONLines(a.Stdout).Write(map[string]string{"text": t.Text, "place": t.Place}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.Stdout, "%s: %s\n", t.Place, term.PrintableText(t.Text, 200))
	}
	if len(texts) > 0 {
		what := term.Printable(c.Public)
		if c.Public == "" {
			what = "the public form of " + term.Printable(c.File)
		}
		fmt.Fprintf(a.Stderr, "symdepot: %s has %s of %s", what, term.Count(int64(len(texts)), "private text"), term.Printable(c.File))
		if c.Public == "" && c.Out != "" {
			fmt.Fprintf(a.Stderr, "; %s was not written", term.Printable(c.Out))
		}
		if c.Public == "" {
			fmt.Fprintln(a.Stderr, "; leave names out with --hide, or report a fault of symdepot")
		} else { // which may be any file
			fmt.Fprintf(a.Stderr, "; make the public form with: symdepot strip %s -o FILE\n", term.Printable(c.File))
		}
		return term.ErrNegative
	}
	if !c.JSON {
		fmt.Fprintf(a.Stdout, "%s has no private text of %s\n", term.Printable(c.Public), term.Printable(c.File))
	}
	return nil
}

// report is the JSON form of a report.
func report(r *public.Report) any {
	type removed struct {
		Kind  string `json:"kind"`
		Count int64  `json:"count"`
		Bytes int64  `json:"bytes"`
	}
	list := []removed{}
	for _, x := range r.Removed {
		list = append(list, removed{string(x.Kind), x.Count, x.Bytes})
	}
	return map[string]any{
		"kind": r.Kind.String(), "private_size": r.PrivateSize, "size": r.Size, "names": r.Names, "hidden": r.Hidden, "removed": list,
	}
}
