package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/symdepot/symdepot/internal/index/watched"
)

// ErrAway is wrapped by the error of a scan if the folder is missing, cannot be opened, or
// is the empty folder that is left when its file system is not mounted. What is known of
// its files is kept: when the folder is back, only those that have changed are read again.
var ErrAway = errors.New("the folder is away")

var errEmptied = errors.New("it is empty, and not the folder that was indexed; is its file system mounted?")

// awayPoll is how often a folder that is away is looked for.
const awayPoll = 10 * time.Second

// rootNote is the name under which an index says which folder had the path at the last
// complete scan.
const rootNote = "root"

// Present returns an error that wraps ErrAway if the folder is away.
func (f *Folder) Present(ctx context.Context) error {
	_, err := f.present(ctx)
	return err
}

func (f *Folder) present(ctx context.Context) (id string, err error) {
	id, empty, err := f.src.here(ctx)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrAway, err)
	}
	if id == "" || !empty {
		return id, nil
	}
	known, err := f.db.Note(ctx, rootNote)
	if err != nil || known == id {
		return id, err
	}
	t, err := f.db.Totals(ctx, kindPackage)
	if err == nil && t.Files > 0 {
		err = fmt.Errorf("%w: %w", ErrAway, errEmptied)
	}
	return id, err
}

// noteRoot keeps which folder was scanned.
func (f *Folder) noteRoot(ctx context.Context, id string) error {
	known, err := f.db.Note(ctx, rootNote)
	if err != nil || known == id {
		return err
	}
	return f.db.Apply(ctx, watched.Change{Notes: map[string]string{rootNote: id}})
}

// away reports whether the last scan did not find the folder.
func (f *Folder) away() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Is(f.failed, ErrAway)
}
