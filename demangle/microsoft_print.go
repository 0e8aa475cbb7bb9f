package demangle

import (
	"strconv"
	"strings"
)

// msPrinter writes a symbol. The first error ends all writing.
type msPrinter struct {
	flags Flags
	buf   []byte
	steps int
	err   error
}

// step counts a node and reports whether to go on: back-references can make a
// short name stand for a text of any length.
func (w *msPrinter) step() bool {
	if w.steps++; w.steps > maxSteps && w.err == nil {
		w.err = errLength
	}
	return w.err == nil
}

func (w *msPrinter) str(parts ...string) {
	for _, s := range parts {
		if w.err != nil {
			return
		}
		if len(w.buf)+len(s) > MaxLength {
			w.err = errLength
			return
		}
		w.buf = append(w.buf, s...)
	}
}

// last is the last byte written, or 0.
func (w *msPrinter) last() byte {
	if len(w.buf) == 0 {
		return 0
	}
	return w.buf[len(w.buf)-1]
}

// space separates a word from the next one.
func (w *msPrinter) space() {
	switch c := w.last(); {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '>':
		w.str(" ")
	}
}

func (w *msPrinter) has(f Flags) bool { return w.flags&f != 0 }

func (w *msPrinter) symbol(s *msSymbol) {
	if !w.step() {
		return
	}
	w.declaration(s)
	if s.suffix != "" && !w.has(NoParameters) {
		w.str(" (", s.suffix, ")")
	}
}

// declaration writes a symbol without its suffix.
func (w *msPrinter) declaration(s *msSymbol) {
	switch s.kind {
	case textSymbol:
		w.str(s.text)
	case functionSymbol:
		w.function(s)
	case variableSymbol:
		if !w.has(NoAccess) {
			w.str(s.access)
		}
		if s.static && !w.has(NoMember) {
			w.str("static ")
		}
		if w.has(NoVariableType) {
			w.name(s.name)
			return
		}
		w.before(s.typ)
		w.separate(s.typ)
		w.name(s.name)
		w.after(s.typ)
	case tableSymbol:
		w.quals(s.quals, false)
		if s.quals != 0 {
			w.str(" ")
		}
		w.name(s.name)
		for i, target := range s.targets {
			if i == 0 {
				w.str("{for `")
			} else {
				w.str("'s `")
			}
			w.name(target)
		}
		if len(s.targets) > 0 {
			w.str("'}")
		}
	case typeSymbol:
		w.before(s.typ)
		w.separate(s.typ)
		w.str(s.text)
		w.after(s.typ)
	case nameSymbol:
		w.name(s.name)
	case thunkSymbol:
		if !w.has(NoThunk) {
			w.str("[thunk]: ")
		}
		if !w.has(NoConvention) {
			w.str(s.conv, " ")
		}
		w.name(s.name)
	}
}

// separate puts a space between a type and the name that it declares.
func (w *msPrinter) separate(t *msType) {
	if w.has(Hug) && t.kind == pointerType && t.elem.kind <= pointerType {
		w.str(" ")
		return
	}
	w.space()
}

// function writes the declaration of a function.
func (w *msPrinter) function(s *msSymbol) {
	f := s.sig
	thunk := f.thunk
	if w.has(NoThunk) {
		thunk = noThunk
	}
	if thunk != noThunk {
		w.str("[thunk]: ")
	}
	if !w.has(NoAccess) {
		w.str(f.access)
	}
	if !w.has(NoMember) {
		if f.static {
			w.str("static ")
		}
		if f.virtual {
			w.str("virtual ")
		}
		if f.externC {
			w.str(`extern "C" `)
		}
	}
	result := f.ret != nil && !w.has(NoReturn)
	if result {
		w.before(f.ret)
		w.str(" ")
	}
	if !w.has(NoConvention) {
		w.str(f.conv)
		w.space()
		if w.last() == ')' {
			w.str(" ")
		}
	}
	w.name(s.name)
	switch thunk {
	case adjustor:
		w.offsets("`adjustor{", f.adjust[:1], "}'")
	case vtordisp:
		w.offsets("`vtordisp{", f.adjust[:2], "}'")
	case vtordispex:
		w.offsets("`vtordispex{", f.adjust[:4], "}'")
	}
	if !w.has(NoParameters) {
		w.parameters(f)
	}
	if result {
		w.after(f.ret)
	}
}

// offsets writes numbers between start and end.
func (w *msPrinter) offsets(start string, numbers []int64, end string) {
	w.str(start)
	for i, n := range numbers {
		if i > 0 {
			w.str(", ")
		}
		w.str(strconv.FormatInt(n, 10))
	}
	w.str(end)
}

// parameters writes the part of a function's type after its name.
func (w *msPrinter) parameters(f *msSignature) {
	if f.bare {
		return
	}
	w.str("(")
	if len(f.params) == 0 && !f.variadic {
		w.str("void")
	}
	for i, t := range f.params {
		if !w.step() {
			return
		}
		if i > 0 {
			w.str(", ")
		}
		w.whole(t)
	}
	if f.variadic {
		if len(f.params) > 0 {
			w.str(", ")
		}
		w.str("...")
	}
	w.str(")")
	w.quals(f.quals&^isUnaligned, true)
	if f.quals&isUnaligned != 0 {
		w.str(" __unaligned")
	}
	if f.noexcept {
		w.str(" noexcept")
	}
	w.str(f.ref)
}

// quals writes qualifiers, with a space before each or between two.
func (w *msPrinter) quals(q quals, before bool) {
	for i, text := range []string{"const", "volatile", "__restrict"} {
		if q&(1<<i) == 0 {
			continue
		}
		if before {
			w.str(" ")
		}
		w.str(text)
		before = true
	}
}

