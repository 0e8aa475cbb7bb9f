package srclink

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// filesSection is the name of the section that has a line for each source file.
const filesSection = "source files"

// StreamName is the name of the stream of a PDB that has a Script.
const StreamName = "srcsrv"

// Limits of source server streams.
const (
	MaxScript    = 64 << 20  // bytes of a stream
	maxLines     = 1_000_000 // lines of a stream
	maxLine      = 16 << 10  // bytes of a line
	maxVariables = 10_000    // number of variables
	maxVarBytes  = 1 << 20   // bytes of all variables together
	maxDepth     = 16        // variables within variables
	maxResult    = 4 << 10   // bytes of a target or command
	maxWork      = 64 << 10  // effort for one target or command: bytes that are read, and 16 for each variable
	totalWork    = 256 << 20 // effort for the class of a stream
)

// Script is a source server stream. Its text is data of strangers: debuggers run
// the commands in it, we do not.
type Script struct {
	// Version is the VERSION of the stream, 0 if it has none. Debuggers refuse
	// greater versions than their own: 1, 2 and 3 occur.
	Version int
	// Skipped is the number of lines of variables that are no assignments.
	Skipped int

	r    io.ReaderAt
	size int64
	vars map[string]string // by lower-case name
	// commands has all values that SRCSRVCMD is given. Which one of several counts
	// is for the debugger to decide.
	commands []string
	// ambiguous reports that a variable has two values.
	ambiguous bool
}

// ReadScript reads the variables of a source server stream of size bytes. The
// lines of its files are read from r when they are asked for. The error is for
// a stream beyond the limits, or that of r.
func ReadScript(r io.ReaderAt, size int64) (*Script, error) {
	if size > MaxScript {
		return nil, fmt.Errorf("source server stream: %d bytes, more than the limit of %d", size, MaxScript)
	}
	s := &Script{r: r, size: size, vars: map[string]string{}}
	bytes := 0
	err := s.lines(func(section, line string, long bool) error {
		if section != "ini" && section != "variables" {
			return nil
		}
		if long {
			return fmt.Errorf("a line of more than %d bytes: %s", maxLine, truncate.Text(line))
		}
		name, value, ok := strings.Cut(line, "=")
		if name = strings.ToLower(strings.TrimSpace(name)); !ok || name == "" {
			s.Skipped++
			return nil
		}
		if bytes += len(line); bytes > maxVarBytes || len(s.vars) == maxVariables {
			return fmt.Errorf("more than %d variables or %d bytes of them", maxVariables, maxVarBytes)
		}
		if name == "srcsrvcmd" {
			s.commands = append(s.commands, value)
		}
		if old, ok := s.vars[name]; ok && old != value {
			s.ambiguous = true
		}
		s.vars[name] = value
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("source server stream: %w", err)
	}
	s.Version, _ = strconv.Atoi(strings.TrimSpace(s.vars["version"]))
	return s, nil
}

// lines calls each for every line that is not the head of a section, with the
// lower-case name of its section; "" before the first. long reports that only
// the start of a line is given.
func (s *Script) lines(each func(section, line string, long bool) error) error {
	in := bufio.NewReaderSize(io.NewSectionReader(s.r, 0, s.size), maxLine)
	section := ""
	for n := 0; ; n++ {
		raw, err := in.ReadSlice('\n')
		line := strings.TrimRight(string(raw), "\r\n\x00")
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.ReadSlice('\n')
		}
		end := errors.Is(err, io.EOF)
		if err != nil && !end {
			return err
		}
		if n == maxLines {
			return fmt.Errorf("more than %d lines", maxLines)
		}
		if head, ok := cutFold(line, "SRCSRV:"); ok {
			section = strings.ToLower(strings.TrimRight(strings.TrimSpace(head), "- "))
		} else if line != "" {
			if e := each(section, line, long); e != nil {
				return e
			}
		}
		if end {
			return nil
		}
	}
}

// Entry is a line of the section of source files.
type Entry struct {
	// Name is the name of the file as in the PDB's list of files, VAR1.
	Name string
	vars []string // VAR1 to VAR10
	long bool     // the line is longer than maxLine
}

