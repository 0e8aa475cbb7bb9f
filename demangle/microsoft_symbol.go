package demangle

import (
	"fmt"
	"strings"
)

// whole reads the name of a symbol or of a type descriptor to its end.
func (p *msParser) whole() *msSymbol {
	var s *msSymbol
	switch {
	case p.has("??@"):
		// The rest of the name, with the marker of a locator, was hashed away.
		p.until('@')
		p.has("??_R4@")
		s = &msSymbol{text: p.in[:p.pos]}
	case p.has("."):
		s = &msSymbol{kind: typeSymbol, typ: p.resultType(), text: "`RTTI Type Descriptor Name'"}
	case p.has("@?"), p.has("?"):
		s = p.symbol()
	default:
		p.malformed()
	}
	// Symbols of named modules end in the name of the module, parts of coroutines in
	// the name of the part.
	if p.has("::<!") {
		p.until('>')
	}
	p.partOf(s)
	if p.err == nil && p.pos != len(p.in) {
		p.malformed()
	}
	return s
}

// partOf reads the suffix of a part of a coroutine.
func (p *msParser) partOf(s *msSymbol) {
	suffix := p.rest()
	if i := strings.IndexByte(suffix, '@'); i >= 0 {
		suffix = suffix[:i]
	}
	if p.err == nil && isSuffix(suffix) {
		s.suffix = suffix
		p.pos += len(suffix)
	}
}

// isSuffix reports whether s is a suffix such as ".resume".
func isSuffix(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case c == '.':
			if i+1 == len(s) || s[i+1] == '.' {
				return false
			}
		case i == 0 || (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_':
			return false
		}
	}
	return s != ""
}

// symbol reads a decorated name after its question mark.
func (p *msParser) symbol() *msSymbol {
	if !p.enter() {
		return nil
	}
	defer p.leave()
	if s, ok := p.special(); ok {
		return s
	}
	return p.encoding(p.symbolName())
}

// special reads the symbols that are neither plain functions nor variables.
func (p *msParser) special() (*msSymbol, bool) {
	if !strings.HasPrefix(p.rest(), "?_") {
		return nil, false
	}
	switch {
	case p.has("?_7"):
		return p.table("`vftable'"), true
	case p.has("?_8"):
		return p.table("`vbtable'"), true
	case p.has("?_S"):
		return p.table("`local vftable'"), true
	case p.has("?_R4"):
		return p.table("`RTTI Complete Object Locator'"), true
	case p.has("?_9"):
		return p.vcall(), true
	case p.has("?_B"):
		return p.guard("`local static guard'"), true
	case p.has("?__J"):
		return p.guard("`local static thread guard'"), true
	case p.has("?_C"):
		return p.literal(), true
	case p.has("?_R0"):
		s := &msSymbol{kind: typeSymbol, typ: p.resultType(), text: "`RTTI Type Descriptor'"}
		p.want("@8")
		return s, true
	case p.has("?_R1"):
		a, b, c, d := p.signed(), p.signed(), p.signed(), p.signed()
		return p.descriptor(fmt.Sprintf("`RTTI Base Class Descriptor at (%d, %d, %d, %d)'", a, b, c, d)), true
	case p.has("?_R2"):
		return p.descriptor("`RTTI Base Class Array'"), true
	case p.has("?_R3"):
		return p.descriptor("`RTTI Class Hierarchy Descriptor'"), true
	case p.has("?__E"):
		return p.initializer("`dynamic initializer for "), true
	case p.has("?__F"):
		return p.initializer("`dynamic atexit destructor for "), true
	}
	return nil, false
}

// table reads the rest of a virtual table's name.
func (p *msParser) table(text string) *msSymbol {
	s := &msSymbol{kind: tableSymbol, name: p.scopes(p.part(msPart{text: text}))}
	if c := p.next(); c != '6' && c != '7' {
		p.malformed()
	}
	s.quals, _ = p.qualifiers()
	for p.err == nil && !p.has("@") {
		s.targets = append(s.targets, p.typeName())
	}
	return s
}

// descriptor reads the rest of the name of a run-time type record.
func (p *msParser) descriptor(text string) *msSymbol {
	s := &msSymbol{kind: nameSymbol, name: p.scopes(p.part(msPart{text: text}))}
	p.want("8")
	return s
}

// vcall reads the rest of the name of a thunk that calls through a table.
func (p *msParser) vcall() *msSymbol {
	leaf := p.part(msPart{})
	s := &msSymbol{kind: thunkSymbol, name: p.scopes(leaf)}
	p.want("$B")
	leaf.text = fmt.Sprintf("`vcall'{%d, {flat}}", p.unsigned())
	p.want("A")
	s.conv = p.convention()
	return s
}

// guard reads the rest of the name of a guard variable of local statics.
func (p *msParser) guard(text string) *msSymbol {
	leaf := p.part(msPart{text: text})
	s := &msSymbol{kind: nameSymbol, name: p.scopes(leaf)}
	if !p.has("4IA") {
		p.want("5")
		if c := p.peek(); p.err == nil && c != 0 && c != '@' {
			if n := p.unsigned(); n > 0 {
				leaf.text = fmt.Sprintf("%s{%d}", text, n)
			}
		}
	}
	return s
}

// initializer reads the rest of the name of a function that initializes or
// destroys a variable.
func (p *msParser) initializer(text string) *msSymbol {
	leaf := p.part(msPart{text: text})
	if !strings.HasPrefix(p.rest(), "?$") && p.has("?") {
		leaf.scope = p.symbol()
		if p.err == nil && leaf.scope.kind != variableSymbol {
			p.malformed()
		}
		p.want("@@")
	} else {
		name := p.symbolName()
		if c := p.peek(); '0' <= c && c <= '4' {
			leaf.scope = p.encoding(name)
			p.want("@")
		} else {
			leaf.subject = &name
		}
	}
	return p.encoding(msName{leaf})
}

// encoding reads the rest of a symbol after its name.
func (p *msParser) encoding(name msName) *msSymbol {
	if c := p.peek(); '0' <= c && c <= '4' {
		return p.variable(name)
	}
	s := node(&p.symbols, msSymbol{kind: functionSymbol, name: name, sig: p.function()})
	if p.err != nil {
		return s
	}
	if leaf := name[0]; leaf.isConvert {
		if leaf.convert = s.sig.ret; leaf.convert == nil {
			p.malformed()
		}
	}
	return s
}

// variable reads the storage class and the type of a variable.
func (p *msParser) variable(name msName) *msSymbol {
	s := &msSymbol{kind: variableSymbol, name: name}
	switch p.next() {
	case '0':
		s.access, s.static = "private: ", true
	case '1':
		s.access, s.static = "protected: ", true
	case '2':
		s.access, s.static = "public: ", true
	}
	t := p.plainType()
	if p.err != nil {
		return s
	}
	s.typ = t
	switch t.kind {
	case pointerType:
		// The qualifiers of the variable are those of the pointee, once more.
		t.quals |= p.extended()
		q, _ := p.qualifiers()
		if t.name != nil {
			p.typeName()
		}
		t.elem = qualified(t.elem, q)
	default:
		q, _ := p.qualifiers()
		t.quals |= q
	}
	return s
}
