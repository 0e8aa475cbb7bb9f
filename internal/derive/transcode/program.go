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

	"github.com/symdepot/symdepot/internal/base/proctree"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/symcache"
)

// Program is a transcoder that the operator supplies: it makes a SymCache file of
// a PDB. Name and Command are required.
type Program struct {
	// Name is the operator's name for it, in messages and records.
	Name string
	// Command is its argument vector; symdepot starts no shell for it. In each
	// element but the first, {pdb} means the path of the PDB, {out} the folder
	// that the program writes below, {empty} an empty folder. Batch
	// files (.bat, .cmd) are refused: Windows runs them with cmd.exe, which reads
	// arguments as commands.
	Command []string
	// Wine means that Command runs a Windows program with Wine: the program is
	// given paths as Z:\….
	Wine bool
	// Dir is the working directory; empty is the folder of the program, where its
	// libraries are.
	Dir string
	// WinePrefix is the folder of Wine's state; empty is a folder in the
	// workspace.
	WinePrefix string
	// Version, if not empty, is the version that the program must make, such as
	// "3.1.0". The actual version is detected from a result.
	Version string
	// AnyAge accepts results with an age that the PDB does not have.
	AnyAge bool
	Limits ProgramLimits
}

// ProgramLimits bound one run. Zero means the default in brackets.
type ProgramLimits struct {
	// Time is how long the run may take [2 minutes and 30 s for each 100 MiB of the
	// PDB, at most an hour].
	Time time.Duration
	// Memory is in bytes [4 GiB and 4 times the PDB]; negative is no limit. Some
	// systems cannot limit it.
	Memory int64
	// Output is how many bytes the program may write [256 MiB and twice the PDB].
	Output int64
}

func (l ProgramLimits) time(pdb int64) time.Duration {
	const step = 100 << 20
	return cmp.Or(l.Time, min(2*time.Minute+time.Duration((pdb+step-1)/step)*30*time.Second, time.Hour))
}

func (l ProgramLimits) memory(pdb int64) int64 { return cmp.Or(l.Memory, 4<<30+4*pdb) }
func (l ProgramLimits) output(pdb int64) int64 { return cmp.Or(l.Output, 256<<20+2*pdb) }

// Class is the class of a failure. It decides how long the failure is remembered.
type Class string

// The classes of failures.
const (
	ClassExit      Class = "exit"          // the exit code is not 0
	ClassNoOutput  Class = "no_output"     // the exit code is 0, and there is no result
	ClassBadOutput Class = "bad_output"    // the output is not the result
	ClassTimeout   Class = "timeout"       // the program exceeded its time limit
	ClassMemory    Class = "memory"        // the program exceeded its memory limit
	ClassTooLarge  Class = "too_large"     // the program exceeded its output limit
	ClassBadSource Class = "bad_source"    // the file is not a PDB that a program can read
	ClassInfra     Class = wire.ClassInfra // a fault of the machine: no program, no disk space, an interruption
)

// Classes are all classes.
var Classes = []Class{ClassExit, ClassNoOutput, ClassBadOutput, ClassTimeout, ClassMemory, ClassTooLarge, ClassBadSource, ClassInfra}

