// Package setup builds the long-lived parts of the program from a configuration: the dialer,
// upstreams, stores, watched folders, transcoders and traces, and the options of the depot and
// of the gate. It links no server.
package setup

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/nodes"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// UseDepot completes the options of a depot with the bucket of its contents and
// the folder of this machine. blobs is the URL of the bucket; empty: the bucket
// that a depot in a folder has recorded, or none.
func UseDepot(c *config.Config, where, blobs string, opt *depot.Options) (err error) {
	if err := config.CheckDepot(where); err != nil {
		return err
	}
	opt.Local, opt.LocalSize = c.Depot.Local, int64(c.Depot.LocalSize)
	if address.IsDatabase(where) {
		opt.Dial = Dialer(c).Dial
		if where == c.Depot.Dir {
			opt.Replicas = c.Depot.Replicas
		}
		if opt.Local == "" {
			base, err := os.UserCacheDir()
			if err != nil {
				return fmt.Errorf("cannot find a cache folder of this user; set depot.local: %w", err)
			}
			opt.Local = filepath.Join(base, "symdepot")
		}
	} else if recorded, err := home.BucketOf(where); err != nil {
		return err
	} else {
		blobs = cmp.Or(blobs, recorded)
	}
	if blobs == "" {
		return nil
	}
	opt.Bucket, err = OpenBucket(c, blobs)
	if err != nil {
		err = fmt.Errorf("depot.blobs%s: %w", config.ShownURL(blobs), err)
	}
	return err
}

// OpenBucket opens a bucket by its URL, with the endpoint, region and credentials of the
// environment.
func OpenBucket(c *config.Config, where string) (bucket.Bucket, error) {
	b, err := bucket.ParseURL(where)
	if err != nil {
		return nil, err
	}
	return upstream.OpenBucket(b, Dialer(c))
}

// ListenForPeers opens the listener for the other servers of the depot, if there
// is to be one. The depot closes it.
func ListenForPeers(ctx context.Context, c *config.Config) (opt nodes.Options, err error) {
	d := &c.Depot
	if d.PeerListen == "" {
		return opt, nil
	}
	var lc net.ListenConfig
	if opt.Listener, err = lc.Listen(ctx, "tcp", d.PeerListen); err != nil {
		return opt, fmt.Errorf("depot.peer_listen: %w", err)
	}
	opt.Address = cmp.Or(d.PeerAddress, opt.Listener.Addr().String())
	return opt, nil
}
