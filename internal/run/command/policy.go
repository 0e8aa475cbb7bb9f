package command

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/run/client"
)

type policyCmd struct {
	Show    policyShowCmd    `cmd:"" help:"Print the retention policy."`
	Set     policySetCmd     `cmd:"" help:"Set the retention policy, or the rules of one class."`
	Check   policyCheckCmd   `cmd:"" nodepot:"" help:"Check a retention policy without setting it."`
	Preview policyPreviewCmd `cmd:"" help:"Print what the policy would remove, and the number of the plan."`
	Apply   policyApplyCmd   `cmd:"" help:"Apply a previewed plan."`
}

type policyShowCmd struct {
	serverFlags
	JSON bool `help:"Print one JSON object."`
}

// Run prints the policy.
func (c policyShowCmd) Run(a *session) error {
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		p, err := k.Policy(a.Ctx)
		if err != nil {
			return err
		}
		if p.Number == 0 && !c.JSON {
			return a.Nothing(lifecycle.ErrNoPolicy.Error())
		}
		return a.Print(c.JSON, p, "%s\n", strings.TrimRight(p.Text, "\n"))
	})
}

type policySetCmd struct {
	serverFlags
	KeepLast   int           `help:"With a class: keep this many of the newest builds of each product and branch." placeholder:"N"`
	KeepWithin term.Duration `help:"text:policy_set_keep_within" placeholder:"TIME" xor:"within"`
	KeepDays   int           `help:"With a class: --keep-within in days." placeholder:"N" xor:"within"`
	KeepUsed   term.Duration `help:"With a class: keep builds that were read at most that long ago." placeholder:"TIME"`
	Cap        term.ByteSize `help:"With a class: limit the bytes of its builds." placeholder:"SIZE"`
	JSON       bool          `help:"Print one JSON object."`
	File       string        `arg:"" name:"file" help:"The policy, in YAML; - is standard input. With rules: the name of a class."`
}

// Run sets the policy.
func (c policySetCmd) Run(a *session) error {
	within := c.KeepWithin + term.Duration(c.KeepDays)*term.Duration(24*time.Hour)
	rules := retention.Rules{KeepLast: c.KeepLast, KeepWithin: within, KeepUsed: c.KeepUsed}
	return a.api(c.serverFlags, depot.Options{}, func(k *client.API) error {
		before, file := int64(-1), c.File
		var text []byte
		var err error
		made := ""
		if rules == (retention.Rules{}) && c.Cap == 0 {
			text, err = a.readPolicy(c.File)
		} else {
			var p display.Policy
			if p, err = k.Policy(a.Ctx); err != nil {
				return err
			}
			before, file = p.Number, "policy"
			if made = retention.NewClass(file, []byte(p.Text), c.File); made != "" {
				made = "; " + made
			}
			text, err = retention.SetRules(file, []byte(p.Text), c.File, rules, c.Cap)
		}
		if err != nil {
			return policyFault(err)
		}
		p, err := k.SetPolicy(a.Ctx, file, text, before)
		if err != nil {
			return policyFault(err)
		}
		a.Warn(p.Warnings)
		return a.Print(c.JSON, p, "the policy is set%s; nothing was removed. symdepot policy preview shows what it would remove\n", made)
	})
}

// readPolicy reads the text of a policy, at most one byte more than is allowed.
func (a *session) readPolicy(name string) ([]byte, error) {
	in := a.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }() // only read
		in = f
	}
	return io.ReadAll(io.LimitReader(in, retention.MaxPolicyBytes+1))
}
