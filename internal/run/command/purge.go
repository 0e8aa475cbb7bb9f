package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/run/setup"
	"github.com/symdepot/symdepot/internal/serve/auth"
)

// recorder returns the function that records purges in the audit log of the
// configuration, if it has one. A server records them itself.
func (c rmCmd) recorder(a *session) (record func(auth.Event) error, done func(), err error) {
	record, done = func(auth.Event) error { return nil }, func() {}
	if !c.Purge {
		return record, done, nil
	}
	conf, err := a.config("")
	if err != nil || setup.AuditOptions(conf) == nil {
		return record, done, err
	}
	log, err := auth.AppendAudit(setup.AuditOptions(conf).File)
	if err != nil {
		return nil, done, fmt.Errorf("%w; nothing was purged", err)
	}
	return log.Record, func() { _ = log.Close() }, nil // each record is durable
}
