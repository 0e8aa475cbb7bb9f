package limit

import (
	"errors"
	"sync"
	"time"
)

// Senders are the answers that are being sent. A request keeps its place among those that
// are answered until its client has taken the answer: that bounds the memory of all
// answers. While another request waits for a place, the client that has not taken a part for
// longest is cut off, if that is longer than slow.
type Senders struct {
	slow time.Duration
	part int // bytes

	mu   sync.Mutex
	list map[*sender]struct{} // guarded by mu
}

// sender is one answer that is being sent. Its fields are guarded by Senders.mu.
type sender struct {
	since   time.Time // when the sending of its current part began
	cut     func()    // ends a write
	dropped bool
	ended   bool // nothing of it is sent any more
}

// ErrSlow is why an answer was cut off.
var ErrSlow = errors.New("the client took the answer slowly, and other requests waited")

// NewSenders returns Senders whose clients may take slow for a part of so many bytes.
func NewSenders(slow time.Duration, part int) *Senders {
	return &Senders{slow: slow, part: part, list: map[*sender]struct{}{}}
}

// Send sends an answer in parts, each with write. allow sets the time in which the next
// part must be taken, and cut ends a write at once.
func (s *Senders) Send(answer []byte, write func([]byte) (int, error), allow, cut func()) (sent int, err error) {
	d := &sender{cut: cut}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.list, d)
		d.ended = true
		if d.dropped {
			err = ErrSlow
		}
	}()
	for sent < len(answer) {
		if !s.begin(d, allow) {
			return sent, ErrSlow
		}
		n, err := write(answer[sent:min(len(answer), sent+s.part)])
		if sent += n; err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// begin notes that the next part is sent, unless the client was cut off.
func (s *Senders) begin(d *sender, allow func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.dropped {
		return false
	}
	d.since = time.Now()
	s.list[d] = struct{}{}
	allow()
	return true
}

// drop cuts off the slowest client, if it is too slow, and returns it. last is the client that was
// cut off before for the same request, or nil: until its answer has ended, which frees a place, drop
// cuts off no other one.
func (s *Senders) drop(last *sender) *sender {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last != nil && !last.ended {
		return last
	}
	var slowest *sender
	for d := range s.list {
		if slowest == nil || d.since.Before(slowest.since) {
			slowest = d
		}
	}
	if slowest == nil || time.Since(slowest.since) < s.slow {
		return nil
	}
	slowest.dropped = true
	delete(s.list, slowest)
	slowest.cut()
	return slowest
}
