package home

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/bucketstore"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// ErrOlder means that a depot was made by an older version, and is not upgraded
// because it is only looked at.
var ErrOlder = engine.ErrOlder

// Inspection is what can be said about a depot without changing it.
type Inspection struct {
	Name     string
	Dir      string // the folder of the depot, or that of this machine
	Contents string // the bucket that keeps the contents; empty: the folder
	// Fingerprint tells the depot from every other one, and says nothing else of it: a server
	// shows it to everybody. It is empty if it is not known.
	Fingerprint string
	Database    index.About
	Stats       index.Stats
	Scrub       places.ScrubState
	// Checked is how many of the stored contents the background check has read.
	Checked places.Coverage
	Tokens  []tokens.TokenRow // all of them
	// Faults are those that the database's own check found. Unchecked is set if it
	// did not end in time.
	Faults    []string
	Unchecked bool
	// Modes says who may read the depot although a new one would not let them.
	Modes string
	// Unwritable is the folder that this user may not write to; empty: there is none.
	Unwritable string
	// Denied is why a part of the depot's folder may not be used; nil: all of it may.
	// DeniedFiles is how many files and folders that are.
	Denied      *account.DeniedError
	DeniedFiles int64
	// Aside is how many damaged files were moved to AsideDir.
	Aside    int
	AsideDir string
	// Total and Free are those of the disk in bytes; Space is an error if they are
	// not known.
	Total, Free int64
	Space       error
	// Store is what is wrong with the bucket. Warnings are what else its check said.
	Store    error
	Warnings []string
}

// inspectLimit is how long the database may check its files for Inspect.
var inspectLimit = 10 * time.Second

// storeLimit is how long Inspect waits for a bucket.
const storeLimit = 10 * time.Second

var errStoreSilent = fmt.Errorf("the store has not answered within %s", storeLimit)

// Inspect looks at a depot and changes nothing in it. An object of a few bytes is
// written to a bucket and deleted again. Options.Bucket is closed.
// If there is an error, what is known so far is returned too.
func Inspect(ctx context.Context, where string, opt Options) (i Inspection, err error) {
	i = Inspection{Name: where, Dir: opt.Local}
	if opt.Bucket != nil {
		defer func() { err = errors.Join(err, opt.Bucket.Close()) }()
		i.Contents = opt.Bucket.Name()
		soon, cancel := context.WithTimeoutCause(ctx, storeLimit, errStoreSilent)
		i.Store = bucketstore.Try(soon, opt.Bucket, slog.New(heard{&i.Warnings}))
		if i.Store != nil && errors.Is(context.Cause(soon), errStoreSilent) {
			i.Store = errStoreSilent
		}
		cancel()
	}
	at := where
	if engine.IsURL(where) {
		i.Name = engine.Name(where)
	} else {
		if i.Dir, err = filepath.Abs(where); err != nil {
			return i, err
		}
		i.Name, at = i.Dir, filepath.Join(i.Dir, "index.db")
		opt.MustExist = true
		i.Denied, i.DeniedFiles = Denied(ctx, i.Dir)
		if _, err := prepare(i.Dir, opt); err != nil {
			return i, fmt.Errorf("depot %s: %w", i.Name, err)
		}
		i.Modes = WideModes(i.Dir)
		i.AsideDir = filepath.Join(i.Dir, "blobs", blob.AsideDir)
		aside, err := os.ReadDir(i.AsideDir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return i, fmt.Errorf("depot %s: %w", i.Name, err)
		}
		i.Aside = len(aside)
		for _, dir := range []string{i.Dir, filepath.Join(i.Dir, "blobs")} {
			if (dir == i.Dir || opt.Bucket == nil) && !durable.MayWrite(dir) {
				i.Unwritable = dir
				break
			}
		}
	}
	i.Total, i.Free, i.Space = durable.Space(i.Dir)
	db, err := index.Open(ctx, at, index.Options{ReadOnly: true, Log: opt.Log, Dial: opt.Dial, TempDir: i.Dir})
	if err != nil {
		return i, fmt.Errorf("depot %s: %w", i.Name, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if i.Database, err = index.AboutOf(ctx, db); err != nil {
		return i, err
	}
	if i.Fingerprint, err = fingerprintOf(ctx, where, db); err != nil {
		return i, err
	}
	if i.Stats, err = db.Stats(ctx); err != nil {
		return i, err
	}
	if i.Tokens, err = db.Tokens.List(ctx); err != nil {
		return i, err
	}
	if i.Scrub, err = db.Scrub.State(ctx); err != nil {
		return i, err
	}
	if i.Checked, err = db.Scrub.Coverage(ctx, i.Scrub); err != nil {
		return i, err
	}
	quick, cancel := context.WithTimeout(ctx, inspectLimit)
	defer cancel()
	i.Faults, err = db.Copies.Intact(quick)
	if i.Unchecked = err != nil && quick.Err() != nil && ctx.Err() == nil; i.Unchecked {
		err = nil
	}
	return i, err
}

// heard is a log that keeps the warnings.
type heard struct{ to *[]string }

// Enabled implements slog.Handler.
func (heard) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

// Handle implements slog.Handler.
func (h heard) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf(" (%s: %s)", a.Key, a.Value)
		return true
	})
	*h.to = append(*h.to, text)
	return nil
}

// WithAttrs implements slog.Handler.
func (h heard) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h heard) WithGroup(string) slog.Handler { return h }
