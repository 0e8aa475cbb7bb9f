package demangle

import (
	"math"
	"strconv"
	"strings"
)

// symbolName reads the qualified name of a function or variable.
func (p *msParser) symbolName() msName {
	leaf := p.leafName()
	name := p.scopes(leaf)
	if leaf != nil && leaf.isStructor() {
		if len(name) < 2 {
			p.malformed()
			return name
		}
		leaf.class = name[1]
	}
	return name
}

// leafName reads the innermost part of a symbol's name.
func (p *msParser) leafName() *msPart {
	from := p.pos
	switch c := p.peek(); {
	case '0' <= c && c <= '9':
		return p.backName()
	case p.has("?$"):
		n := p.template(true)
		if p.countTemplates {
			p.remember(p.in[from:p.pos], n)
		}
		return n
	case p.has("?"):
		return p.operator()
	}
	return p.simple()
}

// simple reads an identifier and remembers it.
func (p *msParser) simple() *msPart {
	from := p.pos
	text := p.until('@')
	if text == "" {
		p.malformed()
		return nil
	}
	n := p.part(msPart{text: text})
	p.remember(p.in[from:p.pos], n)
	return n
}

// remember puts a name into the table of back-references, once.
func (p *msParser) remember(key string, n *msPart) {
	if p.back.named == maxBack || p.err != nil {
		return
	}
	for _, k := range p.back.keys[:p.back.named] {
		if k == key {
			return
		}
	}
	p.back.names[p.back.named], p.back.keys[p.back.named] = n, key
	p.back.named++
}

// backName reads a digit that stands for a name.
func (p *msParser) backName() *msPart {
	i := int(p.next() - '0')
	if p.err != nil {
		return nil
	}
	if i >= p.back.named {
		p.malformed()
		return nil
	}
	return p.back.names[i]
}

// scopes reads the parts that enclose leaf.
func (p *msParser) scopes(leaf *msPart) msName {
	name := append(make(msName, 0, 4), leaf)
	for p.err == nil && !p.has("@") {
		name = append(name, p.scope())
	}
	return name
}

// scope reads one enclosing part.
func (p *msParser) scope() *msPart {
	from := p.pos
	switch c := p.peek(); {
	case '0' <= c && c <= '9':
		return p.backName()
	case p.has("?$"):
		n := p.template(false)
		p.remember(p.in[from:p.pos], n)
		return n
	case p.has("?A"), p.has("?%"):
		p.until('@')
		return p.anonymous(p.in[from:p.pos])
	case p.has("?"):
		return p.local()
	}
	return p.simple()
}

// anonymous makes the part of an anonymous namespace. Back-references of MSVC, which
// names it by lower-case digits, count anonymous namespaces; those of clang do not,
// and it writes the name each time.
func (p *msParser) anonymous(key string) *msPart {
	n := p.part(msPart{anonymous: true})
	if p.skipAnonymous || key == "?A@" || strings.ContainsAny(key[2:], "ABCDEF") {
		return n
	}
	for _, k := range p.back.keys[:p.back.named] {
		if k == key {
			p.recount()
		}
	}
	p.remember(key, n)
	return n
}

// recount ends reading because back-references count names in the other way.
func (p *msParser) recount() {
	if p.skipAnonymous {
		p.malformed()
	}
	p.fail(errRecount)
}

// local reads the number of a block and the function that it is in.
func (p *msParser) local() *msPart {
	n := p.part(msPart{})
	switch c := p.peek(); {
	case c == '@':
		p.pos++
	case '0' <= c && c <= '9', 'B' <= c && c <= 'P':
		n.number = p.unsigned()
	default:
		p.malformed()
	}
	p.want("?")
	switch {
	case p.err != nil:
	case p.peek() == '?':
		p.pos++
		n.scope = p.symbol()
		p.partOf(n.scope)
	default:
		// A function with a name of C, which the end of the scopes follows.
		text := p.until('@')
		if text == "" {
			p.malformed()
			return n
		}
		p.pos--
		n.scope = &msSymbol{text: text}
	}
	return n
}

