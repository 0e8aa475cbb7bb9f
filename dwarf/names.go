package dwarf

import (
	"strings"

	"github.com/symdepot/symdepot/functab"
)

const (
	cachedNames  = 1 << 17 // texts that a worker remembers
	maxScopes    = 64      // parts of a qualified name
	maxQualified = 4096    // bytes of a qualified name
)

// names is the cache of names of a worker.
type names struct {
	unit    *unit // that walk.scopes belong to
	raw     map[string]functab.NameID
	scopes  map[dieKey]*scopesOf // of other units
	scanner *worker
}

// forget drops the entries of a .dwo file that is not needed any more.
func (w *worker) forget() {
	w.names.unit = nil
	clear(w.names.scopes)
	w.names.scanner = nil
	clear(w.abbrevs)
	w.abbrevSpecs = 0
	clear(w.units)
}

// Languages whose names have scopes (DWARF 5, table 7.17).
var separators = map[uint64]string{
	0x04: "::", 0x1a: "::", 0x21: "::", 0x2b: "::", 0x3a: "::", // C++ of 1998, 2003, 2011 to 2014, 2017 or 2020, 2023
	0x11: "::", // Objective-C++
	0x1c: "::", // Rust
	0x13: ".",  // D
	0x1e: ".",  // Swift
}

func separator(lang uint64) string { return separators[lang] }

// nameOf returns the name of a function or of an inlined call: the linkage name of
// the entry or of the entries that it refers to, else the name that the symbol
// table has for the function's address if that one is mangled, else the qualified
// name.
func (w *worker) nameOf(u *unit, d *die, address uint64) (functab.NameID, error) {
	if id, ok := w.linkage(u, d.linkage); ok {
		return id, nil
	}
	ref := d.origin
	if ref.form == 0 {
		ref = d.spec
	}
	if ref.form == 0 {
		return w.plain(u, d, address)
	}
	t, off, err := w.target(u, ref)
	if err != nil {
		if w.fatal(err) {
			return 0, err
		}
		return w.plain(u, d, address)
	}
	id, err := w.nameAt(t, off, u.lang)
	if err != nil {
		return 0, err
	}
	if id.plain && address != 0 && w.r.opt.Symbol != nil {
		if s := w.r.opt.Symbol(address); isMangled(s) || s != "" && separator(u.lang) != "" {
			return w.rawName([]byte(s)), nil
		}
	}
	if id.NameID == 0 {
		return w.plain(u, d, address)
	}
	return id.NameID, nil
}

// found is a name, and whether it is not a linkage name.
type found struct {
	functab.NameID
	plain bool
}

// nameAt returns what follow returns, and remembers it.
func (w *worker) nameAt(u *unit, off, lang uint64) (found, error) {
	if v, ok := u.v.named.get(off); ok {
		return found{functab.NameID(v >> 1), v&1 != 0}, nil
	}
	id, err := w.follow(u, off, lang)
	if err != nil {
		return id, err
	}
	v := uint64(id.NameID) << 1
	if id.plain {
		v |= 1
	}
	u.v.named.set(off, v)
	return id, nil
}

// follow returns the name of the entry at off, or of those that it refers to. It
// is 0 if there is none.
func (w *worker) follow(u *unit, off, lang uint64) (found, error) {
	var named die
	var namedIn *unit
	for range maxChain {
		if err := w.spend(16); err != nil {
			return found{}, err
		}
		d, err := w.dieAt(u, off)
		if w.fatal(err) {
			return found{}, err
		}
		if err != nil || d.ab == nil {
			break
		}
		if id, ok := w.linkage(u, d.linkage); ok {
			return found{id, false}, nil
		}
		if d.name.form != 0 {
			named, namedIn = d, u
		}
		ref := d.origin
		if ref.form == 0 {
			ref = d.spec
		}
		if ref.form == 0 {
			break
		}
		t, to, err := w.target(u, ref)
		if w.fatal(err) {
			return found{}, err
		}
		if err != nil || t == u && to == off {
			break
		}
		u, off = t, to
	}
	if namedIn == nil {
		return found{}, nil
	}
	s, err := w.qualified(namedIn, &named, lang)
	if err != nil || s == "" {
		return found{}, err
	}
	return found{w.plainName(s), true}, nil
}

// plain returns the name of an entry without a linkage name.
func (w *worker) plain(u *unit, d *die, address uint64) (functab.NameID, error) {
	symbol := ""
	if address != 0 && w.r.opt.Symbol != nil {
		symbol = w.r.opt.Symbol(address)
	}
	// In a language with scopes, a symbol that is not mangled is that of a function
	// for C: its name has no scope.
	if isMangled(symbol) || symbol != "" && separator(u.lang) != "" {
		return w.rawName([]byte(symbol)), nil
	}
	if d.name.form != 0 {
		if s, err := w.qualified(u, d, u.lang); err != nil {
			return 0, err
		} else if s != "" {
			return w.plainName(s), nil
		}
	}
	if symbol != "" {
		return w.rawName([]byte(symbol)), nil
	}
	return w.plainName(omitted), nil
}

