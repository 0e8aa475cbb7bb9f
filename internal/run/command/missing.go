package command

import (
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/symfile"
)

type missingCmd struct {
	serverFlags
	CSV    bool          `help:"Print comma-separated values with a header line." xor:"form"`
	JSON   bool          `help:"Print one JSON object per line." xor:"form"`
	Since  term.Duration `help:"Only requests of this time, such as 24h or 7d." placeholder:"TIME"`
	Client string        `help:"Only requests of this kind of client, such as gdb or symsrv." placeholder:"KIND"`
	Limit  int           `help:"Maximum number; 0: all." default:"100"`
	Name   string        `arg:"" optional:"" help:"Only this file name (with * and ?)."`
}

// Run lists what is missing.
func (c missingCmd) Run(a *session) error {
	f := catalog.WantedFilter{Limit: c.Limit, Client: c.Client, Name: symfile.Fold(c.Name)}
	if c.Since > 0 {
		f.Since = a.Now().Add(-time.Duration(c.Since))
	}
	lines, t, w := term.NewJSONLines(a.Stdout), (*term.Table)(nil), (*display.MissingCSV)(nil)
	var err error
	switch {
	case c.CSV:
		w, err = display.NewMissingCSV(a.Stdout)
	case !c.JSON:
		t = term.NewTable(a.Stdout, "COUNT", "CLIENT", "LAST", "NAME", "ID")
	}
	if err != nil {
		return err
	}
	n := 0
	err = a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		return k.Missing(a.Ctx, f, func(m catalog.Wanted) error {
			n++
			switch {
			case c.CSV:
				return w.Write(m)
			case c.JSON:
				return lines.Write(m)
			}
			t.Row(strconv.FormatInt(m.Count, 10), m.Client, m.Last.Local().Format("2006-01-02 15:04"), term.Printable(m.Name), m.ID)
			return nil
		})
	})
	if err != nil {
		return err
	}
	if w != nil {
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if t != nil && n > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if n == 0 {
		return a.Nothing("no request went unanswered; a server stores its counts every 20 seconds")
	}
	return nil
}
