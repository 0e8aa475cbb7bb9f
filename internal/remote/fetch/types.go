package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/span"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Depot declares what downloads need of a depot.
type Depot interface {
	// Holds reports whether the depot itself can answer a request for a caller
	// whose scope is these products; nil means all.
	Holds(ctx context.Context, products []string, req layout.Request) bool
	// Checksum returns the value of the header SymbolChecksum for the portable PDB
	// that a request asks for, from an image that a caller with this scope may read;
	// empty if there is none.
	Checksum(ctx context.Context, products []string, req layout.Request) string
	// Spool begins a content that can be read while it is being written.
	Spool() (*blob.Spool, error)
	// Keep adds a downloaded file to the index. Its content has been stored.
	Keep(ctx context.Context, f Kept) error
	// Misses returns the stored misses of a key by upstream. PutMisses stores
	// misses. ForgetMiss deletes the miss of one upstream.
	Misses(ctx context.Context, key string) (map[string]Miss, error)
	PutMisses(ctx context.Context, key string, misses map[string]Miss) error
	ForgetMiss(ctx context.Context, key, name string) error
}

// Kept describes a downloaded file for Depot.Keep.
type Kept struct {
	Upstream string // the upstream's name
	Product  string // the upstream's product
	Name     string // the file's name, as the upstream spells it
	URL      string // the file's address, without secrets
	Tag      string // the upstream's entity tag
	Ref      blob.Ref
	Size     int64
	ModTime  time.Time // the upstream's; zero if unknown
	Fetched  time.Time
	// Signature is the IMA signature of the content in hex, or empty.
	Signature string
	Objects   []Object // if empty, no lookup finds the file
}

// Object is one object of a downloaded file.
type Object struct {
	objfile.Object
	Aliases []symfile.Alias
	Path    string // the path that listings show
}

// Upstream is a Source with its place in the order of upstreams and its product.
type Upstream struct {
	Source Source
	// Rank orders the upstreams. Those with the same rank are asked at the same
	// time; the next rank follows when all of them have answered or after
	// Limits.NextRank.
	Rank int
	// Product is the product of the files from this upstream, for the scope of
	// callers. A caller whose scope is everything sees them in any case.
	Product string
	// Public: the upstream has only the public forms of files, for people outside.
	Public bool
}

// Question is the request of a client.
type Question struct {
	Products []string // the client's scope; nil means everything
	Request  layout.Request
	Checksum string   // the value of a SymbolChecksum header, or empty
	Via      []string // servers that the request has passed, this one last
	Origin   Origin
	// Client is the client's address, by which Limits.PerClient counts
	// downloads. An empty one is not counted.
	Client string
	// Public asks only upstreams that have nothing but public forms.
	Public bool
	// Span is where the download belongs in a trace: that of the client that starts it.
	Span span.Parent
}

// sees reports whether the client's scope includes a product.
func (q Question) sees(product string) bool {
	return q.Products == nil || slices.Contains(q.Products, product)
}

// Limits of downloads. The durations limit the lack of progress, not the
// duration of a whole download.
type Limits struct {
	// NextRank is the time until the upstreams of the next rank are asked too;
	// zero means 300 ms.
	NextRank time.Duration
	// FirstByte is how long an upstream may stay below MinRate before clients
	// receive the first bytes; zero means 3 s.
	FirstByte time.Duration
	// Stall is how long a transfer may stay below MinRate after that; zero means
	// 10 s.
	Stall time.Duration
	// MinRate is the lowest rate, in bytes per second; zero means 16 KiB.
	MinRate int64
	// MaxBytes is the largest file, in bytes; zero means 16 GiB.
	MaxBytes int64
	// Fetches is the number of concurrent downloads; zero means 64.
	Fetches int
	// PerClient is the number of downloads, running and queued, that one client
	// may have started; zero means 1024.
	PerClient int
}

func (l Limits) withDefaults() Limits {
	l.NextRank = cmp.Or(l.NextRank, 300*time.Millisecond)
	l.FirstByte = cmp.Or(l.FirstByte, 3*time.Second)
	l.Stall = cmp.Or(l.Stall, 10*time.Second)
	l.MinRate = cmp.Or(l.MinRate, 16<<10)
	l.MaxBytes = cmp.Or(l.MaxBytes, 16<<30)
	l.Fetches = cmp.Or(l.Fetches, 64)
	l.PerClient = cmp.Or(l.PerClient, mostDownloads/8)
	return l
}

const (
	queueTime     = 20 * time.Second // the longest wait of a download for the semaphore
	mostDownloads = 8192             // running and queued downloads
	refreshers    = 8                // concurrent renewals of misses
)