// stdInts are the names of StdInt.
var stdInts = map[string]string{
	"__int64": "int64_t", "unsigned __int64": "uint64_t", "__int128": "int128_t", "unsigned __int128": "uint128_t",
}

// whole writes a type that declares nothing.
func (w *msPrinter) whole(t *msType) {
	w.before(t)
	w.after(t)
}

// before writes the part of a type before the name that it declares.
func (w *msPrinter) before(t *msType) {
	if !w.step() {
		return
	}
	switch t.kind {
	case namedType:
		if text := stdInts[t.text]; text != "" && w.has(StdInt) {
			w.str(text)
		} else if t.name == nil || !w.has(NoClassKey) {
			w.str(t.text)
		}
		if t.name != nil {
			w.name(t.name)
		}
		w.quals(t.quals, true)
	case pointerType:
		w.pointer(t)
	case arrayType:
		w.before(qualified(t.elem, t.quals))
	case functionType:
		w.result(t.sig)
		if !w.has(NoConvention) {
			w.str(t.sig.conv)
		}
	}
}

// result writes the start of a function's result.
func (w *msPrinter) result(f *msSignature) {
	if f.ret != nil {
		w.before(f.ret)
		w.str(" ")
	}
}

// pointer writes the part of a pointer's type before the name that it declares.
func (w *msPrinter) pointer(t *msType) {
	if t.elem.kind == functionType {
		w.result(t.elem.sig)
	} else {
		w.before(t.elem)
	}
	if !w.has(Hug) || t.elem.kind == arrayType || t.name != nil || t.quals&isUnaligned != 0 {
		w.space()
	}
	if w.has(Hug) && t.elem.kind >= arrayType && w.last() != ' ' {
		w.str(" ")
	}
	if t.quals&isUnaligned != 0 {
		w.str("__unaligned ")
	}
	switch t.elem.kind {
	case arrayType:
		w.str("(")
	case functionType:
		w.str("(")
		if !w.has(NoConvention) {
			w.str(t.elem.sig.conv, " ")
		}
	}
	if t.name != nil {
		w.name(t.name)
		w.str("::")
	}
	w.str(t.text)
	w.quals(t.quals, w.has(Hug))
}

// after writes the part of a type after the name that it declares.
func (w *msPrinter) after(t *msType) {
	if !w.step() {
		return
	}
	switch t.kind {
	case pointerType:
		if t.elem.kind == functionType || t.elem.kind == arrayType {
			w.str(")")
		}
		w.after(t.elem)
	case arrayType:
		for _, n := range t.dims {
			w.str("[")
			if n != 0 {
				w.str(strconv.FormatUint(n, 10))
			}
			w.str("]")
		}
		w.after(t.elem)
	case functionType:
		w.parameters(t.sig)
		if t.sig.ret != nil {
			w.after(t.sig.ret)
		}
	}
}

// name writes a qualified name, outermost part first.
func (w *msPrinter) name(n msName) {
	for i := len(n) - 1; i >= 0; i-- {
		w.part(n[i])
		if i > 0 {
			w.str("::")
		}
	}
}

// part writes one part of a qualified name.
func (w *msPrinter) part(n *msPart) {
	if !w.step() {
		return
	}
	switch {
	case n.anonymous && w.has(Parentheses):
		w.str("(anonymous namespace)")
	case n.anonymous:
		w.str("`anonymous namespace'")
	case n.class != nil:
		if n.structor == "~" {
			w.str("~")
		}
		w.part(n.class)
	case n.subject != nil:
		w.str(n.text, "'")
		w.name(*n.subject)
		w.str("''")
	case n.scope != nil && n.text != "":
		w.str(n.text, "`")
		w.symbol(n.scope)
		w.str("''")
	case n.scope != nil:
		w.str("`")
		w.symbol(n.scope)
		w.str("'::`", strconv.FormatUint(n.number, 10), "'")
	case n.special && w.has(LongWords):
		w.str(longWords.Replace(n.text))
	default:
		w.str(n.text)
	}
	if n.template {
		w.arguments(n.args)
	}
	if n.convert != nil {
		w.str(" ")
		w.whole(n.convert)
	}
}

// longWords spells the names of functions that the compiler makes.
var longWords = strings.NewReplacer("ctor iterator", "constructor iterator", "ctor closure", "constructor closure",
	"dtor iterator", "destructor iterator", "dtor'", "destructor'")

// arguments writes template arguments.
func (w *msPrinter) arguments(args []*msArg) {
	w.str("<")
	for i, a := range args {
		if i > 0 {
			w.str(", ")
		}
		w.argument(a)
	}
	if w.has(SplitAngles) && w.last() == '>' {
		w.str(" ")
	}
	w.str(">")
}

// argument writes one template argument.
func (w *msPrinter) argument(a *msArg) {
	if !w.step() {
		return
	}
	switch {
	case a.braces:
		if a.typ != nil {
			w.whole(a.typ)
		}
		w.str("{")
		for i, field := range a.fields {
			if i > 0 {
				w.str(", ")
			}
			w.argument(field)
		}
		w.str("}")
	case a.key != "":
		w.str(".", a.key, " = ")
		w.argument(a.base)
	case a.base != nil:
		w.argument(a.base)
		w.str(a.text)
	case a.typ != nil:
		w.whole(a.typ)
	case a.name != nil:
		w.name(a.name)
	case a.member:
		w.str("{")
		if a.symbol != nil {
			w.symbol(a.symbol)
			w.str(", ")
		}
		w.offsets("", a.offsets, "}")
	case a.symbol != nil:
		if !a.ref {
			w.str("&")
		}
		w.symbol(a.symbol)
	default:
		w.str(a.text)
	}
}
