package fetch

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
)

// TestPerClient: a client may start only so many downloads at once. It may join
// those that run, and other clients are not affected.
func TestPerClient(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	src := &source{name: "slow", fetch: func(ctx context.Context, _ Ask) (*Reply, error) {
		select {
		case <-release:
			return nil, fs.ErrNotExist
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	f, _ := newFetcher(t, src)
	f.limits.PerClient = 2
	start := func(client string, n int) error {
		q := question(t, fmt.Sprintf("app%d.pdb/%s/app%d.sym", n, symID, n))
		q.Client = client
		_, err := f.Start(t.Context(), q)
		return err
	}
	for _, c := range []struct {
		name, client string
		key          int
		refused      bool
	}{
		{"first", "192.0.2.1", 1, false},
		{"second", "192.0.2.1", 2, false},
		{"third", "192.0.2.1", 3, true},
		{"running download", "192.0.2.1", 1, false},
		{"other client", "192.0.2.2", 3, false},
		{"running download of another client", "192.0.2.1", 3, false},
		{"no address", "", 4, false},
	} {
		err := start(c.client, c.key)
		if got := errors.Is(err, fs.ErrNotExist); got != c.refused || err != nil && !got {
			t.Errorf("%s: error %v, want refused %v", c.name, err, c.refused)
		}
	}
	close(release)
	f.Wait()
	if err := start("192.0.2.1", 5); err != nil {
		t.Errorf("after all downloads have ended: %v, want another one started", err)
	}
	f.Wait()
	if n := len(f.clients.count); n != 0 {
		t.Errorf("%d clients are counted without any download, want none", n)
	}
}
