package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/symdepot/symdepot/internal/index"
)

// Again uploads the contents of the batch again that the index has neither as
// contents nor as uploads: the leases ended, or the contents were dropped, while this
// process stood still. The bytes come from their objects, which are kept for
// Options.Hold after that. Each gets a new place.
func (b *batch) Again(ctx context.Context) error {
	b.mu.Lock()
	objects := make([]index.Upload, 0, len(b.objects))
	for _, u := range b.objects {
		objects = append(objects, u)
	}
	b.mu.Unlock()
	for _, u := range objects {
		there, err := b.v.places.Finished(ctx, u.Content)
		if err != nil || there {
			if err != nil {
				return err
			}
			continue
		}
		if _, _, err := b.v.places.Of(ctx, u.Ref); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		up, err := b.v.uploadAgain(ctx, u)
		if err != nil {
			return fmt.Errorf("upload blob %s again: %w", u.Ref, err)
		}
		b.mu.Lock()
		b.objects[u.Ref] = up
		b.mu.Unlock()
	}
	return nil
}

// uploadAgain copies the object of an upload to a new place.
func (v *Vault) uploadAgain(ctx context.Context, u index.Upload) (up index.Upload, err error) {
	sp, err := v.local.disk.Spool()
	if err != nil {
		return up, err
	}
	defer discard(sp)
	if err := v.get(ctx, u, sp); err != nil {
		return up, err
	}
	if sp.Sum() != u.Ref {
		return up, fmt.Errorf("its object has SHA-256 %s", sp.Sum())
	}
	up = newUpload(u.Ref, u.Size)
	begun := v.now()
	if err := v.places.Begin(ctx, v.node, lease, []index.Upload{up}); err != nil {
		return up, err
	}
	err = v.renewing(ctx, up, func() error { return v.put(ctx, up, begun, sp) })
	if err == nil {
		err = v.places.Done(ctx, []string{up.Place})
	}
	if err != nil {
		v.abandon(ctx, []string{up.Place})
		return up, err
	}
	v.intact(u.Ref)
	return up, nil
}
