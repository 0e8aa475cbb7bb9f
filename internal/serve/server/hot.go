package server

import (
	"hash/maphash"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/server/metrics"
)

// Limits of the answers kept in memory.
const (
	hotBody    = 256 << 10 // longest body, in bytes
	hotUnseen  = 16 << 10  // longest body that is kept at the first request for it
	hotKeySize = 512       // longest path and Accept-Encoding together
	hotEntries = 16 << 10  // number of answers
	hotSeen    = 8 << 10   // paths remembered as requested once
	// hotBrief is how long an answer is kept that may improve without a change
	// of the depot: plain bytes for a client that accepts a compressed variant
	// which is still being made.
	hotBrief = time.Second
	// hotOverhead is roughly the memory of an answer besides its bytes.
	hotOverhead = 1024
)

// hotAnswer is a complete file kept in memory. It does not change.
type hotAnswer struct {
	generation uint64    // of the depot when the file was found
	until      time.Time // zero: as long as the generation lasts
	header     []field
	body       []byte
	kind       metrics.Kind
	counters   *metrics.Counters
	reading    *depot.Reading // nil for files that the depot does not keep
	used       atomic.Bool    // since the hand last passed
}

// field is a header field. A list of them is copied faster than a map.
type field struct {
	name   string
	values []string
}

func (a *hotAnswer) cost(k hotKey) int64 {
	return int64(len(a.body)+len(k.path)+len(k.coding)) + hotOverhead
}

// hot keeps small files that are requested again and again. When it is full, a
// clock algorithm evicts those that were not used lately.
type hot struct {
	limit int64 // bytes; nothing is kept if it is not positive
	mu    sync.RWMutex
	size  int64                 // guarded by mu; of all answers
	table map[hotKey]*hotAnswer // guarded by mu
	ring  []hotKey              // guarded by mu; keys in order of arrival
	hand  int                   // guarded by mu; where the next eviction looks
	seen  [hotSeen]atomic.Uint32
	seed  maphash.Seed
}

func newHot(limit int64) *hot {
	return &hot{limit: limit, table: make(map[hotKey]*hotAnswer), seed: maphash.MakeSeed()}
}

// get returns the answer kept for a key if it is still good.
func (h *hot) get(k hotKey, generation uint64, now time.Time) *hotAnswer {
	h.mu.RLock()
	a := h.table[k]
	h.mu.RUnlock()
	if a == nil || a.generation != generation || !a.until.IsZero() && now.After(a.until) {
		return nil
	}
	if !a.used.Load() {
		a.used.Store(true)
	}
	return a
}

// longest returns the size in bytes up to which the file at a path is worth
// keeping, and remembers that it was requested.
func (h *hot) longest(path string) int64 {
	sum := uint32(maphash.String(h.seed, path)>>16) | 1
	if h.seen[sum%hotSeen].Swap(sum) == sum {
		return min(hotBody, h.limit/8)
	}
	return min(hotUnseen, h.limit/8)
}

// put keeps an answer in place of an older one.
func (h *hot) put(k hotKey, a *hotAnswer) {
	c := a.cost(k)
	if c > h.limit {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.table[k]; old != nil {
		h.size -= old.cost(k)
	} else {
		h.ring = append(h.ring, k)
	}
	h.table[k] = a
	for h.size += c; len(h.table) > hotEntries || h.size > h.limit; {
		h.evict()
	}
}

// evict drops the next answer that was not used since the hand last passed.
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
		h.size -= a.cost(k)
		delete(h.table, k)
		last := len(h.ring) - 1
		h.ring[h.hand] = h.ring[last]
		h.ring = h.ring[:last]
		return
	}
}

// neutralHeaders are the header fields that do not change the answer to a symbol
// path, or, as credentials do, have been judged before an answer is looked for.
var neutralHeaders = map[string]bool{
	"Accept-Encoding": true, "Accept-Language": true, "Authorization": true, "Auth-Token": true, "Cache-Control": true, "Connection": true,
	"Cookie": true, "Dnt": true, "Keep-Alive": true, "Pragma": true, "Priority": true, "Referer": true, "Sec-Fetch-Dest": true,
	"Sec-Fetch-Mode": true, "Sec-Fetch-Site": true, "Sec-Fetch-User": true, "Sec-Gpc": true, "Symbolchecksum": true,
	"Upgrade-Insecure-Requests": true, "User-Agent": true, "X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Proto": true,
	"X-Real-Ip": true, wire.Token: true,
}

// fromMemory answers a request with a kept file, if there is one. If the answer
// may be kept, it prepares x for that. Whoever asks must be allowed to read
// everything: a limited scope might see another file, or none.
func (s *service) fromMemory(x *exchange, r *http.Request, path string) bool {
	m := &x.memory
	if m.asked {
		return false
	}
	m.asked = true
	if s.hot.limit <= 0 || r.Method != http.MethodGet || s.cfg.OnlyPublic || asksForPublic(r) {
		return false
	}
	for name, values := range r.Header {
		if !neutralHeaders[name] && (name != "Accept" || acceptsMSFZ(values)) {
			return false
		}
	}
	k := hotKey{path: path, restricted: s.restricted()}
	switch codings := r.Header["Accept-Encoding"]; {
	case len(codings) == 1:
		k.coding = codings[0]
	case len(codings) > 1:
		return false
	}
	if len(k.path)+len(k.coding) > hotKeySize {
		return false
	}
	generation, err := s.depot.Generation(r.Context())
	if err != nil {
		return false // the lookup will report it
	}
	a := s.hot.get(k, generation, x.start)
	if a == nil {
		m.keep, m.key, m.generation = true, k, generation
		return false
	}
	x.protocol, x.result, x.counters = a.kind.Protocol, a.kind.Result, a.counters
	h := x.Header()
	for i := range a.header {
		h[a.header[i].name] = a.header[i].values
	}
	x.WriteHeader(http.StatusOK)
	a.reading.Count(x.start)
	_, x.err = x.Write(a.body)
	return true
}

// keep reads a whole file of size bytes into memory, sends it and keeps the
// answer. The header must be complete.
func (s *service) keep(x *exchange, f *answer.File, size int64) error {
	body := make([]byte, size)
	if n, err := f.ReadAt(body, 0); n < len(body) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	k := metrics.Kind{Protocol: x.protocol, Method: http.MethodGet, Result: resultHit, Status: http.StatusOK}
	var fields []field
	for name, values := range x.Header() {
		fields = append(fields, field{name, values})
	}
	if x.memory.key.restricted == s.restricted() { // else the rights have changed since
		s.hot.put(x.memory.key, &hotAnswer{
			generation: x.memory.generation, until: x.memory.until, header: fields, body: body, kind: k,
			counters: s.metrics.Counters(k), reading: s.reads.Of(f),
		})
	}
	x.WriteHeader(http.StatusOK)
	_, err := x.Write(body)
	return err
}
