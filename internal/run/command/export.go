package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/importexport"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
)

type exportCmd struct {
	Dir      string  `arg:"" optional:"" help:"The folder to write to; it is made if it does not exist."`
	To       string  `help:"The folder, or the bucket (s3://BUCKET/PREFIX, gs:// or az://), in place of the argument." placeholder:"ADDRESS"`
	Follow   bool    `help:"text:export_follow"`
	Layout   string  `help:"Layout of the tree: {layouts}." required:"" placeholder:"LAYOUT"`
	Compress bool    `help:"Compress: cabinets in {cabinet_layouts}; zstd in {zstd_layouts}." short:"z"`
	Tx       []int64 `name:"build" aliases:"tx" help:"Only this build; repeatable." placeholder:"N"`
	Product  string  `help:"Only builds of this product." short:"p"`
	All      bool    `help:"Put ELF, Mach-O and WASM files into a symstore tree too."`
	Lower    bool    `help:"Write all paths in lower case, for case-sensitive servers whose clients are not."`
	Audience string  `help:"text:export_audience" enum:",public" default:"" placeholder:"public"`
	DryRun   bool    `help:"Print what would be written, and write nothing." short:"n"`
	JSON     bool    `help:"Print one JSON object per file and a last one with the sums."`
}

// Run exports.
func (c exportCmd) Run(a *session) error {
	l, ok := layout.ByName(c.Layout)
	if !ok {
		return term.UsageError(fmt.Sprintf("no layout %q; there are %s", c.Layout, strings.Join(layout.Names(layout.All()), ", ")))
	}
	if c.Compress && !importexport.Compresses(l) {
		return term.UsageError("files of layout " + c.Layout + " cannot be compressed: its clients do not expect it")
	}
	public := c.Audience == web.AudiencePublic
	if public && (c.DryRun || l.Records() != layout.NoRecords) {
		return term.UsageError("--audience public excludes --dry-run, since a public form is known when it is made, and layouts with " +
			"records of builds: use --layout ssqp, debuginfod or breakpad")
	}
	if c.Follow && (c.DryRun || len(c.Tx) > 0 || l.Records() != layout.NoRecords) {
		return importexport.ErrCannotFollow
	}
	to, done, err := c.target(a)
	if err != nil {
		return err
	}
	defer done()
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	opt := importexport.ExportOptions{Layout: l, Compress: c.Compress, All: c.All, Lower: c.Lower, DryRun: c.DryRun, Public: public}
	lines := term.NewJSONLines(a.Stdout)
	if c.JSON {
		opt.Event = func(e importexport.Event) { _ = lines.Write(fileEvent(e)) }
	}
	if c.Follow {
		return c.follow(a, d, to, opt, lines)
	}
	txs, err := c.transactions(a, d)
	if err != nil {
		return err
	}
	if len(txs) == 0 {
		fmt.Fprintln(a.Stderr, "symdepot: the depot has no build to export")
		return term.ErrNegative
	}
	bar := term.NewProgress(a.Stderr, "exporting", -1)
	defer bar.Done()
	opt.Progress = func(done, _ int64) { bar.Set(done) }
	r, err := importexport.Export(a.Ctx, d, txs, to, opt)
	bar.Done()
	if err != nil {
		return err
	}
	if err := c.print(a.Console, &r, lines); err != nil {
		return err
	}
	switch {
	case r.Failed > 0:
		return fmt.Errorf("%s could not be written", term.Count(r.Failed, "file"))
	case r.Written.Files+r.Same.Files+r.Before == 0:
		fmt.Fprintf(a.Stderr, "symdepot: nothing in the depot has a path in layout %s\n", l.Name())
		return term.ErrNegative
	}
	return nil
}

// target returns the folder or the bucket. done closes it.
func (c exportCmd) target(a *session) (to importexport.Target, done func(), err error) {
	where := cmp.Or(c.To, c.Dir)
	if where == "" || c.To != "" && c.Dir != "" {
		return to, nil, term.UsageError("name one target: a folder, or --to s3://BUCKET/PREFIX")
	}
	if !address.IsBucket(where) {
		return importexport.Target{Folder: where}, func() {}, nil
	}
	conf, err := a.config("")
	if err != nil {
		return to, nil, err
	}
	b, err := setup.OpenBucket(conf, where)
	if errors.Is(err, bucket.ErrNotBucket) {
		return to, nil, term.UsageError(where + ": " + err.Error())
	}
	if err != nil {
		return to, nil, err
	}
	return importexport.Target{Bucket: b}, func() { _ = b.Close() }, nil
}

