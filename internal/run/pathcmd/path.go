// Package pathcmd is the command that explains and tests the symbol paths of debuggers.
package pathcmd

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/remote/sympath"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
)

// Path is the command symdepot path.
type Path struct {
	Check Check `cmd:"" help:"Explain every element of a symbol path, and test whether it answers."`
}

// Check explains a path, and tests its elements.
type Check struct {
	Path       string   `arg:"" optional:"" help:"text:path_check_path" placeholder:"STRING"`
	FromEnv    bool     `help:"Check _NT_ALT_SYMBOL_PATH, _NT_SYMBOL_PATH and DEBUGINFOD_URLS of the environment."`
	Debuginfod bool     `help:"Read the text as DEBUGINFOD_URLS, even if it looks like a symbol path."`
	Self       []string `help:"text:path_check_self" placeholder:"URL" sep:"none"`
	NoProbe    bool     `help:"Only explain; make no connection."`
	JSON       bool     `help:"Print one JSON object per element."`
}

// probeTime limits the test of one server, bucket or folder.
const probeTime = 3 * time.Second

// checkedElement is an element with the results of its tests.
type checkedElement struct {
	sympath.Element
	Probes []sympath.SourceProbe `json:"probes,omitempty"`
}

// Run explains a path.
func (c Check) Run(a *console.Console) error {
	switch {
	case c.Path == "" && !c.FromEnv:
		return term.UsageError("a symbol path is missing; give one, or --from-env")
	case c.Path != "" && c.FromEnv:
		return term.UsageError("a symbol path and --from-env exclude each other")
	}
	self := c.Self
	if len(self) == 0 {
		conf := config.Default()
		conf.Listen = cmp.Or(os.Getenv("SYMDEPOT_LISTEN"), conf.Listen)
		self = conf.Self()
	}
	list := c.elements(self)
	if len(list) == 0 {
		fmt.Fprintln(a.Stderr, "symdepot: neither _NT_SYMBOL_PATH nor DEBUGINFOD_URLS is set")
		return term.ErrNegative
	}
	checked := make([]checkedElement, len(list))
	for i, e := range list {
		checked[i].Element = e
	}
	if !c.NoProbe {
		// This server itself is tested like any other.
		for i, p := range sympath.ProbeAll(a.Ctx, c.elements(nil), probeTime) {
			checked[i].Probes = p
		}
	}
	bad := false
	for i, e := range checked {
		bad = bad || e.Kind == "unknown"
		for _, p := range e.Probes {
			bad = bad || !p.Reachable || p.Error != ""
		}
		if c.JSON {
			if err := term.NewJSONLines(a.Stdout).Write(e); err != nil {
				return err
			}
			continue
		}
		e.print(a, i+1)
	}
	if bad {
		return term.ErrNegative
	}
	return nil
}

// elements splits the given path, or the variables of the environment.
func (c Check) elements(self []string) []sympath.Element {
	switch {
	case c.FromEnv:
		_, list := sympath.FromEnv(os.Getenv, self)
		return list
	case c.Debuginfod || sympath.LooksLikeURLs(c.Path):
		return sympath.ParseDebuginfodURLs(c.Path, self)
	}
	return sympath.ParseSymbolPath(c.Path, self)
}

// print prints the element as text.
func (e *checkedElement) print(a *console.Console, n int) {
	text := e.Text
	if strings.TrimSpace(text) == "" {
		text = "(empty)"
	}
	if e.Var != "" {
		text = e.Var + ": " + text
	}
	fmt.Fprintf(a.Stdout, "%d. %s\n", n, term.Printable(text))
	fmt.Fprintf(a.Stdout, "   %s (%s): %s\n", e.Kind, term.Printable(e.Rule), term.Printable(e.Means))
	for _, s := range e.Stores {
		if s.Preset != "" {
			fmt.Fprintf(a.Stdout, "   preset %s\n", s.Preset)
		}
	}
	for _, w := range e.Warnings {
		fmt.Fprintf(a.Stdout, "   warning: %s\n", term.Printable(w))
	}
	for _, p := range e.Probes {
		fmt.Fprintf(a.Stdout, "   %s: %s\n", term.Printable(p.Address), term.Printable(p.String()))
	}
}
