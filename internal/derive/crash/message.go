package crash

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"

	"github.com/symdepot/symdepot/functab"
)

// The messages between a server and the child process that walks a dump. Each has a byte that says
// what it is, the length of its content, and the content.
const (
	// To the child.
	msgDump   = 'D' // a dump to walk: begin as JSON, then its first bytes
	msgBytes  = 'b' // the number of a question, then bytes of the dump
	msgAnswer = 'a' // the number of a question, then an Answer
	// From the child.
	msgReady   = 'r' // the child waits for a dump
	msgModules = 'M' // the modules of the dump, as JSON
	msgRead    = 'R' // the number of a question, an offset and a length
	msgAsk     = 'A' // the number of a question, a module and an address
	msgWalk    = 'W' // the result, as JSON
	msgError   = 'E' // an error: its class and its text
)

// Limits of messages, in bytes.
const (
	maxQuestion = 64       // a question of the child
	maxResult   = 64 << 20 // any other message of the child
	maxMessage  = 32 << 20 // a message to the child
)

var errMessage = errors.New("a message has not the form of the protocol")

// conn sends and receives messages. send may be called by many goroutines.
type conn struct {
	r *bufio.Reader

	mu sync.Mutex
	w  io.Writer // guarded by mu
}

func newConn(r io.Reader, w io.Writer) *conn { return &conn{r: bufio.NewReaderSize(r, 64<<10), w: w} }

// send sends a message.
func (c *conn) send(what byte, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	b := binary.AppendUvarint(append(make([]byte, 0, n+16), what), uint64(n))
	for _, p := range parts {
		b = append(b, p...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.w.Write(b)
	return err
}

// receive returns the next message. limit is the largest content by kind.
func (c *conn) receive(limit func(what byte) int) (what byte, content []byte, err error) {
	if what, err = c.r.ReadByte(); err != nil {
		return 0, nil, err
	}
	n, err := binary.ReadUvarint(c.r)
	if err != nil {
		return 0, nil, err
	}
	if n > uint64(limit(what)) {
		return 0, nil, fmt.Errorf("%w: %d bytes of the kind %q", errMessage, n, what)
	}
	content = make([]byte, n)
	_, err = io.ReadFull(c.r, content)
	return what, content, err
}

// numbers appends numbers to a message.
func numbers(list ...uint64) (b []byte) {
	for _, n := range list {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// content reads the content of a message. The first fault stays.
type content struct {
	b   []byte
	err error
}

func (c *content) number() uint64 {
	n, size := binary.Uvarint(c.b)
	if size <= 0 {
		c.b, c.err = nil, errMessage
		return 0
	}
	c.b = c.b[size:]
	return n
}

func (c *content) text() string {
	n := c.number()
	if n > uint64(len(c.b)) {
		c.b, c.err = nil, errMessage
		return ""
	}
	s := string(c.b[:n])
	c.b = c.b[n:]
	return s
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Answer is what is known of one address of a module.
type Answer struct {
	Code  bool // there can be code
	Known bool // Rules are set
	Rules functab.Rules
}

// The bits of an Answer.
const (
	hasCode = 1 << iota
	hasRules
	hasWin
	allocatesBP
)

// append appends an answer to a message.
func (a *Answer) append(b []byte) []byte {
	bits := uint64(0)
	if a.Code {
		bits |= hasCode
	}
	if a.Known {
		bits |= hasRules
	}
	w := a.Rules.Win
	if w != nil {
		bits |= hasWin
		if w.AllocatesBP {
			bits |= allocatesBP
		}
	}
	b = append(b, numbers(bits, a.Rules.Start, uint64(a.Rules.Params), uint64(len(a.Rules.CFI)))...)
	for _, s := range a.Rules.CFI {
		b = appendText(b, s)
	}
	if w != nil {
		b = append(b, numbers(uint64(uint32(w.Type)), uint64(w.Prolog), uint64(w.Epilog), uint64(w.Params),
			uint64(w.SavedRegs), uint64(w.Locals),
			uint64(w.MaxStack))...)
		b = appendText(b, w.Program)
	}
	return b
}

// answer reads an answer.
func (c *content) answer() (a Answer) {
	bits := c.number()
	a.Code, a.Known = bits&hasCode != 0, bits&hasRules != 0
	a.Rules.Start, a.Rules.Params = c.number(), c.number32()
	for n := c.number(); n > 0 && c.err == nil; n-- {
		a.Rules.CFI = append(a.Rules.CFI, c.text())
	}
	if bits&hasWin != 0 {
		a.Rules.Win = &functab.WinFrame{
			Type: int(c.number32()), Prolog: c.number32(), Epilog: c.number32(), Params: c.number32(), SavedRegs: c.number32(),
			Locals: c.number32(), MaxStack: c.number32(), AllocatesBP: bits&allocatesBP != 0, Program: c.text(),
		}
	}
	return a
}

func (c *content) number32() uint32 {
	n := c.number()
	if n > math.MaxUint32 {
		c.err = errMessage
	}
	return uint32(n)
}
