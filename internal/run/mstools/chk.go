package mstools

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
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
	{name: "id", kind: slashEach}, {name: "ih", kind: slashEach},
	{name: "oc", kind: slashValue}, {name: "ov"}, {name: "fm", kind: slashEach},
	{name: "cs"}, {name: "cc"}, {name: "ea", kind: slashValue}, {name: "ee", kind: slashValue},
	{name: "ip", kind: slashValue}, // refused: it needs a running system and the rights of a debugger
	{name: "-all"}, {name: "-json"}, {name: "-map", kind: slashEach},
}}

// need is a symbol file that the store should have.
type need struct{ name, key string }

// chkForm checks that the options of chk can be combined.
func (r *symstoreRun) chkForm(inputs []string) error {
	s := r.args
	switch {
	case s.has("ip"):
		return term.UsageError("/ip: running processes are not supported; make a dump of the process and say /id DUMP")
	case len(inputs) == 0 && !s.has("it") && !s.has("im") && !s.has("id") && !s.has("ih"):
		return term.UsageError("which programs? Name files or folders, or /it LIST, /im MANIFEST, /id DUMP, /ih CABINET")
	case slices.Contains(s.values["ie"], "*"):
		return term.UsageError("/ie *: running programs are not supported; name files or folders")
	case s.has("ps") && s.has("pt"):
		return term.UsageError("/ps or /pt, not both")
	case s.has("cs") && s.has("cc"):
		return term.UsageError("/cs or /cc, not both")
	case s.has("oc") && (s.has("im") || s.has("om")):
		return term.UsageError("/oc files symbols by their programs, and does not go with manifests")
	}
	return nil
}

