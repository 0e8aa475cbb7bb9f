package command

import (
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/client"
)

type commentCmd struct {
	serverFlags
	JSON   bool   `help:"Print one JSON object."`
	Number int64  `arg:"" name:"build" help:"The build's number."`
	Text   string `arg:"" help:"The new comment; an empty one deletes it."`
}

// Run changes the comment.
func (c commentCmd) Run(a *session) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		l, err := k.Comment(a.Ctx, c.Number, c.Text)
		if err != nil {
			return noSuchTx(a.Stderr, c.Number, err)
		}
		return a.Print(c.JSON, l, "build %d: the comment was changed\n", c.Number)
	})
}
