package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/sorting"
)

const (
	// archiveRetry is the time between two attempts to store closed files.
	archiveRetry = 10 * time.Minute
	// archiveLast is how long Close may take to store them.
	archiveLast = 20 * time.Second
)

// archiveLog is the name that the files of an archive would have while records are
// still added to them.
const archiveLog = "audit.jsonl"

// ArchivedFile is a closed audit file in an archive.
type ArchivedFile struct {
	Name string // without that of the server
	Open func() (io.ReadCloser, error)
}

// ErrArchive means that a file of an archive cannot be read: records are missing.
var ErrArchive = errors.New("cannot read an audit file of the archive")

// ReadArchive yields the records that the filter selects from the files of one server
// in an archive, oldest first. At most one file is open at the same time. For an
// invalid line it yields an error and continues; if a file cannot be read, it ends
// with ErrArchive. Files with other names than Audit gives them are omitted.
func ReadArchive(files []ArchivedFile, filter AuditFilter) iter.Seq2[Event, error] {
	type archived struct {
		aside
		open func() (io.ReadCloser, error)
	}
	var list []archived
	stem, ext := split(archiveLog)
	for _, f := range files {
		if o, ok := parseAside(stem, ext, f.Name); ok && !o.before(filter.Since) {
			list = append(list, archived{o, f.Open})
		}
	}
	sorting.By(list, func(a, b archived) int { return a.compare(b.aside) })
	return func(yield func(Event, error) bool) {
		for _, f := range list {
			r, err := f.open()
			if err != nil {
				yield(Event{}, fmt.Errorf("%w: %s: %w", ErrArchive, f.name, err))
				return
			}
			s := &sticky{r: r}
			more := readRecords(s, f.name, &filter, func(e Event, err error) bool {
				if s.err != nil && err != nil {
					return false // said below
				}
				return yield(e, err)
			})
			err = errors.Join(s.err, r.Close())
			if err != nil {
				yield(Event{}, fmt.Errorf("%w: %s: %w", ErrArchive, f.name, err))
				return
			}
			if !more {
				return
			}
		}
	}
}

// sticky remembers why reading failed.
type sticky struct {
	r   io.Reader
	err error
}

func (s *sticky) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

// archive stores closed files until the log is closed, and then those that are left.
func (a *Audit) archive() {
	defer close(a.archived)
	life, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		<-a.done
		end()
	}()
	failing := false
	for {
		ctx, cancel := life, context.CancelFunc(func() {})
		last := life.Err() != nil
		if last {
			ctx, cancel = context.WithTimeout(context.Background(), archiveLast)
		}
		err := a.store(ctx)
		cancel()
		switch {
		case err != nil && !failing && (last || life.Err() == nil):
			failing = true
			a.log.Error("cannot store closed audit files in the bucket; they stay in their folder, and the server tries again", "error", err)
		case err == nil && failing:
			failing = false
			a.log.Info("closed audit files are stored in the bucket again")
		}
		if last {
			return
		}
		select {
		case <-a.rotated:
		case <-life.Done():
		case <-time.After(archiveRetry):
		}
	}
}

// store stores the closed files that the archive does not have.
func (a *Audit) store(ctx context.Context) error {
	files, err := olderFiles(a.cfg.File)
	if err != nil || len(files) == 0 {
		return err
	}
	have, err := a.cfg.Archive.Names(ctx)
	if err != nil {
		return err
	}
	stem, ext := split(a.cfg.File)
	for _, f := range files {
		// The name in the archive does not depend on what the operator calls the file.
		when := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f.name), filepath.Base(stem)), ext)
		to, toExt := split(archiveLog)
		if name := to + when + toExt; !have[name] {
			err = errors.Join(err, a.storeFile(ctx, f.name, name))
		}
	}
	return err
}

func (a *Audit) storeFile(ctx context.Context, file, name string) error {
	f, err := durable.OpenShared(file)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	return a.cfg.Archive.Put(ctx, name, fi.Size(), f)
}
