package cold

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"testing"
)

// TestBaseAgain: an encoder that has the index of a base gives the same delta without reading the base again. It does not
// take another base of the same length, or one whose hash is not known, for it.
func TestBaseAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 5))
	random := func() []byte {
		b := make([]byte, 200<<10)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return b
	}
	e := workers.New().(*encoder)
	check := func(what string, b []byte, sum [32]byte, reads int) string {
		read := &counted{ReaderAt: bytes.NewReader(b)}
		base := Source{ReaderAt: read, Size: int64(len(b)), Sum: sum}
		e.reset(&base, Header{Version: deltaVersion, Form: DeltaForm, BlockSize: 1 << deltaLog, BaseSize: base.Size})
		defer e.release()
		frame, err := e.block(append(b[50<<10:len(b):len(b)], "the end"...), 0)
		if err != nil || len(frame) > 1000 || read.n != reads {
			t.Errorf("%s: a frame of %d bytes after %d reads of the base, %v; want %d reads", what, len(frame), read.n, err, reads)
		}
		return string(frame)
	}
	one, two := random(), random()
	first := check("first", one, sha256.Sum256(one), 1)
	if check("again", one, sha256.Sum256(one), 0) != first {
		t.Error("the same base again gives another frame")
	}
	check("another base", two, sha256.Sum256(two), 1)
	check("without a hash", one, [32]byte{}, 1)
	check("without a hash again", two, [32]byte{}, 1)
	if check("first again", one, sha256.Sum256(one), 1) != first {
		t.Error("the first base again gives another frame")
	}
}

// TestBases: the streams of the last bases are known by their hashes.
func TestBases(t *testing.T) {
	var known bases
	base := func(i int) *Source { return &Source{Size: 100, Sum: [32]byte{byte(i)}} }
	layouts := make([]*layout, len(known.last)+2)
	for i := 1; i < len(layouts); i++ {
		layouts[i] = &layout{size: 100}
		known.add(base(i), layouts[i])
	}
	known.add(base(0), &layout{}) // its hash is not known
	for i := range layouts {
		f := known.find(base(i))
		if want := i >= 3; (f != nil) != want || want && f.layout != layouts[i] {
			t.Errorf("base %d: %v is known, want %v", i, f, want)
		}
	}
	if f := known.find(&Source{Size: 101, Sum: [32]byte{3}}); f != nil {
		t.Error("a base of another length is known")
	}
}
