package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/version"
)

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *console.Console) error {
	_, err := fmt.Fprintln(a.Stdout, version.Text(a.Options.Version))
	return err
}
