package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/oidc"
	"github.com/symdepot/symdepot/internal/wire"
)

// atServer makes a token of a server.
func (c tokenNewCmd) atServer(a *session, spec auth.TokenSpec) error {
	s, err := c.client()
	if err != nil {
		return err
	}
	q := wire.TokenSpec{Name: spec.Name, Scopes: spec.Scopes, Products: spec.Products}
	if spec.Lifetime > 0 {
		q.Expires = a.now().Add(spec.Lifetime)
	}
	if u := spec.Uploads; u != (auth.Uploads{}) {
		q.Uploads = &wire.TokenUploads{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
	}
	t, err := s.MakeToken(a.ctx, q)
	if err != nil {
		return err
	}
	line := lineOf(t)
	line.Token = t.Token
	return c.print(a.console, line)
}

// lineOf is newTokenLine for a token of a server.
func lineOf(t wire.TokenInfo) tokenLine {
	at := inSeconds
	l := tokenLine{ID: t.ID, Name: t.Name, Scopes: t.Scopes, Products: t.Products, State: t.State, Created: t.Created.UTC().Truncate(time.Second), CreatedBy: t.CreatedBy,
		Expires: at(t.Expires), LastUsed: at(t.LastUsed), Revoked: at(t.Revoked)}
	if u := t.Uploads; u != nil {
		l.Uploads = &auth.Uploads{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
		if u.URL != "" {
			l.Uploads.Build = &oidc.Build{URL: u.URL}
		}
	}
	return l
}

// errDamaged says how many lines of the log of a server are no records.
var errDamaged = errors.New("lines of the server's log are not audit records")

// ofServer are the records of the log of a server, which does the filtering.
func ofServer(ctx context.Context, s *client.API, f auth.AuditFilter) iter.Seq2[auth.Event, error] {
	q := url.Values{}
	for name, text := range map[string]string{"who": f.Who, "node": f.Node, "product": f.Product, "file": f.Name, "id": f.ID, "remote": f.Remote, "action": f.Action} {
		if text != "" {
			q.Set(name, text)
		}
	}
	for name, t := range map[string]time.Time{"since": f.Since, "until": f.Until} {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	return func(yield func(auth.Event, error) bool) {
		stop := errors.New("stop")
		damaged, err := s.Audit(ctx, q, func(record json.RawMessage) error {
			var e auth.Event
			if err := json.Unmarshal(record, &e); err != nil {
				return err
			}
			if !yield(e, nil) {
				return stop
			}
			return nil
		})
		switch {
		case errors.Is(err, stop):
		case err != nil:
			yield(auth.Event{}, err)
		case damaged > 0:
			yield(auth.Event{}, fmt.Errorf("%d %w", damaged, errDamaged))
		}
	}
}
