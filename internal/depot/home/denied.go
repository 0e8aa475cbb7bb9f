package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
)

// deniedLimit is how long Denied looks.
const deniedLimit = 10 * time.Second

// deniedIndex adds to the error of an index that cannot be opened which of its files the user of
// this process may not use: SQLite does not say it.
func deniedIndex(dir string, err error) error {
	for _, name := range []string{"index.db", "index.db-wal", "index.db-shm"} {
		if !account.Uses(dir, name) {
			return fmt.Errorf("%w: %w", err, account.Denied(dir, filepath.Join(dir, name)))
		}
	}
	return err
}

// errEnough ends a look.
var errEnough = errors.New("enough")

// Denied looks for what the user of this process may not use below the folder of a depot,
// because it belongs to somebody else: usually to root, who has run a command there. It returns
// why the first such file or folder is refused, and how many there are: what is below a folder
// that is refused is not counted. nil means that nothing was found within ten seconds.
func Denied(ctx context.Context, dir string) (first *account.DeniedError, n int64) {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs // the cure is typed elsewhere
	}
	until := time.Now().Add(deniedLimit)
	look := func(path string, e fs.DirEntry, err error) error {
		uses := account.Reads
		if e == nil || e.IsDir() || strings.HasPrefix(e.Name(), "index.db") {
			uses = account.Uses
		}
		rel, rerr := filepath.Rel(dir, path)
		switch {
		case rerr != nil || ctx.Err() != nil || time.Now().After(until):
			return errEnough
		case uses(dir, rel) && !errors.Is(err, fs.ErrPermission):
			return nil
		}
		if n++; first == nil {
			first = account.Denied(dir, path)
		}
		if e == nil || e.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	_ = filepath.WalkDir(dir, look) // what it could not read, it has counted
	return first, n
}
