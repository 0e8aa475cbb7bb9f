package command

import (
	"cmp"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/setup"
)

// coolAfter is how long a content must not have been used before symdepot cool makes it
// cold, if nothing else is configured.
const coolAfter = 14 * 24 * time.Hour

type coolCmd struct {
	DryRun  bool           `help:"Only print what would become cold, with estimated sizes." short:"n" xor:"what"`
	After   *term.Duration `help:"text:cool_after" placeholder:"TIME"`
	Product []string       `help:"Only files of this product; repeatable." short:"p" placeholder:"NAME" sep:"none"`
	Now     bool           `help:"Delete the plain bytes of cold files at once, instead of an hour after they became cold."`
	Pause   bool           `help:"Stop the servers of this depot from making files cold; cold files stay cold." xor:"what"`
	Resume  bool           `help:"Let the servers of this depot make files cold again." xor:"what"`
	JSON    bool           `help:"Print one JSON object per content and a last one with the sums."`
}

// Run makes files cold.
func (c coolCmd) Run(a *session) error {
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	if c.Pause || c.Resume {
		return c.pause(a.Console, d)
	}
	var after time.Duration
	if c.After != nil {
		after = time.Duration(*c.After)
	} else {
		conf, err := a.config("")
		if err != nil {
			return err
		}
		after = cmp.Or(setup.ColdOptions(conf).After, coolAfter)
	}
	opt := coldstore.CoolOptions{After: after, DryRun: c.DryRun, Grace: coldstore.CoolGrace, Products: c.Product}
	if c.Now {
		opt.Grace = 0
	}
	outlook, err := d.Cold.Outlook(a.Ctx, opt)
	if err != nil {
		return err
	}
	sum := display.NewCooled(opt, outlook)
	bar := term.NewProgress(a.Stderr, "cooled", outlook.Bytes)
	opt.Pace = func(n int) error {
		bar.Set(sum.Read(n))
		return nil
	}
	opt.Each = func(done coldstore.Cooled) error {
		bar.Set(sum.Count(done))
		if c.JSON {
			return term.NewJSONLines(a.Stdout).Write(display.NewCooledContent(done))
		}
		return nil
	}
	s, err := d.Cold.Cool(a.Ctx, opt)
	if err == nil && !c.DryRun {
		sum.Stripped, err = d.Cold.Strip(a.Ctx, opt.Grace)
	}
	bar.Done()
	sum.CoolSum = s
	if c.JSON {
		return errors.Join(term.NewJSONLines(a.Stdout).Write(sum), err)
	}
	return errors.Join(sum.Print(a.Stdout, c.Now), err)
}

// pause stops the background of servers, or lets it go on.
func (c coolCmd) pause(a *console.Console, d *depot.Depot) error {
	if err := d.Cold.Pause(a.Ctx, c.Pause); err != nil {
		return err
	}
	st, err := d.Cold.Progress(a.Ctx)
	if err != nil {
		return err
	}
	text := "servers with cold.after make files cold\n"
	if st.Paused {
		text = "servers make no files cold until symdepot cool --resume\n"
	}
	return a.Print(c.JSON, st, "%s", text)
}
