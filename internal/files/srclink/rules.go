package srclink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

// Rule says what happens to a PDB whose source server stream could run a command on
// the machine of a developer.
type Rule string

// The rules.
const (
	Keep   Rule = "keep" // and say nothing
	Flag   Rule = "flag" // keep it, and say so
	Refuse Rule = "refuse-commands"
)

// Rules are those of a depot. The zero value keeps everything.
type Rules struct {
	Default  Rule // empty: Keep
	Products map[string]Rule
	// Hosts are those to which links may lead; see Place.Fault. Others are flagged. Empty:
	// links are flagged only if the rule of the product is not Keep.
	Hosts []string
}

// For returns the rule of a product.
func (r *Rules) For(product string) Rule {
	if rule, ok := r.Products[product]; ok && rule != "" {
		return rule
	}
	if r.Default == "" {
		return Keep
	}
	return r.Default
}

// Checks reports whether the links of an object of this kind are read when it comes
// into a product.
func (r *Rules) Checks(product string, kind symfile.Kind) bool {
	return (kind == symfile.PDB || kind == symfile.PortablePDB) && (r.For(product) != Keep || len(r.Hosts) > 0)
}

// Verdict is what the rules say about an object.
type Verdict struct {
	Refused string   // why it must not be kept; empty if it may
	Flags   []string // what people should know
}

// Judge reads the links of an object and applies the rules of a product. The error is
// that of r.
func (r *Rules) Judge(product string, kind symfile.Kind, f io.ReaderAt, size int64) (v Verdict, err error) {
	if !r.Checks(product, kind) {
		return v, nil
	}
	l, err := Read(f, size, kind)
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if runs := l.Runs(); runs != "" {
		switch r.For(product) {
		case Refuse:
			v.Refused = fmt.Sprintf("its source server stream would run a command on the machines of developers, "+
				"which product %q does not permit: %s", product, truncate.Text(runs))
			return v, nil
		case Flag:
			v.Flags = append(v.Flags, "its source server stream runs a command on the machines of developers: "+truncate.Text(runs))
		}
	}
	for _, p := range l.Places() {
		if fault := p.Fault(r.Hosts); fault != "" {
			v.Flags = append(v.Flags, fmt.Sprintf("a link to source files leads to %s, which %s", truncate.Text(p.String()), fault))
		}
		if len(v.Flags) == 10 {
			break
		}
	}
	return v, nil
}
