// Package mstools provides the command lines of Microsoft's symstore, convertstore,
// agestore and symchk: their options, output and exit codes. The stores themselves
// are package symstore.
package mstools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// The exit codes of the symstore commands. They are the error codes of Windows
// that symstore.exe returns, because build systems check for them: 32 and 80
// mean "try again".
const (
	ssOK          = 0
	ssFailed      = 1   // a file failed, or the answer is no
	ssUsage       = 2   // the command line is wrong
	ssNoStore     = 3   // the store does not exist, is not a store, or cannot be reached
	ssNoID        = 4   // no such transaction
	ssDamaged     = 5   // the records of the store are unreadable
	ssReadOnly    = 19  // the store is not writable
	ssLocked      = 32  // another writer held the lock for too long
	ssNoLocks     = 50  // the file system does not support locks
	ssInTheWay    = 80  // a file is in the way
	ssDiskFull    = 112 // the disk of the store is full
	ssBadName     = 123 // not a valid name in a store
	ssLongName    = 206 // the path is too long
	ssInterrupted = 130 // Ctrl-C; nothing is left half done
)

// errNoStore is wrapped when a store does not exist or cannot be reached.
var errNoStore = errors.New("no symbol store")

// symstoreCode maps an error to the exit code.
func symstoreCode(err error) int {
	var usage term.UsageError
	var own term.Exit
	switch {
	case err == nil:
		return ssOK
	case errors.As(err, &own):
		return int(own)
	case errors.As(err, &usage), errors.Is(err, symstore.ErrRefs):
		return ssUsage
	case errors.Is(err, context.Canceled):
		return ssInterrupted
	case errors.Is(err, symstore.ErrLocked), errors.Is(err, symstore.ErrLockLost):
		return ssLocked
	case errors.Is(err, symstore.ErrNoLocks):
		return ssNoLocks
	case errors.Is(err, symstore.ErrNoTransaction):
		return ssNoID
	case errors.Is(err, symstore.ErrDamaged):
		return ssDamaged
	case symstore.IsNoSpace(err):
		return ssDiskFull
	case errors.Is(err, syscall.ENAMETOOLONG):
		return ssLongName
	case errors.Is(err, symstore.ErrName):
		return ssBadName
	case errors.Is(err, symstore.ErrReadOnly):
		return ssReadOnly
	case errors.Is(err, symstore.ErrExists):
		return ssInTheWay
	case errors.Is(err, symstore.ErrNotStore), errors.Is(err, errNoStore):
		return ssNoStore
	}
	return ssFailed
}

// symstoreAdvice returns the next step for an error, if there is one.
func symstoreAdvice(err error) string {
	if errors.Is(err, symstore.ErrRefs) {
		return err.Error() + ". -:NOREFS goes with a store that does not exist yet, or that was created with it. Omit it, or give another /s"
	}
	switch symstoreCode(err) {
	case ssLocked:
		return err.Error() + ". Try again, or wait longer with --lock-wait 10m; nothing was stored."
	case ssNoLocks:
		return err.Error() + ". If all writers of this store use it, --locking file works on any file system; " +
			"--locking none is for a store with a single writer."
	case ssDiskFull:
		return err.Error() + ". The store is as it was before."
	case ssDamaged:
		return err.Error() + ". `symdepot symstore check --repair STORE` lists the faults and repairs them."
	case ssReadOnly:
		return err.Error() + ". Check who may write there."
	}
	return err.Error()
}

// CommandLine returns the arguments of the process, without its name. If the
// program file is named like one of Microsoft's tools, they begin with the
// command that replaces that tool. Debuggers start a credential provider with one
// argument, so its name says the rest.
func CommandLine(args []string) []string {
	base := strings.ToLower(symfile.BaseName(args[0]))
	switch strings.TrimSuffix(base, ".exe") {
	case "symstore":
		return append([]string{"symstore"}, args[1:]...)
	case "convertstore":
		return append([]string{"symstore", "convert"}, args[1:]...)
	case "agestore":
		return append([]string{"symstore", "agestore"}, args[1:]...)
	case "symchk":
		return append([]string{"symstore", "chk"}, args[1:]...)
	case "symdepot-credential":
		return append([]string{"credential", "--debugger"}, args[1:]...)
	}
	return args[1:]
}

// Env is the environment of the commands.
type Env struct {
	Stdin          io.Reader // the answer to "Are you sure?"
	Stdout, Stderr io.Writer
	Version        string // of the program; part of the User-Agent
}