// chk reports for each program whether the store has its symbols.
func (r *symstoreRun) chk() error {
	inputs := append(append(r.args.rest, r.args.values["if"]...), r.args.values["ie"]...)
	if err := r.chkForm(inputs); err != nil {
		return err
	}
	c := &checkRun{run: r, seen: map[need]bool{}, classic: map[string]need{}}
	var err error
	if c.unasked, err = c.programList("ea"); err != nil {
		return err
	}
	if c.excused, err = c.programList("ee"); err != nil {
		return err
	}
	if r.args.has("om") {
		return c.writeManifest(inputs)
	}
	text := r.args.get("s")
	if text == "" {
		text = os.Getenv("_NT_SYMBOL_PATH")
	}
	if c.chains, err = r.parseSymbolPath(text); err != nil {
		return err
	}
	for _, chain := range c.chains {
		if _, local := chain.sources[len(chain.sources)-1].(folderStore); !local && chain.cache == "" && (r.args.has("ps") || r.args.has("pt")) {
			return term.UsageError("/ps and /pt read the files: use srv*FOLDER*URL, which downloads them")
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
		return term.Exit(ssFailed)
	}
	return nil
}

// checkRun is one run of chk.
type checkRun struct {
	run                     *symstoreRun
	chains                  []symbolChain
	passes                  *csv.Writer // of /ol; may be nil
	seen                    map[need]bool
	unasked, excused        []string        // of /ea and /ee
	classic                 map[string]need // symbol files that /oc has copied, by path
	passed, failed, ignored int
}

// chkLine is one line of JSON output. Its keys are a public interface.
type chkLine struct {
	Result  string `json:"result"` // passed, failed, ignored, done
	Path    string `json:"path,omitempty"`
	Name    string `json:"name,omitempty"`
	Key     string `json:"key,omitempty"`
	Stored  string `json:"stored,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Version string `json:"version,omitempty"`
	Failed  int    `json:"failed,omitempty"`
	Passed  int    `json:"passed,omitempty"`
	Ignored int    `json:"ignored,omitempty"`
}

// program is one program to be checked.
type program struct {
	path  string // for the output
	named bool   // named by itself, not found in a folder
	// version is the version of the program, with /ov; it may be empty.
	version string
	needs   []need // symbol files of the program
	err     error  // wraps objfile.ErrNotSymbolFile if it is not a program
}

// each visits the programs that were named, and those of lists, dumps and
// cabinets.
func (c *checkRun) each(inputs []string, visit func(program) error) error {
	in := c.run.inputs()
	if c.run.args.has("it") {
		lines, err := in.response(c.run.args.get("it"))
		if err != nil {
			return err
		}
		inputs = append(inputs, uncommented(lines)...)
	}
	named := map[string]bool{}
	for _, p := range inputs {
		if local, err := c.run.paths.local(p); err == nil {
			named[filepath.Clean(local)] = true
		}
	}
	for f, err := range in.all(inputs) {
		if err == nil {
			err = c.run.ctx.Err()
		}
		if err != nil {
			return err
		}
		if !c.wanted(f.Path) {
			continue
		}
		if err := visit(c.onDisk(f.Path, named[f.Path])); err != nil {
			return err
		}
	}
	for _, name := range c.run.args.values["id"] {
		if err := c.dump(name, visit); err != nil {
			return err
		}
	}
	for _, name := range c.run.args.values["ih"] {
		if err := c.cabinet(name, visit); err != nil {
			return err
		}
	}
	c.failed += c.run.errors
	return nil
}

// onDisk reads a program on disk.
func (c *checkRun) onDisk(name string, named bool) program {
	p := program{path: name, named: named}
	f, err := durable.OpenShared(name)
	if err != nil {
		p.err = err
		return p
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		p.err = err
		return p
	}
	c.look(&p, f, info.Size())
	return p
}

// look finds the symbol files that a program needs.
func (c *checkRun) look(p *program, r io.ReaderAt, size int64) {
	objects, err := objfile.Identify(r, size, p.path, objfile.Options{})
	if err != nil {
		p.err = err
		return
	}
	known := false
	for _, o := range objects {
		var wants []string
		switch {
		case o.Kind == symfile.PE && o.Offset == 0:
			known = true
			for _, w := range o.PDBs {
				wants = append(wants, layout.SymStore.Paths(w)...)
			}
			if c.run.args.has("ov") {
				p.version = strings.TrimSpace(fileVersion(r, size) + " " + o.CodeID)
			}
		case c.run.args.has("-all") && (o.Kind == symfile.ELF || o.Kind == symfile.MachO) && o.Role&symfile.Executable != 0:
			known = true
			o.Role = symfile.Debug
			wants = layout.SSQP.Paths(o.Object)
		}
		p.addNeed(wants)
	}
	if !known {
		p.err = fmt.Errorf("%w: not a program", objfile.ErrNotSymbolFile)
	}
}

// addNeed records the first of several paths, which debuggers ask for first.
func (p *program) addNeed(wants []string) {
	if len(wants) == 0 {
		return
	}
	if parts := strings.Split(wants[0], "/"); len(parts) == 3 {
		p.needs = append(p.needs, need{parts[0], parts[1]})
	}
}

// program checks one program.
func (c *checkRun) program(p program) error {
	if c.run.args.has("ov") && p.version != "" {
		c.run.print("SYMCHK: %-20s VERSION - %s\n", term.Printable(c.shown(p.path)), p.version)
		c.run.line(chkLine{Result: "version", Path: p.path, Version: p.version})
	}
	switch {
	case errors.Is(p.err, objfile.ErrNotSymbolFile) && !p.named:
		return nil
	case errors.Is(p.err, objfile.ErrNotSymbolFile):
		c.report("ignored", p.path, need{}, "", "not a program")
		return nil
	case p.err != nil:
		err := p.err
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		c.fail(p.path, need{}, err.Error())
		return nil
	case len(p.needs) == 0 && c.run.args.has("cc"):
		c.fail(p.path, need{}, "it has no CodeView record")
		return nil
	case len(p.needs) == 0:
		c.report("ignored", p.path, need{}, "", "it asks for no symbols")
		return nil
	}
	for _, n := range p.needs {
		if err := c.one(p.path, n); err != nil {
			return err
		}
	}
	return nil
}

// one checks one symbol file. An error ends the command.
func (c *checkRun) one(program string, n need) error {
	var firstErr error
	for _, chain := range c.chains {
		at, err := c.findInChain(chain, n)
		if c.run.ctx.Err() != nil {
			return c.run.ctx.Err()
		}
		if err != nil && firstErr == nil {
			firstErr = err
		}
		if at != "" && c.run.args.has("oc") {
			if err := c.copyToClassic(chain, program, n); err != nil {
				c.fail(program, n, err.Error())
				return nil
			}
		}
		if at != "" {
			c.report("passed", program, n, at, "")
			return nil
		}
	}
	reason := n.name + " mismatched or not found"
	if firstErr != nil {
		reason += ": " + firstErr.Error()
	}
	c.fail(program, n, reason)
	return nil
}

// fail records a failure of a program, unless /ee excuses it.
func (c *checkRun) fail(program string, n need, reason string) {
	if listed(c.excused, program) {
		c.report("ignored", program, n, "", reason)
		return
	}
	c.report("failed", program, n, "", reason)
}

// shown returns the name of a program for the output.
func (c *checkRun) shown(program string) string {
	if c.run.args.has("os") || c.run.args.has("v") {
		return program
	}
	return symfile.BaseName(program)
}

// findInChain returns the path of a symbol file in a chain, or an empty string.
func (c *checkRun) findInChain(chain symbolChain, n need) (string, error) {
	var first error
	for _, src := range chain.sources {
		found, err := src.find(c.run.ctx, n.name, n.key)
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

// accept checks a file that was found, and copies it to the cache.
func (c *checkRun) accept(chain symbolChain, src symbolSource, found *symstore.Found, n need) (string, error) {
	at := src.where(found.Best())
	folder, local := src.(folderStore)
	if chain.cache != "" && !(local && durable.IsSame(folder.store.Dir(), chain.cache)) {
		fetched, err := fetchTo(c.run.ctx, chain.cache, src, found, n.name, n.key)
		if err != nil {
			return "", err
		}
		return fetched, c.kind(fetched, n)
	}
	if !local {
		return at, nil // /ps and /pt are excluded here
	}
	if found.Plain != "" {
		if err := sameKey(at, n.name, n.key); err != nil {
			return "", err
		}
		return at, c.kind(at, n)
	}
	if found.Compressed != "" && !c.run.args.has("ps") && !c.run.args.has("pt") {
		return at, nil
	}
	// The content of a cabinet, or the target of a pointer, must be read.
	dir, err := os.MkdirTemp("", "symdepot-chk-*")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	fetched, err := fetchTo(c.run.ctx, dir, src, found, n.name, n.key)
	if err != nil {
		return "", err
	}
	return at, c.kind(fetched, n)
}

// kind applies /ps and /pt.
func (c *checkRun) kind(at string, n need) error {
	if !c.run.args.has("ps") && !c.run.args.has("pt") {
		return nil
	}
	f, err := durable.OpenShared(at)
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
		case c.run.args.has("ps") && k.Type != symstore.Public:
			return fmt.Errorf("%s has private symbols", n.name)
		case c.run.args.has("pt") && k.Type == symstore.Public:
			return fmt.Errorf("%s has no types", n.name)
		}
	}
	return nil
}

// report prints and counts one result.
func (c *checkRun) report(result, program string, n need, at, reason string) {
	show := c.run.args.has("v") || c.run.args.has("od")
	switch result {
	case "passed":
		c.passed++
		show = show || c.run.args.has("op")
		if c.passes != nil {
			_ = c.passes.Write([]string{program, n.name, n.key, at}) // Flush does not report it either
		}
	case "ignored":
		c.ignored++
		show = show || c.run.args.has("oi")
	default:
		c.failed++
		show = show || c.run.args.has("oe") || !c.run.args.has("q")
	}
	if show {
		text := reason
		if at != "" && c.run.args.has("v") {
			text = at
		}
		line := fmt.Sprintf("SYMCHK: %-20s %-7s", term.Printable(c.shown(program)), strings.ToUpper(result))
		if text != "" {
			line += " - " + term.Printable(text)
		}
		c.run.print("%s\n", line)
	}
	c.run.line(chkLine{Result: result, Path: program, Name: n.name, Key: n.key, Stored: at, Reason: reason})
}

// writeManifest lists the symbol files of the programs, for a machine with a
// network.
func (c *checkRun) writeManifest(inputs []string) error {
	name, err := c.run.paths.local(c.run.args.get("om"))
	if err != nil {
		return err
	}
	err = durable.WriteTo(name, 0o666, func(w io.Writer) error {
		return c.each(inputs, func(p program) error {
			if p.err != nil {
				if p.named && !errors.Is(p.err, objfile.ErrNotSymbolFile) {
					c.run.problem(p.path, p.err)
				}
				return nil
			}
			for _, n := range p.needs {
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
	c.run.print("SYMCHK: %s in %s\n", term.Count(int64(len(c.seen)), "symbol file"), term.Printable(name))
	c.run.line(chkLine{Result: "done", Failed: c.run.errors, Passed: len(c.seen)})
	if c.run.errors > 0 {
		return term.Exit(ssFailed)
	}
	return nil
}

// readManifest checks the symbol files in a manifest.
func (c *checkRun) readManifest(name string) error {
	local, err := c.run.paths.local(name)
	if err != nil {
		return err
	}
	f, err := os.Open(local)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}
	defer f.Close()
	text, err := term.ReadText(f)
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
			return fmt.Errorf("manifest %s, line %d: want name,key", name, line)
		}
		n := need{strings.Trim(parts[0], `" `), strings.Trim(parts[1], `" `)}
		if !symfile.ValidName(n.name) || !symfile.ValidName(n.key) {
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
