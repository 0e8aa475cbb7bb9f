package demangle

import (
	"strings"
	"sync"
)

// Limits of the quick demangler. It leaves names beyond them to the library.
const (
	quickLength = 2 << 10  // bytes of a name
	quickRoom   = 32 << 10 // bytes of all texts made for one name
	quickSubs   = 256
	quickDepth  = 48
)

// quicks are states for names, with the memory of earlier ones.
var quicks = sync.Pool{New: func() any { return new(quick) }}

// quickly demangles names of the Itanium C++ ABI of the common shapes: nested names,
// templates, operators, lambdas, special names, and types other than vectors and
// expressions. ok is false for all others, which the library demangles. The result is
// that of the library in LLVM's style without return type.
//
// The library builds a tree of each name, which takes more than ten times as long.
func quickly(name string) (shown string, ok bool) {
	if len(name) > quickLength || !strings.HasPrefix(name, "_Z") {
		return "", false
	}
	q := quicks.Get().(*quick)
	*q = quick{s: name, i: 2, buf: q.buf[:0], subs: q.subs[:0], args: q.args[:0], packs: q.packs[:0]}
	t := q.symbol()
	if ok = !q.bad && q.i == len(name) && t.hi > t.lo; ok {
		shown = string(q.buf[t.lo:t.hi])
	}
	q.s = ""
	quicks.Put(q)
	return shown, ok
}

// The kinds of a quickType.
const (
	plainType = iota
	constType
	leftRef
	rightRef
	lostType // has no text of its own
)

// Where the name of an encoding is.
type place uint8

const (
	inSymbol place = iota // it is the name of the symbol
	inName                // of a function in which something else is
	inType                // of a type
)

// span is a part of quick.buf.
type span struct{ lo, hi int32 }

func (s span) empty() bool { return s.lo == s.hi }

// quickType is a type or a name that a substitution can mean.
type quickType struct {
	span
	// mid is where the marks of pointers and references to the type go: behind it, or, for
	// functions and arrays, before the parameters and the bounds.
	mid  int32
	last span // the last name in it, without template arguments
	kind uint8
	// bare is true for functions and arrays: a pointer to one has parentheses.
	bare bool
	// param is true for what a template parameter stands for: references to references
	// merge.
	param bool
}

// templateArg is a template argument: a type, or a pack of types.
type templateArg struct {
	quickType
	isPack bool
	lo, hi int // of a pack, in quick.packs
}

// quick is the state of one name. After anything unusual it is bad. All texts are parts
// of buf, which only grows: a text at its end becomes a longer one in place, and a
// substitution that means the shorter one stays true.
type quick struct {
	s     string
	i     int
	depth int
	bad   bool
	buf   []byte
	subs  []quickType
	args  []templateArg // of the function template, for its parameters
	packs []quickType
	known bool // args are set
	item  int  // the element of packs during an expansion, plus 1
	count int  // elements of the packs of the expansion; -1 if none was met
}

func (q *quick) fail() { q.bad, q.i = true, len(q.s) }

// peek returns the next character, or 0.
func (q *quick) peek() byte {
	if q.i < len(q.s) {
		return q.s[q.i]
	}
	return 0
}

// after returns the character after the next one, or 0.
func (q *quick) after() byte {
	if q.i+1 < len(q.s) {
		return q.s[q.i+1]
	}
	return 0
}

// take takes the next character if it is c.
func (q *quick) take(c byte) bool {
	if q.peek() != c {
		return false
	}
	q.i++
	return true
}

func (q *quick) need(c byte) {
	if !q.take(c) {
		q.fail()
	}
}

func (q *quick) add(t quickType) {
	if len(q.subs) >= quickSubs {
		q.fail()
		return
	}
	q.subs = append(q.subs, t)
}

// enter bounds the depth; leave ends it.
func (q *quick) enter() bool {
	if q.depth++; q.depth > quickDepth {
		q.fail()
	}
	return !q.bad
}

func (q *quick) leave() { q.depth-- }

