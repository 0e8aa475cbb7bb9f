package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// code returns the SQLSTATE of an error, or an empty string.
func code(err error) string {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		return pe.Code
	}
	return ""
}

// errNoAnswer means that the database has not answered in time.
var errNoAnswer = errors.New("the database has not answered in time")

// passes reports whether an error is not caused by the statement, so that a later
// attempt may succeed: serialization failures, deadlocks, a server that starts,
// stops or only reads, and broken connections.
func passes(err error) bool {
	switch c := code(err); {
	case err == nil:
		return false
	case c == "":
		return broken(err)
	case c == "40001" || c == "40P01" || c == "25006" || c == "53300":
		return true
	default:
		return strings.HasPrefix(c, "08") || strings.HasPrefix(c, "57P") || c == "25P03"
	}
}

// broken reports whether an error is one of a connection.
func broken(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	var number syscall.Errno
	return errors.As(err, &connect) || errors.As(err, &network) || errors.As(err, &number) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errNoAnswer) || pgconn.SafeToRetry(err)
}

func (e *postgres) classify(err error) error {
	switch c := code(err); {
	case c == "53100":
		return ErrNoSpace
	case c == "55P03" || errors.Is(err, errLockWait):
		return ErrBusy
	case c == "57014" || passes(err): // 57014: a limit of the server
		return ErrUnavailable
	case strings.HasPrefix(c, "XX00"):
		return ErrCorrupt
	case c == "42501":
		return fmt.Errorf("the role %q lacks a right in the database: grant it, or let the owner of the tables make or upgrade them "+
			"first (docs/scale-out.md, the least rights)", e.user)
	}
	return nil
}

// saw records whether the database answers, and logs when that changes. A failure of what began, in the time of
// running, before the last answer says nothing of a database that answers again.
func (e *postgres) saw(began time.Duration, err error) {
	if err == nil {
		e.answered.Store(int64(running()))
	}
	switch {
	case err == nil && e.down.Load() && e.down.CompareAndSwap(true, false):
		e.log.Info("the database answers again", "database", e.host)
	case err != nil && passes(err) && int64(began) >= e.answered.Load() && e.down.CompareAndSwap(false, true):
		e.log.Error("the database is not available: lookups are answered with 503 until it is", "database", e.host, "error", oneLine(err))
	}
}

// reset closes the idle connections, which a restarted or a demoted server has
// left behind.
func (e *postgres) reset() {
	now := int64(running())
	if last := e.lastReset.Load(); now-last > int64(100*time.Millisecond) && e.lastReset.CompareAndSwap(last, now) {
		e.pool.Reset()
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Limits of the clocks of this machine and of the database server.
const (
	skewWarned  = 30 * time.Second
	skewRefused = 5 * time.Minute
)

// oldestServer is the oldest supported major version of PostgreSQL.
const oldestServer = 14

// wallClock is the clock that is compared with the server's.
var wallClock = time.Now

// ConnectError says why a database server cannot be used, and what to do.
type ConnectError struct {
	What, Do string
	Said     string // what the driver or the server says; may be empty
}

// Error returns all in one line.
func (e *ConnectError) Error() string {
	if e.Said == "" {
		return e.What + ": " + e.Do
	}
	return fmt.Sprintf("%s: %s (%s)", e.What, e.Do, e.Said)
}

// refusal explains why the first connection failed.
func (e *postgres) refusal(err error) error {
	var pe *pgconn.PgError
	if errors.As(err, &pe) {
		switch pe.Code {
		case "28P01", "28000":
			return &ConnectError{fmt.Sprintf("the server refuses user %q", e.user),
				"set PGPASSWORD or a line of the password file ~/.pgpass, or change the user in the URL", pe.Message}
		case "3D000":
			return &ConnectError{What: fmt.Sprintf("database %q does not exist", e.database), Do: "create it with createdb, or change the URL"}
		case "57P03":
			return &ConnectError{What: "the server is starting or stopping", Do: "try again"}
		case "53300":
			return &ConnectError{What: "the server has no free connection", Do: "raise max_connections"}
		}
		return err
	}
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) || broken(err) {
		return &ConnectError{"no PostgreSQL server answers there", "check the host, the port and sslmode in the URL", oneLine(err)}
	}
	return err
}

// server is what the database server reports about itself.
type server struct {
	version            int // such as 150004
	release, encoding  string
	now                time.Time
	readOnly, recovery bool
}

// checkServer refuses servers that cannot hold an index.
func (e *postgres) checkServer(ctx context.Context) error {
	var s server
	before, sent := wallClock(), time.Now()
	err := e.pool.QueryRow(ctx,
		`SELECT current_setting('server_version_num')::integer, current_setting('server_version'), current_setting('server_encoding'),
		clock_timestamp(), current_setting('transaction_read_only') = 'on', pg_is_in_recovery()`).Scan(&s.version, &s.release,
		&s.encoding, &s.now, &s.readOnly, &s.recovery)
	if err != nil {
		return e.refusal(err)
	}
	after := wallClock()
	e.clock.set(s.now, sent, time.Now())
	skew := s.now.Sub(before.Add(after.Sub(before) / 2)).Abs()
	if err := s.fault(e.readOnly, skew); err != nil {
		return err
	}
	if skew > skewWarned {
		e.log.Warn("the clock of this machine differs from the database server's: synchronize both", "database", e.host, "difference",
			skew.Round(time.Second).String())
	}
	return nil
}

// fault returns why a server cannot be used.
func (s server) fault(reads bool, skew time.Duration) error {
	switch {
	case s.version < oldestServer*10000:
		return fmt.Errorf("the server is PostgreSQL %s: version %d or newer is needed", s.release, oldestServer)
	case s.encoding != "UTF8":
		return fmt.Errorf("the database has the encoding %s: create one with createdb --encoding UTF8 --template template0", s.encoding)
	case skew > skewRefused:
		return fmt.Errorf("the clock of this machine differs from the server's by %s: synchronize both clocks", skew.Round(time.Second))
	case reads:
		return nil
	case s.recovery:
		return errors.New("the server is a standby, which only reads: name the primary, or all hosts and " +
			"target_session_attrs=read-write in the URL")
	case s.readOnly:
		return errors.New("transactions only read there: set default_transaction_read_only to off for this user and database")
	}
	return nil
}
