package breakpad

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/symdepot/symdepot/functab"
)

// TestParts: records that are made in parts, at the same time, are those that are made one after the other.
func TestParts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "parts"}, functab.Limits{})
	at := uint64(0x1000)
	for i := range 3000 {
		n := uint64(r.IntN(40))
		if i == 700 {
			n = wholeBytes/lineBytes + 1000 // too long for a part
		}
		f := functab.Function{Start: at, Size: uint32(4*n + 4), Name: b.Name(fmt.Sprint("f", i), "")}
		for k := range n {
			f.Rows = append(f.Rows, functab.Row{Start: at + 4*k, File: b.File(fmt.Sprintf("/f%d.c", r.IntN(100))), Line: r.Uint32N(5000) + 1})
		}
		if n > 0 {
			f.Inlines = []functab.Inline{{Name: b.Name(fmt.Sprint("g", r.IntN(500)), ""), CallLine: 7, Ranges: []functab.Range{{Start: at, Size: 4}}}}
		}
		if err := b.Add(f); err != nil {
			t.Fatal(err)
		}
		at += 4*n + 8
	}
	table, err := b.Table(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	one := &symWriter{t: table, w: &want}
	one.number()
	if len(one.parts) < 7 {
		t.Fatalf("%d parts, want several", len(one.parts))
	}
	one.writeTexts()
	one.functionsIn(chunk{end: table.Counts().Functions})
	one.flush()
	var got bytes.Buffer
	if err := (SymOptions{Frames: NoFrames}).Write(&got, table); err != nil {
		t.Fatal(err)
	}
	if text := got.Bytes(); !bytes.Equal(text[bytes.Index(text, []byte("FILE ")):], want.Bytes()) {
		t.Errorf("%d bytes in parts, %d one after the other; they differ", got.Len(), want.Len())
	}
	full := errors.New("full")
	for _, room := range []int{0, got.Len() / 3, got.Len() - 1} {
		if err := WriteSym(&roomy{room, full}, table); !errors.Is(err, full) {
			t.Errorf("room for %d bytes: error %v, want that of the writer", room, err)
		}
	}
}

// roomy takes some bytes.
type roomy struct {
	left int
	err  error
}

func (r *roomy) Write(p []byte) (int, error) {
	if r.left -= len(p); r.left < 0 {
		return 0, r.err
	}
	return len(p), nil
}
