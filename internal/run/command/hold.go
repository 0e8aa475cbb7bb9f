package command

import (
	"cmp"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/client"
)

type promoteCmd struct {
	serverFlags
	Class  string `help:"The new class." required:"" placeholder:"CLASS"`
	Hold   string `help:"Place a hold, too, for this reason." placeholder:"REASON"`
	Force  bool   `help:"Promote also if less of what ships has its symbols than the class demands; the audit log says so."`
	JSON   bool   `help:"Print one JSON object."`
	Number int64  `arg:"" name:"build" help:"The build's number."`
}

// Run changes the class.
func (c promoteCmd) Run(a *session) error {
	recorded, done := a.recording(c.Force)
	defer done()
	return a.apiWith(c.serverFlags, depot.Options{}, recorded, func(k *client.API) error {
		p, err := k.Promote(a.Ctx, c.Number, c.Class, c.Hold, c.Force)
		if client.IsNo(err) {
			return a.Nothing(err.Error() + "; --force promotes it all the same")
		}
		if err != nil {
			return noSuchTx(a.Stderr, c.Number, err)
		}
		return a.Print(c.JSON, p, "build %d: class %s, before %s\n", c.Number, c.Class, cmp.Or(p.From, "none given"))
	})
}

type holdCmd struct {
	serverFlags
	Until  string `help:"The last day on which the hold is in force. Default: it does not end." placeholder:"YYYY-MM-DD"`
	JSON   bool   `help:"Print one JSON object."`
	Number int64  `arg:"" name:"build" help:"The build's number."`
	Reason string `arg:"" help:"Why the build must be kept. Several holds on a build have different reasons."`
}

// Run places a hold.
func (c holdCmd) Run(a *session) error {
	var day time.Time // the zero time: it does not end
	until := ""
	if c.Until != "" {
		var err error
		day, err = time.Parse(time.DateOnly, c.Until)
		if err != nil || !a.Now().Before(day.AddDate(0, 0, 1)) { // days are those of UTC
			return term.UsageError("--until: a day that is not past is expected, such as " + a.Now().AddDate(1, 0, 0).Format(time.DateOnly))
		}
		until = " until " + c.Until
	}
	if c.Reason == "" {
		return term.UsageError("the reason is empty")
	}
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		l, err := k.Hold(a.Ctx, c.Number, c.Reason, day)
		if err != nil {
			return noSuchTx(a.Stderr, c.Number, err)
		}
		return a.Print(c.JSON, l, "build %d is held%s: %s\n", c.Number, until, term.Printable(c.Reason))
	})
}

type unholdCmd struct {
	serverFlags
	JSON   bool   `help:"Print one JSON object per released hold."`
	Number int64  `arg:"" name:"build" help:"The build's number."`
	Reason string `arg:"" optional:"" help:"The reason of the hold. Default: all holds on the build."`
}

// Run releases holds.
func (c unholdCmd) Run(a *session) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		list, err := k.Unhold(a.Ctx, c.Number, c.Reason)
		if err != nil {
			return noSuchTx(a.Stderr, c.Number, err)
		}
		if len(list) == 0 {
			return a.Nothing("the build has no such hold")
		}
		for _, h := range list {
			if err := a.Print(c.JSON, h, "build %d is not held any more: %s\n", h.Transaction, term.Printable(h.Reason)); err != nil {
				return err
			}
		}
		return nil
	})
}
