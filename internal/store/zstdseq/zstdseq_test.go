package zstdseq

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// sample is what zstd finds much to do with: the test program itself, from a place on.
func sample(t testing.TB, from, n int) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = b[min(from, len(b)):]
	return b[:min(n, len(b))]
}

// noise is what does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// mixed has runs of zeros, noise, and parts of a program.
func mixed(t testing.TB) []byte {
	return bytes.Join([][]byte{sample(t, 0, 300_000), make([]byte, 400_000), noise(300_000), sample(t, 100_000, 300_000),
		bytes.Repeat([]byte("abc"), 70_000), noise(20), bytes.Repeat([]byte{7}, 140_000), sample(t, 0, 250_000)}, nil)
}

// tool compresses with the program zstd.
func tool(t *testing.T, plain []byte, args ...string) []byte {
	t.Helper()
	program := symtest.Judge(t, "zstd")
	if program == "" {
		t.Skip("needs zstd (apt-get install zstd)")
	}
	name := t.TempDir() + "/plain"
	if err := os.WriteFile(name, plain, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append(args, "-q", "-c", name)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// frames parses each block of all frames, writes it again, and compares. It returns the number of blocks
// with sequences or literals that are compressed.
func frames(t *testing.T, packed []byte) (blocks int) {
	t.Helper()
	var d decoder
	var w writer
	var b block
	for at := int64(0); at < int64(len(packed)); {
		if err := d.begin(bytes.NewReader(packed), at, int64(len(packed))); err != nil {
			t.Fatalf("frame at %d: %v", at, err)
		}
		w.reset()
		for !d.over {
			if err := d.next(&b); err != nil {
				t.Fatalf("block %d: %v", blocks, err)
			}
			if b.kind != compressedBlock {
				continue
			}
			blocks++
			if got, ok := w.write(&b, d.parser.literals); !ok || !bytes.Equal(got, d.packed[blockHead:]) {
				t.Fatalf("block %d is not the same, %v", blocks, ok)
			}
			w.commit(&b)
		}
		at = d.at
	}
	return blocks
}

// TestSame: each block of a frame is written again as it was, whatever made it.
func TestSame(t *testing.T) {
	plain := mixed(t)
	for _, args := range []string{"-1", "-3", "-7", "-13", "-16", "-19", "--fast=5", "--long=22 -3", "-T2 -B600K -3", "-5 --no-check",
		"--ultra -20 --zstd=wlog=20", "-1 --rsyncable", "-9 --no-content-size"} {
		t.Run(args, func(t *testing.T) {
			if n := frames(t, tool(t, plain, strings.Fields(args)...)); n < 5 {
				t.Errorf("%d compressed blocks", n)
			}
		})
	}
	for level := zstd.SpeedFastest; level <= zstd.SpeedBestCompression; level++ {
		t.Run("Go "+level.String(), func(t *testing.T) {
			w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<20))
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if n := frames(t, w.EncodeAll(plain, nil)); n < 5 {
				t.Errorf("%d compressed blocks", n)
			}
		})
	}
}

// again makes a frame again of its bytes and a recipe, and returns the recipe. It is nil if the frame stays
// as it is.
func again(t testing.TB, packed, plain []byte) []byte {
	t.Helper()
	var a Analyzer
	r := bytes.NewReader(packed)
	size, n, err := a.Measure(t.Context(), r, 0, int64(len(packed)))
	if err != nil || size != int64(len(plain)) || n != int64(len(packed)) {
		t.Fatalf("measured %d of %d bytes, %d of %d: %v", n, len(packed), size, len(plain), err)
	}
	ok, err := a.Probe(t.Context(), r, 0, size, n)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return nil
	}
	recipe, err := a.Analyze(t.Context(), r, 0, size, n)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(NewPacker(bytes.NewReader(plain), size, recipe))
	if err != nil || !bytes.Equal(got, packed) {
		t.Fatalf("other bytes, %v", err)
	}
	return recipe
}

