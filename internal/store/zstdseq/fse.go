package zstdseq

import "math/bits"

const (
	maxFSELog  = 9  // of a table of a block
	minFSELog  = 5  // that a description can have
	maxSymbols = 53 // of a table: match length codes
)

// counts are how many of the 1<<log states of a table each symbol has; -1 stands for one state of a rare
// symbol (RFC 8878, 4.1.1).
type counts struct {
	log uint
	n   []int16 // by symbol; the last one is not 0
}

// read reads the description of a table of at most most symbols, and returns its length in bytes; 0 if it
// is none (RFC 8878, 4.1.1).
func (c *counts) read(b []byte, most int, maxLog uint) int {
	at := 0
	take := func(k int) int { // bits from the lowest on; those behind the end are zero
		v := 0
		for i := range k {
			if p := at + i; p>>3 < len(b) {
				v |= int(b[p>>3]>>(p&7)&1) << i
			}
		}
		at += k
		return v
	}
	c.n = c.n[:0]
	if c.log = uint(take(4)) + minFSELog; c.log > maxLog {
		return 0
	}
	for left := 1<<c.log + 1; left > 1; {
		width := bits.Len(uint(left)) // of the largest value that can follow
		small := 1<<width - 1 - left  // values that take a bit less
		v := take(width - 1)
		if v >= small {
			if v += take(1) << (width - 1); v >= 1<<(width-1) {
				v -= small
			}
		}
		p := v - 1
		if len(c.n) == most {
			return 0
		}
		c.n = append(c.n, int16(p))
		left -= max(p, -p)
		if p != 0 {
			continue
		}
		for more := 3; more == 3; {
			more = take(2)
			if len(c.n)+more > most {
				return 0
			}
			for range more {
				c.n = append(c.n, 0)
			}
		}
	}
	n := (at + 7) / 8
	if n > len(b) || c.sum() != 1<<c.log {
		return 0
	}
	return n
}

// sum is the number of states.
func (c *counts) sum() (n int) {
	for _, p := range c.n {
		n += int(max(p, -p))
	}
	return n
}

// append writes the description of a table.
func (c *counts) append(b []byte) []byte {
	w := bitWriter{b: b}
	w.add(uint64(c.log-minFSELog), 4)
	left := 1<<c.log + 1
	for i := 0; i < len(c.n) && left > 1; i++ {
		p := int(c.n[i])
		width := uint(bits.Len(uint(left)))
		small := 1<<width - 1 - left
		v := p + 1
		switch {
		case v < small:
			w.add(uint64(v), width-1)
		case v < 1<<(width-1):
			w.add(uint64(v), width)
		default:
			w.add(uint64(v+small), width)
		}
		left -= max(p, -p)
		if p != 0 {
			continue
		}
		zeros := 0
		for i+1 < len(c.n) && c.n[i+1] == 0 {
			zeros++
			i++
		}
		for ; zeros >= 3; zeros -= 3 {
			w.add(3, 2)
		}
		w.add(uint64(zeros), 2)
	}
	w.pad()
	return w.b
}

// spread calls place with each state of a table and its symbol: rare symbols have the last states, and
// the others are strewn over the rest (RFC 8878, 4.1.1).
func (c *counts) spread(place func(state, symbol int)) {
	size := 1 << c.log
	high := size
	for s, p := range c.n {
		if p == -1 {
			high--
			place(high, s)
		}
	}
	at := 0
	for s, p := range c.n {
		for range max(p, 0) {
			place(at, s)
			for {
				if at = (at + size>>1 + size>>3 + 3) & (size - 1); at < high {
					break
				}
			}
		}
	}
}

// fseState is what a decoder does in a state.
type fseState struct {
	symbol uint8
	bits   uint8  // that are read for the next state
	base   uint16 // that is added to them
}

// fseDecoder is a table of states.
type fseDecoder struct {
	log    uint
	states [1 << maxFSELog]fseState
}

func (d *fseDecoder) build(c *counts) {
	d.log = c.log
	size := 1 << c.log
	c.spread(func(state, symbol int) { d.states[state].symbol = uint8(symbol) })
	var next [256]int
	for s, p := range c.n {
		next[s] = int(max(p, -p))
	}
	for i := range size {
		x := &d.states[i]
		n := next[x.symbol]
		next[x.symbol]++
		x.bits = uint8(int(c.log) - bits.Len(uint(n)) + 1)
		x.base = uint16(n<<x.bits - size)
	}
}

// one makes the table of a single symbol.
func (d *fseDecoder) one(symbol uint8) {
	d.log = 0
	d.states[0] = fseState{symbol: symbol}
}

// fseSymbol is what an encoder does with a symbol. A state, with the size of the table added, gives its
// lowest bits away until it is one of the symbol's count and twice that; then to names the next one.
type fseSymbol struct {
	bits  uint8
	limit uint32 // states below give a bit less
	to    int    // index of the first state of the symbol, less its count
}

// fseEncoder is the opposite of fseDecoder.
type fseEncoder struct {
	log     uint
	symbols [256]fseSymbol
	states  [1 << maxFSELog]uint16
}

func (e *fseEncoder) build(c *counts) {
	e.log = c.log
	size := 1 << c.log
	clear(e.symbols[:])
	var symbol [1 << maxFSELog]uint8
	c.spread(func(state, s int) { symbol[state] = uint8(s) })
	var next [256]int
	at := 0
	for s, p := range c.n {
		n := int(max(p, -p))
		if n == 0 {
			continue
		}
		k := c.log
		if n > 1 {
			k -= uint(bits.Len(uint(n-1)) - 1)
		}
		e.symbols[s] = fseSymbol{bits: uint8(k), limit: uint32(n) << k, to: at - n}
		next[s] = at
		at += n
	}
	for i := range size {
		s := symbol[i]
		e.states[next[s]] = uint16(size + i)
		next[s]++
	}
}

// one makes the table of a single symbol.
func (e *fseEncoder) one(s uint8) {
	e.log = 0
	clear(e.symbols[:])
	e.symbols[s] = fseSymbol{limit: 1, to: -1}
	e.states[0] = 1
}

// has says whether a symbol has a state.
func (e *fseEncoder) has(s uint8) bool { return e.symbols[s].limit > 0 }

// first is the state with which a symbol is written first, the last one to be read.
func (e *fseEncoder) first(s uint8) uint32 {
	x := &e.symbols[s]
	return uint32(e.states[x.to+int(x.limit>>x.bits)])
}

// next writes what leads from a state before which a symbol is read, and returns that of the symbol.
func (e *fseEncoder) next(w *bitWriter, state uint32, s uint8) uint32 {
	x := &e.symbols[s]
	k := uint(x.bits)
	if state < x.limit {
		k--
	}
	w.add(uint64(state)&(1<<k-1), k)
	return uint32(e.states[x.to+int(state>>k)])
}

// end writes the state that is read first.
func (e *fseEncoder) end(w *bitWriter, state uint32) {
	w.add(uint64(state)&(1<<e.log-1), e.log)
}
