package main

import (
	"context"
	"fmt"
	"os"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/upstream"
)

// tokenAPI is the API's view of the gate and the depot's tokens.
type tokenAPI struct {
	*auth.Gate
	tokenStore
}

// List implements web.Tokens.
func (s tokenAPI) List(ctx context.Context) ([]auth.TokenRow, error) {
	rows, err := s.d.Tokens.List(ctx)
	list := make([]auth.TokenRow, len(rows))
	for i := range rows {
		list[i] = auth.TokenRow(rows[i])
	}
	return list, err
}

// Revoke implements web.Tokens.
func (s tokenAPI) Revoke(ctx context.Context, id string) error { return s.d.Tokens.Revoke(ctx, id) }

type tokenExchangeCmd struct {
	Server string `help:"Base URL of the server." required:"" env:"SYMDEPOT_SERVER" placeholder:"URL"`
}

// Run exchanges the id token of the running CI job.
func (c tokenExchangeCmd) Run(a *app) error {
	p, err := client.NewPusher(c.Server, "", os.Getenv, upstream.NewDialer(upstream.DialerOptions{}).ClientFor)
	if err != nil {
		return err
	}
	token, err := p.Token()
	if err != nil {
		return err
	}
	if !auth.IsToken(token) {
		return client.ErrNoIDToken
	}
	_, err = fmt.Fprintln(a.stdout, token)
	return err
}
