package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/index/engine"
)

// shareEvery is how often facts, and pauses and limits of upstreams are exchanged.
const shareEvery = 500 * time.Millisecond

// Work shares facts, and the pauses and limits of upstreams, until ctx ends.
func (n *Nodes) Work(ctx context.Context) {
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

// shareFacts publishes the workers and the policy of this server, and reads those of
// the others.
func (n *Nodes) shareFacts() {
	own := facts{Name: n.name, Workers: n.queue.OwnWorkers()}
	sorting.By(own.Workers, func(a, b jobs.Worker) int { return strings.Compare(a.Name, b.Name) })
	if hash := n.policy.Load(); hash != nil {
		own.Policy = (*hash)()
	}
	if n.peers != nil {
		own.Watched = n.watched.Products()
	}
	n.watch.Tell(own.text())
	shared, _ := n.watch.Shared()
	all := &facts{watching: map[string][]string{}}
	known := map[string]bool{}
	for _, text := range shared.Facts {
		var f facts
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
		n.log.Warn("servers of the depot have other rules of access than this one: "+
			"compare auth of the configurations, and the files of users", "servers", now)
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
