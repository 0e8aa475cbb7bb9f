package command

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

// console is where a command reads and prints; ctx ends at Ctrl-C.
type console struct {
	ctx            context.Context
	stdin          io.Reader
	stdout, stderr io.Writer
	opt            Options
	command        string // the words of the running command, such as "token new"
}

// now is the time of the day.
func (a *console) now() time.Time {
	if a.opt.Now != nil {
		return a.opt.Now()
	}
	return time.Now()
}

// downloads are the limits of downloads of a server.
func (a *console) downloads() depot.Limits {
	if a.opt.Downloads != (depot.Limits{}) {
		return a.opt.Downloads
	}
	return setup.Limits()
}

// version is the version of the program.
func (o Options) version() string { return version.Of(o.Version) }

// nothing reports on standard error that a list is empty. The answer is no.
func (a *console) nothing(what string) error {
	fmt.Fprintln(a.stderr, "symdepot:", what)
	return term.ErrNegative
}

// print prints a line of JSON or a text.
func (a *console) print(asJSON bool, object any, format string, args ...any) error {
	if asJSON {
		return term.NewJSONLines(a.stdout).Write(object)
	}
	_, err := fmt.Fprintf(a.stdout, format, args...)
	return err
}

// localUser is the account that runs the command, for records.
func localUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}

// warn prints warnings.
func (a *console) warn(list []string) {
	for _, text := range list {
		fmt.Fprintln(a.stderr, "symdepot: warning:", text)
	}
}
