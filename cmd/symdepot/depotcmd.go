package main

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
)

type depotCmd struct {
	Migrate migrateCmd `cmd:"" help:"Copy the depot to another place, for example from a folder to PostgreSQL and a bucket."`
	Unmove  unmoveCmd  `cmd:"" help:"Make a depot that was migrated usable again."`
}

type migrateCmd struct {
	To      string `help:"The new depot: a folder, or postgres://USER@HOST/DATABASE." required:"" placeholder:"DIR|URL"`
	ToBlobs string `help:"Bucket for the contents of the new depot: s3://BUCKET/PREFIX, gs:// or az://. Required for PostgreSQL." placeholder:"URL"`
	JSON    bool   `help:"Print one JSON object."`
}

// Help is the long help text.
func (migrateCmd) Help() string {
	return `The new depot has the same transactions with the same numbers, and the same tokens and jobs. While the contents are copied, everything goes on; while the
rows of the index are copied, writers wait. Afterwards the old depot refuses additions and is not deleted; symdepot depot unmove makes it usable
again. An interrupted migration goes on where it stopped: run the same command again.

Examples:
  symdepot --depot /var/lib/symdepot depot migrate --to postgres://symdepot@db/symdepot --to-blobs s3://symbols/depot
  symdepot --depot postgres://symdepot@db/symdepot --blobs s3://symbols/depot depot migrate --to /var/lib/symdepot

Exit codes: 0 copied, 2 wrong command line, 3 failed, 4 depot missing, damaged, moved or newer.`
}

// Run copies the depot.
func (c migrateCmd) Run(a *app) error {
	from, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer from.Close()
	conf, err := a.config("")
	if err != nil {
		return err
	}
	var opt depot.Options
	if err := conf.UseDepot(c.To, c.ToBlobs, &opt); err != nil {
		return term.UsageError(err.Error())
	}
	to, err := depot.Open(a.ctx, c.To, opt)
	if err != nil {
		return err
	}
	defer to.Close()
	var p *term.Progress
	m, err := from.Migrate(a.ctx, to, func(done, all int64) {
		if p == nil {
			p = term.NewProgress(a.stderr, "copied", all)
		}
		p.Set(done)
	})
	if p != nil {
		p.Done()
	}
	if err != nil {
		return err
	}
	if c.JSON {
		return term.NewJSONLines(a.stdout).Write(struct {
			To       string `json:"to"`
			Contents int64  `json:"contents"`
			Bytes    int64  `json:"bytes"`
			Copied   int64  `json:"copied"`
		}{to.Name(), m.Contents, m.Bytes, m.Copied})
	}
	fmt.Fprintf(a.stdout, "the depot is in %s now: %s, %s (%d copied in this run)\n%s is unchanged and refuses additions\n",
		to.Name(), term.Count(m.Contents, "content"), term.Size(m.Bytes), m.Copied, from.Name())
	return nil
}

type unmoveCmd struct{}

// Help is the long help text.
func (unmoveCmd) Help() string {
	return `What was added to the new depot since the migration is not in the old one. Stop everything that uses the new one first.

Exit codes: 0 done, 2 wrong command line, 3 failed, 4 depot missing.`
}

// Run makes the depot usable again.
func (unmoveCmd) Run(a *app) error {
	where, err := a.dir()
	if err != nil {
		return err
	}
	var opt depot.Options
	conf, err := a.config("")
	if err != nil {
		return err
	}
	opt.Dial = conf.Dialer().Dial
	if err := depot.Unmove(a.ctx, where, opt); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s can be used again\n", where)
	return nil
}