// write appends to the end of buf.
func (q *quick) write(s string) {
	if len(q.buf)+len(s) > quickRoom {
		q.fail()
		return
	}
	q.buf = append(q.buf, s...)
}

// copy appends a part of buf to its end.
func (q *quick) copy(s span) {
	if len(q.buf)+int(s.hi-s.lo) > quickRoom {
		q.fail()
		return
	}
	q.buf = append(q.buf, q.buf[s.lo:s.hi]...)
}

func (q *quick) end() int32 { return int32(len(q.buf)) }

// since returns the type whose text reaches from lo to the end of buf.
func (q *quick) since(lo int32) quickType {
	return quickType{span: span{lo, q.end()}, mid: q.end()}
}

// text returns the type with a text.
func (q *quick) text(s string) quickType {
	lo := q.end()
	q.write(s)
	return q.since(lo)
}

// atEnd brings the text of t to the end of buf, where it can become longer.
func (q *quick) atEnd(t quickType) quickType {
	if t.hi == q.end() {
		return t
	}
	lo := q.end()
	q.copy(t.span)
	t.mid += lo - t.lo
	t.span = span{lo, q.end()}
	return t
}

// mark puts a mark such as "*" where those of t go.
func (q *quick) mark(t quickType, mark string) quickType {
	switch {
	case t.bare:
		lo := q.end()
		q.copy(span{t.lo, t.mid})
		q.write("(")
		q.write(mark)
		mid := q.end()
		q.write(")")
		if q.buf[t.mid] == '[' {
			q.write(" ")
		}
		q.copy(span{t.mid, t.hi})
		t.span, t.mid, t.bare = span{lo, q.end()}, mid, false
	case t.mid != t.hi:
		lo := q.end()
		q.copy(span{t.lo, t.mid})
		q.write(mark)
		mid := q.end()
		q.copy(span{t.mid, t.hi})
		t.span, t.mid = span{lo, q.end()}, mid
	default:
		t = q.atEnd(t)
		q.write(mark)
		t.hi = q.end()
		t.mid = t.hi
	}
	return t
}

// list is a list with commas. Its text begins at lo, with what is before the elements,
// and is at the end of buf.
type list struct {
	lo int32
	n  int // elements
}

// one adds the element that read reads, if it returns true.
func (q *quick) one(l *list, read func() (quickType, bool)) {
	from := len(q.buf)
	if l.n > 0 {
		q.write(", ")
	}
	at := q.end()
	t, ok := read()
	if q.bad {
		return
	}
	if !ok {
		q.buf = q.buf[:from]
		return
	}
	l.n++
	switch {
	case t.kind == lostType:
		q.fail()
	case t.lo == at && t.hi == q.end():
	case q.end() == at:
		q.copy(t.span)
	default: // the element left other texts: the list begins anew behind them
		lo := q.end()
		q.copy(span{l.lo, at})
		q.copy(t.span)
		l.lo = lo
	}
}

// quickSpecials are the names that say what a symbol is for, and what follows: a type, or
// the name of something.
var quickSpecials = map[string]string{
	"TV": "vtable for ", "TT": "VTT for ", "TI": "typeinfo for ", "TS": "typeinfo name for ",
}

// symbol reads what follows "_Z".
func (q *quick) symbol() quickType {
	if q.peek() != 'T' {
		return q.encoding(inSymbol)
	}
	code := ""
	if q.i+2 <= len(q.s) {
		code = q.s[q.i : q.i+2]
	}
	prefix, ok := quickSpecials[code]
	if !ok {
		q.fail()
		return quickType{}
	}
	q.i += 2
	lo := q.end()
	q.write(prefix)
	at := q.end()
	t := q.typ()
	if t.bare {
		q.fail() // dropReturn changes the type of a function
	}
	if t.lo != at || t.hi != q.end() {
		lo = q.end()
		q.write(prefix)
		q.copy(t.span)
	}
	return q.since(lo)
}

// fullName is the name in an encoding.
type fullName struct {
	quickType
	templated bool   // it ends with template arguments
	structor  bool   // a constructor or destructor
	suffix    string // " const"
}

