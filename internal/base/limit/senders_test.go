package limit

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestOneGivesWay: for one request that waits, one slow client is cut off, however long it takes
// until that has ended.
func TestOneGivesWay(t *testing.T) {
	t.Parallel()
	const clients = 4
	sem, sends := NewSemaphore(clients), NewSenders(time.Millisecond, 1)
	cuts, end := make(chan struct{}, clients), make(chan struct{})
	ended := make(chan error, clients)
	for range clients {
		share := NewShare(sem, sends)
		if err := share.Enter(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		started := make(chan struct{})
		go func() {
			defer share.End()
			_, err := sends.Send([]byte("x"), func([]byte) (int, error) {
				close(started)
				<-end
				return 0, errors.New("cut off")
			}, func() {}, func() { cuts <- struct{}{} })
			ended <- err
		}()
		<-started
	}
	// A request that waits for many times the time that a client may take.
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := NewShare(sem, sends).Enter(ctx, time.Now().Add(time.Minute)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a request entered although nobody left: %v", err)
	}
	if n := len(cuts); n != 1 {
		t.Errorf("%d clients were cut off for one request, want 1", n)
	}
	close(end)
	slow := 0
	for range clients {
		if err := <-ended; errors.Is(err, ErrSlow) {
			slow++
		}
	}
	if slow != 1 {
		t.Errorf("%d answers ended as those of slow clients, want 1", slow)
	}
}
