package depot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/peer"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// NodeOptions say how a server of a depot on several machines reaches the others.
type NodeOptions struct {
	// Listener accepts the connections of the other servers; nil: this server
	// downloads for its own clients only. The depot closes it.
	Listener net.Listener
	// Address is where the other servers reach the Listener, "host:port".
	Address string
}

// Nodes is what a server shares with the other servers of a depot on several
// machines: who downloads what, pauses of upstreams, used Kerberos tickets, and
// chores that one server does for all. For a depot in a folder there are no
// others.
type Nodes struct {
	db    *index.DB
	blobs blob.Backend
	watch *engine.Watch // nil: nothing is known of the others
	peers *peer.Node    // nil: this server downloads for its own clients
	name  string
	log   *slog.Logger

	queue   *jobs.Queue
	watched *Watched
	policy  atomic.Pointer[func() string] // see UsePolicy
	others  atomic.Pointer[nodeFacts]     // what the other servers tell, all together

	shareable []fetch.Upstream
	told      map[string]time.Time // the pauses that the others know of; owned by work
}

// shareEvery is how often facts, and pauses and limits of upstreams are exchanged.
const shareEvery = 500 * time.Millisecond

// errNoNodes refuses a listener that would have nothing to do.
var errNoNodes = errors.New("depot.peer_listen is for a depot in PostgreSQL; remove it from the configuration of this one")

// openNodes begins to work with the other servers.
func openNodes(ctx context.Context, d *Depot, opt *Options) (err error) {
	n := &Nodes{db: d.db, blobs: d.blobs, watch: d.filter.watch, queue: d.queue, watched: d.Watched, log: opt.Log, told: map[string]time.Time{}}
	d.Nodes = n
	if n.Shared() {
		host, _ := os.Hostname()
		n.name = cmp.Or(opt.Nodes.Address, host)
	}
	openStages(d, opt.Nodes.Address, opt.Stages) // before others ask
	for _, u := range opt.Upstreams {
		if t := u.Source.Traits(); t.Paused != nil && t.Pause != nil && t.Share != nil {
			n.shareable = append(n.shareable, u)
		}
	}
	if n.watch != nil {
		n.watch.OnJobs(d.queue.Changed)
	}
	if opt.Nodes.Listener == nil {
		return nil
	}
	if !n.Shared() {
		return errNoNodes
	}
	if n.watch == nil {
		return errors.New("the database cannot be watched for changes; check that LISTEN is possible")
	}
	secret, err := d.db.Secret(ctx, "nodes", home.SecretSize)
	if err != nil {
		return err
	}
	dial := opt.Dial
	if dial == nil {
		dial = upstream.NewDialer(upstream.DialerOptions{}).Dial
	}
	n.peers, err = peer.New(peer.Options{
		Secret: secret, Listener: opt.Nodes.Listener, Dial: dial, Members: n.members, Downloads: peerDownloads{d.fetch, d.Watched}, Uploads: peerUploads{d}, Log: opt.Log,
	})
	if err != nil {
		return err
	}
	d.fetch.UsePeers(n.peers)
	n.peers.Start()
	if err := n.watch.Announce(ctx, opt.Nodes.Address); err != nil {
		return fmt.Errorf("announce this server to the others: %w", err)
	}
	return nil
}

// members returns the servers that answer questions.
func (n *Nodes) members() (self string, list []peer.Member, ok bool) {
	s, ok := n.watch.Shared()
	for _, p := range s.Peers {
		list = append(list, peer.Member(p))
	}
	return s.Self, list, ok
}

// leave withdraws the address of this server, so that the other servers send it no
// more questions.
func (n *Nodes) leave(ctx context.Context) error {
	if n.peers == nil {
		return nil
	}
	err := n.watch.Announce(ctx, "")
	if errors.Is(err, engine.ErrUnavailable) {
		err = nil // they notice it
	}
	return errors.Join(err, n.peers.Close())
}

// Shared reports whether servers of several machines can use the depot.
func (n *Nodes) Shared() bool { return n.db.Nodes.Shared() }

// Name identifies this server in the audit log: its address for the other servers,
// or its host name. For a depot in a folder it is empty.
func (n *Nodes) Name() string { return n.name }

// FirstUse records the use of a Kerberos authenticator; see nodes.Nodes.FirstUse.
func (n *Nodes) FirstUse(ctx context.Context, key [16]byte, keep time.Duration) (bool, error) {
	return n.db.Nodes.FirstUse(ctx, key, keep)
}

// missEpoch is for fetch.Options.MissEpoch.
func (n *Nodes) missEpoch() (uint64, bool) {
	if n == nil || n.watch == nil {
		return 0, false
	}
	s, ok := n.watch.Shared()
	return s.MissEpoch, ok && s.Current
}

