package demangle

import "strings"

// Limits of the quick demangler. It leaves names beyond them to the library.
const (
	quickLength = 1 << 10 // bytes of a name, and of each text made from it
	quickDepth  = 48
)

// quickly demangles names of the Itanium C++ ABI of the common shapes: nested names,
// templates, operators, lambdas, and types without function types, arrays, member
// pointers and expressions. ok is false for all others, which the library demangles.
// The result is that of the library in LLVM's style without return type.
//
// The library builds a tree of each name, which takes ten times as long.
func quickly(name string) (shown string, ok bool) {
	if len(name) > quickLength || !strings.HasPrefix(name, "_Z") {
		return "", false
	}
	q := quick{s: name, i: 2}
	q.subs = q.room[:0]
	shown = q.encoding(true)
	return shown, !q.bad && q.i == len(name) && shown != ""
}

// The kinds of a quickType.
const (
	plainType = iota
	constType
	leftRef
	rightRef
	lostType // has no text of its own
)

// quickType is a type or a name that a substitution can mean.
type quickType struct {
	text string
	last string // the last name in it, without template arguments
	kind uint8
	// param is true for what a template parameter stands for: references to references
	// merge.
	param bool
}

// templateArg is a template argument: a type, or a pack of types.
type templateArg struct {
	quickType
	pack   []quickType
	isPack bool
}

// quick is the state of one name. After anything unusual it is bad.
type quick struct {
	s     string
	i     int
	depth int
	bad   bool
	subs  []quickType
	args  []templateArg // of the function template, for its parameters
	known bool          // args are set
	item  int           // the element of packs during an expansion, plus 1
	count int           // elements of the packs of the expansion; -1 if none was met
	room  [24]quickType
}

func (q *quick) fail() { q.bad, q.i = true, len(q.s) }

