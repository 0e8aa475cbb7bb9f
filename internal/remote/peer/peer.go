// Package peer connects the servers of one depot on several machines, so that one
// of them downloads a file for the clients of all.
//
// Each key has an owner: the live server with the highest hash of the key and its
// id (rendezvous hashing). When a server comes or goes, only the keys change owner
// that it has or had. The other servers ask the owner and pass on its bytes while
// they arrive. Correctness does not depend on the owner: a server that gets no
// answer downloads the file itself.
//
// The servers speak TLS with each other. Both sides prove that they have the
// depot's secret, from which the key of their certificates is derived; the secret
// itself is never sent. A connection carries one question.
package peer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// Downloads is the part of a server that answers peers. *fetch.Fetcher implements it.
type Downloads interface {
	// OpenForPeer downloads a file, see fetch.Fetcher.OpenForPeer.
	OpenForPeer(ctx context.Context, ask fetch.PeerAsk) (*fetch.File, error)
	// RunForPeer runs a download of another kind.
	RunForPeer(ctx context.Context, kind string, input []byte) ([]byte, error)
}

// Uploads receive the requests that peers forward.
type Uploads interface {
	// ReceiveFromPeer answers a question with a body. It need not read all of the
	// body.
	ReceiveFromPeer(ctx context.Context, kind string, input []byte, body io.Reader) (result []byte, err error)
}

// Member is a live server.
type Member struct{ ID, Address string }

// Options of New. All fields without a default are required.
type Options struct {
	// Secret is shared by the servers of the depot, and by no one else.
	Secret []byte
	// Listener accepts the connections of peers. The Node closes it.
	Listener net.Listener
	// Dial connects to another server.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Members returns the live servers, this one included, and the id of this one.
	// ok is false if they are not known. It must be fast.
	Members func() (self string, list []Member, ok bool)
	// Downloads answers the questions of peers.
	Downloads Downloads
	// Uploads answers those with a body; nil: they are refused.
	Uploads Uploads
	// Reach limits the time until a peer accepts a question; zero is 250 ms.
	Reach time.Duration
	// Log receives failures; nil discards them.
	Log *slog.Logger
}

var defaultReach = 250 * time.Millisecond

// SetReach changes the default of Options.Reach. It is for tests of whole programs,
// before the first New.
func SetReach(d time.Duration) { defaultReach = d }

// Limits of a Node.
const (
	// aliveEvery is how often a peer reports that it is at work.
	aliveEvery = 500 * time.Millisecond
	// silence is how long a peer may send nothing, in multiples of Options.Reach.
	silence = 8
	// handshake limits the time until a new connection sends a question.
	handshake = 5 * time.Second
	// stall is how long a peer may not accept bytes.
	stall = 30 * time.Second
	// avoid is how long a peer that gave no answer is not asked again.
	avoid = 2 * time.Second
	// mostConns is the number of connections that are answered at the same time.
	// Further ones are closed.
	mostConns = 1024
	// mostStrangers is the number of connections, of those that have not proven yet that
	// they have the secret, and mostOfAddress of those of one address. Further ones are
	// closed.
	mostStrangers = 1024
	mostOfAddress = mostStrangers / 4
	// mostOwners is how many peers are asked for a key before this server downloads
	// it.
	mostOwners = 2
)

// Node is a server among the others. It implements fetch.Peers.
type Node struct {
	opt            Options
	client, server *tls.Config

	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup
	conns   chan struct{} // semaphore of questions that are being answered
	strange strangers

	mu      sync.Mutex
	avoided map[string]time.Time // guarded by mu; until when, by id

	counts struct{ asked, unanswered, served, refused atomic.Int64 }
}

var _ fetch.Peers = (*Node)(nil)

// New returns a server that answers no questions yet. It must be closed.
func New(opt Options) (*Node, error) {
	opt.Reach = cmp.Or(opt.Reach, defaultReach)
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	n := &Node{opt: opt, conns: make(chan struct{}, mostConns), avoided: map[string]time.Time{}}
	var err error
	if n.client, n.server, err = configs(opt.Secret); err != nil {
		return nil, fmt.Errorf("make a key for the other servers: %w", err)
	}
	n.life, n.end = context.WithCancel(context.Background())
	return n, nil
}

