package setup

import (
	"context"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// Tokens are those of a depot as the gate, the API and commands see them: in this file alone
// rows of the index become tokens, and back.
type Tokens struct{ rows tokens.Tokens }

// TokensOf returns the tokens of a depot.
func TokensOf(d *depot.Depot) Tokens { return Tokens{d.Tokens} }

// TokenByHash implements auth.Store.
func (s Tokens) TokenByHash(ctx context.Context, hash [32]byte) (auth.TokenRow, error) {
	row, err := s.rows.ByHash(ctx, hash)
	return auth.TokenRow(row), err
}

// TokenByID implements auth.Store.
func (s Tokens) TokenByID(ctx context.Context, id string) (auth.TokenRow, error) {
	row, err := s.rows.ByID(ctx, id)
	return auth.TokenRow(row), err
}

// PutToken implements auth.Store.
func (s Tokens) PutToken(ctx context.Context, row auth.TokenRow) error {
	err := s.rows.Put(ctx, depot.Token(row))
	if errors.Is(err, tokens.ErrManyTokens) {
		err = auth.ErrManyTokens
	}
	return err
}

// TouchToken implements auth.Store.
func (s Tokens) TouchToken(ctx context.Context, used map[string]time.Time) error {
	return s.rows.Touch(ctx, used)
}

// PutSignIn implements auth.Store.
func (s Tokens) PutSignIn(ctx context.Context, row auth.TokenRow, limits auth.SignInLimits) error {
	err := s.rows.PutSignIn(ctx, depot.Token(row), tokens.SignInLimits(limits))
	if errors.Is(err, tokens.ErrManySignIns) {
		err = auth.ErrManySignIns
	}
	return err
}

// EndSignIn implements auth.Store.
func (s Tokens) EndSignIn(ctx context.Context, id string) error {
	return s.rows.EndSignIn(ctx, id)
}

// List implements web.Tokens.
func (s Tokens) List(ctx context.Context) ([]auth.TokenRow, error) {
	rows, err := s.rows.List(ctx)
	return TokenRows(rows), err
}

// SignIns implements web.Tokens.
func (s Tokens) SignIns(ctx context.Context) ([]auth.TokenRow, error) {
	rows, err := s.rows.SignIns(ctx)
	list := TokenRows(rows)
	if err != nil {
		return list, err
	}
	logins, err := s.rows.Logins(ctx)
	for i := range logins {
		l := auth.LoginRow(logins[i])
		list = append(list, l.SignInRow())
	}
	return list, err
}

// TokenRows returns tokens as the gate sees them.
func TokenRows(rows []depot.Token) []auth.TokenRow {
	list := make([]auth.TokenRow, len(rows))
	for i := range rows {
		list[i] = auth.TokenRow(rows[i])
	}
	return list
}

// Revoke implements web.Tokens.
func (s Tokens) Revoke(ctx context.Context, id string) error { return s.rows.Revoke(ctx, id) }
