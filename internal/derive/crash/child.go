package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync"

	"github.com/symdepot/symdepot/dump"
)

// childWord is the only argument of a child process. It is no command of people: such a process
// talks to the server that has started it.
const childWord = "-walk-dump-for-a-server"

// Memory of a child, in bytes: what its garbage collector aims at, and what the system lets it have.
// The latter counts what the Go runtime has reserved for its bookkeeping too.
const (
	childHeap   = 160 << 20
	childMemory = 448<<20 + detectorMemory
)

// IsChild reports whether this process is to walk dumps for a server; then it calls RunChild.
func IsChild(args []string) bool { return len(args) == 2 && args[1] == childWord }

// RunChild walks dumps, one after the other, until the server goes away. It returns the exit code
// of the process. All that it knows comes through in, and goes through out: before the first dump
// it gives up the right to open files and connections, where the system can do that.
func RunChild(in io.Reader, out io.Writer) int {
	debug.SetMemoryLimit(childHeap)
	if err := confine(); err != nil {
		fmt.Fprintln(os.Stderr, "the process cannot be confined:", err)
		return 1
	}
	c := &child{conn: newConn(in, out)}
	if err := c.run(); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// begin is the first part of a message with a dump.
type begin struct {
	Size int64 `json:"size"` // of the dump
	Have int   `json:"have"` // the bytes that follow, from its beginning
}

// Failure is an error of a child.
type failure struct {
	Class string `json:"class"`
	Text  string `json:"text"`
}

// The classes of failures.
const (
	failNotDump = "not a dump"
	failBroken  = "broken"
	failAsk     = "ask" // the server did not answer a question
)

// child walks dumps for a server.
type child struct {
	*conn

	mu      sync.Mutex
	number  uint64                 // of the last question; guarded by mu
	waiting map[uint64]chan []byte // for the answer of a question; guarded by mu
}

// run receives messages.
func (c *child) run() error {
	if err := c.send(msgReady); err != nil {
		return err
	}
	for {
		what, b, err := c.receive(func(byte) int { return maxMessage })
		if err != nil {
			return err
		}
		switch what {
		case msgDump:
			if err := c.begin(b); err != nil {
				return err
			}
		case msgBytes, msgAnswer:
			body := content{b: b}
			n := body.number()
			c.mu.Lock()
			answer := c.waiting[n]
			delete(c.waiting, n)
			c.mu.Unlock()
			if answer != nil {
				answer <- body.b
			}
		default:
			return errMessage
		}
	}
}

// begin begins the walk of a dump.
func (c *child) begin(b []byte) error {
	body := content{b: b}
	head := body.text()
	var from begin
	if err := json.Unmarshal([]byte(head), &from); err != nil || body.err != nil || from.Have != len(body.b) {
		return errMessage
	}
	c.mu.Lock()
	c.waiting = map[uint64]chan []byte{}
	c.mu.Unlock()
	go func() {
		var r io.ReaderAt = bytes.NewReader(body.b)
		if int64(from.Have) < from.Size {
			r = &farDump{child: c, size: from.Size}
		}
		w, err := WalkFile(context.Background(), r, from.Size, c)
		if err == nil {
			w.Modules = nil // the server has them
			var text []byte
			if text, err = json.Marshal(w); err == nil {
				err = c.send(msgWalk, text)
			}
		}
		if err != nil {
			text, _ := json.Marshal(failureOf(err))
			_ = c.send(msgError, text) // the server ends a child that says nothing
		}
	}()
	return nil
}

// failureOf is the message for an error.
func failureOf(err error) failure {
	switch {
	case errors.Is(err, dump.ErrNotDump):
		return failure{failNotDump, err.Error()}
	case errors.Is(err, dump.ErrBroken):
		return failure{failBroken, err.Error()}
	}
	return failure{failAsk, err.Error()}
}

// ask sends a question and returns the answer.
func (c *child) ask(ctx context.Context, what byte, about ...uint64) ([]byte, error) {
	answer := make(chan []byte, 1)
	c.mu.Lock()
	c.number++
	n := c.number
	c.waiting[n] = answer
	c.mu.Unlock()
	if err := c.send(what, numbers(n), numbers(about...)); err != nil {
		return nil, err
	}
	select {
	case b := <-answer:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Modules implements Resolver.
func (c *child) Modules(p *dump.Process) error {
	text, err := json.Marshal(modulesMessage{p.OS, p.Arch, p.BigEndian, p.Modules})
	if err != nil {
		return err
	}
	return c.send(msgModules, text)
}

// modulesMessage is what the server must know of the modules of a dump.
type modulesMessage struct {
	OS        string        `json:"os"`
	Arch      string        `json:"arch"`
	BigEndian bool          `json:"big_endian"`
	Modules   []dump.Module `json:"modules"`
}

// Ask implements Resolver.
func (c *child) Ask(ctx context.Context, module int, rva uint64) (Answer, error) {
	b, err := c.ask(ctx, msgAsk, uint64(module), rva)
	if err != nil {
		return Answer{}, err
	}
	body := content{b: b}
	a := body.answer()
	return a, body.err
}

// farDump is a dump of which the server has the bytes. It keeps a few blocks.
type farDump struct {
	*child
	size int64

	mu     sync.Mutex
	blocks [farBlocks]farBlock // guarded by mu
}

// farBlock is a block of a dump.
type farBlock struct {
	at   int64 // 1 plus its number; 0: none
	data []byte
}

const (
	farBlockSize = 64 << 10
	farBlocks    = 256
)

// ReadAt implements io.ReaderAt.
func (d *farDump) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		if off < 0 || off >= d.size {
			return n, io.EOF
		}
		b, err := d.block(off / farBlockSize)
		if err != nil {
			return n, err
		}
		skip := int(off % farBlockSize)
		if skip >= len(b) {
			return n, io.ErrUnexpectedEOF
		}
		m := copy(p[n:], b[skip:])
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// block returns a block.
func (d *farDump) block(number int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	slot := &d.blocks[number%farBlocks]
	if slot.at == number+1 {
		return slot.data, nil
	}
	at := number * farBlockSize
	b, err := d.ask(context.Background(), msgRead, uint64(at), uint64(min(farBlockSize, d.size-at)))
	if err != nil {
		return nil, err
	}
	if len(b) == 0 {
		return nil, errors.New("the server could not read the dump")
	}
	slot.at, slot.data = number+1, b
	return b, nil
}
