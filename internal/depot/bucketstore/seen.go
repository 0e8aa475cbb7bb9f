package bucketstore

import (
	"sync"
	"time"
)

const (
	seenFor = 10 * time.Minute // how long an object counts as there after it was seen
	maxSeen = 1 << 16          // places that are remembered
)

// seen remembers places whose objects this process uploaded or the store had lately. The zero value is empty.
type seen struct {
	mu     sync.Mutex
	places map[string]time.Time // guarded by mu
}

// lately reports whether the object was seen in the last minutes.
func (s *seen) lately(place string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.places[place]
	return ok && now.Sub(at).Abs() < seenFor
}

func (s *seen) add(place string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.places == nil || len(s.places) >= maxSeen {
		s.places = map[string]time.Time{}
	}
	s.places[place] = now
}

// forget is for a place whose object was found damaged.
func (s *seen) forget(place string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.places, place)
}
