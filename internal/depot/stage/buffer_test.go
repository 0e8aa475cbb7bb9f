package stage

import (
	"bytes"
	"slices"
	"testing"
	"testing/iotest"
)

// TestBuffers: few contents that arrive at once have long buffers, further ones short ones,
// so that hundreds of slow uploads do not take the memory of hundreds of long buffers; a
// long buffer that is free again is used again.
func TestBuffers(t *testing.T) {
	var releases []func()
	long, bytes := 0, 0
	for range 240 {
		b, release := takeBuffer()
		if releases, bytes = append(releases, release), bytes+len(b); len(b) == longBuffer {
			long++
		}
	}
	if long != maxLongBuffers || bytes > 8<<20 {
		t.Errorf("240 uploads at once: %d long buffers and %d bytes, want %d and at most 8 MiB", long, bytes, maxLongBuffers)
	}
	for _, release := range releases {
		release()
	}
	b, release := takeBuffer()
	defer release()
	if len(b) != longBuffer {
		t.Errorf("the next upload: a buffer of %d bytes, want %d", len(b), longBuffer)
	}
}

// TestWholeBuffers: few contents of known size are in memory at once.
func TestWholeBuffers(t *testing.T) {
	var releases []func()
	for range 10 {
		if b, release := takeWhole(wholeBuffer - 1); b != nil {
			releases = append(releases, release)
		}
	}
	if len(releases) > maxInMemory {
		t.Errorf("%d contents are in memory at once, want at most %d", len(releases), maxInMemory)
	}
	for _, release := range releases {
		release()
	}
	for size, want := range map[int64]bool{-1: false, 0: true, wholeBuffer - 1: true, wholeBuffer: false} {
		b, release := takeWhole(size)
		if (b != nil) != want || want && int64(len(b)) <= size {
			t.Errorf("a content of %d bytes: a buffer of %d bytes, want one: %v", size, len(b), want)
		}
		if release != nil {
			release()
		}
	}
}

// TestInMemory: contents of all lengths are stored alike, whether they stay in memory until they are
// identified or not, and however their bytes come. Not one byte too few or too many is accepted.
func TestInMemory(t *testing.T) {
	d, c := newTestDepot(t), testCaller("ci")
	s := d.stages(Options{})
	sizes := []int{wholeStep - 1, wholeStep, wholeStep + 1, 3 * wholeStep, wholeBuffer - 2, wholeBuffer - 1, wholeBuffer, wholeBuffer + 1}
	for round, busy := range []bool{false, true} {
		if busy {
			for b, release := takeWhole(1); b != nil; b, release = takeWhole(1) {
				defer release()
			}
		}
		id := opened(t, s, c, Spec{})
		var files []testFile
		for i, size := range sizes {
			files = append(files, newTestFile(100*round+i, size))
		}
		wanted(t, s, c, id, files...)
		for _, f := range files[:4] {
			longer, shorter := append(slices.Clone(f.body), 'x'), f.body[:len(f.body)-1]
			for _, body := range [][]byte{longer, shorter} {
				_, err := s.Put(t.Context(), c, id, f.entry().Ref, bytes.NewReader(body))
				refusedAs(t, "another length", err, WrongHash)
			}
		}
		for i, f := range files {
			var err error
			switch i % 3 {
			case 0:
				_, err = s.Put(t.Context(), c, id, f.entry().Ref, iotest.HalfReader(bytes.NewReader(f.body)))
			case 1:
				_, err = s.Put(t.Context(), c, id, f.entry().Ref, iotest.DataErrReader(bytes.NewReader(f.body)))
			default:
				list, body := severalOf(f)
				_, err = s.PutSeveral(t.Context(), c, id, list, iotest.HalfReader(bytes.NewReader(body)))
			}
			if err != nil {
				t.Fatalf("a content of %d bytes: %v", len(f.body), err)
			}
		}
		if _, err := s.Commit(t.Context(), c, id, Commit{}); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !d.found(f) {
				t.Errorf("the content of %d bytes is not found", len(f.body))
			}
		}
	}
}
