package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// Tokens is the part of the index that keeps tokens.
type Tokens struct{ db *DB }

// TokenRow is a token that lets somebody in. Who may what, and when, is judged
// by the caller.
type TokenRow struct {
	ID     string   // names it where the secret must not be shown
	Hash   [32]byte // of the secret, which is kept nowhere
	Name   string   // what it is for, in words
	Scopes []string
	// Products are the names it is limited to; nil is all of them, an empty
	// list none.
	Products  []string
	Created   time.Time // zero takes the index's clock
	Expires   time.Time // zero is never
	LastUsed  time.Time // zero is never
	Revoked   time.Time // zero while it stands
	CreatedBy string
}

const tokenColumns = "id, hash, name, scopes, products, created, expires, last_used, revoked, created_by"

func scanToken(scan func(...any) error) (t TokenRow, err error) {
	var hash []byte
	var scopes string
	var products sql.NullString
	var created, expires, used, revoked sql.NullInt64
	if err := scan(&t.ID, &hash, &t.Name, &scopes, &products, &created, &expires, &used, &revoked, &t.CreatedBy); err != nil {
		return t, err
	}
	t.Created, t.Expires, t.LastUsed, t.Revoked = fromMillis(created), fromMillis(expires), fromMillis(used), fromMillis(revoked)
	if copy(t.Hash[:], hash) != len(t.Hash) {
		return t, fmt.Errorf("%w: token %s", ErrCorrupt, t.ID)
	}
	err = json.Unmarshal([]byte(scopes), &t.Scopes)
	if err == nil && products.Valid {
		err = json.Unmarshal([]byte(products.String), &t.Products)
	}
	if err != nil {
		return TokenRow{}, fmt.Errorf("%w: token %s: %w", ErrCorrupt, t.ID, err)
	}
	return t, nil
}

// Put enters a token, durably. An id or a hash that is there already is
// fs.ErrExist. The generation grows: somebody may see more now.
func (ts Tokens) Put(ctx context.Context, t TokenRow) error {
	const op = "enter a token"
	if t.ID == "" || t.Hash == [32]byte{} {
		return ts.db.fail(op, errors.New("a token without an id or a hash"))
	}
	if t.Created.IsZero() {
		t.Created = ts.db.now()
	}
	if t.Scopes == nil {
		t.Scopes = []string{}
	}
	scopes, err := json.Marshal(t.Scopes)
	if err != nil {
		return ts.db.fail(op, err)
	}
	var products any
	if t.Products != nil {
		b, err := json.Marshal(t.Products)
		if err != nil {
			return ts.db.fail(op, err)
		}
		products = string(b)
	}
	return ts.db.update(ctx, op, func(w *write) error {
		n, err := w.exec(`INSERT INTO token (id, hash, name, scopes, products, created, expires, last_used, revoked, created_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING`, text(t.ID), t.Hash[:], text(t.Name), string(scopes), products,
			t.Created.UnixMilli(), millis(t.Expires), millis(t.LastUsed), millis(t.Revoked), text(t.CreatedBy))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("token %s: %w", t.ID, fs.ErrExist)
		}
		return w.changed()
	})
}

// ByHash returns the token with a hash, revoked or expired ones too. None
// is fs.ErrNotExist.
func (ts Tokens) ByHash(ctx context.Context, hash [32]byte) (TokenRow, error) {
	t, err := scanToken(func(dest ...any) error {
		return ts.db.points.row(ctx, "SELECT "+tokenColumns+" FROM token WHERE hash = $1", []any{hash[:]}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return t, ts.db.fail("look up a token", err)
}

// List returns all tokens, the oldest first.
func (ts Tokens) List(ctx context.Context) ([]TokenRow, error) {
	list := []TokenRow{}
	err := ts.db.scans.each(ctx, true, "SELECT "+tokenColumns+" FROM token ORDER BY created, id", nil, func(scan func(...any) error) (bool, error) {
		t, err := scanToken(scan)
		list = append(list, t)
		return true, err
	})
	return list, ts.db.fail("list tokens", err)
}

// Revoke ends a token, durably, and the generation grows. One that was
// revoked before keeps its time; an unknown one is fs.ErrNotExist.
func (ts Tokens) Revoke(ctx context.Context, id string) error {
	return ts.db.update(ctx, "revoke a token", func(w *write) error {
		n, err := w.exec("UPDATE token SET revoked = coalesce(revoked, $2) WHERE id = $1", text(id), ts.db.now().UnixMilli())
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("token %s: %w", id, fs.ErrNotExist)
		}
		return w.changed()
	})
}

// Touch notes when tokens were last used, many with one write. Unknown ids
// and times that are not later than those known change nothing. It bumps no
// generation and does not wait for the disk.
func (ts Tokens) Touch(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return ts.db.note(ctx, "note last uses", func(w *write) error {
		for id, t := range used {
			if _, err := w.exec("UPDATE token SET last_used = $2 WHERE id = $1 AND coalesce(last_used < $2, 1)", text(id), t.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}
