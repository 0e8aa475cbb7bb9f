package srclink

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/files/sources"
)

// Task is what the command srcsrv does with each PDB.
type Task struct {
	StreamOptions        // makes a new stream if Base is set
	Rebase        string // OLD=NEW; empty for none
	Write         bool   // into the PDB itself
	Output        string // into a copy; empty for none
	Raw           bool   // prints the text of the stream
	JSON          bool

	old, to string // of Rebase
}

// Check reports a task that makes no sense for so many PDBs, as a term.UsageError.
func (t *Task) Check(pdbs int) error {
	var ok bool
	t.old, t.to, ok = strings.Cut(t.Rebase, "=")
	switch {
	case t.Base == "" && (len(t.Roots) > 0 || t.Product != "" || t.Version != ""):
		return term.UsageError("--sources, --product and --version need --base URL")
	case (t.Product == "") != (t.Version == ""):
		return term.UsageError("--product and --version go together")
	case t.Base == "" && t.Rebase == "" && (t.Write || t.Output != ""):
		return term.UsageError("--write and --output need --base URL or --rebase OLD=NEW")
	case t.Output != "" && pdbs > 1:
		return term.UsageError("--output takes one PDB")
	case t.Rebase != "" && (!ok || t.old == "" || t.to == ""):
		return term.UsageError("--rebase has the form OLD=NEW")
	}
	if t.Base == "" {
		return nil
	}
	_, err := CheckBase(t.Base)
	if err == nil && t.Product != "" {
		_, err = LabelPath(t.Product, t.Version, "file")
	}
	if err != nil {
		return term.UsageError(err.Error())
	}
	return nil
}

// Do does the task with one PDB. It returns false, and says why on stderr, if there is
// nothing to print or to write.
func (t *Task) Do(ctx context.Context, path string, stdout, stderr io.Writer) (bool, error) {
	x, err := OpenIndex(ctx, path)
	if err != nil {
		return false, err
	}
	defer func() { _ = x.Close() }()
	for _, f := range x.Faults {
		fmt.Fprintf(stderr, "symdepot: warning: %s: %s\n", term.Printable(path), term.Printable(f))
	}
	var ok bool
	none := "it has no link that leads to a source file; symdepot srcsrv --base URL makes links"
	switch {
	case t.Base != "":
		none = "no source file gets a URL"
		ok, err = t.make(ctx, x, stdout, stderr)
	case t.Rebase != "":
		ok, err = t.rebase(x, stdout)
	case t.Raw:
		none = "it has no source server stream"
		ok = x.Text != nil
		_, err = stdout.Write(x.Text)
	default:
		ok, err = Print(stdout, x, t.JSON)
	}
	if err == nil && !ok {
		fmt.Fprintf(stderr, "symdepot: %s: %s\n", term.Printable(path), none)
	}
	return ok, err
}

// out is the file that is written; empty for none.
func (t *Task) out(x *Index) string {
	if t.Write {
		return x.Path
	}
	return t.Output
}

// make makes a stream, and writes or prints it.
func (t *Task) make(ctx context.Context, x *Index, stdout, stderr io.Writer) (bool, error) {
	text, made, err := x.Make(ctx, t.StreamOptions)
	if err != nil {
		return false, err
	}
	for _, w := range sources.Unmatched(t.Roots, x.list) {
		fmt.Fprintf(stderr, "symdepot: warning: %s: %s\n", term.Printable(x.Path), term.Printable(w))
	}
	out := t.out(x)
	report := stderr // standard output has the stream
	if t.JSON || out != "" {
		report = stdout
	}
	if err := PrintMade(report, x, made, t.JSON); err != nil || text == nil {
		return false, err
	}
	if out != "" {
		return true, x.Save(out, map[string][]byte{StreamName: text})
	}
	if !t.JSON {
		_, err = stdout.Write(text)
	}
	return true, err
}

// rebase changes URLs.
func (t *Task) rebase(x *Index, stdout io.Writer) (bool, error) {
	streams, n, err := x.Rebase(t.old, t.to)
	if err != nil || n == 0 {
		return false, err
	}
	if out := t.out(x); out != "" {
		if err := x.Save(out, streams); err != nil {
			return false, err
		}
	}
	if t.JSON {
		return true, term.NewJSONLines(stdout).Write(struct {
			PDB  string `json:"pdb"`
			URLs int    `json:"urls"`
		}{x.Path, n})
	}
	_, err = fmt.Fprintf(stdout, "%s: %s\n", term.Printable(x.Path), term.Count(int64(n), "URL"))
	return true, err
}
