package cold

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/klauspost/compress/zstd"
)

// sealed gives file with the hash of its head and table set right.
func sealed(file []byte) []byte {
	file = bytes.Clone(file)
	f := file[len(file)-footLen:]
	at := int(binary.LittleEndian.Uint64(f))
	n := int(binary.LittleEndian.Uint32(f[8:]))
	sum := sha256.New()
	sum.Write(file[:headEnd(file)])
	sum.Write(file[at : at+n])
	copy(f[12:], sum.Sum(nil))
	return file
}

// headEnd is where the head of a cold file ends, as far as that can be.
func headEnd(file []byte) int {
	if file[8] < 2 || len(file) < headLen+headMore+footLen {
		return headLen
	}
	n := int64(binary.LittleEndian.Uint32(file[headLen:]))
	return headLen + headMore + int(min(n, int64(len(file)-headLen-headMore-footLen)))
}

// made gives the cold file that these entries and frames make.
func made(h Header, frames []byte, entries ...entry) []byte {
	out := h.append(nil)
	f := foot{table: int64(len(out) + len(frames))}
	out = append(out, frames...)
	for i := range entries {
		out = entries[i].append(out)
	}
	f.len = int64(len(out)) - f.table
	return sealed(f.append(out))
}

func frame(t testing.TB, b []byte) []byte {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(b, nil)
}

// read opens a file and reads all of it.
func read(file []byte, base io.ReaderAt) ([]byte, error) {
	c, err := Open(bytes.NewReader(file), int64(len(file)), base)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var out bytes.Buffer
	_, err = c.WriteTo(&out)
	return out.Bytes(), err
}

func TestHeader(t *testing.T) {
	base, b := program(1, 300_000), program(2, 2_500_000)
	for _, test := range []struct {
		name string
		file []byte
		want Header
	}{
		{"key", encoded(t, b, nil), Header{Version: 1, Form: KeyForm, BlockSize: 256 << 10, Size: int64(len(b)), Sum: sha256.Sum256(b)}},
		{"delta", encoded(t, b, base), Header{Version: 3, Form: DeltaForm, BlockSize: 1 << 20, Size: int64(len(b)), Sum: sha256.Sum256(b),
			BaseSize: int64(len(base)), BaseSum: sha256.Sum256(base)}},
		{"nothing", encoded(t, nil, nil), Header{Version: 1, Form: KeyForm, BlockSize: 256 << 10, Sum: sha256.Sum256(nil)}},
	} {
		h, err := ReadHeader(bytes.NewReader(test.file), int64(len(test.file)))
		h.more = 0
		if err != nil || h != test.want {
			t.Errorf("%s: %+v, %v; want %+v", test.name, h, err, test.want)
		}
		if f := test.want.Form.String(); f != "key" && f != "delta" {
			t.Errorf("a form is called %q", f)
		}
	}
	if out := restored(t, open(t, encoded(t, nil, nil), nil)); len(out) != 0 {
		t.Errorf("the empty content has %d bytes", len(out))
	}
	if out := restored(t, open(t, encoded(t, nil, base), base)); len(out) != 0 {
		t.Errorf("the empty content as a delta has %d bytes", len(out))
	}
	if out := restored(t, open(t, encoded(t, b, []byte{}), []byte{})); !bytes.Equal(out, b) {
		t.Error("a delta against the empty content does not give its content")
	}
}

func TestKeyIsPlainZstd(t *testing.T) {
	b := append(program(3, 900_000), make([]byte, 1<<20)...)
	file := encoded(t, b, nil)
	at := binary.LittleEndian.Uint64(file[len(file)-footLen:])
	z, err := zstd.NewReader(bytes.NewReader(file[headLen:at]))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if got, err := io.ReadAll(z); err != nil || !bytes.Equal(got, b) {
		t.Errorf("the frames of a key, cut out, do not decode to the content: %v", err)
	}
}