// encoding reads a function or a variable.
func (q *quick) encoding(where place) quickType {
	if !q.enter() {
		return quickType{}
	}
	defer q.leave()
	n := q.name(where)
	done := func() bool { return q.i == len(q.s) || where == inName && q.peek() == 'E' }
	if q.bad {
		return quickType{}
	}
	if done() {
		if n.suffix != "" {
			q.fail()
		}
		return n.quickType
	}
	if n.templated {
		if where != inSymbol {
			q.fail()
			return quickType{}
		}
		q.known = true
		if !n.structor {
			q.typ() // what it returns
		}
	}
	t := q.atEnd(n.quickType)
	q.write("(")
	lo := q.types(t.lo, done)
	q.write(")")
	q.write(n.suffix)
	return q.since(lo)
}

// types reads types up to an end and appends them, with commas, to the text that begins
// at lo, which may move. One type void is no parameter.
func (q *quick) types(lo int32, end func() bool) int32 {
	l := list{lo: lo}
	if q.peek() == 'v' {
		q.i++
		if end() {
			return lo
		}
		q.i--
	}
	for !q.bad && !end() {
		q.element(&l)
	}
	if l.n == 0 {
		q.fail()
	}
	return l.lo
}

// element reads a type or an expansion of a pack as elements of a list.
func (q *quick) element(l *list) {
	if q.peek() != 'D' || q.after() != 'p' {
		q.one(l, func() (quickType, bool) { return q.typ(), true })
		return
	}
	if q.item != 0 {
		q.fail()
		return
	}
	start, subs := q.i+2, len(q.subs)
	for k := 0; !q.bad; k++ {
		q.one(l, func() (quickType, bool) {
			q.i, q.item, q.count = start, k+1, -1
			t := q.typ()
			if q.count < 0 {
				q.fail()
			}
			return t, k < q.count
		})
		// What substitutions of the pattern mean is a pattern.
		for j := subs; j < len(q.subs); j++ {
			q.subs[j].kind = lostType
		}
		if k+1 >= q.count {
			break
		}
		q.subs = q.subs[:subs]
	}
	q.item = 0
	q.add(quickType{kind: lostType})
}

// name reads the name of an encoding.
func (q *quick) name(where place) fullName {
	switch q.peek() {
	case 'N':
		return q.nested(where)
	case 'Z':
		return q.local(where)
	default:
		return q.unscoped(where)
	}
}

// local reads a local name: Z encoding E name.
func (q *quick) local(where place) fullName {
	if !q.enter() {
		return fullName{}
	}
	defer q.leave()
	q.need('Z')
	known := q.known
	q.known = false
	in := q.encoding(inName)
	q.known = known
	q.need('E')
	if c := q.peek(); q.bad || c == 's' || c == 'd' {
		q.fail()
		return fullName{}
	}
	var n fullName
	if q.peek() == 'N' {
		n = q.nested(where)
	} else {
		n = fullName{quickType: q.unqualified()}
		if q.peek() == 'I' || q.peek() == '_' {
			q.fail()
		}
	}
	lo := q.end()
	q.copy(in.span)
	q.write("::")
	q.copy(n.span)
	last := n.last
	n.quickType = q.since(lo)
	n.last = last
	if where == inType && !q.bad {
		q.add(n.quickType)
	}
	return n
}

// unscoped reads a name without scopes, or in std.
func (q *quick) unscoped(where place) (n fullName) {
	switch {
	case q.peek() == 'S' && q.after() == 't':
		q.i += 2
		n.quickType = q.member(q.text("std"))
	case q.peek() == 'S':
		n.quickType = q.substitution()
		if q.peek() != 'I' {
			q.fail()
			return n
		}
		n.quickType, n.templated = q.templateArgs(n.quickType, where), true
		if where == inType {
			q.add(n.quickType)
		}
		return n
	default:
		n.quickType = q.unqualified()
	}
	if q.peek() == 'I' {
		q.add(n.quickType)
		n.quickType, n.templated = q.templateArgs(n.quickType, where), true
	}
	if where == inType && !q.bad {
		q.add(n.quickType)
	}
	return n
}

