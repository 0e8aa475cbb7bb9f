package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// guard authorizes the requests of a server.
type guard struct {
	gate  *auth.Gate
	tls   *auth.TLS   // nil: plain HTTP
	audit *auth.Audit // nil: no audit log
}

// openGuard opens the files that auth and tls name. The tokens are the depot's.
func openGuard(conf *config.Config, d *depot.Depot, log *slog.Logger) (*guard, error) {
	g := &guard{}
	var err error
	gate := setup.Gate(conf)
	if d.Nodes.Shared() {
		gate.Generation, gate.FirstUse = d.Nodes.TokenGeneration, d.Nodes.FirstUse
	}
	if g.gate, err = auth.New(gate, setup.TokensOf(d), log); err != nil {
		return nil, fmt.Errorf("auth: %w", err)
	}
	d.Nodes.UsePolicy(g.gate.PolicyHash)
	if t := setup.TLSOptions(conf); t != nil {
		if g.tls, err = auth.NewTLS(*t, g.gate, log); err != nil {
			return nil, errors.Join(fmt.Errorf("tls: %w", err), g.Close())
		}
	}
	if f := setup.AuditOptions(conf); f != nil {
		f.Node = d.Nodes.Name()
		if to := d.Nodes.AuditArchive(); to != nil {
			f.Archive = to
		}
		if g.audit, err = auth.OpenAudit(*f, log); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Close flushes the audit log and closes the files.
func (g *guard) Close() error {
	var errs []error
	if g.audit != nil {
		errs = append(errs, g.audit.Close())
	}
	if g.tls != nil {
		errs = append(errs, g.tls.Close())
	}
	return errors.Join(append(errs, g.gate.Close())...)
}