// symstoreVerb is one of the symstore commands.
type symstoreVerb struct {
	name   string
	syntax slashSyntax
	help   string
	run    func(*symstoreRun) error
}

func symstoreVerbs() []symstoreVerb {
	return []symstoreVerb{
		{"add", addSyntax, addHelp, (*symstoreRun).add},
		{"del", delSyntax, delHelp, (*symstoreRun).del},
		{"query", querySyntax, queryHelp, (*symstoreRun).query},
		{"check", checkSyntax, checkHelp, (*symstoreRun).check},
		{"convert", convertSyntax, convertHelp, (*symstoreRun).convert},
		{"age", ageSyntax, ageHelp, (*symstoreRun).age},
		{"chk", chkSyntax, chkHelp, (*symstoreRun).chk},
	}
}

// agestore is age with the options of agestore alone.
var agestore = symstoreVerb{"age", agestoreSyntax, agestoreHelp, (*symstoreRun).age}

// isHelp reports whether an argument asks for help, in any usual spelling.
func isHelp(arg string) bool {
	return slices.Contains([]string{"/?", "-?", "--help", "-help", "/help", "help"}, strings.ToLower(arg))
}

// Run runs the command that args begin with, and returns its exit code. The
// help of each command lists its codes, which are those of symstore.exe.
func Run(ctx context.Context, args []string, env Env) int {
	return symstoreCode(run(ctx, args, env))
}

