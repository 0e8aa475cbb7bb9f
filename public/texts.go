package public

import (
	"bytes"
	"slices"
)

// texts makes a table of strings that end in NUL from parts of another one and from new ones. Texts
// that share their end in the old table share it in the new one, so that the new table is never
// larger than the old one and the new texts together.
type texts struct {
	old   []byte
	head  int      // bytes before the first text in the new table
	kept  []uint32 // offsets in the old table
	added []byte
	known map[string]uint32 // numbers of new texts: offsets in added with the mark newText
}

// newText marks the number of a new text. A table is smaller than this.
const newText = 1 << 31

func newTexts(old []byte) *texts { return &texts{old: old, head: 1, known: map[string]uint32{}} }

// keep keeps the text at an offset of the old table.
func (t *texts) keep(at uint32) { t.kept = append(t.kept, at) }

// add returns the number of a new text.
func (t *texts) add(text string) uint32 {
	if n, ok := t.known[text]; ok {
		return n
	}
	n := uint32(len(t.added)) | newText
	t.known[text] = n
	t.added = append(append(t.added, text...), 0)
	return n
}

// place returns the new table. It calls each once with a function that turns offsets in the old table
// and numbers of new texts into offsets in the new table.
func (t *texts) place(each func(move func(uint32) uint32)) []byte {
	slices.Sort(t.kept)
	t.kept = slices.Compact(t.kept)
	out := make([]byte, t.head)
	placed := make([]uint32, len(t.kept))
	var from, to, start int64 // of the last text in the old table, and in the new one
	to = -1
	for i, at := range t.kept {
		if int64(at) > to {
			from, start = int64(at), int64(len(out))
			n := bytes.IndexByte(t.old[at:], 0)
			if n < 0 {
				n = len(t.old) - int(at)
			}
			to = from + int64(n)
			out = append(append(out, t.old[from:to]...), 0)
		}
		placed[i] = uint32(start + int64(at) - from)
	}
	added := uint32(len(out))
	out = append(out, t.added...)
	each(func(n uint32) uint32 {
		if n&newText != 0 {
			return n&^newText + added
		}
		if i, ok := slices.BinarySearch(t.kept, n); ok {
			return placed[i]
		}
		return 0
	})
	return out
}
