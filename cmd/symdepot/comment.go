package main

import (
	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/depot"
)

type commentCmd struct {
	serverFlags
	JSON   bool   `help:"Print one JSON object."`
	Number int64  `arg:"" name:"tx" help:"The transaction's number."`
	Text   string `arg:"" help:"The new comment; an empty one deletes it."`
}

// Help is the long help text.
func (commentCmd) Help() string {
	return `Replaces the comment of a transaction, which list and show print.

  symdepot comment 4650 "shipped on 2026-11-20"

Exit codes: 0 done, 1 no such transaction, 2 wrong command line, 3 failed, 4 no depot,
5 credentials refused, 7 server not reachable.`
}

// Run changes the comment.
func (c commentCmd) Run(a *app) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		l, err := k.Comment(a.ctx, c.Number, c.Text)
		if err != nil {
			return noSuchTx(a.stderr, c.Number, err)
		}
		return a.print(c.JSON, l, "transaction %d: the comment was changed\n", c.Number)
	})
}
