package record

import (
	"strconv"
	"strings"
)

// Scope is the set of products that a caller may see. The zero Scope is empty.
type Scope struct {
	// All makes everything visible, regardless of Products.
	All bool
	// Products are the names of the visible products, compared exactly; ""
	// stands for transactions without a product.
	Products []string
}

// Few reports whether the number of products is small enough to keep the
// prepared statements for it. Preparing one takes longer than running it.
func (s Scope) Few() bool { return s.All || len(s.Products) <= 8 }

// Key returns a text that only scopes with the same products in the same order share, as a part of the key of
// what is remembered for a scope.
func (s Scope) Key() string {
	if s.All {
		return "*"
	}
	var b []byte
	for _, p := range s.Products { // "" is a product too
		b = append(strconv.AppendInt(b, int64(len(p)), 10), ':')
		b = append(b, p...)
	}
	return string(b)
}

// Where returns a condition on a product id column and the extended arguments.
// The condition is empty for the unlimited scope.
func (s Scope) Where(column string, args []any) (string, []any) {
	switch {
	case s.All:
		return "", args
	case len(s.Products) == 0:
		return " AND 1 = 0", args
	}
	var b strings.Builder
	b.WriteString(" AND " + column + " IN (SELECT id FROM product WHERE name IN (")
	for i, p := range s.Products {
		if i > 0 {
			b.WriteByte(',')
		}
		args = append(args, p)
		b.WriteString("$" + strconv.Itoa(len(args)))
	}
	b.WriteString("))")
	return b.String(), args
}
