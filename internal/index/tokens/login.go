package tokens

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// KindAccess is the kind of an access token, whose parent is a login.
const KindAccess = "access"

// maxAccess is how many access tokens one login has at most: those before the last refresh live
// to their end. Many debuggers whose token was refused at once refresh one after the other, and
// each uses the token that it got.
const maxAccess = 16

// LoginRow is the login of a program: a family of refresh tokens, of which one counts.
type LoginRow struct {
	ID     string
	Family [32]byte // hash of what all refresh tokens of the login have in common
	Hash   [32]byte // of the refresh token that counts
	Name   string   // of whoever allowed it
	// CreatedBy identifies whoever allowed it, Credential is what is asked about that
	// principal at each use, as text of the caller.
	CreatedBy, Credential string
	// Parent is the id of the token with which it was allowed; empty: none.
	Parent                  string
	Machine, Address, Agent string // of the program
	Created, LastUsed       time.Time
	Expires                 time.Time // without another refresh
	Ends                    time.Time // at the latest
}

var (
	// ErrManyLogins means that there are as many logins as there may be.
	ErrManyLogins = errors.New("too many programs are logged in")
	// ErrReused means that a refresh token or a code came again: its login has ended.
	ErrReused = errors.New("it was used before: its login has ended")
)

// LoginLimits bound the logins that are stored: Each is how many one principal may have, a
// new one ends the one that was not used for the longest time; All is how many there may be.
type LoginLimits struct{ Each, All int }

const loginColumns = "id, family, hash, name, created_by, credential, parent, machine, address, agent, created, used, expires, ends"

// usedLogin is when a login was used: at its last refresh, or since then by an access token.
var usedLogin = engine.Larger("used", "(SELECT max(last_used) FROM token WHERE kind = 'access' AND parent = login.id)")

// readLogin reads the columns of logins.
var readLogin = "SELECT " + strings.Replace(loginColumns, "used", usedLogin, 1) + " FROM login "

func scanLogin(scan engine.Scan) (l LoginRow, err error) {
	var family, hash []byte
	var parent sql.NullString
	var created, used, expires, ends sql.NullInt64
	if err := scan(&l.ID, &family, &hash, &l.Name, &l.CreatedBy, &l.Credential, &parent, &l.Machine, &l.Address, &l.Agent,
		&created, &used, &expires, &ends); err != nil {
		return l, err
	}
	l.Parent = parent.String
	l.Created, l.LastUsed = engine.FromMillis(created), engine.FromMillis(used)
	l.Expires, l.Ends = engine.FromMillis(expires), engine.FromMillis(ends)
	if copy(l.Family[:], family) != len(l.Family) || copy(l.Hash[:], hash) != len(l.Hash) {
		return l, fmt.Errorf("%w: login %s", engine.ErrCorrupt, l.ID)
	}
	return l, nil
}

// BeginLogin begins the login that a code or a device request allows, durably: it marks the
// request as used, and adds the login and its first access token, both of which fill returns.
// It deletes what has ended. fill may refuse the request with an error; it may be called
// several times. A code that was used before ends its login, and the error is ErrReused; an
// unknown or expired one is fs.ErrNotExist. If there are too many logins, the error is
// ErrManyLogins.
func (ts Tokens) BeginLogin(
	ctx context.Context, request [32]byte, limits LoginLimits, fill func(*RequestRow) (LoginRow, TokenRow, error),
) error {
	const op = "begin a login"
	if _, err := requestIn(ts.reads(ctx), request); err != nil {
		return ts.db.Fail(op, err)
	}
	var reused bool
	err := ts.db.Update(ctx, op, func(w *engine.Write) error {
		reused = false
		now := ts.db.Now()
		q, err := requestIn(w.Row, request)
		if err != nil {
			return err
		}
		if q.State == RequestUsed {
			reused = true
			return endLogins(w, "id = $1", engine.Text(q.Login))
		}
		if !now.Before(q.Expires) {
			return fs.ErrNotExist
		}
		l, access, err := fill(&q)
		if err != nil {
			return err
		}
		if err := makeRoomForLogin(w, &l, limits, now); err != nil {
			return err
		}
		if _, err := w.Exec("INSERT INTO login ("+loginColumns+") VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
			engine.Text(l.ID), l.Family[:], l.Hash[:], engine.Text(l.Name), engine.Text(l.CreatedBy), engine.Text(l.Credential),
			orNull(l.Parent), engine.Text(l.Machine), engine.Text(l.Address), engine.Text(l.Agent), l.Created.UnixMilli(),
			l.LastUsed.UnixMilli(), l.Expires.UnixMilli(), l.Ends.UnixMilli()); err != nil {
			return err
		}
		if err := ts.addAccess(w, &access); err != nil {
			return err
		}
		_, err = w.Exec("UPDATE login_request SET state = $2, login = $3 WHERE hash = $1", request[:], RequestUsed, engine.Text(l.ID))
		return err
	})
	if err == nil && reused {
		err = ErrReused
	}
	return err
}

