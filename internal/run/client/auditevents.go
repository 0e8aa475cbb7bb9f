package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/url"
	"time"

	"github.com/symdepot/symdepot/internal/serve/auth"
)

// ErrDamagedRecords says how many lines of the log of a server are no records.
var ErrDamagedRecords = errors.New("lines of the server's log are not audit records")

// AuditEvents are the records of the log of a server, which does the filtering. An error that
// wraps ErrDamagedRecords is the last one.
func (a *API) AuditEvents(ctx context.Context, f auth.AuditFilter) iter.Seq2[auth.Event, error] {
	q := url.Values{}
	texts := map[string]string{
		"who": f.Who, "node": f.Node, "product": f.Product, "file": f.Name, "id": f.ID, "remote": f.Remote, "action": f.Action,
	}
	for name, text := range texts {
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
		damaged, err := a.Audit(ctx, q, func(record json.RawMessage) error {
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
			yield(auth.Event{}, fmt.Errorf("%d %w", damaged, ErrDamagedRecords))
		}
	}
}
