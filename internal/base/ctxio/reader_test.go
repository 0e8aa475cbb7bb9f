package ctxio

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReader(t *testing.T) {
	t.Parallel()
	r := NewReader(t.Context(), strings.NewReader("abc"))
	if b, err := io.ReadAll(r); string(b) != "abc" || err != nil || r.Err() != nil {
		t.Errorf("read %q, %v, Err %v; want the whole text and no error", b, err, r.Err())
	}
	ctx, cancel := context.WithCancel(t.Context())
	r = NewReader(ctx, strings.NewReader("abc"))
	if n, err := r.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("before the end of the context: %d bytes, %v; want 1 byte", n, err)
	}
	cancel()
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.Canceled) || !errors.Is(r.Err(), context.Canceled) {
		t.Errorf("after the end of the context: %d bytes, %v, Err %v; want none and context.Canceled", n, err, r.Err())
	}
	broken := errors.New("broken")
	r = NewReader(t.Context(), iotest.ErrReader(broken))
	if _, err := io.ReadAll(r); err != broken || r.Err() != broken {
		t.Errorf("of a broken reader: %v, Err %v; want %v", err, r.Err(), broken)
	}
}
