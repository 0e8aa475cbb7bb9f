package depot

import (
	"context"
	"log/slog"

	"github.com/maypok86/otter/v2"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/sources"
	"github.com/symdepot/symdepot/objtab"
)

// Limits of the lists of source names.
const (
	listBytes = 64 << 20 // of all lists in memory
	listsRead = 2        // that are read from debug information at once; further requests wait, as many as the server lets in
)

// nameList is the list of the source files that the debug information of a content
// names.
type nameList struct {
	names []sources.Name
	keys  map[string]int32 // canonical spelling → index in names
	why   string           // why names may be missing
	// alternate is the build-id of the supplementary file of dwz that would complete the
	// names.
	alternate debugid.BuildID
	bytes     uint32 // estimate
}

// find returns the name that a request means by path.
func (l *nameList) find(path string) (sources.Name, bool) {
	for _, k := range sources.Keys(path) {
		if i, ok := l.keys[k]; ok {
			return l.names[i], true
		}
	}
	return sources.Name{}, false
}

// nameLists reads lists of source names, and keeps the ones that are used.
type nameLists struct {
	open  func(ctx context.Context, c index.Content) (blob.File, error)
	log   *slog.Logger
	slots chan struct{}
	lists *otter.Cache[listKey, *nameList]
}

// listKey is the content of an object, and of the supplementary file that its names were
// read with; zero for none.
type listKey struct{ object, alternate blob.Ref }

func newNameLists(cs *contents, log *slog.Logger) *nameLists {
	return &nameLists{
		open: cs.open, log: log, slots: make(chan struct{}, listsRead),
		lists: otter.Must(&otter.Options[listKey, *nameList]{MaximumWeight: listBytes, Weigher: func(_ listKey, l *nameList) uint32 { return l.bytes }}),
	}
}

// get returns the list of a content, read with a supplementary file if alternate is not
// nil. A content without source names, and one whose debug information cannot be read, has
// an empty list.
func (s *nameLists) get(ctx context.Context, h index.Hit, alternate *index.Hit) (*nameList, error) {
	key := listKey{object: h.Ref}
	if alternate != nil {
		key.alternate = alternate.Ref
	}
	if l, ok := s.lists.GetIfPresent(key); ok {
		return l, nil
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if l, ok := s.lists.GetIfPresent(key); ok { // another request has read it
		return l, nil
	}
	l, err := s.read(ctx, h, alternate)
	if err == nil {
		s.lists.Set(key, l)
	}
	return l, err
}

func (s *nameLists) read(ctx context.Context, h index.Hit, alternate *index.Hit) (*nameList, error) {
	b, err := s.open(ctx, index.Content{Ref: h.Ref, Size: h.Size})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var opt sources.Options
	if alternate != nil {
		a, err := s.open(ctx, index.Content{Ref: alternate.Ref, Size: alternate.Size})
		if err != nil {
			return nil, err
		}
		defer a.Close()
		opt.Others.Alternate = objtab.File{Reader: a, Size: alternate.Size}
	}
	l := &nameList{keys: map[string]int32{}, bytes: 256}
	listed, err := sources.List(ctx, b, h.Size, h.Object, opt)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		l.why = err.Error()
		s.log.Debug("the source names of a file cannot be read", "file", h.Object.Name, "content", h.Ref.String(), "error", err)
		return l, nil
	}
	l.names, l.why, l.alternate = listed.Names, listed.Incomplete, listed.Alternate
	for i, n := range l.names {
		l.bytes += uint32(2*len(n.Name)+len(n.Sum)) + 128
		for _, k := range sources.Keys(n.Name) {
			if _, ok := l.keys[k]; !ok {
				l.keys[k] = int32(i)
			}
		}
	}
	return l, nil
}
