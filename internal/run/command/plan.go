package command

import (
	"errors"
	"fmt"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/run/client"
)

// exitUnmet is the exit code if a cap of the policy is not met.
const exitUnmet = 8

type policyCheckCmd struct {
	JSON bool   `help:"Print one JSON object, also if the policy is wrong."`
	File string `arg:"" name:"file" help:"The policy, in YAML; - is standard input."`
}

// Run checks a policy.
func (c policyCheckCmd) Run(a *session) error {
	text, err := a.readPolicy(c.File)
	if err != nil {
		return err
	}
	p, err := retention.Parse(c.File, text)
	if c.JSON {
		l := display.NewPolicyCheck(c.File, p, err)
		if err := term.NewJSONLines(a.Stdout).Write(l); err != nil || l.Correct {
			return err
		}
		return term.Exit(ExitUsage)
	}
	if err != nil {
		return policyFault(err)
	}
	a.Warn(p.Warnings())
	_, err = fmt.Fprintf(a.Stdout, "%s: correct\n", c.File)
	return err
}

type policyPreviewCmd struct {
	serverFlags
	JSON bool `help:"Print one JSON object."`
}

// Run prints the plan of the policy in force.
func (c policyPreviewCmd) Run(a *session) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		l, err := k.Preview(a.Ctx)
		if client.IsNo(err) {
			return a.Nothing(err.Error())
		}
		if err != nil {
			return err
		}
		if c.JSON {
			err = term.NewJSONLines(a.Stdout).Write(l)
		} else {
			err = l.Print(a.Stdout)
		}
		if err == nil && l.Unmet() {
			return term.Exit(exitUnmet)
		}
		return err
	})
}

type policyApplyCmd struct {
	serverFlags
	YesRemove int    `help:"Remove this many builds although the brake holds the plan; the preview prints the number." placeholder:"N"`
	JSON      bool   `help:"Print one JSON object."`
	Plan      string `arg:"" name:"plan" help:"The number of the plan, as symdepot policy preview prints it."`
}

// Run applies a plan.
func (c policyApplyCmd) Run(a *session) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		l, err := k.Apply(a.Ctx, c.Plan, c.YesRemove)
		if client.IsNo(err) {
			return a.Nothing(err.Error())
		}
		if err != nil {
			return err
		}
		if c.JSON {
			err = term.NewJSONLines(a.Stdout).Write(l)
		} else {
			l.Print(a.Stdout)
		}
		if err == nil && l.Unmet {
			return term.Exit(exitUnmet)
		}
		return err
	})
}

// policyFault makes a fault in the text of a policy an error of usage.
func policyFault(err error) error {
	var fault *retention.Fault
	if errors.As(err, &fault) {
		return term.UsageError(err.Error())
	}
	return err
}
