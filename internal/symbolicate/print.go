package symbolicate

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
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
		p.Symbol = append(p.Symbol, PrintedSymbol{FileName: file, FunctionName: l.Function, Line: line, StartAddress: fmt.Sprintf("0x%x", a.FunctionStart+base)})
	}
	return p
}

// PrintText writes the position in llvm-symbolizer's plain form: two lines for each
// function, and an empty line.
func PrintText(w io.Writer, p Printed) error {
	var b strings.Builder
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
