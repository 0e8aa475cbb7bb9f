package cold

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/zstdseq"
)

// level3Frame compresses as libzstd does at level 3 for long contents.
func level3Frame(t testing.TB, plain []byte) []byte {
	t.Helper()
	// Size in four bytes, and a checksum; window of 2 MiB; setting.
	recipe := []byte{0x84, 0x58, 2, 21, 16, 17, 1, 5, 0}
	b, err := io.ReadAll(zstdseq.NewPacker(bytes.NewReader(plain), int64(len(plain)), recipe))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// framed is a file with parts as frames of zstd between others.
func framed(t testing.TB, parts ...[]byte) (b []byte) {
	t.Helper()
	for i, p := range parts {
		b = append(append(b, program(uint64(i), 10_000)...), level3Frame(t, p)...)
	}
	return append(b, "the end"...)
}

// TestFramesDelta: a delta of contents with frames of zstd is hardly longer than one of the same bytes as
// they are, and is restored with any form of its base.
func TestFramesDelta(t *testing.T) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 36), 1))
	one, two := program(7, 900_000), program(8, 300_000)
	newOne, newTwo := edit(r, one, 40), edit(r, two, 20)
	base, b := framed(t, one, two), framed(t, newOne, newTwo)
	key, delta := chilled(t, base, nil), chilled(t, b, base)
	bare := chilled(t, append(bytes.Clone(newOne), newTwo...), append(bytes.Clone(one), two...))
	if len(delta) > len(bare)+1000 {
		t.Errorf("the delta has %d bytes; that of what is in the frames %d", len(delta), len(bare))
	}
	h, err := ReadHeader(bytes.NewReader(delta), int64(len(delta)))
	if err != nil || h.Version != 3 || h.Streams() != 2 || h.Size != int64(len(b)) || h.UnpackedSize() < 1_200_000 {
		t.Errorf("head %+v, %v", h, err)
	}
	if h, err := ReadHeader(bytes.NewReader(key), int64(len(key))); err != nil || h.Version != 3 || h.Streams() != 2 {
		t.Errorf("head of the key %+v, %v", h, err)
	}
	if got := restored(t, open(t, key, nil)); !bytes.Equal(got, base) {
		t.Error("the key gives other bytes")
	}
	for name, from := range map[string]io.ReaderAt{
		"plain base": bytes.NewReader(base), "unpacked key": open(t, key, nil), "old key": open(t, encoded(t, base, nil), nil),
	} {
		c, err := Open(bytes.NewReader(delta), int64(len(delta)), from)
		if err != nil {
			t.Fatal(err)
		}
		if got := restored(t, c); !bytes.Equal(got, b) {
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

// TestFramesLeftWhole: a frame that is damaged, a bomb, or of an unknown program stays as it is, soon; those
// beside it are unpacked.
func TestFramesLeftWhole(t *testing.T) {
	good := level3Frame(t, program(4, 300_000))
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 4
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	unknown := w.EncodeAll(program(5, 300_000), nil)
	// Blocks of one byte that stands for many, without an end and without a size.
	endless := []byte(zstdseq.Magic + "\x00\x58")
	for range 100_000 {
		endless = append(endless, 0x02, 0x00, 0x10, 'x')
	}
	var many []byte
	for range 20_000 {
		many = append(many, endless[:100]...)
	}
	for name, b := range map[string][]byte{
		"bomb": level3Frame(t, make([]byte, 100<<20)), "cut": good[:len(good)-1], "flipped": flipped, "unknown": unknown,
		"endless": endless, "many": many,
	} {
		from := time.Now()
		s, err := Unpack(context.Background(), content(b))
		if err != nil || s.Unpacked() {
			t.Errorf("%s: unpacked %v, %v", name, s.Unpacked(), err)
		}
		if d := time.Since(from); d > searchTime+5*time.Second {
			t.Errorf("%s: took %v", name, d)
		}
		if name == "many" {
			continue
		}
		b = append(b[:len(b):len(b)], good...)
		file := chilled(t, b, nil)
		if c := open(t, file, nil); c.Header().Streams() != 1 || !bytes.Equal(restored(t, c), b) {
			t.Errorf("%s: %d streams are unpacked, or other bytes", name, c.Header().Streams())
		}
	}
}

// objcopied is an object file with b as its section .debug_info, which objcopy compresses with zstd.
func objcopied(t *testing.T, b []byte) []byte {
	t.Helper()
	objcopy := symtest.Judge(t, "objcopy")
	if objcopy == "" {
		t.Skip("needs objcopy (apt-get install binutils)")
	}
	dir := t.TempDir()
	symtest.Put(t, dir, "a", b)
	run := func(args ...string) []byte {
		cmd := exec.Command(objcopy, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return out
		}
		return nil
	}
	section := ".data=.debug_info,contents,readonly,debug"
	if out := run("-I", "binary", "-O", "elf64-x86-64", "--rename-section", section, "a", "a.o"); out != nil {
		t.Fatalf("%s", out)
	}
	if out := run("--compress-debug-sections=zstd", "a.o", "b.o"); out != nil {
		t.Skipf("needs objcopy with zstd (apt-get install binutils, 2.40 or newer): %s", out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "b.o"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestObjcopy: sections that objcopy compresses with zstd are unpacked, and made again.
func TestObjcopy(t *testing.T) {
	r := rand.New(rand.NewPCG(symtest.Seed(t, 37), 1))
	one := program(7, 3_000_000)
	two := edit(r, one, 60)
	base, b := objcopied(t, one), objcopied(t, two)
	delta, bare := chilled(t, b, base), chilled(t, two, one)
	if len(delta) > len(bare)+2000 {
		t.Errorf("the delta has %d bytes; that of the sections as they are %d", len(delta), len(bare))
	}
	if c := open(t, delta, base); c.Header().Streams() != 1 || !bytes.Equal(restored(t, c), b) {
		t.Errorf("%d streams, or other bytes", c.Header().Streams())
	}
}
