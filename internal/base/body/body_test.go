package body

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const slow = 2 * time.Second

// newTestMemory has memory for parts, and client parts of them for one client.
func newTestMemory(parts, client int64) *Memory {
	return NewMemory(Limits{Total: parts * Part, Client: client * Part, Slow: slow, Wait: time.Minute})
}

// checkUsed checks how many parts are used.
func checkUsed(t *testing.T, m *Memory, parts int64, when string) {
	t.Helper()
	if got := m.Used(); got != parts*Part {
		t.Errorf("%s, %d bytes are used, want %d", when, got, parts*Part)
	}
}

// bodyRead is the result of Account.Read.
type bodyRead struct {
	data  []byte
	leave func()
	err   error
	took  time.Duration
}

// startRead reads a body that the caller writes.
func startRead(m *Memory, client string, wait time.Duration) (*io.PipeWriter, <-chan bodyRead) {
	r, w := io.Pipe()
	done := make(chan bodyRead, 1)
	go func() {
		start := time.Now()
		a := m.Open(client, func() { _ = r.CloseWithError(errors.New("interrupted")) })
		a.left = wait
		data, err := a.Read(context.Background(), r, 8<<20)
		_ = r.Close()
		done <- bodyRead{data, a.Free, err, time.Since(start)}
	}()
	return w, done
}

// sendBlanks writes n bytes, and then waits until the reader has all of them.
func sendBlanks(t *testing.T, w io.Writer, n int) {
	t.Helper()
	if _, err := io.WriteString(w, strings.Repeat(" ", n)); err != nil {
		t.Errorf("writing %d bytes: %v, want no error", n, err)
	}
	synctest.Wait()
}

// TestArrive: a body takes memory when its bytes arrive, not before.
func TestArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestMemory(2, 2)
		var idle []*io.PipeWriter
		var dones []<-chan bodyRead
		for range 5 {
			w, done := startRead(s, "", time.Minute)
			idle, dones = append(idle, w), append(dones, done)
		}
		synctest.Wait()
		checkUsed(t, s, 0, "with five clients that have sent nothing")
		w, done := startRead(s, "", time.Minute)
		sendBlanks(t, w, 2*Part)
		_ = w.Close()
		got := <-done
		if got.err != nil || len(got.data) != 2*Part || got.took != 0 {
			t.Errorf("a body of two parts: %d bytes, error %v after %v; want all bytes at once", len(got.data), got.err, got.took)
		}
		got.leave()
		for i, w := range idle {
			sendBlanks(t, w, 1)
			_ = w.Close()
			got := <-dones[i]
			if got.err != nil || len(got.data) != 1 {
				t.Errorf("body %d: %d bytes, error %v; want one byte", i, len(got.data), got.err)
			}
			got.leave()
		}
		checkUsed(t, s, 0, "after all")
	})
}

// TestGiveWay: when no memory is left, a body of which no part has come for
// so long gives way to one that waits, also if single bytes keep coming; a whole body
// does not, and nobody does as long as there is memory.
func TestGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestMemory(3, 3)
		whole, wholeDone := startRead(s, "", time.Minute)
		sendBlanks(t, whole, Part)
		_ = whole.Close()
		late, lateDone := startRead(s, "", time.Minute)
		sendBlanks(t, late, Part+1)
		time.Sleep(time.Hour) // of the test's own clock: there was memory for all
		synctest.Wait()
		if n := len(lateDone); n != 0 {
			t.Fatalf("a slow body ended with %v although nobody waited", (<-lateDone).err)
		}
		stop := make(chan struct{})
		go func() { // a byte each second
			for {
				if _, err := late.Write([]byte{' '}); err != nil {
					return
				}
				select {
				case <-time.After(time.Second):
				case <-stop:
					return
				}
			}
		}()
		w, done := startRead(s, "", time.Minute)
		sendBlanks(t, w, 10)
		_ = w.Close()
		got := <-done
		if got.err != nil || len(got.data) != 10 || got.took > slow {
			t.Errorf("the waiting body: %d bytes, error %v after %v; want 10 bytes after %v at most", len(got.data), got.err, got.took, slow)
		}
		if lost := <-lateDone; !errors.Is(lost.err, ErrBusy) {
			t.Errorf("the slow body: error %v, want ErrBusy", lost.err)
		} else {
			lost.leave()
		}
		close(stop)
		ok := <-wholeDone
		if ok.err != nil || len(ok.data) != Part {
			t.Errorf("the whole body: %d bytes, error %v; want all", len(ok.data), ok.err)
		}
		got.leave()
		ok.leave()
		checkUsed(t, s, 0, "after all")
	})
}

