package command

// cli is the command line.
type cli struct {
	Depot string `help:"text:cli_depot" env:"SYMDEPOT_DEPOT" placeholder:"DIR"`
	Blobs string `help:"text:cli_blobs" env:"SYMDEPOT_DEPOT_BLOBS" placeholder:"URL"`

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
	Symstore   symstoreCmd   `cmd:"" nodepot:"" passthrough:"" help:"text:cli_symstore"`
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
