package deflate

import (
	"bytes"
	"compress/flate"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// sample is text that deflate finds much to do with: the test program itself.
func sample(t testing.TB, n int) []byte {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b[:min(n, len(b))]
}

// again takes a stream apart, makes it again, and returns its recipe.
func again(t *testing.T, packed, plain []byte) Stream {
	t.Helper()
	var a Analyzer
	r := bytes.NewReader(packed)
	from := time.Now()
	ok, err := a.Probe(context.Background(), r, 0, int64(len(packed)))
	if err != nil || !ok {
		t.Fatalf("probe: %v %v", ok, err)
	}
	t.Logf("probed in %v: setting %d", time.Since(from), a.last)
	from = time.Now()
	s, err := a.Analyze(context.Background(), r, 0, int64(len(packed)))
	if err != nil {
		t.Fatalf("analyze: %v (recipe so far %d)", err, len(s.Recipe))
	}
	t.Logf("%d of %d bytes: recipe of %d in %v", len(packed), len(plain), len(s.Recipe), time.Since(from))
	got, err := io.ReadAll(NewPacker(bytes.NewReader(plain), s.Size, s.Recipe))
	if err != nil || !bytes.Equal(got, packed) {
		t.Fatalf("packed again: %v", err)
	}
	return s
}

func TestGo(t *testing.T) {
	mixed := bytes.Join([][]byte{sample(t, 1<<20), noise(200_000), make([]byte, 100_000), sample(t, 100_000)}, nil)
	for _, level := range []int{1, 4, 5, 6, 7, 8, 9} {
		for name, plain := range map[string][]byte{"program": sample(t, 4<<20), "mixed": mixed} {
			t.Run(name+" "+strconv.Itoa(level), func(t *testing.T) {
				var b bytes.Buffer
				w, err := flate.NewWriter(&b, level)
				if err != nil {
					t.Fatal(err)
				}
				w.Write(plain)
				w.Close()
				if s := again(t, b.Bytes(), plain); len(s.Recipe) > 16 {
					t.Errorf("recipe of %d bytes", len(s.Recipe))
				}
			})
		}
	}
}

// noise is what does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// zlib compresses with Python's zlib.
func zlib(t *testing.T, plain []byte, level, memory int) []byte {
	t.Helper()
	python := symtest.Judge(t, "python3")
	if python == "" {
		t.Skip("python3 is not installed")
	}
	cmd := exec.Command(python, "-c", `import sys,zlib
c=zlib.compressobj(int(sys.argv[1]),zlib.DEFLATED,-15,int(sys.argv[2]))
sys.stdout.buffer.write(c.compress(sys.stdin.buffer.read())+c.flush())`, strconv.Itoa(level), strconv.Itoa(memory))
	cmd.Stdin = bytes.NewReader(plain)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestZlib(t *testing.T) {
	plain := sample(t, 400_000)
	for level := 1; level <= 9; level++ {
		for _, memory := range []int{8, 9} {
			t.Run(strconv.Itoa(level)+" "+strconv.Itoa(memory), func(t *testing.T) {
				if s := again(t, zlib(t, plain, level, memory), plain); len(s.Recipe) > 16 {
					t.Errorf("recipe of %d bytes", len(s.Recipe))
				}
			})
		}
	}
}

// TestCorrections: a stream of a program that differs a little from a known one has a recipe
// that is shorter than the stream by far: one that begins anew after each part, and one with
// a shorter block.
func TestCorrections(t *testing.T) {
	plain := sample(t, 1<<20)
	var b bytes.Buffer
	for len(plain) > 0 { // as lld does: parts on their own, one after the other
		n := min(300_000, len(plain))
		w, err := flate.NewWriter(&b, 1)
		if err != nil {
			t.Fatal(err)
		}
		w.Write(plain[:n])
		if plain = plain[n:]; len(plain) > 0 {
			w.Flush()
		} else {
			w.Close()
		}
	}
	plain = sample(t, 1<<20)
	if s := again(t, b.Bytes(), plain); len(s.Recipe) > b.Len()/100 {
		t.Errorf("recipe of %d bytes", len(s.Recipe))
	}
}

// TestReader: any place of a stream is read, forwards and backwards.
func TestReader(t *testing.T) {
	plain := sample(t, 8<<20)
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, 1)
	if err != nil {
		t.Fatal(err)
	}
	w.Write(plain)
	w.Close()
	r := NewReader(bytes.NewReader(b.Bytes()), Stream{Len: int64(b.Len()), Size: int64(len(plain))}, nil)
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 3), 3))
	buf := make([]byte, 100_000)
	for range 200 {
		at := rnd.IntN(len(plain) - len(buf))
		if n, err := r.ReadAt(buf, int64(at)); n != len(buf) || err != nil || !bytes.Equal(buf, plain[at:at+n]) {
			t.Fatalf("at %d: %d, %v", at, n, err)
		}
	}
	if len(r.marks) < 5 {
		t.Errorf("%d marks", len(r.marks))
	}
}

// FuzzPacker: no recipe makes a Packer fail otherwise than by its error, or go on for ever.
func FuzzPacker(f *testing.F) {
	plain := sample(f, 200_000)
	f.Add([]byte{goSetting})
	f.Add([]byte{lazySetting + 6, 1, otherTokens, 1, 7, 65})
	f.Add([]byte{zlibSetting + 6, 0, otherCount | otherCoding | stored<<4, 10})
	f.Add([]byte{zlibSetting + 1, 3, otherTokens, 1, 7, 65, 0, otherFinal})
	f.Add([]byte{forgets | zlibSetting + 9, 1, otherCoding | dynamic<<4, 20, 1, 2, 3})
	f.Fuzz(func(t *testing.T, recipe []byte) {
		_, _ = io.Copy(io.Discard, NewPacker(bytes.NewReader(plain), int64(len(plain)), recipe))
	})
}

// FuzzStream: no bytes make the search for a recipe fail otherwise than by its error.
func FuzzStream(f *testing.F) {
	for _, level := range []int{1, 6, flate.HuffmanOnly} {
		var b bytes.Buffer
		w, err := flate.NewWriter(&b, level)
		if err != nil {
			f.Fatal(err)
		}
		w.Write(sample(f, 6_000))
		w.Close()
		f.Add(b.Bytes())
	}
	var a Analyzer
	f.Fuzz(func(t *testing.T, packed []byte) {
		r := bytes.NewReader(packed)
		if ok, err := a.Probe(t.Context(), r, 0, int64(len(packed))); !ok || err != nil {
			return
		}
		s, err := a.Analyze(t.Context(), r, 0, int64(len(packed)))
		if err != nil {
			return
		}
		plain := NewReader(r, s, nil)
		got, err := io.ReadAll(NewPacker(io.NewSectionReader(plain, 0, s.Size), s.Size, s.Recipe))
		if err != nil || !bytes.Equal(got, packed[:s.Len]) {
			t.Fatalf("another stream, %v", err)
		}
	})
}
