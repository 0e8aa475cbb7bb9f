package cold

import (
	"cmp"
	"io"
	"slices"

	"github.com/symdepot/symdepot/internal/store/deflate"
	"github.com/symdepot/symdepot/internal/store/typehash"
)

// typeHashes is the kind of a stream that is hashes of the type records of a PDB. It stands for no bytes: the
// hashes follow from other bytes of the unpacked form.
const typeHashes = zstdFrame + 1

// leastHashes is how many bytes of hashes a PDB must have to be stored without them.
const leastHashes = 4 << 10

// hashes finds the hashes of types of a PDB. Since they are made of bytes of the unpacked form, there are none in
// a content with other streams.
func (f *finder) hashes() error {
	if len(f.streams) > 0 {
		return nil
	}
	runs, err := typehash.Find(f.ctx, f.src, f.src.Size, f.recipes)
	if err != nil {
		return err
	}
	n, named := int64(0), 0
	for _, r := range runs {
		n, named = n+r.Len, named+32+len(r.Recipe)
	}
	if n < leastHashes || named > maxLayout {
		return nil
	}
	for _, r := range runs {
		f.found(deflate.Stream{At: r.At, Len: r.Len, Kind: typeHashes, Recipe: r.Recipe})
	}
	return nil
}

// maxWatched is how many bytes a watch keeps: hashes, and places of their records.
const maxWatched = 8 << 20

// watch makes the hashes of types while the unpacked form is read from begin to end, since the records are most
// often before their hashes.
type watch struct {
	r       io.ReaderAt
	parts   []watched // in their order
	at      int64     // in the first of them
	hashers []*typehash.Hasher
	missed  []bool // hashers that did not get all of their records
}

// watched is a part of the unpacked form.
type watched struct {
	typehash.Range
	of int // hasher
	no int // of its ranges
}

// hasRecipes says whether a layout has recipes of hashes of types.
func (l *layout) hasRecipes() bool {
	return slices.ContainsFunc(l.streams, func(s deflate.Stream) bool { return len(s.Recipe) > 0 })
}

// isHashes says whether the streams of a layout are hashes of types.
func (l *layout) isHashes() bool {
	return !slices.ContainsFunc(l.streams, func(s deflate.Stream) bool { return s.Kind != typeHashes })
}

// watch begins to watch what is read.
func (p *packer) watch() error {
	w := &watch{r: p.r, hashers: make([]*typehash.Hasher, len(p.streams)), missed: make([]bool, len(p.streams))}
	n := int64(0)
	for i := range p.streams {
		s := &p.streams[i]
		if s.Kind != typeHashes {
			continue
		}
		h, err := typehash.NewHasher(s.Recipe, s.Len)
		if err != nil {
			return p.failed(err)
		}
		if n += s.Len + 64*int64(len(h.Ranges)+1); n > maxWatched {
			break // these are made of their records when they are read
		}
		w.hashers[i] = h
		for no, r := range h.Ranges {
			w.parts = append(w.parts, watched{r, i, no})
		}
	}
	if len(w.parts) == 0 {
		return nil
	}
	// Those of a hasher stay in their order: what is not ascending is missed.
	if !slices.IsSortedFunc(w.parts, byPlace) {
		slices.SortStableFunc(w.parts, byPlace)
		last := make([]int, len(p.streams))
		for i := range w.parts {
			x := &w.parts[i]
			w.missed[x.of] = w.missed[x.of] || x.no < last[x.of]
			last[x.of] = x.no
		}
	}
	p.watched, p.r = w, w
	return nil
}

func byPlace(a, b watched) int { return cmp.Compare(a.At, b.At) }

// ReadAt reads what is watched.
func (w *watch) ReadAt(b []byte, off int64) (int, error) {
	n, err := w.r.ReadAt(b, off)
	w.see(b[:n], off)
	return n, err
}

// see takes what was read at an offset.
func (w *watch) see(b []byte, off int64) {
	end := off + int64(len(b))
	for len(w.parts) > 0 && w.parts[0].At+w.at < end {
		x := &w.parts[0]
		from := x.At + w.at
		if from < off || w.missed[x.of] {
			w.missed[x.of] = true
			w.parts, w.at = w.parts[1:], 0
			continue
		}
		n := min(x.At+x.Len, end) - from
		if _, err := w.hashers[x.of].Write(b[from-off:][:n]); err != nil {
			w.missed[x.of] = true
		}
		if w.at += n; w.at == x.Len {
			w.parts, w.at = w.parts[1:], 0
		}
	}
}

// take gives the hashes of a stream, and lets go of them; nil if they are not known.
func (w *watch) take(stream int) []byte {
	if w == nil || w.hashers[stream] == nil || w.missed[stream] {
		return nil
	}
	b, err := w.hashers[stream].Hashes()
	w.hashers[stream], w.missed[stream] = nil, true
	if err != nil { // too early, or wrong: it is made again
		return nil
	}
	return b
}

// hashes makes the hashes of a stream.
func (p *packer) hashes(stream int) ([]byte, error) {
	if b := p.watched.take(stream); b != nil {
		return b, nil
	}
	s := &p.streams[stream]
	h, err := typehash.NewHasher(s.Recipe, s.Len)
	if err != nil {
		return nil, p.failed(err)
	}
	b, err := h.Read(p.r, p.buffer())
	return b, p.failed(err)
}

// writeHashed writes the whole content, whose streams are hashes of types. What the blocks hold is written from
// there.
func (c *Reader) writeHashed(w io.Writer) (n int64, err error) {
	p := newPacker(storedForm{c}, c.header.own, false)
	if err := p.watch(); err != nil {
		return 0, err
	}
	at := int64(0) // in the unpacked form
	for i := 0; i <= len(p.streams); i++ {
		end := p.unpacked
		if i < len(p.streams) {
			end = p.starts[i]
		}
		for at < end && err == nil {
			var k int
			k, err = c.writePart(w, at, end, p.watched)
			n, at = n+int64(k), at+int64(k)
		}
		if err != nil || i == len(p.streams) {
			return n, err
		}
		b, err := p.hashes(i)
		if err != nil {
			return n, err
		}
		k, err := w.Write(b)
		if n += int64(k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// writePart writes bytes of the unpacked form from an offset on, as far as their block goes.
func (c *Reader) writePart(w io.Writer, at, end int64, seen *watch) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := at / c.header.BlockSize
	data, err := c.block(i)
	if err != nil {
		return 0, err
	}
	from := i * c.header.BlockSize
	data = data[at-from : min(int64(len(data)), end-from)]
	if seen != nil {
		seen.see(data, at)
	}
	return w.Write(data)
}
