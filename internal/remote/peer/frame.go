package peer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// A message is one byte for its type, four bytes for its length, and its text.
// The answer to a question is any number of alive, head, data… and end, or fail.
const (
	typeAsk   = 'q' // question, JSON
	typeAlive = 'a' // the peer is at work; empty
	typeHead  = 'h' // fetch.File while it is being downloaded, JSON
	typeData  = 'd' // bytes of the file
	typeEnd   = 'e' // fetch.File after its check, or the result of Run, JSON
	typeFail  = 'f' // failure, JSON
)

const (
	mostText = 256 << 10 // bytes of a message with JSON
	mostData = 128 << 10 // bytes of a message with data
)

// question is a request of a peer.
type question struct {
	File  *fetch.PeerAsk `json:",omitempty"`
	Kind  string         `json:",omitempty"` // of Run and Send
	Input []byte         `json:",omitempty"`
	// Body means that the bytes of a body follow: data, and an end without text.
	Body bool `json:",omitempty"`
}

// failure is why there is no file.
type failure struct {
	InDepot bool `json:",omitempty"`
	Missing bool `json:",omitempty"` // no upstream has it
	Why     []reason
}

// reason is the failure of one upstream.
type reason struct {
	Upstream string `json:",omitempty"` // empty: not the fault of one
	Class    fetch.Class
	Retry    time.Duration `json:",omitempty"` // from now; zero: the upstream named no time
	Text     string
}

// failureOf returns the failure to send for an error.
func failureOf(err error) failure {
	f := failure{InDepot: errors.Is(err, fetch.ErrInDepot), Missing: isMissing(err)}
	for _, w := range fetch.Why(err) {
		r := reason{Text: w.Error()}
		if fail, ok := errors.AsType[*fetch.Failure](w); ok {
			r.Upstream, r.Class = fail.Source, fail.Class
			r.Text = ""
			if fail.Err != nil {
				r.Text = fail.Err.Error()
			}
			if !fail.Retry.IsZero() {
				r.Retry = max(time.Until(fail.Retry), time.Millisecond)
			}
		}
		f.Why = append(f.Why, r)
	}
	return f
}

// cause returns the error that a failure message describes.
func (f failure) cause() error {
	switch {
	case f.InDepot:
		return fetch.ErrInDepot
	case !f.Missing:
		return fetch.ErrNoPeer
	}
	var why []error
	for _, r := range f.Why {
		if r.Upstream == "" {
			why = append(why, errors.New(r.Text))
			continue
		}
		fail := &fetch.Failure{Source: r.Upstream, Class: r.Class}
		if r.Text != "" {
			fail.Err = errors.New(r.Text)
		}
		if r.Retry > 0 {
			fail.Retry = time.Now().Add(r.Retry)
		}
		why = append(why, fail)
	}
	return fetch.NotFound(why)
}

// writer sends messages; several goroutines may use it.
type writer struct {
	conn net.Conn
	mu   sync.Mutex
	buf  []byte
}

func (w *writer) send(kind byte, text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf = append(w.buf[:0], kind)
	w.buf = binary.BigEndian.AppendUint32(w.buf, uint32(len(text)))
	w.buf = append(w.buf, text...)
	if err := w.conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return err
	}
	_, err := w.conn.Write(w.buf)
	return err
}

// keepAlive sends alive messages until ctx ends, while this side works. It
// returns false if the connection is broken.
func (w *writer) keepAlive(ctx context.Context) bool {
	tick := time.NewTicker(aliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return true
		}
		if w.send(typeAlive, nil) != nil {
			return false
		}
	}
}

// sendJSON sends a message with JSON.
func (w *writer) sendJSON(kind byte, v any) error {
	b, err := json.Marshal(v)
	if err == nil && len(b) > mostText {
		err = fmt.Errorf("a message of %d bytes is too long", len(b))
	}
	if err != nil {
		return err
	}
	return w.send(kind, b)
}

// readHead reads the type and the length of a message.
func readHead(r io.Reader) (kind byte, n int, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	limit := uint32(mostText)
	if head[0] == typeData {
		limit = mostData
	}
	if size > limit {
		return 0, 0, fmt.Errorf("a message of %d bytes, at most %d are expected", size, limit)
	}
	return head[0], int(size), nil
}

// readText reads a whole message.
func readText(r io.Reader) (kind byte, text []byte, err error) {
	kind, n, err := readHead(r)
	if err != nil {
		return 0, nil, err
	}
	text = make([]byte, n)
	_, err = io.ReadFull(r, text)
	return kind, text, err
}
