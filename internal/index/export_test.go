package index

import (
	"context"
	"errors"
	"strings"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
)

// Remove removes a transaction without a trash.
func (db *DB) Remove(ctx context.Context, number int64) (record.Transaction, error) {
	return db.Trash.Remove(ctx, removals.Removal{Number: number, Reason: "rm"})
}

// nameOf returns the file or the address of an index as errors name it, without secrets.
func nameOf(db *DB) string {
	text := db.base.Fail("ask", errors.New("why")).Error()
	return strings.TrimSuffix(strings.TrimPrefix(text, "index "), ": ask: why")
}