// Entries returns the lines of the source files in their order.
func (s *Script) Entries() iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		done := errors.New("done")
		err := s.lines(func(section, line string, long bool) error {
			if section != filesSection {
				return nil
			}
			vars := strings.SplitN(line, "*", 10)
			if !yield(Entry{truncate.To(vars[0], maxURL), vars, long}, nil) {
				return done
			}
			return nil
		})
		if err != nil && !errors.Is(err, done) {
			yield(Entry{}, fmt.Errorf("source server stream: %w", err))
		}
	}
}

// Class says what a debugger does for a source file.
type Class string

// The classes, from harmless to dangerous.
const (
	HTTP    Class = "http"    // it downloads a URL
	UNC     Class = "unc"     // it opens a file by its path
	Broken  Class = "broken"  // nothing: the line leads nowhere
	Command Class = "command" // it may run a command on the developer's machine
)

// rank orders classes.
func (c Class) rank() int { return slices.Index([]Class{HTTP, UNC, Broken, Command}, c) }

// Resolution is what a line of the stream leads to.
type Resolution struct {
	Class   Class  `json:"class"`
	Target  string `json:"target,omitempty"`  // URL or path; %targ% is the folder for sources of the debugger
	Command string `json:"command,omitempty"` // what runs if there is no file at the target, which is no URL
	// Env has the variables that come from the environment of the debugger.
	// Here they are empty.
	Env []string `json:"env,omitempty"`
	// Reason says why the class is Broken or Command, in words.
	Reason string `json:"reason,omitempty"`
}

// Resolve says what a debugger does for the file of e. It runs nothing and opens
// nothing. If it is not certain that no command would run, the class is Command.
func (s *Script) Resolve(e Entry) Resolution {
	r, _ := s.resolve(e)
	return r
}

func (s *Script) resolve(e Entry) (Resolution, int) {
	target := &expansion{s: s, e: e}
	command := &expansion{s: s, e: e}
	var r Resolution
	var badTarget, badCommand error
	r.Target, badTarget = target.value("srcsrvtrg")
	r.Command, badCommand = command.value("srcsrvcmd")
	if e.long {
		badTarget = fmt.Errorf("the line has more than %d bytes", maxLine)
	}
	r.Env = slices.Concat(target.env, command.env)
	slices.Sort(r.Env)
	r.Env = slices.Compact(r.Env)
	work := target.work + command.work

	isURL := strings.HasPrefix(r.Target, "http://") || strings.HasPrefix(r.Target, "https://")
	certain := badTarget == nil && len(target.env) == 0 && !s.ambiguous
	mayRun := strings.TrimSpace(r.Command) != "" || len(command.env) > 0 || badCommand != nil ||
		s.ambiguous && slices.ContainsFunc(s.commands, func(c string) bool { return strings.TrimSpace(c) != "" })
	switch {
	case mayRun && !(isURL && certain):
		r.Class = Command
		switch {
		case badTarget != nil:
			r.Reason = "its target cannot be resolved: " + badTarget.Error()
		case badCommand != nil:
			r.Reason = "its command cannot be resolved: " + badCommand.Error()
		case s.ambiguous:
			r.Reason = "the stream gives a variable two values"
		case isURL:
			r.Reason = "its URL depends on variables of the environment"
		default:
			r.Reason = "its target is no URL"
		}
	case badTarget != nil:
		r.Class, r.Reason = Broken, "its target cannot be resolved: "+badTarget.Error()
	case isURL:
		r.Class, r.Command = HTTP, ""
	case r.Target == "":
		r.Class, r.Reason = Broken, "it has neither a target nor a command"
	default:
		r.Class = UNC
	}
	return r, work
}

// expansion replaces variables.
type expansion struct {
	s    *Script
	e    Entry
	work int
	env  []string
}

var errWork = errors.New("more effort than the limit")

// value returns the value of a variable with all variables in it replaced. A
// variable that is not there has none.
func (x *expansion) value(name string) (string, error) {
	text, ok := x.s.vars[name]
	if !ok {
		return "", nil
	}
	return x.expand(text, 1)
}

