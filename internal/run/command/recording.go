package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// recording prepares an API whose acts may have to be recorded in the audit log of the configuration, if it
// has one; a server records them itself. With an act that need not be, nothing is opened. done closes the log.
func (a *session) recording(needed bool) (prepare func(*depot.Depot, *web.Config) error, done func()) {
	end := func() {}
	return func(_ *depot.Depot, c *web.Config) error {
		c.Record = func(auth.Event) error { return nil }
		if !needed {
			return nil
		}
		conf, err := a.config("")
		if err != nil || setup.AuditOptions(conf) == nil {
			return err
		}
		log, err := auth.AppendAudit(setup.AuditOptions(conf).File)
		if err != nil {
			return fmt.Errorf("%w; nothing was changed", err)
		}
		c.Record, end = log.Record, func() { _ = log.Close() } // each record is durable
		return nil
	}, func() { end() }
}
