package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/web"
)

// lowSpace is the share of a disk below which the page about the server warns.
const lowSpace = 0.05

// aboutServer describes a running server to those who may read all products: its
// settings without secrets, and whether all is well.
func aboutServer(d *depot.Depot, conf *config.Config, g *guard) func(context.Context) web.Facts {
	return func(ctx context.Context) web.Facts {
		var f web.Facts
		var settings, warnings bytes.Buffer
		if err := conf.Report(&settings, &warnings, false, d.Name()); err != nil {
			settings.WriteString("# " + err.Error() + "\n")
		}
		f.Settings = settings.String()
		for line := range strings.Lines(warnings.String()) {
			f.Checks = append(f.Checks, web.Check{Name: "Configuration", State: web.CheckWarn, Text: strings.TrimPrefix(strings.TrimSpace(line), "warning: ")})
		}
		f.Checks = append(f.Checks, readyCheck(ctx, d), diskCheck(d), storedCheck(ctx, d))
		if g.tls != nil {
			f.Checks = append(f.Checks, certificateCheck(g.tls.Expires(), time.Now()))
		}
		return f
	}
}

// readyCheck says whether the index and the store of the contents answer.
func readyCheck(ctx context.Context, d *depot.Depot) web.Check {
	c := web.Check{Name: "Depot", State: web.CheckOK, Text: "the index and the stored files can be read"}
	switch err := d.Ready(ctx); {
	case errors.Is(err, depot.ErrUnavailable):
		c.State, c.Text = web.CheckWarn, "the object store does not answer; only files of the local cache are served"
	case err != nil:
		c.State, c.Text = web.CheckBad, err.Error()
	}
	return c
}

// diskCheck says how much of the disk is free.
func diskCheck(d *depot.Depot) web.Check {
	c := web.Check{Name: "Disk", State: web.CheckOK}
	total, free, err := d.Check.Space()
	switch {
	case err != nil:
		c.State, c.Text = web.CheckWarn, "the free space is not known: "+err.Error()
		return c
	case float64(free) < lowSpace*float64(total):
		c.State = web.CheckWarn
	}
	c.Text = fmt.Sprintf("%s of %s free", term.Size(free), term.Size(total))
	return c
}

// storedCheck says what the check of the stored files in the background found.
func storedCheck(ctx context.Context, d *depot.Depot) web.Check {
	c := web.Check{Name: "Stored files", State: web.CheckOK}
	st, err := d.Scrub(ctx)
	if err != nil {
		c.State, c.Text = web.CheckWarn, err.Error()
		return c
	}
	if c.Text = depot.ScrubText(st); c.Text == "" {
		c.Text = "the background check has not begun yet"
	}
	if st.Damaged > 0 || st.LastDamaged > 0 {
		c.State = web.CheckBad
		c.Text += "; symdepot verify names them"
	}
	return c
}

// soonExpired is how long before its end a certificate is a warning.
const soonExpired = 14 * 24 * time.Hour

func certificateCheck(end, now time.Time) web.Check {
	c := web.Check{Name: "Certificate", State: web.CheckOK, Text: "valid until " + end.UTC().Format(time.DateOnly)}
	if end.IsZero() {
		c.Text = "renewed by itself (ACME)"
		return c
	}
	switch left := end.Sub(now); {
	case left <= 0:
		c.State, c.Text = web.CheckBad, "expired on "+end.UTC().Format(time.DateOnly)
	case left < soonExpired:
		c.State = web.CheckWarn
	}
	return c
}
