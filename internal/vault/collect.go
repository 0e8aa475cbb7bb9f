package vault

import (
	"context"

	"github.com/symdepot/symdepot/internal/index"
)

// collect deletes objects whose places are doomed for long enough, and returns
// their number. It may run in several processes at once: deleting an object
// twice does no harm.
func (v *Vault) collect(ctx context.Context) (n int, err error) {
	now := v.now()
	if _, err := v.places.Expire(ctx, now.Add(-expired)); err != nil {
		return 0, err
	}
	// A copy of the database beside the original must not delete: the marker
	// names the depot, and a copy that goes on gets an id of its own.
	if err := v.claim(ctx, true); err != nil {
		return 0, err
	}
	for {
		var uploads []index.Upload
		for u, err := range v.places.Doomed(ctx, now.Add(-v.hold)) {
			if err != nil {
				return n, err
			}
			if uploads = append(uploads, u); len(uploads) == deleteBatch {
				break
			}
		}
		if len(uploads) == 0 {
			break
		}
		places, err := v.delete(ctx, uploads)
		n += len(places)
		if serr := v.places.Swept(ctx, places); err == nil {
			err = serr
		}
		if err != nil {
			return n, err
		}
	}
	return n, v.deleteAgain(ctx)
}

// deleteBatch is the number of objects that are deleted before their rows are
// marked.
const deleteBatch = 1000

// delete deletes objects and returns the places of those that are deleted.
func (v *Vault) delete(ctx context.Context, uploads []index.Upload) (places []string, err error) {
	for _, u := range uploads {
		if err := v.bucket.Delete(ctx, keyOf(u)); err != nil {
			v.note(err)
			return places, err
		}
		places = append(places, u.Place)
	}
	return places, nil
}

// deleteAgain deletes objects a second time, a week after the first, and forgets
// them: an upload that had timed out may have arrived since.
func (v *Vault) deleteAgain(ctx context.Context) error {
	before := v.now().Add(-resweep)
	var old []index.Upload
	for u, err := range v.places.Resweep(ctx, before) {
		if err != nil {
			return err
		}
		old = append(old, u)
	}
	for len(old) > 0 {
		some := old[:min(len(old), deleteBatch)]
		old = old[len(some):]
		places, err := v.delete(ctx, some)
		if ferr := v.places.Forget(ctx, places); err == nil {
			err = ferr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
