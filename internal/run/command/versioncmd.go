package command

import "fmt"

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run(a *console) error {
	_, err := fmt.Fprintln(a.stdout, a.opt.versionText())
	return err
}
