package transcode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/symcache"
)

// Program is a transcoder that the operator supplied: it makes a SymCache file
// from a PDB. Its Name and Command must be there; the rest may be zero.
type Program struct {
	// Name is what the operator calls it, in messages and records.
	Name string
	// Command is its argument vector; symdepot starts no shell for it. In each
	// element but the first {pdb} stands for the path of the PDB, {out} for the
	// folder that the program writes below, {empty} for an empty folder. Batch
	// files (.bat, .cmd) are refused: Windows runs them with cmd.exe, which reads
	// arguments as commands.
	Command []string
	// Wine says that the program is Windows's and Command runs it with Wine:
	// paths are handed over as Z:\….
	Wine bool
	// Dir is the working directory; empty is the program's own folder, where
	// its libraries are.
	Dir string
	// WinePrefix is the folder that Wine keeps its state in; empty is one of
	// the scratch folder's own.
	WinePrefix string
	// Version, if not empty, is the version that it must turn out to have,
	// such as "3.1.0". What it has is seen from what it makes.
	Version string
	// AnyAge accepts a result for another age than those of the PDB.
	AnyAge bool
	Limits ProgramLimits
}

// ProgramLimits bound one run. Zero is the default in brackets.
type ProgramLimits struct {
	// Time is how long it may take [2 minutes and 30 s for each 100 MiB of the
	// PDB, at most an hour].
	Time time.Duration
	// Memory is in bytes [4 GiB and 4 times the PDB]; negative is no limit.
	// Where the system cannot limit it, it is not limited.
	Memory int64
	// Output is what it may write, in bytes [256 MiB and twice the PDB].
	Output int64
}

func (l ProgramLimits) time(pdb int64) time.Duration {
	const step = 100 << 20
	return cmp.Or(l.Time, min(2*time.Minute+time.Duration((pdb+step-1)/step)*30*time.Second, time.Hour))
}

func (l ProgramLimits) memory(pdb int64) int64 { return cmp.Or(l.Memory, 4<<30+4*pdb) }
func (l ProgramLimits) output(pdb int64) int64 { return cmp.Or(l.Output, 256<<20+2*pdb) }

// Class says whose fault a failure is, and so for how long it holds.
type Class string

// The classes of failures.
const (
	ClassExit      Class = "exit"       // it ended with a code other than 0
	ClassNoOutput  Class = "no_output"  // it ended well and left nothing behind
	ClassBadOutput Class = "bad_output" // what it left behind is not the result
	ClassTimeout   Class = "timeout"    // it took too long and was ended
	ClassMemory    Class = "memory"     // it used too much memory and was ended
	ClassTooLarge  Class = "too_large"  // it wrote too much and was ended
	ClassBadSource Class = "bad_source" // the file is no PDB that a program could be given
	ClassInfra     Class = "infra"      // the machine's fault: no program, no room, an interruption
)

// Classes are all of them.
var Classes = []Class{ClassExit, ClassNoOutput, ClassBadOutput, ClassTimeout, ClassMemory, ClassTooLarge, ClassBadSource, ClassInfra}

// ProgramError is the failure of a run.
type ProgramError struct {
	Class   Class
	Program string
	Version symcache.Version // that the program is known to make; zero if none is
	Exit    int              // exit code of ClassExit, else 0
	Output  string           // the end of what it printed
	Err     error
}

func (e *ProgramError) Error() string {
	s := e.Err.Error()
	if e.Program != "" {
		s = "transcoder " + e.Program + ": " + s
	}
	return s
}

// Unwrap returns the cause.
func (e *ProgramError) Unwrap() error { return e.Err }

// ClassOf returns the class of an error; what is no *ProgramError is the
// machine's fault.
func ClassOf(err error) Class {
	if e, ok := errors.AsType[*ProgramError](err); ok {
		return e.Class
	}
	return ClassInfra
}

func fault(c Class, format string, args ...any) *ProgramError {
	return &ProgramError{Class: c, Err: fmt.Errorf(format, args...)}
}

// run runs the program on the PDB in sc, which has size bytes, and returns the
// end of what it printed. The whole tree of processes has ended when it returns.
func (p *Program) run(ctx context.Context, sc *Scratch, size int64) (tail string, err error) {
	// A child dies with the thread that started it where the system can do
	// that, so that thread must stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	exe, err := p.executable()
	if err != nil {
		return "", &ProgramError{Class: ClassInfra, Err: err}
	}
	limit := p.Limits.time(size)
	rctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	rctx, stop := context.WithCancelCause(rctx)
	defer stop(nil)
	argv := p.arguments(sc)
	cmd := exec.CommandContext(rctx, exe, argv[1:]...)
	cmd.Args[0] = argv[0]
	cmd.Dir = cmp.Or(p.Dir, p.home(exe))
	cmd.Env = p.environment(sc, exe)
	out := &lastBytes{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second // for descendants that hold on to the output
	tree, err := newTree(cmd, treeLimits{memory: p.Limits.memory(size), file: p.Limits.output(size), mark: sc.dir})
	if err != nil {
		return "", &ProgramError{Class: ClassInfra, Err: err}
	}
	defer tree.close()
	cmd.Cancel = tree.kill
	if err := tree.start(cmd); err != nil {
		return "", &ProgramError{Class: ClassInfra, Err: fmt.Errorf("%s cannot be run: %w", strings.Join(p.Command, " "), err)}
	}
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		sc.watch(rctx, p.Limits.output(size), func() { stop(errTooLarge) })
	}()
	err = cmd.Wait()
	cause := context.Cause(rctx)
	stop(nil)
	<-watched
	_ = tree.kill() // whoever was left behind
	return out.String(), p.verdict(err, cause, cmd.ProcessState, tree)
}

