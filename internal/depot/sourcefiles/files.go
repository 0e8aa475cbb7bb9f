// Package sourcefiles finds the source files that the debug information of a depot's objects
// names: in the object itself, in source bundles, in transactions, and where Source Link says.
package sourcefiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// maxSource is the size in bytes above which a file is not taken as a source.
const maxSource = sources.MaxFile

// Files finds source files. A source is answered only if the debug information of a visible
// object names it.
type Files struct {
	db       *index.DB
	blobs    blob.Backend
	contents *content.Contents
	// openHit opens the content of a row as an answer.
	openHit func(context.Context, record.Hit, *answer.Recorder) (*answer.File, error)

	lists   *nameLists
	tallies *memo.Map[tallyKey, tallied]
	bundles chan struct{} // one for each bundle that is being made
	made    atomic.Int32  // bundles that wait, are made or are sent
	relay   RelayFunc     // nil: none
}

// Parts are what finding source files needs.
type Parts struct {
	DB       *index.DB
	Blobs    blob.Backend
	Contents *content.Contents
	// OpenHit opens the content of a row as an answer.
	OpenHit func(context.Context, record.Hit, *answer.Recorder) (*answer.File, error)
	Log     *slog.Logger
}

// New returns the source files of a depot.
func New(p Parts) *Files {
	return &Files{
		db: p.DB, blobs: p.Blobs, contents: p.Contents, openHit: p.OpenHit,
		lists: newNameLists(p.Contents, p.Log), tallies: memo.New[tallyKey, tallied](talliesKept),
		bundles: make(chan struct{}, bundlesAtOnce),
	}
}

// intact omits the hits whose stored bytes are known to be damaged.
func (s *Files) intact(hits []record.Hit) []record.Hit {
	return slices.DeleteFunc(hits, func(h record.Hit) bool { return s.blobs.Suspect(h.Ref) })
}

// RelayFunc fetches a source file of at most limit bytes from another server. What may
// not be asked for, or is not there, is fs.ErrNotExist.
type RelayFunc func(ctx context.Context, url string, limit int64) ([]byte, error)

// UseRelay makes the depot fetch sources that it does not have from where Source Link
// says, before the first request.
func (s *Files) UseRelay(fetch RelayFunc) { s.relay = fetch }

// relayed fetches a source from where the Source Link of an object has it.
func (s *Files) relayed(ctx context.Context, h record.Hit, list *nameList, n sources.Name) (*answer.File, error) {
	if s.relay == nil || list.links == nil {
		return nil, fs.ErrNotExist
	}
	url, ok := list.links.URL(n.Name)
	if !ok {
		return nil, fs.ErrNotExist
	}
	text, err := s.relay(ctx, url, maxSource)
	if err != nil {
		return nil, err
	}
	if contradicts(n, text) {
		return nil, errOtherSource
	}
	return inMemory(h, n.Name, text), nil
}

// errOtherSource means that a file with the right path is not the one that was
// compiled, by the checksum in the debug information.
var errOtherSource = fmt.Errorf("the file has another checksum than the debug information names: %w", fs.ErrNotExist)

// Open answers a request for a source by an id and the path in the debug
// information.
func (s *Files) Open(ctx context.Context, scope answer.Scope, req layout.Request, rec *answer.Recorder) (*answer.File, error) {
	for _, l := range req.Lookups {
		hits, err := s.db.Lookup(ctx, scope.Index(), l)
		if err != nil {
			return nil, err
		}
		hits = s.intact(hits)
		answer.Rank(hits, symfile.Debug)
		outcome := answer.NoHit
		for _, h := range hits[:min(len(hits), maxSourceObjects)] {
			f, err := s.ofObject(ctx, scope, h, req.Part)
			switch {
			case err == nil:
				rec.Looked(l, answer.Hit, hits)
				return f, nil
			case !errors.Is(err, fs.ErrNotExist):
				return nil, err
			case !errors.Is(err, errNotNamed):
				outcome = answer.NoText
			case outcome == answer.NoHit:
				outcome = answer.NotNamed
			}
		}
		rec.Looked(l, outcome, hits)
	}
	return nil, fs.ErrNotExist
}

