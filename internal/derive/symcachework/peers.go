package symcachework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// Of the servers of a depot on several machines, one asks the SymCache servers
// for a file. The others wait until it is in the depot.

// peerKind names these downloads among those of fetch.Fetcher.RunAtOwner.
const peerKind = "symcache"

// peerDownload is a download at another server of the depot, peerResult its end.
type (
	peerDownload struct {
		Key     symcache.Key
		Version symcache.Version
		Via     []string
	}
	peerResult struct {
		Done bool
		Got  symcache.Version
	}
)

// stillAsked is how often it is checked whether clients still wait.
const stillAsked = mostUnasked / 10

// forwardDownload has the owner of a key download it, or does it here if the
// owner does not answer.
func (svc *Service) forwardDownload(ctx context.Context, f *serverDownload, name string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the owner goes on while it is asked
		for ctxio.Pause(ctx, stillAsked) == nil {
			if f.sinceRequest(svc.now()) > mostUnasked {
				cancel()
			}
		}
	}()
	input, err := json.Marshal(peerDownload{f.key, f.version, f.via})
	if err != nil {
		return // impossible
	}
	if result, ok := svc.fetch.RunAtOwner(ctx, name, peerKind, input); ok {
		var r peerResult
		if json.Unmarshal(result, &r) == nil && r.Done {
			svc.remember(f, name, r.Got)
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	here := svc.startDownload(name, &serverDownload{key: f.key, version: f.version, via: f.via}, svc.runDownload)
	if here == nil {
		return
	}
	svc.await(ctx, here)
}

// await waits for a download for as long as ctx lasts, and counts that as a
// request.
func (svc *Service) await(ctx context.Context, f *serverDownload) {
	tick := time.NewTicker(stillAsked)
	defer tick.Stop()
	for {
		select {
		case <-f.ended:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			f.touch(svc.now())
		}
	}
}

// downloadForPeer runs a download for another server of the depot.
func (svc *Service) downloadForPeer(ctx context.Context, input []byte) ([]byte, error) {
	var in peerDownload
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	if !symfile.ValidName(in.Key.Name) {
		return nil, fmt.Errorf("the name %q is not valid", in.Key.Name)
	}
	var r peerResult
	if name := downloadKey(in.Key, in.Version); svc.fetch.MayHave(ctx, name, svc.servers.sources) {
		f := svc.startDownload(name, &serverDownload{key: in.Key, version: in.Version, via: in.Via}, svc.runDownload)
		if f == nil {
			return nil, errors.New("too many downloads are running")
		}
		svc.await(ctx, f)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r = peerResult{f.done, f.got}
	}
	return json.Marshal(r)
}