func TestBlockKinds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return b
	}
	base := noise(4 << 20)
	b := bytes.Clone(base[unit*3 : unit*3+1<<20]) // copy
	b = append(b, make([]byte, 1<<20)...)         // zero
	b = append(b, noise(1<<20)...)                // plain
	b = append(b, base[777:1<<20]...)             // delta
	file := encoded(t, b, base)
	p, err := Inspect(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, x := range p.Blocks {
		kinds = append(kinds, x.Kind)
	}
	if got := strings.Join(kinds, " "); got != "copy zero plain delta" {
		t.Errorf("kinds of the blocks: %s; want copy zero plain delta", got)
	}
	if want := (Stats{Bytes: int64(len(file)), Blocks: 4, Delta: 1, Copied: 1, Zero: 1, Plain: 1}); p.Stats != want {
		t.Errorf("Stats %+v, want %+v", p.Stats, want)
	}
	if !bytes.Equal(restored(t, open(t, file, base)), b) {
		t.Error("the delta does not give its content")
	}
}

// TestRangesBounded: a block names at most 96 units of its base, also where hundreds
// of them could serve it.
func TestRangesBounded(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	base := make([]byte, 20<<20)
	for i := range base {
		base[i] = byte(r.Uint32())
	}
	var b []byte
	for range 2 << 10 {
		at := r.IntN(19 << 20)
		b = append(b, base[at:at+1<<10]...)
	}
	file := encoded(t, b, base)
	p, err := Inspect(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if p.Most > maxUnits || p.Most < maxUnits/2 {
		t.Errorf("a block names %d units, want at most %d and nearly as many", p.Most, maxUnits)
	}
	if !bytes.Equal(restored(t, open(t, file, base)), b) {
		t.Error("the delta does not give its content")
	}
}

func TestNewerVersion(t *testing.T) {
	file := encoded(t, program(1, 1000), nil)
	file[8] = 7
	for name, f := range map[string]func() error{
		"ReadHeader": func() error { _, err := ReadHeader(bytes.NewReader(file), int64(len(file))); return err },
		"Open":       func() error { _, err := Open(bytes.NewReader(file), int64(len(file)), nil); return err },
		"Inspect":    func() error { _, err := Inspect(bytes.NewReader(file), int64(len(file))); return err },
	} {
		err := f()
		var v *VersionError
		if !errors.As(err, &v) || v.Version != 7 || !strings.Contains(err.Error(), "version 7") || errors.Is(err, ErrDamaged) {
			t.Errorf("%s of version 7: %v; want a VersionError that names it", name, err)
		}
	}
}

// TestHostile: files with a right hash of the table that lie.
func TestHostile(t *testing.T) {
	base := program(1, 200_000)
	data := program(1, 100_000)
	key := Header{Version: 1, Form: KeyForm, BlockSize: 256 << 10, Size: 100_000}
	delta := Header{Version: 1, Form: DeltaForm, BlockSize: 1 << 20, Size: 100_000, BaseSize: int64(len(base))}
	plain := frame(t, data)
	bomb := frame(t, make([]byte, 64<<20))
	ok := entry{kind: kindPlain, frame: uint32(len(plain)), sum: xxhash.Sum64(data)}
	if got, err := read(made(key, plain, ok), nil); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("the file that is right: %v", err)
	}
	with := func(change func(h *Header, e *entry)) []byte {
		h, e := delta, entry{kind: kindDelta, frame: uint32(len(plain)), controls: 10, extents: []extent{{0, 2}}}
		change(&h, &e)
		return made(h, plain, e)
	}
	control := func(extents []extent, controls []byte, diffs, inserts []byte) []byte {
		p := frame(t, append(append(bytes.Clone(controls), diffs...), inserts...))
		return made(delta, p, entry{kind: kindDelta, frame: uint32(len(p)), controls: len(controls), diffs: len(diffs), extents: extents})
	}
	third := delta
	third.Version = 3
	moved := func(moves, diffs []byte) []byte {
		controls := controlOf(100_000, 0, 0)
		p := frame(t, slices.Concat(controls, moves, diffs))
		return made(third, p, entry{kind: kindMoved, frame: uint32(len(p)), controls: len(controls), diffs: len(moves) + len(diffs), extents: []extent{{0, 4}},
			sum: xxhash.Sum64(base[:100_000])})
	}
	if got, err := read(moved([]byte{1, stepWord, 2, 1, 0, 5, 200, 1, 1, 0}, nil), bytes.NewReader(base)); err != nil || !bytes.Equal(got, base[:100_000]) {
		t.Fatalf("moves that are right: %v", err)
	}
	huge := append(binary.AppendUvarint([]byte{1, stepWord}, maxMoves+1), 1, 0, 5)
	huge = append(huge, bytes.Repeat([]byte{1}, 2*maxMoves+1)...)
	long := bytes.Repeat([]byte{1, 0, 1}, 100_000)
	one := []extent{{0, 4}}
	for name, file := range map[string][]byte{
		"empty":                     {},
		"head only":                 made(key, nil)[:headLen],
		"no table":                  made(key, plain),
		"two entries":               made(key, plain, ok, ok),
		"gap after the frames":      made(key, append(bytes.Clone(plain), 0), ok),
		"frame too short":           made(key, plain, entry{kind: kindPlain, frame: uint32(len(plain)) - 1}),
		"other sum":                 made(key, plain, entry{kind: kindPlain, frame: uint32(len(plain)), sum: 1}),
		"other size":                made(Header{Version: 1, BlockSize: 256 << 10, Size: 100_001}, plain, ok),
		"frame of 64 MiB":           made(key, bomb, entry{kind: kindPlain, frame: uint32(len(bomb))}),
		"payload of 64 MiB":         made(delta, bomb, entry{kind: kindDelta, frame: uint32(len(bomb)), controls: 5, extents: one}),
		"kind 4 in a key":           made(key, plain, entry{kind: 4, frame: uint32(len(plain))}),
		"kind 5":                    made(third, plain, entry{kind: 5, frame: uint32(len(plain)), controls: 5, extents: one}),
		"delta in a key":            made(key, plain, entry{kind: kindDelta, frame: uint32(len(plain)), controls: 3}),
		"size of exabytes":          made(Header{Version: 1, BlockSize: 256 << 10, Size: 1 << 62}, plain, ok),
		"negative size":             made(Header{Version: 1, BlockSize: 256 << 10, Size: -1}, plain, ok),
		"version 0":                 made(Header{Version: 0, BlockSize: 256 << 10, Size: 100_000}, plain, ok),
		"form 2":                    made(Header{Version: 1, Form: 2, BlockSize: 256 << 10, Size: 100_000}, plain, ok),
		"key in blocks of 2 GiB":    made(Header{Version: 1, BlockSize: 1 << 31, Size: 100_000}, plain, ok),
		"key with a base":           made(Header{Version: 1, BlockSize: 256 << 10, Size: 100_000, BaseSize: 1}, plain, ok),
		"range beyond the base":     with(func(_ *Header, e *entry) { e.extents = []extent{{3, 2}} }),
		"range far beyond":          with(func(_ *Header, e *entry) { e.extents = []extent{{1 << 45, 2}} }),
		"range without units":       with(func(_ *Header, e *entry) { e.extents = []extent{{0, 0}} }),
		"ranges that touch":         with(func(_ *Header, e *entry) { e.extents = []extent{{0, 1}, {1, 1}} }),
		"97 units":                  with(func(h *Header, e *entry) { h.BaseSize = 1 << 30; e.extents = []extent{{0, 97}} }),
		"no range":                  with(func(_ *Header, e *entry) { e.extents = nil }),
		"controls beyond the limit": with(func(_ *Header, e *entry) { e.controls = 1<<24 - 1 }),
		"copy with a frame":         with(func(_ *Header, e *entry) { e.kind, e.controls = kindCopy, 0 }),
		"copy beyond the base":      made(delta, nil, entry{kind: kindCopy, extents: []extent{{3, 2}}}),
		"copy of too little":        made(delta, nil, entry{kind: kindCopy, extents: []extent{{0, 1}}}),
		"zeros with a frame":        made(delta, plain, entry{kind: kindZero, frame: uint32(len(plain))}),
		"no controls":               control(one, []byte{0}, nil, data),
		"control without length":    control(one, []byte{0, 0, 0}, nil, data),
		"copy before the base":      control(one, controlOf(100_000, 0, -5), nil, nil),
		"copy after the ranges":     control(one, controlOf(100_000, 0, 200_000), nil, nil),
		"copy across a gap":         control([]extent{{0, 1}, {2, 1}}, controlOf(100_000, 0, 0), nil, nil),
		"copy past the block":       control(one, controlOf(100_001, 0, 0), nil, nil),
		"copy of nearly everything": control(one, controlOf(99_999, 0, 0), nil, nil),
		"copy of 2^63":              control(one, controlOf(1<<63-1, 1, 0), nil, nil),
		"step of 2^62":              control(one, controlOf(100_000, 0, 1<<62), nil, nil),
		"steps that overflow":       control(one, append(append(controlOf(0, 1, 1<<62), controlOf(0, 1, 1<<62)...), controlOf(99_998, 0, 1<<62)...), nil, data[:2]),
		"insert more than there is": control(one, controlOf(0, 100_000, 0), nil, data[:99_999]),
		"bytes that nobody inserts": control(one, controlOf(1, 99_998, 0), nil, data[:99_999]),
		"many controls":             control(one, long, nil, nil),
		"differences too short":     control(one, controlOf(100_000, 0, 0), []byte{9, 9, 9, 9, 9, 9, 9}, nil),
		"differences without lens":  control(one, controlOf(100_000, 0, 0), []byte{1}, nil),
		"run of no bytes":           control(one, controlOf(100_000, 0, 0), []byte{1, 1, 0, 0, 0, 0, 0, 5, 0}, nil),
		"run without its values":    control(one, controlOf(100_000, 0, 0), []byte{1, 1, 0, 0, 0, 0, 0, 5, 1}, nil),
		"run past the copy":         control(one, controlOf(100_000, 0, 0), []byte{4, 1, 0, 2, 0, 0, 0, 255, 0x9f, 0x86, 1, 2, 7, 7}, nil),
		"run after the last copy":   control(one, controlOf(100_000, 0, 0), []byte{4, 1, 1, 0, 0, 0, 0, 255, 0xff, 0xff, 0xff, 1, 7}, nil),
		"values that nobody adds":   control(one, controlOf(100_000, 0, 0), []byte{1, 1, 2, 0, 0, 0, 0, 5, 1, 7, 7}, nil),
		"gap without a run":         control(one, controlOf(100_000, 0, 0), []byte{2, 1, 1, 0, 0, 0, 0, 5, 5, 1, 7}, nil),
		"run without a gap":         control(one, controlOf(100_000, 0, 0), []byte{1, 2, 2, 0, 0, 0, 0, 5, 1, 1, 7, 7}, nil),
		"moves in version 1": func() []byte {
			f := moved([]byte{1, stepWord, 2, 1, 0, 5, 200, 1, 1, 0}, nil)
			f[8] = 1
			return sealed(f)
		}(),
		"moves in version 2": func() []byte {
			f := moved([]byte{1, stepWord, 2, 1, 0, 5, 200, 1, 1, 0}, nil)
			f[8] = 2
			return sealed(f)
		}(),
		"no moves":                 moved(nil, nil),
		"seven steps":              moved([]byte{7, 0, 2, 1, 0, 1, 0, 2, 1, 0, 1, 0, 2, 1, 0, 1, 0, 2, 1, 0, 1, 0, 2, 1, 0, 1, 0, 2, 1, 0, 1, 0, 2, 1, 0, 1}, nil),
		"step without its limits":  moved([]byte{1, stepWord}, nil),
		"step of one limit":        moved([]byte{1, stepWord, 1, 1, 0, 5, 5}, nil),
		"step of an unknown kind":  moved([]byte{1, steps, 2, 1, 0, 5, 5, 1, 0}, nil),
		"step of an unknown phase": moved([]byte{1, stepWord | 4<<4, 2, 1, 0, 5, 5, 1, 0}, nil),
		"phase of another kind":    moved([]byte{1, stepCode | 1<<4, 2, 1, 0, 5, 5, 1, 0}, nil),
		"limits that are equal":    moved([]byte{1, stepWord, 3, 1, 0, 5, 5, 0, 1, 0, 0}, nil),
		"limit above 2^32":         moved([]byte{1, stepWord, 2, 1, 0, 5, 255, 255, 255, 255, 15, 1, 0}, nil),
		"small value at any place": moved([]byte{1, stepAny, 2, 1, 0, 5, 5, 1, 0}, nil),
		"shift of 2^32":            moved([]byte{1, stepWord, 2, 1, 0, 5, 5, 1, 0x80, 0x80, 0x80, 0x80, 0x20}, nil),
		"shift that is missing":    moved([]byte{1, stepWord, 2, 1, 0, 5, 5, 1}, nil),
		"step without parts":       moved([]byte{1, stepWord, 2, 0, 200, 1, 1, 0}, nil),
		"run of no parts":          moved([]byte{1, stepWord, 2, 1, 0, 0, 200, 1, 1, 0}, nil),
		"runs that touch":          moved([]byte{1, stepWord, 2, 2, 0, 1, 0, 1, 200, 1, 1, 0}, nil),
		"part behind the block":    moved([]byte{1, stepWord, 2, 1, 255, 1, 2, 200, 1, 1, 0}, nil),
		"run without its length":   moved([]byte{1, stepWord, 2, 1, 0}, nil),
		"more limits than allowed": moved(huge, nil),
		"moves and more":           moved([]byte{1, stepWord, 2, 1, 0, 5, 200, 1, 1, 0, 9}, nil),
		"frame that is none":       made(key, data[:50], entry{kind: kindPlain, frame: 50}),
		"frame of 4 GB":            made(key, plain, entry{kind: kindPlain, frame: 1<<32 - 1}),
		"table without its end":    sealedCut(made(key, plain, ok)),
		"hash of another table":    func() []byte { f := made(key, plain, ok); f[len(f)-20] ^= 1; return f }(),
		"foot of another place":    func() []byte { f := made(key, plain, ok); f[len(f)-footLen]++; return f }(),
		"flags":                    func() []byte { f := made(key, plain, ok); f[11] = 1; return sealed(f) }(),
		"text transfer":            bytes.ReplaceAll(made(key, plain, ok), []byte("\r\n"), []byte("\n")),
	} {
		got, err := read(file, bytes.NewReader(base))
		if err == nil {
			t.Errorf("%s: read without an error, %d bytes", name, len(got))
		} else if !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v; want an error that is ErrDamaged", name, err)
		}
	}
	file := made(delta, nil, entry{kind: kindCopy, sum: xxhash.Sum64(base[:100_000]), extents: []extent{{0, 2}}})
	if _, err := read(file, bytes.NewReader(base[:len(base)-1])); !errors.Is(err, ErrDamaged) {
		t.Errorf("a base that is too short: %v; want ErrDamaged", err)
	}
	if _, err := read(file, nil); err == nil {
		t.Error("a delta opens without its base")
	}
	changed := bytes.Clone(base)
	changed[5]++
	if _, err := read(file, bytes.NewReader(changed)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a base with another byte: %v; want ErrDamaged", err)
	}
}

