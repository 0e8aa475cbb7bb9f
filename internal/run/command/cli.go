package command

import (
	"github.com/symdepot/symdepot/internal/run/formatcmd"
	"github.com/symdepot/symdepot/internal/run/logincmd"
	"github.com/symdepot/symdepot/internal/run/pathcmd"
)

// cli is the command line. Its commands stand in groups, in the order in which the help lists them.
type cli struct {
	Depot   string  `help:"text:cli_depot" env:"SYMDEPOT_DEPOT" placeholder:"DIR"`
	Blobs   string  `help:"text:cli_blobs" env:"SYMDEPOT_DEPOT_BLOBS" placeholder:"URL"`
	HelpAll helpAll `help:"Show every flag, and every command below this one."`

	startCommands   `group:"Start:"`
	lookCommands    `group:"Look:"`
	publishCommands `group:"Build and publish:"`
	keepCommands    `group:"Keep and remove:"`
	operateCommands `group:"Operate:"`
	formatCommands  `group:"Formats:"`
	ownCommands     `group:"This program:"`
}

// startCommands are those of the first day.
type startCommands struct {
	Serve      serveCmd            `cmd:"" help:"Serve symbol files to debuggers over HTTP."`
	Add        addCmd              `cmd:"" help:"Add files, folders and archives to the depot."`
	Proxy      proxyCmd            `cmd:"" help:"Serve and cache the files of other symbol servers."`
	Watch      watchCmd            `cmd:"" help:"Index a folder of builds where it lies, without a server."`
	Token      tokenCmd            `cmd:"" help:"Make, list and revoke access tokens."`
	Login      logincmd.Login      `cmd:"" nodepot:"" help:"Sign in to a server, once for all programs of this user."`
	Logout     logincmd.Logout     `cmd:"" nodepot:"" help:"End logins of this machine."`
	Credential logincmd.Credential `cmd:"" nodepot:"" help:"Answer debuggers and git that want a credential."`
	Config     configCmd           `cmd:"" help:"Check a configuration file, or print one with every key."`
	Doctor     doctorCmd           `cmd:"" help:"Say what is wrong with the installation, and what to do."`
}

// lookCommands answer questions and change nothing, except get, which may download.
type lookCommands struct {
	Identify identifyCmd  `cmd:"" nodepot:"" help:"Print what files are and where debuggers look for them."`
	Find     findCmd      `cmd:"" help:"Find files by name, by id, or by a local file."`
	List     listCmd      `cmd:"" help:"List builds, the newest first."`
	Ls       listCmd      `cmd:"" hidden:"" help:"The same as symdepot list."`
	Trace    whyCmd       `cmd:"" hidden:"" help:"The same as symdepot why."`
	Misses   missingCmd   `cmd:"" hidden:"" help:"The same as symdepot missing."`
	Du       usageCmd     `cmd:"" name:"usage" hidden:"" help:"The same as symdepot disk."`
	Show     showCmd      `cmd:"" help:"Show one build with its files."`
	Get      getCmd       `cmd:"" help:"Get symbol files from the depot or from upstreams."`
	Why      whyCmd       `cmd:"" help:"Say why a debugger does or does not find a file."`
	Missing  missingCmd   `cmd:"" help:"List the files that clients asked for and did not get."`
	Stack    stackCmd     `cmd:"" help:"Print why a program crashed, and its stacks, from a dump."`
	Path     pathcmd.Path `cmd:"" nodepot:"" help:"Explain and test symbol paths of debuggers."`
	Usage    usageCmd     `cmd:"" name:"disk" help:"Print what takes the space of the depot."`
}

// publishCommands bring builds into depots, and out of them.
type publishCommands struct {
	Push     pushCmd          `cmd:"" nodepot:"" help:"Push files, folders and archives to a server."`
	Check    checkCmd         `cmd:"" help:"Check whether what ships has its symbols stored."`
	Import   importCmd        `cmd:"" help:"Import a symbol store or another tree of symbol files."`
	Export   exportCmd        `cmd:"" help:"Write the depot as a tree of files, in any layout."`
	Prefetch prefetchCmd      `cmd:"" help:"Download what a manifest, a folder or a dump needs."`
	Bundle   bundleCmd        `cmd:"" help:"Write symbol files into one signed archive."`
	Keygen   keygenCmd        `cmd:"" nodepot:"" help:"Make keys to sign bundles with."`
	Comment  commentCmd       `cmd:"" help:"Replace the comment of a build."`
	Srcsrv   formatcmd.Srcsrv `cmd:"" nodepot:"" help:"Print or write where debuggers get the sources of a PDB."`
}

