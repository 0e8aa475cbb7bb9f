package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/inplace"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/peer"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// Options say how a server of a depot on several machines reaches the others.
type Options struct {
	// Listener accepts the connections of the other servers; nil: this server
	// downloads for its own clients only. The depot closes it.
	Listener net.Listener
	// Address is where the other servers reach the Listener, "host:port".
	Address string
}

// Parts are what a server gives the others, and what it needs of them.
type Parts struct {
	Queue     *jobs.Queue
	Fetch     *fetch.Fetcher
	Watched   *inplace.Watched
	Stages    *stage.Stages
	Upstreams []fetch.Upstream
	// Dial connects to the other servers; nil means a plain connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// errNoNodes refuses a listener that would have nothing to do.
var errNoNodes = errors.New("depot.peer_listen is for a depot in PostgreSQL; remove it from the configuration of this one")

// Join begins to work with the other servers.
func (n *Nodes) Join(ctx context.Context, parts Parts, opt Options) (err error) {
	n.queue, n.watched = parts.Queue, parts.Watched
	for _, u := range parts.Upstreams {
		if t := u.Source.Traits(); t.Paused != nil && t.Pause != nil && t.Share != nil {
			n.shareable = append(n.shareable, u)
		}
	}
	if n.watch != nil {
		n.watch.OnJobs(n.queue.Changed)
	}
	if opt.Listener == nil {
		return nil
	}
	if !n.Shared() {
		return errNoNodes
	}
	if n.watch == nil {
		return errors.New("the database cannot be watched for changes; check that LISTEN is possible")
	}
	secret, err := n.db.Secret(ctx, "nodes", home.SecretSize)
	if err != nil {
		return err
	}
	dial := parts.Dial
	if dial == nil {
		dial = upstream.NewDialer(upstream.DialerOptions{}).Dial
	}
	n.peers, err = peer.New(peer.Options{
		Secret: secret, Listener: opt.Listener, Dial: dial, Members: n.members,
		Downloads: downloads{parts.Fetch, parts.Watched}, Uploads: uploads{parts.Stages}, Log: n.log,
	})
	if err != nil {
		return err
	}
	parts.Fetch.UsePeers(n.peers)
	n.peers.Start()
	if err := n.watch.Announce(ctx, opt.Address); err != nil {
		return fmt.Errorf("announce this server to the others: %w", err)
	}
	return nil
}

// Leave withdraws the address of this server, so that the other servers send it no
// more questions.
func (n *Nodes) Leave(ctx context.Context) error {
	if n.peers == nil {
		return nil
	}
	err := n.watch.Announce(ctx, "")
	if errors.Is(err, engine.ErrUnavailable) {
		err = nil // they notice it
	}
	return errors.Join(err, n.peers.Close())
}

// downloads answers the questions of other servers.
type downloads struct {
	*fetch.Fetcher
	watched *inplace.Watched
}

// OpenForPeer implements peer.Downloads.
func (d downloads) OpenForPeer(ctx context.Context, ask fetch.PeerAsk) (*fetch.File, error) {
	if ask.InPlace {
		return d.watched.OpenForPeer(ctx, ask)
	}
	return d.Fetcher.OpenForPeer(ctx, ask)
}

// forwarded is the kind of the questions of stages to other servers.
const forwarded = "stage"

// uploads receives what other servers forward.
type uploads struct{ stages *stage.Stages }

// ReceiveFromPeer implements peer.Uploads.
func (u uploads) ReceiveFromPeer(ctx context.Context, kind string, input []byte, body io.Reader) ([]byte, error) {
	if kind != forwarded {
		return nil, fmt.Errorf("unknown kind of question %q", kind)
	}
	return u.stages.Answer(ctx, input, body)
}

// Live implements stage.Peers.
func (n *Nodes) Live(node string) (live, known bool) {
	_, list, ok := n.members()
	return slices.ContainsFunc(list, func(m peer.Member) bool { return m.Address == node }), ok
}

// Send implements stage.Peers.
func (n *Nodes) Send(ctx context.Context, node string, question []byte, body io.Reader) ([]byte, error) {
	answer, err := n.peers.Send(ctx, node, forwarded, question, body)
	if errors.Is(err, fetch.ErrNoPeer) {
		err = fmt.Errorf("%w: %w", stage.ErrNoAnswer, err)
	}
	return answer, err
}