// makeRoomForLogin deletes the logins that have ended, and the one of the same principal that
// makes room for a new one.
func makeRoomForLogin(w *engine.Write, l *LoginRow, limits LoginLimits, now time.Time) error {
	if err := endLogins(w, "expires <= $1", now.UnixMilli()); err != nil {
		return err
	}
	if err := endLogins(w, "id IN (SELECT id FROM login WHERE created_by = $1 ORDER BY "+usedLogin+" DESC, id LIMIT 1000000 OFFSET $2)",
		engine.Text(l.CreatedBy), limits.Each-1); err != nil {
		return err
	}
	var all int
	if err := w.Row("SELECT count(*) FROM login", nil, &all); err != nil {
		return err
	}
	if all >= limits.All {
		return ErrManyLogins
	}
	return nil
}

// endLogins deletes logins with their access tokens. If there are any, the generation
// increases: other servers must not go on with them.
func endLogins(w *engine.Write, where string, args ...any) error {
	const access = "DELETE FROM token WHERE kind = 'access' AND parent IN (SELECT id FROM login WHERE "
	if _, err := w.Exec(access+where+")", args...); err != nil {
		return err
	}
	n, err := w.Exec("DELETE FROM login WHERE "+where, args...)
	if err == nil && n > 0 {
		err = record.NextGeneration(w)
	}
	return err
}

// addAccess adds an access token, and deletes those of its login that are too old.
func (ts Tokens) addAccess(w *engine.Write, t *TokenRow) error {
	if t.Kind != KindAccess || t.Parent == "" || t.Expires.IsZero() {
		return errors.New("the access token has no login or no end")
	}
	args, err := ts.row(t)
	if err != nil {
		return err
	}
	if _, err := w.Exec(`DELETE FROM token WHERE kind = 'access' AND parent = $1 AND (expires <= $2 OR id IN (SELECT id FROM token
		WHERE kind = 'access' AND parent = $1 ORDER BY created DESC, expires DESC, id LIMIT 1000000 OFFSET $3))`,
		engine.Text(t.Parent), ts.db.Now().UnixMilli(), maxAccess-1); err != nil {
		return err
	}
	return insertToken(w, args)
}

// RefreshLogin gives a login another refresh token, with the hash next, in place of the one with
// the hash old, another time at which it expires, and another access token, durably. If the login
// has another refresh token already, it ends, and the error is ErrReused. If it is not known or
// has expired, the error is fs.ErrNotExist.
func (ts Tokens) RefreshLogin(ctx context.Context, family, old, next [32]byte, expires time.Time, access TokenRow) error {
	var reused bool
	err := ts.db.Update(ctx, "refresh a login", func(w *engine.Write) error {
		reused = false
		now := ts.db.Now()
		n, err := w.Exec("UPDATE login SET hash = $3, used = $4, expires = $5 WHERE family = $1 AND hash = $2 AND expires > $4",
			family[:], old[:], next[:], now.UnixMilli(), expires.UnixMilli())
		if err != nil {
			return err
		}
		if n > 0 {
			return ts.addAccess(w, &access)
		}
		const other = "SELECT EXISTS (SELECT 1 FROM login WHERE family = $1 AND hash <> $2)"
		if err := w.Row(other, []any{family[:], old[:]}, &reused); err != nil {
			return err
		}
		if !reused {
			return fs.ErrNotExist
		}
		return endLogins(w, "family = $1", family[:])
	})
	if err == nil && reused {
		err = ErrReused
	}
	return err
}

// EndLogin ends a login, durably. An unknown one is fs.ErrNotExist.
func (ts Tokens) EndLogin(ctx context.Context, id string) error {
	return ts.db.Update(ctx, "end a login", func(w *engine.Write) error {
		var known bool
		if err := w.Row("SELECT EXISTS (SELECT 1 FROM login WHERE id = $1)", []any{engine.Text(id)}, &known); err != nil {
			return err
		}
		if !known {
			return fmt.Errorf("login %s: %w", id, fs.ErrNotExist)
		}
		return endLogins(w, "id = $1", engine.Text(id))
	})
}

// LoginByFamily returns the login of a family of refresh tokens, also one that has expired. If
// there is none, the error is fs.ErrNotExist.
func (ts Tokens) LoginByFamily(ctx context.Context, family [32]byte) (LoginRow, error) {
	return ts.login(ctx, "family = $1", family[:])
}

// LoginByID returns the login with an id, also one that has expired. If there is none, the
// error is fs.ErrNotExist.
func (ts Tokens) LoginByID(ctx context.Context, id string) (LoginRow, error) {
	return ts.login(ctx, "id = $1", engine.Text(id))
}

func (ts Tokens) login(ctx context.Context, where string, arg any) (LoginRow, error) {
	l, err := scanLogin(func(dest ...any) error {
		return ts.db.Points.Row(ctx, readLogin+"WHERE "+where, []any{arg}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return l, ts.db.Fail("look up a login", err)
}

// Logins returns all logins, oldest first, including those that have expired and are not
// deleted yet.
func (ts Tokens) Logins(ctx context.Context) ([]LoginRow, error) {
	list := []LoginRow{}
	err := ts.db.Scans.Each(ctx, true, readLogin+"ORDER BY created, id", nil,
		func(scan engine.Scan) (bool, error) {
			l, err := scanLogin(scan)
			list = append(list, l)
			return true, err
		})
	return list, ts.db.Fail("list logins", err)
}
