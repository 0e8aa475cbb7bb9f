package gsym

import (
	"fmt"
	"io"
)

// NameCounts say what WriteNames left out.
type NameCounts struct {
	Names int   // functions and symbols that were written
	Files int   // of the table of files
	Lines int64 // functions with lines or inlined calls
	Bytes int64 // of these
}

// nameFactor limits the bytes of the names of all functions, of which many may share one.
const nameFactor = 64

// WriteNames writes the file anew with the names and the sizes of its functions and symbols only:
// no lines, no source files, no inlined calls. rename turns the shown and the raw name of each, as
// the linker knows it, into those that are written, and is given the address relative to Base; an empty
// raw name is left out. Damage is found before the first byte is written; the error then wraps
// ErrFormat or is one of the reader.
func (f *File) WriteNames(w io.Writer, rename func(shown, raw string, rva uint64) (string, string)) (NameCounts, error) {
	counts := NameCounts{Files: len(f.files) / 8}
	t := &textTable{text: []byte{0}, at: map[string]uint32{"": 0}, limit: max(f.size, 1<<20)}
	infos := make([]byte, 0, 16*f.n)
	left := nameFactor*f.size + 1<<20
	var trailer []record
	for i := range f.n {
		head, err := f.read(int64(le.Uint32(f.infos[4*i:])), 8)
		if err != nil {
			return counts, err
		}
		name, err := f.text(le.Uint32(head[4:]))
		if err != nil {
			return counts, err
		}
		raw, flags, err := f.extra(uint32(i))
		if err != nil {
			return counts, err
		}
		if left -= int64(len(name) + len(raw)); left < 0 {
			return counts, fmt.Errorf("%w: names of more than %d times the bytes of the file", ErrFormat, nameFactor)
		}
		if n, err := f.detailBytes(i); err != nil {
			return counts, err
		} else if n > 0 {
			counts.Lines++
			counts.Bytes += n
		}
		if name != "" {
			counts.Names++
			name, raw = rename(name, raw, f.start(i))
		}
		infos = le.AppendUint32(infos, le.Uint32(head))
		infos = le.AppendUint32(infos, t.add(name))
		infos = append(infos, make([]byte, 8)...) // the end of its parts
		if raw != "" || flags != 0 {
			trailer = append(trailer, record{uint32(i), int(t.add(raw)), flags})
		}
		if t.full {
			return counts, fmt.Errorf("%w: names of more bytes than the file has", ErrFormat)
		}
	}
	return counts, f.writeNames(w, infos, t.text, trailer)
}

// detailBytes returns the bytes of lines and inlined calls of an entry.
func (f *File) detailBytes(i int) (int64, error) {
	at, sum := int64(le.Uint32(f.infos[4*i:]))+8, int64(0)
	for {
		part, err := f.read(at, 8)
		if err != nil {
			return 0, err
		}
		if le.Uint32(part) == infoEnd {
			return sum, nil
		}
		n := 8 + int64(le.Uint32(part[4:]))
		sum += n
		at += n
	}
}

// writeNames writes a file of records that have only a size and a name.
func (f *File) writeNames(w io.Writer, infos, text []byte, trailer []record) error {
	addresses := (int64(len(f.starts)) + 3) &^ 3
	first := headerSize + addresses + 4*int64(f.n) + 4 + 8
	end := first + int64(len(infos)) + int64(len(text))
	head, err := f.read(0, headerSize)
	if err != nil {
		return err
	}
	le.PutUint32(head[20:], uint32(first+int64(len(infos))))
	le.PutUint32(head[24:], uint32(len(text)))
	clear(head[28+len(f.uuid):])
	out := newWriter(w)
	out.bytes(head)
	out.bytes(f.starts)
	out.align(4)
	for i := range f.n {
		out.uint32(uint32(first) + 16*uint32(i))
	}
	out.uint32(1, 0, 0) // one file: the unknown one
	out.bytes(infos)
	out.bytes(text)
	if len(trailer) == 0 {
		return out.Flush()
	}
	out.align(4)
	at := (end + 3) &^ 3
	out.uint32(trailerMagic, trailerVersion, uint32(len(trailer)), 0)
	for _, r := range trailer {
		out.uint32(r.entry, uint32(r.raw), r.flags)
	}
	out.uint32(uint32(at), 0, uint32(out.n-at), trailerMagic)
	return out.Flush()
}

// textTable is a string table in which each text stands once.
type textTable struct {
	text  []byte
	at    map[string]uint32
	limit int64 // bytes
	full  bool
}

// add returns the offset of a text.
func (t *textTable) add(text string) uint32 {
	if at, ok := t.at[text]; ok {
		return at
	}
	if int64(len(t.text)+len(text)) > t.limit {
		t.full = true
		return 0
	}
	at := uint32(len(t.text))
	t.at[text] = at
	t.text = append(append(t.text, text...), 0)
	return at
}
