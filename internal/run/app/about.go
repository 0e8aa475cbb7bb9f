package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/doctor"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// aboutServer describes a running server to those who may read all products: its
// settings without secrets, and whether all is well. conf returns the configuration in force.
func aboutServer(d *depot.Depot, conf func() *config.Config, g *guard) func(context.Context) web.Facts {
	return func(ctx context.Context) web.Facts {
		var f web.Facts
		var settings, warnings bytes.Buffer
		if err := conf().Report(&settings, &warnings, false, d.Name()); err != nil {
			settings.WriteString("# " + err.Error() + "\n")
		}
		f.Settings = settings.String()
		for line := range strings.Lines(warnings.String()) {
			text := strings.TrimPrefix(strings.TrimSpace(line), "warning: ")
			f.Checks = append(f.Checks, web.Check{Name: "Configuration", State: web.CheckWarn, Text: text})
		}
		disk, stored := check("Disk", doctor.Disk(d.Check.Space())), check("Stored files", doctor.Stored(d.Check.Coverage(ctx)))
		f.Checks = append(f.Checks, readyCheck(ctx, d), disk, stored, coldCheck(ctx, d))
		if g.tls != nil {
			f.Checks = append(f.Checks, check("Certificate", doctor.Certificate(g.tls.Expires(), time.Now())))
		}
		return f
	}
}

// readyCheck says whether the index and the store of the contents answer.
func readyCheck(ctx context.Context, d *depot.Depot) web.Check {
	c := web.Check{Name: "Depot", State: web.CheckOK, Text: "the index and the stored files can be read"}
	switch err := d.Ready(ctx); {
	case content.IsDenied(err):
		c.State, c.Text = web.CheckBad, err.Error()
	case errors.Is(err, content.ErrUnavailable):
		c.State, c.Text = web.CheckWarn, "the object store does not answer; only files of the local cache are served"
	case err != nil:
		c.State, c.Text = web.CheckBad, err.Error()
	}
	return c
}

var checkStates = map[doctor.State]web.CheckState{
	doctor.OK: web.CheckOK, doctor.Unknown: web.CheckUnknown, doctor.Warning: web.CheckWarn, doctor.Fault: web.CheckBad,
}

// check shows a finding on the page.
func check(name string, f doctor.Finding) web.Check {
	c := web.Check{Name: name, State: checkStates[f.State], Text: f.Text}
	if f.Do != "" {
		c.Text += "; " + f.Do
	}
	return c
}

// coldCheck says how many files are kept cold, and how far the background has come.
func coldCheck(ctx context.Context, d *depot.Depot) web.Check {
	c := web.Check{Name: "Cold files", State: web.CheckOK}
	st, err := d.Cold.Status(ctx)
	if err != nil {
		c.State, c.Text = web.CheckWarn, err.Error()
		return c
	}
	c.Text = display.ColdAbout(st, d.Cold.After())
	if st.Failures > 0 {
		c.State = web.CheckBad
		c.Text += fmt.Sprintf("; %d attempts to restore one failed: symdepot verify names the damage", st.Failures)
	}
	return c
}
