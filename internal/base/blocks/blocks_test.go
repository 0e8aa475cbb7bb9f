package blocks_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

func random(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// change returns a content with changes in some places: bytes are replaced, inserted, removed,
// moved and repeated.
func change(r *rand.Rand, b []byte, changes int) []byte {
	for range changes {
		if len(b) == 0 {
			b = random(r, 10)
		}
		at := r.IntN(len(b))
		n := min(r.IntN(5000), len(b)-at)
		some := bytes.Clone(b[at : at+n])
		switch r.IntN(5) {
		case 0:
			b = append(bytes.Clone(b[:at]), append(random(r, n), b[at+n:]...)...)
		case 1:
			b = append(bytes.Clone(b[:at]), append(random(r, r.IntN(3000)), b[at:]...)...)
		case 2:
			b = append(bytes.Clone(b[:at]), b[at+n:]...)
		case 3:
			b = append(append(bytes.Clone(b[:at]), b[at+n:]...), some...)
		case 4:
			b = append(some, b...)
		}
	}
	return b
}

// TestRecipes: every range of a changed content comes back from its recipe and the base, and
// takes little more than what was changed.
func TestRecipes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(symtest.Seed(t, 33), 1))
	for i := range 60 {
		base := random(r, r.IntN(600_000))
		if i%10 == 9 { // few different blocks
			base = bytes.Repeat(random(r, 1+r.IntN(100)), 4000)
		}
		changes := r.IntN(6)
		now := change(r, base, changes)
		list, err := blocks.List(iotest.HalfReader(bytes.NewReader(base)))
		if err != nil {
			t.Fatal(err)
		}
		index, err := blocks.NewIndex(list)
		if err != nil {
			t.Fatal(err)
		}
		recipe, err := index.Recipe(bytes.NewReader(now))
		if err != nil || recipe.Size() != int64(len(now)) {
			t.Fatalf("case %d: a recipe of %d bytes, %v; want %d", i, recipe.Size(), err, len(now))
		}
		if own := recipe.Size() - recipe.Copied(); own > int64(changes*(3*64<<10)) {
			t.Errorf("case %d: %d of %d bytes are new after %d changes", i, own, len(now), changes)
		}
		alone, err := blocks.List(bytes.NewReader(now))
		if err != nil {
			t.Fatal(err)
		}
		if list, err := index.List(iotest.HalfReader(bytes.NewReader(now))); err != nil || !bytes.Equal(list, alone) {
			t.Errorf("case %d: another list of blocks with the base than without, %v", i, err)
		}
		part := int64(1 + r.IntN(300_000))
		var got []byte
		for off := int64(0); off < int64(len(now)); off += part {
			n := min(part, int64(len(now))-off)
			written, size := recipe.Open(bytes.NewReader(now), off, n)
			text, err := io.ReadAll(written)
			if err != nil || int64(len(text)) != size {
				t.Fatalf("case %d: a written recipe of %d bytes, %v; want %d", i, len(text), err, size)
			}
			some, err := io.ReadAll(blocks.NewReader(iotest.OneByteReader(bytes.NewReader(text)), bytes.NewReader(base), int64(len(base))))
			if err != nil || int64(len(some)) != n {
				t.Fatalf("case %d: %d bytes from %d on, %v; want %d", i, len(some), off, err, n)
			}
			got = append(got, some...)
		}
		if !bytes.Equal(got, now) {
			t.Fatalf("case %d: the recipe gives other bytes", i)
		}
	}
}

// TestCut: blocks have the lengths of the method, and those of a fixed content are always the
// same: clients and servers of other versions cut it likewise.
func TestCut(t *testing.T) {
	t.Parallel()
	content := make([]byte, 0, 1<<20)
	for i := uint32(0); len(content) < 1<<20; i++ {
		content = binary.LittleEndian.AppendUint32(content, i*2654435761)
	}
	var all []byte
	var sizes []string
	if err := blocks.Cut(bytes.NewReader(content), func(b []byte) error {
		sizes, all = append(sizes, fmt.Sprint(len(b))), append(all, b...)
		if len(b) > 64<<10 || len(b) < 4<<10 && len(all) < len(content) {
			t.Errorf("a block of %d bytes", len(b))
		}
		return nil
	}); err != nil || !bytes.Equal(all, content) {
		t.Errorf("the blocks have %d bytes, %v; want those of the content", len(all), err)
	}
	const want = "24413 5327 21973 10596 9263 6526 7744 17804"
	if got := strings.Join(sizes[:8], " "); got != want {
		t.Errorf("the first blocks have %s bytes, want %s", got, want)
	}
	stop := errors.New("stop")
	if err := blocks.Cut(bytes.NewReader(content), func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("cut: %v, want the error of the callback", err)
	}
	if _, err := blocks.List(iotest.ErrReader(stop)); !errors.Is(err, stop) {
		t.Errorf("list: %v, want the error of the reader", err)
	}
}