// operators are the names that one byte stands for. Constructors, destructors and
// conversions have code of their own.
var operators = map[byte]string{
	'2': "operator new", '3': "operator delete", '4': "operator=", '5': "operator>>",
	'6': "operator<<", '7': "operator!", '8': "operator==", '9': "operator!=",
	'A': "operator[]", 'C': "operator->", 'D': "operator*", 'E': "operator++",
	'F': "operator--", 'G': "operator-", 'H': "operator+", 'I': "operator&",
	'J': "operator->*", 'K': "operator/", 'L': "operator%", 'M': "operator<",
	'N': "operator<=", 'O': "operator>", 'P': "operator>=", 'Q': "operator,",
	'R': "operator()", 'S': "operator~", 'T': "operator^", 'U': "operator|",
	'V': "operator&&", 'W': "operator||", 'X': "operator*=", 'Y': "operator+=",
	'Z': "operator-=",
}

// operators1 are the names that an underscore and a byte stand for.
var operators1 = map[byte]string{
	'0': "operator/=", '1': "operator%=", '2': "operator>>=", '3': "operator<<=",
	'4': "operator&=", '5': "operator|=", '6': "operator^=",
	'A': "`typeof'", 'D': "`vbase dtor'", 'E': "`vector deleting dtor'",
	'F': "`default ctor closure'", 'G': "`scalar deleting dtor'",
	'H': "`vector ctor iterator'", 'I': "`vector dtor iterator'",
	'J': "`vector vbase ctor iterator'", 'K': "`virtual displacement map'",
	'L': "`eh vector ctor iterator'", 'M': "`eh vector dtor iterator'",
	'N': "`eh vector vbase ctor iterator'", 'O': "`copy ctor closure'",
	'T': "`local vftable ctor closure'", 'U': "operator new[]", 'V': "operator delete[]",
}

// operators2 are the names that two underscores and a byte stand for.
var operators2 = map[byte]string{
	'A': "`managed vector ctor iterator'", 'B': "`managed vector dtor iterator'",
	'C': "`EH vector copy ctor iterator'", 'D': "`EH vector vbase copy ctor iterator'",
	'G': "`vector copy ctor iterator'", 'H': "`vector vbase copy constructor iterator'",
	'I': "`managed vector vbase copy constructor iterator'",
	'L': "operator co_await", 'M': "operator<=>",
}

// operator reads the name of an operator or special function after its question
// mark.
func (p *msParser) operator() *msPart {
	c := p.next()
	table := operators
	switch c {
	case '0':
		return p.part(msPart{structor: " "})
	case '1':
		return p.part(msPart{structor: "~"})
	case 'B':
		return p.part(msPart{text: "operator", isConvert: true})
	case '_':
		table = operators1
		if c = p.next(); c == '_' {
			table = operators2
			if c = p.next(); c == 'K' {
				return p.part(msPart{text: `operator ""` + p.until('@')})
			}
		}
	}
	text := table[c]
	if text == "" {
		p.malformed()
		return nil
	}
	return p.part(msPart{text: text, special: text[0] == '`'})
}

// template reads a template's name and arguments after "?$". Back-references
// inside are to names and types inside.
func (p *msParser) template(leaf bool) *msPart {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	outer := p.back
	p.back = backrefs{}
	defer func() { p.back = outer }()

	base := p.leafName()
	if base == nil || p.err != nil {
		return nil
	}
	if (base.isConvert || base.isStructor()) && !leaf {
		p.malformed()
		return nil
	}
	n := *base
	n.template = true
	for p.err == nil && !p.has("@") {
		if arg := p.argument(); arg != nil {
			n.args = append(n.args, arg)
		}
	}
	return &n
}

