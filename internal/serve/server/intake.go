package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
)

// protocolIntake is the protocols of other uploaders, as metrics and the access
// log call them.
const protocolIntake = "upload"

// uploads answers the requests of uploaders that were written for other servers.
type uploads struct{ *access }

// admit lets every request through: package intake refuses those without rights in
// the terms of their protocol, and knows more places for a token.
func (s *uploads) admit(x *exchange, _ *http.Request, _ *place) bool {
	x.protocol = protocolIntake
	return true
}

// serve answers a request.
func (s *uploads) serve(x *exchange, r *http.Request, p *place) {
	in := intake.Request{Segs: p.own, Origin: baseURL(r), Base: p.base}
	if p.token != "" {
		in.Base = "/t/" + p.token + p.base
	}
	if c := s.authenticate(x, r, p); c != nil {
		x.caller.why = c.Reason
		in.Denied = &intake.Denied{Status: c.Status, Text: c.Text}
	}
	in.Who = s.who(&x.caller.id, x.caller.rights)
	in.Memory = s.account(s.bodies, x, r)
	defer in.Memory.Free()
	if g := s.cfg.Gate; !g.Off() {
		in.Challenge = g.NewChallenge().Header
		in.Token = func(_ context.Context, secret string) (intake.Who, *intake.Denied) {
			id, rights, c := g.Authenticate(s.withoutProxies(r), secret)
			if c == nil {
				x.caller.id, x.caller.rights, x.caller.why = id, rights, ""
				return s.who(&id, rights), nil
			}
			x.caller.why = c.Reason
			return intake.Who{}, &intake.Denied{Status: c.Status, Text: "invalid credentials: the token is wrong, revoked or expired"}
		}
	}
	s.cfg.Uploads.ServeIntake(x, r, in)
}

// who describes a principal to package intake. A token that may write exactly one
// product files everything there.
func (s *uploads) who(id *auth.Identity, rights auth.Rights) intake.Who {
	w := intake.Who{
		Caller:    stage.Caller{ID: id.Maker(), Name: id.Name, Read: rights.MayRead, Write: rights.MayWrite, Class: id.Uploads.Class},
		Anonymous: id.Anonymous(), Writer: rights.Write,
	}
	if g := s.cfg.Gate; rights.Write {
		w.Credential = g.Credential(id)
		w.Again = func(ctx context.Context, product string) error { return StillWrites(g)(ctx, w.Credential, product) }
	}
	u := &id.Uploads
	w.Defaults = stage.Labels{Product: u.Product, Version: u.Version, Branch: u.Branch, Class: u.Class}
	if b := u.Build; b != nil {
		w.Build = stage.Build{CI: b.CI, URL: b.URL, Commit: b.Commit, Run: b.Run, Attempt: b.Attempt, Verified: true}
	}
	w.Defaults.Product = cmp.Or(w.Defaults.Product, rights.SoleProduct())
	return w
}

// StillWrites returns a function that reports whether credentials that Gate.Credential has
// described still count and may add files to a product. Its error is a *stage.Refusal.
func StillWrites(g *auth.Gate) func(ctx context.Context, credential, product string) error {
	return func(ctx context.Context, credential, product string) error {
		id, rights, err := g.Still(ctx, credential)
		switch {
		case errors.Is(err, auth.ErrEnded):
			return &stage.Refusal{Kind: stage.Forbidden, Text: "the credentials of this upload are not valid any more"}
		case err != nil:
			return &stage.Refusal{Kind: stage.Busy, Text: "the credentials of this upload cannot be checked now; try again later"}
		case !rights.MayWrite(product):
			return &stage.Refusal{Kind: stage.Forbidden, Text: fmt.Sprintf("%s may not add files to product %q any more", id.Name, product)}
		}
		return nil
	}
}
