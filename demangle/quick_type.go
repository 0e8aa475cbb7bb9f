package demangle

import "strings"

// quickBuiltin are the builtin types by their codes.
var quickBuiltin = [26]string{
	'v' - 'a': "void", 'w' - 'a': "wchar_t", 'b' - 'a': "bool", 'c' - 'a': "char", 0: "signed char",
	'h' - 'a': "unsigned char", 's' - 'a': "short", 't' - 'a': "unsigned short", 'i' - 'a': "int", 'j' - 'a': "unsigned int",
	'l' - 'a': "long", 'm' - 'a': "unsigned long", 'x' - 'a': "long long", 'y' - 'a': "unsigned long long",
	'n' - 'a': "__int128", 'o' - 'a': "unsigned __int128", 'f' - 'a': "float", 'd' - 'a': "double", 'e' - 'a': "long double", 'z' - 'a': "...",
}

// typ reads a type.
func (q *quick) typ() quickType {
	if !q.enter() {
		return quickType{}
	}
	t := q.typeOf(q.peek())
	q.leave()
	return t
}

// typeOf reads a type that begins with c.
func (q *quick) typeOf(c byte) quickType {
	if c >= 'a' && c <= 'z' {
		if q.i++; quickBuiltin[c-'a'] == "" {
			q.fail()
		}
		return q.text(quickBuiltin[c-'a'])
	}
	switch c {
	case 'P', 'R', 'O':
		return q.pointer()
	case 'K':
		q.i++
		t := q.typ()
		if t.kind != plainType || t.bare {
			q.fail()
			return t
		}
		t = q.mark(t, " const")
		t.last, t.kind, t.param = span{}, constType, false
		q.add(t)
		return t
	case 'N':
		return q.nested(inType).quickType
	case 'Z':
		return q.local(inType).quickType
	case 'T':
		return q.param()
	case 'F':
		return q.function("")
	case 'A':
		return q.array()
	case 'M':
		return q.memberPointer()
	case 'S':
		if q.after() != 't' {
			return q.substitute()
		}
		return q.unscoped(inType).quickType
	case 'D':
		if q.after() == 'n' {
			q.i += 2
			return q.text("std::nullptr_t")
		}
	}
	if c >= '1' && c <= '9' {
		return q.unscoped(inType).quickType
	}
	q.fail()
	return quickType{}
}

// substitute reads a substitution as a type, with template arguments if it has some.
func (q *quick) substitute() quickType {
	code := q.after()
	t := q.substitution()
	if q.peek() != 'I' {
		if code == 'a' || code == 'b' {
			q.fail()
		}
		return t
	}
	if t.kind != plainType || t.last.empty() {
		q.fail()
		return t
	}
	t = q.templateArgs(t, inType)
	q.add(t)
	return t
}

// pointer reads a pointer or a reference.
func (q *quick) pointer() quickType {
	c := q.peek()
	q.i++
	t := q.typ()
	param := t.param
	t.last, t.param = span{}, false
	isRef := t.kind == leftRef || t.kind == rightRef
	switch {
	case q.bad:
		return t
	case t.kind == lostType, isRef && (!param || c == 'P'), isRef && t.mid != t.hi:
		q.fail()
	case c == 'P':
		t = q.mark(t, "*")
		t.kind = plainType
	case c == 'R' && t.kind == rightRef:
		t.hi--
		t.mid--
		t.kind = leftRef
	case isRef:
	case c == 'R':
		t = q.mark(t, "&")
		t.kind = leftRef
	default:
		t = q.mark(t, "&&")
		t.kind = rightRef
	}
	q.add(t)
	return t
}

// function reads the type of a function. qualifiers follow its parameters.
func (q *quick) function(qualifiers string) quickType {
	q.need('F')
	if q.peek() == 'Y' {
		q.fail()
		return quickType{}
	}
	t := q.typ()
	if q.bad || t.mid != t.hi {
		q.fail()
		return t
	}
	t = q.atEnd(t)
	q.write(" ")
	left := q.end() - t.lo
	q.write("(")
	lo := q.types(t.lo, func() bool { return q.peek() == 'E' })
	q.need('E')
	q.write(")")
	q.write(qualifiers)
	t = q.since(lo)
	t.mid, t.bare = lo+left, true
	q.add(t)
	return t
}

// array reads the type of an array with one bound.
func (q *quick) array() quickType {
	q.need('A')
	from := q.i
	for q.peek() >= '0' && q.peek() <= '9' {
		q.i++
	}
	bound := q.s[from:q.i]
	if bound == "" || bound[0] == '0' {
		q.fail()
	}
	q.need('_')
	t := q.typ()
	if q.bad || t.mid != t.hi || t.kind == leftRef || t.kind == rightRef || t.kind == lostType {
		q.fail()
		return t
	}
	t = q.atEnd(t)
	q.write(" ")
	mid := q.end()
	q.write("[")
	q.write(bound)
	q.write("]")
	t = q.since(t.lo)
	t.mid, t.bare = mid, true
	q.add(t)
	return t
}

