package depot

import (
	"context"
	"time"

	"github.com/symdepot/symdepot/internal/index"
)

// Token is a token as the depot keeps it, without its secret. What it opens is
// judged elsewhere.
type Token = index.TokenRow

// PutToken keeps a token. An id that is there already is fs.ErrExist.
func (d *Depot) PutToken(ctx context.Context, t Token) error { return d.db.Tokens.Put(ctx, t) }

// TokenByHash returns the token with a hash, revoked and expired ones too. None
// is fs.ErrNotExist.
func (d *Depot) TokenByHash(ctx context.Context, hash [32]byte) (Token, error) {
	return d.db.Tokens.ByHash(ctx, hash)
}

// Tokens returns all tokens, the oldest first.
func (d *Depot) Tokens(ctx context.Context) ([]Token, error) { return d.db.Tokens.List(ctx) }

// RevokeToken ends a token. An unknown id is fs.ErrNotExist.
func (d *Depot) RevokeToken(ctx context.Context, id string) error { return d.db.Tokens.Revoke(ctx, id) }

// TouchToken notes when tokens, by their ids, were last used.
func (d *Depot) TouchToken(ctx context.Context, used map[string]time.Time) error {
	return d.db.Tokens.Touch(ctx, used)
}
