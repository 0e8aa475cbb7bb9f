package app

import (
	"context"
	"log/slog"

	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/daemon"
)

// manage tells the service manager that the server listens, and later that it
// stops, and reloads files when it is asked to.
func manage(ctx context.Context, conf *config.Config, g *guard, reloads func(context.Context, func()), log *slog.Logger) error {
	notify := func(state string) {
		if err := daemon.Notify(state); err != nil {
			log.Warn("the service manager was not told the state", "state", state, "error", err)
		}
	}
	notify("READY=1")
	reloads(ctx, func() {
		g.gate.Reload()
		if g.tls != nil {
			g.tls.Reload()
		}
		changed, err := conf.Changed()
		switch {
		case err != nil:
			log.Error("the configuration could not be used at the next start", "error", err)
		case changed:
			log.Warn("the configuration has changed; restart the server to use it", "file", conf.File())
		}
		log.Info("reloaded certificates, users and keys")
	})
	notify("STOPPING=1")
	return nil
}
