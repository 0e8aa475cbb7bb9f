package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// AuditAppender adds records to an audit file to which a server may write, too: for
// commands that change a depot without its server.
type AuditAppender struct{ f *os.File }

// AppendAudit opens or creates an audit file.
func AppendAudit(file string) (*AuditAppender, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err == nil {
		_, _, err = resume(f)
	}
	if err != nil {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		return nil, fmt.Errorf("cannot open the audit log: %w", err)
	}
	return &AuditAppender{f}, nil
}

// Record adds a record durably. A zero time means now.
func (a *AuditAppender) Record(e Event) error {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	e.shorten()
	b, err := json.Marshal(e)
	if err == nil {
		_, err = a.f.Write(append(b, '\n')) // one write, so that it is one line
	}
	if err == nil {
		err = a.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("cannot write to the audit log: %w", err)
	}
	return nil
}

// Close closes the file.
func (a *AuditAppender) Close() error { return a.f.Close() }

// ForceEvent is the record of a promotion that was forced, although the coverage of a transaction is
// less than its new class demands.
func ForceEvent(number int64, product, below string) Event {
	id := strconv.FormatInt(number, 10)
	return Event{Action: ActionForce, Name: "build " + id, ID: id, Products: []string{product}, Detail: below}
}

// PurgeEvent is the record of the purge of a transaction, which freed some bytes.
func PurgeEvent(number int64, product, reason string, freed int64) Event {
	id := strconv.FormatInt(number, 10)
	return Event{Action: ActionPurge, Name: "build " + id, ID: id, Products: []string{product}, Detail: reason, Bytes: freed}
}
