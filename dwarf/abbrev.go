package dwarf

import "fmt"

// Limits of one abbreviation table.
const (
	maxAbbrevs     = 1 << 18
	maxAbbrevSpecs = 1 << 20
	maxTableBytes  = 16 << 20
	cachedSpecs    = 1 << 20 // of all tables that a worker keeps
)

// role decides how the walk over a unit treats an entry.
type role uint8

const (
	roleSkip    role = iota
	roleScope        // a namespace, a type, a lexical block: the walk enters it
	roleFunc         // a subprogram with code
	roleDecl         // a subprogram without code
	roleInlined      // an inlined call
)

type attrSpec struct {
	name, form uint16
	implicit   int64
}

// abbrev is one abbreviation: the shape of entries.
type abbrev struct {
	tag      uint16
	children bool
	linkage  bool // has a linkage name
	named    bool // has a name
	role     role
	sibling  int16 // which value is a sibling reference of a size that is known, or -1
	specs    []attrSpec
	leaf     bool       // the walk has no use for the entry, which has no children
	steps    []skipStep // skip all values
	skipped  bool       // steps can
}

// skipStep skips bytes, and then a value whose size is in the entry.
type skipStep struct {
	bytes int32
	then  skipKind
}

type skipKind uint8

const (
	skipNone  skipKind = iota // nothing follows
	skipLEB                   // a number
	skipBlock                 // a length of less than 128, and as many bytes
)

// skipSteps returns how to skip values. ok is false if that takes more than steps can say.
func (enc encoding) skipSteps(specs []attrSpec) (steps []skipStep, ok bool) {
	var s skipStep
	for _, spec := range specs {
		switch spec.form {
		case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex, formSdata:
			s.then = skipLEB
		case formExprloc, formBlock, formBlock1:
			s.then = skipBlock
		default:
			n := enc.fixedSize(spec.form)
			if n < 0 || s.bytes > 1<<28 {
				return nil, false
			}
			s.bytes += int32(n)
			continue
		}
		steps, s = append(steps, s), skipStep{}
	}
	if s.bytes > 0 {
		steps = append(steps, s)
	}
	return steps, true
}

// abbrevs is an abbreviation table. Codes are nearly always 1, 2, 3 and so on.
type abbrevs struct {
	enc    encoding
	dense  []abbrev
	sparse map[uint64]*abbrev
	specs  int
}

func (t *abbrevs) get(code uint64) *abbrev {
	if code-1 < uint64(len(t.dense)) {
		return &t.dense[code-1]
	}
	return t.sparse[code]
}

type abbrevKey struct {
	im  *image
	off uint64
	enc encoding
}

// abbrevTable returns the table at off. Tables of the units before are kept.
func (w *worker) abbrevTable(v *view, off uint64, enc encoding) (*abbrevs, error) {
	if enc.version > 2 {
		enc.version = 5 // sizes of forms are the same
	}
	key := abbrevKey{v.im, off, enc}
	if t := w.abbrevs[key]; t != nil {
		return t, nil
	}
	if off >= v.abbrev.Size() {
		return nil, fmt.Errorf("%w: an abbreviation table at %#x of a section of %d bytes", errBad, off, v.abbrev.Size())
	}
	for n := 4096; ; n = min(n*4, maxTableBytes) {
		p := v.abbrev.At(off, n)
		t, err := parseAbbrevs(p, enc, 0)
		if t != nil {
			err = w.spend(int64(t.specs + 8*len(t.dense) + 8*len(t.sparse)))
		} else if e := w.spend(int64(len(p))); e != nil {
			err = e
		}
		if err == errShort && len(p) == n && n < maxTableBytes {
			continue
		}
		if err == errShort {
			err = fmt.Errorf("%w: the abbreviation table at %#x has no end", errBad, off)
		}
		if err != nil {
			return nil, err
		}
		if w.abbrevSpecs += t.specs + len(t.dense); w.abbrevSpecs > cachedSpecs {
			w.abbrevSpecs = t.specs + len(t.dense)
			clear(w.abbrevs)
		}
		w.abbrevs[key] = t
		return t, nil
	}
}

// parseAbbrevs reads an abbreviation table (DWARF 5, section 7.5.3): all of it, or up to
// the abbreviation with the code last, if last is not 0.
func parseAbbrevs(p []byte, enc encoding, last uint64) (*abbrevs, error) {
	c := cursor{b: p}
	t := &abbrevs{enc: enc}
	var arena []attrSpec
	for n := 0; ; n++ {
		code := c.uleb()
		if c.short {
			return nil, errShort
		}
		if code == 0 {
			return t, nil
		}
		if n >= maxAbbrevs {
			return nil, fmt.Errorf("%w: more than %d abbreviations in a table", errBad, maxAbbrevs)
		}
		a := abbrev{tag: uint16(min(c.uleb(), 0xffff)), children: c.u8() != 0, sibling: -1}
		first := len(arena)
		hasCode := false
		for {
			s, more, err := t.readSpec(&c)
			if err != nil {
				return nil, err
			}
			if !more {
				break
			}
			hasCode = hasCode || s.name == atLowPC || s.name == atRanges
			a.note(s, len(arena)-first, enc)
			arena = append(arena, s)
		}
		a.specs = arena[first:len(arena):len(arena)]
		a.steps, a.skipped = enc.skipSteps(a.specs)
		a.role = tagRole(a.tag, hasCode)
		a.leaf = a.role == roleSkip && !a.children && a.skipped
		t.add(code, a)
		if code == last {
			return t, nil
		}
	}
}

// readSpec reads the next attribute of an abbreviation. more is false at the end of the
// list.
func (t *abbrevs) readSpec(c *cursor) (s attrSpec, more bool, err error) {
	name, form := c.uleb(), c.uleb()
	var implicit int64
	if form == formImplicitConst {
		implicit = c.sleb()
	}
	if c.short {
		return s, false, errShort
	}
	if name == 0 && form == 0 {
		return s, false, nil
	}
	if t.specs++; t.specs > maxAbbrevSpecs {
		return s, false, fmt.Errorf("%w: more than %d attributes in an abbreviation table", errBad, maxAbbrevSpecs)
	}
	return attrSpec{uint16(min(name, 0xffff)), uint16(min(form, 0xffff)), implicit}, true, nil
}

// note records what readers of entries ask of an attribute without reading it. i is its
// place in the list.
func (a *abbrev) note(s attrSpec, i int, enc encoding) {
	switch s.name {
	case atLinkageName, atMIPSLinkage:
		a.linkage = true
	case atName:
		a.named = true
	case atSibling:
		if enc.fixedSize(s.form) > 0 && i < 1<<15 {
			a.sibling = int16(i)
		}
	}
}

// tagRole returns what the walk does with entries of a tag. hasCode: they have addresses.
func tagRole(tag uint16, hasCode bool) role {
	switch tag {
	case tagSubprogram:
		if hasCode {
			return roleFunc
		}
		return roleDecl
	case tagInlined:
		return roleInlined
	case tagNamespace, tagModule, tagClass, tagStruct, tagUnion, tagInterface, tagLexical, tagWith, tagCatch, tagTry,
		tagCompile, tagPartial, tagSkeleton, tagType:
		return roleScope
	}
	return roleSkip
}

// add keeps an abbreviation. Of several with one code, the first counts.
func (t *abbrevs) add(code uint64, a abbrev) {
	if code == uint64(len(t.dense))+1 {
		t.dense = append(t.dense, a)
	} else if t.get(code) == nil {
		if t.sparse == nil {
			t.sparse = map[uint64]*abbrev{}
		}
		t.sparse[code] = &a
	}
}
