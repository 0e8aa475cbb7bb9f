// Package credentialcmd is the command symdepot credential.
package credentialcmd

import (
	"os"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/credential"
)

// Command answers one request of a debugger or of git.
type Command struct {
	Operation string `arg:"" help:"What to do: get, store or erase, in any letter case."`
	Debugger  bool   `help:"Take every request for one of a debugger, and none for one of git."`
}

// Run answers the request on standard input. GIT_TERMINAL_PROMPT=0, with which scripts forbid
// git to ask, forbids to open a sign-in.
func (c Command) Run(a *console.Console, logins credential.Logins) error {
	silent := slices.Contains([]string{"0", "false", "no", "off"}, strings.ToLower(os.Getenv("GIT_TERMINAL_PROMPT")))
	h := credential.Helper{Logins: logins, Debugger: c.Debugger, Silent: silent}
	return h.Run(a.Ctx, c.Operation, a.Stdin, a.Stdout)
}
