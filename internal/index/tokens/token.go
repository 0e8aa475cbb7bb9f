// Package tokens is the part of an index for tokens, the sign-ins of browsers and the logins of
// programs.
package tokens

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// Tokens is the part of the index for tokens.
type Tokens struct{ db *engine.Database }

// NewTokens returns the tokens of an index in a database.
func NewTokens(db *engine.Database) Tokens { return Tokens{db} }

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
	// Kind is KindSignIn for the sign-in of a browser, KindAccess for the access token of a
	// login; empty: a token.
	Kind string
	// Parent is the id of the token that a sign-in was begun with, or of the login of an
	// access token; empty: none.
	Parent string
	// Facts describe a sign-in or a token, as JSON of the caller.
	Facts string
}

// KindSignIn is the kind of a sign-in.
const KindSignIn = "signin"

// ErrManySignIns means that there are as many sign-ins as there may be.
var ErrManySignIns = errors.New("too many browsers are signed in")

// SignInLimits bound the sign-ins that are stored.
type SignInLimits struct {
	// Idle is the time without a use after which a sign-in has ended.
	Idle time.Duration
	// Each is how many one principal (TokenRow.CreatedBy) may have; a new one ends the
	// one that was not used for the longest time. All is how many there may be.
	Each, All int
}

// ErrManyTokens means that there are as many exchanged tokens as there may be.
var ErrManyTokens = errors.New("too many exchanged tokens are valid")

// maxExchanged limits the exchanged tokens.
const maxExchanged = 10_000

const tokenColumns = "id, hash, name, scopes, products, created, expires, last_used, revoked, created_by, uploads, origin, keep, " +
	"kind, parent, facts"

func scanToken(scan engine.Scan) (t TokenRow, err error) {
	var hash, origin []byte
	var scopes string
	var products, uploads, kind, parent, facts sql.NullString
	var created, expires, used, revoked, keep sql.NullInt64
	if err := scan(&t.ID, &hash, &t.Name, &scopes, &products, &created, &expires, &used, &revoked, &t.CreatedBy, &uploads, &origin,
		&keep, &kind, &parent, &facts); err != nil {
		return t, err
	}
	t.Uploads, t.Keep = uploads.String, engine.FromMillis(keep)
	t.Kind, t.Parent, t.Facts = kind.String, parent.String, facts.String
	copy(t.Origin[:], origin)
	t.Created, t.Expires, t.LastUsed, t.Revoked = engine.FromMillis(created), engine.FromMillis(expires),
		engine.FromMillis(used), engine.FromMillis(revoked)
	if copy(t.Hash[:], hash) != len(t.Hash) {
		return t, fmt.Errorf("%w: token %s", engine.ErrCorrupt, t.ID)
	}
	err = json.Unmarshal([]byte(scopes), &t.Scopes)
	if err == nil && products.Valid {
		err = json.Unmarshal([]byte(products.String), &t.Products)
	}
	if err != nil {
		return TokenRow{}, fmt.Errorf("%w: token %s: %w", engine.ErrCorrupt, t.ID, err)
	}
	return t, nil
}

// Put adds a token, durably. If its id, hash or origin exists, the error is
// fs.ErrExist; if there are too many exchanged tokens, ErrManyTokens. The generation
// increases, because a caller may see more now. Rows of exchanged tokens that need
// not be kept are deleted.
func (ts Tokens) Put(ctx context.Context, t TokenRow) error {
	const op = "add a token"
	if t.Kind != "" {
		return ts.db.Fail(op, errors.New("this is no token"))
	}
	args, err := ts.row(&t)
	if err != nil {
		return ts.db.Fail(op, err)
	}
	return ts.db.Update(ctx, op, func(w *engine.Write) error {
		if t.Origin != [32]byte{} {
			if err := forgetExchanged(w, ts.db.Now()); err != nil {
				return err
			}
		}
		if err := insertToken(w, args); err != nil {
			return err
		}
		return record.NextGeneration(w)
	})
}

