// Command symdepot keeps the debug symbols of every build of every platform
// and answers every debugger in the protocol that it already speaks.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/mstools"
	"github.com/symdepot/symdepot/internal/setup"
	"github.com/symdepot/symdepot/internal/symbolicate"
	"github.com/symdepot/symdepot/internal/term"
)

// The exit codes; every command's help names the ones it uses.
const (
	exitOK          = 0
	exitNo          = 1   // the answer is no: nothing found, nothing to add, faults found
	exitUsage       = 2   // the command line is wrong
	exitFailed      = 3   // reading, writing or listening failed
	exitDepot       = 4   // the depot is missing, damaged or of a newer format
	exitCredentials = 5   // a server refuses the credentials
	exitUnreachable = 7   // a server cannot be reached
	exitInterrupted = 130 // Ctrl-C; nothing was left half done
)

// exitCode maps an error to the exit code.
func exitCode(err error) int {
	var usage term.UsageError
	var parse *kong.ParseError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, term.ErrNegative), errors.Is(err, depot.ErrEmpty):
		return exitNo
	case errors.As(err, &usage), errors.As(err, &parse):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, client.ErrCredentials):
		return exitCredentials
	case errors.Is(err, client.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, home.ErrNoDepot), errors.Is(err, home.ErrMoved), errors.Is(err, home.ErrNewer), home.IsUnusable(err):
		return exitDepot
	}
	return exitFailed
}

// console is where a command prints, and ctx ends at Ctrl-C.
type console struct {
	ctx            context.Context
	stdout, stderr io.Writer
}

// app is what a command needs that works on a depot.
type app struct {
	*console
	site *setup.Site
}

