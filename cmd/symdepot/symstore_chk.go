package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symstore"
)

var chkSyntax = slashSyntax{rest: true, flags: []slashFlag{
	{name: "s", kind: slashValue, letters: "eupsr"},
	{name: "r"}, {name: "v"}, {name: "q"},
	{name: "oe"}, {name: "op"}, {name: "oi"}, {name: "od"}, {name: "ot"}, {name: "ob"}, {name: "os"},
	{name: "ol", kind: slashValue},
	{name: "om", kind: slashValue}, {name: "im", kind: slashValue}, {name: "it", kind: slashValue},
	{name: "if", kind: slashEach}, {name: "ie", kind: slashEach},
	{name: "pf"}, {name: "ps"}, {name: "pt"},
	{name: "ds"}, {name: "de"}, {name: "dn"},
	// What needs the running system, or a debugger.
	{name: "id", kind: slashValue}, {name: "ih", kind: slashValue}, {name: "ip", kind: slashValue},
	{name: "oc", kind: slashValue}, {name: "ov"}, {name: "fm", kind: slashValue}, {name: "cs"}, {name: "cc"},
	{name: "ea", kind: slashValue}, {name: "ee", kind: slashValue},
	{name: "-all"}, {name: "-json"}, {name: "-map", kind: slashEach},
}}

// chkRefused are genuine options that are not there, and why.
var chkRefused = map[string]string{
	"id": "dumps are not looked into", "ih": "hotfix cabinets are not unpacked; extract them first", "ip": "processes are not looked into",
	"oc": "classic symbol trees are not built", "ov": "versions are not printed", "fm": "modules are not looked for by name",
	"cs": "it is not there", "cc": "it is not there", "ea": "it is not there", "ee": "it is not there",
}

// need is a symbol file that has to be in the store.
type need struct{ name, key string }

// chk says for each program whether the store has its symbols.
func (r *symstoreRun) chk() error {
	for name, why := range chkRefused {
		if r.args.has(name) {
			return usageError("/" + name + " is an option of the genuine tool that this one does not have: " + why)
		}
	}
	inputs := append(append(r.args.rest, r.args.values["if"]...), r.args.values["ie"]...)
	if len(inputs) == 0 && !r.args.has("it") && !r.args.has("im") {
		return usageError("which programs? Name files or folders, or /it LIST or /im MANIFEST")
	}
	for _, p := range r.args.values["ie"] {
		if p == "*" {
			return usageError("/ie *: running programs are not looked into; name files or folders")
		}
	}
	if r.args.has("ps") && r.args.has("pt") {
		return usageError("/ps or /pt, not both")
	}
	c := &checkRun{symstoreRun: r, seen: map[need]bool{}}
	if r.args.has("om") {
		return c.writeManifest(inputs)
	}
	text := r.args.get("s")
	if text == "" {
		text = os.Getenv("_NT_SYMBOL_PATH")
	}
	var err error
	if c.chains, err = r.parseSymbolPath(text); err != nil {
		return err
	}
	for _, chain := range c.chains {
		if _, local := chain.sources[len(chain.sources)-1].(folderStore); !local && chain.cache == "" && (r.args.has("ps") || r.args.has("pt")) {
			return usageError("/ps and /pt look into the files: say srv*FOLDER*URL, which fetches them")
		}
	}
	if r.args.has("ol") {
		f, err := os.Create(r.args.get("ol"))
		if err != nil {
			return err
		}
		c.passes = csv.NewWriter(f)
		defer func() { c.passes.Flush(); _ = f.Close() }()
	}
	if r.args.has("im") {
		err = c.readManifest(r.args.get("im"))
	} else {
		err = c.each(inputs, c.program)
	}
	if err != nil {
		return err
	}
	if !r.args.has("q") || r.args.has("ot") {
		r.print("\nSYMCHK: FAILED files = %d\nSYMCHK: PASSED + IGNORED files = %d\n", c.failed, c.passed+c.ignored)
	}
	r.line(chkLine{Result: "done", Failed: c.failed, Passed: c.passed, Ignored: c.ignored})
	if c.failed > 0 {
		return ownExit(ssFailed)
	}
	return nil
}

// checkRun is one chk under way.
type checkRun struct {
	*symstoreRun
	chains                  []symbolChain
	passes                  *csv.Writer // of /ol; nil without
	seen                    map[need]bool
	passed, failed, ignored int
}

