package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"sync"
	"time"
)

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

var errBusy = errors.New("too many questions are being answered")

// answer answers the question of one connection. proven is called when the question has
// been read, or there is none.
func (n *Node) answer(raw net.Conn, proven func()) {
	conn := tls.Server(raw, n.server)
	ctx, cancel := context.WithCancel(n.life)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	defer func() { _ = raw.Close() }()
	q, err := n.readQuestion(ctx, conn)
	proven()
	if err == nil {
		select {
		case n.conns <- struct{}{}:
			defer func() { <-n.conns }()
		default:
			err = errBusy
		}
	}
	if err != nil {
		if n.life.Err() == nil {
			n.counts.refused.Add(1)
			n.opt.Log.Debug("refused a connection to the port for other servers", "remote", raw.RemoteAddr().String(), "error", err)
		}
		return
	}
	n.counts.served.Add(1)
	var side sync.WaitGroup
	defer side.Wait()
	defer cancel()
	watch := func() {
		defer cancel()
		// The other side sends nothing more: this waits for its end.
		_, _ = conn.Read(make([]byte, 1))
	}
	if !q.Body {
		side.Go(watch)
	}
	out := &writer{conn: conn}
	if err := out.send(typeAlive, nil); err != nil {
		return
	}
	side.Go(func() {
		if !out.keepAlive(ctx) {
			cancel()
		}
	})
	switch {
	case q.File != nil:
		err = n.sendFile(ctx, out, q)
	case q.Body:
		err = n.receive(ctx, conn, out, q, func() { side.Go(watch) })
	default:
		err = n.run(ctx, out, q)
	}
	if err != nil && ctx.Err() == nil {
		n.opt.Log.Debug("an answer to another server ended early", "remote", raw.RemoteAddr().String(), "error", err)
	}
	_ = conn.Close() // with a notice, so that the other side gets all of it
}

// readQuestion makes sure that the other side has the secret, and reads its
// question.
func (n *Node) readQuestion(ctx context.Context, conn *tls.Conn) (q question, err error) {
	if err := conn.SetDeadline(time.Now().Add(handshake)); err != nil {
		return q, err
	}
	if err := conn.HandshakeContext(ctx); err != nil {
		return q, err
	}
	kind, text, err := readText(conn)
	if err != nil {
		return q, err
	}
	if kind != typeAsk {
		return q, fmt.Errorf("a message of the type %q, want a question", kind)
	}
	if err := json.Unmarshal(text, &q); err != nil {
		return q, err
	}
	return q, conn.SetReadDeadline(time.Time{})
}

// sendFile downloads a file and sends it while it arrives, without the end that
// is withheld until the whole file has been checked.
func (n *Node) sendFile(ctx context.Context, out *writer, q question) error {
	f, err := n.opt.Downloads.OpenForPeer(ctx, *q.File)
	if err != nil {
		return out.sendJSON(typeFail, failureOf(err))
	}
	defer f.Close()
	if err := out.sendJSON(typeHead, f); err != nil || f.Redirect != "" {
		return err
	}
	buf := make([]byte, mostData)
	for off := int64(0); ; {
		k, err := f.ReadAt(buf, off)
		if k > 0 {
			if err := out.send(typeData, buf[:k]); err != nil {
				return err
			}
			off += int64(k)
		}
		switch {
		case errors.Is(err, io.EOF):
			end := f.Checked()
			return out.sendJSON(typeEnd, &end)
		case err != nil:
			return errors.Join(err, out.sendJSON(typeFail, failureOf(err)))
		}
	}
}

// run runs a download of another kind.
func (n *Node) run(ctx context.Context, out *writer, q question) error {
	result, err := n.opt.Downloads.RunForPeer(ctx, q.Kind, q.Input)
	if err != nil {
		return errors.Join(err, out.sendJSON(typeFail, failure{}))
	}
	return out.sendJSON(typeEnd, result)
}

// receive answers a question with a body. read is called when the whole body has
// been read.
func (n *Node) receive(ctx context.Context, conn *tls.Conn, out *writer, q question, read func()) error {
	b := newSent(n, conn, read)
	if n.opt.Uploads == nil {
		return out.sendJSON(typeFail, failure{})
	}
	result, err := n.opt.Uploads.ReceiveFromPeer(ctx, q.Kind, q.Input, b)
	if err != nil {
		return errors.Join(err, out.sendJSON(typeFail, failure{}))
	}
	// The other side sends the whole body before it reads the answer.
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	return out.sendJSON(typeEnd, result)
}

// sent reads the body of a question.
type sent struct {
	parts
	node *Node
	conn *tls.Conn
	end  func() // called before the end of the body is returned
}

func newSent(n *Node, conn *tls.Conn, end func()) *sent {
	b := &sent{node: n, conn: conn, end: end}
	b.parts = parts{conn: conn, expect: b.expect, begin: b.begin, broken: broken}
	return b
}

func (b *sent) expect() error {
	return b.conn.SetReadDeadline(time.Now().Add(silence * b.node.opt.Reach))
}

// begin reads the head of the next message.
func (b *sent) begin() (int, error) {
	if err := b.expect(); err != nil {
		return 0, err
	}
	kind, n, err := readHead(b.conn)
	switch {
	case err != nil:
		return 0, broken(err)
	case kind == typeAlive && n == 0:
		return 0, nil
	case kind == typeData:
		return n, nil
	case kind == typeEnd && n == 0:
		if err := b.conn.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
		b.end()
		return 0, io.EOF
	}
	return 0, fmt.Errorf("a message of the type %q, want a part of a body", kind)
}

// broken returns the error of a body that ends early.
func broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
