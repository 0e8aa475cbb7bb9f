package tokens

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// The states of a request for a login.
const (
	RequestAsked   = "asked"   // a person has not answered yet
	RequestAllowed = "allowed" // the login may begin
	RequestDenied  = "denied"
	RequestUsed    = "used" // the login has begun
)

// RequestRow is what a program asks for before a login begins: a code for its own machine, or
// a request that a person answers in a browser of any machine.
type RequestRow struct {
	Hash [32]byte // of the code that the program has
	// UserCode is the hash of the code that the person types; zero: there is none.
	UserCode [32]byte
	State    string
	// Challenge is the code challenge (RFC 7636) of a code, Redirect where it was sent.
	Challenge, Redirect string
	// Name, CreatedBy, Credential, Parent and Ends are those of the login, once it is allowed.
	Name, CreatedBy, Credential, Parent string
	Machine, Address, Agent             string // of the program
	Created, Expires, Ends              time.Time
	// Asked is when the program asked last, zero: never; Pace how long it must wait before
	// it asks again.
	Asked time.Time
	Pace  time.Duration
	// Login is the id of the login that began with it; empty: none.
	Login string
}

// ErrManyRequests means that there are as many requests for logins as there may be.
var ErrManyRequests = errors.New("too many logins are being asked for")

// RequestLimits bound the requests that wait: Each from one address, All together. Keep is how
// long one is kept after its end, so that a code that comes again is recognized.
type RequestLimits struct {
	Each, All int
	Keep      time.Duration
}

const requestColumns = "hash, user_code, state, challenge, redirect, name, created_by, credential, parent, machine, address, agent, " +
	"created, expires, ends, asked, pace, login"

func scanRequest(scan engine.Scan) (q RequestRow, err error) {
	var hash, user []byte
	var parent, login sql.NullString
	var created, expires, ends, asked sql.NullInt64
	var pace int64
	if err := scan(&hash, &user, &q.State, &q.Challenge, &q.Redirect, &q.Name, &q.CreatedBy, &q.Credential, &parent, &q.Machine,
		&q.Address, &q.Agent, &created, &expires, &ends, &asked, &pace, &login); err != nil {
		return q, err
	}
	copy(q.UserCode[:], user)
	q.Parent, q.Login, q.Pace = parent.String, login.String, time.Duration(pace)*time.Millisecond
	q.Created, q.Expires = engine.FromMillis(created), engine.FromMillis(expires)
	q.Ends, q.Asked = engine.FromMillis(ends), engine.FromMillis(asked)
	if copy(q.Hash[:], hash) != len(q.Hash) {
		return q, fmt.Errorf("%w: a request for a login", engine.ErrCorrupt)
	}
	return q, nil
}

// rowOf reads the row of a query.
type rowOf func(query string, args []any, dest ...any) error

// reads returns a rowOf that needs no write transaction. Whoever sends guesses must not make
// writers wait.
func (ts Tokens) reads(ctx context.Context) rowOf {
	return func(query string, args []any, dest ...any) error { return ts.db.Points.Row(ctx, query, args, dest...) }
}

