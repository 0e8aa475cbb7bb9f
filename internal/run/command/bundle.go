package command

import (
	"crypto/ed25519"
	"fmt"
	"io"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/bundle"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/internal/run/console"
)

type bundleCmd struct {
	upstreamFlags
	wantFlags
	txFlags
	Tx      []int64 `name:"build" aliases:"tx" help:"All files of this build, with its labels; repeatable." placeholder:"N"`
	SignKey string  `help:"Sign with this ed25519 key (PEM), as symdepot keygen or openssl makes it." placeholder:"FILE"`
	JSON    bool    `help:"Print one JSON object with the sums."`
	Out     string  `arg:"" help:"The archive to write."`
}

// Run writes a bundle.
func (c bundleCmd) Run(a *session) error {
	if c.empty() && len(c.Tx) == 0 {
		return term.UsageError("name the files of the bundle with --manifest, --folder, --dump or --build")
	}
	var key ed25519.PrivateKey
	if c.SignKey != "" {
		k, err := bundle.ReadSignKey(c.SignKey)
		if err != nil {
			return err
		}
		key = k
	}
	l, err := c.wants(a.Console)
	if err != nil {
		return err
	}
	d, done, err := c.open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	for _, n := range c.Tx {
		if err := liveTransaction(a.Console, d, n); err != nil {
			return err
		}
	}
	opt := bundle.Options{Product: c.Product, Version: c.Version, Comment: c.Comment, Transactions: c.Tx, Key: key, Now: a.Now()}
	var report needed.Report
	bar := term.NewProgress(a.Stderr, "downloading", -1)
	defer bar.Done()
	if err := needed.Fetch(a.Ctx, d, l.Wants, c.Jobs, bar.Set, func(o needed.Outcome) {
		report.Add(o)
		if o.Result == needed.InDepot || o.Result == needed.Fetched {
			opt.Wants = append(opt.Wants, o.Want)
		}
	}); err != nil {
		return err
	}
	bar.Done()
	for _, m := range report.Missing {
		opt.Missing = append(opt.Missing, m.Want)
	}
	if n := report.Counts[needed.Failed]; n > 0 {
		printMissing(a.Console, &report, l.Bad)
		return fmt.Errorf("%s failed; nothing was written", term.Count(n, "file"))
	}
	var result bundle.Result
	if err := durable.WriteTo(c.Out, 0o666, func(w io.Writer) (err error) {
		result, err = bundle.Write(a.Ctx, w, d, opt)
		return err
	}); err != nil {
		return err
	}
	if c.JSON {
		err = term.NewJSONLines(a.Stdout).Write(map[string]any{
			"files": result.Files, "bytes": result.Bytes, "missing": opt.Missing, "bad_lines": l.Bad, "signed": key != nil,
		})
	} else {
		if !c.empty() {
			printMissing(a.Console, &report, l.Bad)
			printFetched(a.Console, &report)
		}
		fmt.Fprintf(a.Stdout, "wrote %s with %s, %s\n", c.Out, term.Count(int64(result.Files), "file"), term.Size(result.Bytes))
	}
	if err == nil && (len(report.Missing) > 0 || len(l.Bad) > 0) {
		return term.ErrNegative
	}
	return err
}

type keygenCmd struct {
	File string `arg:"" help:"File for the private key; the public key gets the same name with .pub."`
}

// Run writes a new pair of keys.
func (c keygenCmd) Run(a *console.Console) error {
	if err := bundle.NewKeys(c.File); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "wrote %s and %s.pub\n", c.File, c.File)
	return nil
}