// PutSignIn adds the sign-in of a browser, durably, and deletes those that have
// ended. If there are too many, the error is ErrManySignIns.
func (ts Tokens) PutSignIn(ctx context.Context, t TokenRow, l SignInLimits) error {
	const op = "add a sign-in"
	if t.Kind != KindSignIn || t.CreatedBy == "" || t.Expires.IsZero() {
		return ts.db.Fail(op, errors.New("the sign-in has no principal or no end"))
	}
	args, err := ts.row(&t)
	if err != nil {
		return ts.db.Fail(op, err)
	}
	return ts.db.Update(ctx, op, func(w *engine.Write) error {
		if err := makeRoom(w, &t, l, ts.db.Now()); err != nil {
			return err
		}
		return insertToken(w, args)
	})
}

// row returns the values of a new row, in the order of tokenColumns.
func (ts Tokens) row(t *TokenRow) ([]any, error) {
	if t.ID == "" || t.Hash == [32]byte{} {
		return nil, errors.New("the token has no id or no hash")
	}
	if t.Created.IsZero() {
		t.Created = ts.db.Now()
	}
	if t.Scopes == nil {
		t.Scopes = []string{}
	}
	scopes, err := json.Marshal(t.Scopes)
	if err != nil {
		return nil, err
	}
	var products, origin any
	if t.Products != nil {
		b, err := json.Marshal(t.Products)
		if err != nil {
			return nil, err
		}
		products = string(b)
	}
	if t.Origin != [32]byte{} {
		origin = t.Origin[:]
	}
	return []any{engine.Text(t.ID), t.Hash[:], engine.Text(t.Name), string(scopes), products, t.Created.UnixMilli(), engine.Millis(t.Expires),
		engine.Millis(t.LastUsed), engine.Millis(t.Revoked),
		engine.Text(t.CreatedBy), orNull(t.Uploads), origin, engine.Millis(t.Keep), orNull(t.Kind), orNull(t.Parent), orNull(t.Facts)}, nil
}

// orNull returns the stored form of a text; the empty text is null.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return engine.Text(s)
}

