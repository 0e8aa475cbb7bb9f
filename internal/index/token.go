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

// Tokens is the part of the index for tokens.
type Tokens struct{ db *DB }

// TokenRow is a stored token. The caller decides about rights and expiry.
type TokenRow struct {
	ID     string   // identifies the token without its secret
	Hash   [32]byte // of the secret, which is not stored
	Name   string   // its purpose, for users
	Scopes []string
	// Products are the products to which it is limited; nil means all, an empty
	// list none.
	Products  []string
	Created   time.Time // zero means now
	Expires   time.Time // zero is never
	LastUsed  time.Time // zero is never
	Revoked   time.Time // zero if not revoked
	CreatedBy string
	Uploads   string // defaults for uploads, as JSON of the caller
	// Origin identifies what the token was exchanged for; zero: nothing. No two tokens
	// have the same.
	Origin [32]byte
	// Keep is the time after which the row of an exchanged token may be deleted.
	Keep time.Time
}

// ErrManyTokens means that there are as many exchanged tokens as there may be.
var ErrManyTokens = errors.New("too many exchanged tokens are valid")

// maxExchanged limits the exchanged tokens.
const maxExchanged = 10_000

const tokenColumns = "id, hash, name, scopes, products, created, expires, last_used, revoked, created_by, uploads, origin, keep"

func scanToken(scan func(...any) error) (t TokenRow, err error) {
	var hash, origin []byte
	var scopes string
	var products, uploads sql.NullString
	var created, expires, used, revoked, keep sql.NullInt64
	if err := scan(&t.ID, &hash, &t.Name, &scopes, &products, &created, &expires, &used, &revoked, &t.CreatedBy, &uploads, &origin, &keep); err != nil {
		return t, err
	}
	t.Uploads, t.Keep = uploads.String, fromMillis(keep)
	copy(t.Origin[:], origin)
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

// Put adds a token, durably. If its id, hash or origin exists, the error is
// fs.ErrExist; if there are too many exchanged tokens, ErrManyTokens. The generation
// increases, because a caller may see more now. Rows of exchanged tokens that need
// not be kept are deleted.
func (ts Tokens) Put(ctx context.Context, t TokenRow) error {
	const op = "add a token"
	if t.ID == "" || t.Hash == [32]byte{} {
		return ts.db.fail(op, errors.New("the token has no id or no hash"))
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
	var origin, uploads any
	if t.Origin != [32]byte{} {
		origin = t.Origin[:]
	}
	if t.Uploads != "" {
		uploads = text(t.Uploads)
	}
	return ts.db.update(ctx, op, func(w *write) error {
		if origin != nil {
			if err := w.exchange(ts.db.now()); err != nil {
				return err
			}
		}
		n, err := w.exec(`INSERT INTO token (id, hash, name, scopes, products, created, expires, last_used, revoked, created_by, uploads, origin, keep)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING`, text(t.ID), t.Hash[:], text(t.Name), string(scopes), products,
			t.Created.UnixMilli(), millis(t.Expires), millis(t.LastUsed), millis(t.Revoked), text(t.CreatedBy), uploads, origin, millis(t.Keep))
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("token %s: %w", t.ID, fs.ErrExist)
		}
		return w.changed()
	})
}

// exchange deletes the exchanged tokens that need not be kept, and returns
// ErrManyTokens if too many are left.
func (w *write) exchange(now time.Time) error {
	if _, err := w.exec("DELETE FROM token WHERE origin IS NOT NULL AND keep < $1", now.UnixMilli()); err != nil {
		return err
	}
	var n int
	if err := w.row("SELECT count(*) FROM token WHERE origin IS NOT NULL", nil, &n); err != nil {
		return err
	}
	if n >= maxExchanged {
		return ErrManyTokens
	}
	return nil
}

// ByHash returns the token with a hash, including revoked and expired ones. If
// there is none, the error is fs.ErrNotExist.
func (ts Tokens) ByHash(ctx context.Context, hash [32]byte) (TokenRow, error) {
	t, err := scanToken(func(dest ...any) error {
		return ts.db.points.row(ctx, "SELECT "+tokenColumns+" FROM token WHERE hash = $1", []any{hash[:]}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return t, ts.db.fail("look up a token", err)
}

// List returns all tokens, oldest first.
func (ts Tokens) List(ctx context.Context) ([]TokenRow, error) {
	list := []TokenRow{}
	err := ts.db.scans.each(ctx, true, "SELECT "+tokenColumns+" FROM token ORDER BY created, id", nil, func(scan func(...any) error) (bool, error) {
		t, err := scanToken(scan)
		list = append(list, t)
		return true, err
	})
	return list, ts.db.fail("list tokens", err)
}

// Revoke revokes a token, durably. The generation increases. A token that was
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

// Touch records the last uses of tokens, all in one write. It ignores unknown
// ids and times that are not later than the recorded ones. It does not change
// the generation and does not wait for the disk.
func (ts Tokens) Touch(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return ts.db.updateUnsynced(ctx, "record last uses", func(w *write) error {
		rows := make([][]any, 0, len(used))
		for id, t := range used {
			rows = append(rows, []any{text(id), t.UnixMilli()})
		}
		_, err := w.many("UPDATE token SET last_used = $2 WHERE id = $1 AND (last_used IS NULL OR last_used < $2)", rows)
		return err
	})
}
