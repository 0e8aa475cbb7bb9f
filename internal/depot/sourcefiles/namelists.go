package sourcefiles

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/memo"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/internal/files/srclink"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objtab"
)

// Limits of the lists of source names.
const (
	listBytes = 64 << 20 // of all lists in memory
	listsRead = 2        // that are read from debug information at once
	listsWait = 128      // requests that wait for these, half of those that a server answers at once
)

// nameList is the list of the source files that the debug information of a content
// names.
type nameList struct {
	names []sources.Name
	keys  map[string]int32 // canonical spelling → index in names
	why   string           // why names may be missing
	links *srclink.Map     // where Source Link has the files; nil: nowhere
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
	open  func(ctx context.Context, c record.Content) (blob.File, error)
	log   *slog.Logger
	slots chan struct{}
	lists *memo.Map[listKey, *nameList]

	waiting atomic.Int32

	mu      sync.Mutex
	reading map[listKey]chan struct{} // guarded by mu; lists that a request reads
}

// listKey is the content of an object, and of the supplementary file that its names were
// read with; zero for none.
type listKey struct{ object, alternate blob.Ref }

func newNameLists(cs *content.Contents, log *slog.Logger) *nameLists {
	return &nameLists{
		open: cs.Open, log: log, slots: make(chan struct{}, listsRead), reading: map[listKey]chan struct{}{},
		lists: memo.NewWeighed(listBytes, func(_ listKey, l *nameList) uint32 { return l.bytes }),
	}
}

// closedText stands for the text of a name in a list whose object was closed.
func closedText() (io.ReadCloser, error) { return nil, fs.ErrClosed }

// get returns the list of a content, read with a supplementary file if alternate is not
// nil. A content without source names, and one whose debug information cannot be read, has
// an empty list.
func (s *nameLists) get(ctx context.Context, h record.Hit, alternate *record.Hit) (*nameList, error) {
	key := listKey{object: h.Ref}
	if alternate != nil {
		key.alternate = alternate.Ref
	}
	for {
		l, wait := s.begin(key)
		if l != nil {
			return l, nil
		}
		if wait == nil {
			break // this request reads it
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer s.end(key)
	release, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	l, err := s.read(ctx, h, alternate)
	if err == nil {
		s.lists.Set(key, l)
	}
	return l, err
}

// begin returns the list of a key, or a channel that is closed when the request that reads
// it has ended. Without either the caller reads it, and calls end.
func (s *nameLists) begin(key listKey) (*nameList, <-chan struct{}) {
	if l, ok := s.lists.Get(key); ok {
		return l, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait, ok := s.reading[key]; ok {
		return nil, wait
	}
	if l, ok := s.lists.Get(key); ok { // another request has read it
		return l, nil
	}
	s.reading[key] = make(chan struct{})
	return nil, nil
}

func (s *nameLists) end(key listKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.reading[key])
	delete(s.reading, key)
}

// errManyLists means that too many requests wait for lists of source names.
var errManyLists = fmt.Errorf("too many lists of source files are being read: %w", content.ErrUnavailable)

// enter waits until a list may be read. The requests that wait hold back others of the
// server, so there are few of them: the next one is refused.
func (s *nameLists) enter(ctx context.Context) (release func(), err error) {
	if s.waiting.Add(1) > listsWait {
		s.waiting.Add(-1)
		return nil, errManyLists
	}
	defer s.waiting.Add(-1)
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *nameLists) read(ctx context.Context, h record.Hit, alternate *record.Hit) (*nameList, error) {
	b, err := s.open(ctx, record.Content{Ref: h.Ref, Size: h.Size})
	if err != nil {
		return nil, err
	}
	defer b.Close()
	var opt sources.Options
	if alternate != nil {
		a, err := s.open(ctx, record.Content{Ref: alternate.Ref, Size: alternate.Size})
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
	if len(listed.Links) > 0 {
		l.bytes += 2 * uint32(len(listed.Links))
		l.links, _ = srclink.ParseMap(listed.Links) // the rules that can be read count
	}
	for i, n := range l.names {
		if n.Embedded != nil {
			l.names[i].Embedded = closedText // the object's own would keep all of its sections in memory
		}
		l.bytes += uint32(2*len(n.Name)+len(n.Sum)) + 128
		for _, k := range sources.Keys(n.Name) {
			if _, ok := l.keys[k]; !ok {
				l.keys[k] = int32(i)
			}
		}
	}
	return l, nil
}
