package setup

import (
	"context"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// The methods of Tokens for logins.

// loginError returns the error of the gate for one of the index.
func loginError(err error) error {
	for from, to := range map[error]error{
		tokens.ErrReused: auth.ErrReused, tokens.ErrManyLogins: auth.ErrManyLogins, tokens.ErrManyRequests: auth.ErrManyRequests,
	} {
		if errors.Is(err, from) {
			return to
		}
	}
	return err
}

// BeginLogin implements auth.Logins.
func (s Tokens) BeginLogin(
	ctx context.Context, request [32]byte, limits auth.LoginLimits, fill func(*auth.RequestRow) (auth.LoginRow, auth.TokenRow, error),
) error {
	return loginError(s.rows.BeginLogin(ctx, request, tokens.LoginLimits(limits),
		func(q *tokens.RequestRow) (tokens.LoginRow, tokens.TokenRow, error) {
			row := auth.RequestRow(*q)
			l, access, err := fill(&row)
			return tokens.LoginRow(l), tokens.TokenRow(access), err
		}))
}

// RefreshLogin implements auth.Logins.
func (s Tokens) RefreshLogin(ctx context.Context, family, old, next [32]byte, expires time.Time, access auth.TokenRow) error {
	return loginError(s.rows.RefreshLogin(ctx, family, old, next, expires, depot.Token(access)))
}

// EndLogin implements auth.Logins.
func (s Tokens) EndLogin(ctx context.Context, id string) error { return s.rows.EndLogin(ctx, id) }

// LoginByFamily implements auth.Logins.
func (s Tokens) LoginByFamily(ctx context.Context, family [32]byte) (auth.LoginRow, error) {
	row, err := s.rows.LoginByFamily(ctx, family)
	return auth.LoginRow(row), err
}

// LoginByID implements auth.Logins.
func (s Tokens) LoginByID(ctx context.Context, id string) (auth.LoginRow, error) {
	row, err := s.rows.LoginByID(ctx, id)
	return auth.LoginRow(row), err
}

// PutRequest implements auth.Logins.
func (s Tokens) PutRequest(ctx context.Context, row auth.RequestRow, limits auth.RequestLimits) error {
	return loginError(s.rows.PutRequest(ctx, tokens.RequestRow(row), tokens.RequestLimits(limits)))
}

// RequestByUserCode implements auth.Logins.
func (s Tokens) RequestByUserCode(ctx context.Context, user [32]byte) (auth.RequestRow, error) {
	row, err := s.rows.RequestByUserCode(ctx, user)
	return auth.RequestRow(row), err
}

// AnswerRequest implements auth.Logins.
func (s Tokens) AnswerRequest(ctx context.Context, row auth.RequestRow) error {
	return s.rows.AnswerRequest(ctx, tokens.RequestRow(row))
}

// AskRequest implements auth.Logins.
func (s Tokens) AskRequest(ctx context.Context, hash [32]byte, more time.Duration) (auth.RequestRow, bool, error) {
	row, soon, err := s.rows.AskRequest(ctx, hash, more)
	return auth.RequestRow(row), soon, err
}