// TestLevels: what zstd writes at the levels that are known is predicted: the recipe has next to no
// corrections.
func TestLevels(t *testing.T) {
	for _, plain := range [][]byte{sample(t, 1<<20, 15_000), sample(t, 1<<20, 100_000), sample(t, 1<<20, 200_000), mixed(t)} {
		for level := 1; level <= 12; level++ {
			if len(plain) <= 16<<10 && level > 3 || len(plain) <= 256<<10 && level > 10 {
				continue // not known for so short contents
			}
			if len(plain) > 256<<10 && level > 3 && level%3 != 0 {
				continue // a few of them do
			}
			t.Run(fmt.Sprintf("%d %d", len(plain), level), func(t *testing.T) {
				packed := tool(t, plain, fmt.Sprintf("-%d", level))
				recipe := again(t, packed, plain)
				if recipe == nil || len(recipe) > 80+len(packed)/1000 {
					t.Errorf("a recipe of %d bytes", len(recipe))
				}
			})
		}
	}
}

// made makes a frame with a setting, as it is predicted.
func made(t testing.TB, plain []byte, s setting) []byte {
	t.Helper()
	recipe := []byte{2<<6 | singleSegment | hasChecksum}
	if len(plain) > maxWindow {
		recipe = []byte{2<<6 | hasChecksum, (s.window - 10) << 3}
	}
	out, err := io.ReadAll(NewPacker(bytes.NewReader(plain), int64(len(plain)), s.append(recipe)))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestValid: what is predicted is a frame whose bytes another decoder gives, for each setting.
func TestValid(t *testing.T) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, plain := range [][]byte{sample(t, 1<<20, 15_000), sample(t, 1<<20, 200_000), mixed(t), nil, {1}, make([]byte, 300_000)} {
		for _, s := range settingsFor(head{descriptor: singleSegment}, int64(len(plain))) {
			packed := made(t, plain, s)
			if got, err := d.DecodeAll(packed, nil); err != nil || !bytes.Equal(got, plain) {
				t.Errorf("%d bytes with %v: other bytes, %v", len(plain), s, err)
			}
			if len(plain) > 300_000 && len(packed) > len(plain)/2 {
				t.Errorf("%d bytes with %v: %d bytes", len(plain), s, len(packed))
			}
		}
	}
}

// TestCorrections: a frame whose sequences, literals, tables and blocks are not those of any setting is made
// again with corrections; one in which they are seldom otherwise has a short recipe.
func TestCorrections(t *testing.T) {
	plain := mixed(t)
	for _, args := range []string{"--long=22 -3", "-1 --rsyncable", "--zstd=strategy=2,clog=16,hlog=17,mml=5,ldmHashLog=6"} {
		t.Run(args, func(t *testing.T) {
			packed := tool(t, plain, strings.Fields(args)...)
			recipe := again(t, packed, plain)
			t.Logf("%d bytes, recipe of %d", len(packed), len(recipe))
			if len(recipe) == 0 || len(recipe) > len(packed)/8 {
				t.Errorf("a recipe of %d bytes for %d", len(recipe), len(packed))
			}
		})
	}
	// Any frame is made again, with any setting.
	for _, args := range []string{"-19", "-13", "--fast=9", "-1"} {
		packed := tool(t, plain, args)
		var a Analyzer
		if err := a.decoder.begin(bytes.NewReader(packed), 0, int64(len(packed))); err != nil {
			t.Fatal(err)
		}
		a.last = setting{doubleStrategy, 21, 16, 17, 1, 5, 0}
		d, x := &a.decoder, &a.analysis
		x.begin(d.head, a.last, int64(len(plain)))
		for !d.over {
			if err := d.next(&a.block); err != nil {
				t.Fatal(err)
			}
			if err := x.add(t.Context(), &a.block, d); err != nil {
				t.Fatal(err)
			}
		}
		got, err := io.ReadAll(NewPacker(bytes.NewReader(plain), int64(len(plain)), x.recipe))
		if err != nil || !bytes.Equal(got, packed) {
			t.Errorf("%s: other bytes, %v", args, err)
		}
	}
}