// member reads a name without scopes, of something in t.
func (q *quick) member(t quickType) quickType {
	t = q.atEnd(t)
	q.write("::")
	at := q.end()
	u := q.unqualified()
	if u.lo == at && u.hi == q.end() {
		m := q.since(t.lo)
		m.last = u.last
		return m
	}
	lo := q.end()
	q.copy(span{t.lo, at})
	q.copy(u.span)
	m := q.since(lo)
	m.last = u.last
	return m
}

// nested reads a nested name.
func (q *quick) nested(where place) (n fullName) {
	if !q.enter() {
		return n
	}
	defer q.leave()
	q.need('N')
	if q.take('K') {
		n.suffix = " const"
		q.refuse(where == inType)
	}
	var t quickType
	parts := 0
	for first := true; !q.bad; first = false {
		if q.take('E') {
			q.refuse(parts == 0)
			break
		}
		parts++
		switch c := q.peek(); {
		case c == 'S' && first:
			parts--
			t = q.scope()
			q.refuse(t.kind != plainType)
			n.templated = false
			continue
		case c == 'I' && (first || n.templated || t.last.empty()):
			q.fail()
		case c == 'I':
			if t, n.templated = q.templateArgs(t, where), true; n.structor {
				q.expectEnd()
			}
		case c == 'C' || c == 'D':
			q.refuse(t.last.empty() || where == inType)
			t = q.structor(t)
			n.structor, n.templated = true, false
			continue
		case first:
			q.refuse(c >= 'a' && c <= 'z') // an operator has a scope
			t, n.templated = q.unqualified(), false
		default:
			t, n.templated = q.member(t), false
		}
		if q.peek() != 'E' || where == inType {
			q.add(t)
		}
	}
	n.quickType = t
	return n
}

// refuse gives a name up that has what this reader does not know.
func (q *quick) refuse(unknown bool) {
	if unknown {
		q.fail()
	}
}

// expectEnd gives a name up that goes on.
func (q *quick) expectEnd() { q.refuse(q.peek() != 'E') }

// scope reads the substitution that begins a nested name.
func (q *quick) scope() quickType {
	if q.after() != 't' {
		return q.substitution()
	}
	q.i += 2
	return q.text("std")
}

// structor reads a constructor or destructor of t. Template arguments may follow.
func (q *quick) structor(t quickType) quickType {
	c, d := q.peek(), q.after()
	if c == 'C' && (d < '1' || d > '5') || c == 'D' && (d < '0' || d > '5' || d == '3') {
		q.fail()
		return t
	}
	q.i += 2
	last := t.last
	t = q.atEnd(t)
	q.write("::")
	from := q.end()
	if c == 'D' {
		q.write("~")
	}
	q.copy(last)
	t = q.since(t.lo)
	t.last = span{from, t.hi}
	switch q.peek() {
	case 'E':
	case 'I':
		q.add(t)
	default:
		q.fail()
	}
	return t
}

// quickOperators are the operators by their codes.
var quickOperators = map[string]string{
	"nw": " new", "na": " new[]", "dl": " delete", "da": " delete[]",
	"ng": "-", "ps": "+", "ad": "&", "de": "*", "co": "~", "pl": "+", "mi": "-", "ml": "*", "dv": "/", "rm": "%",
	"an": "&", "or": "|", "eo": "^", "aS": "=", "pL": "+=", "mI": "-=", "mL": "*=", "dV": "/=", "rM": "%=",
	"aN": "&=", "oR": "|=", "eO": "^=", "ls": "<<", "rs": ">>", "lS": "<<=", "rS": ">>=", "eq": "==", "ne": "!=",
	"lt": "<", "gt": ">", "le": "<=", "ge": ">=", "nt": "!", "aa": "&&", "oo": "||", "pp": "++", "mm": "--",
	"cm": ",", "pm": "->*", "pt": "->", "cl": "()", "ix": "[]",
}