func insertToken(w *engine.Write, args []any) error {
	n, err := w.Exec("INSERT INTO token ("+tokenColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT DO NOTHING`, args...)
	if err == nil && n == 0 {
		err = fmt.Errorf("token %v: %w", args[0], fs.ErrExist)
	}
	return err
}

// signIn makes room for a sign-in.
func makeRoom(w *engine.Write, t *TokenRow, l SignInLimits, now time.Time) error {
	if _, err := w.Exec("DELETE FROM token WHERE kind = $1 AND (expires <= $2 OR coalesce(last_used, created) <= $3)",
		KindSignIn, now.UnixMilli(), now.Add(-l.Idle).UnixMilli()); err != nil {
		return err
	}
	n, err := w.Exec(`DELETE FROM token WHERE kind = $1 AND id IN (SELECT id FROM token WHERE kind = $1 AND created_by = $2
		ORDER BY coalesce(last_used, created) DESC, id LIMIT 1000000 OFFSET $3)`, KindSignIn, engine.Text(t.CreatedBy), l.Each-1)
	if err != nil {
		return err
	}
	if n > 0 { // other servers must not go on with them
		if err := record.NextGeneration(w); err != nil {
			return err
		}
	}
	var all int
	if err := w.Row("SELECT count(*) FROM token WHERE kind = $1", []any{KindSignIn}, &all); err != nil {
		return err
	}
	if all >= l.All {
		return ErrManySignIns
	}
	return nil
}

// exchange deletes the exchanged tokens that need not be kept, and returns
// ErrManyTokens if too many are left.
func forgetExchanged(w *engine.Write, now time.Time) error {
	if _, err := w.Exec("DELETE FROM token WHERE origin IS NOT NULL AND keep < $1", now.UnixMilli()); err != nil {
		return err
	}
	var n int
	if err := w.Row("SELECT count(*) FROM token WHERE origin IS NOT NULL", nil, &n); err != nil {
		return err
	}
	if n >= maxExchanged {
		return ErrManyTokens
	}
	return nil
}

// ByHash returns the token, the sign-in or the access token with a hash, including revoked and expired
// ones. If there is none, the error is fs.ErrNotExist.
func (ts Tokens) ByHash(ctx context.Context, hash [32]byte) (TokenRow, error) {
	t, err := scanToken(func(dest ...any) error {
		return ts.db.Points.Row(ctx, "SELECT "+tokenColumns+" FROM token WHERE hash = $1", []any{hash[:]}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return t, ts.db.Fail("look up a token", err)
}

// ByID returns the token with an id, including revoked and expired ones. If there is
// none, the error is fs.ErrNotExist.
func (ts Tokens) ByID(ctx context.Context, id string) (TokenRow, error) {
	t, err := scanToken(func(dest ...any) error {
		return ts.db.Points.Row(ctx, "SELECT "+tokenColumns+" FROM token WHERE id = $1 AND kind IS NULL", []any{engine.Text(id)}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return t, ts.db.Fail("look up a token", err)
}

// List returns all tokens, oldest first.
func (ts Tokens) List(ctx context.Context) ([]TokenRow, error) {
	return ts.list(ctx, "list tokens", "kind IS NULL")
}

// SignIns returns all sign-ins, oldest first, including those that have ended and are
// not deleted yet.
func (ts Tokens) SignIns(ctx context.Context) ([]TokenRow, error) {
	return ts.list(ctx, "list sign-ins", "kind = '"+KindSignIn+"'")
}

func (ts Tokens) list(ctx context.Context, op, where string) ([]TokenRow, error) {
	list := []TokenRow{}
	err := ts.db.Scans.Each(ctx, true, "SELECT "+tokenColumns+" FROM token WHERE "+where+" ORDER BY created, id", nil,
		func(scan engine.Scan) (bool, error) {
			t, err := scanToken(scan)
			list = append(list, t)
			return true, err
		})
	return list, ts.db.Fail(op, err)
}

// Revoke revokes a token and ends the sign-ins and logins that were begun with it, durably. The
// generation increases. A token that was revoked before keeps its time; an unknown one
// is fs.ErrNotExist.
func (ts Tokens) Revoke(ctx context.Context, id string) error {
	return ts.db.Update(ctx, "revoke a token", func(w *engine.Write) error {
		n, err := w.Exec("UPDATE token SET revoked = coalesce(revoked, $2) WHERE id = $1 AND kind IS NULL",
			engine.Text(id), ts.db.Now().UnixMilli())
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("token %s: %w", id, fs.ErrNotExist)
		}
		if _, err := w.Exec("DELETE FROM token WHERE kind = $2 AND parent = $1", engine.Text(id), KindSignIn); err != nil {
			return err
		}
		if err := endLogins(w, "parent = $1", engine.Text(id)); err != nil {
			return err
		}
		return record.NextGeneration(w)
	})
}

// EndSignIn ends a sign-in, durably. The generation increases. An unknown one is
// fs.ErrNotExist.
func (ts Tokens) EndSignIn(ctx context.Context, id string) error {
	return ts.db.Update(ctx, "end a sign-in", func(w *engine.Write) error {
		n, err := w.Exec("DELETE FROM token WHERE id = $1 AND kind = $2", engine.Text(id), KindSignIn)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("sign-in %s: %w", id, fs.ErrNotExist)
		}
		return record.NextGeneration(w)
	})
}

// Touch records the last uses of tokens, all in one write. It ignores unknown
// ids and times that are not later than the recorded ones. It does not change
// the generation and does not wait for the disk.
func (ts Tokens) Touch(ctx context.Context, used map[string]time.Time) error {
	if len(used) == 0 {
		return nil
	}
	return ts.db.UpdateUnsynced(ctx, "record last uses", func(w *engine.Write) error {
		rows := make([][]any, 0, len(used))
		for id, t := range used {
			rows = append(rows, []any{engine.Text(id), t.UnixMilli()})
		}
		_, err := w.Many("UPDATE token SET last_used = $2 WHERE id = $1 AND (last_used IS NULL OR last_used < $2)", rows)
		return err
	})
}
