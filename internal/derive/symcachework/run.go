package symcachework

import (
	"context"
	"sync"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/derive/jobs"
)

// New opens the SymCache folders and registers the kind of job. Close must be
// called.
func New(ctx context.Context, opt Options) (*Service, error) {
	svc := &Service{
		depot: opt.Depot, db: opt.DB, blobs: opt.Blobs, fetch: opt.Fetch, queue: opt.Queue, make: opt.Make.withDefaults(),
		log: opt.Log, now: opt.Now,
	}
	svc.servers.init(opt.Servers)
	svc.fetch.Serve(peerKind, svc.downloadForPeer)
	limits := jobs.Limits{}
	if svc.make.Transcoders != nil {
		limits.Slots = svc.make.Slots
	}
	svc.queue.Register(work{svc}, limits)
	svc.life, svc.end = context.WithCancel(context.Background())
	return svc, svc.openFolders(ctx, opt.Folders)
}

// Stop cancels the downloads and waits for their end.
func (svc *Service) Stop() {
	svc.servers.downloads.Close()
	svc.end()
	svc.servers.downloads.Wait()
}

// Close stops the downloads and closes the folders.
func (svc *Service) Close() error {
	svc.Stop()
	return svc.folders.close()
}

// Wait waits until no SymCache file is being downloaded.
func (svc *Service) Wait() { svc.servers.downloads.Wait() }

// Run keeps the store within its limits, and the versions of the transcoders up
// to date, until ctx ends. The jobs run in the queue.
func (svc *Service) Run(ctx context.Context) {
	var side sync.WaitGroup
	defer side.Wait()
	side.Go(func() { svc.keepFolders(ctx) })
	if svc.make.Transcoders == nil {
		return
	}
	for ctxio.Pause(ctx, refreshEvery) == nil {
		svc.make.Transcoders.Refresh(ctx)
	}
}
