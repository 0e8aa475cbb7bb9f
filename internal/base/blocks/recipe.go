package blocks

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
)

// leastCopy is the length of the shortest copy in a written recipe, so that each read of the
// base gives something. Shorter ones are written as bytes of their own.
const leastCopy = 1 << 10

// Recipe says which ranges of a content are also in the base.
//
// It is written as steps. Each begins with an unsigned varint, twice a length in bytes. If 1 is
// added to that, the step is a copy from the base, and the offset there follows as another
// varint; otherwise as many bytes of the content follow.
type Recipe struct {
	steps []step
	size  int64
	// copied is the sum of the copies.
	copied int64
}

// step is a range of a content. from is its offset in the base; -1: it is not there.
type step struct{ off, size, from int64 }

func (r *Recipe) add(from, n int64) {
	if from >= 0 {
		r.copied += n
	}
	r.size += n
	if len(r.steps) > 0 {
		last := &r.steps[len(r.steps)-1]
		if from < 0 && last.from < 0 || from >= 0 && last.from >= 0 && last.from+last.size == from {
			last.size += n
			return
		}
	}
	r.steps = append(r.steps, step{r.size - n, n, from})
}

// Size is the length of the content in bytes.
func (r *Recipe) Size() int64 { return r.size }

// Copied is how many bytes of the content are in the base.
func (r *Recipe) Copied() int64 { return r.copied }

// Open returns the written recipe of a range of the content, and its length. The content is read
// where the base does not have it.
func (r *Recipe) Open(content io.ReaderAt, off, n int64) (written io.Reader, size int64) {
	var all []io.Reader
	var text []byte // not yet in all
	end := off + n
	own := off // where the bytes begin that the base does not have
	flush := func(to int64) {
		if to > own {
			text = binary.AppendUvarint(text, uint64(to-own)<<1) //nolint:gosec // positive
			all = append(all, bytes.NewReader(text), io.NewSectionReader(content, own, to-own))
			size += int64(len(text)) + to - own
			text = nil
		}
	}
	first := sort.Search(len(r.steps), func(i int) bool { return r.steps[i].off+r.steps[i].size > off })
	for _, s := range r.steps[first:] {
		from, to := max(s.off, off), min(s.off+s.size, end)
		if from >= end {
			break
		}
		if s.from < 0 || to-from < leastCopy {
			continue
		}
		flush(from)
		text = binary.AppendUvarint(text, uint64(to-from)<<1|1)        //nolint:gosec // positive
		text = binary.AppendUvarint(text, uint64(s.from+(from-s.off))) //nolint:gosec // positive
		own = to
	}
	flush(end)
	size += int64(len(text))
	return io.MultiReader(append(all, bytes.NewReader(text))...), size
}

// Errors of a Reader.
var (
	// ErrRecipe means that a written recipe is not valid, or does not fit the base.
	ErrRecipe = errors.New("the recipe is not valid")
	// ErrBase means that the base cannot be read.
	ErrBase = errors.New("the base of the recipe cannot be read")
)

// Reader reads the range of a content of which a recipe is written. It takes time and memory
// that are linear in the bytes that it gives.
type Reader struct {
	recipe *bufio.Reader
	base   io.ReaderAt
	size   int64 // of the base
	off    int64 // of the step in the base; -1: its bytes are in the recipe
	left   int64 // of the step
	err    error // of reading the recipe
}

// NewReader reads what is written in recipe. size is that of the base in bytes.
func NewReader(recipe io.Reader, base io.ReaderAt, size int64) *Reader {
	return &Reader{recipe: bufio.NewReaderSize(recipe, 16<<10), base: base, size: size}
}

// Read implements io.Reader. An error of reading the recipe is returned unchanged.
func (r *Reader) Read(p []byte) (n int, err error) {
	if len(p) == 0 {
		return 0, nil
	}
	if r.left == 0 && r.err == nil {
		r.err = r.next()
	}
	if r.err != nil {
		return 0, r.err
	}
	p = p[:min(int64(len(p)), r.left)]
	if r.off < 0 {
		if n, err = r.recipe.Read(p); errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: it ends within the bytes of a step", ErrRecipe)
		}
	} else {
		if n, err = r.base.ReadAt(p, r.off); n == len(p) {
			err = nil
		} else {
			err = fmt.Errorf("%w: %w", ErrBase, err)
		}
		r.off += int64(n)
	}
	r.left -= int64(n)
	r.err = err
	return n, err
}

// next reads the beginning of a step.
func (r *Reader) next() error {
	if _, err := r.recipe.Peek(1); err != nil {
		return err
	}
	head, err := r.number()
	if err != nil {
		return err
	}
	r.left, r.off = int64(head>>1), -1 //nolint:gosec // below 1<<63
	if head&1 == 0 {
		if r.left == 0 {
			return fmt.Errorf("%w: a step is empty", ErrRecipe)
		}
		return nil
	}
	from, err := r.number()
	if err != nil {
		return err
	}
	if r.left < leastCopy || from > uint64(r.size) || r.left > r.size-int64(from) { //nolint:gosec // compared before
		return fmt.Errorf("%w: a copy of %d bytes at %d of a base of %d bytes", ErrRecipe, r.left, from, r.size)
	}
	r.off = int64(from) //nolint:gosec // compared above
	return nil
}

func (r *Reader) number() (uint64, error) {
	var n uint64
	for shift := uint(0); shift < 63; shift += 7 {
		b, err := r.recipe.ReadByte()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: it ends within a number", ErrRecipe)
		}
		if err != nil {
			return 0, err
		}
		n |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: a number has more than 63 bits", ErrRecipe)
}
