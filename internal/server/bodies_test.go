package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/symtest"
)

// unused returns how many parts are free.
func (s *bodies) unused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.free
}

// bodyRead is the result of bodies.read.
type bodyRead struct {
	data  []byte
	leave func()
	err   error
	took  time.Duration
}

// startRead reads a body that the caller writes.
func startRead(s *bodies, wait time.Duration) (*io.PipeWriter, <-chan bodyRead) {
	r, w := io.Pipe()
	done := make(chan bodyRead, 1)
	go func() {
		start := time.Now()
		data, leave, err := s.read(context.Background(), r, start.Add(wait), func() { _ = r.CloseWithError(errors.New("interrupted")) })
		_ = r.Close()
		done <- bodyRead{data, leave, err, time.Since(start)}
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

// TestBodiesArrive: a body takes memory when its bytes arrive, not before.
func TestBodiesArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newBodies(2, slowBody)
		var idle []*io.PipeWriter
		var dones []<-chan bodyRead
		for range 5 {
			w, done := startRead(s, time.Minute)
			idle, dones = append(idle, w), append(dones, done)
		}
		synctest.Wait()
		if n := s.unused(); n != 2 {
			t.Errorf("with five clients that have sent nothing, %d parts are free, want 2", n)
		}
		w, done := startRead(s, time.Minute)
		sendBlanks(t, w, 2*bodyPart)
		_ = w.Close()
		got := <-done
		if got.err != nil || len(got.data) != 2*bodyPart || got.took != 0 {
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
		if n := s.unused(); n != 2 {
			t.Errorf("after all, %d parts are free, want 2", n)
		}
	})
}

// TestBodiesGiveWay: when no memory is left, a body of which no part has come for
// slowBody gives way to one that waits, also if single bytes keep coming; a whole body
// does not, and nobody does as long as there is memory.
func TestBodiesGiveWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newBodies(3, slowBody)
		whole, wholeDone := startRead(s, time.Minute)
		sendBlanks(t, whole, bodyPart)
		_ = whole.Close()
		slow, slowDone := startRead(s, time.Minute)
		sendBlanks(t, slow, bodyPart+1)
		time.Sleep(time.Hour) // of the test's own clock: there was memory for all
		synctest.Wait()
		if n := len(slowDone); n != 0 {
			t.Fatalf("a slow body ended with %v although nobody waited", (<-slowDone).err)
		}
		stop := make(chan struct{})
		go func() { // a byte each second
			for {
				if _, err := slow.Write([]byte{' '}); err != nil {
					return
				}
				select {
				case <-time.After(time.Second):
				case <-stop:
					return
				}
			}
		}()
		w, done := startRead(s, time.Minute)
		sendBlanks(t, w, 10)
		_ = w.Close()
		got := <-done
		if got.err != nil || len(got.data) != 10 || got.took > slowBody {
			t.Errorf("the waiting body: %d bytes, error %v after %v; want 10 bytes after %v at most", len(got.data), got.err, got.took, slowBody)
		}
		if lost := <-slowDone; !errors.Is(lost.err, errBusy) {
			t.Errorf("the slow body: error %v, want errBusy", lost.err)
		} else {
			lost.leave()
		}
		close(stop)
		ok := <-wholeDone
		if ok.err != nil || len(ok.data) != bodyPart {
			t.Errorf("the whole body: %d bytes, error %v; want all", len(ok.data), ok.err)
		}
		got.leave()
		ok.leave()
		if n := s.unused(); n != 3 {
			t.Errorf("after all, %d parts are free, want 3", n)
		}
	})
}

// TestBodiesWait: bodies that come as fast as they must do not give way; who waits for
// memory gets it in the order of arrival, or errBusy at its deadline.
func TestBodiesWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newBodies(1, slowBody)
		holder, holderDone := startRead(s, time.Minute)
		sendBlanks(t, holder, bodyPart)
		_ = holder.Close()
		first := <-holderDone
		var dones []<-chan bodyRead
		for _, wait := range []time.Duration{time.Minute, 5 * time.Second, time.Minute} {
			w, done := startRead(s, wait)
			sendBlanks(t, w, 1)
			_ = w.Close()
			dones = append(dones, done)
		}
		if got := <-dones[1]; !errors.Is(got.err, errBusy) || got.took != 5*time.Second {
			t.Errorf("a body whose time is over: error %v after %v, want errBusy after 5s", got.err, got.took)
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
		if n := s.unused(); n != 1 {
			t.Errorf("after all, %d parts are free, want 1", n)
		}
	})
}

// TestBodiesSlowClient: over HTTP, a client that stops in the middle of its body gets
// 503, and does not hold up the next one.
func TestBodiesSlowClient(t *testing.T) {
	t.Parallel()
	d := openDepot(t, depot.Options{})
	s := newServer(t, Config{Depot: d, Symbols: SymbolsConfig{Depot: d.Symbols}, Wait: time.Minute})
	memory := newBodies(1, time.Millisecond)
	s.routes.symbolicate.handler.(*symbolication).bodies = memory
	ts := httptest.NewServer(s)
	t.Cleanup(ts.Close)
	client := ts.Client()
	pr, pw := io.Pipe()
	defer pw.Close()
	type answer struct {
		status int
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		resp, err := client.Post(ts.URL+"/symbolicate/v5", "application/json", pr)
		if err != nil {
			answers <- answer{0, err}
			return
		}
		_ = resp.Body.Close()
		answers <- answer{resp.StatusCode, nil}
	}()
	if _, err := io.WriteString(pw, strings.Repeat(" ", bodyPart)); err != nil {
		t.Fatal(err)
	}
	symtest.Await(t, time.Minute, "the part of the slow body", func() bool { return memory.unused() == 0 })
	const fine = `{"memoryMap":[],"stacks":[[[-1,1]]]}`
	for range 3 {
		resp, err := client.Post(ts.URL+"/symbolicate/v5", "application/json", strings.NewReader(fine))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("a short request beside a slow one: status %d, want 200", resp.StatusCode)
		}
	}
	if a := <-answers; a.err != nil || a.status != http.StatusServiceUnavailable {
		t.Errorf("the slow request: status %d, error %v; want 503", a.status, a.err)
	}
}
