package symbolicate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// Printed is the position of one address, in the JSON of llvm-symbolizer. It has
// no Error if the address was looked up, even without a result.
type Printed struct {
	Address    string          `json:"Address"`
	Error      *PrintedError   `json:"Error,omitempty"`
	ModuleName string          `json:"ModuleName"`
	Symbol     []PrintedSymbol `json:"Symbol,omitempty"`
}

// PrintedError is a reason why an address was not looked up.
type PrintedError struct {
	Message string `json:"Message"`
}

// PrintedSymbol is one function at an address, innermost first. Columns and
// discriminators are not known.
type PrintedSymbol struct {
	Column        int    `json:"Column"`
	Discriminator int    `json:"Discriminator"`
	FileName      string `json:"FileName"`
	FunctionName  string `json:"FunctionName"`
	Line          uint32 `json:"Line"`
	StartAddress  string `json:"StartAddress"`
	StartFileName string `json:"StartFileName"`
	StartLine     uint32 `json:"StartLine"`
}

// Print looks an RVA up. address is how the address is printed, base the difference
// between printed addresses and RVAs.
func Print(m *Module, module, address string, rva, base uint64) Printed {
	p := Printed{Address: address, ModuleName: module, Symbol: []PrintedSymbol{}}
	a, ok := m.Lookup(rva)
	if !ok {
		p.Symbol = append(p.Symbol, PrintedSymbol{}) // as llvm-symbolizer does
		return p
	}
	for _, l := range a.Frames {
		file, line := position(l)
		p.Symbol = append(p.Symbol,
			PrintedSymbol{FileName: file, FunctionName: l.Function, Line: line, StartAddress: fmt.Sprintf("0x%x", a.FunctionStart+base)})
	}
	return p
}

// Printer prints the positions of addresses in the form of llvm-symbolizer.
type Printer struct {
	w      *bufio.Writer
	m      *Module
	module string
	base   uint64
	json   bool
}

// NewPrinter returns a Printer for a module. base is the difference between the
// printed addresses and RVAs. Close must be called.
func NewPrinter(w io.Writer, m *Module, module string, base uint64, json bool) *Printer {
	return &Printer{bufio.NewWriter(w), m, module, base, json}
}

// All prints a list of addresses: with JSON, as one list.
func (p *Printer) All(addresses []string) error {
	if !p.json {
		for _, a := range addresses {
			if err := p.print(a); err != nil {
				return err
			}
		}
		return nil
	}
	_ = p.w.WriteByte('[')
	for i, a := range addresses {
		if i > 0 {
			_ = p.w.WriteByte(',')
		}
		if err := p.print(a); err != nil {
			return err
		}
	}
	_, err := p.w.WriteString("]\n")
	return err
}

// Line prints one address at once: with JSON, as one object on a line.
func (p *Printer) Line(address string) error {
	if err := p.print(address); err != nil {
		return err
	}
	if p.json {
		_ = p.w.WriteByte('\n')
	}
	return p.w.Flush()
}

// Close writes the buffered text.
func (p *Printer) Close() error { return p.w.Flush() }

// print prints one address. A text that is no address is printed with the error.
func (p *Printer) print(text string) error {
	parse := ParseAddress
	if p.m.IL {
		parse = ParseILAddress
	}
	addr, err := parse(text)
	if err != nil {
		if p.json {
			return PrintJSON(p.w, Printed{Address: text, ModuleName: p.module, Error: &PrintedError{err.Error()}})
		}
		_, werr := fmt.Fprintf(p.w, "%s\n\n", text) // as llvm-symbolizer repeats what it cannot read
		return werr
	}
	if p.m.IL {
		return p.put(Print(p.m, p.module, text, addr, 0))
	}
	return p.Print(addr)
}

// TellLost names each module whose addresses could not be looked up, with the reason. Then
// the error is term.ErrNegative.
func TellLost(w io.Writer, list []Printed) (err error) {
	told := map[string]bool{}
	for _, p := range list {
		if p.Error != nil && !told[p.ModuleName] {
			told[p.ModuleName] = true
			fmt.Fprintf(w, "symdepot: %s: %s\n", term.Printable(p.ModuleName), term.Printable(p.Error.Message))
			err = term.ErrNegative
		}
	}
	return err
}

// PrintAll prints positions: with JSON, as one list.
func PrintAll(w io.Writer, list []Printed, asJSON bool) error {
	for i, p := range list {
		var err error
		switch {
		case !asJSON:
			err = PrintText(w, p)
		default:
			before := ","
			if i == 0 {
				before = "["
			}
			if _, err = io.WriteString(w, before); err == nil {
				err = PrintJSON(w, p)
			}
		}
		if err != nil {
			return err
		}
	}
	if !asJSON {
		return nil
	}
	end := "]\n"
	if len(list) == 0 {
		end = "[]\n"
	}
	_, err := io.WriteString(w, end)
	return err
}

// Print prints the position of an address.
func (p *Printer) Print(addr uint64) error {
	out := Printed{ModuleName: p.module, Address: fmt.Sprintf("0x%x", addr), Symbol: []PrintedSymbol{{}}}
	if addr >= p.base {
		out = Print(p.m, p.module, out.Address, addr-p.base, p.base)
	}
	return p.put(out)
}

// put prints a position.
func (p *Printer) put(out Printed) error {
	if p.json {
		return PrintJSON(p.w, out)
	}
	return PrintText(p.w, out)
}

// PrintText writes the position in llvm-symbolizer's plain form: two lines for each
// function, and an empty line.
func PrintText(w io.Writer, p Printed) error {
	var b strings.Builder
	if p.Error != nil {
		b.WriteString("??\n??:0:0\n")
	}
	for _, s := range p.Symbol {
		name, file := s.FunctionName, s.FileName
		if name == "" {
			name = "??"
		}
		if file == "" {
			file = "??"
		}
		fmt.Fprintf(&b, "%s\n%s:%d:%d\n", name, file, s.Line, s.Column)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

// PrintJSON writes one object without a line end, and without HTML escapes.
func PrintJSON(w io.Writer, p Printed) error {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return err
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}