// TestWait: bodies that come as fast as they must do not give way; who waits for
// memory gets it in the order of arrival, or ErrBusy at its deadline.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newTestMemory(1, 1)
		holder, holderDone := startRead(s, "", time.Minute)
		sendBlanks(t, holder, Part)
		_ = holder.Close()
		first := <-holderDone
		var dones []<-chan bodyRead
		for _, wait := range []time.Duration{time.Minute, 5 * time.Second, time.Minute} {
			w, done := startRead(s, "", wait)
			sendBlanks(t, w, 1)
			_ = w.Close()
			dones = append(dones, done)
		}
		if got := <-dones[1]; !errors.Is(got.err, ErrBusy) || got.took != 5*time.Second {
			t.Errorf("a body whose time is over: error %v after %v, want ErrBusy after 5s", got.err, got.took)
		}
		first.leave()
		second := <-dones[0]
		synctest.Wait()
		if second.err != nil || len(dones[2]) != 0 {
			t.Fatalf("the first that waits: error %v, and %d others have ended; want memory for it alone", second.err, len(dones[2]))
		}
		second.leave()
		third := <-dones[2]
		if third.err != nil {
			t.Errorf("the second that waits: error %v, want none", third.err)
		}
		third.leave()
		checkUsed(t, s, 0, "after all")
	})
}

// TestShare: one client has no more than its share, also while its bodies are being
// answered, and other clients are answered at once.
func TestShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTestMemory(8, 2)
		greedy, greedyDone := startRead(m, "greedy", time.Minute)
		sendBlanks(t, greedy, 2*Part)
		_ = greedy.Close()
		held := <-greedyDone // it is being answered
		more, moreDone := startRead(m, "greedy", 5*time.Second)
		sendBlanks(t, more, 1)
		checkUsed(t, m, 2, "with a client that has its share and wants more")
		other, otherDone := startRead(m, "other", time.Minute)
		sendBlanks(t, other, 2*Part)
		_ = other.Close()
		if got := <-otherDone; got.err != nil || got.took != 0 {
			t.Errorf("another client: error %v after %v, want its body at once", got.err, got.took)
		} else {
			got.leave()
		}
		if got := <-moreDone; !errors.Is(got.err, ErrShare) || got.took != 5*time.Second {
			t.Errorf("a client above its share: error %v after %v, want ErrShare after 5s", got.err, got.took)
		}
		held.leave()
		again, againDone := startRead(m, "greedy", time.Minute)
		sendBlanks(t, again, 2*Part)
		_ = again.Close()
		if got := <-againDone; got.err != nil {
			t.Errorf("the client when its share is free: error %v, want none", got.err)
		} else {
			got.leave()
		}
		checkUsed(t, m, 0, "after all")
	})
}

