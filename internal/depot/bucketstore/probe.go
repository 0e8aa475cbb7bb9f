package bucketstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/store/bucket"
)

// Limits of the clocks of this machine and of the store.
const (
	skewWarned  = 30 * time.Second
	skewRefused = 5 * time.Minute
)

// wallClock is the clock that is compared with the store's.
var wallClock = time.Now

// probeLimit is how long a probe may take.
const probeLimit = 2 * time.Minute

// Try checks that a store can keep contents: see Options.Probe. It leaves nothing
// behind. log receives what is worth a warning.
func Try(ctx context.Context, b bucket.Bucket, log *slog.Logger) error {
	return (&Store{bucket: b, log: log}).probe(ctx)
}

// probe writes, reads, lists and deletes an object, compares the clocks and looks for
// lifecycle rules that delete objects.
func (s *Store) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, probeLimit, errSilent)
	defer cancel()
	return causeOf(ctx, s.tryStore(ctx))
}

func (s *Store) tryStore(ctx context.Context) error {
	key, text := probePrefix+rand.Text(), rand.Text()
	before := wallClock()
	for attempt := 1; ; attempt++ {
		_, err := s.bucket.Put(ctx, key, int64(len(text)), strings.NewReader(text), bucket.PutOptions{})
		if err == nil {
			break
		}
		if attempt == attempts || !again(ctx, err) {
			return err
		}
		if err := pause(ctx, attempt, err); err != nil {
			return err
		}
	}
	after := wallClock()
	o, err := s.bucket.Get(ctx, key, 0, -1, "")
	if err != nil && (!errors.Is(err, fs.ErrNotExist) || errors.Is(err, bucket.ErrNoBucket)) {
		return err
	}
	var b []byte
	if err == nil {
		b, err = io.ReadAll(io.LimitReader(o.Body, int64(len(text))+1))
		_ = o.Body.Close() // only read from
		if err != nil {
			return err
		}
	}
	if string(b) != text {
		_ = s.bucket.Delete(ctx, key)
		return fmt.Errorf("%w: an object that was just written cannot be read; name a bucket of a store that reads its own writes", ErrStore)
	}
	skewed := s.compareClocks(before, o.ModTime, after)
	listed, old := false, []string{}
	for info, err := range s.bucket.List(ctx, probePrefix) {
		if err != nil {
			return err
		}
		listed = listed || info.Key == key
		if after.Sub(info.ModTime) > time.Hour { // of a killed process
			old = append(old, info.Key)
		}
	}
	if !listed {
		_ = s.bucket.Delete(ctx, key)
		return fmt.Errorf("%w: an object that was just written is not listed; name a bucket of a store that lists its own writes", ErrStore)
	}
	for _, key := range append(old, key) {
		if err := s.bucket.Delete(ctx, key); err != nil {
			return err
		}
	}
	if skewed != nil {
		return skewed
	}
	if _, err := s.bucket.Head(ctx, key); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%w: an object that was just deleted is still there; name a bucket without retention rules", ErrStore)
		}
		return err
	}
	rule, err := bucket.Expiry(ctx, s.bucket, "c/", markerKey)
	if err != nil {
		return err
	}
	if rule != "" {
		return fmt.Errorf("%w: its lifecycle %s, and contents would be lost; remove the rule or limit it to other keys", ErrStore, rule)
	}
	return nil
}

// compareClocks compares the time that the store gave an object, in whole seconds,
// with the time of this machine before and after.
func (s *Store) compareClocks(before, stored, after time.Time) error {
	if stored.IsZero() {
		return nil // the store does not say
	}
	const differ = "the clock of this machine differs from the "
	skew := max(before.Add(-time.Second).Sub(stored), stored.Sub(after.Add(time.Second)))
	switch {
	case skew > skewRefused:
		return fmt.Errorf("%w: "+differ+"store's by %s; synchronize both clocks", ErrStore, skew.Round(time.Second))
	case skew > skewWarned:
		s.log.Warn(differ+"object store's: synchronize both", "bucket", s.bucket.Name(), "difference", skew.Round(time.Second).String())
	}
	return nil
}
