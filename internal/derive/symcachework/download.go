package symcachework

import (
	"context"
	"sync"
	"time"

	"github.com/symdepot/symdepot/symcache"
)

// serverDownload is the download of one key and version from other servers.
type serverDownload struct {
	key     symcache.Key
	version symcache.Version
	via     []string
	client  string // that started it
	ended   chan struct{}
	done    bool             // a server has sent a file; set before ended is closed
	got     symcache.Version // its version; set likewise

	mu    sync.Mutex
	asked time.Time // guarded by mu; last request of a client
}

// wait waits until the download has ended or ctx ends.
func (f *serverDownload) wait(ctx context.Context) error {
	select {
	case <-f.ended:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// touch notes a request of a client.
func (f *serverDownload) touch(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = now
}

// sinceRequest returns how long ago a client asked for the file.
func (f *serverDownload) sinceRequest(now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return now.Sub(f.asked)
}

func downloadKey(key symcache.Key, v symcache.Version) string {
	return "symcache/" + jobKey(key) + "/" + v.String()
}
