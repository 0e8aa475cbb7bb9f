package stage

import (
	"crypto/sha256"
	"hash"
	"strconv"
	"strings"
	"sync"

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
	// sum is the hash of the first parts, which this process received in order, and
	// next their number. Guarded by mu.
	sum    hash.Hash
	next   int
	ending sync.Mutex // held while all parts are hashed and accepted
	users  int        // guarded by partials.mu
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
