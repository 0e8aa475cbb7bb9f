package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// StoreConfig describes the files in a bucket.
type StoreConfig struct {
	Name    string
	Layout  string // a name of layout.Servers except symcache; empty: auto
	Casing  string // as in HTTPConfig
	TwoTier string // as in HTTPConfig
	// Forbidden403 makes a refusal a miss: object stores refuse missing objects
	// to clients that may read but not list.
	Forbidden403 bool
	NoCompressed bool  // do not request foo.pd_
	HasIndex     bool  // as in HTTPConfig
	MaxBytes     int64 // decompressed; 0: 16 GiB
	Timeouts     Timeouts
	TempDir      string // for cabinets while they are decompressed. Empty: the system's folder
}

// Store is an upstream that reads a bucket of an object store.
type Store struct {
	b       bucket.Bucket
	cfg     StoreConfig
	shown   string // the bucket's URL without a query
	dialect layout.Dialect
	probe   bool        // read index2.txt to detect two tiers
	index   *storeIndex // nil: not used
	now     func() time.Time

	mu    sync.Mutex
	two   bool      // guarded by mu
	until time.Time // guarded by mu; end of the validity of two
}

// NewStore returns an upstream for a bucket. The upstream owns the bucket and closes
// it.
func NewStore(b bucket.Bucket, cfg StoreConfig) (*Store, error) {
	// The rules for the options are the same as for a server.
	o := HTTP{cfg: HTTPConfig{
		Layout: cfg.Layout, Casing: cfg.Casing, TwoTier: cfg.TwoTier, NoCompressed: cfg.NoCompressed, NoPointers: true,
		MaxBytes: cfg.MaxBytes, Timeouts: cfg.Timeouts,
	}}
	s := &Store{b: b, cfg: cfg, now: time.Now}
	s.shown, _, _ = strings.Cut(b.Name(), "?")
	s.shown = strings.TrimRight(s.shown, "/")
	var err error
	if o.base, err = url.Parse(s.shown); err == nil {
		err = o.options()
	}
	if err == nil && o.dialect.Layout == layout.SymCache {
		err = errors.New("a bucket cannot make SymCache files; choose another layout")
	}
	if err == nil {
		err = checkIndex(cfg.HasIndex, o.dialect.Layout)
	}
	if err != nil {
		return nil, &nameError{cfg.Name, err}
	}
	if cfg.HasIndex {
		s.index = newStoreIndex(s.record, func() time.Time { return s.now() })
	}
	s.dialect, s.probe = o.dialect, o.tier.needed
	s.cfg.MaxBytes, s.cfg.Timeouts = o.cfg.MaxBytes, o.cfg.Timeouts
	return s, nil
}

// Name returns the configured name of the bucket.
func (s *Store) Name() string { return s.cfg.Name }

// Traits says for which files a bucket has no place.
func (s *Store) Traits() fetch.Traits {
	return fetch.Traits{Excludes: func(ask fetch.Ask) string {
		if len(s.dialect.Places(&ask.Request)) > 0 && ask.Request.Form != layout.FormSection {
			return ""
		}
		return noPlaceInBucket
	}}
}

// noPlaceInBucket says why a bucket is not asked for a file.
const noPlaceInBucket = "a bucket cannot have this kind of file"

// Close ends idle connections.
func (s *Store) Close() error {
	s.index.close()
	return s.b.Close()
}

func (s *Store) failed(class fetch.Class, format string, args ...any) *fetch.Failure {
	return &fetch.Failure{Source: s.cfg.Name, Class: class, Err: fmt.Errorf(format, args...)}
}

// Fetch reads the file from each place where it may be, one after the other.
func (s *Store) Fetch(ctx context.Context, ask fetch.Ask) (*fetch.Reply, error) {
	limit := s.cfg.MaxBytes
	if ask.Limit > 0 {
		limit = min(limit, ask.Limit)
	}
	if r := ask.Resume; r != nil && r.Tag != "" && r.Offset > 0 {
		if reply, err := s.resume(ctx, &ask, limit); reply != nil || err != nil {
			return reply, err
		}
	}
	dialect := s.dialect
	if s.probe && ask.Request.TierMatters() {
		var err error
		if dialect.TwoTier, err = s.isTwoTier(ctx); err != nil {
			return nil, err
		}
	}
	places := dialect.Places(&ask.Request)
	if len(places) == 0 || ask.Request.Form == layout.FormSection {
		return nil, s.failed(fetch.ClassSkipped, noPlaceInBucket)
	}
	if !ask.Probe {
		if places = s.index.listed(places, dialect.TwoTier); len(places) == 0 {
			return nil, s.failed(fetch.ClassSkipped, "%w", errNotListed)
		}
	}
	absent := s.failed(fetch.ClassNotFound, "%w", errNotFound)
	for _, p := range places {
		reply, err := s.get(ctx, &ask, p, limit)
		if err == nil {
			return reply, nil
		}
		f, ok := errors.AsType[*fetch.Failure](err)
		if !ok || f.Class != fetch.ClassNotFound {
			return nil, err
		}
		if errors.Is(absent.Err, errNotFound) {
			absent = f // prefer the most specific reason
		}
	}
	return nil, absent
}

