package index

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// Secret returns the random key of that name, which is created at the first call
// and never changes. All processes get the same one.
func (db *DB) Secret(ctx context.Context, name string, size int) (key []byte, err error) {
	const query = "SELECT value FROM secret WHERE name = $1"
	args := []any{engine.Text(name)}
	err = db.base.Points.Row(ctx, query, args, &key)
	if errors.Is(err, sql.ErrNoRows) {
		made := make([]byte, size)
		_, _ = rand.Read(made) // never fails
		err = db.base.Update(ctx, "create a key", func(w *engine.Write) error {
			if _, err := w.Exec("INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
				engine.Text(name), made); err != nil {
				return err
			}
			return w.Row(query, args, &key)
		})
	}
	return key, db.base.Fail("read a key", err)
}
