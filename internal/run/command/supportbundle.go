package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/doctor"
	"github.com/symdepot/symdepot/internal/run/version"
)

type supportBundleCmd struct {
	Config string `help:"Configuration file of the server." placeholder:"FILE" type:"path"`
	Output string `help:"text:support_bundle_output" short:"o" placeholder:"FILE"`
	Log    string `help:"File that the log of the server goes to; its last lines are added." placeholder:"FILE"`
}

// Run writes the bundle.
func (c supportBundleCmd) Run(a *session) error {
	now := a.Now()
	if c.Output == "" {
		c.Output = "symdepot-support-" + now.Format("20060102-150405") + ".zip"
	}
	list, patient := doctor.Examine(a.Ctx, a.doctorCase(c.Config))
	if err := a.Ctx.Err(); err != nil {
		return err
	}
	if patient.Config == nil {
		fmt.Fprintln(a.Stderr, "symdepot: the configuration cannot be used, so the file has little more than why; "+
			"name the right one with --config")
	}
	f, err := os.OpenFile(c.Output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return term.UsageError(c.Output + " exists; name another file")
	}
	if err != nil {
		return err
	}
	bundle := doctor.Bundle{
		Version: version.Text(a.Options.Version), Findings: list, Patient: patient, Log: c.Log, Environ: os.Environ(), Now: now,
	}
	err = bundle.Write(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(c.Output))
	}
	fmt.Fprintf(a.Stdout, "%s\n", c.Output)
	return nil
}
