package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/run/version"
)

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *console) error {
	_, err := fmt.Fprintln(a.stdout, version.Text(a.opt.Version))
	return err
}