// isTwoTier reports whether index2.txt exists, and remembers the answer for
// tierLife.
func (s *Store) isTwoTier(ctx context.Context) (bool, error) {
	s.mu.Lock()
	two, fresh := s.two, s.now().Before(s.until)
	s.mu.Unlock()
	if fresh {
		return two, nil
	}
	c := s.call(ctx)
	defer c.end()
	stop := c.within(s.cfg.Timeouts.Connect + s.cfg.Timeouts.Header)
	_, err := s.b.Head(c.ctx, "index2.txt")
	stop()
	if err != nil {
		f := c.failure(err)
		if f.Class != fetch.ClassNotFound && f.Class != fetch.ClassForbidden {
			return false, f
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.two, s.until = err == nil, s.now().Add(tierLife)
	return s.two, nil
}

// storeCall is one request, from its start to the end of its body.
type storeCall struct {
	s      *Store
	parent context.Context
	ctx    context.Context
	stop   context.CancelCauseFunc
}

func (s *Store) call(ctx context.Context) *storeCall {
	c := &storeCall{s: s, parent: ctx}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	return c
}

func (c *storeCall) within(d time.Duration) (done func() bool) {
	return time.AfterFunc(d, func() { c.stop(errHeader) }).Stop
}

func (c *storeCall) end() { c.stop(errClosed) }

// failure turns an error of the bucket into a Failure.
func (c *storeCall) failure(err error) *fetch.Failure {
	s := c.s
	if f, ok := errors.AsType[*fetch.Failure](err); ok {
		return f
	}
	if c.parent.Err() != nil {
		cause := context.Cause(c.parent)
		if f, ok := errors.AsType[*fetch.Failure](cause); ok {
			return f
		}
		return s.failed(fetch.ClassTimeout, "%w", cause)
	}
	for _, why := range []error{errHeader, errIdle} {
		if errors.Is(context.Cause(c.ctx), why) {
			return s.failed(fetch.ClassTimeout, "%w", why)
		}
	}
	_, dns := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	wait, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, ErrNoEgress):
		return s.failed(fetch.ClassSkipped, "%w", ErrNoEgress)
	case errors.Is(err, errTooLarge), errors.Is(err, cab.ErrLimit):
		return s.failed(fetch.ClassTooLarge, "%w", err)
	case errors.Is(err, bucket.ErrThrottled):
		f := s.failed(fetch.ClassBusy, "%w", err)
		if e, ok := errors.AsType[*bucket.Error](err); ok {
			f.Retry = e.Retry
		}
		return f
	case errors.Is(err, bucket.ErrNoBucket): // a wrong address, and no answer about the file
		return s.failed(fetch.ClassBroken, "%w", err)
	case errors.Is(err, bucket.ErrCredentials):
		return s.failed(fetch.ClassBroken, "%w", err)
	case errors.Is(err, fs.ErrPermission) && s.cfg.Forbidden403:
		return s.failed(fetch.ClassNotFound, "%w: %w", errNotFound, err)
	case errors.Is(err, fs.ErrPermission):
		return s.failed(fetch.ClassForbidden, "%w", err)
	case errors.Is(err, fs.ErrNotExist):
		return s.failed(fetch.ClassNotFound, "%w: %w", errNotFound, err)
	case isNet && wait.Timeout(), dns, isOp && op.Op == "dial", errors.Is(err, os.ErrDeadlineExceeded):
		return s.failed(fetch.ClassTimeout, "%w", err)
	}
	return s.failed(fetch.ClassBroken, "%w", shortError{noEOF(err)})
}

// open begins to read an object. It returns nil without an error if the object
// no longer has the tag.
func (s *Store) open(ctx context.Context, key string, off int64, tag string) (*objectBody, *bucket.Object, error) {
	c := s.call(ctx)
	stop := c.within(s.cfg.Timeouts.Connect + s.cfg.Timeouts.Header)
	o, err := s.b.Get(c.ctx, key, off, -1, tag)
	stop()
	if err != nil {
		f := c.failure(err)
		if tag != "" && (errors.Is(err, bucket.ErrPrecondition) || errors.Is(err, bucket.ErrRange)) {
			f = nil // the object has changed
		}
		c.end()
		if f == nil {
			return nil, nil, nil
		}
		return nil, nil, f
	}
	b := &objectBody{c: c, raw: o.Body}
	b.body = body{
		size: -1, wire: func() int64 { return b.wired }, failed: s.failed, end: c.end,
		blame: func(err error) error {
			if _, ours := errors.AsType[*fs.PathError](err); ours {
				return err
			}
			return c.failure(err)
		},
		closers: []func(){c.end, func() { _ = o.Body.Close() }},
	}
	b.idle = time.AfterFunc(time.Hour, func() { c.stop(errIdle) })
	b.idle.Stop()
	return b, o, nil
}

