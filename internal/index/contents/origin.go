package contents

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// ErrImported means that the transaction with this origin has been imported already
// and has not been removed.
var ErrImported = errors.New("the build has been imported already")

// Origins returns the transactions that were imported from a store and have not
// been removed: their numbers here by their numbers in the store.
func (cs Contents) Origins(ctx context.Context, store string) (map[string]int64, error) {
	list := map[string]int64{}
	err := cs.db.Scans.Each(ctx, true, "SELECT origin_number, id FROM tx WHERE origin_store = $1 AND deleted_at IS NULL ORDER BY id",
		[]any{engine.Text(store)},
		func(scan engine.Scan) (bool, error) {
			var number string
			var id int64
			err := scan(&number, &id)
			list[number] = id
			return true, err
		})
	return list, cs.db.Fail("list the origins", err)
}

// Stores returns the stores from which transactions were imported that have not been removed:
// the first few, without bundles.
func (cs Contents) Stores(ctx context.Context) (list []string, err error) {
	err = cs.db.Scans.Each(ctx, true, "SELECT DISTINCT origin_store FROM tx WHERE origin_store IS NOT NULL AND deleted_at IS NULL "+
		"AND origin_store NOT LIKE 'bundle:%' ORDER BY origin_store LIMIT 3", nil,
		func(scan engine.Scan) (bool, error) {
			var store string
			err := scan(&store)
			list = append(list, store)
			return true, err
		})
	return list, cs.db.Fail("list the imported stores", err)
}

// CheckOrigin returns an error if a transaction with this origin exists and has not
// been removed.
func CheckOrigin(w *engine.Write, o record.Origin) error {
	var id int64
	err := w.Row("SELECT id FROM tx WHERE origin_store = $1 AND origin_number = $2 AND deleted_at IS NULL",
		[]any{engine.Text(o.Store), engine.Text(o.Number)}, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s of %s: %w, as build %d", o.Number, o.Store, ErrImported, id)
}
