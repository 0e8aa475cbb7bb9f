package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// uploads answers questions with a body.
type uploads func(ctx context.Context, kind string, input []byte, body io.Reader) ([]byte, error)

func (u uploads) ReceiveFromPeer(ctx context.Context, kind string, input []byte, body io.Reader) ([]byte, error) {
	return u(ctx, kind, input, body)
}

// sender returns a server, and the address of another one that answers questions
// with a body.
func sender(t *testing.T, u Uploads) (asker, owner *Node, address string) {
	t.Helper()
	ln := listen(t)
	address = ln.Addr().String()
	members := []Member{{"owner", address}, {"asker", "127.0.0.1:1"}}
	open := func(ln net.Listener, id string) *Node {
		n, err := New(Options{Secret: secret, Listener: ln, Dial: (&net.Dialer{}).DialContext, Uploads: u, Reach: 20 * time.Second, // of a busy machine
			Members: func() (string, []Member, bool) { return id, members, true }})
		if err != nil {
			t.Fatal(err)
		}
		n.Start()
		t.Cleanup(func() { _ = n.Close() })
		return n
	}
	return open(listen(t), "asker"), open(ln, "owner"), address
}

// TestSend: a body arrives whole, whatever its length and its pieces, and the
// answer may come before its end.
func TestSend(t *testing.T) {
	t.Parallel()
	asker, _, address := sender(t, uploads(func(_ context.Context, kind string, input []byte, body io.Reader) ([]byte, error) {
		switch kind {
		case "sum":
			b, err := io.ReadAll(body)
			return fmt.Appendf(nil, "%s %d %s", input, len(b), blob.Sum(b)), err
		case "begin":
			b := make([]byte, 10)
			_, err := io.ReadFull(body, b)
			return b, err
		case "nothing":
			return nil, nil
		}
		return nil, errors.New("unknown kind")
	}))
	for _, size := range []int{0, 1, mostData - 1, mostData, mostData + 1, 3_000_000} {
		b := bytes.Repeat([]byte("body"), size/4+1)[:size]
		for name, body := range map[string]io.Reader{"at once": bytes.NewReader(b), "halves": iotest.HalfReader(bytes.NewReader(b)), "with the end": iotest.DataErrReader(bytes.NewReader(b))} {
			got, err := asker.Send(t.Context(), address, "sum", []byte("input"), body)
			if want := fmt.Sprintf("input %d %s", size, blob.Sum(b)); err != nil || string(got) != want {
				t.Errorf("%d bytes %s: %q, %v; want %q", size, name, got, err, want)
			}
		}
		if size < 10 {
			continue
		}
		if got, err := asker.Send(t.Context(), address, "begin", nil, bytes.NewReader(b)); err != nil || string(got) != "bodybodybo" {
			t.Errorf(`an early answer to %d bytes: %q, %v; want "bodybodybo"`, size, got, err)
		}
		if got, err := asker.Send(t.Context(), address, "nothing", nil, bytes.NewReader(b)); err != nil || len(got) != 0 {
			t.Errorf("an answer without reading %d bytes: %q, %v", size, got, err)
		}
	}
	if _, err := asker.Send(t.Context(), address, "other", nil, strings.NewReader("body")); !errors.Is(err, fetch.ErrNoPeer) {
		t.Errorf("a question that fails: %v, want %v", err, fetch.ErrNoPeer)
	}
}

// TestSendBroken: a body that breaks off is an error on both sides, and a server
// that ends is fetch.ErrNoPeer.
func TestSendBroken(t *testing.T) {
	t.Parallel()
	seen := make(chan error, 1)
	begun := make(chan struct{}, 1)
	asker, owner, address := sender(t, uploads(func(_ context.Context, _ string, _ []byte, body io.Reader) ([]byte, error) {
		_, err := io.ReadFull(body, make([]byte, 4))
		begun <- struct{}{}
		if err == nil {
			_, err = io.Copy(io.Discard, body)
		}
		seen <- err
		return nil, err
	}))
	broken := errors.New("the client has gone")
	if _, err := asker.Send(t.Context(), address, "", nil, io.MultiReader(strings.NewReader("some bytes"), iotest.ErrReader(broken))); !errors.Is(err, broken) {
		t.Errorf("a body that breaks off: %v, want %v", err, broken)
	}
	<-begun
	if err := <-seen; err == nil {
		t.Error("a body that breaks off is complete for the other server")
	}
	// The owner ends in the middle.
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write([]byte("some bytes"))
		<-begun
		_ = owner.Close()
		for {
			if _, err := w.Write(make([]byte, 1000)); err != nil {
				return
			}
		}
	}()
	_, err := asker.Send(t.Context(), address, "", nil, r)
	_ = r.Close()
	if !errors.Is(err, fetch.ErrNoPeer) {
		t.Errorf("a server that ends: %v, want %v", err, fetch.ErrNoPeer)
	}
	if err := <-seen; err == nil {
		t.Error("the body is complete for a server that ends")
	}
	if _, err := asker.Send(t.Context(), address, "", nil, strings.NewReader("body")); !errors.Is(err, fetch.ErrNoPeer) {
		t.Errorf("a server that has ended: %v, want %v", err, fetch.ErrNoPeer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := asker.Send(ctx, address, "", nil, strings.NewReader("body")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled question: %v, want %v", err, context.Canceled)
	}
}