// chkLine is one line of JSON output. The names are an interface.
type chkLine struct {
	Result  string `json:"result"` // passed, failed, ignored, done
	Path    string `json:"path,omitempty"`
	Name    string `json:"name,omitempty"`
	Key     string `json:"key,omitempty"`
	Stored  string `json:"stored,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Failed  int    `json:"failed,omitempty"`
	Passed  int    `json:"passed,omitempty"`
	Ignored int    `json:"ignored,omitempty"`
}

// each visits the files that were named and those of lists.
func (c *checkRun) each(inputs []string, visit func(path string, named bool) error) error {
	in := c.inputs()
	if c.args.has("it") {
		lines, err := in.response(c.args.get("it"))
		if err != nil {
			return err
		}
		for _, l := range lines {
			if l, _, _ = strings.Cut(l, ";"); strings.TrimSpace(l) != "" {
				inputs = append(inputs, strings.TrimSpace(l))
			}
		}
	}
	named := map[string]bool{}
	for _, p := range inputs {
		if local, err := c.paths.local(p); err == nil {
			named[filepath.Clean(local)] = true
		}
	}
	for f, err := range in.all(inputs) {
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return err
		}
		if err := visit(f.Path, named[f.Path]); err != nil {
			return err
		}
	}
	c.failed += c.errors
	return nil
}

// needs returns the symbol files that a program asks for. The error wraps
// objfile.ErrNotSymbolFile if it is no program.
func (c *checkRun) needs(name string) ([]need, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	objects, err := objfile.Identify(f, info.Size(), name, objfile.Options{})
	if err != nil {
		return nil, err
	}
	var list []need
	program := false
	for _, o := range objects {
		var wants []string
		switch {
		case o.Kind == layout.PE && o.Offset == 0:
			program = true
			for _, w := range o.Wants {
				wants = append(wants, layout.SymStore.Paths(w)...)
			}
		case c.args.has("-all") && (o.Kind == layout.ELF || o.Kind == layout.MachO) && o.Role&layout.Executable != 0:
			program = true
			o.Role = layout.Debug
			wants = layout.SSQP.Paths(o.Object)
		}
		if len(wants) > 0 {
			// The first is the one that debuggers ask for.
			if p := strings.Split(wants[0], "/"); len(p) == 3 {
				list = append(list, need{p[0], p[1]})
			}
		}
	}
	if !program {
		return nil, fmt.Errorf("%w: not a program", objfile.ErrNotSymbolFile)
	}
	return list, nil
}

// program checks one program.
func (c *checkRun) program(name string, named bool) error {
	needs, err := c.needs(name)
	switch {
	case errors.Is(err, objfile.ErrNotSymbolFile) && !named:
		return nil
	case errors.Is(err, objfile.ErrNotSymbolFile):
		c.say("ignored", name, need{}, "", "not a program")
		return nil
	case err != nil:
		var p *fs.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		c.say("failed", name, need{}, "", err.Error())
		return nil
	case len(needs) == 0:
		c.say("ignored", name, need{}, "", "it asks for no symbols")
		return nil
	}
	for _, n := range needs {
		if err := c.one(name, n); err != nil {
			return err
		}
	}
	return nil
}

// one checks one symbol file. The error is one that ends the command.
func (c *checkRun) one(program string, n need) error {
	var firstErr error
	for _, chain := range c.chains {
		at, err := c.inChain(chain, n)
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		if err != nil && firstErr == nil {
			firstErr = err
		}
		if at != "" {
			c.say("passed", program, n, at, "")
			return nil
		}
	}
	reason := n.name + " mismatched or not found"
	if firstErr != nil {
		reason += ": " + firstErr.Error()
	}
	c.say("failed", program, n, "", reason)
	return nil
}

// inChain returns where a chain has a symbol file, empty if nowhere.
func (c *checkRun) inChain(chain symbolChain, n need) (string, error) {
	var first error
	for _, src := range chain.sources {
		found, err := src.find(c.ctx, n.name, n.key)
		if err == nil && found != nil {
			var at string
			if at, err = c.accept(chain, src, found, n); err == nil {
				return at, nil
			}
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return "", first
}

// accept checks what was found, and copies it into the cache.
func (c *checkRun) accept(chain symbolChain, src symbolSource, found *symstore.Found, n need) (string, error) {
	at := src.where(found.Best())
	folder, local := src.(folderStore)
	if chain.cache != "" && !(local && sameDir(folder.Dir(), chain.cache)) {
		fetched, err := fetchTo(c.ctx, chain.cache, src, found, n.name, n.key)
		if err != nil {
			return "", err
		}
		return fetched, c.kind(fetched, n)
	}
	if !local {
		return at, nil // /ps and /pt do not come here
	}
	if found.Plain != "" {
		if err := sameKey(at, n.name, n.key); err != nil {
			return "", err
		}
		return at, c.kind(at, n)
	}
	if found.Compressed != "" && !c.args.has("ps") && !c.args.has("pt") {
		return at, nil
	}
	// A cabinet whose content matters, or a pointer: what it yields decides.
	dir, err := os.MkdirTemp("", "symdepot-chk-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fetched, err := fetchTo(c.ctx, dir, src, found, n.name, n.key)
	if err != nil {
		return "", err
	}
	return at, c.kind(fetched, n)
}

func sameDir(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// kind applies /ps and /pt.
func (c *checkRun) kind(at string, n need) error {
	if !c.args.has("ps") && !c.args.has("pt") {
		return nil
	}
	f, err := os.Open(at)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	keys, err := symstore.Identify(f, info.Size(), n.name, true)
	if err != nil {
		return err
	}
	for _, k := range keys {
		switch {
		case c.args.has("ps") && k.Type != symstore.Public:
			return fmt.Errorf("%s holds private symbols", n.name)
		case c.args.has("pt") && k.Type == symstore.Public:
			return fmt.Errorf("%s holds no types", n.name)
		}
	}
	return nil
}

// say prints and counts one result.
func (c *checkRun) say(result, program string, n need, at, reason string) {
	shown := program
	if !c.args.has("os") && !c.args.has("v") {
		shown = filepath.Base(program)
	}
	show := c.args.has("v") || c.args.has("od")
	switch result {
	case "passed":
		c.passed++
		show = show || c.args.has("op")
		if c.passes != nil {
			_ = c.passes.Write([]string{program, n.name, n.key, at}) // Flush reports nothing either
		}
	case "ignored":
		c.ignored++
		show = show || c.args.has("oi")
	default:
		c.failed++
		show = show || c.args.has("oe") || !c.args.has("q")
	}
	if show {
		text := reason
		if at != "" && c.args.has("v") {
			text = at
		}
		line := fmt.Sprintf("SYMCHK: %-20s %-7s", printable(shown), strings.ToUpper(result))
		if text != "" {
			line += " - " + printable(text)
		}
		c.print("%s\n", line)
	}
	c.line(chkLine{Result: result, Path: program, Name: n.name, Key: n.key, Stored: at, Reason: reason})
}

// writeManifest lists what the programs need, for a machine that has a network.
func (c *checkRun) writeManifest(inputs []string) error {
	name, err := c.paths.local(c.args.get("om"))
	if err != nil {
		return err
	}
	err = writeWhole(name, false, func(w io.Writer, _ bool) error {
		return c.each(inputs, func(p string, named bool) error {
			needs, err := c.needs(p)
			if err != nil {
				if named && !errors.Is(err, objfile.ErrNotSymbolFile) {
					c.problem(p, err)
				}
				return nil
			}
			for _, n := range needs {
				if c.seen[n] || strings.ContainsAny(n.name, ",\r\n") {
					continue
				}
				c.seen[n] = true
				if _, err := fmt.Fprintf(w, "%s,%s,1\r\n", n.name, n.key); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	c.print("SYMCHK: %s in %s\n", count(int64(len(c.seen)), "symbol file"), printable(name))
	c.line(chkLine{Result: "done", Failed: c.errors, Passed: len(c.seen)})
	if c.errors > 0 {
		return ownExit(ssFailed)
	}
	return nil
}

// readManifest checks what a manifest lists.
func (c *checkRun) readManifest(name string) error {
	local, err := c.paths.local(name)
	if err != nil {
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	defer f.Close()
	text, err := textOf(f)
	if err != nil {
		return fmt.Errorf("manifest %s: %w", name, err)
	}
	line := 0
	for l := range strings.Lines(text) {
		line++
		if l = strings.TrimSpace(l); l == "" || l[0] == ';' {
			continue
		}
		parts := strings.Split(l, ",")
		if len(parts) < 2 {
			return fmt.Errorf("manifest %s, line %d: not name,key", name, line)
		}
		n := need{strings.Trim(parts[0], `" `), strings.Trim(parts[1], `" `)}
		if !layout.ValidName(n.name) || !layout.ValidName(n.key) {
			return fmt.Errorf("manifest %s, line %d: %q is not a name and a key", name, line, l[:min(len(l), 80)])
		}
		if c.seen[n] {
			continue
		}
		c.seen[n] = true
		if err := c.one(n.name, n); err != nil {
			return err
		}
	}
	return nil
}
