package cold

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/symtest"
)

// inCabinet is a cabinet of one file, as symbol stores have them.
func inCabinet(t testing.TB, plain io.ReaderAt, size int64) []byte {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "a.cab"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = cab.Create(f, []cab.Source{{Name: "a.pdb", Size: size, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(plain, 0, size)), nil
	}}}, cab.WriteOptions{Method: cab.MSZIP})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func packed(t testing.TB, plain []byte) []byte {
	return inCabinet(t, bytes.NewReader(plain), int64(len(plain)))
}

// TestCabinetDelta: a delta of two cabinets is hardly longer than one of their files, and is
// restored with any form of its base. A cabinet beside its file is next to nothing.
func TestCabinetDelta(t *testing.T) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 35), 1))
	one := program(7, 1_200_000)
	two := edit(r, one, 30)
	base, b := packed(t, one), packed(t, two)
	key, delta, plain := chilled(t, base, nil), chilled(t, b, base), chilled(t, two, one)
	if len(delta) > len(plain)+len(b)/200 {
		t.Errorf("the delta has %d bytes; that of the files in the cabinets %d", len(delta), len(plain))
	}
	if beside := chilled(t, b, two); len(beside) > len(b)/200 {
		t.Errorf("the cabinet has %d bytes, and %d beside its file", len(b), len(beside))
	} else if !bytes.Equal(restored(t, open(t, beside, two)), b) {
		t.Error("beside its file: other bytes")
	}
	h, err := ReadHeader(bytes.NewReader(delta), int64(len(delta)))
	if err != nil || h.Version != 3 || h.Streams() != 1 || h.Size != int64(len(b)) || h.UnpackedSize() < int64(len(two)) {
		t.Errorf("head %+v, %v", h, err)
	}
	for name, from := range map[string]io.ReaderAt{
		"plain base": bytes.NewReader(base), "unpacked key": open(t, key, nil), "old key": open(t, encoded(t, base, nil), nil),
	} {
		c, err := Open(bytes.NewReader(delta), int64(len(delta)), from)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(restored(t, c), b) {
			t.Errorf("%s: other bytes", name)
		}
		for range 30 {
			at := r.IntN(len(b))
			p := make([]byte, min(1+r.IntN(70_000), len(b)-at))
			if n, err := c.ReadAt(p, int64(at)); n != len(p) || err != nil || !bytes.Equal(p, b[at:at+n]) {
				t.Fatalf("%s: %d bytes at %d: %d, %v", name, len(p), at, n, err)
			}
		}
	}
}

// TestCabinetsLeftWhole: cabinets that cannot be unpacked, or are not worth it, stay as they are,
// soon.
func TestCabinetsLeftWhole(t *testing.T) {
	good := packed(t, program(4, 300_000))
	broken := func(change func(b []byte)) []byte {
		b := bytes.Clone(good)
		change(b)
		return b
	}
	le := binary.LittleEndian
	data := le.Uint32(good[cabinetHead:])
	var many []byte // cabinets of which each claims the same blocks
	for range 2000 {
		many = append(many, good[:cabinetHead+folderHead]...)
	}
	for name, b := range map[string][]byte{
		"bomb":            inCabinet(t, zeros{}, 200<<20),
		"cut":             good[:len(good)/2],
		"many":            append(many, good...),
		"blocks":          broken(func(b []byte) { le.PutUint16(b[cabinetHead+4:], 65535) }),
		"folders":         broken(func(b []byte) { le.PutUint16(b[26:], 65535) }),
		"place":           broken(func(b []byte) { le.PutUint32(b[cabinetHead:], 1<<31) }),
		"place in itself": broken(func(b []byte) { le.PutUint32(b[cabinetHead:], 8) }),
		"method":          broken(func(b []byte) { b[cabinetHead+6] = 3 }),
		"goes on":         broken(func(b []byte) { b[30] |= 2 }),
		"reserves":        broken(func(b []byte) { b[30] |= 4 }),
		"checksum":        broken(func(b []byte) { b[data] ^= 1 }),
		"size":            broken(func(b []byte) { b[data+6] ^= 1 }),
		"no signature":    broken(func(b []byte) { b[data+8] = 'X' }),
	} {
		from := time.Now()
		s, err := Unpack(context.Background(), content(b))
		if err != nil || s.Unpacked() && name != "many" {
			t.Errorf("%s: unpacked %v, %v", name, s.Unpacked(), err)
		}
		if d := time.Since(from); d > searchTime+5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
		if len(b) < 10<<20 && !bytes.Equal(restored(t, open(t, chilled(t, b, nil), nil)), b) {
			t.Errorf("%s: other bytes", name)
		}
	}
}

func (zeros) ReadAt(b []byte, _ int64) (int, error) { clear(b); return len(b), nil }

// FuzzCabinet: whatever a cabinet holds, it is restored.
func FuzzCabinet(f *testing.F) {
	good := packed(f, program(4, 70_000))
	f.Add(good)
	f.Add(append(bytes.Clone(good), good...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := restored(t, open(t, chilled(t, b, nil), nil)); !bytes.Equal(got, b) {
			t.Fatal("other bytes")
		}
	})
}
