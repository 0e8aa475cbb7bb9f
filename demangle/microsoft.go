package demangle

import (
	"errors"
	"fmt"
	"strings"
)

// Flags choose what Microsoft omits from a name, and how it writes the rest. The
// zero value gives the full declaration as llvm-undname writes it.
type Flags uint

// The flags of Microsoft.
const (
	// NoAccess omits "public:", "protected:" and "private:".
	NoAccess Flags = 1 << iota
	// NoMember omits "static", "virtual" and `extern "C"`.
	NoMember
	// NoConvention omits calling conventions such as "__cdecl".
	NoConvention
	// NoClassKey omits "class", "struct", "union" and "enum" before types.
	NoClassKey
	// NoReturn omits the return type of the function. Return types of function
	// pointers stay.
	NoReturn
	// NoVariableType omits the type of a variable.
	NoVariableType
	// NoThunk omits "[thunk]:" and what a thunk adds to the pointer to the object.
	NoThunk
	// Hug writes "int* const" and "int&" instead of "int *const" and "int &".
	Hug
	// SplitAngles writes "> >" instead of ">>" where template arguments end.
	SplitAngles
	// LongWords writes "constructor" and "destructor" instead of "ctor" and "dtor"
	// in the names of functions that the compiler makes.
	LongWords
	// StdInt writes "int64_t" and "uint64_t" instead of "__int64" and "unsigned __int64",
	// and the same for 128 bits.
	StdInt
	// Parentheses writes "(anonymous namespace)" instead of
	// "`anonymous namespace'".
	Parentheses

	// Brief is the form of names in Breakpad symbol files: scopes, names and
	// parameters only.
	Brief = NoAccess | NoMember | NoConvention | NoClassKey | NoReturn | NoVariableType | NoThunk |
		Hug | SplitAngles | LongWords | StdInt | Parentheses
)

// Limits of one name. MaxLength holds for the name and for its text.
const (
	// MaxLength is the limit in bytes of a decorated name and of the text that is
	// made from it.
	MaxLength      = 1 << maxLengthPower
	maxLengthPower = 16
	maxDepth       = 128     // nesting of types, template arguments and scopes
	maxSteps       = 1 << 20 // nodes that are written for one name
	maxBack        = 10      // names, and types, that back-references reach
)

var (
	errFormat = errors.New("malformed decorated name")
	// errRecount means that back-references do not count anonymous namespaces.
	errRecount = errors.New("back-reference to an anonymous namespace")
	errDepth   = fmt.Errorf("the nesting exceeds the limit of %d", maxDepth)
	errLength  = fmt.Errorf("the length exceeds the limit of %d bytes", MaxLength)
)

// Microsoft returns the declaration that the decorated name raw of Microsoft's
// C++ compilers stands for. Names of type descriptors, which start with ".?A", are
// accepted too. An MD5 name is returned as it is. With an error, the result is
// raw: Microsoft either understands the whole name or changes nothing.
func Microsoft(raw string, flags Flags) (string, error) {
	if len(raw) > MaxLength {
		return raw, fmt.Errorf("demangle: %w", errLength)
	}
	p := msParser{in: raw}
	s := p.whole()
	if p.err != nil {
		// Compilers differ in which names back-references count.
		again := msParser{in: raw, skipAnonymous: p.err == errRecount, countTemplates: p.err != errRecount}
		if s = again.whole(); again.err == nil {
			p.err = nil
		}
	}
	if p.err != nil {
		return raw, fmt.Errorf("demangle: offset %d of %q: %w", p.failed, clip(raw), p.err)
	}
	w := msPrinter{flags: flags}
	w.symbol(s)
	if w.err != nil {
		return raw, fmt.Errorf("demangle: %q: %w", clip(raw), w.err)
	}
	return string(w.buf), nil
}

// clip shortens a name for an error.
func clip(name string) string {
	if len(name) > 80 {
		return name[:80] + "..."
	}
	return name
}

// quals is a set of type qualifiers.
type quals uint8

const (
	isConst quals = 1 << iota
	isVolatile
	isRestrict
	isUnaligned
)

type typeKind uint8

const (
	namedType    typeKind = iota // text, or key and name
	pointerType                  // text is the punctuation; class is set for a member pointer
	arrayType                    // elem and dims
	functionType                 // sig
)

// msType is a type. Types that back-references name are shared, and are not
// changed once they are in the table.
type msType struct {
	kind  typeKind
	quals quals
	text  string
	name  msName
	elem  *msType
	dims  []uint64
	sig   *msSignature
}

// msName is a qualified name, innermost part first.
type msName []*msPart

