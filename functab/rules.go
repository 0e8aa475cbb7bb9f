package functab

// Rules are the unwind rules in force at one address.
type Rules struct {
	Start uint64 // RVA of the first instruction of the code that the rules are for
	// CFI has the rules at Start in the syntax of STACK CFI INIT records, then the changes up to the
	// address. A later rule of a register replaces an earlier one. It is empty without such rules.
	CFI []string
	// Win is the Windows record; nil without one.
	Win *WinFrame
	// Params is the size of the parameters of the function on the stack in bytes (x86 on Windows).
	Params uint32
}

// RulesAt returns the rules of a frame in force at rva. It returns false if the frame does not hold rva.
func (f *Frame) RulesAt(rva uint64) (Rules, bool) {
	if rva < f.Start || rva-f.Start >= uint64(f.Size) {
		return Rules{}, false
	}
	r := Rules{Start: f.Start}
	if f.Win != nil {
		w := *f.Win
		r.Win, r.Params = &w, w.Params
		return r, true
	}
	r.CFI = append(make([]string, 0, 4), f.CFI)
	for _, d := range f.Deltas {
		if d.Address > rva {
			break
		}
		r.CFI = append(r.CFI, d.Rules)
	}
	return r, true
}

// maxNested is the number of Windows records that may lie in another one.
const maxNested = 64

// RulesAt returns the unwind rules in force at rva. Of Windows records, those with a program come
// first; of several of one type, the one that starts last. The size of the parameters is that of the
// record, or else of the function or symbol. It returns false if nothing is known of rva. The texts
// share memory with the Table.
func (t *Table) RulesAt(rva uint64) (Rules, bool) {
	var r Rules
	known := false
	if i := t.frames.last(rva); i >= 0 {
		start, pos := t.frames.get(i)
		f := decodeFrame(start, t.records.at(pos), &t.rules, nil)
		r, known = f.RulesAt(rva)
	}
	if w, start, ok := t.winAt(rva); ok {
		if r.Win, r.Params = w, w.Params; r.CFI == nil {
			r.Start = start
		}
		return r, true
	}
	switch i, j := t.locate(rva); {
	case i >= 0:
		_, rec := t.function(i)
		r.Params, known = readHead(rec).params&paramsMask, true
	case j >= 0:
		r.Params, known = t.symbol(j).Params, true
	}
	return r, known
}

// winAt returns the Windows record in force at rva. Of records of one type that start at one address,
// the first one holds.
func (t *Table) winAt(rva uint64) (found *WinFrame, start uint64, ok bool) {
	last := t.wins.last(rva)
	for i := last; i >= 0 && i > last-maxNested; i-- {
		at, pos := t.wins.get(i)
		var w WinFrame
		f := decodeWin(at, t.records.at(pos), &t.rules, &w)
		if rva-at >= uint64(f.Size) {
			continue
		}
		if found == nil || w.Type > found.Type || w.Type == found.Type && at == start {
			found, start = &w, at
		}
	}
	return found, start, found != nil
}

// Known reports whether a function or a public symbol holds rva, as Lookup does.
func (t *Table) Known(rva uint64) bool {
	i, j := t.locate(rva)
	return i >= 0 || j >= 0
}
