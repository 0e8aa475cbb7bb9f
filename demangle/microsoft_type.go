package demangle

import (
	"math"
	"strconv"
)

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
		return &msPart{structor: " "}
	case '1':
		return &msPart{structor: "~"}
	case 'B':
		return &msPart{text: "operator", isConvert: true}
	case '_':
		table = operators1
		if c = p.next(); c == '_' {
			table = operators2
			if c = p.next(); c == 'K' {
				return &msPart{text: `operator ""` + p.until('@')}
			}
		}
	}
	text := table[c]
	if text == "" {
		p.malformed()
		return nil
	}
	return &msPart{text: text, special: text[0] == '`'}
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

// resultType reads the type of a result, which "?" and qualifiers may precede.
func (p *msParser) resultType() *msType {
	if p.has("?") {
		return p.qualifiedType()
	}
	return p.plainType()
}

// qualifiedType reads qualifiers and a type.
func (p *msParser) qualifiedType() *msType {
	q, _ := p.qualifiers()
	return qualified(p.plainType(), q)
}

// qualifiers reads the letter of const and volatile. Its second result says
// that the letter is one for members.
func (p *msParser) qualifiers() (quals, bool) {
	switch c := p.next(); c {
	case 'A', 'B', 'C', 'D':
		return quals(c - 'A'), false
	case 'Q', 'R', 'S', 'T':
		return quals(c - 'Q'), true
	}
	p.malformed()
	return 0, false
}

// extended reads the qualifiers of pointers.
func (p *msParser) extended() quals {
	var q quals
	p.has("E") // 64 bits
	if p.has("I") {
		q |= isRestrict
	}
	if p.has("F") {
		q |= isUnaligned
	}
	return q
}

// primitives are the types of one byte.
var primitives = map[byte]string{
	'X': "void", 'C': "signed char", 'D': "char", 'E': "unsigned char", 'F': "short",
	'G': "unsigned short", 'H': "int", 'I': "unsigned int", 'J': "long",
	'K': "unsigned long", 'M': "float", 'N': "double", 'O': "long double",
}

// primitives1 are the types of an underscore and a byte.
var primitives1 = map[byte]string{
	'D': "__int8", 'E': "unsigned __int8", 'F': "__int16", 'G': "unsigned __int16",
	'H': "__int32", 'I': "unsigned __int32", 'J': "__int64", 'K': "unsigned __int64",
	'L': "__int128", 'M': "unsigned __int128", 'N': "bool", 'P': "auto",
	'Q': "char8_t", 'S': "char16_t", 'T': "decltype(auto)", 'U': "char32_t",
	'W': "wchar_t",
}

// plainType reads a type.
func (p *msParser) plainType() *msType {
	if !p.enter() {
		return &msType{}
	}
	defer p.leave()
	switch c := p.next(); c {
	case 'T':
		return &msType{text: "union ", name: p.typeName()}
	case 'U':
		return &msType{text: "struct ", name: p.typeName()}
	case 'V':
		return &msType{text: "class ", name: p.typeName()}
	case 'W':
		// The digit is the type of the values, which only old compilers vary.
		if d := p.next(); d < '0' || d > '7' {
			p.malformed()
		}
		return &msType{text: "enum ", name: p.typeName()}
	case 'A':
		return p.pointer("&", 0)
	case 'B':
		return p.pointer("&", isVolatile)
	case 'P', 'Q', 'R', 'S':
		return p.pointer("*", quals(c-'P'))
	case 'Y':
		return p.array()
	case '?':
		// The name of a type that is not a class, such as <auto>.
		return &msType{name: p.typeName()}
	case '_':
		if text := primitives1[p.next()]; text != "" {
			return &msType{text: text}
		}
	case '$':
		switch {
		case p.has("$T"):
			return &msType{text: "std::nullptr_t"}
		case p.has("$Q"):
			return p.pointer("&&", 0)
		case p.has("$R"):
			return p.pointer("&&", isVolatile)
		case p.has("$A6"):
			return &msType{kind: functionType, sig: p.signature(false)}
		case p.has("$A8@@"):
			return &msType{kind: functionType, sig: p.signature(true)}
		case p.has("$C"):
			return p.qualifiedType()
		}
	default:
		if text := primitives[c]; text != "" {
			return &msType{text: text}
		}
	}
	p.malformed()
	return &msType{}
}

// pointer reads the rest of the type of a pointer, reference or member pointer.
func (p *msParser) pointer(text string, q quals) *msType {
	t := &msType{kind: pointerType, text: text, quals: q}
	if p.has("6") {
		t.elem = &msType{kind: functionType, sig: p.signature(false)}
		return t
	}
	t.quals |= p.extended()
	switch {
	case text == "*" && p.has("$A"):
		t.text = "^" // a handle of C++/CLI
	case text == "&" && p.has("$A"), text == "&" && p.has("$C"):
		t.text = "%"
	}
	switch c := p.peek(); {
	case text == "*" && c == '8':
		p.pos++
		t.name = p.typeName()
		t.elem = &msType{kind: functionType, sig: p.signature(true)}
	case text == "*" && 'Q' <= c && c <= 'T':
		q, _ := p.qualifiers()
		t.name = p.typeName()
		t.elem = qualified(p.plainType(), q)
	case 'A' <= c && c <= 'D':
		t.elem = p.qualifiedType()
	default:
		p.malformed()
	}
	return t
}

