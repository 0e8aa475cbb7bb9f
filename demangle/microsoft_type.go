package demangle

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
var primitives = [256]string{
	'X': "void", 'C': "signed char", 'D': "char", 'E': "unsigned char", 'F': "short",
	'G': "unsigned short", 'H': "int", 'I': "unsigned int", 'J': "long",
	'K': "unsigned long", 'M': "float", 'N': "double", 'O': "long double",
}

// primitives1 are the types of an underscore and a byte.
var primitives1 = [256]string{
	'D': "__int8", 'E': "unsigned __int8", 'F': "__int16", 'G': "unsigned __int16",
	'H': "__int32", 'I': "unsigned __int32", 'J': "__int64", 'K': "unsigned __int64",
	'L': "__int128", 'M': "unsigned __int128", 'N': "bool", 'P': "auto",
	'Q': "char8_t", 'S': "char16_t", 'T': "decltype(auto)", 'U': "char32_t",
	'W': "wchar_t",
}

// plainType reads a type.
func (p *msParser) plainType() *msType {
	if !p.enter() {
		return p.typ(msType{})
	}
	defer p.leave()
	switch c := p.next(); c {
	case 'T':
		return p.typ(msType{text: "union ", name: p.typeName()})
	case 'U':
		return p.typ(msType{text: "struct ", name: p.typeName()})
	case 'V':
		return p.typ(msType{text: "class ", name: p.typeName()})
	case 'W':
		// The digit is the type of the values, which only old compilers vary.
		if d := p.next(); d < '0' || d > '7' {
			p.malformed()
		}
		return p.typ(msType{text: "enum ", name: p.typeName()})
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
		return p.typ(msType{name: p.typeName()})
	case '_':
		if text := primitives1[p.next()]; text != "" {
			return p.typ(msType{text: text})
		}
	case '$':
		switch {
		case p.has("$T"):
			return p.typ(msType{text: "std::nullptr_t"})
		case p.has("$Q"):
			return p.pointer("&&", 0)
		case p.has("$R"):
			return p.pointer("&&", isVolatile)
		case p.has("$A6"):
			return p.typ(msType{kind: functionType, sig: p.signature(false)})
		case p.has("$A8@@"):
			return p.typ(msType{kind: functionType, sig: p.signature(true)})
		case p.has("$C"):
			return p.qualifiedType()
		}
	default:
		if text := primitives[c]; text != "" {
			return p.typ(msType{text: text})
		}
	}
	p.malformed()
	return p.typ(msType{})
}

// pointer reads the rest of the type of a pointer, reference or member pointer.
func (p *msParser) pointer(text string, q quals) *msType {
	t := p.typ(msType{kind: pointerType, text: text, quals: q})
	if p.has("6") {
		t.elem = p.typ(msType{kind: functionType, sig: p.signature(false)})
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
		t.elem = p.typ(msType{kind: functionType, sig: p.signature(true)})
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
	t := p.typ(msType{kind: arrayType})
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
	s := node(&p.sigs, msSignature{})
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
		return s
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
			return s
		}
		s.access = accesses[(c-'0')/2]
		for i := range n {
			s.adjust[i] = int64(int32(p.signed()))
		}
		s.adjust[n-1] = int64(uint32(s.adjust[n-1]))
	default:
		p.malformed()
		return s
	}
	p.typeOf(s, member)
	return s
}

// signature reads the type of a function that is part of another type.
func (p *msParser) signature(member bool) *msSignature {
	s := node(&p.sigs, msSignature{})
	if p.enter() {
		p.typeOf(s, member)
		p.leave()
	}
	return s
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
			if i >= p.back.typed {
				p.malformed()
				return
			}
			s.params = append(s.params, p.back.types[i])
		default:
			from := p.pos
			t := p.plainType()
			if p.pos-from > 1 && p.back.typed < maxBack && p.err == nil {
				p.back.types[p.back.typed] = t
				p.back.typed++
			}
			s.params = append(s.params, t)
		}
	}
}

// conventions are the words of calling conventions. The second letter of each pair is
// of functions that are exported.
var conventions = [256]string{
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
