package cold

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/deflate"
	"github.com/symdepot/symdepot/internal/store/typehash"
)

// typeRecords are the records of n types; one more is put in at a place, if that is not negative.
func typeRecords(n, more int) (b []byte) {
	r := rand.New(rand.NewPCG(3, 4))
	add := func(leaf uint16, data []byte) {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(data)+2))
		b = append(binary.LittleEndian.AppendUint16(b, leaf), data...)
	}
	at := func(i int) uint32 {
		if more >= 0 && i >= more {
			i++
		}
		return uint32(0x1000 + i)
	}
	for i := range n {
		if i == more {
			add(0x1002, []byte{1, 2, 3, 4, 5, 6, 7, 8}) // LF_POINTER
		}
		to := at(r.IntN(i + 1))
		if i%3 == 0 {
			data := binary.LittleEndian.AppendUint32([]byte{1, 0, 0, 2}, to) // LF_STRUCTURE
			add(0x1505, append(append(data, make([]byte, 10)...), fmt.Sprintf("type%d\x00.?AUtype%[1]d@@\x00", i)...))
			continue
		}
		add(0x1002, binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, to), 0x1000c))
	}
	return b
}

// hashesOf are the hashes of records.
func hashesOf(t testing.TB, records []byte) (out []byte) {
	t.Helper()
	for len(records) > 0 {
		n := int64(binary.LittleEndian.Uint16(records)) + 2
		recipe := binary.AppendUvarint([]byte{0xff, 0xff, 0xf, 1, 0}, uint64(n)) // 2^18-1 buckets, one range
		h, err := typehash.NewHasher(recipe, 4)
		if err != nil {
			t.Fatal(err)
		}
		b, err := h.Read(bytes.NewReader(records[:n]), make([]byte, 1<<16))
		if err != nil {
			t.Fatal(err)
		}
		out, records = append(out, b...), records[n:]
	}
	return out
}

// typesPDB is a PDB with these records, whose pages are in the order of a permutation.
func typesPDB(t testing.TB, records []byte, order func(n int) []int) []byte {
	t.Helper()
	const page = 4096
	hashes := hashesOf(t, records)
	head := make([]byte, 56)
	for i, v := range []uint32{20040203, 56, 0x1000, uint32(0x1000 + len(hashes)/4), uint32(len(records)), 0xffff_0005, 4, 1<<18 - 1, 0, uint32(len(hashes))} {
		binary.LittleEndian.PutUint32(head[4*i:], v)
	}
	streams := [][]byte{{}, program(1, 100), append(head, records...), {}, {}, hashes, program(2, 300_000)}
	total := 0
	for _, s := range streams {
		total += (len(s) + page - 1) / page
	}
	list := order(total)
	out := make([]byte, (4+total)*page)
	directory := binary.LittleEndian.AppendUint32(nil, uint32(len(streams)))
	for _, s := range streams {
		directory = binary.LittleEndian.AppendUint32(directory, uint32(len(s)))
	}
	k := 0
	for _, s := range streams {
		for ; len(s) > 0; s = s[min(page, len(s)):] {
			copy(out[(4+list[k])*page:][:page], s)
			directory = binary.LittleEndian.AppendUint32(directory, uint32(4+list[k]))
			k++
		}
	}
	copy(out, typehash.Magic)
	for i, v := range []uint32{page, 1, uint32(4 + total + (len(directory)+page-1)/page), uint32(len(directory)), 0, 3} {
		binary.LittleEndian.PutUint32(out[32+4*i:], v)
	}
	for i := range (len(directory) + page - 1) / page {
		binary.LittleEndian.PutUint32(out[3*page+4*i:], uint32(4+total+i))
	}
	directory = append(directory, make([]byte, -len(directory)&(page-1))...)
	return append(out, directory...)
}

