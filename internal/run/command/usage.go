package command

import (
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/client"
)

type usageCmd struct {
	serverFlags
	watchFlags
	By       string  `help:"text:usage_by" enum:"product,version,class,kind" default:"product" placeholder:"product|version|class|kind"`
	Limit    int     `help:"Maximum number of lines, the largest first; 0: all." default:"0"`
	OverTime bool    `help:"List the recorded usage of the whole depot, day by day."`
	Days     int     `help:"With --over-time: how many days, up to today." default:"30"`
	Product  *string `help:"With --over-time: the usage of this product." short:"p" placeholder:"NAME"`
	Price    float64 `help:"Of contents in a bucket: USD per GB and month, for the estimate of their cost." default:"0.023" placeholder:"USD"`
	JSON     bool    `help:"Print one JSON object with all lists; with --over-time one per day."`
}

// Run prints the usage.
func (c usageCmd) Run(a *session) error {
	if c.Days < 1 || !c.OverTime && c.Product != nil {
		return term.UsageError("--product and --days belong to --over-time, and --days is at least 1")
	}
	ws, err := c.folders(a, c.Server)
	if err != nil {
		return err
	}
	return a.apiWith(c.serverFlags, depot.Options{Stages: a.pushLimits()}, ws.use, func(k *client.API) error {
		defer ws.close()
		if c.OverTime {
			return c.overTime(a, k)
		}
		l, err := k.Usage(a.Ctx)
		if err != nil {
			return err
		}
		if l.Cost != nil {
			l.Cost.At(c.Price)
		}
		if c.JSON {
			return term.NewJSONLines(a.Stdout).Write(l)
		}
		defer ws.tell()
		return l.Print(a.Stdout, c.By, c.Limit)
	})
}

func (c usageCmd) overTime(a *session, k *client.API) error {
	today := a.Now().UTC().Truncate(24 * time.Hour)
	list, err := k.UsageDays(a.Ctx, today.AddDate(0, 0, 1-c.Days), today, c.Product)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return a.Nothing("no usage was recorded in these days; a server records it once a day, and symdepot gc does")
	case !c.JSON:
		return display.PrintUsageDays(a.Stdout, list, c.Product != nil)
	}
	out := term.NewJSONLines(a.Stdout)
	for _, u := range list {
		if err := out.Write(u); err != nil {
			return err
		}
	}
	return nil
}
