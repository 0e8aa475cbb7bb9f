package index

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrTaken is returned when the transaction of that origin was taken over already and stands.
var ErrTaken = errors.New("that transaction is here already")

// Origins returns the standing transactions that were taken over from a store:
// our numbers by those that they have there.
func (db *DB) Origins(ctx context.Context, store string) (map[string]int64, error) {
	list := map[string]int64{}
	err := db.scans.each(ctx, true, "SELECT origin_number, id FROM tx WHERE origin_store = $1 AND deleted_at IS NULL ORDER BY id", []any{text(store)},
		func(scan func(...any) error) (bool, error) {
			var number string
			var id int64
			err := scan(&number, &id)
			list[number] = id
			return true, err
		})
	return list, db.fail("list the origins", err)
}

// notTaken is an error if a standing transaction has that origin.
func (w *write) notTaken(o Origin) error {
	var id int64
	err := w.row("SELECT id FROM tx WHERE origin_store = $1 AND origin_number = $2 AND deleted_at IS NULL", []any{text(o.Store), text(o.Number)}, &id)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s of %s: %w, as %d", o.Number, o.Store, ErrTaken, id)
}