// inOrder is the order of pages of lld.
func inOrder(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// TestHashes: a PDB is stored without the hashes of its types, whatever the order of its pages, and restored with
// any form of its base.
func TestHashes(t *testing.T) {
	shuffled := func(n int) []int { return rand.New(rand.NewPCG(7, 7)).Perm(n) }
	backward := func(n int) []int {
		list := inOrder(n)
		for i := range list {
			list[i] = n - 1 - i
		}
		return list
	}
	const types = 40_000
	older, newer := typeRecords(types, -1), typeRecords(types, 500)
	for name, order := range map[string]func(int) []int{"in order": inOrder, "shuffled": shuffled, "backward": backward} {
		base, b := typesPDB(t, older, order), typesPDB(t, newer, order)
		key, delta := chilled(t, base, nil), chilled(t, b, base)
		for what, file := range map[string][]byte{"key": key, "delta": delta} {
			h, err := ReadHeader(bytes.NewReader(file), int64(len(file)))
			if err != nil || h.Version != 4 || h.HashRuns() == 0 || h.Streams() > 0 || h.UnpackedSize() > h.Size-4*types {
				t.Errorf("%s: head of the %s %+v, %v", name, what, h, err)
			}
		}
		if n := len(encoded(t, b, base)); name == "in order" && len(delta) > n/10 {
			t.Errorf("a delta of %d bytes, and of %d with the hashes; want a tenth at most", len(delta), n)
		}
		if got := restored(t, open(t, key, nil)); !bytes.Equal(got, base) {
			t.Errorf("%s: the key gives other bytes", name)
		}
		r := rand.New(rand.NewPCG(symtest.Seed(t, 41), 1))
		for form, from := range map[string]io.ReaderAt{
			"plain base": bytes.NewReader(base), "key": open(t, key, nil), "old key": open(t, encoded(t, base, nil), nil),
		} {
			c, err := Open(bytes.NewReader(delta), int64(len(delta)), from)
			if err != nil {
				t.Fatal(err)
			}
			if got := restored(t, c); !bytes.Equal(got, b) {
				t.Errorf("%s, %s: other bytes", name, form)
			}
			for range 30 {
				at := r.IntN(len(b))
				p := make([]byte, min(1+r.IntN(70_000), len(b)-at))
				if n, err := c.ReadAt(p, int64(at)); n != len(p) || err != nil || !bytes.Equal(p, b[at:at+n]) {
					t.Fatalf("%s, %s: %d bytes at %d: %d, %v", name, form, len(p), at, n, err)
				}
			}
		}
		// A delta that was made before, with a key that was made after.
		if got, err := read(encoded(t, b, base), open(t, key, nil)); err != nil || !bytes.Equal(got, b) {
			t.Errorf("%s: a delta of version 3 with a key of version 4: other bytes, %v", name, err)
		}
	}
}

// TestHashesTwice: hashes that would be made of hashes stay, as do those of a PDB that has other streams.
func TestHashesTwice(t *testing.T) {
	b := typesPDB(t, typeRecords(5000, -1), inOrder)
	for name, b := range map[string][]byte{
		"other streams": append(bytes.Clone(b), compressed(t, 6, program(1, 100_000))...),
		"own pages":     typesPDB(t, typeRecords(5000, -1), func(n int) []int { return make([]int, n) }),
	} {
		file := chilled(t, b, nil)
		c := open(t, file, nil)
		if c.Header().Version == 4 || !bytes.Equal(restored(t, c), b) {
			t.Errorf("%s: version %d, or other bytes", name, c.Header().Version)
		}
	}
}

// TestHashesHostile: recipes that lie are damage, in bounded memory.
func TestHashesHostile(t *testing.T) {
	b := typesPDB(t, typeRecords(5000, -1), inOrder)
	src, err := Unpack(context.Background(), content(b))
	if err != nil || len(src.layout.streams) == 0 {
		t.Fatalf("%d streams, %v", len(src.layout.streams), err)
	}
	right := src.layout.streams[0].Recipe
	for name, recipe := range map[string][]byte{
		"none": {}, "no buckets": append([]byte{0}, right[1:]...), "cut": right[:len(right)-1],
		"a correction that is not there": append(bytes.Clone(right), 0xff, 0x7f, 1),
		"half a correction":              append(bytes.Clone(right), 1),
		"behind the end":                 binary.AppendUvarint(binary.AppendVarint([]byte{9, 1}, 1<<40), 100),
		"before the begin":               {9, 1, 1, 100},
		"gigabytes":                      binary.AppendUvarint([]byte{9, 1, 0}, 1<<32),
		"of nothing":                     {9, 0},
	} {
		s, l := src, *src.layout
		l.streams = append([]deflate.Stream(nil), l.streams...)
		l.streams[0].Recipe, s.layout = recipe, &l
		var out bytes.Buffer
		if _, err := EncodeKey(context.Background(), &out, s, nil); err != nil {
			t.Fatal(err)
		}
		within(t, func() {
			if _, err := read(out.Bytes(), nil); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v; want ErrDamaged", name, err)
			}
		})
	}
	file := chilled(t, b, nil)
	file[8] = 3
	if _, err := read(sealed(file), nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("hashes in a file of version 3: %v; want ErrDamaged", err)
	}
}

// TestAgain: a table all of whose fields moved, with new ones between, is found.
func TestAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	// Strings of 200 groups, each of which moved by another amount, as linkers sort them.
	const strings, groups = 30_000, 200
	at := func(i int, newer bool) uint32 {
		v := uint32(0x20000 + i*23)
		if newer {
			v += uint32(i/(strings/groups)) * 77
		}
		return v
	}
	var base, b []byte
	for i := range 200_000 {
		if i%37 == 36 && i > 60_000 {
			b = binary.LittleEndian.AppendUint32(b, 0x900_0000+r.Uint32N(1<<20))
		}
		v := r.IntN(strings)
		base, b = binary.LittleEndian.AppendUint32(base, at(v, false)), binary.LittleEndian.AppendUint32(b, at(v, true))
	}
	file := encoded(t, b, base)
	if got, err := read(file, bytes.NewReader(base)); err != nil || !bytes.Equal(got, b) {
		t.Fatalf("other bytes, %v", err)
	}
	if len(file) > 60_000 {
		t.Errorf("a table with 3,800 new words takes %d bytes, want at most 60,000", len(file))
	}
}
