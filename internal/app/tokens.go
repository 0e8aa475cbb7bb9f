package app

import (
	"context"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/index"
)

// tokenStore is the gate's view of the depot's tokens.
type tokenStore struct{ d *depot.Depot }

// TokenByHash implements auth.Store.
func (s tokenStore) TokenByHash(ctx context.Context, hash [32]byte) (auth.TokenRow, error) {
	row, err := s.d.Tokens.ByHash(ctx, hash)
	return auth.TokenRow(row), err
}

// TokenByID implements auth.Store.
func (s tokenStore) TokenByID(ctx context.Context, id string) (auth.TokenRow, error) {
	row, err := s.d.Tokens.ByID(ctx, id)
	return auth.TokenRow(row), err
}

// PutToken implements auth.Store.
func (s tokenStore) PutToken(ctx context.Context, row auth.TokenRow) error {
	err := s.d.Tokens.Put(ctx, depot.Token(row))
	if errors.Is(err, index.ErrManyTokens) {
		err = auth.ErrManyTokens
	}
	return err
}

// TouchToken implements auth.Store.
func (s tokenStore) TouchToken(ctx context.Context, used map[string]time.Time) error {
	return s.d.Tokens.Touch(ctx, used)
}

// PutSignIn implements auth.Store.
func (s tokenStore) PutSignIn(ctx context.Context, row auth.TokenRow, limits auth.SignInLimits) error {
	err := s.d.Tokens.PutSignIn(ctx, depot.Token(row), index.SignInLimits(limits))
	if errors.Is(err, index.ErrManySignIns) {
		err = auth.ErrManySignIns
	}
	return err
}

// EndSignIn implements auth.Store.
func (s tokenStore) EndSignIn(ctx context.Context, id string) error {
	return s.d.Tokens.EndSignIn(ctx, id)
}

// tokenAPI is the API's view of the gate and the depot's tokens.
type tokenAPI struct {
	*auth.Gate
	tokenStore
}

// List implements web.Tokens.
func (s tokenAPI) List(ctx context.Context) ([]auth.TokenRow, error) {
	rows, err := s.d.Tokens.List(ctx)
	return tokenRows(rows), err
}

// SignIns implements web.Tokens.
func (s tokenAPI) SignIns(ctx context.Context) ([]auth.TokenRow, error) {
	rows, err := s.d.Tokens.SignIns(ctx)
	return tokenRows(rows), err
}

func tokenRows(rows []depot.Token) []auth.TokenRow {
	list := make([]auth.TokenRow, len(rows))
	for i := range rows {
		list[i] = auth.TokenRow(rows[i])
	}
	return list
}

// EndSignIn implements web.Tokens.
func (s tokenAPI) EndSignIn(ctx context.Context, id string) error { return s.Gate.EndSignIn(ctx, id) }

// Revoke implements web.Tokens.
func (s tokenAPI) Revoke(ctx context.Context, id string) error { return s.d.Tokens.Revoke(ctx, id) }
