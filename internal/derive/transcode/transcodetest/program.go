// Package transcodetest is a transcoder for tests. What it makes is no SymCache
// file, and says so; it keeps to what is known of the contract of such
// programs: their environment, the folders of their output and their exit
// codes. On request it breaks the contract in the ways that real ones may.
//
// A test binary becomes the program when it is started with Word as its first
// argument and calls Main from its TestMain.
package transcodetest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/pdb"
)

// Word is the first argument that makes a test binary the program.
const Word = "transcoder-for-tests"

// Main is the program, if this process was started as it; else it returns. It
// ends without os.Exit: the race detector sleeps for a second there, which each
// of the many runs would pay for.
func Main() {
	if len(os.Args) > 1 && os.Args[1] == Word {
		syscall.Exit(run(os.Args[2:]))
	}
}

// Command returns the command that runs this test binary as the program, with
// further flags: -version, -mode, -delay, -log.
func Command(flags ...string) []string {
	exe, err := os.Executable()
	if err != nil {
		panic(err) // a test cannot go on
	}
	return append(append([]string{exe, Word}, flags...), "-pdb", "{pdb}")
}

// Body is what the program makes of a PDB.
func Body(name string, id debugid.ID, version string) []byte {
	return fmt.Appendf(nil, "made by a transcoder for tests, no SymCache file: %s %s %s\n", strings.ToLower(name), id.Breakpad(), version)
}

// options are the program's flags.
type options struct {
	version, mode, pdb, log string
	delay                   time.Duration
}

func run(args []string) int {
	var o options
	f := flag.NewFlagSet(Word, flag.ContinueOnError)
	f.StringVar(&o.version, "version", "3.1.0", "version to make")
	f.StringVar(&o.mode, "mode", "", "what goes wrong: WORD for all PDBs, or NAME=WORD,… for some")
	f.StringVar(&o.pdb, "pdb", "", "the PDB")
	f.StringVar(&o.log, "log", "", "file that gets a line for each run")
	f.DurationVar(&o.delay, "delay", 0, "time to take")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if err := o.main(); err != nil {
		fmt.Fprintln(os.Stderr, Word+":", err)
		return 1
	}
	return 0
}

// wrong returns what is to go wrong with a PDB.
func (o options) wrong() string {
	if !strings.Contains(o.mode, "=") {
		return o.mode
	}
	for part := range strings.SplitSeq(o.mode, ",") {
		if name, mode, _ := strings.Cut(part, "="); strings.EqualFold(name, filepath.Base(o.pdb)) {
			return mode
		}
	}
	return ""
}

func (o options) main() error {
	if err := contract(); err != nil {
		return err
	}
	name, id, err := identify(o.pdb)
	if err != nil {
		return err
	}
	if o.log != "" {
		if err := appendLine(o.log, name); err != nil {
			return err
		}
	}
	if o.mode != "" && !strings.Contains(o.mode, "=") && name == "hello-x64.pdb" {
		o.mode = "" // the probe succeeds
	}
	time.Sleep(o.delay)
	return o.make(name, id)
}

// identify reads the PDB's own identity.
func identify(path string) (string, debugid.ID, error) {
	p, in, err := pdb.OpenFile(path)
	if err != nil {
		return "", debugid.ID{}, err
	}
	defer in.Close()
	id := debugid.ID{GUID: p.GUID, Age: p.DBIAge}
	if p.NoDBI {
		id.Age = p.InfoAge
	}
	return filepath.Base(path), id, nil
}

func appendLine(name, line string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	return errors.Join(err, f.Close())
}

// contract checks what a transcoder may expect of who runs it.
func contract() error {
	if info, err := os.Stat(os.Getenv("_NT_SYMCACHE_PATH")); err != nil || !info.IsDir() {
		return fmt.Errorf("_NT_SYMCACHE_PATH is no folder: %w", err)
	}
	if list, err := os.ReadDir(os.Getenv("_NT_SYMBOL_PATH")); err != nil || len(list) > 0 {
		return fmt.Errorf("_NT_SYMBOL_PATH is no empty folder: %w", err)
	}
	if n, err := os.Stdin.Read(make([]byte, 1)); n > 0 || err != io.EOF {
		return errors.New("the standard input is not empty")
	}
	for _, k := range []string{"SYMDEPOT_DEPOT", "HTTP_PROXY", "SECRET_FOR_TESTS"} {
		if os.Getenv(k) != "" {
			return errors.New("the environment has " + k)
		}
	}
	return nil
}

// slow is how long a slow run takes.
const slow = 3 * time.Second

// make writes the result, or does what goes wrong.
func (o options) make(name string, id debugid.ID) error {
	out := os.Getenv("_NT_SYMCACHE_PATH")
	body := Body(name, id, o.version)
	switch o.wrong() {
	case "fail":
		fmt.Println("this PDB is not liked")
		return errors.New("failed as asked")
	case "fail-with-output":
		return errors.Join(write(out, name, id, o.version, body), errors.New("failed as asked"))
	case "nothing":
		return nil
	case "empty":
		body = nil
	case "slow":
		time.Sleep(slow)
	case "hang":
		hang()
	case "hang-with-child":
		if err := o.child(); err != nil {
			return err
		}
		hang()
	case "leave-child":
		if err := o.child(); err != nil {
			return err
		}
	case "two":
		if err := write(out, "other.pdb", id, o.version, body); err != nil {
			return err
		}
	case "guid":
		id.GUID[0]++
	case "age":
		id.Age++
	case "version":
		o.version = "next"
	case "major":
		o.version = "9.0.0"
	case "sentry":
		body = append([]byte("SYMC"), body...)
	case "huge", "fill":
		body = bytes.Repeat([]byte{'x'}, 1<<20)
		if err := fill(out, body); err != nil {
			return err
		}
	case "onehuge":
		return write(out, name, id, o.version, bytes.Repeat([]byte{'x'}, 64<<20))
	case "memory":
		exhaust()
	case "crash":
		if err := write(out, name, id, o.version, body[:len(body)/2]); err != nil {
			return err
		}
		os.Exit(3)
	case "chatty":
		chat()
	}
	return write(out, name, id, o.version, body)
}

func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

// child starts a process that hangs, and prints its id.
func (o options) child() error {
	cmd := exec.CommandContext(context.Background(), os.Args[0], Word, "-mode", "hang", "-pdb", o.pdb)
	if err := detached(cmd); err != nil {
		return err
	}
	fmt.Println("child", cmd.Process.Pid)
	return nil
}

func chat() {
	for i := range 10_000 {
		fmt.Println("line", i)
	}
}

// fill writes files until there is no space.
func fill(dir string, body []byte) error {
	for i := range 1 << 20 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("part%d", i)), body, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// exhaust takes memory until there is none.
func exhaust() {
	var all [][]byte
	for len(all) >= 0 {
		all = append(all, bytes.Repeat([]byte{1}, 1<<20))
	}
}

func write(out, name string, id debugid.ID, version string, body []byte) error {
	dir := filepath.Join(out, name, fmt.Sprintf("%s%X", id.GUID.Upper(), id.Age))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+"-v"+version+".symcache"), body, 0o600)
}
