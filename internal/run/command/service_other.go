//go:build !windows

package command

// daemonCommands are the commands for those who run a server.
type daemonCommands struct {
	appleCommands
	serverCommands
}