// isMangled reports whether a symbol has the shape of a C++ or Rust name.
func isMangled(s string) bool {
	return strings.HasPrefix(s, "_Z") || strings.HasPrefix(s, "_R") || strings.HasPrefix(s, "__Z") || strings.HasPrefix(s, "__R")
}

// linkage returns the name of a linkage name attribute.
func (w *worker) linkage(u *unit, v value) (functab.NameID, bool) {
	if v.form == 0 {
		return 0, false
	}
	in, off := u.v, v.u // the string, by its offset in .debug_str
	switch v.form {
	case formStrp:
	case formStrpSup, formGNUStrpAlt:
		in = w.view(w.r.alt)
	case formStrx, formStrx1, formStrx2, formStrx3, formStrx4, formGNUStrIndex:
		var ok bool
		if off, ok = u.strx(v.u); !ok {
			return 0, false
		}
	default:
		in = nil
	}
	if in != nil {
		if id, ok := in.linkages.get(off); ok {
			return functab.NameID(id), true
		}
	}
	s := w.str(u, v)
	if len(s) == 0 {
		return 0, false
	}
	if in == nil {
		return w.rawName(s), true
	}
	var id functab.NameID
	if in.im.split {
		id = w.rawName(s) // other .dwo files have the same names
	} else {
		id = w.newName(string(s)) // linkers keep one of equal strings
	}
	in.linkages.set(off, uint64(id))
	return id, true
}

// rawName returns the number of a linkage name.
func (w *worker) rawName(raw []byte) functab.NameID {
	if id, ok := w.names.raw[string(raw)]; ok {
		return id
	}
	s := string(raw)
	id := w.newName(s)
	if len(w.names.raw) >= cachedNames || w.names.raw == nil {
		w.names.raw = make(map[string]functab.NameID)
	}
	if len(s) <= 1024 {
		w.names.raw[s] = id
	}
	return id
}

// newName returns the number of a linkage name that is not remembered.
func (w *worker) newName(raw string) functab.NameID {
	shown := raw
	if w.r.opt.Demangle != nil {
		if x := w.r.opt.Demangle(raw); x != "" {
			shown = x
		}
	}
	return w.r.b.Name(shown, raw)
}

// plainName returns the number of a name that is not mangled.
func (w *worker) plainName(s string) functab.NameID {
	return w.r.b.Name(s, "")
}

// qualified returns the name of an entry with the scopes around it. lang is the
// language for units that name none, such as the partial units of dwz.
func (w *worker) qualified(u *unit, d *die, lang uint64) (string, error) {
	if u.lang != 0 {
		lang = u.lang
	}
	name := string(w.str(u, d.name))
	sep := separator(lang)
	if name == "" || sep == "" {
		return name, nil
	}
	s, at, err := w.scopeOf(u, d.off, lang)
	if err != nil {
		return "", err
	}
	parts := []string{name}
	size := len(name)
	for range maxScopes {
		if at < 0 || int(at) >= len(s.scopes) {
			break
		}
		sc := s.scopes[at]
		e, err := w.dieAt(u, sc.off)
		if w.fatal(err) {
			return "", err
		}
		if err != nil || e.ab == nil {
			break
		}
		part := string(w.str(u, e.name))
		if part == "" && e.ab.tag == tagNamespace {
			part = "(anonymous namespace)"
		}
		if size += len(sep) + len(part); size > maxQualified {
			break
		}
		if part != "" {
			parts = append(parts, part)
		}
		at = sc.parent
	}
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(parts, sep), nil
}

// scopeOf returns the scopes of a unit and which of them an entry is in.
func (w *worker) scopeOf(u *unit, off, lang uint64) (*scopesOf, int32, error) {
	if w.names.unit != nil && w.names.unit.v == u.v && w.names.unit.off == u.off {
		s := &scopesOf{w.walk.scopes, w.walk.decls}
		if at, ok := s.find(off); ok {
			return s, at, nil
		}
	}
	key := dieKey{u.v.im, u.off}
	s := w.names.scopes[key]
	if s == nil {
		if w.names.scanner == nil {
			w.names.scanner = newWorker(w.r)
		}
		scan := w.names.scanner
		scan.ctx = w.ctx
		c := *u
		c.v, c.lang = scan.view(u.v.im), lang
		err := scan.walkUnit(&c, true)
		if w.fatal(err) {
			return nil, -1, err
		}
		s = &scopesOf{scan.walk.scopes, scan.walk.decls}
		scan.walk.scopes, scan.walk.decls = nil, nil
		scan.stats = Stats{}
		if len(w.names.scopes) >= 8 || w.names.scopes == nil {
			w.names.scopes = make(map[dieKey]*scopesOf)
		}
		w.names.scopes[key] = s
	}
	at, _ := s.find(off)
	return s, at, nil
}