// TestShareGivesWay: of a client that has its share, the slowest body gives way to its next
// one, and no body of another client does.
func TestShareGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTestMemory(8, 2)
		other, otherDone := startRead(m, "other", time.Minute)
		sendBlanks(t, other, 1)
		time.Sleep(time.Second) // of the test's own clock: the other one is the slowest of all
		first, firstDone := startRead(m, "greedy", time.Minute)
		sendBlanks(t, first, 1)
		time.Sleep(time.Second)
		second, secondDone := startRead(m, "greedy", time.Minute)
		sendBlanks(t, second, 1)
		third, thirdDone := startRead(m, "greedy", time.Minute)
		sendBlanks(t, third, 1)
		_ = third.Close()
		got := <-thirdDone
		if got.err != nil || got.took > slow {
			t.Errorf("the third body: error %v after %v, want memory after %v at most", got.err, got.took, slow)
		}
		if lost := <-firstDone; !errors.Is(lost.err, ErrShare) {
			t.Errorf("the slowest body of the client: error %v, want ErrShare", lost.err)
		}
		got.leave()
		for _, end := range []struct {
			w    *io.PipeWriter
			done <-chan bodyRead
		}{{other, otherDone}, {second, secondDone}} {
			_ = end.w.Close()
			if got := <-end.done; got.err != nil || len(got.data) != 1 {
				t.Errorf("a body that nobody waits for: %d bytes, error %v; want one byte", len(got.data), got.err)
			} else {
				got.leave()
			}
		}
		checkUsed(t, m, 0, "after all")
	})
}

// TestWaitForEachOther: of bodies that wait for each other's memory, the first goes on and
// the last gives way.
func TestWaitForEachOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newTestMemory(8, 2)
		var bodies []*io.PipeWriter
		var dones []<-chan bodyRead
		for range 2 {
			w, done := startRead(m, "one", time.Minute)
			sendBlanks(t, w, Part)
			bodies, dones = append(bodies, w), append(dones, done)
		}
		for _, w := range bodies {
			sendBlanks(t, w, 1)
			_ = w.Close()
		}
		if got := <-dones[0]; got.err != nil || len(got.data) != Part+1 || got.took > 2*slow {
			t.Errorf("the first: %d bytes, error %v after %v; want all within %v", len(got.data), got.err, got.took, 2*slow)
		} else {
			got.leave()
		}
		if got := <-dones[1]; !errors.Is(got.err, ErrShare) {
			t.Errorf("the last: error %v, want ErrShare", got.err)
		}
		checkUsed(t, m, 0, "after all")
	})
}

// TestLimit: a body as long as its limit is read, one byte more is not, and takes no memory
// above the limit; a nil account has the same limit.
func TestLimit(t *testing.T) {
	t.Parallel()
	m := newTestMemory(2, 2)
	for _, a := range []*Account{m.Open("c", func() {}), nil} {
		if b, err := a.Read(t.Context(), strings.NewReader(strings.Repeat(" ", 2*Part)), 2*Part); err != nil || len(b) != 2*Part {
			t.Errorf("a body of %d bytes: %d, %v; want all", 2*Part, len(b), err)
		}
		a.Free()
		if _, err := a.Read(t.Context(), strings.NewReader(strings.Repeat(" ", 2*Part+1)), 2*Part); !errors.Is(err, ErrLong) {
			t.Errorf("a body that is too long: error %v, want ErrLong", err)
		}
		a.Free()
	}
	checkUsed(t, m, 0, "after all")
}

// TestCounted: what a reader's user keeps counts, and several short reads take no more
// parts than they need.
func TestCounted(t *testing.T) {
	t.Parallel()
	m := newTestMemory(2, 2)
	a := m.Open("c", func() {})
	for range 10 {
		if _, err := a.Read(t.Context(), strings.NewReader("short"), 10); err != nil {
			t.Fatal(err)
		}
	}
	checkUsed(t, m, 1, "after ten short fields")
	if n, err := io.Copy(io.Discard, a.Counted(t.Context(), strings.NewReader(strings.Repeat(" ", Part)))); err != nil || n != Part {
		t.Errorf("a counted reader: %d bytes, %v; want all", n, err)
	}
	checkUsed(t, m, 2, "after a part more")
	a.Free()
	checkUsed(t, m, 0, "after all")
}
