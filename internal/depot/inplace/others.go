package inplace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
)

// A watched folder belongs to the server that was started with it. The other servers of
// the depot ask that server.
const (
	askWatched    = 8                // files of other servers' folders that are received at once
	askWait       = 10 * time.Second // for one of these places
	askBytes      = 16 << 30         // of one file
	watchedMisses = 100_000          // misses of other servers in memory
	watchedMiss   = 10 * time.Second // their lifetime
)

// Others are the other servers of a depot on several machines.
type Others interface {
	// Watching returns the products of the watched folders of the other servers, by the addresses
	// of the servers.
	Watching() map[string][]string
	// At returns the server with an address.
	At(address string) fetch.Peer
}

// otherServers receives files out of the folders that other servers watch.
type otherServers struct {
	Others
	spool  func() (*blob.Spool, error)
	log    *slog.Logger
	now    func() time.Time
	slots  chan struct{}
	misses *memo.Map[string, time.Time] // until when a question has no answer
}

func newOtherServers(others Others, spool func() (*blob.Spool, error), log *slog.Logger, now func() time.Time) *otherServers {
	return &otherServers{
		Others: others, spool: spool, log: log, now: now,
		slots: make(chan struct{}, askWatched), misses: memo.New[string, time.Time](watchedMisses),
	}
}

// exist reports whether other servers watch folders.
func (o *otherServers) exist() bool { return len(o.Watching()) > 0 }

// open asks the servers whose folders the scope contains. A server that does not answer
// has nothing. rec notes who was asked; it may be nil.
func (o *otherServers) open(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	for address, products := range o.Watching() {
		if !slices.ContainsFunc(products, func(p string) bool { return scope.Products == nil || p != "" && scope.Sees(p) }) {
			continue
		}
		key := fmt.Sprintf("%s %d %v %s %q", address, req.Form, req.Lookups, req.Part, scope.Products)
		if until, ok := o.misses.Get(key); ok && o.now().Before(until) {
			rec.WatchedByOther(nil, fs.ErrNotExist)
			continue
		}
		f, err := o.receive(ctx, address, scope, req)
		rec.WatchedByOther(f, err)
		switch {
		case err == nil:
			return f, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, fs.ErrNotExist):
			o.misses.Set(key, o.now().Add(watchedMiss))
		default:
			o.log.Warn("a file of a folder that another server watches cannot be received", "server", address, "error", err)
		}
	}
	return nil, fs.ErrNotExist
}

// errManyReceived means that too many files of other servers' folders are being received.
var errManyReceived = errors.New("too many files of other servers are being received")

// receive reads a file from another server.
func (o *otherServers) receive(ctx context.Context, address string, scope answer.Scope, req layout.Request) (*answer.File, error) {
	wait := time.NewTimer(askWait)
	defer wait.Stop()
	select {
	case o.slots <- struct{}{}:
		defer func() { <-o.slots }()
	case <-wait.C:
		return nil, errManyReceived
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reply, err := o.At(address).Fetch(ctx, fetch.PeerAsk{InPlace: true, Question: fetch.Question{Products: scope.Products, Request: req}})
	if err != nil {
		return nil, err
	}
	if reply.Body == nil {
		return nil, fs.ErrNotExist
	}
	defer reply.Body.Close()
	sp, err := o.spool()
	if err != nil {
		return nil, err
	}
	defer sp.Abort() // it is removed when the answer is closed
	_, err = io.Copy(sp, io.LimitReader(reply.Body, askBytes+1))
	if err == nil && sp.Size() > askBytes {
		err = fmt.Errorf("%s has more than %d bytes", reply.File.Path, int64(askBytes))
	}
	if err != nil {
		return nil, errors.Join(err, sp.Close())
	}
	f := reply.File
	return &answer.File{
		Volatile: true, InPlace: true, Kept: "in place", Product: f.Product,
		Object: f.Object, Size: sp.Size(), ModTime: f.ModTime, Path: f.Path, Archive: f.Archive, Signature: f.Signature, ETag: f.ETag,
		Bytes: sp, Closer: sp,
	}, nil
}