// get reads the object of one place.
func (s *Store) get(ctx context.Context, ask *fetch.Ask, p layout.Place, limit int64) (*fetch.Reply, error) {
	key := p.Key()
	b, o, err := s.open(ctx, key, 0, "")
	if err != nil {
		return nil, err
	}
	b.limit = limit
	if err := s.decode(b, o, p); err != nil {
		f := b.c.failure(err)
		_ = b.Close()
		if _, ours := errors.AsType[*fs.PathError](err); ours {
			return nil, err // an error of the local disk
		}
		return nil, f
	}
	reply := &fetch.Reply{Body: b, Size: b.size, Name: p.Parts[len(p.Parts)-1], Path: s.shown + "/" + key, ModTime: o.ModTime}
	if !b.packed {
		reply.Tag = o.ETag
	}
	if name := ask.Request.Name; name != "" && (p.Packed || len(p.Parts) < 3 || !strings.Contains(reply.Name, ".")) {
		reply.Name = name
	}
	return reply, nil
}

// decode decompresses the object and waits for its first byte.
func (s *Store) decode(b *objectBody, o *bucket.Object, p layout.Place) error {
	// The time for the first bytes includes decoding.
	defer b.c.within(s.cfg.Timeouts.Header)()
	length := o.Total
	if length > b.limit+b.limit/64+maxText {
		return fmt.Errorf("%w: %d", errTooLarge, length)
	}
	outer, err := decodeContent(wireOf{b}, []string{o.ContentEncoding})
	if outer != nil {
		b.closers = append(b.closers, outer.close)
	}
	if err != nil {
		return err
	}
	if outer.packed {
		length = -1
	}
	br := bufio.NewReaderSize(outer, 64<<10)
	if _, err := br.Peek(1); errors.Is(err, io.EOF) {
		return s.failed(fetch.ClassNotFound, "the file is empty")
	} else if err != nil {
		return err
	}
	inner := &plain{Reader: br, size: length}
	if !p.Exact && (p.Packed || !isCompressedName(p.Parts[len(p.Parts)-1])) {
		inner, err = decodeContainer(br, length, b.limit, s.cfg.TempDir)
		if inner != nil {
			b.closers = append(b.closers, inner.close)
		}
		if err != nil {
			return err
		}
		if !inner.packed {
			inner.size = length
		}
	}
	b.packed = inner.packed || outer.packed
	b.r, b.size = bufio.NewReaderSize(inner, 64<<10), inner.size
	return b.first()
}

// resume requests the rest of an object. If it returns neither a reply nor an
// error, the object must be requested from the start.
func (s *Store) resume(ctx context.Context, ask *fetch.Ask, limit int64) (*fetch.Reply, error) {
	r := ask.Resume
	key, ok := strings.CutPrefix(r.Path, s.shown+"/")
	if !ok {
		return nil, nil
	}
	b, o, err := s.open(ctx, key, r.Offset, r.Tag)
	if f, ok := errors.AsType[*fetch.Failure](err); ok && f.Class == fetch.ClassNotFound {
		return nil, nil
	}
	if b == nil {
		return nil, err
	}
	if o.Offset != r.Offset || o.ContentEncoding != "" || o.Total < 0 {
		_ = b.Close()
		return nil, nil
	}
	if o.Total > limit {
		_ = b.Close()
		return nil, s.failed(fetch.ClassTooLarge, "%w: %d", errTooLarge, o.Total)
	}
	b.r, b.offset, b.size, b.limit = bufio.NewReaderSize(wireOf{b}, 64<<10), r.Offset, o.Total, limit
	return &fetch.Reply{
		Body: b, Size: o.Total, Offset: r.Offset, Name: symfile.BaseName(key), Path: r.Path, Tag: r.Tag,
		ModTime: o.ModTime,
	}, nil
}

// objectBody is the body of an object.
type objectBody struct {
	body
	c     *storeCall
	raw   io.Reader
	idle  *time.Timer
	wired int64 // bytes received; used by Read only
}

// wireOf reads the body as received, with a limit on each wait.
type wireOf struct{ b *objectBody }

func (w wireOf) Read(p []byte) (int, error) {
	b := w.b
	b.idle.Reset(b.c.s.cfg.Timeouts.Idle)
	n, err := b.raw.Read(p)
	b.idle.Stop()
	b.wired += int64(n)
	if err == nil && b.wired > b.limit+b.limit/64+maxText {
		err = errTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.c.failure(err)
	}
	return n, err
}
