package places

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
)

// Identity distinguishes the database of a depot from copies of it. The marker in
// the bucket has the same values, and only the database whose values are equal
// deletes objects.
type Identity struct {
	// Depot is a random text that is made once. Copies have the same text.
	Depot string
	// Database identifies the database server and its history, or the file: a
	// dump that was restored, a physical copy that was promoted, or a copied
	// file, has another one.
	Database string
	// Turn changes every few hours. It distinguishes copies with the same Database
	// value, such as disk images: one of them does not know the current turn.
	// Previous is the turn before; the marker has it if a process was killed before
	// it could write the current one.
	Turn, Previous string
}

// Depot returns the id of the depot: random text that is made once. A bucket
// records it, so that two depots cannot use one bucket.
func (ps Places) Depot(ctx context.Context) (id string, err error) {
	id, err = ps.KnownDepot(ctx)
	if err == nil && id == "" {
		err = ps.db.Update(ctx, "identify the depot", func(w *engine.Write) error {
			if _, err := w.Exec("INSERT INTO identity (one, depot) VALUES (1, $1) ON CONFLICT (one) DO NOTHING", rand.Text()); err != nil {
				return err
			}
			return w.Row(depotQuery, nil, &id)
		})
	}
	return id, ps.db.Fail("identify the depot", err)
}

const depotQuery = "SELECT depot FROM identity WHERE one = 1"

// KnownDepot is Depot without making an id: it is empty if there is none yet.
func (ps Places) KnownDepot(ctx context.Context) (id string, err error) {
	err = ps.db.Points.Row(ctx, depotQuery, nil, &id)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, ps.db.Fail("identify the depot", err)
}

// Identity returns the identity of the database.
func (ps Places) Identity(ctx context.Context) (Identity, error) {
	id, _, err := ps.identity(ctx)
	return id, err
}

const identityQuery = "SELECT depot, coalesce(turn, ''), coalesce(previous, ''), coalesce(turned, 0) FROM identity WHERE one = 1"

// identity returns the identity of the database and when its turn began.
func (ps Places) identity(ctx context.Context) (id Identity, turned time.Time, err error) {
	if _, err := ps.Depot(ctx); err != nil {
		return id, turned, err
	}
	var at int64
	if err = ps.db.Points.Row(ctx, identityQuery, nil, &id.Depot, &id.Turn, &id.Previous, &at); err == nil {
		id.Database, err = ps.db.Fingerprint(ctx)
	}
	return id, time.UnixMilli(at), ps.db.Fail("identify the database", err)
}

// NewTurn begins a new turn if the current one is older than every, or if there is
// none, and returns the identity of the database.
func (ps Places) NewTurn(ctx context.Context, every time.Duration) (Identity, error) {
	id, turned, err := ps.identity(ctx)
	due := func() bool { return id.Turn == "" || ps.db.Now().Sub(turned) >= every }
	if err != nil || !due() {
		return id, err
	}
	err = ps.db.Update(ctx, "begin a turn", func(w *engine.Write) error {
		var at int64
		if err := w.Row(identityQuery, nil, &id.Depot, &id.Turn, &id.Previous, &at); err != nil {
			return err
		}
		if turned = time.UnixMilli(at); !due() {
			return nil // another process was faster
		}
		id.Turn, id.Previous = rand.Text(), id.Turn
		_, err := w.Exec("UPDATE identity SET turn = $1, previous = $2, turned = $3 WHERE one = 1", id.Turn, id.Previous, ps.db.Now().UnixMilli())
		return err
	})
	return id, err
}

// Audited returns when all objects of the bucket were last compared with the index;
// zero is never.
func (ps Places) Audited(ctx context.Context) (time.Time, error) {
	var at sql.NullInt64
	err := ps.db.Points.Row(ctx, "SELECT max(audited) FROM identity", nil, &at)
	return engine.FromMillis(at), ps.db.Fail("look up the last audit", err)
}

// SetAudited records that all objects were compared.
func (ps Places) SetAudited(ctx context.Context, at time.Time) error {
	if _, err := ps.Depot(ctx); err != nil {
		return err
	}
	return ps.db.Update(ctx, "record an audit", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE identity SET audited = $1 WHERE one = 1", at.UnixMilli())
		return err
	})
}
