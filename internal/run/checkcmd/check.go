// Package checkcmd is the command that checks whether what ships has its symbols.
package checkcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/files/sbom"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/shipment"
)

// Flags are those of the command, but for where symbols are looked for.
type Flags struct {
	Require        []string `help:"text:check_require" default:"symbols" placeholder:"WORD,…"`
	FailUnder      float64  `help:"Succeed if at least this share of the files has what is required." default:"100" placeholder:"PERCENT"`
	Allow          []string `help:"text:check_allow" placeholder:"GLOB" sep:"none"`
	SignedByOthers bool     `name:"allow-signed-by-others" help:"text:check_signed" more:""`
	OwnSigner      []string `help:"text:check_signer" placeholder:"NAME" sep:"none" more:""`
	Rules          string   `help:"text:check_rules" placeholder:"FILE" more:""`
	Upstream       bool     `help:"text:check_upstream"`
	Build          string   `help:"text:check_build" placeholder:"BUILD"`
	JSON           bool     `help:"Print one JSON object per file, and a last one with the sums."`
	Junit          string   `help:"Write the result as JUnit XML, too." placeholder:"FILE"`
	Sarif          string   `help:"Write the result as SARIF 2.1.0, too." placeholder:"FILE"`
	Markdown       string   `help:"Write a summary in Markdown, too." placeholder:"FILE"`
	Badge          string   `help:"Write an image in SVG with the share, too." placeholder:"FILE" more:""`
	Github         bool     `help:"Print annotations of GitHub Actions; there they are printed without it." more:""`
	Sbom           string   `help:"text:check_sbom" placeholder:"FILE"`
	SbomOut        string   `help:"Write the bill of materials of --sbom with the result of each file." placeholder:"FILE"`
	FilesFrom      string   `help:"Check the files that this file names, one a line, too." placeholder:"FILE" more:""`
	AllowEmpty     bool     `help:"Succeed if there is no program and no library." more:""`
	Paths          []string `arg:"" optional:"" name:"path" help:"Files, folders, archives and packages that ship."`
}

// Against calls do with the depot in which symbols are looked for. server is its server; nil: there is none.
type Against func(do func(api *client.API, server *client.Pusher) error) error

// Check checks.
func (c *Flags) Check(a *console.Console, against Against) error {
	rules, err := c.prepare()
	if err != nil {
		return err
	}
	var bill *sbom.Bill
	opt := shipment.CollectOptions{Signers: c.SignedByOthers}
	if c.Sbom != "" {
		if bill, err = readBill(c.Sbom); err != nil {
			return err
		}
		opt.Sums = bill.Algorithms()
	}
	bar := term.NewProgress(a.Stderr, "checking", -1)
	defer bar.Done()
	opt.Progress = bar.Set
	all, err := shipment.Collect(a.Ctx, c.Paths, opt)
	bar.Done()
	if err != nil {
		return err
	}
	for _, left := range all.Left {
		fmt.Fprintln(a.Stderr, "symdepot: left out:", term.Printable(left))
	}
	if bill != nil {
		if err := named(a, all, bill, c.Sbom); err != nil {
			return err
		}
	}
	if len(all.Files)+len(all.Unread) == 0 {
		if all.Unreadable != nil {
			return all.Unreadable
		}
		fmt.Fprintln(a.Stderr, "symdepot: there is no program and no library")
		if c.AllowEmpty {
			return nil
		}
		return term.ErrNegative
	}
	var report *shipment.Report
	err = against(func(api *client.API, server *client.Pusher) error {
		if report, err = c.ask(a.Ctx, api, server, all, rules); err != nil {
			return err
		}
		report.Tool = a.Options.Program()
		return c.keep(a, api, report)
	})
	if report == nil {
		return err
	}
	if err := errors.Join(err, c.write(a, report, bill)); err != nil {
		return err
	}
	if all.Unreadable != nil {
		return all.Unreadable
	}
	if !report.Summary().Passed {
		return term.ErrNegative
	}
	return nil
}

// prepare checks the flags and reads the rules.
func (c *Flags) prepare() (*shipment.Rules, error) {
	for _, what := range c.Require {
		if !slices.Contains(wire.Requirements, what) {
			return nil, term.UsageError(fmt.Sprintf("--require: %q is not one of %s", what, strings.Join(wire.Requirements, ", ")))
		}
	}
	slices.SortFunc(c.Require, func(x, y string) int {
		return slices.Index(wire.Requirements, x) - slices.Index(wire.Requirements, y)
	})
	c.Require = slices.Compact(c.Require)
	switch {
	case len(c.Require) == 0:
		return nil, term.UsageError("--require: nothing is required")
	case !(c.FailUnder >= 0 && c.FailUnder <= 100) || math.IsNaN(c.FailUnder):
		return nil, term.UsageError("--fail-under: a share from 0 to 100 is expected")
	case c.SignedByOthers != (len(c.OwnSigner) > 0):
		return nil, term.UsageError("--allow-signed-by-others goes with --own-signer, which says whose files need their symbols")
	case c.SbomOut != "" && c.Sbom == "":
		return nil, term.UsageError("--sbom-out belongs to --sbom")
	}
	if err := c.filesFrom(); err != nil {
		return nil, err
	}
	if len(c.Paths) == 0 {
		return nil, term.UsageError("the files are missing: name a file, a folder, an archive or a package that ships")
	}
	rules := &shipment.Rules{OwnSigners: c.OwnSigner}
	for _, pattern := range c.Allow {
		if err := rules.AllowFlag(pattern); err != nil {
			return nil, err
		}
	}
	return rules, rules.ReadRules(c.Rules)
}