// memberPointer reads a pointer to a member.
func (q *quick) memberPointer() quickType {
	q.need('M')
	class := q.typ()
	if class.kind != plainType || class.mid != class.hi {
		q.fail()
		return class
	}
	var t quickType
	if q.peek() == 'K' && q.after() == 'F' {
		q.i++
		t = q.function(" const")
	} else if q.peek() == 'F' {
		t = q.function("")
	} else {
		q.fail()
	}
	if q.bad {
		return t
	}
	lo := q.end()
	q.copy(span{t.lo, t.mid})
	q.write("(")
	q.copy(class.span)
	q.write("::*")
	mid := q.end()
	q.write(")")
	q.copy(span{t.mid, t.hi})
	t = q.since(lo)
	t.mid = mid
	q.add(t)
	return t
}

// param reads a template parameter.
func (q *quick) param() quickType {
	t := q.argument()
	if q.bad || q.peek() == 'I' {
		q.fail()
		return t
	}
	t.last, t.param = span{}, true
	q.add(t)
	return t
}

// argument reads a template parameter and returns what it stands for.
func (q *quick) argument() quickType {
	q.need('T')
	n := q.sequence(10)
	if q.bad || !q.known || n >= len(q.args) {
		q.fail()
		return quickType{}
	}
	a := q.args[n]
	if !a.isPack {
		return a.quickType
	}
	pack := q.packs[a.lo:a.hi]
	if q.item == 0 || q.count >= 0 && q.count != len(pack) {
		q.fail()
		return quickType{}
	}
	if q.count = len(pack); q.item <= len(pack) {
		return pack[q.item-1]
	}
	return q.text("?") // of an empty pack
}

// templateArgs reads template arguments, adds them to the text of t, and returns it.
// Those of the symbol itself are kept for its parameters.
func (q *quick) templateArgs(t quickType, where place) quickType {
	if !q.enter() {
		return t
	}
	defer q.leave()
	q.need('I')
	if where == inSymbol {
		q.args, q.packs = q.args[:0], q.packs[:0]
	}
	last := t.last
	t = q.atEnd(t)
	q.write("<")
	l := list{lo: t.lo}
	some := false
	var arg quickType
	read := func() (quickType, bool) {
		arg = q.templateArg()
		return arg, true
	}
	for !q.bad && !q.take('E') {
		some = true
		switch q.peek() {
		case 'J':
			q.i++
			a := templateArg{isPack: true, lo: len(q.packs)}
			for !q.bad && !q.take('E') {
				if strings.HasPrefix(q.s[q.i:], "DpT") && where != inSymbol {
					n := l.n
					if q.element(&l); l.n == n {
						q.fail() // the library writes a comma for an empty one
					}
				} else if q.one(&l, read); where == inSymbol {
					q.packs = append(q.packs, arg)
				}
			}
			if a.hi = len(q.packs); where == inSymbol {
				q.args = append(q.args, a)
			}
		default:
			if q.peek() == 'D' && q.after() == 'p' {
				q.fail() // the library writes parentheses
			}
			if q.one(&l, read); where == inSymbol {
				q.args = append(q.args, templateArg{quickType: arg})
			}
		}
	}
	if !some {
		q.fail()
	}
	q.write(">")
	t = q.since(l.lo)
	t.last = last
	return t
}

// quickLiterals are the endings of numbers of a type.
var quickLiterals = map[byte]string{'i': "", 'j': "u", 'l': "l", 'm': "ul", 'x': "ll", 'y': "ull"}

// templateArg reads a type, a number or a template parameter that stands for a number.
func (q *quick) templateArg() quickType {
	if q.peek() == 'X' && q.after() == 'T' {
		q.i++
		t := q.argument()
		q.need('E')
		return t
	}
	if !q.take('L') {
		return q.typ()
	}
	return q.literal()
}

// literal reads a number after its L.
func (q *quick) literal() quickType {
	c := q.peek()
	suffix, whole := quickLiterals[c]
	lo := q.end()
	switch {
	case c == 'b':
		q.i++
		text := "false"
		if q.take('1') {
			text = "true"
		} else {
			q.need('0')
		}
		q.need('E')
		return q.text(text)
	case whole:
		q.i++
	case c == 'N' || c == 'S' || c >= '1' && c <= '9':
		t := q.typ()
		lo = q.end()
		q.write("(")
		q.copy(t.span)
		q.write(")")
	default:
		q.fail()
	}
	if q.take('n') {
		q.write("-")
	}
	from := q.i
	for q.peek() >= '0' && q.peek() <= '9' {
		q.i++
	}
	if q.i == from {
		q.fail()
	}
	q.write(q.s[from:q.i])
	q.write(suffix)
	q.need('E')
	return q.since(lo)
}