type cli struct {
	Depot string `help:"${cli_depot}" env:"SYMDEPOT_DEPOT" placeholder:"DIR"`
	Blobs string `help:"${cli_blobs}" env:"SYMDEPOT_DEPOT_BLOBS" placeholder:"URL"`

	Identify identifyCmd `cmd:"" nodepot:"" help:"Print what files are and under which paths debuggers request them."`
	Add      addCmd      `cmd:"" help:"Add files, folders and archives to the depot as one transaction."`
	Import   importCmd   `cmd:"" help:"Import a tree of symbol files: a symbol store with its transactions, or any other layout."`
	Export   exportCmd   `cmd:"" help:"Write the depot's files as a tree of any layout, for a plain web server or a bucket."`
	Push     pushCmd     `cmd:"" nodepot:"" help:"Push files, folders and archives to a server as one transaction."`
	Serve    serveCmd    `cmd:"" help:"Serve symbol files to debuggers over HTTP."`
	Watch    watchCmd    `cmd:"" help:"Index a folder of builds and packages where it lies, without a server."`
	Proxy    proxyCmd    `cmd:"" help:"Serve symbol files of other servers on this machine, without a configuration."`
	Find     findCmd     `cmd:"" help:"Find objects by name, by id, or by a local file."`
	List     listCmd     `cmd:"" help:"List transactions."`
	Show     showCmd     `cmd:"" help:"Show one transaction with its files."`
	Rm       rmCmd       `cmd:"" help:"Remove transactions."`
	Undo     undoCmd     `cmd:"" help:"Restore removed transactions from the trash."`
	Policy   policyCmd   `cmd:"" help:"Say which transactions are kept, and remove the others."`
	Promote  promoteCmd  `cmd:"" help:"Move a transaction to another class of the retention policy."`
	Hold     holdCmd     `cmd:"" help:"Protect a transaction from removal."`
	Unhold   unholdCmd   `cmd:"" help:"Release the holds on a transaction."`
	Comment  commentCmd  `cmd:"" help:"Replace the comment of a transaction."`
	Usage    usageCmd    `cmd:"" help:"Print what takes the space of the depot, and what gc or the policy would free."`
	Gc       gcCmd       `cmd:"" help:"Free the space of contents that no transaction refers to."`
	Verify   verifyCmd   `cmd:"" help:"Check every stored byte and every row of the index."`
	Keep     depotCmd    `cmd:"" name:"depot" help:"Back up, restore and move a depot."`
	Get      getCmd      `cmd:"" help:"Get symbol files, from the depot or from upstreams, and write them to disk."`
	DumpSyms dumpSymsCmd `cmd:"" nodepot:"" help:"Write the Breakpad symbol file of a PDB, an ELF file or a Mach-O image."`
	Lookup   lookupCmd   `cmd:"" name:"symbolicate" help:"Print the function, the file and the line of addresses."`
	Srcsrv   srcsrvCmd   `cmd:"" nodepot:"" help:"Print where debuggers get the source files of a PDB, or write it into the PDB."`
	Prefetch prefetchCmd `cmd:"" help:"Download what a manifest, a folder or a dump needs."`
	Bundle   bundleCmd   `cmd:"" help:"Write symbol files into one signed archive."`
	Keygen   keygenCmd   `cmd:"" nodepot:"" help:"Make keys to sign bundles with."`
	Config   configCmd   `cmd:"" help:"Check a configuration file, or print one with every key."`
	Path     pathCmd     `cmd:"" nodepot:"" help:"Explain symbol paths of debuggers."`
	Missing  missingCmd  `cmd:"" help:"List requests that neither the depot nor an upstream could answer."`
	Why      whyCmd      `cmd:"" help:"Explain why a debugger does or does not find a file."`
	Cache    cacheCmd    `cmd:"" help:"Examine and evict files that were downloaded from upstreams."`
	Cab      cabCmd      `cmd:"" nodepot:"" help:"Write, list and extract cabinets."`
	Token    tokenCmd    `cmd:"" help:"Make, list and revoke access tokens."`
	Audit    auditCmd    `cmd:"" nodepot:"" help:"List downloads that needed credentials."`
	Work     workCmd     `cmd:"" nodepot:"" help:"Do the jobs of a server on this machine: make SymCache files and Breakpad symbol files."`
	Jobs     jobsCmd     `cmd:"" help:"List, cancel and retry background jobs."`
	daemonCommands
	Symstore   symstoreCmd   `cmd:"" nodepot:"" passthrough:"" help:"${cli_symstore}"`
	Help       helpCmd       `cmd:"" nodepot:"" help:"Print the help of a command."`
	Completion completionCmd `cmd:"" nodepot:"" help:"Print a completion script for bash, zsh, fish or PowerShell."`
	Man        manCmd        `cmd:"" nodepot:"" hidden:"" help:"Write man pages."`
	Version    versionCmd    `cmd:"" nodepot:"" help:"Print the version."`
}

// description is what symdepot --help begins with.
const description = "" +
	"symdepot stores the debug symbols of every build of every platform and serves each debugger in the protocol that it speaks.\n" +
	"\n" +
	"First steps:\n" +
	"\n" +
	"  symdepot serve --add build/     add a build and serve it\n" +
	"  symdepot identify build/        only look\n" +
	"  symdepot --version\n" +
	"\n" +
	"Exit codes: 0 done, 1 the answer is no, 2 wrong command line, 3 failed, 4 depot missing, " +
	"damaged or newer, 5 credentials refused, 7 server not reachable, 130 interrupted."

