package peer

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// member is another server that accepts questions.
type member struct {
	node *Node
	Member
}

// call is a question under way.
type call struct {
	m    member
	conn *tls.Conn
	stop func() bool
}

// ask asks a question and waits until the peer has accepted it.
func (m member) ask(ctx context.Context, q question) (*call, error) {
	m.node.counts.asked.Add(1)
	c, err := m.connect(ctx, q)
	if err != nil {
		return nil, m.unanswered(ctx, err)
	}
	return c, nil
}

// unanswered counts and returns the error of a question without a complete
// answer.
func (m member) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.node.counts.unanswered.Add(1)
	m.node.avoid(m.ID)
	return fmt.Errorf("%w (%s): %w", fetch.ErrNoPeer, m.Address, err)
}

func (m member) connect(ctx context.Context, q question) (_ *call, err error) {
	reach, cancel := context.WithTimeout(ctx, m.node.opt.Reach)
	defer cancel()
	raw, err := m.node.opt.Dial(reach, "tcp", m.Address)
	if err != nil {
		return nil, err
	}
	c := &call{m: m, conn: tls.Client(raw, m.node.client)}
	c.stop = context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := c.conn.HandshakeContext(reach); err != nil {
		return nil, err
	}
	out := &writer{conn: c.conn}
	if err := out.sendJSON(typeAsk, q); err != nil {
		return nil, err
	}
	if until, ok := reach.Deadline(); ok {
		if err := c.conn.SetReadDeadline(until); err != nil {
			return nil, err
		}
	}
	kind, _, err := readText(c.conn)
	if err == nil && kind != typeAlive {
		err = fmt.Errorf("a message of the type %q, want that the question was accepted", kind)
	}
	return c, err
}

func (c *call) close() {
	c.stop()
	_ = c.conn.NetConn().Close() // the peer notices it
}

// expect limits the wait for the next bytes.
func (c *call) expect() error {
	return c.conn.SetReadDeadline(time.Now().Add(silence * c.m.node.opt.Reach))
}

// next reads the beginning of the next message that is not alive.
func (c *call) next() (kind byte, n int, err error) {
	for {
		if err := c.expect(); err != nil {
			return 0, 0, err
		}
		if kind, n, err = readHead(c.conn); err != nil || kind != typeAlive {
			return kind, n, err
		}
	}
}

// read reads the text of a message into v.
func (c *call) read(n int, v any) error {
	text := make([]byte, n)
	if _, err := io.ReadFull(c.conn, text); err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// fail reads a failure and returns its error.
func (c *call) fail(n int) error {
	var f failure
	if err := c.read(n, &f); err != nil {
		return err
	}
	return f.cause()
}

// isAnswer reports whether an error is an answer of the peer.
func isAnswer(err error) bool { return errors.Is(err, fetch.ErrInDepot) || isMissing(err) }

// Fetch implements fetch.Peer.
func (m member) Fetch(ctx context.Context, ask fetch.PeerAsk) (_ *fetch.PeerReply, err error) {
	c, err := m.ask(ctx, question{File: &ask})
	if err != nil {
		return nil, err
	}
	b := newBody(ctx, c)
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	kind, n, err := c.next()
	if err == nil {
		switch kind {
		case typeFail:
			err = c.fail(n)
		case typeHead:
			err = c.read(n, &b.file)
		default:
			err = fmt.Errorf("a message of the type %q, want a file", kind)
		}
	}
	switch {
	case err == nil:
	case isAnswer(err):
		return nil, err
	default:
		return nil, m.unanswered(ctx, err)
	}
	return &fetch.PeerReply{File: b.file, Body: b, End: func() fetch.File { return b.file }}, nil
}

// At returns the server at an address.
func (n *Node) At(address string) fetch.Peer { return n.memberAt(address) }

func (n *Node) memberAt(address string) member {
	m := member{n, Member{Address: address}}
	_, list, _ := n.opt.Members()
	for _, other := range list {
		if other.Address == address {
			m.Member = other
		}
	}
	return m
}

// Run implements fetch.Peer.
func (m member) Run(ctx context.Context, kind string, input []byte) (result []byte, err error) {
	c, err := m.ask(ctx, question{Kind: kind, Input: input})
	if err != nil {
		return nil, err
	}
	defer c.close()
	if result, err = c.result(); err != nil {
		return nil, m.unanswered(ctx, err)
	}
	return result, nil
}

// Send sends a question with a body to the server at an address, and returns its
// answer. An error of the body ends the question and is returned. If the server
// does not answer, or breaks off, the error is fetch.ErrNoPeer.
func (n *Node) Send(ctx context.Context, address, kind string, input []byte, body io.Reader) (result []byte, err error) {
	m := n.memberAt(address)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := m.ask(ctx, question{Kind: kind, Input: input, Body: true})
	if err != nil {
		return nil, err
	}
	type answer struct {
		result []byte
		err    error
	}
	answered := make(chan answer, 1)
	var side, keeper sync.WaitGroup
	defer side.Wait()
	defer keeper.Wait()
	defer c.close()
	defer cancel()
	side.Go(func() {
		var a answer
		a.result, a.err = c.result()
		answered <- a
	})
	out := &writer{conn: c.conn}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	keeper.Go(func() { out.keepAlive(sending) })
	buf := make([]byte, mostData)
	for {
		k, rerr := body.Read(buf)
		if k > 0 && out.send(typeData, buf[:k]) != nil {
			break // the answer holds the reason
		}
		if rerr == io.EOF {
			stop()
			keeper.Wait() // no alive message may follow the end
			_ = out.send(typeEnd, nil)
			break
		}
		if rerr != nil {
			return nil, rerr
		}
	}
	a := <-answered
	if a.err != nil {
		return nil, m.unanswered(ctx, a.err)
	}
	return a.result, nil
}

// result reads the answer to a question with a result.
func (c *call) result() (result []byte, err error) {
	kind, n, err := c.next()
	if err == nil && kind != typeEnd {
		err = errors.New("the other server could not answer")
	}
	if err == nil {
		err = c.read(n, &result)
	}
	return result, err
}

// body is the file that a peer sends.
type body struct {
	parts
	call *call
	ctx  context.Context
	file fetch.File // complete at the end
}

func newBody(ctx context.Context, c *call) *body {
	b := &body{call: c, ctx: ctx}
	b.parts = parts{conn: c.conn, expect: c.expect, begin: b.begin, broken: b.broke}
	return b
}

// begin reads the beginning of the next message.
func (b *body) begin() (int, error) {
	kind, n, err := b.call.next()
	if err == nil {
		switch kind {
		case typeData:
			return n, nil
		case typeEnd:
			if err = b.call.read(n, &b.file); err == nil {
				return 0, io.EOF
			}
		case typeFail:
			err = errors.New("the transfer from the upstream broke off")
			return 0, fmt.Errorf("%w: %w", fetch.ErrNoPeer, err) // the peer itself is well
		default:
			err = fmt.Errorf("a message of the type %q, want a part of a file", kind)
		}
	}
	return 0, b.broke(err)
}

// broke returns the error of a transfer that ended too early. It is never
// io.EOF.
func (b *body) broke(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return b.call.m.unanswered(b.ctx, err)
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.call.close()
	return nil
}