// keepCommands say what stays, and how much space it takes.
type keepCommands struct {
	Policy  policyCmd  `cmd:"" help:"Say which builds are kept; remove the others."`
	Promote promoteCmd `cmd:"" help:"Move a build to another class of the policy."`
	Hold    holdCmd    `cmd:"" help:"Protect a build from removal."`
	Unhold  unholdCmd  `cmd:"" help:"Release the holds on a build."`
	Rm      rmCmd      `cmd:"" help:"Remove builds."`
	Undo    undoCmd    `cmd:"" help:"Restore removed builds from the trash."`
	Gc      gcCmd      `cmd:"" help:"Delete stored files that no build uses any more."`
	Cache   cacheCmd   `cmd:"" help:"List and evict files that were downloaded."`
	Cool    coolCmd    `cmd:"" help:"Store unused files as small differences."`
	Warm    warmCmd    `cmd:"" help:"Restore cold files: store them whole again."`
}

// operateCommands are for those who run a server.
type operateCommands struct {
	Verify  verifyCmd        `cmd:"" help:"Check every stored file and the index."`
	Keep    depotCmd         `cmd:"" name:"depot" help:"Back up, restore and move a depot."`
	Jobs    jobsCmd          `cmd:"" help:"List, cancel and retry background jobs."`
	Work    workCmd          `cmd:"" nodepot:"" help:"Do the jobs of a server on this machine."`
	Audit   auditCmd         `cmd:"" nodepot:"" help:"List downloads that needed credentials."`
	Health  healthCmd        `cmd:"" nodepot:"" help:"Ask a running server whether it is ready."`
	Support supportBundleCmd `cmd:"" name:"support-bundle" help:"Write a zip file for a report of a problem; no secrets."`
	Windows serviceCommands  `embed:""`
}

// formatCommands read and write files of other programs.
type formatCommands struct {
	Lookup      lookupCmd          `cmd:"" name:"symbolicate" help:"Print the function, the file and the line of addresses."`
	Cab         formatcmd.Cab      `cmd:"" nodepot:"" help:"Write, list and extract cabinets."`
	DumpSyms    formatcmd.DumpSyms `cmd:"" nodepot:"" help:"Write a Breakpad symbol file (.sym) of a module."`
	Strip       formatcmd.Strip    `cmd:"" nodepot:"" help:"Write the public form of a file: names, no lines or types."`
	Cold        coldCmd            `cmd:"" help:"Examine cold files."`
	DsymForUUID dsymCmd            `cmd:"" name:"dsymforuuid" help:"Get dSYM bundles by UUID, as LLDB on macOS wants them."`
	Symstore    symstoreCmd        `cmd:"" nodepot:"" passthrough:"" help:"Work as symstore.exe: add, del, query, check and others."`
}

// ownCommands are about the program itself.
type ownCommands struct {
	Help       helpCmd       `cmd:"" nodepot:"" help:"Print the help of a command; of all: symdepot help all."`
	Completion completionCmd `cmd:"" nodepot:"" help:"Print a completion script for a shell."`
	Man        manCmd        `cmd:"" nodepot:"" hidden:"" help:"Write man pages."`
	Version    versionCmd    `cmd:"" nodepot:"" help:"Print the version and the commit."`
}

// firstSteps is what the help of the program begins with, and what symdepot alone prints.
const firstSteps = "" +
	"symdepot keeps the debug symbols of all platforms and serves every debugger.\n" +
	"\n" +
	"First steps:\n" +
	"\n" +
	"  symdepot identify build/             look at a build; nothing is changed\n" +
	"  symdepot serve --add build/          add it, serve it, and print the lines for debuggers\n" +
	"  symdepot why build/app               say why a debugger does or does not find its symbols\n" +
	"  symdepot push --server URL build/    publish a build to a server, as in CI\n"

// description is what symdepot --help begins with.
const description = firstSteps + "\n" +
	"Exit codes: 0 done, 1 the answer is no, 2 wrong command line or none, 3 failed, 4 depot missing, " +
	"damaged or newer, 5 credentials refused, 7 server not reachable, 130 interrupted."