// errNotNamed means that the debug information of an object does not name a file.
var errNotNamed = fmt.Errorf("the debug information does not name this file: %w", fs.ErrNotExist)

// maxSourceObjects limits the objects of one id whose names are read for a request.
const maxSourceObjects = 8

// ofObject opens a source that an object names.
func (s *Files) ofObject(ctx context.Context, scope answer.Scope, h record.Hit, path string) (*answer.File, error) {
	list, err := s.list(ctx, scope, h)
	if err != nil {
		return nil, err
	}
	n, ok := list.find(path)
	if !ok {
		return nil, errNotNamed
	}
	f, err := s.Named(ctx, scope, h, n)
	if errors.Is(err, fs.ErrNotExist) {
		if r, rerr := s.relayed(ctx, h, list, n); !errors.Is(rerr, fs.ErrNotExist) {
			return r, rerr
		}
	}
	return f, err
}

// Named opens the source that the depot has of a name in the debug information of an object.
// Not found is fs.ErrNotExist.
func (s *Files) Named(ctx context.Context, scope answer.Scope, h record.Hit, n sources.Name) (*answer.File, error) {
	o := s.object(scope, h)
	defer o.close()
	return o.named(ctx, n)
}

// list returns the names of an object. Those that need the supplementary file of dwz are
// read with it if the caller may read it: parts of its text are in the names.
func (s *Files) list(ctx context.Context, scope answer.Scope, h record.Hit) (*nameList, error) {
	l, err := s.lists.get(ctx, h, nil)
	if err != nil || l.alternate == "" {
		return l, err
	}
	supplement := symfile.Lookup{ID: symfile.Fold(string(l.alternate)), Role: symfile.Debug, IDKind: symfile.BuildIDs}
	hits, err := s.db.Lookup(ctx, scope.Index(), supplement)
	if err != nil {
		return nil, err
	}
	hits = s.intact(hits)
	answer.Rank(hits, symfile.Debug)
	if len(hits) == 0 {
		return l, nil
	}
	return s.lists.get(ctx, h, &hits[0])
}

// maxLooked limits the transactions in which one source is looked for: a library is in
// many builds, and clients ask for files that none of them has.
const maxLooked = 128

