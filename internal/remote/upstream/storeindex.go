package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// Limits of a store's index. Symbolicator reads as many transactions.
const (
	indexLife    = 10 * time.Minute // after the last look at lastid.txt
	indexRetry   = 10 * time.Minute // after a failure
	indexTx      = 10_000           // transactions of a store
	indexKeys    = 4 << 20          // different files of a store
	indexRecord  = 64 << 20         // bytes of one transaction
	indexNumber  = 64               // bytes of lastid.txt
	indexTimeout = 5 * time.Minute  // for one record
)

// storeIndex is what the records of a symbol store on a server, its folder 000Admin, say
// that it has. It saves the requests for what they do not list. It is never the
// only reason to wait: while it is being read, cannot be read or is old, the server is asked.
type storeIndex struct {
	// read returns a record; a missing one is a *fetch.Failure of ClassNotFound.
	read func(ctx context.Context, name string, most int64) ([]byte, error)
	now  func() time.Time
	seed maphash.Seed

	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	keys  map[uint64]struct{} // guarded by mu; hashes of name and key; nil: never read
	last  uint64              // guarded by mu; the last transaction that was read
	until time.Time           // guarded by mu; end of validity
	next  time.Time           // guarded by mu; not read again before that
	busy  bool                // guarded by mu; being read
	err   error               // guarded by mu; why the last attempt failed
}

func newStoreIndex(read func(ctx context.Context, name string, most int64) ([]byte, error), now func() time.Time) *storeIndex {
	x := &storeIndex{read: read, now: now, seed: maphash.MakeSeed()}
	x.life, x.end = context.WithCancel(context.Background())
	return x
}

// close ends the reading. x may be nil.
func (x *storeIndex) close() {
	if x != nil {
		x.end()
		x.mu.Lock()
		x.busy = true // nothing is begun any more
		x.mu.Unlock()
		x.work.Wait()
	}
}

// errNotListed means that the records of a store do not list the file.
var errNotListed = errors.New("the records of the store (000Admin) do not list it")

// listed returns the places that the store may have, in their order. x may be nil.
func (x *storeIndex) listed(places []layout.Place, twoTier bool) []layout.Place {
	if x == nil {
		return places
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if now := x.now(); !now.Before(x.until) {
		if !x.busy && !now.Before(x.next) {
			x.busy = true
			x.work.Go(x.refresh)
		}
		return places
	}
	var rest []layout.Place
	for _, p := range places {
		parts := p.Parts
		if twoTier && len(parts) > 1 {
			parts = parts[1:]
		}
		// Files that symstore.exe did not add, such as .sym, are in no record.
		if len(parts) == 3 && (p.Packed || p.Pointer || strings.EqualFold(parts[0], parts[2])) {
			if _, ok := x.keys[x.hash(parts[0], parts[1])]; !ok {
				continue
			}
		}
		rest = append(rest, p)
	}
	return rest
}

func (x *storeIndex) hash(name, key string) uint64 {
	return maphash.String(x.seed, symfile.Fold(name)+"\x00"+symfile.Fold(key))
}

// refresh reads the transactions that are new, one after the other: some servers refuse
// clients that send many requests at once.
func (x *storeIndex) refresh() {
	err := x.load(x.life)
	now := x.now()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.err = err; err != nil {
		x.next = now.Add(indexRetry)
	} else {
		x.until = now.Add(indexLife)
	}
	x.busy = x.life.Err() != nil
}

func (x *storeIndex) load(ctx context.Context) error {
	text, err := x.read(ctx, "lastid.txt", indexNumber)
	if err != nil {
		return err
	}
	last, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 32)
	if err != nil || last > indexTx {
		return fmt.Errorf("lastid.txt of the store is %q; a number up to %d is expected", text, indexTx)
	}
	x.mu.Lock()
	if x.keys == nil || last < x.last { // the store was made anew
		x.keys, x.last = map[uint64]struct{}{}, 0
	}
	id := x.last
	x.mu.Unlock()
	for id++; id <= last; id++ {
		text, err := x.read(ctx, fmt.Sprintf("%010d", id), indexRecord)
		if f, ok := errors.AsType[*fetch.Failure](err); ok && f.Class == fetch.ClassNotFound {
			err = nil // a deletion, or deleted: symstore.exe leaves no record
		}
		if err != nil {
			return err
		}
		if err := x.add(id, symstore.ParseEntries(text)); err != nil {
			return err
		}
	}
	return nil
}

func (x *storeIndex) add(id uint64, entries []symstore.Entry) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range entries {
		x.keys[x.hash(e.Name, e.Key)] = struct{}{}
	}
	if len(x.keys) > indexKeys {
		x.keys = nil
		return fmt.Errorf("the records of the store list more than %d files", indexKeys)
	}
	x.last = id
	return nil
}

// record reads one of the store's records from a server.
func (h *HTTP) record(ctx context.Context, name string, most int64) ([]byte, error) {
	x := &question{h: h}
	p := layout.Place{Parts: []string{"000Admin", name}, Exact: true}
	header, err := x.header(p)
	if err != nil {
		return nil, err
	}
	a, err := x.exchange(ctx, []*url.URL{h.url(p.Parts)}, header)
	if err != nil {
		return nil, err
	}
	defer a.end()
	if err := x.refusal(a); err != nil {
		return nil, err
	}
	text, err := a.textUpTo(indexTimeout, most+1)
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > most:
		return nil, h.failed(fetch.ClassTooLarge, "%w: %s", errTooLarge, p.Key())
	case a.isHTML() || isPage(text):
		return nil, h.failed(fetch.ClassBroken, "a web page instead of %s", p.Key())
	}
	return text, nil
}

// record reads one of the store's records from a bucket.
func (s *Store) record(ctx context.Context, name string, most int64) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, indexTimeout)
	defer stop()
	p := layout.Place{Parts: []string{"000Admin", name}, Exact: true}
	reply, err := s.get(ctx, &fetch.Ask{}, p, most)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(reply.Body)
	return text, errors.Join(err, reply.Body.Close())
}

// checkIndex says why a server of a layout cannot have an index.
func checkIndex(has bool, lay layout.Layout) error {
	if has && lay.Records() != layout.SymStoreRecords {
		return &OptionError{"has_index", fmt.Errorf("only servers of the layouts %s and %s have records; "+
			"set layout, or remove has_index", layout.SymStore.Name(), layout.Index2.Name())}
	}
	return nil
}
