package crash

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/base/wire"
)

// Threads says which threads of a dump are printed: the one with a number, or one of the constants.
type Threads int

// Threads that are not named by a number.
const (
	CrashedThread Threads = -1 // or the first, if it is not known which one crashed
	AllThreads    Threads = -2
)

// ParseThreads reads "crash", "all" or a number.
func ParseThreads(text string) (Threads, error) {
	switch n, err := strconv.Atoi(text); {
	case text == "all":
		return AllThreads, nil
	case text == "crash":
		return CrashedThread, nil
	case err == nil && n >= 0:
		return Threads(n), nil
	}
	return 0, errors.New("expected the number of a thread, crash or all")
}

// Has reports whether thread i is printed.
func (t Threads) Has(i int, s *wire.Stacks) bool {
	if t == CrashedThread {
		return i == max(s.Requesting, 0) || s.Threads[i].Name == lastException
	}
	return t == AllThreads || int(t) == i
}

// maxAssertion is how much of a text that a program left is printed, in bytes.
const maxAssertion = 4096

// Print writes stacks for people: why the process crashed, the stacks of threads, and the modules that
// lack files.
func Print(out io.Writer, s *wire.Stacks, show Threads) error {
	w := bufio.NewWriter(out)
	p := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	if c := s.Crash; c != nil {
		p("Crash:    %s at %s", term.Printable(c.Reason), c.Address)
		if c.Meaning != "" {
			p("          %s", c.Meaning)
		}
		if c.Assertion != "" {
			p("Assertion: %s", strings.ReplaceAll(term.PrintableText(c.Assertion, maxAssertion), "\n", "\n          "))
		}
	} else {
		p("Crash:    none; the dump is of a process that had not crashed")
	}
	system := strings.Join([]string{s.System.OS, s.System.Version, s.System.Arch, s.System.CPU}, " ")
	p("System:   %s", term.Printable(strings.Join(strings.Fields(system), " ")))
	if s.Key != "" {
		p("Key:      %s (%s)", s.Key, term.Printable(strings.Join(s.KeyFrames, " < ")))
	}
	for i := range s.Threads {
		t := &s.Threads[i]
		if !show.Has(i, s) {
			continue
		}
		title := fmt.Sprintf("Thread %d (%d", i, t.ID)
		if t.Name != "" {
			title += ", " + t.Name
		}
		title += ")"
		if t.Crashed {
			title += ", crashed"
		}
		p("\n%s", term.Printable(title))
		for k := range t.Frames {
			printFrame(p, k, &t.Frames[k])
			if _, err := w.Write(nil); err != nil { // out takes no more
				return err
			}
		}
		if t.Problem != "" {
			p("      %s", term.Printable(t.Problem))
		}
	}
	printLacking(p, s)
	for _, text := range s.Problems {
		p("\nnote: %s", term.Printable(text))
	}
	if s.Pending {
		p("\nnote: files are being prepared; run the command again for more")
	}
	return w.Flush()
}

// printFrame prints a frame, and the functions inlined there.
func printFrame(p func(string, ...any), k int, f *wire.StackFrame) {
	line := func(number, module, function, file string, n int, trust string) {
		text := fmt.Sprintf("%4s  ", number)
		if module != "" {
			text += module + "!"
		}
		text += function
		if file != "" {
			text += fmt.Sprintf("  [%s:%d]", file, n)
		}
		p("%s  %s", term.Printable(text), trust)
	}
	number := fmt.Sprint(k)
	for _, in := range f.Inlines {
		line(number, f.Module, in.Function, in.File, in.Line, "inlined")
		number = ""
	}
	function := f.Function
	switch {
	case function != "" && f.FunctionOffset != "":
		function += " + " + f.FunctionOffset
	case function == "" && f.Module != "":
		line(number, "", f.Module+" + "+f.Offset, "", 0, f.Trust)
		return
	case function == "":
		function = f.Address
	}
	line(number, f.Module, function, f.File, f.Line, f.Trust)
}

// printLacking prints the modules of the stacks that lack files.
func printLacking(p func(string, ...any), s *wire.Stacks) {
	first := true
	for i := range s.Modules {
		m := &s.Modules[i]
		if m.Help == "" {
			continue
		}
		if first {
			p("\nThese modules lack files:")
			first = false
		}
		p("  %s: %s", term.Printable(m.Name), term.Printable(m.Help))
	}
}