// filesFrom adds the paths that a file names.
func (c *Flags) filesFrom() error {
	if c.FilesFrom == "" {
		return nil
	}
	f, err := os.Open(c.FilesFrom)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := term.ReadText(f)
	if err != nil {
		return fmt.Errorf("%s: %w", c.FilesFrom, err)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			c.Paths = append(c.Paths, line)
		}
	}
	return nil
}

// ask asks the depot and judges the answers.
func (c *Flags) ask(
	ctx context.Context, api *client.API, server *client.Pusher, all *shipment.Collected, rules *shipment.Rules,
) (*shipment.Report, error) {
	opt := shipment.AskOptions{Sources: slices.Contains(c.Require, wire.RequireSources), NotSources: rules.SourcePatterns()}
	if c.Upstream {
		if server == nil {
			return nil, term.UsageError("--upstream goes with --server: the server asks its upstreams")
		}
		opt.Upstreams = server.Has
	}
	answers, err := shipment.Ask(ctx, api, all.Files, opt)
	if err != nil {
		return nil, err
	}
	r := &shipment.Report{
		Results: shipment.Judge(all, answers, rules, c.Require), Require: c.Require, FailUnder: c.FailUnder,
		Unneeded: all.Unneeded, Left: all.Left,
	}
	r.Unused = rules.Unused()
	return r, nil
}

// keep stores the result beside the build of --build.
func (c *Flags) keep(a *console.Console, api *client.API, r *shipment.Report) error {
	if c.Build == "" {
		return nil
	}
	number, err := buildOf(a.Ctx, api, c.Build)
	if err == nil {
		_, err = api.KeepCoverage(a.Ctx, number, r.Build())
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("--build: there is no build %s", term.Printable(c.Build))
	}
	return err
}

// buildOf returns the number of a build: a number, or PRODUCT/VERSION for the newest one of both.
func buildOf(ctx context.Context, api *client.API, text string) (int64, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	product, version, ok := strings.Cut(text, "/")
	if !ok || product == "" || version == "" {
		return 0, term.UsageError("--build: the number of a build or PRODUCT/VERSION is expected")
	}
	var number int64
	err := api.Transactions(ctx, depot.ListFilter{Product: &product, Version: version, Limit: 1}, func(t display.Transaction) error {
		number = t.Transaction
		return nil
	})
	if err == nil && number == 0 {
		err = fs.ErrNotExist
	}
	return number, err
}

// write prints the report, and writes it into the files that were asked for. Each file is complete or unchanged.
func (c *Flags) write(a *console.Console, r *shipment.Report, bill *sbom.Bill) error {
	for _, rule := range r.Unused {
		if rule.Where != "--allow" {
			fmt.Fprintf(a.Stderr, "symdepot: %s: no file needs this rule: %s\n", rule.Where, term.Printable(rule.Pattern))
		}
	}
	markdown := func() ([]byte, error) { return r.Markdown(), nil }
	badge := func() ([]byte, error) { return r.Badge(), nil }
	filled := func() ([]byte, error) { return r.Bill(bill, a.Now()) }
	for _, out := range []struct {
		name string
		make func() ([]byte, error)
	}{{c.Junit, r.JUnit}, {c.Sarif, r.SARIF}, {c.Markdown, markdown}, {c.Badge, badge}, {c.SbomOut, filled}} {
		if out.name == "" {
			continue
		}
		text, err := out.make()
		if err == nil {
			err = durable.ReplaceFile(out.name, text, 0o666)
		}
		if err != nil {
			return err
		}
	}
	annotations := a.Stdout
	if c.JSON {
		annotations = a.Stderr
	}
	if c.Github || os.Getenv("GITHUB_ACTIONS") == "true" {
		defer r.GitHub(annotations)
	}
	if c.JSON {
		return r.PrintJSON(a.Stdout)
	}
	return r.Print(a.Stdout)
}

// readBill reads a bill of materials.
func readBill(name string) (*sbom.Bill, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	bill, err := sbom.Read(f)
	if err == nil && bill.Signed() {
		err = errors.New("the bill has a signature in it, which the properties would break; sign the copy instead")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return bill, nil
}

// named leaves the files that a bill names: they are what ships.
func named(a *console.Console, all *shipment.Collected, bill *sbom.Bill, name string) error {
	before := len(all.Files)
	all.Files = slices.DeleteFunc(all.Files, func(f shipment.File) bool { return len(bill.Find(f.Path, f.Sums)) == 0 })
	if n := before - len(all.Files); n > 0 {
		fmt.Fprintf(a.Stderr, "symdepot: %s: it does not name %d of the %d programs and libraries found; they are not checked\n",
			term.Printable(name), n, before)
	}
	if len(all.Files) == 0 && before > 0 && len(all.Unread) == 0 {
		return a.Nothing(fmt.Sprintf("the bill %s names none of the programs and libraries, by hash or by name", term.Printable(name)))
	}
	return nil
}
