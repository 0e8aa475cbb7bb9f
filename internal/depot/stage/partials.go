package stage

import (
	"crypto/sha256"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// partialKey names a content of a stage.
type partialKey struct {
	stage string
	ref   blob.Ref
}

// partial is the state in memory of a content that arrives in parts.
type partial struct {
	mu      sync.Mutex
	writing map[int]bool // parts that are being received; guarded by mu
	// sum is the hash of the first parts, which are recorded, next their number, and mark that of
	// their record. Guarded by mu.
	sum  hash.Hash
	next int
	mark string
	// hashing is held while parts are read again to be hashed, and ending while all are
	// accepted. ending comes first.
	hashing, ending sync.Mutex
	users           int // guarded by partials.mu
}

// maxPartials is the number of contents of which the hash of the first parts is
// remembered.
const maxPartials = 1024

// partials are the contents that arrive in parts.
type partials struct {
	mu  sync.Mutex
	all map[partialKey]*partial // guarded by mu
}

// use returns the state in memory of a content. The caller calls done.
func (l *partials) use(k partialKey) (p *partial, done func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p = l.all[k]
	if p == nil {
		if len(l.all) >= maxPartials {
			for old, q := range l.all {
				if q.users == 0 {
					delete(l.all, old)
					break
				}
			}
		}
		p = &partial{writing: map[int]bool{}, sum: sha256.New()}
		l.all[k] = p
	}
	p.users++
	return p, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		p.users--
	}
}

// forget drops the state in memory of a content.
func (l *partials) forget(k partialKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.all[k]; p != nil {
		p.restart()
		if p.users == 0 {
			delete(l.all, k)
		}
	}
}

// forgetStage drops the state in memory of the contents of a stage.
func (l *partials) forgetStage(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, p := range l.all {
		if k.stage != id {
			continue
		}
		p.restart()
		if p.users == 0 {
			delete(l.all, k)
		}
	}
}

// restart forgets the hash of the first parts.
func (p *partial) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sum, p.next = sha256.New(), 0
}

// prefix is the hash of the first parts of a content, and their number.
type prefix struct {
	sum   hash.Hash // may be written to
	parts int
	of    hash.Hash // partial.sum, of which sum is a copy; nil: sum is of nothing
}

// hashed returns the hash of the first parts.
func (p *partial) hashed() prefix {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cloner, ok := p.sum.(hash.Cloner); ok {
		if sum, err := cloner.Clone(); err == nil {
			return prefix{sum, p.next, p.sum}
		}
	}
	return prefix{sum: sha256.New()}
}

// advance takes the hash of the first parts to which the next one was added, which is recorded. It
// returns false if the hash that was continued is not that of the first parts of this record.
func (p *partial) advance(x prefix, recorded []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	mark := stages.PartsMark(recorded)
	if x.of == nil || x.of != p.sum || x.parts > 0 && mark != p.mark {
		return false
	}
	p.sum, p.next, p.mark = x.sum, x.parts+1, mark
	return true
}

// check forgets the hash of the first parts if it is not of this record: another process has found
// that they are not right.
func (p *partial) check(recorded []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next > 0 && stages.PartsMark(recorded) != p.mark {
		p.sum, p.next = sha256.New(), 0
	}
}

func hasBit(bits []byte, n int) bool { return n/8 < len(bits) && bits[n/8]&(1<<(n%8)) != 0 }

func isComplete(bits []byte, count int) bool {
	for n := range count {
		if !hasBit(bits, n) {
			return false
		}
	}
	return true
}

// ranges returns the numbers below count that are in a set, as ranges.
func ranges(count int, has func(n int) bool) string {
	var list []string
	for n := 0; n < count; n++ {
		if !has(n) {
			continue
		}
		first := n
		for n+1 < count && has(n+1) {
			n++
		}
		r := strconv.Itoa(first)
		if n > first {
			r += "-" + strconv.Itoa(n)
		}
		list = append(list, r)
	}
	return strings.Join(list, ",")
}
