package answer

import (
	"slices"

	"github.com/symdepot/symdepot/internal/index/record"
)

// Scope is the set of products that a caller may see. Objects outside the scope
// are reported as not found, and only objects inside it are ranked. The zero
// Scope contains everything.
type Scope struct {
	// Products are the visible products; nil means all. "" stands for files that
	// were added, downloaded or found in a served folder without a product.
	Products []string
}

// Sees reports whether the scope contains a product.
func (s Scope) Sees(product string) bool {
	return s.Products == nil || slices.Contains(s.Products, product)
}

// Index returns the scope as the index takes it.
func (s Scope) Index() record.Scope {
	return record.Scope{Products: s.Products, All: s.Products == nil}
}
