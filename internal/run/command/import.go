package command

import (
	"crypto/ed25519"
	"fmt"
	"os"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/bundle"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/layout"
)

type importCmd struct {
	txFlags
	Layout      string   `help:"Layout of the tree: auto, {folder_layouts}." default:"auto" placeholder:"LAYOUT"`
	PointerRoot []string `help:"text:import_pointer_root" placeholder:"[PREFIX=]DIR" sep:"none"`
	Origin      string   `help:"Address under which the depot remembers the tree. Default: its path." placeholder:"ADDRESS"`
	DryRun      bool     `help:"Print what would be imported, and store nothing." short:"n"`
	JSON        bool     `help:"Print one JSON object per file and build and a last one with the sums."`
	VerifyKey   string   `help:"For a bundle: the public key of its maker." placeholder:"FILE"`
	Unsigned    bool     `help:"For a bundle: accept it without checking a signature."`
	Tree        string   `arg:"" help:"The folder, the bucket (s3://BUCKET/PREFIX, gs:// or az://), or a bundle."`
}

// Run imports the tree or the bundle.
func (c importCmd) Run(a *session) error {
	if isFile(c.Tree) {
		return c.importBundle(a)
	}
	if c.VerifyKey != "" || c.Unsigned {
		return term.UsageError("--verify-key and --unsigned are for bundles; " + c.Tree + " is not one")
	}
	lay, err := layout.ParseFolder(c.Layout)
	if err != nil {
		return term.UsageError(err.Error())
	}
	opt := importexport.ImportOptions{Info: c.info(), Layout: lay, Origin: c.Origin, DryRun: c.DryRun}
	if opt.PointerRoots, err = pointerRoots(c.PointerRoot); err != nil {
		return err
	}
	lines := term.NewJSONLines(a.Stdout)
	if c.JSON {
		opt.Event = func(e importexport.Event) { _ = lines.Write(fileEvent(e)) }
	}
	bar := term.NewProgress(a.Stderr, "importing", -1)
	defer bar.Done()
	opt.Progress = func(done, _ int64) { bar.Set(done) }
	im, done, err := c.prepare(a, opt)
	if err != nil {
		return err
	}
	defer done()
	d, err := a.openFor(c.DryRun)
	if err != nil {
		return err
	}
	if d != nil {
		defer d.Close()
	}
	r, err := im.Run(d)
	bar.Done()
	if err != nil {
		return err
	}
	if err := c.print(a.Console, &r, lines); err != nil {
		return err
	}
	switch {
	case r.LeftOut > 0:
		return fmt.Errorf("%s could not be read and was left out; import again", term.Count(r.LeftOut, "build"))
	case r.Added.Files+r.Known.Files == 0 && r.Before == 0:
		return term.ErrNegative
	}
	return nil
}

// print prints what was imported.
func (c importCmd) print(a *console.Console, r *importexport.ImportResult, lines term.JSONLines) error {
	if c.JSON {
		return lines.Write(struct {
			Event     string             `json:"event"`
			Tree      string             `json:"tree"`
			Layout    string             `json:"layout"`
			DryRun    bool               `json:"dry_run,omitempty"`
			Imported  int64              `json:"builds"`
			Before    int64              `json:"here_already"`
			LeftOut   int64              `json:"left_out"`
			Added     importexport.Tally `json:"added"`
			Known     importexport.Tally `json:"known"`
			Skipped   int64              `json:"skipped"`
			Misplaced int64              `json:"misplaced"`
		}{"done", r.Store, r.Layout.Name(), c.DryRun, r.Imported, r.Before, r.LeftOut, r.Added, r.Known, r.Skipped, r.Misplaced})
	}
	word := "imported"
	if c.DryRun {
		word = "would import"
	}
	fmt.Fprintf(a.Stdout, "%s %s of %s (%s)\n", word, term.Count(r.Imported, "build"), term.Printable(r.Store), r.Layout.Name())
	if r.Before > 0 {
		fmt.Fprintf(a.Stdout, "  passed over    %d that were imported before\n", r.Before)
	}
	r.Print(a.Stdout)
	if r.Misplaced > 0 {
		fmt.Fprintf(a.Stdout, "  misplaced      %s, imported under their own ids\n", term.Count(r.Misplaced, "file"))
		for _, s := range r.MisplacedSome {
			fmt.Fprintf(a.Stdout, "    %s\n", term.Printable(s))
		}
	}
	return nil
}

// importBundle imports a bundle, after every byte was checked.
func (c importCmd) importBundle(a *session) error {
	var key ed25519.PublicKey
	switch {
	case c.VerifyKey == "" && !c.Unsigned:
		return term.UsageError(c.Tree + " is a file: import a bundle with --verify-key FILE, or with --unsigned if it is not signed")
	case c.VerifyKey != "":
		k, err := bundle.ReadVerifyKey(c.VerifyKey)
		if err != nil {
			return err
		}
		key = k
	}
	b, err := bundle.Open(c.Tree, key)
	if err != nil {
		return err
	}
	defer b.Close()
	bar := term.NewProgress(a.Stderr, "checking", b.Size())
	defer bar.Done()
	if err := b.Check(a.Ctx, bar.Set); err != nil {
		return fmt.Errorf("%s: %w; nothing was imported", c.Tree, err)
	}
	bar.Done()
	if c.DryRun {
		signed := "not checked against a signature"
		if key != nil {
			signed = "as signed"
		}
		fmt.Fprintf(a.Stdout, "%s: %s, %s\n", c.Tree, term.Count(int64(len(b.Manifest.Files)), "file"), signed)
		return nil
	}
	d, err := a.openFor(false)
	if err != nil {
		return err
	}
	defer d.Close()
	r, err := b.Import(a.Ctx, d, c.info())
	if err != nil {
		return err
	}
	a.Warn(r.Warnings())
	if c.JSON {
		return term.NewJSONLines(a.Stdout).Write(map[string]int{
			"files": r.Files, "before": r.Before, "builds": r.Transactions,
			"missing": len(b.Manifest.Missing), "refused": len(r.Refused),
		})
	}
	fmt.Fprintf(a.Stdout, "imported %s in %s; %d were imported before\n",
		term.Count(int64(r.Files), "file"), term.Count(int64(r.Transactions), "build"), r.Before)
	if n := len(b.Manifest.Missing); n > 0 {
		fmt.Fprintf(a.Stdout, "%s had not been found when the bundle was made\n", term.Count(int64(n), "wanted file"))
	}
	return nil
}

// isFile reports whether a path is that of a regular file.
func isFile(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular()
}
