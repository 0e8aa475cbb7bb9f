package typehash

import (
	"encoding/binary"
	"testing"
)

// TestManyStreams: a directory that names millions of empty streams takes no memory for each of them.
func TestManyStreams(t *testing.T) {
	b := make([]byte, 4+4*1_000_000)
	binary.LittleEndian.PutUint32(b, 1_000_000)
	p := &file{page: 512}
	if !p.parse(b) || len(p.streams) != maxStreams {
		t.Errorf("%d streams are kept, want %d", len(p.streams), maxStreams)
	}
}
