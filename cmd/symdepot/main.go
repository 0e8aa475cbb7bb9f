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
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/config"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/mstools"
	"github.com/symdepot/symdepot/internal/term"
)

// The exit codes; every command's help names the ones it uses.
const (
	exitOK          = 0
	exitNo          = 1   // the answer is no: nothing found, nothing to add, faults found
	exitUsage       = 2   // the command line is wrong
	exitFailed      = 3   // reading, writing or listening failed
	exitDepot       = 4   // the depot is missing, damaged or of a newer format
	exitInterrupted = 130 // Ctrl-C; nothing was left half done
)

// exitCode maps an error to the exit code.
func exitCode(err error) int {
	var usage term.UsageError
	var parse *kong.ParseError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, term.ErrNo), errors.Is(err, depot.ErrEmpty):
		return exitNo
	case errors.As(err, &usage), errors.As(err, &parse):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, depot.ErrNoDepot), errors.Is(err, depot.ErrNewer), depot.IsDamaged(err):
		return exitDepot
	}
	return exitFailed
}

// app is what a command needs of the world.
type app struct {
	ctx            context.Context
	stdout, stderr io.Writer
	depotDir       string // of --depot or SYMDEPOT_DEPOT; empty: the configured one
	conf           *config.Config
}

type cli struct {
	Depot string `help:"Folder of the depot. Default: the key depot of the configuration file (symdepot config check shows it), else the platform's data folder." env:"SYMDEPOT_DEPOT" placeholder:"DIR"`

	Identify identifyCmd `cmd:"" help:"Say what files are and under which paths debuggers ask for them."`
	Add      addCmd      `cmd:"" help:"Add files, folders and archives to the depot as one transaction."`
	Import   importCmd   `cmd:"" help:"Take a tree of symbol files over: a symbol store with its transactions, or any other layout."`
	Export   exportCmd   `cmd:"" help:"Write the depot's files as a tree of any layout, for a plain web server or a bucket."`
	Serve    serveCmd    `cmd:"" help:"Answer debuggers over HTTP."`
	Proxy    proxyCmd    `cmd:"" help:"Answer debuggers on this machine from other servers, with no configuration."`
	Find     findCmd     `cmd:"" help:"Look for objects by name, by id, or by a local file."`
	List     listCmd     `cmd:"" help:"List transactions."`
	Show     showCmd     `cmd:"" help:"Show one transaction with its files."`
	Rm       rmCmd       `cmd:"" help:"Remove transactions."`
	Gc       gcCmd       `cmd:"" help:"Free the space of what no transaction holds any more."`
	Verify   verifyCmd   `cmd:"" help:"Check every stored byte and every row."`
	Get      getCmd      `cmd:"" help:"Get symbol files, from the depot or from upstreams, and write them to disk."`
	Prefetch prefetchCmd `cmd:"" help:"Fetch what a manifest, a folder or a dump needs."`
	Bundle   bundleCmd   `cmd:"" help:"Write symbol files into one signed archive."`
	Keygen   keygenCmd   `cmd:"" help:"Make keys to sign bundles with."`
	Config   configCmd   `cmd:"" help:"Check a configuration file, or print one with every key."`
	Path     pathCmd     `cmd:"" help:"Explain symbol paths of debuggers."`
	Missing  missingCmd  `cmd:"" help:"List what clients asked for and nobody had."`
	Cache    cacheCmd    `cmd:"" help:"Look at what was fetched from upstreams, and let go of it."`
	Cab      cabCmd      `cmd:"" help:"Write, list and extract cabinets."`
	Token    tokenCmd    `cmd:"" help:"Make, list and end the tokens that let tools in."`
	Audit    auditCmd    `cmd:"" help:"List who read which files that are not for everybody."`
	Work     workCmd     `cmd:"" help:"Do a server's jobs with programs of this machine, such as transcoders."`
	Jobs     jobsCmd     `cmd:"" help:"Look at background jobs, cancel them or do them again."`
	Symstore symstoreCmd `cmd:"" passthrough:"" help:"What symstore.exe and its companions do: add, del, query, check, convert, age, chk."`
	Version  versionCmd  `cmd:"" help:"Print the version."`
}

func main() {
	os.Exit(run(mstools.CommandLine(os.Args), os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("symdepot"),
		kong.Description("symdepot keeps the debug symbols of every build of every platform and answers every debugger in its own protocol.\n\nFirst steps:\n\n  symdepot serve --add build/     add a build and serve it\n  symdepot identify build/        only look\n\nExit codes: 0 done, 1 the answer is no, 2 wrong command line, 3 failed, 4 depot missing, damaged or newer, 130 interrupted."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { exited = code }),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		fmt.Fprintln(stderr, "symdepot:", err)
		return exitFailed
	}
	kctx, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help was printed
	}
	if err != nil {
		fmt.Fprintf(stderr, "symdepot: %v\nTry: symdepot --help\n", err)
		return exitUsage
	}
	a := &app{ctx: ctx, stdout: stdout, stderr: stderr, depotDir: c.Depot}
	err = kctx.Run(a)
	var own term.Exit
	if errors.As(err, &own) {
		return int(own)
	}
	if err != nil && exitCode(err) != exitNo {
		fmt.Fprintln(stderr, "symdepot:", describe(err))
	}
	return exitCode(err)
}

// describe adds the next step to errors that have one.
func describe(err error) string {
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted; nothing was left half done"
	case durable.IsNoSpace(err):
		return fmt.Sprintf("%v\nThe disk is full; the depot is as it was before. Free space there, for instance with `symdepot rm` and `symdepot gc`, and run the command again.", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("%v\nCheck who owns the file and who may write there.", err)
	}
	return err.Error()
}

// open opens the depot for a command.
func (a *app) open(opt depot.Options) (*depot.Depot, error) {
	dir, err := a.dir()
	if err != nil {
		return nil, err
	}
	return depot.Open(a.ctx, dir, opt)
}

// dir returns the depot's folder: that of --depot or SYMDEPOT_DEPOT, else the
// configured one, else the platform's.
func (a *app) dir() (string, error) {
	if a.depotDir != "" {
		return a.depotDir, nil
	}
	conf, err := a.config("")
	if err != nil {
		return "", err
	}
	dir, err := conf.DepotDir()
	if err != nil {
		return "", term.UsageError(err.Error())
	}
	return dir, nil
}

// config reads the configuration once. named is the file of --config.
func (a *app) config(named string) (*config.Config, error) {
	if a.conf != nil {
		return a.conf, nil
	}
	path := config.Find(named, os.Getenv)
	a.noteIgnored(path)
	conf, err := config.Load(path, os.Getenv)
	if fault := (*config.Error)(nil); errors.As(err, &fault) {
		return nil, term.UsageError(err.Error())
	}
	if err != nil {
		return nil, err
	}
	a.conf = conf
	return conf, nil
}

// noteIgnored reports a configuration in the current folder, which is not read.
func (a *app) noteIgnored(used string) {
	if w := config.IgnoredHere(used); w != "" {
		fmt.Fprintln(a.stderr, "symdepot:", w)
	}
}

type versionCmd struct{}

// version is set by release builds.
var version = "devel"

func (versionCmd) Run(a *app) error {
	v := version
	if bi, ok := debug.ReadBuildInfo(); ok && v == "devel" && bi.Main.Version != "" {
		v = bi.Main.Version
	}
	_, err := fmt.Fprintf(a.stdout, "symdepot %s %s %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
