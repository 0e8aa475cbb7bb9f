package demangle

import (
	"strconv"
	"strings"
	"sync"
)

// backrefs are the names and types that digits name.
type backrefs struct {
	names [maxBack]*msPart
	keys  [maxBack]string // the decorated text of each name
	named int
	types [maxBack]*msType
	typed int
}

// msParser reads a decorated name. The first error ends all reading: the rest is
// empty from there on.
type msParser struct {
	in     string
	pos    int
	depth  int
	back   backrefs
	err    error
	failed int
	// skipAnonymous means that back-references do not count anonymous namespaces.
	skipAnonymous bool
	// countTemplates means that back-references count function templates, as in old
	// versions of MSVC.
	countTemplates bool
	// The nodes of the tree, in blocks: a block is replaced when it is full.
	parts   []msPart
	types   []msType
	sigs    []msSignature
	symbols []msSymbol
}

// nodeBlock is the number of nodes in a block. Most names have fewer.
const nodeBlock = 8

// part returns a new part of a name.
func (p *msParser) part(n msPart) *msPart { return node(&p.parts, n) }

// typ returns a new type.
func (p *msParser) typ(t msType) *msType { return node(&p.types, t) }

func node[T any](block *[]T, n T) *T {
	if len(*block) == cap(*block) {
		*block = make([]T, 0, nodeBlock)
	}
	*block = append(*block, n)
	return &(*block)[len(*block)-1]
}

// msParsers are parsers whose blocks of nodes are used again.
var msParsers = sync.Pool{New: func() any { return &msParser{} }}

// parse reads a whole name. It reads it again if back-references count in another way than most
// compilers have it.
func (p *msParser) parse(raw string) *msSymbol {
	p.restart(raw)
	s := p.whole()
	if p.err == nil {
		return s
	}
	failed, err := p.failed, p.err
	p.restart(raw)
	p.skipAnonymous, p.countTemplates = err == errRecount, err != errRecount
	if s = p.whole(); p.err != nil {
		p.failed, p.err = failed, err
	}
	return s
}

// restart makes the parser ready for a name. What it has returned is no longer valid.
func (p *msParser) restart(raw string) {
	clear(p.parts)
	clear(p.types)
	clear(p.sigs)
	clear(p.symbols)
	p.in, p.pos, p.depth, p.err, p.failed = raw, 0, 0, nil, 0
	p.back.named, p.back.typed, p.skipAnonymous, p.countTemplates = 0, 0, false, false
	p.parts, p.types, p.sigs, p.symbols = p.parts[:0], p.types[:0], p.sigs[:0], p.symbols[:0]
}

func (p *msParser) fail(err error) {
	if p.err == nil {
		p.err, p.failed = err, p.pos
	}
	p.pos = len(p.in)
}

func (p *msParser) malformed() { p.fail(errFormat) }

// rest is the part that was not read yet.
func (p *msParser) rest() string { return p.in[p.pos:] }

// peek returns the next byte, and 0 at the end.
func (p *msParser) peek() byte {
	if p.pos < len(p.in) {
		return p.in[p.pos]
	}
	return 0
}

// next reads one byte. It fails at the end.
func (p *msParser) next() byte {
	if p.pos >= len(p.in) {
		p.malformed()
		return 0
	}
	p.pos++
	return p.in[p.pos-1]
}

// has reports whether s follows, and reads it.
func (p *msParser) has(s string) bool {
	if !strings.HasPrefix(p.rest(), s) {
		return false
	}
	p.pos += len(s)
	return true
}

// want reads s, which must follow.
func (p *msParser) want(s string) {
	if !p.has(s) {
		p.malformed()
	}
}

// until reads up to the byte c, which must follow, and returns what is before it.
func (p *msParser) until(c byte) string {
	i := strings.IndexByte(p.rest(), c)
	if i < 0 {
		p.malformed()
		return ""
	}
	s := p.rest()[:i]
	p.pos += i + 1
	return s
}

// enter counts a level of nesting. Its result says whether to go on; leave must
// be called if it does.
func (p *msParser) enter() bool {
	if p.err != nil {
		return false
	}
	if p.depth >= maxDepth {
		p.fail(errDepth)
		return false
	}
	p.depth++
	return true
}

func (p *msParser) leave() { p.depth-- }

// number reads a number and returns its decimal digits.
func (p *msParser) number() string {
	negative, n := p.digits()
	if negative {
		return "-" + strconv.FormatUint(n, 10)
	}
	return strconv.FormatUint(n, 10)
}

// unsigned reads a number that is not negative.
func (p *msParser) unsigned() uint64 {
	negative, n := p.digits()
	if negative {
		p.malformed()
	}
	return n
}

// signed reads a number of 64 bits.
func (p *msParser) signed() int64 {
	negative, n := p.digits()
	if negative {
		return -int64(n)
	}
	return int64(n)
}

// digits reads a number: a digit stands for one more than it says, and the
// letters A to P are hexadecimal digits, up to '@'.
func (p *msParser) digits() (negative bool, n uint64) {
	negative = p.has("?")
	c := p.next()
	if '0' <= c && c <= '9' {
		return negative, uint64(c-'0') + 1
	}
	for i := 0; p.err == nil; i++ {
		switch {
		case c == '@' && i > 0:
			return negative, n
		case c < 'A' || c > 'P' || i >= 16:
			p.malformed()
			return false, 0
		}
		n = n<<4 | uint64(c-'A')
		c = p.next()
	}
	return false, 0
}