// transactions returns the transactions to export, the oldest first.
func (c exportCmd) transactions(a *session, d *depot.Depot) ([]depot.Transaction, error) {
	if len(c.Tx) == 0 {
		list, err := d.List(a.Ctx, answer.Scope{}, depot.ListFilter{Product: anyOr(c.Product)})
		slices.Reverse(list)
		return list, err
	}
	var list []depot.Transaction
	for _, n := range slices.Compact(slices.Sorted(slices.Values(c.Tx))) {
		if err := liveTransaction(a.Console, d, n); err != nil {
			return nil, err
		}
		tx, err := d.Transaction(a.Ctx, n)
		if err != nil {
			return nil, err
		}
		if c.Product == "" || c.Product == tx.Product {
			list = append(list, tx)
		}
	}
	return list, nil
}

// liveTransaction returns term.ErrNegative, and prints why, if there is no such
// transaction or it was removed.
func liveTransaction(a *console.Console, d *depot.Depot, number int64) error {
	tx, err := d.Transaction(a.Ctx, number)
	if err != nil {
		return noSuchTx(a.Stderr, number, err)
	}
	if !tx.Removed.IsZero() {
		fmt.Fprintf(a.Stderr, "symdepot: build %d was removed\n", number)
		return term.ErrNegative
	}
	return nil
}

// print prints what was written.
func (c exportCmd) print(a *console.Console, r *importexport.ExportResult, lines term.JSONLines) error {
	if c.JSON {
		return lines.Write(struct {
			Event        string             `json:"event"`
			DryRun       bool               `json:"dry_run,omitempty"`
			Transactions int                `json:"builds"`
			Before       int64              `json:"there_already,omitempty"`
			Wrote        importexport.Tally `json:"written"`
			Same         importexport.Tally `json:"same"`
			Plain        int64              `json:"plain_bytes"`
			Replaced     int64              `json:"replaced"`
			Private      int64              `json:"private,omitempty"`
			Ignored      int64              `json:"ignored"`
			Kinds        map[string]int64   `json:"ignored_kinds,omitempty"`
			Shadowed     int64              `json:"shadowed"`
			Collisions   int64              `json:"collisions"`
			Failed       int64              `json:"failed"`
		}{
			"done", c.DryRun, r.Transactions, r.Before, r.Written, r.Same, r.Plain, r.Replaced, r.Private,
			r.LeftOut, r.LeftOutKinds, r.Shadowed, r.Collisions, r.Failed,
		})
	}
	word := "exported"
	if c.DryRun {
		word = "would export"
	}
	w := a.Stdout
	fmt.Fprintf(w, "%s %s to %s (%s)\n", word, term.Count(int64(r.Transactions), "build"), term.Printable(cmp.Or(c.To, c.Dir)), c.Layout)
	if r.Before > 0 {
		fmt.Fprintf(w, "  there already  %s\n", term.Count(r.Before, "build"))
	}
	size := term.Size(r.Written.Bytes)
	if c.Compress && r.Plain > r.Written.Bytes {
		size = fmt.Sprintf("%s compressed from %s", size, term.Size(r.Plain))
	}
	fmt.Fprintf(w, "  written        %s, %s\n", term.Count(r.Written.Files, "file"), size)
	for _, l := range []struct {
		n    int64
		text string
	}{
		{r.Same.Files, "  unchanged      %s\n"}, {r.Replaced, "  replaced       %s that had different content\n"},
		{r.Shadowed, "  one path       %s left out: several files have the same path, the best one was written\n"},
		{r.Private, "  private        %s without a public form left out\n"},
		{r.LeftOut, "  left out       %s: " + c.printOmitted(r) + "\n"},
		{r.Collisions, "  collisions     %s that differ from another path in case only\n"}, {r.Failed, "  failed         %s\n"},
	} {
		if l.n > 0 {
			fmt.Fprintf(w, l.text, term.Count(l.n, "file"))
		}
	}
	for _, s := range r.Some {
		fmt.Fprintf(w, "    %s\n", term.Printable(s))
	}
	return nil
}

// printOmitted says which kinds of files a layout has no path for, and what writes
// them.
func (c exportCmd) printOmitted(r *importexport.ExportResult) string {
	kinds := slices.Sorted(maps.Keys(r.LeftOutKinds))
	text := strings.Join(kinds, ", ")
	noWindows := func(kind string) bool { return kind == "elf" || kind == "macho" || kind == "wasm" }
	if l, _ := layout.ByName(c.Layout); l.Records() == layout.SymStoreRecords && !c.All && slices.ContainsFunc(kinds, noWindows) {
		return text + "; --all writes ELF, Mach-O and WASM files too"
	}
	return text + "; the layout has no path for them"
}
