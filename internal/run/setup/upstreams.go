package setup

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/sourcefiles"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/config"
)

// Dialer returns a dialer for the outbound connections that the configuration
// permits.
func Dialer(c *config.Config) *upstream.Dialer {
	return upstream.NewDialer(upstream.DialerOptions{NoEgress: c.NoEgress, AllowCIDRs: c.AllowedNetworks(), AllowHosts: c.AllowHosts})
}

// SourceRelay returns what fetches source files from other servers; nil if nothing is
// fetched.
func SourceRelay(c *config.Config) sourcefiles.RelayFunc {
	hosts := c.Sources.Relay
	if len(hosts) == 0 || c.NoEgress {
		return nil
	}
	own := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return strings.HasPrefix(h, "*.") })
	return upstream.NewRelay(Dialer(c), own, func(url string) error {
		if fault := srclink.PlaceOf(url).Fault(hosts); fault != "" {
			return fmt.Errorf("%s %s", url, fault)
		}
		return nil
	}).Fetch
}

// Upstreams are opened upstreams.
type Upstreams struct {
	ID   string // the id of this server in requests, to detect loops
	List []depot.Upstream

	guarded []*upstream.Guarded
}

// OpenUpstreams opens upstreams. It does not connect. shared identifies the depot if it has
// several servers; empty: it has one.
func OpenUpstreams(ctx context.Context, c *config.Config, specs []upstream.Spec, shared string, tracer *span.Tracer) (*Upstreams, error) {
	s := &Upstreams{ID: serverID(shared)}
	d, products := Dialer(c), c.Products()
	for _, spec := range specs {
		g, err := spec.Open(ctx, upstream.OpenOptions{Dialer: d, ServerID: s.ID, Tracer: tracer, Folder: openFolder})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.guarded = append(s.guarded, g)
		s.List = append(s.List, depot.Upstream{Source: g, Rank: g.Rank(), Product: products[g.Name()], Public: g.Public()})
	}
	return s, nil
}

// serverID returns the id of this server in requests to upstreams, by which a
// server finds that a request has come back to it. The servers of one depot have
// the same: a request that comes back to another one of them would wait for its
// own download.
func serverID(shared string) string {
	text := rand.Text()
	if shared != "" {
		sum := sha256.Sum256([]byte(shared))
		text = base32.StdEncoding.EncodeToString(sum[:])
	}
	return "symdepot-" + strings.ToLower(text[:12])
}

// openFolder opens a folder as an upstream.
func openFolder(s *upstream.Spec) (fetch.Source, error) {
	l, err := s.FolderLayout()
	if err != nil {
		return nil, err
	}
	return tree.NewSource(s.Name, s.URL, tree.Options{Layout: l, PointerRoots: s.PointerRoots, MaxUnpacked: s.Guard.MaxBytes}), nil
}

// Close closes the upstreams. Close the depot first.
func (s *Upstreams) Close() error {
	var errs []error
	for _, g := range s.guarded {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}
