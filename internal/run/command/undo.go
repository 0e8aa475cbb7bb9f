package command

import (
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/client"
)

type undoCmd struct {
	serverFlags
	JSON    bool    `help:"Print one JSON object per build."`
	Numbers []int64 `arg:"" name:"build" help:"Numbers of removed builds."`
}

// Run restores transactions.
func (c undoCmd) Run(a *session) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		for _, n := range c.Numbers {
			l, err := k.Undo(a.Ctx, n)
			switch {
			case client.IsNo(err):
				return a.Nothing(err.Error())
			case err != nil:
				return noSuchTx(a.Stderr, n, err)
			}
			if err := a.Print(c.JSON, l, "restored build %d (%s)\n", n, term.Count(l.Objects, "file")); err != nil {
				return err
			}
		}
		return nil
	})
}
