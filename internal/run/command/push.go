package command

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/console"
)

type pushCmd struct {
	txFlags
	Server    string `help:"Base URL of the server; required." env:"SYMDEPOT_SERVER" placeholder:"URL"`
	TokenFile string `help:"File with the token. Default: SYMDEPOT_TOKEN, or the login of symdepot login." placeholder:"FILE"`
	classFlags
	Key         string  `help:"text:push_key" more:""`
	Open        bool    `help:"Only open a stage that several jobs push into, and print its id; needs --key." more:""`
	Stage       string  `help:"Push into this open stage, and do not commit it." placeholder:"ID" more:""`
	Commit      string  `help:"Only commit this stage." placeholder:"ID" more:""`
	ExpectFiles int64   `help:"With --commit: fail unless the stage has this many files." placeholder:"N" more:""`
	Partial     bool    `help:"Commit without the files that the server refuses." more:""`
	Anew        bool    `help:"Make a build even if one with the same files and labels exists." more:""`
	Needs       []int64 `help:"text:push_needs" placeholder:"NUMBER" more:""`
	AllowEmpty  bool    `help:"Succeed if there are no symbol files." more:""`
	sourceFlags
	readFlags
	Encoding string        `help:"text:push_encoding" enum:"zstd,none" default:"zstd" placeholder:"zstd|none" more:""`
	NoDelta  bool          `help:"text:push_no_delta" more:""`
	Hashes   string        `help:"text:push_hashes" placeholder:"FILE|none" more:""`
	Parallel int           `help:"How many uploads run at the same time." default:"4" placeholder:"N" more:""`
	Retry    term.Duration `help:"How long a server that does not answer is tried again." default:"10m" placeholder:"TIME" more:""`
	EnvFile  string        `help:"Append SYMDEPOT_BUILD=NUMBER to this file, for later jobs." placeholder:"FILE" more:""`
	JSON     bool          `help:"Print one JSON object per file, and a last one with the sums."`
	Paths    []string      `arg:"" optional:"" name:"path" help:"Files, folders and archives (zip, nupkg, snupkg, whl, apk, tar.*, deb, rpm)."`
}

// Run pushes, or does one step of a push of several jobs.
func (c pushCmd) Run(a *session) error {
	ci, log := client.DetectCI(os.Getenv), a.Stdout
	if c.JSON {
		log = a.Stderr
	}
	r, err := c.push(a.Console, ci)
	if r.Transaction > 0 {
		err = errors.Join(err, ci.Done(log, c.EnvFile, r))
	}
	code := exitCode(err)
	for is, exit := range map[error]int{
		client.ErrCredentials: ExitCredentials, client.ErrTooLarge: 6, client.ErrUnreachable: ExitUnreachable,
		client.ErrPartial: 8, client.ErrNothing: ExitNo,
	} {
		if errors.Is(err, is) {
			code = exit
		}
	}
	switch code {
	case ExitOK, ExitUsage, ExitInterrupted:
		return err
	case ExitNo:
		fmt.Fprintln(a.Stderr, "symdepot: nothing to push:", err)
		if c.AllowEmpty {
			return nil
		}
		return term.ErrNegative
	}
	ci.Failed(log, err)
	fmt.Fprintln(a.Stderr, "symdepot:", describe(err, a.site))
	return term.Exit(code)
}

func (c pushCmd) push(a *console.Console, ci client.CI) (r client.PushResult, err error) {
	p, err := pusher(a, c.Server, c.TokenFile)
	if err != nil {
		return r, err
	}
	bar := term.NewProgress(a.Stderr, "pushing", -1)
	defer bar.Done()
	p.RetryAndTell(time.Duration(c.Retry), a.Stderr)
	p.Parallel, p.Plain, p.NoDelta, p.Progress = c.Parallel, c.Encoding == "none", c.NoDelta, bar.Set
	if p.Hashes, err = client.HashesFor(c.Hashes, c.Paths); err != nil {
		return r, err
	}
	defer func() {
		if err := p.Hashes.Save(); err != nil { // the next push reads more
			a.Warn([]string{"cannot remember the hashes: " + err.Error()})
		}
	}()
	lines := term.NewJSONLines(a.Stdout)
	if c.JSON {
		p.Event = func(e client.PushEvent) { _ = lines.Write(e) }
	}
	roots, err := c.roots()
	if err != nil {
		return r, err
	}
	r, err = p.Do(a.Ctx, client.PushOptions{
		PushSpec: ci.Spec(wire.PushSpec{
			Product: c.Product, Version: c.Version, Branch: c.Branch, Class: c.Class, Comment: c.Comment, Key: c.Key, Join: c.Open,
		}, c.Paths),
		OwnKey: c.Key == "", Open: c.Open, Stage: c.Stage, Commit: c.Commit, ExpectFiles: c.ExpectFiles, Paths: c.Paths,
		Partial: c.Partial, Anew: c.Anew, Needs: c.Needs, SkipUnreadable: c.SkipUnreadable, Strict: c.Strict, Sources: roots,
	})
	bar.Done()
	a.Warn(r.SourceWarnings)
	if c.JSON {
		return r, errors.Join(err, lines.Write(r.Summary(err)))
	}
	fmt.Fprint(a.Stdout, r.Text())
	return r, err
}