// requestIn returns the request with a hash. If there is none, the error is fs.ErrNotExist.
func requestIn(row rowOf, hash [32]byte) (RequestRow, error) {
	q, err := scanRequest(func(dest ...any) error {
		return row("SELECT "+requestColumns+" FROM login_request WHERE hash = $1", []any{hash[:]}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return q, err
}

// mayWait returns ErrManyRequests if too many requests wait for another one. Everybody may ask for
// the answer of a person, so many such requests must not keep people from what they have allowed:
// codes are counted apart, by person.
func mayWait(row rowOf, q *RequestRow, limits RequestLimits, now time.Time) error {
	var each, all int
	waiting := "SELECT count(*) FROM login_request WHERE state IN ('asked', 'allowed') AND expires > $1 AND user_code IS NOT NULL"
	of, who := " AND address = $2", q.Address
	if q.UserCode == [32]byte{} {
		waiting = "SELECT count(*) FROM login_request WHERE state IN ('asked', 'allowed') AND expires > $1 AND user_code IS NULL"
		of, who = " AND created_by = $2", q.CreatedBy
	}
	if err := row(waiting, []any{now.UnixMilli()}, &all); err != nil {
		return err
	}
	if err := row(waiting+of, []any{now.UnixMilli(), engine.Text(who)}, &each); err != nil {
		return err
	}
	if each >= limits.Each || all >= limits.All {
		return ErrManyRequests
	}
	return nil
}

// PutRequest adds a request for a login, durably, and deletes those that need not be kept. If
// its user code exists, the error is fs.ErrExist; if too many requests wait, ErrManyRequests.
func (ts Tokens) PutRequest(ctx context.Context, q RequestRow, limits RequestLimits) error {
	var user any
	if q.UserCode != [32]byte{} {
		user = q.UserCode[:]
	}
	const op = "ask for a login"
	if err := mayWait(ts.reads(ctx), &q, limits, ts.db.Now()); err != nil {
		return ts.db.Fail(op, err)
	}
	return ts.db.Update(ctx, op, func(w *engine.Write) error {
		now := ts.db.Now()
		if _, err := w.Exec("DELETE FROM login_request WHERE expires <= $1", now.Add(-limits.Keep).UnixMilli()); err != nil {
			return err
		}
		if err := mayWait(w.Row, &q, limits, now); err != nil {
			return err
		}
		n, err := w.Exec("INSERT INTO login_request ("+requestColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
			$14, $15, $16, $17, $18) ON CONFLICT DO NOTHING`,
			q.Hash[:], user, q.State, engine.Text(q.Challenge), engine.Text(q.Redirect), engine.Text(q.Name), engine.Text(q.CreatedBy),
			engine.Text(q.Credential), orNull(q.Parent), engine.Text(q.Machine), engine.Text(q.Address), engine.Text(q.Agent),
			q.Created.UnixMilli(), q.Expires.UnixMilli(), engine.Millis(q.Ends), engine.Millis(q.Asked), q.Pace.Milliseconds(),
			orNull(q.Login))
		if err == nil && n == 0 {
			err = fs.ErrExist
		}
		return err
	})
}

// RequestByUserCode returns the request that waits for the answer of a person, by the hash of
// what the person types. If there is none, the error is fs.ErrNotExist.
func (ts Tokens) RequestByUserCode(ctx context.Context, user [32]byte) (RequestRow, error) {
	q, err := scanRequest(func(dest ...any) error {
		const waiting = "SELECT " + requestColumns + " FROM login_request WHERE user_code = $1 AND state = 'asked' AND expires > $2"
		return ts.db.Points.Row(ctx, waiting, []any{user[:], ts.db.Now().UnixMilli()}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return q, ts.db.Fail("look up a request for a login", err)
}

// AnswerRequest records the answer of a person to the request with a user code, durably: the
// state, the principal and the end of the login. A request that is not known, has ended or was
// answered before is fs.ErrNotExist.
func (ts Tokens) AnswerRequest(ctx context.Context, q RequestRow) error {
	return ts.db.Update(ctx, "answer a request for a login", func(w *engine.Write) error {
		n, err := w.Exec(`UPDATE login_request SET state = $2, name = $3, created_by = $4, credential = $5, parent = $6, ends = $7
			WHERE user_code = $1 AND state = 'asked' AND expires > $8`, q.UserCode[:], q.State, engine.Text(q.Name),
			engine.Text(q.CreatedBy), engine.Text(q.Credential), orNull(q.Parent), engine.Millis(q.Ends), ts.db.Now().UnixMilli())
		if err == nil && n == 0 {
			err = fs.ErrNotExist
		}
		return err
	})
}

// AskRequest notes that a program asks for the answer to its request, and returns the request
// as it was before. One that asks too soon must wait longer from then on, by more. An unknown
// request is fs.ErrNotExist.
func (ts Tokens) AskRequest(ctx context.Context, hash [32]byte, more time.Duration) (q RequestRow, soon bool, err error) {
	const op = "ask for an answer"
	if q, err = requestIn(ts.reads(ctx), hash); err != nil {
		return q, false, ts.db.Fail(op, err)
	}
	err = ts.db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
		var err error
		if q, err = requestIn(w.Row, hash); err != nil {
			return err
		}
		now, pace := ts.db.Now(), q.Pace
		if soon = now.Before(q.Asked.Add(q.Pace)); soon {
			pace += more
		}
		_, err = w.Exec("UPDATE login_request SET asked = $2, pace = $3 WHERE hash = $1", hash[:], now.UnixMilli(), pace.Milliseconds())
		return err
	})
	return q, soon, err
}
