package gsym

import (
	"sync"

	"github.com/symdepot/symdepot/functab"
)

// Found is the answer to one of several lookups: the results of LookupShown.
type Found struct {
	functab.Answer
	OK  bool
	Err error
}

// eachAtOnce is how many addresses are looked up side by side.
const eachAtOnce = 16

// batch is the working memory of LookupEach.
type batch struct {
	entries [eachAtOnce]int
	sites   [eachAtOnce]site
	touched byte
}

var batches = sync.Pool{New: func() any { return new(batch) }}

// LookupEach looks several addresses up as LookupShown does one. In a file that is in memory that is
// faster, as the processor waits for the memory of several addresses at the same time. The answers are
// appended to found, their frames to lines.
func (f *File) LookupEach(rvas []uint64, found []Found, lines []functab.Line) ([]Found, []functab.Line) {
	if f.whole.Load() == nil {
		for _, rva := range rvas {
			a, ok, err := f.LookupShown(rva, lines[len(lines):])
			found, lines = append(found, Found{a, ok, err}), append(lines, a.Frames...)
		}
		return found, lines
	}
	b := batches.Get().(*batch)
	for len(rvas) > 0 {
		n := min(len(rvas), eachAtOnce)
		found, lines = f.lookupBatch(b, rvas[:n], found, lines)
		rvas = rvas[n:]
	}
	for i := range b.sites {
		b.sites[i] = site{calls: b.sites[i].calls[:0]}
	}
	batches.Put(b)
	return found, lines
}

// lookupBatch is LookupEach for at most eachAtOnce addresses.
func (f *File) lookupBatch(b *batch, rvas []uint64, found []Found, lines []functab.Line) ([]Found, []functab.Line) {
	w := f.whole.Load()
	for k, rva := range rvas {
		b.entries[k] = f.last(rva)
	}
	var names [eachAtOnce]uint32
	for k := range rvas {
		if i := b.entries[k]; i >= 0 {
			if rec, _ := w.part(int64(le.Uint32(f.infos[4*i:]))); len(rec) >= 8 {
				names[k] = le.Uint32(rec[4:])
			}
		}
	}
	for k := range rvas {
		b.touched += w.touch(names[k])
	}
	first := len(found)
	for k, rva := range rvas {
		var r Found
		b.sites[k].calls = b.sites[k].calls[:0]
		if i := b.entries[k]; i >= 0 {
			r.OK, r.Err = f.locate(&b.sites[k], i, rva)
		}
		found = append(found, r)
	}
	for k := range rvas {
		for _, c := range b.sites[k].calls {
			b.touched += w.touch(c.name)
		}
	}
	for k := range rvas {
		r, s := &found[first+k], &b.sites[k]
		if !r.OK {
			continue
		}
		at := len(lines)
		r.Answer, r.Err = f.answer(s, lines[at:], false)
		lines = append(lines, r.Frames...)
		r.Frames = lines[at:len(lines):len(lines)]
		r.OK = r.Err == nil && !(s.symbol && functab.IsMarker(s.name))
	}
	return found, lines
}

// touch reads some bytes of a text of the string table, so that its memory is fetched.
func (w *whole) touch(at uint32) (v byte) {
	const line = 64 // bytes that are fetched together
	if int64(at)+3*line >= int64(len(w.text)) {
		return 0
	}
	return w.text[at] + w.text[at+line] + w.text[at+2*line] + w.text[at+3*line]
}