// numbers returns unsigned varints.
func numbers(list ...uint64) (b []byte) {
	for _, n := range list {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// TestHostileRecipes: what does not fit the base is an error, before anything is read there.
func TestHostileRecipes(t *testing.T) {
	t.Parallel()
	base := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	size := uint64(len(base))
	for name, text := range map[string][]byte{
		"copy beyond the end":           numbers(2048<<1|1, size-2047),
		"copy from beyond the end":      numbers(2048<<1|1, size+1),
		"copy that wraps around":        numbers(2048<<1|1, 1<<63-1),
		"copy of all there is, and one": numbers((size+1)<<1|1, 0),
		"copy of 2^62 bytes":            numbers(1<<62|1, 0),
		"copies of one byte":            bytes.Repeat(numbers(1<<1|1, 5), 1000),
		"copy of nothing":               numbers(1, 0),
		"empty steps":                   make([]byte, 1<<20),
		"number without end":            bytes.Repeat([]byte{0xff}, 1<<20),
		"number of 64 bits":             {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
		"copy without offset":           numbers(2048<<1 | 1),
		"half a number":                 {0x80},
		"fewer bytes than it says":      append(numbers(10<<1), "nine byte"...),
		"2^61 bytes":                    append(numbers(1<<62), "nine byte"...),
	} {
		n, err := io.Copy(io.Discard, blocks.NewReader(bytes.NewReader(text), bytes.NewReader(base), int64(len(base))))
		if !errors.Is(err, blocks.ErrRecipe) || n > 10 {
			t.Errorf("%s: %d bytes, %v; want an invalid recipe", name, n, err)
		}
	}
	lost := errors.New("lost")
	if _, err := io.ReadAll(blocks.NewReader(iotest.ErrReader(lost), nil, 0)); !errors.Is(err, lost) {
		t.Errorf("a recipe that cannot be read: %v, want its error", err)
	}
	short := bytes.NewReader(base[:100])
	if _, err := io.ReadAll(blocks.NewReader(bytes.NewReader(numbers(2048<<1|1, 0)), short, int64(len(base)))); !errors.Is(err, blocks.ErrBase) {
		t.Errorf("a base that has become shorter: %v, want an error of the base", err)
	}
	for name, list := range map[string][]byte{
		"half an entry": make([]byte, 13), "an empty block": make([]byte, 12),
		"a long block": {0, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8},
	} {
		if _, err := blocks.NewIndex(list); !errors.Is(err, blocks.ErrList) {
			t.Errorf("list with %s: %v, want an invalid list", name, err)
		}
	}
}

// FuzzReader: no written recipe makes a reader panic, or give more than 64 KiB for each byte of
// the recipe.
func FuzzReader(f *testing.F) {
	base := bytes.Repeat([]byte("0123456789abcdef"), 256)
	f.Add(numbers(2048<<1|1, 7, 3<<1))
	f.Add(append(numbers(3<<1), "abc"...))
	f.Fuzz(func(t *testing.T, text []byte) {
		n, err := io.Copy(io.Discard, blocks.NewReader(bytes.NewReader(text), bytes.NewReader(base), int64(len(base))))
		if n > int64(len(text)*len(base)) {
			t.Errorf("%d bytes from a recipe of %d, %v", n, len(text), err)
		}
		if index, err := blocks.NewIndex(text); err == nil {
			if _, err := index.Recipe(bytes.NewReader(base)); err != nil {
				t.Error(err)
			}
		}
	})
}

// BenchmarkCut cuts a content, alone and beside a base that is the same.
func BenchmarkCut(b *testing.B) {
	content := random(rand.New(rand.NewPCG(1, 2)), 16<<20)
	list, err := blocks.List(bytes.NewReader(content))
	if err != nil {
		b.Fatal(err)
	}
	index, err := blocks.NewIndex(list)
	if err != nil {
		b.Fatal(err)
	}
	for name, list := range map[string]func(io.Reader) ([]byte, error){"alone": blocks.List, "beside a base": index.List} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			for b.Loop() {
				if _, err := list(bytes.NewReader(content)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