func controlOf(n, m uint64, step int64) []byte {
	b := binary.AppendUvarint(nil, n)
	b = binary.AppendUvarint(b, m)
	return binary.AppendVarint(b, step)
}

// sealedCut gives file with a table that is one byte shorter.
func sealedCut(file []byte) []byte {
	f := file[len(file)-footLen:]
	out := append(bytes.Clone(file[:len(file)-footLen-1]), f...)
	f = out[len(out)-footLen:]
	binary.LittleEndian.PutUint32(f[8:], binary.LittleEndian.Uint32(f[8:])-1)
	return sealed(out)
}

// TestReadErrors: an error of the disk is not damage, and stays what it is.
func TestReadErrors(t *testing.T) {
	base := program(1, 2<<20)
	b := edit(rand.New(rand.NewPCG(5, 5)), base, 50)
	file := encoded(t, b, base)
	fault := errors.New("fault of the disk")
	for n := range 12 {
		r := &failing{r: bytes.NewReader(file), after: n, err: fault}
		c, err := Open(r, int64(len(file)), bytes.NewReader(base))
		if err == nil {
			_, err = c.WriteTo(io.Discard)
		}
		if err != nil && (!errors.Is(err, fault) || errors.Is(err, ErrDamaged)) {
			t.Errorf("fault after %d reads: %v", n, err)
		}
	}
	c, err := Open(bytes.NewReader(file), int64(len(file)), &failing{r: bytes.NewReader(base), err: fault})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadAt(make([]byte, 10), 0); !errors.Is(err, fault) {
		t.Errorf("fault of the base: %v", err)
	}
	c.Close()
	if _, err := c.ReadAt(make([]byte, 10), 0); err == nil {
		t.Error("a closed Reader reads")
	}
}

