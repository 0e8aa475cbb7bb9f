package app

import (
	"context"

	"github.com/symdepot/symdepot/internal/run/daemon"
	"github.com/symdepot/symdepot/internal/serve/server"
)

// manage tells the service manager that the server listens, and later that it
// stops, and reloads files when it is asked to.
func (s *program) manage(ctx context.Context, g *guard, srv *server.Server) error {
	log := s.log
	notify := func(state string) {
		if err := daemon.Notify(state); err != nil {
			log.Warn("the service manager was not told the state", "state", state, "error", err)
		}
	}
	notify("READY=1")
	s.reloads(ctx, func() {
		g.gate.Reload()
		if g.tls != nil {
			g.tls.Reload()
		}
		s.reloadRights(srv)
		log.Info("reloaded certificates, users and keys")
	})
	notify("STOPPING=1")
	return nil
}

// reloadRights puts the rights of the configuration file in force: for every request that comes
// from now on. Faulty ones are logged, and those before stay.
func (s *program) reloadRights(srv *server.Server) {
	next, restart, err := s.inForce.Load().Reload()
	if err != nil {
		s.log.Error("the configuration could not be used at the next start; the rights stay as they are", "error", err)
		return
	}
	if restart {
		s.log.Warn("the configuration has changed; restart the server to use it", "file", next.File())
	}
	switch changed, err := srv.UsePolicy(next.Access().Policy); {
	case err != nil:
		s.log.Error("the rights stay as they are; correct the key auth of the configuration", "file", next.File(), "error", err)
	case changed:
		s.inForce.Store(next)
		s.log.Info("the rights of the configuration have changed", "file", next.File())
	}
}
