package command

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
)

type lookupCmd struct {
	serverFlags
	Obj       string   `help:"text:lookup_obj" short:"e" placeholder:"FILE"`
	JSON      bool     `help:"Print JSON in the form of llvm-symbolizer."`
	Relative  bool     `name:"relative-address" help:"text:lookup_relative"`
	Arch      string   `help:"Processor of the slice of a fat file, such as arm64." placeholder:"ARCH"`
	Addresses []string `arg:"" optional:"" name:"address" help:"text:lookup_addresses"`
}

// Run prints the position of each address.
func (c lookupCmd) Run(a *session) error {
	if c.Obj == "" {
		return c.places(a)
	}
	m, base, err := symbolicate.OpenLocal(a.Ctx, c.Obj, c.Arch)
	if errors.Is(err, fs.ErrNotExist) && c.Arch != "" {
		return term.UsageError(err.Error())
	}
	if err != nil {
		return err
	}
	defer m.Done()
	told := 0
	tell := func() {
		for _, text := range m.Missing[told:] {
			fmt.Fprintln(a.Stderr, "symdepot: warning:", term.Printable(text))
		}
		told = len(m.Missing)
	}
	tell()
	defer tell() // what the lookups have found missing
	if c.Relative {
		base = 0
	}
	p := symbolicate.NewPrinter(a.Stdout, m, c.Obj, base, c.JSON)
	if len(c.Addresses) > 0 {
		if err := p.All(c.Addresses); err != nil {
			return err
		}
		return p.Close()
	}
	in := bufio.NewScanner(a.Stdin)
	for in.Scan() && a.Ctx.Err() == nil {
		if line := strings.TrimSpace(in.Text()); line != "" {
			if err := p.Line(line); err != nil {
				return err
			}
		}
	}
	return errors.Join(in.Err(), a.Ctx.Err(), p.Close())
}

// places prints the position of addresses in modules of the depot or of a server.
func (c lookupCmd) places(a *session) error {
	if len(c.Addresses) == 0 {
		in := bufio.NewScanner(a.Stdin)
		for in.Scan() {
			if line := strings.TrimSpace(in.Text()); line != "" {
				c.Addresses = append(c.Addresses, line)
			}
		}
		if err := in.Err(); err != nil {
			return err
		}
	}
	places, err := symbolicate.ParsePlaces(c.Addresses)
	if err != nil {
		return term.UsageError(err.Error() + "; for addresses of a file, give -e FILE")
	}
	var list []symbolicate.Printed
	if c.Server != "" {
		var answer symbolicate.V5Answer
		p, wrong := pusher(a.Console, c.Server, c.TokenFile)
		if wrong != nil {
			return wrong
		}
		if err = p.Symbolicate(a.Ctx, symbolicate.V5Request(places), &answer); err == nil {
			list, err = symbolicate.PrintedOf(places, answer)
		}
	} else {
		var d *depot.Depot
		if d, err = a.open(depot.Options{MustExist: true}); err != nil {
			return err
		}
		defer d.Close()
		list, err = symbolicate.Direct{Service: d.Symbols.SymbolsWork}.Depot(a.Ctx, places)
	}
	if err != nil {
		return err
	}
	return errors.Join(symbolicate.PrintAll(a.Stdout, list, c.JSON), symbolicate.TellLost(a.Stderr, list))
}