// ProgramError is the failure of a run.
type ProgramError struct {
	Class   Class
	Program string
	Version symcache.Version // that the program makes; zero if unknown
	Exit    int              // exit code of ClassExit, else 0
	Output  string           // the end of what the program printed
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

// ClassOf returns the class of an error. An error other than a *ProgramError is a
// fault of the machine.
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
// end of what it printed. When it returns, the whole process tree has ended.
func (p *Program) run(ctx context.Context, sc *Scratch, size int64) (tail string, err error) {
	// On systems that can do it, a child is killed when the thread that started it
	// ends. The thread must stay.
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
	cmd.WaitDelay = 5 * time.Second // for descendants that keep the output open
	tree, err := proctree.New(cmd, proctree.Limits{Memory: p.Limits.memory(size), File: p.Limits.output(size), Mark: sc.dir})
	if err != nil {
		return "", &ProgramError{Class: ClassInfra, Err: err}
	}
	defer tree.Close()
	cmd.Cancel = tree.Kill
	if err := tree.Start(cmd); err != nil {
		return "", &ProgramError{Class: ClassInfra, Err: fmt.Errorf("%s cannot be run: %w", p.shown(), err)}
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
	_ = tree.Kill() // remaining descendants
	return out.String(), p.verdict(err, cause, cmd.ProcessState, tree)
}

var (
	errTimeout  = errors.New("the time limit is exceeded")
	errTooLarge = errors.New("the output limit is exceeded")
)

// verdict returns the error of a run that has ended.
func (p *Program) verdict(err, cause error, state *os.ProcessState, tree *proctree.Tree) error {
	switch {
	case errors.Is(cause, errTimeout):
		return fault(ClassTimeout, "the program exceeded its time limit and was killed")
	case errors.Is(cause, errTooLarge):
		return fault(ClassTooLarge, "the program exceeded its output limit and was killed")
	case cause != nil:
		return &ProgramError{Class: ClassInfra, Err: cause}
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return nil
	case state == nil:
		return &ProgramError{Class: ClassInfra, Err: err}
	}
	switch tree.Why(state) {
	case proctree.MemoryLimit:
		return fault(ClassMemory, "the program exceeded its memory limit (%s)", state)
	case proctree.FileLimit:
		return fault(ClassTooLarge, "the program exceeded its output limit (%s)", state)
	}
	f := fault(ClassExit, "%s", state)
	f.Exit = state.ExitCode()
	return f
}

// executable returns the path of the program.
func (p *Program) executable() (string, error) {
	if len(p.Command) == 0 {
		return "", errors.New("the command is empty")
	}
	exe, err := exec.LookPath(p.Command[0])
	if err == nil {
		exe, err = filepath.Abs(exe)
	}
	if err != nil {
		return "", fmt.Errorf("%s cannot be run: %w", p.shown(), err)
	}
	if isBatch(p.Command[0]) || isBatch(exe) {
		return "", fmt.Errorf("%s is a batch file, whose arguments cmd.exe would read as commands; name the program that it runs", exe)
	}
	return exe, nil
}

// shown names the program in messages and logs. Its arguments may hold secrets, such as the
// key of a licence.
func (p *Program) shown() string {
	if len(p.Command) == 0 {
		return "the empty command"
	}
	return fmt.Sprintf("%s (with %d arguments)", p.Command[0], len(p.Command)-1)
}

// isBatch reports whether Windows would run a file with cmd.exe.
func isBatch(name string) bool {
	name = strings.ToLower(strings.TrimRight(name, ". "))
	return strings.HasSuffix(name, ".bat") || strings.HasSuffix(name, ".cmd")
}

// files returns the parts of the command that are files: the program, and with
// Wine or an interpreter the program that it runs.
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

// home returns the folder of the program itself, not of Wine or an interpreter.
func (p *Program) home(exe string) string {
	files := p.files(exe)
	return filepath.Dir(files[min(len(files)-1, 1)])
}

func (p *Program) arguments(sc *Scratch) []string {
	argv := slices.Clone(p.Command)
	for i, a := range argv {
		if i > 0 { // in one pass: a path may look like a placeholder
			argv[i] = strings.NewReplacer("{pdb}", p.path(sc.PDB()), "{out}", p.path(sc.out()), "{empty}", p.path(sc.empty())).Replace(a)
		}
	}
	return argv
}

// environment returns the whole environment of the program: it has no secrets of
// this process and names no symbol server.
func (p *Program) environment(sc *Scratch, exe string) []string {
	env := []string{
		"PATH=" + p.home(exe), "TEMP=" + p.path(sc.temp()), "TMP=" + p.path(sc.temp()),
		"_NT_SYMCACHE_PATH=" + p.path(sc.out()),
		// An empty value means a default that names a server on the internet.
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

// path returns a path as the program understands it.
func (p *Program) path(name string) string {
	if !p.Wine {
		return name
	}
	return "Z:" + strings.ReplaceAll(name, "/", `\`)
}

// fromWine is the inverse of path, for a path that the operator wrote.
func fromWine(name string) string {
	if len(name) > 2 && (name[0] == 'Z' || name[0] == 'z') && name[1] == ':' {
		return strings.ReplaceAll(name[2:], `\`, "/")
	}
	return name
}

// lastBytes keeps the last bytes that are written to it.
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