// array reads the rest of the type of an array.
func (p *msParser) array() *msType {
	t := &msType{kind: arrayType}
	rank := p.unsigned()
	if rank == 0 || rank > uint64(len(p.rest())) {
		p.malformed()
		return t
	}
	for range rank {
		t.dims = append(t.dims, p.unsigned())
		if p.err != nil {
			return t
		}
	}
	t.elem = p.plainType()
	return t
}

// accesses are the words of the letters A to X, eight for each of them.
var accesses = [3]string{"private: ", "protected: ", "public: "}

// function reads the rest of a function after its name: how it is reached, and its
// type.
func (p *msParser) function() *msSignature {
	var s msSignature
	for {
		switch {
		case p.has("$$J0"):
			s.externC = true
			continue
		case p.has("$$F"), p.has("$$H"), p.has("$$h"):
			// Managed code, and code of ARM64EC.
			continue
		}
		break
	}
	member := true
	switch c := p.next(); {
	case c == '9':
		s.externC, s.bare = true, true
		return &s
	case c == 'Y' || c == 'Z':
		member = false
	case 'A' <= c && c <= 'X':
		// Pairs of a near and a far function.
		s.access = accesses[(c-'A')/8]
		switch (c - 'A') % 8 / 2 {
		case 1:
			s.static, member = true, false
		case 2:
			s.virtual = true
		case 3:
			s.virtual, s.thunk = true, adjustor
			s.adjust[0] = int64(uint32(p.signed()))
		}
	case c == '$':
		s.virtual, s.thunk = true, vtordisp
		n := 2
		if p.has("R") {
			s.thunk, n = vtordispex, 4
		}
		c = p.next()
		if c < '0' || c > '5' {
			p.malformed()
			return &s
		}
		s.access = accesses[(c-'0')/2]
		for i := range n {
			s.adjust[i] = int64(int32(p.signed()))
		}
		s.adjust[n-1] = int64(uint32(s.adjust[n-1]))
	default:
		p.malformed()
		return &s
	}
	p.typeOf(&s, member)
	return &s
}

// signature reads the type of a function that is part of another type.
func (p *msParser) signature(member bool) *msSignature {
	var s msSignature
	if p.enter() {
		p.typeOf(&s, member)
		p.leave()
	}
	return &s
}

// typeOf reads the type of a function.
func (p *msParser) typeOf(s *msSignature, member bool) {
	if member {
		s.quals = p.extended()
		switch {
		case p.has("G"):
			s.ref = " &"
		case p.has("H"):
			s.ref = " &&"
		}
		q, _ := p.qualifiers()
		s.quals |= q
	}
	s.conv = p.convention()
	if !p.has("@") {
		s.ret = p.resultType()
	}
	p.parameters(s)
	switch {
	case p.has("_E"):
		s.noexcept = true
	default:
		p.want("Z")
	}
}

// parameters reads the types of a function's parameters.
func (p *msParser) parameters(s *msSignature) {
	if p.has("X") {
		return
	}
	for p.err == nil {
		switch c := p.peek(); {
		case p.has("@"):
			if len(s.params) == 0 {
				p.malformed()
			}
			return
		case p.has("Z"):
			s.variadic = true
			return
		case '0' <= c && c <= '9':
			i := int(p.next() - '0')
			if i >= len(p.back.types) {
				p.malformed()
				return
			}
			s.params = append(s.params, p.back.types[i])
		default:
			from := p.pos
			t := p.plainType()
			if p.pos-from > 1 && len(p.back.types) < maxBack && p.err == nil {
				p.back.types = append(p.back.types, t)
			}
			s.params = append(s.params, t)
		}
	}
}

// conventions are the words of calling conventions. The second letter of each pair is
// of functions that are exported.
var conventions = map[byte]string{
	'A': "__cdecl", 'B': "__cdecl", 'C': "__pascal", 'D': "__pascal",
	'E': "__thiscall", 'F': "__thiscall", 'G': "__stdcall", 'H': "__stdcall",
	'I': "__fastcall", 'J': "__fastcall", 'M': "__clrcall", 'N': "__clrcall",
	'O': "__eabi", 'P': "__eabi", 'Q': "__vectorcall",
	'S': "__attribute__((__swiftcall__))", 'W': "__attribute__((__swiftasynccall__))",
	'w': "__regcall",
}

// convention reads a calling convention.
func (p *msParser) convention() string {
	text := conventions[p.next()]
	if text == "" {
		p.malformed()
	}
	return text
}
