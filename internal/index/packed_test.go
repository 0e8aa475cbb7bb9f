package index

import (
	"testing"
	"time"
)

// packAll packs all keys that can be packed, and returns their number.
func packAll(t testing.TB, db *DB) (n int64) {
	t.Helper()
	for {
		p, err := PackKeys(t.Context(), db, time.Now().AddDate(100, 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		n += p.Packed
		if p.Ended {
			return n
		}
	}
}
