package importexport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// A store has no locks. A claim on a bucket is a lease: an object with a number, which its owner
// writes again every leaseBeat. Who finds that the newest lease has not changed for leaseLife
// creates the one with the next number, which only one of several can do, and an owner that sees
// a newer lease stops. An owner that could not write its lease for half of its life writes nothing
// else either, so that two owners do not write at once unless a write takes that long.
var (
	leaseBeat = 10 * time.Second
	leaseLife = 40 * time.Second
)

// leasePrefix is what the keys of leases begin with.
const leasePrefix = ownFolder + "/lease-"

// leaseText is the content of a lease. Whoever may read the target may read it, so it does not
// name its owner.
type leaseText struct {
	Since time.Time `json:"since"`
	Beat  int64     `json:"beat"` // counts how often it was written
	Ended bool      `json:"ended,omitempty"`
}

// lease is a claim on a bucket.
type lease struct {
	w      bucketWriter
	number int64
	text   leaseText // of the goroutine that renews
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	renewed time.Time // guarded by mu
	lost    error     // guarded by mu
}

func leaseKey(number int64) string { return fmt.Sprintf("%s%010d", leasePrefix, number) }

// newestLease returns the highest number of a lease, and its content; 0: there is none.
func (w bucketWriter) newestLease(ctx context.Context) (number int64, data []byte, err error) {
	err = w.list(ctx, leasePrefix, func(name string) error {
		if n, err := strconv.ParseInt(strings.TrimPrefix(name, leasePrefix), 10, 64); err == nil {
			number = max(number, n)
		}
		return nil
	})
	if err == nil && number > 0 {
		data, err = w.read(ctx, leaseKey(number))
	}
	return number, data, err
}

// hold implements writer. It waits as long as a lease lives that nobody has ended.
func (w bucketWriter) hold(ctx context.Context, waiting func(string)) (claim, error) {
	number, data, err := w.newestLease(ctx)
	start := time.Now()
	for told := false; err == nil && number > 0; told = true {
		var have leaseText
		if json.Unmarshal(data, &have) == nil && have.Ended {
			break
		}
		if time.Since(start) > leaseLife {
			break
		}
		if !told {
			waiting(fmt.Sprintf("waiting up to %s to see whether another export --follow, since %s, still writes to %s",
				leaseLife, have.Since.Local().Format(time.DateTime), w.b.Name()))
		}
		if err := ctxio.Pause(ctx, leaseBeat/2); err != nil {
			return nil, err
		}
		before := data
		var newest int64
		if newest, data, err = w.newestLease(ctx); err == nil && (newest != number || !bytes.Equal(before, data)) {
			if json.Unmarshal(data, &have) == nil && have.Ended {
				number = newest
				break
			}
			return nil, &HeldError{w.b.Name()}
		}
	}
	if err != nil {
		return nil, err
	}
	return w.take(ctx, number+1)
}

// take creates the lease with a number.
func (w bucketWriter) take(ctx context.Context, number int64) (claim, error) {
	l := &lease{w: w, number: number, renewed: time.Now(), text: leaseText{Since: time.Now().UTC()}}
	data, err := json.Marshal(l.text)
	if err != nil {
		return nil, err
	}
	opt := bucket.PutOptions{IfAbsent: true, ContentType: "application/json"}
	_, err = w.b.Put(ctx, leaseKey(number), int64(len(data)), bytes.NewReader(data), opt)
	if errors.Is(err, bucket.ErrPrecondition) {
		return nil, &HeldError{w.b.Name()}
	}
	if err != nil {
		return nil, err
	}
	err = w.list(ctx, leasePrefix, func(name string) error {
		if name < leaseKey(number) {
			return w.remove(ctx, name)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, l.end(ctx))
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.done.Go(func() {
		for ctxio.Pause(life, leaseBeat) == nil {
			l.renew(life)
		}
	})
	return l, nil
}

// renew writes the lease again, and looks for a newer one.
func (l *lease) renew(ctx context.Context) {
	start := time.Now()
	err := l.write(ctx)
	if err == nil {
		if _, err = l.w.b.Head(ctx, leaseKey(l.number+1)); err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.lost = &HeldError{l.w.b.Name()}
			return
		}
		if absent(err) {
			err = nil
		}
	}
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed = start
	}
}

// write writes the lease again.
func (l *lease) write(ctx context.Context) error {
	l.text.Beat++
	data, err := json.Marshal(l.text)
	if err != nil {
		return err
	}
	return l.w.replace(ctx, leaseKey(l.number), data)
}

// end says in the lease that it has ended.
func (l *lease) end(ctx context.Context) error {
	l.text.Ended = true
	return l.write(ctx)
}

// check implements claim.
func (l *lease) check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch since := time.Since(l.renewed); {
	case l.lost != nil:
		return l.lost
	case since > leaseLife/2:
		return fmt.Errorf("%s: nothing is written: the lease could not be renewed for %s", l.w.b.Name(), since.Round(time.Second))
	}
	return nil
}

// release implements claim. The next follower does not have to wait.
func (l *lease) release() {
	l.stop()
	l.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaseBeat)
	defer cancel()
	if l.lost == nil {
		_ = l.end(ctx) // without it, the next follower waits
	}
}
