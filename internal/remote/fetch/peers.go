package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// UsePeers sets the other servers of the depot. It must be called before the
// first download.
func (f *Fetcher) UsePeers(p Peers) { f.peers = p }

// missError returns the fs.ErrNotExist for a remembered miss, with its reasons,
// so that the other server can remember it too.
func (f *Fetcher) missError(ctx context.Context, key string, list []Upstream, m combined) error {
	stored, err := f.depot.Misses(ctx, key)
	if err != nil {
		return notFound(nil)
	}
	var why []error
	for _, u := range list {
		fail := &Failure{Source: u.Source.Name(), Class: ClassBusy, Retry: m.until, Err: errors.New("it was asked shortly before")}
		if s, ok := stored[u.Source.Name()]; ok && f.now().Before(s.Until) {
			fail.Class, fail.Retry, fail.Err = s.Class, s.Until, errors.New(s.Detail)
		}
		why = append(why, fail)
	}
	return notFound(why)
}

// forwardKey is the key of the downloads from a peer, beside those of this server
// itself: two servers that disagree about the owner must not wait for each
// other.
func forwardKey(slot string) string { return slot + "\nfrom a peer" }

// forward runs a download that a peer does. If none does it, this server does.
func (f *Fetcher) forward(d *download, owners []Peer) {
	defer d.leave(true)
	ctx := f.life
	if d.mode == normal {
		// Another download may have ended since the client looked.
		if _, ok := f.misses.lookup(ctx, d.key, d.slot, d.upstreams); ok {
			f.finish(d, result{}, fs.ErrNotExist)
			return
		}
	}
	leave, err := enter(ctx, f.forwarding)
	if err != nil {
		f.finish(d, result{}, err)
		return
	}
	r, err := f.askPeers(ctx, d, owners)
	leave()
	if !errors.Is(err, ErrNoPeer) || errors.Is(err, errPeerBroke) {
		f.finish(d, r, err)
		return
	}
	here, ok := f.startHere(d.key, d.slot, d.upstreams, d.q, d.mode)
	if !ok {
		f.finish(d, result{}, notFound([]error{errManyDownloads}))
		return
	}
	d.replaceBy(here.growing)
	// New clients join the download of this server from now on, or ask the next
	// owner.
	f.downloads.Leave(d.at)
	<-here.ended
	d.finish(0, File{}, ErrInDepot)
}

// askPeers downloads from the first peer that does not fail before clients have
// received bytes.
func (f *Fetcher) askPeers(ctx context.Context, d *download, owners []Peer) (r result, err error) {
	err = ErrNoPeer
	for _, p := range owners {
		r, err = f.follow(ctx, d, p)
		switch {
		case err == nil || !errors.Is(err, ErrNoPeer):
			return r, err
		case d.isAnnounced():
			return r, errPeerBroke
		case ctx.Err() != nil:
			return r, errClosing
		}
	}
	return r, err
}

// follow receives a file from a peer and passes it on while it arrives.
func (f *Fetcher) follow(ctx context.Context, d *download, p Peer) (result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reply, err := p.Fetch(ctx, PeerAsk{Question: d.q, Renew: d.mode == renewal, Anew: d.mode == anew})
	if err != nil {
		if why := Why(err); len(why) > 0 {
			f.misses.learn(ctx, d.key, d.slot, d.upstreams, why)
		}
		return result{}, err
	}
	if path := reply.File.Redirect; path != "" {
		d.redirectTo(path)
		return result{}, ErrInDepot
	}
	defer reply.Body.Close()
	sp, err := f.depot.Spool()
	if err != nil {
		return result{}, f.local(err)
	}
	defer sp.Abort() // the peer keeps the file
	d.begin(sp, reply.File.Size, reply.File)
	buf := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buf)
	limit := f.askOf(d, nil).Limit
	for {
		n, err := reply.Body.Read(buf[:])
		if n > 0 {
			if sp.Size()+int64(n) > limit {
				return result{}, f.local(errTooLarge)
			}
			if _, err := sp.Write(buf[:n]); err != nil {
				return result{}, f.local(errors.Join(errDisk, err))
			}
			d.grew(sp.Size())
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return result{}, fmt.Errorf("%w: %w", ErrNoPeer, err)
		}
	}
	file := reply.End()
	if file.Ref != sp.Sum() || file.Size != sp.Size() {
		return result{}, fmt.Errorf("%w: %w", ErrNoPeer, errOtherBytes)
	}
	file.Growing = false
	return result{sp.Size(), file}, nil
}

// local logs an error of this server, and returns the one for clients.
func (f *Fetcher) local(err error) error {
	f.log.Error("cannot receive a file from another server of the depot", "error", err)
	return notFound([]error{err})
}

// OwnedElsewhere reports whether another server owns a key.
func (f *Fetcher) OwnedElsewhere(key string) bool {
	return f.peers != nil && len(f.peers.Owners(key)) > 0
}

// RunAtOwner asks the owner of a key for a download of another kind than of
// symbol files; see Serve. ok is false if this server is to run it.
func (f *Fetcher) RunAtOwner(ctx context.Context, key, kind string, input []byte) (result []byte, ok bool) {
	if f.peers == nil {
		return nil, false
	}
	for _, p := range f.peers.Owners(key) {
		if result, err := p.Run(ctx, kind, input); err == nil {
			return result, true
		}
		if ctx.Err() != nil {
			return nil, false
		}
	}
	return nil, false
}

// Serve registers what runs a kind of download for peers. It must be called
// before the first one.
func (f *Fetcher) Serve(kind string, run func(ctx context.Context, input []byte) ([]byte, error)) {
	if f.kinds == nil {
		f.kinds = map[string]func(context.Context, []byte) ([]byte, error){}
	}
	f.kinds[kind] = run
}

// RunForPeer runs a registered kind of download for another server.
func (f *Fetcher) RunForPeer(ctx context.Context, kind string, input []byte) ([]byte, error) {
	run := f.kinds[kind]
	if run == nil {
		return nil, fmt.Errorf("unknown kind of download %q", kind)
	}
	return run(ctx, input)
}
