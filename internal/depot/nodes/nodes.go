// Package nodes has what the servers of one depot on several machines share: they ask each other
// for downloads and for files in place, forward the parts of pushes, divide chores, and tell
// each other what they know. It also has the archive of their audit logs.
package nodes

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/peer"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Nodes is what a server shares with the other servers of a depot on several
// machines: who downloads what, pauses of upstreams, used Kerberos tickets, and
// chores that one server does for all. For a depot in a folder there are no
// others. Its methods may be called by many goroutines.
type Nodes struct {
	db    *index.DB
	blobs blob.Backend
	watch *engine.Watch // nil: nothing is known of the others
	peers *peer.Node    // nil: this server downloads for its own clients
	name  string
	log   *slog.Logger

	policy atomic.Pointer[func() string] // see UsePolicy
	others atomic.Pointer[facts]         // what the other servers tell, all together

	// What follows is set by Join.

	queue     *jobs.Queue
	watched   *inplace.Watched
	shareable []fetch.Upstream
	told      map[string]time.Time // the pauses that the others know of; owned by Work
}

// New returns what a server shares with the others, and begins to work with them only by Join.
// watch is how it knows of them; it may be nil.
func New(db *index.DB, blobs blob.Backend, watch *engine.Watch, opt Options, log *slog.Logger) *Nodes {
	n := &Nodes{db: db, blobs: blobs, watch: watch, log: log, told: map[string]time.Time{}}
	if n.Shared() {
		host, _ := os.Hostname()
		n.name = cmp.Or(opt.Address, host)
	}
	return n
}

// members returns the servers that answer questions.
func (n *Nodes) members() (self string, list []peer.Member, ok bool) {
	s, ok := n.watch.Shared()
	for _, p := range s.Peers {
		list = append(list, peer.Member(p))
	}
	return s.Self, list, ok
}

// Shared reports whether servers of several machines can use the depot.
func (n *Nodes) Shared() bool { return n.db.Nodes.Shared() }

// Name identifies this server in the audit log: its address for the other servers,
// or its host name. For a depot in a folder it is empty.
func (n *Nodes) Name() string { return n.name }

// FirstUse records the use of a Kerberos authenticator; see index.Nodes.FirstUse.
func (n *Nodes) FirstUse(ctx context.Context, key [16]byte, keep time.Duration) (bool, error) {
	return n.db.Nodes.FirstUse(ctx, key, keep)
}

// MissEpoch is for fetch.Options.MissEpoch.
func (n *Nodes) MissEpoch() (uint64, bool) {
	if n.watch == nil {
		return 0, false
	}
	s, ok := n.watch.Shared()
	return s.MissEpoch, ok && s.Current
}

// Do runs a chore unless another server runs it, or has run it within the time
// every.
func (n *Nodes) Do(ctx context.Context, chore string, every time.Duration, run func(ctx context.Context) error) error {
	_, err := n.db.Nodes.Do(ctx, chore, every, run)
	return err
}

// UsePolicy sets what returns the hash of the policy of access of this server. The
// others compare it with theirs.
func (n *Nodes) UsePolicy(hash func() string) { n.policy.Store(&hash) }

// Workers returns those of the other servers: for jobs.Options.Others.
func (n *Nodes) Workers() []jobs.Worker {
	if f := n.others.Load(); f != nil {
		return f.Workers
	}
	return nil
}

// Watching implements inplace.Others.
func (n *Nodes) Watching() map[string][]string {
	if n.peers == nil {
		return nil
	}
	if all := n.others.Load(); all != nil {
		return all.watching
	}
	return nil
}

// At implements inplace.Others. It is for a server that has joined the others.
func (n *Nodes) At(address string) fetch.Peer { return n.peers.At(address) }

// Status is what a server knows of the database and of the other servers.
type Status struct {
	engine.Pool
	// Known is set while the generation is known from memory, Age is how old that
	// knowledge is.
	Known bool
	Age   time.Duration
	// Live is the number of processes on the database, this one included, Peers
	// how many of them answer questions of others, and Lag how many generations the
	// slowest one is behind.
	Live, Peers, Lag int64
	// Differ is the number of other servers with another policy of access.
	Differ int
	// Questions are those to and from other servers.
	Questions peer.Counts
}

// Status returns the state of a depot on several machines. ok is false for a
// depot in a folder.
func (n *Nodes) Status() (s Status, ok bool) {
	if s.Pool, ok = n.db.Nodes.Pool(); !ok {
		return s, false
	}
	if n.watch != nil {
		shared, _ := n.watch.Shared()
		s.Known, s.Live, s.Lag, s.Peers = shared.Current, shared.Nodes, shared.Lag, int64(len(shared.Peers))
		if !shared.Asked.IsZero() {
			s.Age = time.Since(shared.Asked)
		}
	}
	if f := n.others.Load(); f != nil {
		s.Differ = len(f.differ)
	}
	if n.peers != nil {
		s.Questions = n.peers.Counts()
	}
	return s, true
}

// TokenGeneration returns a number that changes when a token is revoked by any
// process. ok is false if that is not known, and for a depot in a folder.
func (n *Nodes) TokenGeneration() (_ uint64, ok bool) {
	if n.watch == nil || !n.Shared() {
		return 0, false
	}
	g, err := n.watch.Writes()
	return g, err == nil
}
