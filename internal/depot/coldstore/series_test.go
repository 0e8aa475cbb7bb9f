package coldstore

import (
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestNewestOfEachProduct: a content that is the newest one of any product stays plain,
// although another product has newer ones.
func TestNewestOfEachProduct(t *testing.T) {
	row := func(product string, object, tx int64) contents.CoolCandidate {
		return contents.CoolCandidate{Content: record.Content{Ref: blob.Sum([]byte{byte(object)}), Size: 1 << 20}, Object: object, Product: product, Kind: symfile.PDB, Tx: tx}
	}
	rows := []contents.CoolCandidate{row("a", 1, 1), row("a", 2, 2), row("a", 3, 3), row("b", 1, 9), row("b", 2, 8)}
	for products, want := range map[string]int{"": 1, "a": 1, "b": 1} { // only content 2
		var only []string
		if products != "" {
			only = []string{products}
		}
		due := 0
		for _, s := range seriesOf(rows, only) {
			for _, i := range Due(s.contents, time.Now()) {
				due++
				if s.contents[i].Order != 2 {
					t.Errorf("products %q: content %d is due, and is the newest of a product", products, s.contents[i].Order)
				}
			}
		}
		if due != want {
			t.Errorf("products %q: %d contents are due, want %d", products, due, want)
		}
	}
}