// TestRefused: what is no frame, or is not worth it, is refused.
func TestRefused(t *testing.T) {
	s := setting{doubleStrategy, 21, 16, 17, 1, 5, 0}
	good := made(t, sample(t, 0, 100_000), s)
	wrongSum := bytes.Clone(good)
	wrongSum[len(wrongSum)-1] ^= 1
	var a Analyzer
	for name, b := range map[string][]byte{
		"empty": nil, "cut": good[:len(good)/2], "bomb": made(t, make([]byte, 50<<20), s),
		"dictionary": append([]byte(Magic+"\x01"), good[5:]...),
	} {
		if _, _, err := a.Measure(t.Context(), bytes.NewReader(b), 0, int64(len(b))); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := bytes.NewReader(wrongSum)
	size, n, err := a.Measure(t.Context(), r, 0, int64(len(wrongSum)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Probe(t.Context(), r, 0, size, n); !errors.Is(err, ErrRefused) {
		t.Errorf("wrong checksum: %v", err)
	}
	// A frame with an empty block in the middle.
	good = made(t, sample(t, 0, 300_000), s)
	if err := a.decoder.begin(bytes.NewReader(good), 0, int64(len(good))); err != nil {
		t.Fatal(err)
	}
	if err := a.decoder.next(&a.block); err != nil {
		t.Fatal(err)
	}
	r = bytes.NewReader(slices.Insert(bytes.Clone(good), int(a.decoder.at), 0, 0, 0))
	if ok, err := a.Probe(t.Context(), r, 0, 300_000, r.Size()); ok || !errors.Is(err, ErrRefused) {
		t.Errorf("an empty block: %v, %v; want it refused", ok, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Probe(ctx, bytes.NewReader(good), 0, 100_000, int64(len(good))); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestReader: any place of a frame is read, forwards and backwards.
func TestReader(t *testing.T) {
	plain := sample(t, 0, 12<<20)
	packed := made(t, plain, setting{doubleStrategy, 17, 16, 17, 1, 5, 0})
	r := NewReader(bytes.NewReader(packed), 0, int64(len(packed)), int64(len(plain)), nil)
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 3), 3))
	buf := make([]byte, 100_000)
	for range 30 {
		at := rnd.IntN(len(plain) - len(buf))
		if n, err := r.ReadAt(buf, int64(at)); n != len(buf) || err != nil || !bytes.Equal(buf, plain[at:at+n]) {
			t.Fatalf("at %d: %d, %v", at, n, err)
		}
	}
	if n, err := r.ReadAt(buf, int64(len(plain)-10)); n != 10 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// FuzzPacker: no recipe makes a Packer fail otherwise than by its error, or go on for ever.
func FuzzPacker(f *testing.F) {
	plain := sample(f, 0, 40_000)
	begin := []byte{2<<6 | singleSegment | hasChecksum}
	for _, s := range settingsFor(head{descriptor: singleSegment}, int64(len(plain))) {
		f.Add(s.append(begin))
	}
	s := setting{doubleStrategy, 18, 16, 16, 1, 4, 0}.append(begin)
	f.Add(append(s, 0, otherSize, 50))
	f.Add(append(s, 1, otherSequences, 2, 10, 4, 1, 9, 20, 0))
	f.Add(append(s, 0, otherLiterals|otherTables, compressedLiterals, 3, 130, 0x11, 0x10, 0x2a, 2, 1, 2, 0, 1, 2, 0))
	f.Add(append(s, 0, otherKind|otherLast|rleBlock<<kindShift, 0, otherKind))
	f.Fuzz(func(t *testing.T, recipe []byte) {
		n, err := io.Copy(io.Discard, NewPacker(bytes.NewReader(plain), int64(len(plain)), recipe))
		if err == nil && n < 9 {
			t.Errorf("%d bytes", n)
		}
		if err != nil && !IsRecipe(err) {
			t.Error(err)
		}
	})
}

// FuzzFrame: no bytes make the search for a recipe fail otherwise than by its error, and a frame that has
// one is made again.
func FuzzFrame(f *testing.F) {
	plain := append(sample(f, 1<<20, 6_000), make([]byte, 300)...)
	for _, s := range settingsFor(head{descriptor: singleSegment}, int64(len(plain))) {
		f.Add(made(f, plain, s))
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(w.EncodeAll(plain, nil))
	var a Analyzer
	f.Fuzz(func(t *testing.T, packed []byte) {
		r := bytes.NewReader(packed)
		size, n, err := a.Measure(t.Context(), r, 0, int64(len(packed)))
		if err != nil {
			return
		}
		if ok, err := a.Probe(t.Context(), r, 0, size, n); !ok || err != nil {
			return
		}
		recipe, err := a.Analyze(t.Context(), r, 0, size, n)
		if err != nil {
			return
		}
		plain := io.NewSectionReader(NewReader(r, 0, n, size, nil), 0, size)
		got, err := io.ReadAll(NewPacker(plain, size, recipe))
		if err != nil || !bytes.Equal(got, packed[:n]) {
			t.Fatalf("another frame, %v", err)
		}
	})
}