// run returns a term.Exit for an error that was already printed.
func run(ctx context.Context, args []string, env Env) error {
	if len(args) == 0 || isHelp(args[0]) {
		fmt.Fprint(env.Stdout, symstoreHelp)
		if len(args) == 0 {
			return term.Exit(ssUsage)
		}
		return nil
	}
	verbs := symstoreVerbs()
	if strings.EqualFold(args[0], "agestore") {
		return agestore.start(ctx, args[1:], env)
	}
	for _, v := range verbs {
		if strings.EqualFold(args[0], v.name) {
			return v.start(ctx, args[1:], env)
		}
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	for _, v := range verbs {
		if term.Distance(strings.ToLower(strings.TrimLeft(args[0], "/-")), v.name, 2) < 2 {
			text += "; did you mean " + v.name + "?"
		}
	}
	fmt.Fprintf(env.Stderr, "SYMSTORE ERROR: %s\nTry: symdepot symstore /?\n", text)
	return term.Exit(ssUsage)
}

func (v symstoreVerb) start(ctx context.Context, args []string, env Env) error {
	// A request for help is never the value of an option, and takes precedence
	// over errors.
	if slices.ContainsFunc(args, func(s string) bool { return s == "/?" || s == "-?" || s == "--help" }) {
		fmt.Fprint(env.Stdout, v.help)
		return nil
	}
	r := &symstoreRun{ctx: ctx, env: env, out: env.Stdout}
	var err error
	if r.args, err = v.syntax.parse(args); err != nil {
		fmt.Fprintf(env.Stderr, "SYMSTORE ERROR: %v\nTry: symdepot symstore %s /?\n", err, v.name)
		return term.Exit(ssUsage)
	}
	if err = r.begin(); err == nil {
		err = v.run(r)
	}
	err = errors.Join(err, r.end())
	var own term.Exit
	if err == nil || errors.As(err, &own) {
		return err
	}
	r.fatal(v.name, err)
	return term.Exit(symstoreCode(err))
}

// symstoreRun is one run of a symstore command.
type symstoreRun struct {
	ctx   context.Context
	env   Env
	args  *slashArgs
	paths pathMap
	opt   symstore.Options
	log   *os.File // of /d; may be nil
	// closers are closed at the end.
	closers []io.Closer

	mu     sync.Mutex // guards the fields below: files are handled in parallel
	out    io.Writer
	errors int // number of errors that were reported
}

// commonFlags are the options that every command has.
var commonFlags = []slashFlag{
	{name: "o", also: []string{"verbose"}},
	{name: "d", kind: slashValue, also: []string{"log", "logfile", "-log"}},
	{name: "-json"},
	{name: "-map", kind: slashEach},
	{name: "-locking", kind: slashWord, words: []string{"os", "file", "none"}},
	{name: "-lock-wait", kind: slashValue},
}

// storeFlag is /s.
var storeFlag = slashFlag{name: "s", kind: slashValue, also: []string{"store"}}

// begin applies the common options.
func (r *symstoreRun) begin() error {
	var err error
	if r.paths, err = parsePathMap(r.args.values["-map"]); err != nil {
		return err
	}
	r.opt = symstore.Options{PointerRoots: r.paths}
	r.opt.Locking = map[string]symstore.Locking{"file": symstore.LockFile, "none": symstore.LockNone}[strings.ToLower(r.args.get("-locking"))]
	if w := r.args.get("-lock-wait"); r.args.has("-lock-wait") {
		if r.opt.LockWait, err = time.ParseDuration(w); err != nil || r.opt.LockWait <= 0 {
			return term.UsageError("--lock-wait wants a time such as 90s or 10m, not " + w)
		}
	}
	if !r.args.has("d") {
		return nil
	}
	name, err := r.paths.local(r.args.get("d"))
	if err == nil {
		r.log, err = os.Create(name)
	}
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	r.out = r.log
	return nil
}

func (r *symstoreRun) end() error {
	for _, c := range r.closers {
		_ = c.Close() // opened for reading
	}
	if r.log == nil {
		return nil
	}
	return r.log.Close()
}

func (r *symstoreRun) json() bool    { return r.args.has("-json") }
func (r *symstoreRun) verbose() bool { return r.args.has("o") }

// print writes to the output, which is the log file if there is one. With
// --json it prints nothing.
func (r *symstoreRun) print(format string, args ...any) {
	if r.json() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// message prints a line if /o is set.
func (r *symstoreRun) message(format string, args ...any) {
	if r.verbose() {
		r.print("SYMSTORE MESSAGE: "+format+"\n", args...)
	}
}

// line writes an object with --json.
func (r *symstoreRun) line(v any) {
	if !r.json() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = term.NewJSONLines(r.out).Write(v) // the exit code shows a failed output
}

// problem prints and counts the error of one file.
func (r *symstoreRun) problem(path string, err error) {
	r.mu.Lock()
	r.errors++
	r.mu.Unlock()
	if !strings.Contains(err.Error(), path) {
		err = fmt.Errorf("%s: %w", path, err)
	}
	r.print("SYMSTORE ERROR: Class: Runtime. Desc: %s\n", term.Printable(err.Error()))
	r.line(symstoreLine{Event: "failed", Path: path, Error: err.Error(), Code: symstoreCode(err)})
}

// fatal prints the error that ended a command. It also prints it to standard
// error if the output goes to a log file.
func (r *symstoreRun) fatal(verb string, err error) {
	text := term.Printable(symstoreAdvice(err))
	r.line(symstoreLine{Event: "error", Error: err.Error(), Code: symstoreCode(err)})
	if symstoreCode(err) == ssUsage {
		text += "\nTry: symdepot symstore " + verb + " /?"
	} else {
		text = "Class: Runtime. Desc: " + text
	}
	if r.log == nil && !r.json() && symstoreCode(err) != ssUsage {
		r.print("SYMSTORE ERROR: %s\n", text)
		return
	}
	if r.log != nil {
		// The log file may be what failed.
		if log, err := os.OpenFile(r.log.Name(), os.O_WRONLY|os.O_APPEND, 0); err == nil && !r.json() {
			fmt.Fprintf(log, "SYMSTORE ERROR: %s\n", text)
			log.Close()
		}
	}
	fmt.Fprintf(r.env.Stderr, "SYMSTORE ERROR: %s\n", text)
}

// symstoreLine is one line of JSON output of add. Its keys are a public
// interface.
type symstoreLine struct {
	Event  string          `json:"event"` // stored, pointer, ignored, failed, repeated, plain, indexed, done, error
	Path   string          `json:"path,omitempty"`
	Name   string          `json:"name,omitempty"`
	Key    string          `json:"key,omitempty"`
	Error  string          `json:"error,omitempty"`
	Code   int             `json:"code,omitempty"`
	ID     string          `json:"id,omitempty"`
	Counts *symstoreCounts `json:"counts,omitempty"`
}

type symstoreCounts struct {
	Stored  int   `json:"stored"`
	Errors  int   `json:"errors"`
	Ignored int   `json:"ignored"`
	Bytes   int64 `json:"bytes"`
}

// openStore opens a store that the command line names.
func (r *symstoreRun) openStore(name string) (*symstore.Store, error) {
	if name == "" {
		return nil, term.UsageError("the store is missing: give /s STORE")
	}
	dir, err := r.paths.local(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	s, err := symstore.Open(dir, r.opt)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%w: %w", errNoStore, err)
	}
	return s, err
}

// del deletes a transaction.
func (r *symstoreRun) del() (err error) {
	if !r.args.has("i") {
		return term.UsageError("the transaction is missing: give /i ID")
	}
	id, err := symstore.ParseID(r.args.get("i"))
	if err != nil {
		return term.UsageError(err.Error())
	}
	s, err := r.openStore(r.args.get("s"))
	if err != nil {
		return err
	}
	defer s.Close()
	r.reported(s)
	result, err := s.Del(r.ctx, id)
	failed := 0
	if err != nil {
		failed = 1
		r.fatal("del", err)
		err = term.Exit(symstoreCode(err))
	} else {
		r.message("Final id is %s", result.ID)
		r.print("Finding ID...  %s\n\n", result.ID)
		r.message("%s deleted: %d entries, %d kept for other transactions, %d were not there", id, result.Entries, result.Kept, result.Missing)
		r.deferred(result)
		r.line(struct {
			Event   string `json:"event"`
			ID      string `json:"id"`
			Deleted string `json:"deleted"`
			Removed int    `json:"removed"`
			Kept    int    `json:"kept"`
			Missing int    `json:"missing"`
			// Deferred files are removed later, because other programs hold them open.
			Deferred int `json:"deferred,omitempty"`
		}{"done", result.ID.String(), id.String(), result.Removed, result.Kept, result.Missing, result.Deferred})
	}
	r.print("SYMSTORE: Number of files deleted = %d\nSYMSTORE: Number of errors = %d\n", result.Removed, failed)
	return err
}

// deferred reports the files that a deletion had to leave.
func (r *symstoreRun) deferred(result symstore.DelResult) {
	if result.Deferred > 0 {
		r.print("SYMSTORE: another program holds %s open. The next command that writes to the store after that program removes it\n",
			term.Count(int64(result.Deferred), "deleted file"))
	}
}

// check finds the faults of a store, and repairs them with --repair.
func (r *symstoreRun) check() error {
	name, err := r.oneStore()
	if err != nil {
		return err
	}
	repair := r.args.has("-repair")
	if !repair && r.args.has("-remove-stray") {
		return term.UsageError("--remove-stray goes with --repair")
	}
	s, err := r.openStore(name)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	opt := symstore.CheckOptions{Contents: !r.args.has("-quick"), RemoveStray: r.args.has("-remove-stray")}
	verb := s.Check
	if repair {
		verb = s.Repair
	}
	found, err := verb(r.ctx, opt)
	if errors.Is(err, symstore.ErrReadOnly) && !repair {
		// A read-only store can still be checked.
		r.message("the store is read-only: others may be at work in it meanwhile")
		_ = s.Close()
		r.opt.ReadOnly = true
		if s, err = r.openStore(name); err != nil {
			return err
		}
		found, err = s.Check(r.ctx, opt)
	}
	left := r.findings(found, repair)
	switch {
	case err != nil:
		return err
	case left > 0:
		return term.Exit(ssFailed)
	}
	return nil
}

// findings prints the findings of check and returns the number of faults that
// remain.
func (r *symstoreRun) findings(found []symstore.Finding, repair bool) (left int) {
	mendable, notes := 0, 0
	for _, f := range found {
		state := "fault(!)"
		switch {
		case f.Note:
			notes++
			if state = "note    "; f.Mended {
				state = "mended  "
			}
		case f.Mended:
			state = "mended  "
		case f.Mendable:
			mendable++
			left++
			state = "fault   "
		default:
			left++
		}
		r.print("%s  %s\n", state, term.Printable(f.String()))
		id := ""
		if f.ID != 0 {
			id = f.ID.String()
		}
		r.line(struct {
			Kind     string `json:"kind"`
			ID       string `json:"id,omitempty"`
			Path     string `json:"path,omitempty"`
			Detail   string `json:"detail,omitempty"`
			Mendable bool   `json:"mendable"`
			Mended   bool   `json:"mended"`
			Note     bool   `json:"note,omitempty"`
		}{string(f.Kind), id, f.Path, f.Detail, f.Mendable, f.Mended, f.Note})
	}
	faults := len(found) - notes
	switch {
	case faults == 0:
		r.print("SYMSTORE: the store is clean\n")
	case repair:
		r.print("SYMSTORE: %s found, %d mended\n", term.Count(int64(faults), "fault"), faults-left)
	default:
		r.print("SYMSTORE: %s found; --repair can repair %d\n", term.Count(int64(faults), "fault"), mendable)
	}
	return left
}