// msPart is one part of a qualified name.
type msPart struct {
	text      string
	structor  string    // "" or "~" if class is set
	class     *msPart   // constructors and destructors: the class
	convert   *msType   // conversion operators: the type
	scope     *msSymbol // local scopes: the function. Initializers: the variable
	number    uint64    // local scopes: the number of the block
	template  bool      // args are shown, even if there are none
	args      []*msArg  // template arguments
	anonymous bool      // an anonymous namespace
	special   bool      // text names a function that the compiler makes
	subject   *msName   // initializers of variables that are named only
	isConvert bool      // convert is the return type, which comes last
}

// msArg is a template argument: a type, a name, a symbol or text.
type msArg struct {
	typ     *msType
	name    msName
	symbol  *msSymbol
	ref     bool    // symbol by reference: no "&"
	offsets []int64 // of member pointers
	member  bool    // a member pointer with offsets, in braces
	text    string  // a number; the end of a path
	base    *msArg  // what text is a part of
	key     string  // the member that a union holds
	braces  bool    // fields are the values of an object of typ, or of an array
	fields  []*msArg
}

type thunkKind uint8

const (
	noThunk thunkKind = iota
	adjustor
	vtordisp
	vtordispex
)

// msSignature is the type of a function with the properties in its symbol.
type msSignature struct {
	access   string
	static   bool
	virtual  bool
	externC  bool
	bare     bool // no parameter list
	thunk    thunkKind
	adjust   [4]int64
	conv     string
	quals    quals
	ref      string
	noexcept bool
	variadic bool
	ret      *msType
	params   []*msType
}

type symbolKind uint8

const (
	textSymbol     symbolKind = iota // text alone
	functionSymbol                   // sig and name
	variableSymbol                   // access, typ and name
	tableSymbol                      // quals, name and targets
	typeSymbol                       // typ, then text
	nameSymbol                       // name alone
	thunkSymbol                      // a vcall thunk: conv and name
)

// msSymbol is what a decorated name stands for.
type msSymbol struct {
	kind    symbolKind
	text    string
	access  string
	static  bool
	quals   quals
	conv    string
	typ     *msType
	sig     *msSignature
	name    msName
	targets []msName
	suffix  string
}

// backrefs are the names and types that digits name.
type backrefs struct {
	names []*msPart
	keys  []string // the decorated text of each name
	types []*msType
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
	s := &msSymbol{kind: tableSymbol, name: p.scopes(&msPart{text: text})}
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
	s := &msSymbol{kind: nameSymbol, name: p.scopes(&msPart{text: text})}
	p.want("8")
	return s
}

// vcall reads the rest of the name of a thunk that calls through a table.
func (p *msParser) vcall() *msSymbol {
	leaf := &msPart{}
	s := &msSymbol{kind: thunkSymbol, name: p.scopes(leaf)}
	p.want("$B")
	leaf.text = fmt.Sprintf("`vcall'{%d, {flat}}", p.unsigned())
	p.want("A")
	s.conv = p.convention()
	return s
}

// guard reads the rest of the name of a guard variable of local statics.
func (p *msParser) guard(text string) *msSymbol {
	leaf := &msPart{text: text}
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
	leaf := &msPart{text: text}
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
	s := &msSymbol{kind: functionSymbol, name: name, sig: p.function()}
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

// qualified adds qualifiers to a type. Functions keep their own.
func qualified(t *msType, q quals) *msType {
	if t == nil || t.quals|q == t.quals || t.kind == functionType {
		return t
	}
	c := *t
	c.quals |= q
	return &c
}

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

// isStructor reports whether the part is a constructor or destructor.
func (n *msPart) isStructor() bool { return n.text == "" && n.structor != "" }

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
	n := &msPart{text: text}
	p.remember(p.in[from:p.pos], n)
	return n
}

// remember puts a name into the table of back-references, once.
func (p *msParser) remember(key string, n *msPart) {
	if len(p.back.names) >= maxBack || p.err != nil {
		return
	}
	for _, k := range p.back.keys {
		if k == key {
			return
		}
	}
	p.back.names = append(p.back.names, n)
	p.back.keys = append(p.back.keys, key)
}

// backName reads a digit that stands for a name.
func (p *msParser) backName() *msPart {
	i := int(p.next() - '0')
	if p.err != nil {
		return nil
	}
	if i >= len(p.back.names) {
		p.malformed()
		return nil
	}
	return p.back.names[i]
}

// scopes reads the parts that enclose leaf.
func (p *msParser) scopes(leaf *msPart) msName {
	name := msName{leaf}
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
	n := &msPart{anonymous: true}
	if p.skipAnonymous || key == "?A@" || strings.ContainsAny(key[2:], "ABCDEF") {
		return n
	}
	for _, k := range p.back.keys {
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
	n := &msPart{}
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
