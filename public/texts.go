package public

import (
	"bytes"
	"iter"
	"slices"
)

// stringTable is a table of strings that end in NUL, as symbols refer to it. Many symbols of a hostile
// file may have one long name: the bytes that are read of all names are limited.
type stringTable struct {
	table []byte
	left  int64
}

// Limits of names: bytes of one, and of all of a table, by its size and the number of symbols.
const (
	maxName      = 64 << 10
	tableFactor  = 16
	symbolFactor = 256
)

func newStringTable(table []byte, symbols int64) *stringTable {
	return &stringTable{table, tableFactor*int64(len(table)) + symbolFactor*symbols + 1<<20}
}

// at returns the text at an offset, without its NUL. It is empty if it is too long, and after the
// limit of all names.
func (t *stringTable) at(offset uint32) []byte {
	if int64(offset) >= int64(len(t.table)) || t.left < 0 {
		return nil
	}
	text := t.table[offset:]
	text = text[:min(len(text), maxName+1)]
	if i := bytes.IndexByte(text, 0); i >= 0 {
		text = text[:i]
	}
	t.left -= int64(len(text))
	if len(text) > maxName {
		return nil
	}
	return text
}

// err reports that the limit of all names was reached.
func (t *stringTable) err() error {
	if t.left < 0 {
		return broken("the symbols have more bytes of names than %d times their table", tableFactor)
	}
	return nil
}

// eachText yields the texts of a table in the order of their offsets.
func eachText(table []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		for at := 0; at < len(table); {
			text, _, _ := bytes.Cut(table[at:], []byte{0})
			if !yield(at, text) {
				return
			}
			at += len(text) + 1
		}
	}
}

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
