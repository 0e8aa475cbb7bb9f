package server

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/layout"
)

// Bounds of the answers that are kept in memory.
const (
	hotBody    = 256 << 10 // longest body
	hotUnseen  = 16 << 10  // longest body kept when it was asked for only once
	hotKey     = 512       // longest request target and header values together
	hotEntries = 16 << 10  // number of answers
	hotSeen    = 8 << 10   // targets remembered as asked for once
	// hotSoon is how long an answer is good that may be a better one soon,
	// although nothing was added to the depot: plain bytes for a client
	// that would take compressed ones.
	hotSoon = time.Second
	// hotOverhead is about what one answer takes besides its bytes.
	hotOverhead = 512
)

// hotKeyOf names an answer: all of a request that it may depend on.
type hotKeyOf struct {
	target string // without the query
	query  string // of the answers here only redirects depend on it
	coding string // Accept-Encoding
}

// answer is one recorded answer. It does not change.
type answer struct {
	generation uint64    // of the depot when the answer was found
	until      time.Time // zero: as long as the generation lasts
	// pass marks what is not to be kept: net/http answers it.
	pass   bool
	head   []byte // status line and header lines, without the Date and the empty line
	body   []byte
	kind   kind
	child  *child
	target string
	wanted *layout.Request // what is not there, to be counted; or nil
	used   atomic.Bool     // since the hand last went by
}

func (a *answer) cost() int64 { return int64(len(a.head)+len(a.body)+len(a.target)) + hotOverhead }

// hot keeps short answers that are asked for again and again, the absences
// among them. When it is full, what was not used for longest goes, more or
// less.
type hot struct {
	mu    sync.RWMutex
	limit int64
	size  int64                // guarded by mu; of all answers
	table map[hotKeyOf]*answer // guarded by mu
	ring  []hotKeyOf           // guarded by mu; keys in order of arrival
	hand  int                  // guarded by mu; where the next eviction looks
	seen  [hotSeen]atomic.Uint32
	seed  maphash.Seed
	// absences are the answers to what is not there, by layout: but for the
	// target they are alike.
	absences sync.Map // of *answer
	// common is the head of the last answer kept: most absences have the
	// same, and need it only once.
	common atomic.Pointer[[]byte]
}

// absence returns the answer to a request in a layout whose key is not there,
// or nil if none was recorded yet.
func (h *hot) absence(layout, target string) *answer {
	t, ok := h.absences.Load(layout)
	if !ok {
		return nil
	}
	a := t.(*answer)
	return &answer{head: a.head, body: a.body, kind: a.kind, child: a.child, target: target}
}

// newHot returns a store of at most limit bytes; none if limit is negative.
func newHot(limit int64) *hot {
	return &hot{limit: limit, table: make(map[hotKeyOf]*answer), seed: maphash.MakeSeed()}
}

// get returns the answer kept for a key.
func (h *hot) get(target, query, coding []byte) *answer {
	h.mu.RLock()
	a := h.table[hotKeyOf{string(target), string(query), string(coding)}]
	h.mu.RUnlock()
	if a != nil && !a.used.Load() {
		a.used.Store(true)
	}
	return a
}

// put keeps an answer in place of an older one.
func (h *hot) put(k hotKeyOf, a *answer) {
	c := a.cost()
	if c > h.limit/8 || len(k.target)+len(k.query)+len(k.coding) > hotKey {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.table[k]; old != nil {
		h.size -= old.cost()
	} else {
		h.ring = append(h.ring, k)
	}
	h.table[k] = a
	for h.size += c; len(h.table) > hotEntries || h.size > h.limit; {
		h.evict()
	}
}

// evict drops the next answer that was not used since the hand last came by.
func (h *hot) evict() {
	for {
		if h.hand >= len(h.ring) {
			h.hand = 0
		}
		k := h.ring[h.hand]
		a := h.table[k]
		if a.used.Swap(false) {
			h.hand++
			continue
		}
		h.size -= a.cost()
		delete(h.table, k)
		last := len(h.ring) - 1
		h.ring[h.hand] = h.ring[last]
		h.ring = h.ring[:last]
		return
	}
}

// share returns an equal slice that other answers have too, if it can.
func (h *hot) share(head []byte) []byte {
	if c := h.common.Load(); c != nil && bytes.Equal(*c, head) {
		return *c
	}
	h.common.Store(&head)
	return head
}

// again reports whether a target was asked for before, not too long ago, and
// remembers that it was asked for now.
func (h *hot) again(target []byte) bool {
	sum := uint32(maphash.Bytes(h.seed, target)>>16) | 1
	return h.seen[sum%hotSeen].Swap(sum) == sum
}

// recorder is a ResponseWriter that keeps an answer in memory, if it is short
// enough; else it wants nothing of it.
type recorder struct {
	header http.Header
	status int
	most   int64 // longest body wanted
	length int64 // Content-Length, -1 without one
	body   []byte
	pass   bool // not to be kept
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	r.length = -1
	if v := r.header["Content-Length"]; len(v) == 1 {
		if n, ok := digits(v[0]); ok {
			r.length = n
		}
	}
	switch status {
	case http.StatusOK, http.StatusFound, http.StatusNotFound:
		r.pass = r.length < 0 || r.length > r.most
	default:
		r.pass = true
	}
	if !r.pass {
		r.body = make([]byte, 0, r.length)
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	if r.pass || len(r.body)+len(p) > cap(r.body) {
		r.pass = true
		return 0, errNotKept
	}
	r.body = append(r.body, p...)
	return len(p), nil
}

// ReadFrom implements io.ReaderFrom.
func (r *recorder) ReadFrom(src io.Reader) (int64, error) {
	if r.pass {
		return 0, errNotKept
	}
	old := len(r.body)
	n, err := io.ReadFull(src, r.body[old:cap(r.body)])
	r.body = r.body[:old+n]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil // whoever knows the length notices
	}
	return int64(n), err
}

// lines returns the status line and the header's lines.
func (r *recorder) lines() []byte {
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 " + strconv.Itoa(r.status) + " " + http.StatusText(r.status) + "\r\n")
	_ = r.header.Write(&b)
	return b.Bytes()
}
