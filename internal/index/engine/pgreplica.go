package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// replicaLimit is how long a lookup may take on a replica.
	replicaLimit = time.Second
	// replicaRest is how long a replica is not asked after it has failed.
	replicaRest = 5 * time.Second
)

// errBehind means that a replica does not have what this process knows yet.
var errBehind = errors.New("the replica is behind")

// ReplicaStatus counts what replicas did for this process.
type ReplicaStatus struct {
	Hosts    int    // number of replicas
	Answered uint64 // lookups
	Behind   uint64 // lookups that went to the primary because the replica was behind
	Failed   uint64 // lookups that went to the primary because the replica failed
}

// replicas are standbys of the database that answer lookups in turn. An answer
// counts only if the replica has the moment that this process knows, by its number
// and its salt: then nothing that others were promised can be missing, neither an
// addition nor a removal. While that moment is not known, lookups go to the
// primary.
type replicas struct {
	log                      *slog.Logger
	limit                    time.Duration // of one lookup
	list                     []*replica
	turn                     atomic.Uint32
	answered, behind, failed atomic.Uint64
}

type replica struct {
	host  string
	pool  *pgxpool.Pool
	until atomic.Int64 // not asked before, a time.Duration of running; 0: it works
}

// openReplicas connects to replicas when they are first used: a replica that is
// away does not keep a process from starting.
func openReplicas(ctx context.Context, urls []string, opt Options) (*replicas, error) {
	r := &replicas{log: opt.Log, limit: cmp.Or(opt.ReplicaLimit, replicaLimit)}
	for _, where := range urls {
		cfg, err := pgxpool.ParseConfig(where)
		if err != nil {
			r.Close()
			return nil, errors.New("the URL of a replica is not valid; it has the form postgres://USER@HOST:PORT/DATABASE")
		}
		usual(cfg, where, opt)
		cfg.ConnConfig.ConnectTimeout = r.limit
		pool, err := pgxpool.NewWithConfig(ctx, cfg)
		if err != nil {
			r.Close()
			return nil, err
		}
		c := cfg.ConnConfig
		r.list = append(r.list, &replica{host: "postgres://" + net.JoinHostPort(c.Host, fmt.Sprint(c.Port)) + "/" + c.Database, pool: pool})
	}
	return r, nil
}

func (r *replicas) Close() {
	for _, one := range r.list {
		one.pool.Close()
	}
}

func (r *replicas) status() ReplicaStatus {
	return ReplicaStatus{len(r.list), r.answered.Load(), r.behind.Load(), r.failed.Load()}
}

// next returns the replica whose turn it is; nil: none works.
func (r *replicas) next() *replica {
	now := int64(running())
	for range r.list {
		if one := r.list[int(r.turn.Add(1))%len(r.list)]; one.until.Load() <= now {
			return one
		}
	}
	return nil
}

// read calls fn with a reader of a replica, and reports whether the rows that fn
// has read may be used. If not, the caller reads again from the primary.
func (r *replicas) read(ctx context.Context, known moment, fn func(Reader) error) bool {
	one := r.next()
	if one == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	err := fn(pgReplica{one.pool, known, ctx})
	switch {
	case err == nil:
		r.answered.Add(1)
		if one.until.Swap(0) != 0 {
			r.log.Info("a replica answers again", "replica", one.host)
		}
		return true
	case errors.Is(err, errBehind) || unmigrated(err): // the new tables have not reached it
		r.behind.Add(1)
	default:
		r.failed.Add(1)
		if one.until.Swap(int64(running()+replicaRest)) == 0 {
			r.log.Warn("a replica does not answer: lookups go to the primary", "replica", one.host, "error", oneLine(err))
		}
	}
	return false
}

// pgReplica reads from a replica if it has a moment.
type pgReplica struct {
	pool  *pgxpool.Pool
	known moment
	ctx   context.Context // of this reading
}

// hasMoment reports whether a database has reached a moment of the same history.
const hasMoment = "SELECT EXISTS (SELECT 1 FROM history WHERE generation = $1 AND salt = $2)"

// Each sends both statements at once. The replica takes the snapshot of the second
// one after that of the first, so the rows are not older than the moment.
func (p pgReplica) Each(_ context.Context, _ bool, text string, args []any, fn func(scan Scan) (bool, error)) (err error) {
	args, err = plain(args)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(hasMoment, p.known.generation, p.known.salt)
	b.Queue(inPostgres(text), args...)
	results := p.pool.SendBatch(p.ctx, b)
	defer func() {
		if cerr := results.Close(); err == nil {
			err = cerr
		}
	}()
	var has bool
	if err := results.QueryRow().Scan(&has); err != nil {
		return err
	}
	if !has {
		return errBehind
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if more, err := fn(rows.Scan); err != nil || !more {
			return err
		}
	}
	return rows.Err()
}

func (p pgReplica) Row(context.Context, string, []any, ...any) error {
	return errors.New("replicas answer lookups only")
}

// onReplica implements replicated.
func (e *postgres) onReplica(ctx context.Context, fn func(Reader) error) bool {
	if e.replicas == nil || e.outdated.Load() {
		return false
	}
	known, ok := e.moment()
	return ok && e.replicas.read(ctx, known, fn)
}

// replicaStatus implements replicated.
func (e *postgres) replicaStatus() ReplicaStatus {
	if e.replicas == nil {
		return ReplicaStatus{}
	}
	return e.replicas.status()
}

// moment returns the newest moment that this process knows. ok is false if it may
// not know the current one.
func (e *postgres) moment() (m moment, ok bool) {
	e.mu.Lock()
	watches := e.watches
	e.mu.Unlock()
	for _, w := range watches {
		if one, known := w.moment(); !known {
			return m, false
		} else if !ok || one.generation > m.generation {
			m, ok = one, true
		}
	}
	return m, ok
}

func (w *pgWatch) moment() (moment, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known == nil || time.Since(w.asked) > staleAfter {
		return moment{}, false
	}
	return *w.known, true
}