func main() {
	os.Exit(run(mstools.CommandLine(os.Args), os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 1 && args[0] == "--version" { // commands have a --version of their own
		args = []string{"version"}
	}
	if len(args) > 0 && args[0] == "symstore" {
		return runSymstore(ctx, args[1:], output{stdout}, stderr)
	}
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("symdepot"),
		kong.Description(description),
		kong.Writers(stdout, stderr),
		helpWords(),
		kong.Exit(func(code int) { exited = code }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Help(printHelp),
	)
	if err != nil {
		fmt.Fprintln(stderr, "symdepot:", err)
		return exitFailed
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help or --version was printed
	}
	a := &app{console: &console{ctx, output{stdout}, stderr}, site: &setup.Site{Depot: c.Depot, Blobs: c.Blobs}}
	a.site.Note = func(text string) { fmt.Fprintln(stderr, "symdepot:", text) }
	var file *fs.PathError
	switch {
	case err == nil:
		err = kctx.Run(a, a.console, parser)
	case errors.As(err, &file) && file.Op == "write": // the help could not be printed
		err = outputError{file}
	}
	var own term.Exit
	if errors.As(err, &own) {
		return int(own)
	}
	code := exitCode(err)
	if err != nil && code != exitNo {
		fmt.Fprintln(stderr, "symdepot:", a.describe(err))
	}
	if code == exitUsage {
		fmt.Fprintf(stderr, "Try: %s --help\n", commandOf(kctx, err))
	}
	return code
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

// output is standard output. Its errors say so.
type output struct{ io.Writer }

// outputError is an error of standard output.
type outputError struct{ error }

func (e outputError) Unwrap() error { return e.error }

// Write implements io.Writer.
func (o output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		err = outputError{err}
	}
	return n, err
}

// describe adds the next step to errors that have one.
func (a *app) describe(err error) string {
	var out outputError
	var parse *kong.ParseError
	var unfinished *lifecycle.UnfinishedError
	switch {
	case errors.As(err, &parse):
		return term.FlagText(err.Error())
	case errors.As(err, &unfinished):
		return err.Error()
	case errors.Is(err, context.Canceled):
		return "interrupted; nothing was left half done"
	case errors.As(err, &out):
		return fmt.Sprintf("cannot write to standard output: %v", out.error)
	case durable.IsNoSpace(err):
		return fmt.Sprintf("%v\nThe disk is full; the depot is unchanged. "+
			"Free space there, for instance with `symdepot rm` and `symdepot gc`, and run the command again.", err)
	case errors.Is(err, fs.ErrPermission) && a.site.Opened() != "" && !writable(a.site.Opened()):
		return fmt.Sprintf("%v\nThis user may not use the depot %s. Run the command as its owner, "+
			"name a group of users with depot.group, or name another depot with --depot.", err, a.site.Opened())
	case errors.Is(err, fs.ErrPermission) && errors.As(err, new(*bucket.Error)):
		return fmt.Sprintf("%v\nCheck the credentials of the bucket (AWS_ACCESS_KEY_ID and the like) and their rights.", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%v\nCheck the owner and the permissions of the file.", err)
	}
	return err.Error()
}

// writable reports whether files can be made in a folder.
func writable(dir string) bool {
	f, err := os.CreateTemp(dir, ".symdepot-*")
	if err != nil {
		return false
	}
	_ = f.Close()
	_ = os.Remove(f.Name())
	return true
}

// open opens the depot for a command.
func (a *app) open(opt depot.Options) (*depot.Depot, error) { return a.site.Open(a.ctx, opt) }

// openFor opens the depot for a command that adds files; nil: a dry run found none.
func (a *app) openFor(dryRun bool) (*depot.Depot, error) { return a.site.OpenFor(a.ctx, dryRun) }

// dir returns the address of the depot.
func (a *app) dir() (string, error) { return a.site.Dir() }

// config reads the configuration once. named is the file of --config.
func (a *app) config(named string) (*config.Config, error) { return a.site.Config(named) }

type versionCmd struct{}

// version is set by release builds.
var version = "devel"

// Run prints the version.
func (versionCmd) Run(a *console) error {
	_, err := fmt.Fprintln(a.stdout, versionText())
	return err
}

// versionText is the program with its version and platform.
func versionText() string {
	return fmt.Sprintf("symdepot %s %s %s/%s", programVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// programVersion is the version of the program.
func programVersion() string {
	if bi, ok := debug.ReadBuildInfo(); ok && version == "devel" && bi.Main.Version != "" {
		return bi.Main.Version
	}
	return version
}

func init() { symbolicate.Generator = "symdepot " + programVersion() }

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
