package command

import (
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/backup"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/migrate"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
)

type depotCmd struct {
	Migrate migrateCmd `cmd:"" help:"Copy the depot to another place, for example from a folder to PostgreSQL and a bucket."`
	Unmove  unmoveCmd  `cmd:"" help:"Make a depot that was migrated usable again."`
	Backup  backupCmd  `cmd:"" help:"Copy the depot to a folder while it is used; later backups copy only what is new."`
	Restore restoreCmd `cmd:"" help:"Make the depot equal to a backup."`
}

type migrateCmd struct {
	To      string `help:"The new depot: a folder, or postgres://USER@HOST/DATABASE." required:"" placeholder:"DIR|URL"`
	ToBlobs string `help:"text:migrate_to_blobs" placeholder:"URL"`
	JSON    bool   `help:"Print one JSON object."`
}

// Run copies the depot.
func (c migrateCmd) Run(a *session) error {
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
	to, err := depot.Open(a.Ctx, c.To, opt)
	if err != nil {
		return err
	}
	defer to.Close()
	var p *term.Progress
	m, err := from.Migrate(a.Ctx, to, func(done, all int64) {
		if p == nil {
			p = term.NewProgress(a.Stderr, "copied", all)
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
		return term.NewJSONLines(a.Stdout).Write(struct {
			To       string `json:"to"`
			Contents int64  `json:"contents"`
			Bytes    int64  `json:"bytes"`
			Copied   int64  `json:"copied"`
		}{to.Name(), m.Contents, m.Bytes, m.Copied})
	}
	fmt.Fprintf(a.Stdout, "the depot is in %s now: %s, %s (%d copied in this run)\n%s is unchanged and refuses additions\n",
		to.Name(), term.Count(m.Contents, "content"), term.Size(m.Bytes), m.Copied, from.Name())
	return nil
}

type unmoveCmd struct{}

// Run makes the depot usable again.
func (unmoveCmd) Run(a *session) error {
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
	if err := migrate.Unmove(a.Ctx, where, opt.Home()); err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s can be used again\n", where)
	return nil
}

type backupCmd struct {
	To     string `help:"Folder of the backup: new, empty, or with an earlier backup of the same depot." required:"" placeholder:"DIR"`
	Verify bool   `help:"Hash every content of the backup and check every row of its index."`
	JSON   bool   `help:"Print one JSON object per content that could not be copied, and a last one with the sums."`
}

// Run copies the depot.
func (c backupCmd) Run(a *session) error {
	if err := a.site.GiveFolder(c.To); err != nil {
		return err
	}
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
	return copyDepot(a.Console, "backed up", c.JSON, func(opt backup.Options) (backup.Result, error) {
		opt.Verify = c.Verify
		return d.Backup(a.Ctx, c.To, opt)
	}, func(b backup.Result) {
		fmt.Fprintf(a.Stdout, "backed up %s to %s: %s, %s, %s; %s (%s) copied in this run\n",
			d.Name(), b.To, term.Count(b.Transactions, "build"),
			copiedContents(b), term.Size(b.Bytes), term.Count(b.Copied, "content"), term.Size(b.CopiedBytes))
		if b.Removed > 0 {
			fmt.Fprintf(a.Stdout, "%s (%s) of earlier backups removed\n", term.Count(b.Removed, "content"), term.Size(b.RemovedBytes))
		}
	})
}

type restoreCmd struct {
	From       string `help:"Folder of the backup." required:"" placeholder:"DIR"`
	Replace    bool   `help:"Replace a depot that has files. symdepot gc then deletes files that the backup does not have."`
	Incomplete bool   `help:"Restore although contents of the backup are damaged or missing; the command prints which."`
	JSON       bool   `help:"Print one JSON object per damaged content, and a last one with the sums."`
}

// Run restores the depot.
func (c restoreCmd) Run(a *session) error {
	where, err := a.site.OnDisk()
	if err != nil {
		return err
	}
	return copyDepot(a.Console, "restored", c.JSON, func(opt backup.Options) (backup.Result, error) {
		opt.Replace, opt.Incomplete = c.Replace, c.Incomplete
		return backup.Restore(a.Ctx, c.From, where, opt)
	}, func(b backup.Result) {
		fmt.Fprintf(a.Stdout, "restored %s from the backup of %s: %s, %s, %s; %s (%s) copied\n",
			b.To, b.Taken.Local().Format(time.DateTime), term.Count(b.Transactions, "build"),
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
func copyDepot(a *console.Console,
	what string, asJSON bool, run func(backup.Options) (backup.Result, error), printed func(backup.Result),
) error {
	out := term.NewJSONLines(a.Stdout)
	var p *term.Progress
	b, err := run(backup.Options{
		Fault: func(f content.Fault) {
			if asJSON {
				_ = out.Write(f)
			} else {
				display.Fault(a.Stdout, f)
			}
		},
		Progress: func(done, all int64) {
			if p == nil {
				p = term.NewProgress(a.Stderr, what, all)
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
