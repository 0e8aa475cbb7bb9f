//go:build !windows

package command

// serviceCommands are the commands of the service of Windows.
type serviceCommands struct{}