// filed opens a source in the transactions that hold an object, then in others of the
// same products and versions.
func (s *Files) filed(ctx context.Context, scope answer.Scope, h record.Hit, n sources.Name) (*answer.File, error) {
	holding, err := s.db.Sources.Holding(ctx, scope.Index(), h.Ref)
	if err != nil {
		return nil, err
	}
	looked := map[int64]bool{}
	try := func(list []index.Filed) (*answer.File, error) {
		for _, t := range list {
			if looked[t.Number] {
				continue
			}
			if len(looked) == maxLooked {
				break
			}
			looked[t.Number] = true
			f, err := s.inTransaction(ctx, t.Number, n)
			if !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
		return nil, fs.ErrNotExist
	}
	f, err := try(holding)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	builds := map[[2]string]bool{}
	for _, t := range holding {
		k := [2]string{t.Product, t.Version}
		if t.Version == "" || builds[k] {
			continue
		}
		builds[k] = true
		others, err := s.db.Sources.FiledAs(ctx, scope.Index(), t.Product, t.Version)
		if err != nil {
			return nil, err
		}
		if f, err := try(others); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// inTransaction opens a source in one transaction: the file with the path of the name,
// else the only one whose path ends like it.
func (s *Files) inTransaction(ctx context.Context, tx int64, n sources.Name) (*answer.File, error) {
	files, err := s.db.Sources.At(ctx, tx, sourcePaths(n.Name)...)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if file, err := s.fitting(ctx, f, n); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	if len(files) > 0 {
		return nil, fs.ErrNotExist
	}
	files, err = s.db.Sources.Named(ctx, tx, symfile.Fold(symfile.BaseName(sources.Canonical(n.Name))))
	if err != nil || len(files) == 0 {
		return nil, orNotFound(err)
	}
	paths, at := make([]string, len(files)), map[string]index.SourceFile{}
	for i, f := range files {
		paths[i], at[f.Path] = f.Path, f
	}
	found, refused := sources.NewMatcher([]sources.Name{n}).Match(slices.Values(paths))
	if len(found) > 0 {
		return s.fitting(ctx, at[found[0].Path], n)
	}
	if n.Alg == "" || len(refused) == 0 {
		return nil, fs.ErrNotExist
	}
	for _, p := range refused[0].Paths { // the sum decides
		if file, err := s.fitting(ctx, at[p], n); !errors.Is(err, fs.ErrNotExist) {
			return file, err
		}
	}
	return nil, fs.ErrNotExist
}

// sourcePaths are the paths under which a source of a name was added.
func sourcePaths(name string) []string {
	list := []string{name, "/" + name}
	for _, k := range sources.Keys(name) {
		k = strings.TrimPrefix(k, "/")
		list = append(list, k, "/"+k)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// fitting opens a source file unless its checksum is another one than that of the
// debug information.
func (s *Files) fitting(ctx context.Context, f index.SourceFile, n sources.Name) (*answer.File, error) {
	if f.Size > maxSource {
		return nil, fs.ErrNotExist
	}
	file, err := s.openHit(ctx, record.Hit{Stored: f.Stored}, nil)
	if err != nil {
		return nil, err
	}
	file.Kept = "here"
	if n.Alg == "" {
		return file, nil
	}
	text := make([]byte, file.Size)
	if _, err := file.ReadAt(text, 0); err != nil && err != io.EOF {
		_ = file.Close()
		return nil, err
	}
	if contradicts(n, text) {
		_ = file.Close()
		return nil, errOtherSource
	}
	return file, nil
}

// contradicts reports whether a text has another checksum than a name.
func contradicts(n sources.Name, text []byte) bool {
	check := n.Check()
	_, _ = check.Write(text) // a hash never fails
	return check.Verdict() == sources.Contradicted
}

// OpenContent opens a source file by the SHA-256 of its bytes.
func (s *Files) OpenContent(ctx context.Context, scope answer.Scope, sum [32]byte) (*answer.File, error) {
	ref := blob.Ref(sum)
	found, err := s.db.Find(ctx, scope.Index(), record.Query{Ref: &ref, Kind: symfile.SHA1}, 1)
	if err != nil || len(found) == 0 {
		return nil, orNotFound(err)
	}
	return s.openHit(ctx, record.Hit{Stored: found[0].Stored}, nil)
}

// OpenFiled opens the source file of a product and a version whose path ends in rel,
// in the newest transaction that has one. Several different ones are not found.
func (s *Files) OpenFiled(ctx context.Context, scope answer.Scope, product, version, rel string) (*answer.File, error) {
	if !scope.Sees(product) {
		return nil, fs.ErrNotExist
	}
	list, err := s.db.Sources.FiledAs(ctx, scope.Index(), product, version)
	if err != nil {
		return nil, err
	}
	rel = strings.Trim(sources.Canonical(rel), "/")
	for _, t := range list {
		files, err := s.db.Sources.Named(ctx, t.Number, symfile.Fold(symfile.BaseName(rel)))
		if err != nil {
			return nil, err
		}
		files = slices.DeleteFunc(files, func(f index.SourceFile) bool {
			return !strings.HasSuffix("/"+strings.TrimPrefix(sources.Canonical(f.Path), "/"), "/"+rel)
		})
		if len(files) == 0 {
			continue
		}
		if slices.ContainsFunc(files, func(f index.SourceFile) bool { return f.Ref != files[0].Ref }) {
			return nil, fmt.Errorf("several files end in this path: %w", fs.ErrNotExist)
		}
		return s.openHit(ctx, record.Hit{Stored: files[0].Stored}, nil)
	}
	return nil, fs.ErrNotExist
}

// orNotFound returns err, or fs.ErrNotExist if it is nil.
func orNotFound(err error) error {
	if err == nil {
		return fs.ErrNotExist
	}
	return err
}

// notFoundUnlessCanceled turns the error of a damaged file into fs.ErrNotExist.
func notFoundUnlessCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
}
