// Package console is where a command reads and prints, and which program it is of.
package console

import (
	"context"
	"fmt"
	"io"
	"os/user"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/run/version"
)

// Options say which program the commands are, and what differs in tests. The zero value is a
// program that was built from source.
type Options struct {
	// Version is that of a release; empty is that of the build.
	Version string
	// Now is the clock of the commands; nil is time.Now. What works on a depot has a clock of
	// its own.
	Now func() time.Time
	// Downloads are the limits of downloads of servers; zero are those of setup.Limits.
	Downloads depot.Limits
}

// Console is where a command reads and prints. All fields but Options and Command are required.
type Console struct {
	// Ctx ends at Ctrl-C.
	Ctx            context.Context
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Options        Options
	// Command are the words of the running command, such as "token new".
	Command string
}

// Now is the time of the day.
func (a *Console) Now() time.Time {
	if a.Options.Now != nil {
		return a.Options.Now()
	}
	return time.Now()
}

// Downloads are the limits of downloads of a server.
func (a *Console) Downloads() depot.Limits {
	if a.Options.Downloads != (depot.Limits{}) {
		return a.Options.Downloads
	}
	return setup.Limits()
}

// Program is the version of the program, as it says itself.
func (o Options) Program() string { return version.Of(o.Version) }

// Nothing reports on standard error that a list is empty. The answer is no.
func (a *Console) Nothing(what string) error {
	fmt.Fprintln(a.Stderr, "symdepot:", what)
	return term.ErrNegative
}

// Print prints a line of JSON or a text.
func (a *Console) Print(asJSON bool, object any, format string, args ...any) error {
	if asJSON {
		return term.NewJSONLines(a.Stdout).Write(object)
	}
	_, err := fmt.Fprintf(a.Stdout, format, args...)
	return err
}

// LocalUser is the account that runs the command, for records.
func LocalUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// Warn prints warnings.
func (a *Console) Warn(list []string) {
	for _, text := range list {
		fmt.Fprintln(a.Stderr, "symdepot: warning:", text)
	}
}
