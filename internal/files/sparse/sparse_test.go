package sparse

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// content returns bytes that differ from page to page.
func content(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32()) | 1 // never zero
	}
	return b
}

// rounds adds what parse needs until it needs nothing, and returns the number of rounds
// and the bytes that a client sends in all of them together.
func rounds(t *testing.T, f *File, file io.ReaderAt, parse func(io.ReaderAt) error) (n int, sent int64, err error) {
	t.Helper()
	for n = 1; ; n++ {
		sent += f.sum
		var need []Range
		if need, err = f.Try(parse); need == nil {
			return n, sent, err
		}
		for i, r := range need {
			b := make([]byte, r.Len)
			if got, err := file.ReadAt(b, r.At); got != len(b) {
				t.Fatalf("round %d needs %+v: %v; want a part of the file", n, r, err)
			}
			if err := f.Add(r.At, b); err != nil {
				t.Fatalf("round %d, range %d of %+v: %v; want ranges that can be added", n, i, need, err)
			}
		}
	}
}

// TestReads: reads of any range give the bytes of the file once nothing is missing, and
// the same ends as a whole file.
func TestReads(t *testing.T) {
	t.Parallel()
	b := content(100_003)
	whole := bytes.NewReader(b)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		f := New(int64(len(b)))
		for range r.IntN(20) {
			at, n := r.Int64N(int64(len(b))), 1+r.Int64N(9000)
			_ = f.Add(at, slices.Clone(b[at:min(at+n, int64(len(b)))])) // some overlap
		}
		_, _, err := rounds(t, f, whole, func(p io.ReaderAt) error {
			r := rand.New(rand.NewPCG(seed, 8))
			for range 30 {
				at, n := r.Int64N(int64(len(b))+10), r.IntN(20_000)
				got, want := make([]byte, n), make([]byte, n)
				gotN, gotErr := p.ReadAt(got, at)
				wantN, wantErr := whole.ReadAt(want, at)
				if gotN != wantN || gotErr != wantErr || !bytes.Equal(got, want) {
					return errors.New("differs")
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: the last try %v, want what the whole file has", seed, err)
		}
	}
}

// TestWhole: a file of which all is held is whole.
func TestWhole(t *testing.T) {
	t.Parallel()
	b := content(1000)
	f := New(1000)
	for _, r := range []Range{{500, 500}, {0, 400}, {400, 100}} {
		if _, ok := f.Whole(); ok {
			t.Errorf("before the range %+v: whole, want not", r)
		}
		if err := f.Add(r.At, b[r.At:r.end()]); err != nil {
			t.Fatal(err)
		}
	}
	r, ok := f.Whole()
	got, err := io.ReadAll(io.NewSectionReader(r, 0, 1000))
	if !ok || err != nil || !bytes.Equal(got, b) {
		t.Errorf("all ranges: whole %v, %d bytes, %v; want all bytes", ok, len(got), err)
	}
}

// TestGapCounts: a parser that ignores the error of a read, or makes something of
// zeros, does not give an answer.
func TestGapCounts(t *testing.T) {
	t.Parallel()
	b := content(1 << 20)
	f := New(1 << 20)
	if err := f.Add(0, b[:100]); err != nil {
		t.Fatal(err)
	}
	need, err := f.Try(func(p io.ReaderAt) error {
		one := make([]byte, 8)
		_, _ = p.ReadAt(one, 99)
		return nil
	})
	if err != nil || len(need) != 1 || need[0].At != 100 || need[0].Len < 6 {
		t.Errorf("a read behind the first 100 bytes: %+v, %v; want one range from there", need, err)
	}
	if need, err = f.Try(func(io.ReaderAt) error { return io.ErrClosedPipe }); need != nil || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a parser that reads nothing: %+v, %v; want its error", need, err)
	}
	need, err = f.Try(func(p io.ReaderAt) error {
		all := make([]byte, 1<<20)
		if _, err := p.ReadAt(all, 0); err == nil {
			t.Error("a read of 1 MiB of gaps succeeds, want an error after some")
		}
		return errors.New("an error about zeros")
	})
	if err != nil || len(need) == 0 {
		t.Errorf("a parser that fails on zeros: %+v, %v; want ranges and no error", need, err)
	}
}

// TestOrderedReads: a file that is read in order needs few rounds.
func TestOrderedReads(t *testing.T) {
	t.Parallel()
	b := content(9 << 20)
	n, _, err := rounds(t, New(int64(len(b))), bytes.NewReader(b), func(p io.ReaderAt) error {
		chunk := make([]byte, 64<<10)
		for off := int64(0); off < int64(len(b)); off += int64(len(chunk)) {
			if _, err := p.ReadAt(chunk, off); err != nil {
				return err
			}
			if chunk[0] == 0 {
				return nil // as a parser that finds the file broken
			}
		}
		return nil
	})
	if err != nil || n > 16 {
		t.Errorf("9 MiB in order: %d rounds, %v; want at most 16", n, err)
	}
}

// TestManyGaps: small reads all over a file are asked for together.
func TestManyGaps(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	file := bytes.NewReader(make([]byte, size))
	read := func(gaps int64) (int, int64, error) {
		return rounds(t, New(size), file, func(p io.ReaderAt) error {
			for i := range gaps {
				if _, err := p.ReadAt(make([]byte, 4), i*size/gaps); err != nil {
					return err
				}
			}
			return nil
		})
	}
	n, sent, err := read(1000)
	if err != nil || n > 8 || sent > 24<<20 {
		t.Errorf("1,000 small reads: %d rounds, %d bytes sent, %v; want at most 8, 24 MiB", n, sent, err)
	}
	if n, _, err = read(6000); !errors.Is(err, ErrLimit) || n > MaxRounds {
		t.Errorf("6,000 small reads: %d rounds, %v; want ErrLimit", n, err)
	}
}

// TestMessage: what Message writes, Read reads.
func TestMessage(t *testing.T) {
	t.Parallel()
	b := content(50_000)
	h := Header{Name: "größe.pdb", Size: 50_000, Round: 3, Slices: []Range{{0, 1000}, {40_000, 10_000}, {2000, 1}}}
	open, size, err := Message(h, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(open())
	if err != nil || int64(len(text)) != size {
		t.Fatalf("the message has %d bytes, %v; want %d", len(text), err, size)
	}
	got, f, err := Read(bytes.NewReader(text))
	if err != nil || got.Name != h.Name || got.Size != h.Size || got.Round != 3 || !slices.Equal(got.Slices, h.Slices) {
		t.Fatalf("read: %+v, %v; want %+v", got, err, h)
	}
	need, err := f.Try(func(p io.ReaderAt) error {
		for _, r := range h.Slices {
			part := make([]byte, r.Len)
			if _, err := p.ReadAt(part, r.At); err != nil || !bytes.Equal(part, b[r.At:r.end()]) {
				t.Errorf("the slice %+v differs, %v", r, err)
			}
		}
		return nil
	})
	if need != nil || err != nil {
		t.Errorf("the slices: need %+v, %v; want none", need, err)
	}
}

// TestWrongMessages: messages that are refused, and why.
func TestWrongMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		want error
	}{
		{"", ErrMessage}, {"{}", ErrMessage}, {"x\n", ErrMessage}, {"[]\n", ErrMessage}, {`{"size":-1}` + "\n", ErrMessage},
		{`{"name":"a","size":10,"slices":[{"at":0,"len":5}]}` + "\nabcd", ErrMessage},
		{`{"name":"a","size":10,"slices":[{"at":0,"len":5}]}` + "\nabcdef", ErrMessage},
		{`{"name":"a","size":10,"slices":[{"at":8,"len":5}]}` + "\nabcde", ErrMessage},
		{`{"name":"a","size":10,"slices":[{"at":-1,"len":5}]}` + "\nabcde", ErrMessage},
		{`{"name":"a","size":10,"slices":[{"at":0,"len":0}]}` + "\n", ErrMessage},
		{`{"name":"a","size":10,"slices":[{"at":0,"len":3},{"at":2,"len":3}]}` + "\nabcdef", ErrMessage},
		{`{"name":"a","size":10,"slices":[{"at":9223372036854775807,"len":9223372036854775807}]}` + "\n", ErrLimit},
		{`{"name":"a","size":99999999,"slices":[{"at":0,"len":16777217}]}` + "\n", ErrLimit},
		{`{"name":"a","size":10,"round":33,"slices":[]}` + "\n", ErrLimit},
		{`{"name":"` + strings.Repeat("a", maxHeader) + `"}` + "\n", ErrMessage},
	} {
		if _, _, err := Read(strings.NewReader(c.text)); !errors.Is(err, c.want) {
			t.Errorf("%.80q: %v, want %v", c.text, err, c.want)
		}
	}
	if _, _, err := Read(strings.NewReader(`{"name":"a","size":10,"slices":[{"at":0,"len":3},{"at":5,"len":3}]}` + "\nabcdef")); err != nil {
		t.Errorf("a valid message: %v, want no error", err)
	}
}

// FuzzRead: no message makes a file with other bytes than its own.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"name":"a","size":10,"slices":[{"at":0,"len":3},{"at":5,"len":3}]}` + "\nabcdef"))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, file, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		var sum int64
		for _, s := range h.Slices {
			sum += s.Len
		}
		if sum != file.sum || sum > int64(len(text)) || file.Size() != h.Size {
			t.Errorf("%q: %d bytes of %d held, want %d of %d", text, file.sum, file.Size(), sum, h.Size)
		}
	})
}