// expand replaces the variables and functions in text.
func (x *expansion) expand(text string, depth int) (string, error) {
	if depth > maxDepth {
		return "", fmt.Errorf("more than %d variables within each other", maxDepth)
	}
	if x.work += len(text) + 16; x.work > maxWork {
		return "", errWork
	}
	var b strings.Builder
	for text != "" {
		plain, rest, ok := strings.Cut(text, "%")
		b.WriteString(plain)
		if !ok {
			break
		}
		name, after, ok := strings.Cut(rest, "%")
		switch {
		case !ok: // a percent sign without a second one
			b.WriteString("%" + rest)
			text = ""
			continue
		case name == "":
			b.WriteByte('%')
			text = after
			continue
		}
		value, after, err := x.term(strings.ToLower(name), after, depth)
		if err != nil {
			return "", err
		}
		b.WriteString(value)
		if b.Len() > maxResult {
			return "", fmt.Errorf("more than %d bytes", maxResult)
		}
		text = after
	}
	if b.Len() > maxResult {
		return "", fmt.Errorf("more than %d bytes", maxResult)
	}
	return b.String(), nil
}

// term returns the value of a variable, or of a function whose argument stands
// in brackets at the start of after, and what follows.
func (x *expansion) term(name, after string, depth int) (value, rest string, err error) {
	if name == "fnvar" || name == "fnbksl" || name == "fnfile" {
		if arg, rest, ok := cutBracket(after); ok {
			if arg, err = x.expand(arg, depth+1); err != nil {
				return "", "", err
			}
			switch name {
			case "fnbksl":
				return strings.ReplaceAll(arg, "/", `\`), rest, nil
			case "fnfile":
				return arg[strings.LastIndexAny(arg, `/\`)+1:], rest, nil
			}
			value, err = x.variable(strings.ToLower(arg), depth)
			return value, rest, err
		}
	}
	value, err = x.variable(name, depth)
	return value, after, err
}

// variable returns the value of a variable by its lower-case name.
func (x *expansion) variable(name string, depth int) (string, error) {
	if n, ok := strings.CutPrefix(name, "var"); ok {
		if i, err := strconv.Atoi(n); err == nil && i >= 1 && i <= 10 && strconv.Itoa(i) == n {
			if i > len(x.e.vars) {
				return "", nil
			}
			return x.expand(x.e.vars[i-1], depth+1)
		}
	}
	if text, ok := x.s.vars[name]; ok {
		return x.expand(text, depth+1)
	}
	if name == "targ" {
		return "%targ%", nil // the debugger's own folder
	}
	if len(x.env) < 16 {
		x.env = append(x.env, name)
	}
	x.work += 16
	return "", nil
}

// cutBracket returns what stands in the round brackets at the start of s, in
// which further brackets may stand, and what follows.
func cutBracket(s string) (in, rest string, ok bool) {
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '(':
			open++
		case ')':
			open--
		}
		if open == 0 {
			return s[min(1, i):i], s[min(i+1, len(s)):], i > 0
		}
	}
	return "", "", false
}

// Summary says what a whole stream does.
type Summary struct {
	// Class is the most dangerous one of all files; that of a file without a
	// name if there are none.
	Class Class `json:"class"`
	Files int   `json:"files"`
	// Example is the first resolution of this class, and Name its file.
	Name    string     `json:"name,omitempty"`
	Example Resolution `json:"example"`
	Places  []Place    `json:"places,omitempty"` // servers of the targets that are URLs, the first 100
}

// Summary resolves all files.
func (s *Script) Summary() (Summary, error) {
	var sum Summary
	work := 0
	seen := map[Place]bool{}
	note := func(e Entry) {
		r, n := s.resolve(e)
		if work += n + 64; sum.Class == "" || r.Class.rank() > sum.Class.rank() {
			sum.Class, sum.Name, sum.Example = r.Class, e.Name, r
		}
		if p, ok := placeOf(r.Target); ok && r.Class == HTTP && len(seen) < 100 {
			seen[p] = true
		}
	}
	for e, err := range s.Entries() {
		if err != nil {
			return Summary{}, err
		}
		sum.Files++
		if work > totalWork {
			continue
		}
		note(e)
	}
	if sum.Files == 0 {
		note(Entry{})
	}
	if work > totalWork && slices.ContainsFunc(s.commands, func(c string) bool { return c != "" }) {
		sum.Class = Command
		sum.Example.Reason = "its lines take more effort to resolve than the limit"
	}
	sum.Places = sortedPlaces(seen)
	return sum, nil
}
