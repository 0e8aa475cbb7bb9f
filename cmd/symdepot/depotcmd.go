package main

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/migrate"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/setup"
	"github.com/symdepot/symdepot/internal/term"
)

type depotCmd struct {
	Migrate migrateCmd `cmd:"" help:"Copy the depot to another place, for example from a folder to PostgreSQL and a bucket."`
	Unmove  unmoveCmd  `cmd:"" help:"Make a depot that was migrated usable again."`
	Backup  backupCmd  `cmd:"" help:"Copy the depot to a folder while it is used; later backups copy only what is new."`
	Restore restoreCmd `cmd:"" help:"Make the depot equal to a backup."`
}

type migrateCmd struct {
	To      string `help:"The new depot: a folder, or postgres://USER@HOST/DATABASE." required:"" placeholder:"DIR|URL"`
	ToBlobs string `help:"${migrate_to_blobs}" placeholder:"URL"`
	JSON    bool   `help:"Print one JSON object."`
}

// Help is the long help text.
func (migrateCmd) Help() string {
	return `The new depot has the same transactions with the same numbers, and the same tokens and jobs. The depot stays usable while contents are copied; while the
rows of the index are copied, writers wait. Afterwards the old depot refuses additions and is not deleted; symdepot depot unmove makes it usable
again. An interrupted migration continues where it stopped: run the same command again.

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
	opt := depot.Options{Probe: true}
	if err := setup.UseDepot(conf, c.To, c.ToBlobs, &opt); err != nil {
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
	opt.Dial = setup.Dialer(conf).Dial
	if err := migrate.Unmove(a.ctx, where, opt.Home()); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s can be used again\n", where)
	return nil
}

type backupCmd struct {
	To     string `help:"Folder of the backup: new, empty, or with an earlier backup of the same depot." required:"" placeholder:"DIR"`
	Verify bool   `help:"Hash every content of the backup and check every row of its index."`
	JSON   bool   `help:"Print one JSON object per content that could not be copied, and a last one with the sums."`
}

// Help is the long help text.
func (backupCmd) Help() string {
	return `The depot can be served, added to and collected meanwhile. The folder is a depot itself: to use it, name it with --depot, or copy it back with symdepot
depot restore. It has the earlier backup until the new one is complete; an interrupted backup loses nothing, and the next one continues it. Contents are copied,
never linked, so that damage to the depot's files does not reach the backup; contents that are in the folder already are not copied again. Only one state is kept:
for several, name several folders. Keys that sign links, and files of the depot's folder other than the index and the contents, are not part of it.

A folder that was used as a depot since its last backup is refused. So is a depot with its index in PostgreSQL or its contents in a bucket: back up the database
by its own tools first, and the bucket after it.

Examples:
  symdepot depot backup --to /mnt/backup/symdepot
  symdepot --depot /var/lib/symdepot depot backup --to /mnt/backup/symdepot --verify --json
  symdepot --depot /mnt/backup/symdepot serve

Exit codes: 0 done, 1 damaged contents are not in the backup (they are printed), 2 wrong command line, 3 failed, 4 depot missing, damaged or newer,
130 interrupted.`
}

// Run copies the depot.
func (c backupCmd) Run(a *app) error {
	where, err := a.site.OnDisk()
	if err != nil {
		return err
	}
	a.site.Depot = where
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	return a.copyDepot("backed up", c.JSON, func(opt backup.Options) (backup.Result, error) {
		opt.Verify = c.Verify
		return d.Backup(a.ctx, c.To, opt)
	}, func(b backup.Result) {
		fmt.Fprintf(a.stdout, "backed up %s to %s: %s, %s, %s; %s (%s) copied in this run\n", d.Name(), b.To, term.Count(b.Transactions, "transaction"),
			copiedContents(b), term.Size(b.Bytes), term.Count(b.Copied, "content"), term.Size(b.CopiedBytes))
		if b.Removed > 0 {
			fmt.Fprintf(a.stdout, "%s (%s) of earlier backups removed\n", term.Count(b.Removed, "content"), term.Size(b.RemovedBytes))
		}
	})
}

type restoreCmd struct {
	From       string `help:"Folder of the backup." required:"" placeholder:"DIR"`
	Replace    bool   `help:"Replace a depot that holds files. Contents that only that one needs stay until symdepot gc."`
	Incomplete bool   `help:"Restore although contents of the backup are damaged or missing; the command prints which."`
	JSON       bool   `help:"Print one JSON object per damaged content, and a last one with the sums."`
}

// Help is the long help text.
func (restoreCmd) Help() string {
	return `Hashes every content of the backup and checks its index before it replaces anything. Until then, and if it is interrupted, the depot stays as it is.
Nothing may have the depot open. The backup is not changed. Only the difference is copied: contents that the depot has, intact, stay.

Examples:
  symdepot --depot /var/lib/symdepot depot restore --from /mnt/backup/symdepot
  symdepot --depot /var/lib/symdepot depot restore --from /mnt/backup/symdepot --replace

Exit codes: 0 restored, 1 restored without damaged contents (--incomplete), 2 wrong command line, 3 failed (nothing was replaced), 4 the backup, or the depot to replace, is of a newer version or damaged,
130 interrupted.`
}

// Run restores the depot.
func (c restoreCmd) Run(a *app) error {
	where, err := a.site.OnDisk()
	if err != nil {
		return err
	}
	return a.copyDepot("restored", c.JSON, func(opt backup.Options) (backup.Result, error) {
		opt.Replace, opt.Incomplete = c.Replace, c.Incomplete
		return backup.Restore(a.ctx, c.From, where, opt)
	}, func(b backup.Result) {
		fmt.Fprintf(a.stdout, "restored %s from the backup of %s: %s, %s, %s; %s (%s) copied\n", b.To, b.Taken.Local().Format(time.DateTime), term.Count(b.Transactions, "transaction"),
			copiedContents(b), term.Size(b.Bytes), term.Count(b.Copied, "content"), term.Size(b.CopiedBytes))
	})
}

// copiedContents says how many contents a copy has: of those that it should have, if some
// are lost.
func copiedContents(b backup.Result) string {
	if b.Faults > 0 {
		return fmt.Sprintf("%d of %s", b.Contents-b.Faults, term.Count(b.Contents, "content"))
	}
	return term.Count(b.Contents, "content")
}

// copyDepot runs a backup or a restoration with its progress and its output.
func (a *console) copyDepot(what string, asJSON bool, run func(backup.Options) (backup.Result, error), printed func(backup.Result)) error {
	out := term.NewJSONLines(a.stdout)
	var p *term.Progress
	b, err := run(backup.Options{
		Fault: func(f content.Fault) {
			if asJSON {
				_ = out.Write(f)
			} else {
				report.Fault(a.stdout, f)
			}
		},
		Progress: func(done, all int64) {
			if p == nil {
				p = term.NewProgress(a.stderr, what, all)
			}
			p.Set(done)
		},
	})
	if p != nil {
		p.Done()
	}
	if err != nil {
		return err
	}
	if asJSON {
		if err := out.Write(b); err != nil {
			return err
		}
	} else {
		printed(b)
	}
	if b.Faults > 0 {
		return term.ErrNegative
	}
	return nil
}
