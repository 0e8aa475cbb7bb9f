package demangle

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

// isStructor reports whether the part is a constructor or destructor.
func (n *msPart) isStructor() bool { return n.text == "" && n.structor != "" }

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

// qualified adds qualifiers to a type. Functions keep their own.
func qualified(t *msType, q quals) *msType {
	if t == nil || t.quals|q == t.quals || t.kind == functionType {
		return t
	}
	c := *t
	c.quals |= q
	return &c
}