// unqualified reads one name without scopes.
func (q *quick) unqualified() quickType {
	c := q.peek()
	if c == 'L' {
		q.i++ // of internal linkage
		if c = q.peek(); c < '0' || c > '9' {
			q.fail()
		}
	}
	switch {
	case c >= '1' && c <= '9':
		return q.identifier()
	case c == 'U':
		return q.closure()
	case c >= 'a' && c <= 'z' && q.i+2 <= len(q.s):
		op, ok := quickOperators[q.s[q.i:q.i+2]]
		q.i += 2
		if !ok || q.peek() == 'I' && strings.HasSuffix(op, "<") || q.peek() == 'B' {
			q.fail()
		}
		t := q.text("operator")
		q.write(op)
		t = q.since(t.lo)
		t.last = t.span
		return t
	}
	q.fail()
	return quickType{}
}

// identifier reads a name by its length.
func (q *quick) identifier() quickType {
	n := q.decimal()
	if n > len(q.s)-q.i {
		q.fail()
		return quickType{}
	}
	id := q.s[q.i : q.i+n]
	if q.i += n; q.peek() == 'B' {
		q.fail()
	}
	if len(id) >= 10 && id[0] == '_' && strings.HasPrefix(id, "_GLOBAL_") && id[9] == 'N' {
		if id != "_GLOBAL__N_1" {
			q.fail()
		}
		id = "(anonymous namespace)"
	} else {
		for k := range len(id) {
			if b := id[k]; b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') && (b < '0' || b > '9') {
				q.fail()
			}
		}
	}
	t := q.text(id)
	t.last = t.span
	return t
}

// closure reads the name of a lambda.
func (q *quick) closure() quickType {
	if q.after() != 'l' || !q.enter() {
		q.fail()
		return quickType{}
	}
	defer q.leave()
	q.i += 2
	known := q.known
	q.known = false // a parameter of a template would be auto
	lo := q.types(q.end(), func() bool { return q.peek() == 'E' })
	params := q.since(lo)
	q.known = known
	q.need('E')
	from := q.i
	for q.peek() >= '0' && q.peek() <= '9' {
		q.i++
	}
	number := q.s[from:q.i]
	if len(number) > 1 && number[0] == '0' {
		q.fail()
	}
	q.need('_')
	t := q.text("'lambda")
	q.write(number)
	q.write("'(")
	q.copy(params.span)
	q.write(")")
	return q.since(t.lo)
}

// decimal reads a number without leading zeros.
func (q *quick) decimal() (n int) {
	if c := q.peek(); c < '1' || c > '9' {
		q.fail()
	}
	for q.peek() >= '0' && q.peek() <= '9' {
		if n = n*10 + int(q.peek()-'0'); n > quickLength {
			q.fail()
			return 0
		}
		q.i++
	}
	return n
}

// sequence reads the number of a substitution or a template parameter, up to "_".
func (q *quick) sequence(base int) (n int) {
	if q.take('_') {
		return 0
	}
	for !q.bad && !q.take('_') {
		c := q.peek()
		switch {
		case c >= '0' && c <= '9':
			n = n*base + int(c-'0')
		case base == 36 && c >= 'A' && c <= 'Z':
			n = n*base + int(c-'A') + 10
		default:
			q.fail()
			return 0
		}
		if q.i++; n > 1<<12 {
			q.fail()
		}
	}
	return n + 1
}

// substitution reads what S and its number mean.
func (q *quick) substitution() quickType {
	q.need('S')
	switch q.peek() {
	case 'a':
		q.i++
		return q.std("std::allocator")
	case 'b':
		q.i++
		return q.std("std::basic_string")
	}
	n := q.sequence(36)
	if n >= len(q.subs) {
		q.fail()
		return quickType{}
	}
	t := q.subs[n]
	if t.kind == lostType {
		q.fail()
	}
	return t
}

// std returns a template of std.
func (q *quick) std(name string) quickType {
	t := q.text(name)
	t.last = span{t.lo + int32(len("std::")), t.hi}
	return t
}
