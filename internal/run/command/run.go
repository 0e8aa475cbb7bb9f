// Package command is the command line of symdepot: flags, wiring, output and exit codes. What
// decides stands in the packages below.
//
// Its files stand on each other: exit and session; the flags that commands share; one
// file for a command, or for a group of them; the table of all commands (cli), and Run.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/manual"
	"github.com/symdepot/symdepot/internal/run/mstools"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/layout"
)

// Main is the process of symdepot: it runs the command line of the process, and returns the
// exit code.
func Main(opt console.Options) int {
	if crash.IsChild(os.Args) {
		return crash.RunChild(os.Stdin, os.Stdout)
	}
	setup.CollectAt(100, 16<<20) // most commands end before they have to collect anything
	symbolicate.Generator = "symdepot " + opt.Program()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, mstools.CommandLine(os.Args), os.Stdin, os.Stdout, os.Stderr, opt)
}

// Run runs a command line, without the name of the program, and returns the exit code. The
// command stops when ctx ends.
func Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, opt console.Options) int {
	if len(args) == 1 {
		switch args[0] {
		case "--version", "-V": // commands have a --version of their own
			args = []string{"version"}
		case "/?", "-?":
			args = []string{"--help"}
		}
	}
	a := &console.Console{Ctx: ctx, Stdin: stdin, Stdout: term.Output{Writer: stdout}, Stderr: stderr, Options: opt}
	if len(args) > 0 && args[0] == "symstore" {
		return runSymstore(a, args[1:])
	}
	var c cli
	exited := -1
	parser, err := newParser(&c, stdout, stderr, func(code int) { exited = code })
	if err != nil {
		fmt.Fprintln(stderr, "symdepot:", err)
		return ExitFailed
	}
	if len(args) == 0 { // for people; a script that lost its arguments must not go on
		root := describeNode(parser.Model.Node)
		fmt.Fprint(stderr, manual.FirstScreen(firstSteps, &root))
		return ExitUsage
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help or --version was printed
	}
	s := &session{Console: a, site: &setup.Site{Depot: c.Depot, Blobs: c.Blobs}}
	s.site.Note = func(text string) { fmt.Fprintln(stderr, "symdepot:", text) }
	if term.IsTerminal(stderr) {
		s.site.Acts = s.site.Note
	}
	var file *fs.PathError
	switch {
	case err == nil:
		a.Command = strings.TrimPrefix(commandOf(kctx, nil), "symdepot ")
		again := rerun(func(args []string) int { return Run(ctx, args, stdin, a.Stdout, stderr, opt) })
		err = kctx.Run(s, a, parser, again)
	case errors.As(err, &file) && file.Op == "write": // the help could not be printed
		err = term.OutputError{Err: file}
	}
	var own term.Exit
	if errors.As(err, &own) {
		return int(own)
	}
	code := exitCode(err)
	if err != nil && code != ExitNo {
		fmt.Fprintln(stderr, "symdepot:", describe(err, s.site))
	}
	if code == ExitUsage {
		fmt.Fprintf(stderr, "Try: %s --help\n", commandOf(kctx, err))
	}
	return code
}

// newParser returns the parser of a command line, with all texts. exit is called after a help
// was printed.
func newParser(c *cli, stdout, stderr io.Writer, exit func(code int)) (*kong.Kong, error) {
	parser, err := kong.New(c,
		kong.Name("symdepot"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		kong.Vars{"get_layouts": strings.Join(layout.Names(layout.Folders()), ",")},
		kong.Exit(exit),
		kong.ConfigureHelp(shortHelp),
		kong.Help(printHelp),
	)
	if err != nil {
		return nil, err
	}
	parser.Model.HelpFlag.Help = "Print the help, with examples."
	return parser, addHelp(parser.Model.Node)
}

// commandOf is the command that a command line names, as far as it could be
// read.
func commandOf(ctx *kong.Context, err error) string {
	var parse *kong.ParseError
	if errors.As(err, &parse) {
		ctx = parse.Context
	}
	if ctx != nil && ctx.Selected() != nil {
		return ctx.Selected().FullPath()
	}
	return "symdepot"
}