// peek returns the next character, or 0.
func (q *quick) peek() byte {
	if q.i < len(q.s) {
		return q.s[q.i]
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
	if len(t.text) > quickLength || len(q.subs) > 256 {
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

// fullName is the name in an encoding.
type fullName struct {
	quickType
	args      []templateArg // if it ends with template arguments
	templated bool
	structor  bool   // a constructor or destructor
	suffix    string // " const"
}

// encoding reads a function or a variable. top is false inside a local name.
func (q *quick) encoding(top bool) string {
	if !q.enter() {
		return ""
	}
	defer q.leave()
	n := q.name()
	if q.bad || len(n.text) > quickLength {
		q.fail()
		return ""
	}
	if q.i == len(q.s) || !top && q.peek() == 'E' {
		if n.suffix != "" {
			q.fail()
		}
		return n.text
	}
	if n.templated {
		if !top {
			q.fail()
			return ""
		}
		q.args, q.known = n.args, true
		if !n.structor {
			q.typ() // what it returns
		}
	}
	params := q.types(func() bool { return q.i == len(q.s) || !top && q.peek() == 'E' })
	return n.text + "(" + params + ")" + n.suffix
}

// types reads types up to an end and returns them with commas. One type void is no
// parameter.
func (q *quick) types(end func() bool) string {
	var b []byte
	n := 0
	for !q.bad && !end() {
		n++
		start, from := q.i, len(b)
		b = q.element(b)
		if len(b) > quickLength {
			q.fail()
		}
		if q.s[start:q.i] == "v" && from == 0 && n == 1 && end() {
			return ""
		}
	}
	if n == 0 {
		q.fail()
	}
	return string(b)
}

// element reads a type or an expansion of a pack, and appends it to b, after a comma
// if b has text.
func (q *quick) element(b []byte) []byte {
	one := func(t quickType) {
		if t.kind == lostType {
			q.fail()
		}
		if len(b) > 0 {
			b = append(b, ", "...)
		}
		b = append(b, t.text...)
	}
	if !strings.HasPrefix(q.s[q.i:], "Dp") {
		one(q.typ())
		return b
	}
	if q.item != 0 {
		q.fail()
		return b
	}
	start, subs := q.i+2, len(q.subs)
	for k := 0; !q.bad; k++ {
		q.i, q.item, q.count = start, k+1, -1
		t := q.typ()
		if q.count < 0 {
			q.fail()
		}
		// What substitutions of the pattern mean is a pattern.
		for j := subs; j < len(q.subs); j++ {
			q.subs[j].kind = lostType
		}
		if k >= q.count {
			break
		}
		one(t)
		if k+1 == q.count {
			break
		}
		q.subs = q.subs[:subs]
	}
	q.item = 0
	q.add(quickType{kind: lostType})
	return b
}

// name reads the name of an encoding.
func (q *quick) name() fullName {
	switch q.peek() {
	case 'N':
		return q.nested(false)
	case 'Z':
		return q.local(false)
	default:
		return q.unscoped(false)
	}
}

// local reads a local name: Z encoding E name.
func (q *quick) local(isType bool) fullName {
	if !q.enter() {
		return fullName{}
	}
	defer q.leave()
	q.need('Z')
	args, known := q.args, q.known
	q.args, q.known = nil, false
	in := q.encoding(false)
	q.args, q.known = args, known
	q.need('E')
	if c := q.peek(); q.bad || c == 's' || c == 'd' {
		q.fail()
		return fullName{}
	}
	var n fullName
	if q.peek() == 'N' {
		n = q.nested(isType)
	} else {
		first := q.unqualified()
		n = fullName{quickType: first}
		if q.peek() == 'I' || q.peek() == '_' {
			q.fail()
		}
	}
	n.text = in + "::" + n.text
	if isType && !q.bad {
		q.add(n.quickType)
	}
	return n
}

// unscoped reads a name without scopes, or in std.
func (q *quick) unscoped(isType bool) (n fullName) {
	if strings.HasPrefix(q.s[q.i:], "St") {
		q.i += 2
		t := q.unqualified()
		n.quickType = quickType{text: "std::" + t.text, last: t.last}
	} else if q.peek() == 'S' {
		n.quickType = q.substitution()
		if q.peek() != 'I' {
			q.fail()
			return n
		}
		n.args, n.templated = q.templateArgs(&n.quickType)
		if isType {
			q.add(n.quickType)
		}
		return n
	} else {
		n.quickType = q.unqualified()
	}
	if q.peek() == 'I' {
		q.add(n.quickType)
		n.args, n.templated = q.templateArgs(&n.quickType)
	}
	if isType && !q.bad {
		q.add(n.quickType)
	}
	return n
}

// nested reads a nested name.
func (q *quick) nested(isType bool) (n fullName) {
	if !q.enter() {
		return n
	}
	defer q.leave()
	q.need('N')
	if q.take('K') {
		n.suffix = " const"
	}
	if isType && n.suffix != "" {
		q.fail()
	}
	var t quickType
	parts := 0
	for first := true; !q.bad; first = false {
		if q.take('E') {
			if parts == 0 {
				q.fail()
			}
			break
		}
		fresh := true
		switch c := q.peek(); {
		case c == 'S' && first:
			if strings.HasPrefix(q.s[q.i:], "St") {
				q.i += 2
				t = quickType{text: "std"}
				n.templated = false
				continue
			}
			t = q.substitution()
			if t.kind != plainType {
				q.fail()
			}
			fresh = false
			parts--
		case c == 'I':
			if first || n.templated || t.last == "" {
				q.fail()
				break
			}
			n.args, n.templated = q.templateArgs(&t)
			if q.peek() != 'E' || isType {
				q.add(t)
			}
			parts++
			continue
		case c == 'C' || c == 'D':
			if q.i+1 >= len(q.s) || t.last == "" || isType {
				q.fail()
				break
			}
			d := q.s[q.i+1]
			if c == 'C' && (d < '1' || d > '3') || c == 'D' && (d < '0' || d > '2') {
				q.fail()
				break
			}
			q.i += 2
			parts++
			n.structor, n.templated, n.args = true, false, nil
			last := t.last
			if c == 'D' {
				last = "~" + last
			}
			t = quickType{text: t.text + "::" + last, last: last}
			if q.peek() != 'E' {
				q.fail()
			}
			continue
		default:
			u := q.unqualified()
			if !first {
				u.text = t.text + "::" + u.text
			}
			t = u
		}
		parts++
		n.templated, n.args = false, nil
		if fresh && (q.peek() != 'E' || isType) {
			q.add(t)
		}
	}
	n.quickType = t
	return n
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
		c = q.peek()
		if c < '0' || c > '9' {
			q.fail()
		}
	}
	switch {
	case c >= '1' && c <= '9':
		n := q.decimal()
		if n > len(q.s)-q.i {
			q.fail()
			return quickType{}
		}
		id := q.s[q.i : q.i+n]
		q.i += n
		if q.peek() == 'B' {
			q.fail()
		}
		if len(id) >= 10 && strings.HasPrefix(id, "_GLOBAL_") && id[9] == 'N' {
			if id != "_GLOBAL__N_1" {
				q.fail()
			}
			return quickType{text: "(anonymous namespace)", last: "(anonymous namespace)"}
		}
		for k := range len(id) {
			if b := id[k]; b != '_' && (b|0x20 < 'a' || b|0x20 > 'z') && (b < '0' || b > '9') {
				q.fail()
			}
		}
		return quickType{text: id, last: id}
	case c == 'U':
		return q.closure()
	case c >= 'a' && c <= 'z' && q.i+2 <= len(q.s):
		op, ok := quickOperators[q.s[q.i:q.i+2]]
		q.i += 2
		if !ok || q.peek() == 'I' && strings.HasSuffix(op, "<") || q.peek() == 'B' {
			q.fail()
		}
		return quickType{text: "operator" + op, last: "operator" + op}
	}
	q.fail()
	return quickType{}
}

// closure reads the name of a lambda.
func (q *quick) closure() quickType {
	if !strings.HasPrefix(q.s[q.i:], "Ul") || !q.enter() {
		q.fail()
		return quickType{}
	}
	defer q.leave()
	q.i += 2
	known := q.known
	q.known = false // a parameter of a template would be auto
	params := q.types(func() bool { return q.peek() == 'E' })
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
	text := "'lambda" + number + "'(" + params + ")"
	return quickType{text: text}
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
		return quickType{text: "std::allocator", last: "allocator"}
	case 'b':
		q.i++
		return quickType{text: "std::basic_string", last: "basic_string"}
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

// quickBuiltin are the builtin types by their codes.
var quickBuiltin = [26]string{
	'v' - 'a': "void", 'w' - 'a': "wchar_t", 'b' - 'a': "bool", 'c' - 'a': "char", 0: "signed char", 'h' - 'a': "unsigned char",
	's' - 'a': "short", 't' - 'a': "unsigned short", 'i' - 'a': "int", 'j' - 'a': "unsigned int", 'l' - 'a': "long", 'm' - 'a': "unsigned long",
	'x' - 'a': "long long", 'y' - 'a': "unsigned long long", 'n' - 'a': "__int128", 'o' - 'a': "unsigned __int128",
	'f' - 'a': "float", 'd' - 'a': "double", 'e' - 'a': "long double", 'z' - 'a': "...",
}

// typ reads a type.
func (q *quick) typ() quickType {
	if !q.enter() {
		return quickType{}
	}
	defer q.leave()
	c := q.peek()
	if c >= 'a' && c <= 'z' {
		t := quickType{text: quickBuiltin[c-'a']}
		if q.i++; t.text == "" {
			q.fail()
		}
		return t
	}
	switch {
	case c == 'P' || c == 'R' || c == 'O':
		q.i++
		t := q.typ()
		param := t.param
		t.last, t.param = "", false
		switch {
		case t.kind == lostType, (t.kind == leftRef || t.kind == rightRef) && !param:
			q.fail()
		case c == 'P':
			if t.kind == leftRef || t.kind == rightRef {
				q.fail()
			}
			t.text, t.kind = t.text+"*", plainType
		case c == 'R' && t.kind == rightRef:
			t.text, t.kind = strings.TrimSuffix(t.text, "&"), leftRef
		case t.kind == leftRef || t.kind == rightRef:
		case c == 'R':
			t.text, t.kind = t.text+"&", leftRef
		default:
			t.text, t.kind = t.text+"&&", rightRef
		}
		q.add(t)
		return t
	case c == 'K':
		q.i++
		t := q.typ()
		if t.kind != plainType {
			q.fail()
		}
		t = quickType{text: t.text + " const", kind: constType}
		q.add(t)
		return t
	case c == 'N':
		return q.nested(true).quickType
	case c == 'Z':
		return q.local(true).quickType
	case c == 'T':
		return q.param()
	case c == 'S' && !strings.HasPrefix(q.s[q.i:], "St"):
		t := q.substitution()
		if q.peek() != 'I' {
			if t.text == "std::allocator" || t.text == "std::basic_string" {
				q.fail()
			}
			return t
		}
		if t.kind != plainType || t.last == "" {
			q.fail()
		}
		q.templateArgs(&t)
		q.add(t)
		return t
	case c == 'S' || c >= '1' && c <= '9':
		return q.unscoped(true).quickType
	}
	q.fail()
	return quickType{}
}

// param reads a template parameter.
func (q *quick) param() quickType {
	q.need('T')
	n := q.sequence(10)
	if q.bad || !q.known || n >= len(q.args) || q.peek() == 'I' {
		q.fail()
		return quickType{}
	}
	a := q.args[n]
	t := a.quickType
	if a.isPack {
		if q.item == 0 {
			q.fail()
			return quickType{}
		}
		if q.count >= 0 && q.count != len(a.pack) {
			q.fail()
		}
		if q.count = len(a.pack); q.item <= len(a.pack) {
			t = a.pack[q.item-1]
		} else {
			t = quickType{text: "?"} // of an empty pack
		}
	}
	t.last, t.param = "", true
	q.add(t)
	return t
}

// templateArgs reads template arguments and adds them to the text of t.
func (q *quick) templateArgs(t *quickType) ([]templateArg, bool) {
	if !q.enter() {
		return nil, false
	}
	defer q.leave()
	q.need('I')
	var list []templateArg
	b := append(make([]byte, 0, 64), t.text...)
	b = append(b, '<')
	first := true
	put := func(a quickType) {
		if !first {
			b = append(b, ", "...)
		}
		first = false
		b = append(b, a.text...)
		if a.kind == lostType || len(b) > quickLength {
			q.fail()
		}
	}
	for !q.bad && !q.take('E') {
		switch q.peek() {
		case 'J':
			q.i++
			a := templateArg{isPack: true}
			for !q.bad && !q.take('E') {
				x := q.templateArg()
				a.pack = append(a.pack, x)
				put(x)
			}
			list = append(list, a)
		case 'D':
			q.fail()
		default:
			x := q.templateArg()
			list = append(list, templateArg{quickType: x})
			put(x)
		}
	}
	if len(list) == 0 {
		q.fail()
	}
	t.text = string(append(b, '>'))
	return list, true
}

// quickLiterals are the endings of numbers of a type.
var quickLiterals = map[byte]string{'i': "", 'j': "u", 'l': "l", 'm': "ul", 'x': "ll", 'y': "ull"}

// templateArg reads a type or a number.
func (q *quick) templateArg() quickType {
	if !q.take('L') {
		return q.typ()
	}
	c := q.peek()
	suffix, whole := quickLiterals[c]
	text := ""
	switch {
	case c == 'b':
		q.i++
		switch {
		case q.take('0'):
			text = "false"
		case q.take('1'):
			text = "true"
		default:
			q.fail()
		}
		q.need('E')
		return quickType{text: text}
	case whole:
		q.i++
	case c == 'N' || c == 'S' || c >= '1' && c <= '9':
		text = "(" + q.typ().text + ")"
	default:
		q.fail()
	}
	if q.take('n') {
		text += "-"
	}
	from := q.i
	for q.peek() >= '0' && q.peek() <= '9' {
		q.i++
	}
	if q.i == from {
		q.fail()
	}
	text += q.s[from:q.i] + suffix
	q.need('E')
	return quickType{text: text}
}