// Errors of downloads.
var (
	// ErrInDepot means that the depot has the file now.
	ErrInDepot = errors.New("the depot has the file now")

	errManyDownloads = errors.New("too many downloads are running, in all or for this client, or the depot is closing")
	errClosing       = fmt.Errorf("the depot is closing: %w", fs.ErrClosed)
	errSlow          = errors.New("the transfer is slower than the limit")
	errLength        = errors.New("the body is longer or shorter than its Content-Length")
	errDisk          = errors.New("cannot write the download to disk")
	errWrongFile     = errors.New("the upstream sent a different file than requested")
	errTooLarge      = errors.New("the file is larger than the limit")
)

// IsFailure reports whether an upstream caused an error.
func IsFailure(err error) bool {
	_, ok := errors.AsType[*Failure](err)
	return ok
}

// notFound returns the error for clients when no upstream has the file.
func notFound(why []error) error {
	if len(why) == 0 {
		return fs.ErrNotExist
	}
	return &notFoundError{why}
}

// notFoundError is fs.ErrNotExist with the upstreams' failures.
type notFoundError struct{ why []error }

func (e *notFoundError) Error() string { return errors.Join(e.why...).Error() }

func (e *notFoundError) Is(target error) bool { return target == fs.ErrNotExist }

// NotFound returns the fs.ErrNotExist of a download whose upstreams have failed
// for these reasons.
func NotFound(why []error) error { return notFound(why) }

// Why returns the reasons of an fs.ErrNotExist of a download.
func Why(err error) []error {
	if n, ok := errors.AsType[*notFoundError](err); ok {
		return n.why
	}
	return nil
}

// Peers are the other servers of a depot on several machines. Each key has an
// owner among the servers, which downloads the file for the clients of all.
type Peers interface {
	// Owners returns the peers to ask for a key, best first. None means that this
	// server is the owner, or that it knows no other.
	Owners(key string) []Peer
}

// Peer is another server of the depot.
type Peer interface {
	// Fetch asks the peer for a file and returns when the first bytes have
	// arrived. The error is ErrNoPeer if the peer does not answer, ErrInDepot if
	// the depot has the file now, or fs.ErrNotExist.
	Fetch(ctx context.Context, ask PeerAsk) (*PeerReply, error)
	// Run asks the peer to run a download of another kind, and returns its result
	// when it has ended. The error is ErrNoPeer if the peer does not answer.
	Run(ctx context.Context, kind string, input []byte) (result []byte, err error)
}

// PeerAsk is a question to a peer.
type PeerAsk struct {
	Question Question
	Renew    bool // ask again about a miss that expires soon
	Anew     bool // ignore remembered misses
	InPlace  bool // only what the peer has in watched folders
}

// PeerReply is a file that a peer is downloading.
type PeerReply struct {
	// File has what is known of the file at the start. If its Redirect is set, there
	// is no body.
	File File
	// Body yields the bytes. It ends with io.EOF only after the peer has checked
	// the whole file.
	Body io.ReadCloser
	// End describes the checked file. It may be called after io.EOF.
	End func() File
}

// ErrNoPeer means that a peer cannot download a file: it does not answer, or not
// any more.
var ErrNoPeer = errors.New("the server that downloads this file for all does not answer")

// errPeerBroke ends a download that a peer broke off after clients had received
// bytes. A client that comes later looks again.
var errPeerBroke = fmt.Errorf("%w: %w", ErrNoPeer, ErrInDepot)

// errOtherBytes means that a peer's file arrived differently than the peer sent
// it.
var errOtherBytes = errors.New("the bytes from the other server are not those that it checked")

// MetadataQuery is a search of the debuginfod protocol (elfutils, debuginfod(8),
// metadata query).
type MetadataQuery struct {
	Key, Value string   // Key is file, glob or buildid
	Products   []string // the client's scope; nil means everything
	Via        []string // servers that the request has passed, this one last
	Origin     Origin
}

// Metadata is one result of a search: an ELF file on an upstream.
type Metadata struct {
	Type    string // "executable" or "debuginfo"
	BuildID string // in lower case
	File    string // its path
	Archive string // the archive that the file is in, or empty
}

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

const copyBuffer = 128 << 10

// enter waits for a semaphore; leave releases it. After queueTime the error is
// fs.ErrNotExist.
func enter(ctx context.Context, semaphore chan struct{}) (leave func(), err error) {
	wait := time.NewTimer(queueTime)
	defer wait.Stop()
	select {
	case semaphore <- struct{}{}:
		return func() { <-semaphore }, nil
	case <-ctx.Done():
		return nil, errClosing
	case <-wait.C:
		return nil, notFound([]error{errManyDownloads})
	}
}
