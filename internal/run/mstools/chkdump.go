package mstools

import (
	"fmt"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// dump visits the modules of a crash dump.
func (c *checkRun) dump(name string, visit func(program) error) error {
	local, err := c.run.paths.local(name)
	if err != nil {
		return err
	}
	d, err := dump.ReadFile(local)
	if err != nil {
		return fmt.Errorf("dump: %w", err)
	}
	for _, text := range d.Problems {
		c.run.print("SYMCHK WARNING: %s: %s\n", term.Printable(name), term.Printable(text))
	}
	for _, m := range d.Modules {
		if err := c.run.ctx.Err(); err != nil {
			return err
		}
		p := program{path: m.Path, named: true}
		if p.path == "" {
			p.path = m.Name
		}
		if !c.wanted(p.path) {
			continue
		}
		c.moduleNeeds(&p, m)
		if err := visit(p); err != nil {
			return err
		}
	}
	return nil
}

// moduleNeeds records the symbol files of a module.
func (c *checkRun) moduleNeeds(p *program, m dump.Module) {
	if !m.Code.IsZero() && c.run.args.has("ov") {
		p.version = m.Code.String()
	}
	for _, d := range m.Debug {
		o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: d.Name, DebugID: d.ID}
		switch {
		case d.Portable:
			o.Kind = symfile.PortablePDB
		case d.ID.PDB20:
			o.Kind = symfile.PDB20
		}
		p.addNeed(layout.SymStore.Paths(o))
	}
	if !c.run.args.has("-all") {
		return
	}
	o := symfile.Object{Role: symfile.Debug, Name: m.Name, BuildID: m.BuildID}
	switch {
	case m.BuildID != "":
		o.Kind = symfile.ELF
	case !m.UUID.IsZero():
		o.Kind, o.CodeID = symfile.MachO, m.UUID.Lower()
	}
	p.addNeed(layout.SSQP.Paths(o))
}