// do runs a chore unless another server runs it, or has run it within the time
// every.
func (n *Nodes) do(ctx context.Context, chore string, every time.Duration, run func(ctx context.Context) error) error {
	_, err := n.db.Nodes.Do(ctx, chore, every, run)
	return err
}

// work shares facts, and the pauses and limits of upstreams, until ctx ends.
func (n *Nodes) work(ctx context.Context) {
	if !n.Shared() || n.watch == nil {
		return
	}
	tick := time.NewTicker(shareEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			n.shareFacts()
			n.shareLimits()
			n.exchangePauses(ctx)
		}
	}
}

// nodeFacts is what a server publishes for the other servers.
type nodeFacts struct {
	Name    string        `json:"name"`
	Policy  string        `json:"policy,omitempty"` // see auth.Gate.PolicyHash
	Workers []jobs.Worker `json:"workers,omitempty"`
	Watched []string      `json:"watched,omitempty"` // the products of its watched folders

	differ   []string            // of all others: the names of those with another policy
	watching map[string][]string // of all others: Watched by the addresses of the servers
}

// mostFacts limits the facts of a server, in bytes. Further workers are known to it
// only.
const mostFacts = 64 << 10

// text returns the facts in the form in which they are sent.
func (f nodeFacts) text() string {
	for {
		b, err := json.Marshal(f)
		if err != nil {
			return ""
		}
		if len(b) <= mostFacts {
			return string(b)
		}
		f.Workers = f.Workers[:len(f.Workers)/2]
	}
}

// UsePolicy sets what returns the hash of the policy of access of this server. The
// others compare it with theirs.
func (n *Nodes) UsePolicy(hash func() string) { n.policy.Store(&hash) }

// workers is for jobs.Options.Others.
func (n *Nodes) workers() []jobs.Worker {
	if n == nil {
		return nil
	}
	if f := n.others.Load(); f != nil {
		return f.Workers
	}
	return nil
}

// shareFacts publishes the workers and the policy of this server, and reads those of
// the others.
func (n *Nodes) shareFacts() {
	own := nodeFacts{Name: n.name, Workers: n.queue.OwnWorkers()}
	slices.SortFunc(own.Workers, func(a, b jobs.Worker) int { return strings.Compare(a.Name, b.Name) })
	if hash := n.policy.Load(); hash != nil {
		own.Policy = (*hash)()
	}
	if n.peers != nil {
		own.Watched = n.watched.products()
	}
	n.watch.Tell(own.text())
	shared, _ := n.watch.Shared()
	all := &nodeFacts{watching: map[string][]string{}}
	known := map[string]bool{}
	for _, text := range shared.Facts {
		var f nodeFacts
		if json.Unmarshal([]byte(text), &f) != nil {
			continue // of another version
		}
		for _, w := range f.Workers {
			if !known[w.Name] {
				known[w.Name] = true
				all.Workers = append(all.Workers, w)
			}
		}
		if len(f.Watched) > 0 && f.Name != own.Name {
			all.watching[f.Name] = f.Watched
		}
		if f.Policy != own.Policy && f.Policy != "" && own.Policy != "" {
			all.differ = append(all.differ, f.Name)
		}
	}
	slices.Sort(all.differ)
	before := n.others.Swap(all)
	if now := strings.Join(all.differ, ", "); now != "" && (before == nil || now != strings.Join(before.differ, ", ")) {
		n.log.Warn("servers of the depot have other rules of access than this one: compare auth of the configurations, and the files of users", "servers", now)
	}
}

// shareLimits divides the limits of upstreams by the number of the servers that
// download for each other. While that is not known, the last number counts.
func (n *Nodes) shareLimits() {
	shared, ok := n.watch.Shared()
	if !ok || n.peers == nil {
		return
	}
	for _, u := range n.shareable {
		u.Source.Traits().Share(len(shared.Peers))
	}
}

// exchangePauses applies the pauses that upstreams asked other servers for, and
// publishes those that they asked this one for.
func (n *Nodes) exchangePauses(ctx context.Context) {
	shared, _ := n.watch.Shared()
	for _, u := range n.shareable {
		name, t := u.Source.Name(), u.Source.Traits()
		for _, p := range shared.Pauses {
			if p.Upstream == name {
				t.Pause(p.Until, p.Why)
			}
		}
		until, why := t.Paused()
		if d := time.Until(until); d > 0 && !n.told[name].Equal(until) {
			err := n.db.Nodes.Pause(ctx, name, d, why)
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, engine.ErrUnavailable) {
					n.log.Warn("cannot tell the other servers that an upstream asked for a pause", "upstream", name, "error", err)
				}
				return
			}
			n.told[name] = until
		}
	}
}

// NodeStatus is what a server knows of the database and of the other servers.
type NodeStatus struct {
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
func (n *Nodes) Status() (s NodeStatus, ok bool) {
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
