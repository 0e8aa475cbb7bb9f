package sourcefiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of source bundles that are made for requests.
const (
	bundlesAtOnce   = 2         // that are made
	bundlesOpen     = 32        // that wait, are made or are sent: each is a temporary file
	bundledBytes    = 512 << 20 // bytes of all sources of a bundle
	bundleTime      = 2 * time.Minute
	listedNamesOnce = 1000 // most names of one page of Names
)

// AsksForBundle reports whether a request asks for the source bundle of a module.
func AsksForBundle(req *layout.Request) bool {
	return req.Form == layout.FormFile && len(req.Lookups) > 0 &&
		!slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool { return l.Role != symfile.Sources })
}

// Bundle makes a source bundle of the sources that the depot has of a module, for a
// request that Get did not find. If it has none, the error is fs.ErrNotExist; if too many
// are being made and sent, ErrUnavailable.
func (s *Files) Bundle(ctx context.Context, scope answer.Scope, req layout.Request) (*answer.File, error) {
	h, list, err := s.module(ctx, scope, req.Lookups)
	if err != nil {
		return nil, err
	}
	if s.made.Add(1) > bundlesOpen {
		s.made.Add(-1)
		return nil, errManyBundles
	}
	f, err := s.makeBundle(ctx, scope, h, list)
	if err != nil {
		s.made.Add(-1)
		return nil, err
	}
	f.Closer = closers{f.Closer, closeOnce(sync.OnceFunc(func() { s.made.Add(-1) }))}
	return f, nil
}

// errManyBundles means that too many source bundles are made and sent.
var errManyBundles = fmt.Errorf("too many source bundles are being made: %w", content.ErrUnavailable)

// closeOnce is a Closer of a function that counts once.
type closeOnce func()

// Close implements io.Closer.
func (c closeOnce) Close() error {
	c()
	return nil
}

// makeBundle makes the source bundle of an object.
func (s *Files) makeBundle(ctx context.Context, scope answer.Scope, h record.Hit, list *nameList) (*answer.File, error) {
	ctx, cancel := context.WithTimeout(ctx, bundleTime)
	defer cancel()
	select {
	case s.bundles <- struct{}{}:
		defer func() { <-s.bundles }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	sp, err := s.blobs.Spool()
	if err != nil {
		return nil, err
	}
	defer sp.Abort()
	n, err := s.writeBundle(ctx, scope, sp, h, list)
	if err == nil && n == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, sp.Close())
	}
	ref := sp.Sum()
	f := &answer.File{
		Object: symfile.Object{
			Kind: symfile.SourceBundle, Role: symfile.Sources, Name: h.Object.Name, DebugID: h.Object.DebugID, Of: h.Object.Kind,
		},
		Source: h.Ref, Made: true, Size: sp.Size(), ModTime: answer.FileTime(h), ETag: ref.String()[:32], Bytes: sp, Packed: true, Closer: sp,
	}
	if plain, err := sp.File(); err == nil {
		f.Disk, f.Closer = plain, closers{plain, sp}
	}
	return f, nil
}

type closers []io.Closer

func (c closers) Close() (err error) {
	for _, e := range c {
		err = errors.Join(err, e.Close())
	}
	return err
}

// module returns the object of a module that names sources, and its names.
func (s *Files) module(ctx context.Context, scope answer.Scope, lookups []symfile.Lookup) (record.Hit, *nameList, error) {
	for _, l := range lookups {
		l.Role, l.Unique = symfile.Debug|symfile.Executable, false
		hits, err := s.db.Lookup(ctx, scope.Index(), l)
		if err == nil && len(hits) == 0 && l.Name != "" {
			l.Name = "" // the request names the bundle or the program, not the debug file
			hits, err = s.db.Lookup(ctx, scope.Index(), l)
		}
		if err != nil {
			return record.Hit{}, nil, err
		}
		hits = s.intact(hits)
		answer.Rank(hits, symfile.Debug)
		for _, h := range hits[:min(len(hits), maxSourceObjects)] {
			list, err := s.list(ctx, scope, h)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return record.Hit{}, nil, err
			}
			if err == nil && len(list.names) > 0 {
				return h, list, nil
			}
		}
	}
	return record.Hit{}, nil, fs.ErrNotExist
}

// writeBundle writes the bundle of an object and returns the number of its sources.
func (s *Files) writeBundle(ctx context.Context, scope answer.Scope, w io.Writer, h record.Hit, list *nameList) (n int, err error) {
	var bytes int64
	var failed error
	o := s.object(scope, h)
	defer o.close()
	files := func(yield func(sources.BundledFile) bool) {
		for _, name := range list.names {
			file := sources.BundledFile{Path: name.Name, Open: func() (io.ReadCloser, error) {
				f, err := o.named(ctx, name)
				if err != nil {
					return nil, err
				}
				if bytes += f.Size; bytes > bundledBytes {
					return nil, errors.Join(sources.ErrTooLarge, f.Close())
				}
				return readCloser{io.NewSectionReader(f, 0, f.Size), f}, nil
			}}
			if failed = ctx.Err(); failed != nil || !yield(file) {
				return
			}
		}
	}
	stats, err := sources.WriteBundle(w, sources.Bundle{Attributes: sources.AttributesOf(h.Object, h.Arch), Files: files})
	return stats.Files, errors.Join(failed, err)
}

type readCloser struct {
	io.Reader
	io.Closer
}

// SourceName is a source that the debug information of an object names.
type SourceName struct {
	Name string
	// State is "embedded", "bundle", "here" or "missing".
	State string
	// Checksum is the algorithm of the checksum in the debug information, or empty. A
	// file with a different one is missing.
	Checksum string
	Ref      blob.Ref // of the text, if it is held
	Size     int64    // of the text; -1 if it is missing
}

// Names returns the sources that an object names, in their order in the debug
// information, from number after on, at most limit, and their number. why says why
// names may be missing.
func (s *Files) Names(
	ctx context.Context, scope answer.Scope, ref blob.Ref, after, limit int,
) (list []SourceName, total int, why string, err error) {
	found, err := s.db.Find(ctx, scope.Index(), record.Query{Ref: &ref}, 1)
	if err != nil || len(found) == 0 {
		return nil, 0, "", orNotFound(err)
	}
	h := record.Hit{Stored: found[0].Stored}
	names, err := s.list(ctx, scope, h)
	if err != nil {
		return nil, 0, "", err
	}
	limit = min(limit, listedNamesOnce)
	o := s.object(scope, h)
	defer o.close()
	for _, n := range names.names[min(after, len(names.names)):min(after+limit, len(names.names))] {
		e := SourceName{Name: n.Name, State: "missing", Checksum: n.Alg, Size: -1}
		f, err := o.named(ctx, n)
		switch {
		case err == nil:
			e.State, e.Ref, e.Size = f.Kept, f.Ref, f.Size
			_ = f.Close() // only looked at
		case !errors.Is(err, fs.ErrNotExist):
			return nil, 0, "", err
		}
		list = append(list, e)
	}
	return list, len(names.names), names.why, nil
}
