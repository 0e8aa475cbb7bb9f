package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// The exit codes; every command's help names the ones it uses.
const (
	ExitOK          = 0
	ExitNo          = 1   // the answer is no: nothing found, nothing to add, faults found
	ExitUsage       = 2   // the command line is wrong, or empty
	ExitFailed      = 3   // reading, writing or listening failed
	ExitDepot       = 4   // the depot is missing, damaged or of a newer format
	ExitCredentials = 5   // a server refuses the credentials
	ExitUnreachable = 7   // a server cannot be reached
	ExitInterrupted = 130 // Ctrl-C; nothing was left half done
)

// exitCode maps an error to the exit code.
func exitCode(err error) int {
	var usage term.UsageError
	var parse *kong.ParseError
	switch {
	case err == nil:
		return ExitOK
	case errors.Is(err, term.ErrNegative), errors.Is(err, depot.ErrEmpty):
		return ExitNo
	case errors.As(err, &usage), errors.As(err, &parse):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.Is(err, client.ErrCredentials):
		return ExitCredentials
	case errors.Is(err, client.ErrUnreachable):
		return ExitUnreachable
	case errors.Is(err, home.ErrNoDepot), errors.Is(err, home.ErrMoved), errors.Is(err, home.ErrNewer), home.IsUnusable(err):
		return ExitDepot
	}
	return ExitFailed
}

// describe adds the next step to errors that have one.
func describe(err error, site *setup.Site) string {
	var out term.OutputError
	var parse *kong.ParseError
	var unfinished *lifecycle.UnfinishedError
	var denied *account.DeniedError
	switch {
	case errors.As(err, &parse):
		return commandLineText(parse)
	case errors.As(err, &unfinished):
		return err.Error()
	case errors.Is(err, context.Canceled):
		return "interrupted; nothing was left half done"
	case errors.As(err, &out):
		return out.Error()
	case durable.IsNoSpace(err):
		return fmt.Sprintf("%v\nThe disk is full; the depot is unchanged. "+
			"Free space there, for instance with `symdepot rm` and `symdepot gc --empty-trash`, and run the command again.", err)
	case errors.Is(err, fs.ErrPermission) && errors.As(err, new(*bucket.Error)):
		return fmt.Sprintf("%v\nCheck the credentials of the bucket (AWS_ACCESS_KEY_ID and the like) and their rights.", err)
	case errors.As(err, &denied):
		return fmt.Sprintf("%v\nType: %s", err, denied.Cure)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%v\n%s", err, site.Permission())
	}
	return err.Error()
}