// argument reads one template argument. It returns nil for an empty pack.
func (p *msParser) argument() *msArg {
	switch {
	case p.has("$S"), p.has("$$V"), p.has("$$$V"), p.has("$$Z"):
		return nil
	case p.has("$$Y"):
		return &msArg{name: p.typeName()}
	case p.has("$$B"):
		return &msArg{typ: p.plainType()}
	case p.has("$$C"):
		return &msArg{typ: p.qualifiedType()}
	case p.has("$M"):
		// The type of a parameter that is declared auto, then the value.
		p.plainType()
		return p.value()
	}
	if rest := p.rest(); len(rest) > 1 && rest[0] == '$' && isValue(rest[1]) {
		p.pos++
		return p.value()
	}
	return &msArg{typ: p.plainType()}
}

// isValue reports whether c starts the value of a template argument.
func isValue(c byte) bool {
	switch c {
	case '0', '1', '2', '3', '6', '7', 'A', 'B', 'C', 'E', 'F', 'G', 'H', 'I', 'J':
		return true
	}
	return false
}

// value reads the value of a template argument.
func (p *msParser) value() *msArg {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	switch c := p.next(); c {
	case '0':
		return &msArg{text: p.number()}
	case '1', 'H', 'I', 'J':
		a := &msArg{}
		if p.has("?") {
			a.symbol = p.symbol()
		} else if c == '1' {
			p.malformed()
		}
		if c != '1' {
			a.member = true
			for range c - 'H' + 1 {
				a.offsets = append(a.offsets, p.signed())
			}
		}
		return a
	case 'E':
		a := &msArg{ref: true}
		p.want("?")
		a.symbol = p.symbol()
		return a
	case 'F', 'G':
		a := &msArg{member: true}
		for range c - 'F' + 2 {
			a.offsets = append(a.offsets, p.signed())
		}
		return a
	case '2':
		a := &msArg{braces: true, typ: p.plainType()}
		for p.err == nil && !p.has("@") {
			a.fields = append(a.fields, p.field())
		}
		return a
	case '3':
		// The values of an array are not typed, and '@' follows each.
		a := &msArg{braces: true}
		p.plainType()
		for p.err == nil && !p.has("@") {
			a.fields = append(a.fields, p.value())
			p.want("@")
		}
		return a
	case '7':
		a := &msArg{braces: true, typ: p.plainType()}
		if !p.has("@") {
			field := &msArg{key: p.until('@')}
			field.base = p.value()
			a.fields = append(a.fields, field)
			p.want("@")
		}
		return a
	case '6':
		a := &msArg{base: p.value()}
		a.text = "." + p.until('@')
		p.want("@")
		return a
	case 'C':
		a := &msArg{base: p.value()}
		p.want("0")
		a.text = "[" + p.number() + "]"
		p.want("@")
		return a
	case 'A':
		_, n := p.digits()
		return &msArg{text: strconv.FormatFloat(float64(math.Float32frombits(uint32(n))), 'g', -1, 32)}
	case 'B':
		_, n := p.digits()
		return &msArg{text: strconv.FormatFloat(math.Float64frombits(n), 'g', -1, 64)}
	}
	p.malformed()
	return nil
}

// field reads the value of a member or base of a class. Classes, arrays and unions
// name their type themselves.
func (p *msParser) field() *msArg {
	switch p.peek() {
	case '2', '3', '7':
	default:
		p.plainType()
	}
	return p.value()
}

// typeName reads the qualified name of a type.
func (p *msParser) typeName() msName {
	from := p.pos
	var leaf *msPart
	switch c := p.peek(); {
	case '0' <= c && c <= '9':
		if leaf = p.backName(); leaf != nil && leaf.anonymous {
			p.recount()
		}
	case p.has("?$"):
		leaf = p.template(false)
		p.remember(p.in[from:p.pos], leaf)
	default:
		leaf = p.simple()
	}
	return p.scopes(leaf)
}
