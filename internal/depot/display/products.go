package display

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
)

// UnknownProducts has a warning for each of the products that no transaction has: a token for
// such a product reads nothing, and a server does not say why. There are none as long as there
// is no transaction at all: tokens are often made before the first files.
func UnknownProducts(ctx context.Context, d *depot.Depot, products []string) (warnings []string, err error) {
	if len(products) == 0 {
		return nil, nil
	}
	txs, err := d.List(ctx, answer.Scope{}, depot.ListFilter{})
	if err != nil || len(txs) == 0 {
		return nil, err
	}
	var have []string
	for _, t := range txs {
		if t.Product != "" && !slices.Contains(have, t.Product) {
			have = append(have, t.Product)
		}
	}
	slices.Sort(have)
	there := "there are " + strings.Join(have, ", ")
	if len(have) == 0 {
		there = "the builds have no product"
	}
	for _, p := range products {
		if !slices.Contains(have, p) {
			warnings = append(warnings, fmt.Sprintf("no build has product %q; %s", p, there))
		}
	}
	return warnings, nil
}