type failing struct {
	r     io.ReaderAt
	after int
	err   error
}

func (f *failing) ReadAt(b []byte, at int64) (int, error) {
	if f.after--; f.after < 0 {
		return 0, f.err
	}
	return f.r.ReadAt(b, at)
}

func TestEncodeEnds(t *testing.T) {
	b := program(1, 3<<20)
	stop := errors.New("stop")
	done := 0
	_, err := EncodeKey(context.Background(), io.Discard, content(b), func(n int) error {
		if done += n; done > 1<<20 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || done < 1<<20 || done > 1<<20+256<<10 {
		t.Errorf("pace ended it after %d bytes: %v", done, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := EncodeDelta(ctx, io.Discard, content(b), content(b), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
	if _, err := Estimate(ctx, content(b), nil, 4); !errors.Is(err, context.Canceled) {
		t.Errorf("Estimate with a cancelled context: %v", err)
	}
	short := content(b)
	short.Size++
	if _, err := EncodeKey(context.Background(), io.Discard, short, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a content that ends early: %v; want io.ErrUnexpectedEOF", err)
	}
	if _, err := EncodeKey(context.Background(), failingWriter{stop}, content(b), nil); !errors.Is(err, stop) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestCompare: of bases that differ from a content more and more, the nearest compares as the
// shortest delta; contents of all lengths have a comparison.
func TestCompare(t *testing.T) {
	base := program(1, compared*pieceLen+1)
	bases := []int{4000, 30, 1000, 250}
	var order []int64
	for _, edits := range bases {
		r := rand.New(rand.NewPCG(6, 6))
		src, b := content(base), content(edit(r, base, edits))
		got, err := Compare(context.Background(), src, b)
		if err != nil {
			t.Fatal(err)
		}
		if edits == 1000 {
			s, err := EncodeDelta(context.Background(), io.Discard, src, b, nil)
			if err != nil || got < s.Bytes/2 || got > s.Bytes*2 {
				t.Errorf("%d edits: %d, the delta has %d bytes: %v", edits, got, s.Bytes, err)
			}
		}
		order = append(order, got)
	}
	if !(order[1] < order[3] && order[3] < order[2] && order[2] < order[0]) {
		t.Errorf("lengths %v after %v edits, want the same order", order, bases)
	}
	for _, n := range []int{0, 1, pieceLen + 1, compared*pieceLen - 1, compared*pieceLen + 1} {
		got, err := Compare(context.Background(), content(base[:n]), content(base))
		if err != nil || got <= 0 || got > int64(n)/50+1000 {
			t.Errorf("%d bytes that the base has, too: %d, %v", n, got, err)
		}
	}
	short := content(base)
	short.Size++
	if _, err := Compare(context.Background(), content(base), short); !errors.Is(err, ErrDamaged) {
		t.Errorf("a base that ends early: %v; want ErrDamaged", err)
	}
}

func TestEstimate(t *testing.T) {
	base := program(1, 8<<20)
	src := content(edit(rand.New(rand.NewPCG(6, 6)), base, 400))
	bs := content(base)
	for _, test := range []struct {
		name string
		base *Source
	}{{"key", nil}, {"delta", &bs}} {
		var want int64
		if test.base == nil {
			s, err := EncodeKey(context.Background(), io.Discard, src, nil)
			if err != nil {
				t.Fatal(err)
			}
			want = s.Bytes
		} else {
			s, err := EncodeDelta(context.Background(), io.Discard, src, bs, nil)
			if err != nil {
				t.Fatal(err)
			}
			want = s.Bytes
		}
		got, err := Estimate(context.Background(), src, test.base, 6)
		if err != nil || got < want*2/3 || got > want*3/2 {
			t.Errorf("%s: estimate %d, the file has %d bytes: %v", test.name, got, want, err)
		}
	}
}