// Start begins to answer the questions of peers.
func (n *Node) Start() { n.running.Go(n.accept) }

// Close ends all answers and closes the listener.
func (n *Node) Close() error {
	n.end()
	err := n.opt.Listener.Close()
	n.running.Wait()
	return err
}

// Counts are the numbers of questions.
type Counts struct {
	Asked      int64 // to peers
	Unanswered int64 // of these, without a complete answer
	Served     int64 // of peers
	Refused    int64 // connections without the depot's secret, or above a limit
}

// Counts returns the numbers of questions since the start.
func (n *Node) Counts() Counts {
	c := &n.counts
	return Counts{c.asked.Load(), c.unanswered.Load(), c.served.Load(), c.refused.Load()}
}

// Owners implements fetch.Peers.
func (n *Node) Owners(key string) []fetch.Peer {
	self, list, ok := n.opt.Members()
	if !ok || n.life.Err() != nil {
		return nil
	}
	var owners []fetch.Peer
	for _, m := range n.ranked(key, list) {
		if m.ID == self || len(owners) == mostOwners {
			break
		}
		owners = append(owners, member{n, m})
	}
	return owners
}

// ranked returns the members that are not avoided, the owner of a key first.
func (n *Node) ranked(key string, list []Member) []Member {
	now := time.Now()
	n.mu.Lock()
	list = slices.DeleteFunc(slices.Clone(list), func(m Member) bool { return now.Before(n.avoided[m.ID]) })
	n.mu.Unlock()
	return rank(key, list)
}

// rank sorts members by the hash of a key and their ids, the highest first.
func rank(key string, list []Member) []Member {
	score := make(map[string]uint64, len(list))
	sum := sha256.Sum256([]byte(key))
	for _, m := range list {
		s := sha256.Sum256(append(sum[:], m.ID...))
		score[m.ID] = binary.BigEndian.Uint64(s[:])
	}
	sorting.By(list, func(a, b Member) int {
		return cmp.Or(cmp.Compare(score[b.ID], score[a.ID]), cmp.Compare(a.ID, b.ID))
	})
	return list
}

// avoid notes that a member gave no answer.
func (n *Node) avoid(id string) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for other, until := range n.avoided {
		if now.After(until) {
			delete(n.avoided, other)
		}
	}
	n.avoided[id] = now.Add(avoid)
}

// accept answers connections until the listener is closed.
func (n *Node) accept() {
	for {
		conn, err := n.opt.Listener.Accept()
		if n.life.Err() != nil || errors.Is(err, net.ErrClosed) {
			if conn != nil {
				_ = conn.Close()
			}
			return
		}
		if err != nil {
			n.opt.Log.Warn("cannot accept a connection of another server", "error", err)
			t := time.NewTimer(100 * time.Millisecond) // such as too many open files
			select {
			case <-t.C:
			case <-n.life.Done():
				t.Stop()
			}
			continue
		}
		leave, ok := n.strange.enter(conn.RemoteAddr())
		if !ok {
			n.counts.refused.Add(1)
			_ = conn.Close()
			continue
		}
		n.running.Go(func() { n.answer(conn, leave) })
	}
}

// strangers counts the connections that have not proven yet that they have the secret.
// Somebody without it holds no more of them than an address may have, and none of those
// on which questions are answered.
type strangers struct {
	mu  sync.Mutex
	all int
	of  map[string]int // by address
}

// enter counts a connection. leave, which must be called once, ends that. ok is false if
// there are too many.
func (s *strangers) enter(remote net.Addr) (leave func(), ok bool) {
	address := remote.String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= mostStrangers || s.of[address] >= mostOfAddress {
		return nil, false
	}
	if s.of == nil {
		s.of = make(map[string]int)
	}
	s.all++
	s.of[address]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[address]--; s.of[address] == 0 {
			delete(s.of, address)
		}
	}, true
}