var (
	errTimeout  = errors.New("time")
	errTooLarge = errors.New("size")
)

// verdict says what the end of a run means.
func (p *Program) verdict(err, cause error, state *os.ProcessState, tree *tree) error {
	switch {
	case errors.Is(cause, errTimeout):
		return fault(ClassTimeout, "it took too long and was ended")
	case errors.Is(cause, errTooLarge):
		return fault(ClassTooLarge, "it wrote too much and was ended")
	case cause != nil:
		return &ProgramError{Class: ClassInfra, Err: cause}
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	case state == nil:
		return &ProgramError{Class: ClassInfra, Err: err}
	}
	switch tree.why(state) {
	case ClassMemory:
		return fault(ClassMemory, "it used too much memory (%s)", state)
	case ClassTooLarge:
		return fault(ClassTooLarge, "it wrote too much (%s)", state)
	}
	f := fault(ClassExit, "it failed: %s", state)
	f.Exit = state.ExitCode()
	return f
}

// executable returns where the program is.
func (p *Program) executable() (string, error) {
	if len(p.Command) == 0 {
		return "", errors.New("there is no command")
	}
	exe, err := exec.LookPath(p.Command[0])
	if err == nil {
		exe, err = filepath.Abs(exe)
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be run: %w", strings.Join(p.Command, " "), err)
	}
	if isBatch(p.Command[0]) || isBatch(exe) {
		return "", fmt.Errorf("%s is a batch file, whose arguments cmd.exe would read as commands; name the program that it runs", exe)
	}
	return exe, nil
}

// isBatch reports whether Windows would run a file with cmd.exe.
func isBatch(name string) bool {
	name = strings.ToLower(strings.TrimRight(name, ". "))
	return strings.HasSuffix(name, ".bat") || strings.HasSuffix(name, ".cmd")
}

// files are the parts of the command that are files: the program, and under
// Wine or an interpreter what that runs.
func (p *Program) files(exe string) []string {
	list := []string{exe}
	for _, a := range p.Command[1:] {
		if p.Wine {
			a = fromWine(a)
		}
		if info, err := os.Stat(a); err == nil && info.Mode().IsRegular() && filepath.IsAbs(a) {
			list = append(list, a)
		}
	}
	return list
}

// home is the folder of the program itself, not of what runs it.
func (p *Program) home(exe string) string {
	files := p.files(exe)
	return filepath.Dir(files[min(len(files)-1, 1)])
}

func (p *Program) arguments(sc *Scratch) []string {
	argv := slices.Clone(p.Command)
	for i, a := range argv {
		if i > 0 { // in one pass: what is put in may look like a placeholder
			argv[i] = strings.NewReplacer("{pdb}", p.path(sc.PDB()), "{out}", p.path(sc.out()), "{empty}", p.path(sc.empty())).Replace(a)
		}
	}
	return argv
}

// environment is all that the program hears of the world: nothing that is
// secret to us, and no symbol server.
func (p *Program) environment(sc *Scratch, exe string) []string {
	env := []string{
		"PATH=" + p.home(exe), "TEMP=" + p.path(sc.temp()), "TMP=" + p.path(sc.temp()),
		"_NT_SYMCACHE_PATH=" + p.path(sc.out()),
		// Empty would stand for a default with a server on the internet in it.
		"_NT_SYMBOL_PATH=" + p.path(sc.empty()),
	}
	if runtime.GOOS == "windows" {
		for _, k := range []string{"SystemRoot", "SystemDrive"} {
			env = append(env, k+"="+os.Getenv(k))
		}
		return env
	}
	env = append(env, "TMPDIR="+sc.temp(), "HOME="+sc.temp())
	if p.Wine {
		prefix := cmp.Or(p.WinePrefix, sc.winePrefix())
		env[0] = "PATH=" + strings.Join([]string{filepath.Dir(exe), "/usr/bin", "/bin"}, ":")
		env = append(env, "WINEPREFIX="+prefix, "WINEDEBUG=-all")
	}
	return env
}

// path spells a path as the program understands it.
func (p *Program) path(name string) string {
	if !p.Wine {
		return name
	}
	return "Z:" + strings.ReplaceAll(name, "/", `\`)
}

// fromWine is the inverse of path, for what the operator wrote.
func fromWine(name string) string {
	if len(name) > 2 && (name[0] == 'Z' || name[0] == 'z') && name[1] == ':' {
		return strings.ReplaceAll(name[2:], `\`, "/")
	}
	return name
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ b []byte }

const maxOutput = 8 << 10

func (l *lastBytes) Write(p []byte) (int, error) {
	n := len(p)
	if len(p) > maxOutput {
		p = p[len(p)-maxOutput:]
	}
	if over := len(l.b) + len(p) - maxOutput; over > 0 {
		l.b = append(l.b[:0], l.b[over:]...)
	}
	l.b = append(l.b, p...)
	return n, nil
}

func (l *lastBytes) String() string { return Printable(string(l.b)) }

// Printable returns the output of a program, or another text from outside, for a
// record and a terminal: the last 8 KiB, without control characters.
func Printable(s string) string { return term.PrintableText(s, maxOutput) }
