package fusefilter

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func random(n int, seed uint64) []uint64 {
	r := rand.New(rand.NewPCG(seed, 1))
	keys := make([]uint64, n)
	for i := range keys {
		keys[i] = r.Uint64()
	}
	return keys
}

// TestFilter: all keys are found, also after encoding, and few others.
func TestFilter(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 4, 5, 10, 63, 100, 1000, 4095, 50_000, 1_000_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			keys := random(n, uint64(n))
			f, err := Build(slices.Clone(keys))
			if err != nil {
				t.Fatal(err)
			}
			b, err := f.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			var back Filter
			if err := back.UnmarshalBinary(b); err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				if !f.Has(k) || !back.Has(k) {
					t.Fatalf("key %x is not found", k)
				}
			}
			const tries = 200_000
			wrong := 0
			for _, k := range random(tries, 1e9) {
				if f.Has(k) {
					wrong++
				}
			}
			if share := float64(wrong) / tries; share > 1.0/256*1.3 {
				t.Errorf("%.4f of other keys are found, want 1/256 = 0.0039", share)
			}
			if perKey := 8 * float64(f.Size()) / float64(max(n, 1)); n >= 50_000 && perKey > 10 || n >= 1_000_000 && perKey > 9.2 {
				t.Errorf("%.2f bits a key, want at most 10, and 9.2 for a million", perKey)
			}
			if f.Keys() != n {
				t.Errorf("%d keys, want %d", f.Keys(), n)
			}
		})
	}
}

// TestRepeatedKeys: repeated keys count once, and bad hashes do no harm.
func TestRepeatedKeys(t *testing.T) {
	keys := make([]uint64, 10_000)
	for i := range keys {
		keys[i] = uint64(i % 1000)
	}
	f, err := Build(keys)
	if err != nil {
		t.Fatal(err)
	}
	if f.Keys() != 1000 {
		t.Errorf("%d keys, want 1000", f.Keys())
	}
	for k := range uint64(1000) {
		if !f.Has(k) {
			t.Errorf("key %d is not found", k)
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	f, err := Build(random(100, 1))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := f.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := new(Filter).UnmarshalBinary(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are a filter, want an error", n, len(whole))
		}
		changed := bytes.Clone(whole)
		changed[n] ^= 1
		if err := new(Filter).UnmarshalBinary(changed); err == nil {
			t.Errorf("a changed byte %d is not noticed", n)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, n := range []int{0, 1, 100} {
		s, err := Build(random(n, 1))
		if err != nil {
			f.Fatal(err)
		}
		b, err := s.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var s Filter
		if s.UnmarshalBinary(b) != nil {
			return
		}
		for _, k := range random(100, 2) {
			s.Has(k)
		}
		if again, err := s.MarshalBinary(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x was read from %x, %v; want the same bytes", again, b, err)
		}
	})
}

func BenchmarkHas(b *testing.B) {
	keys := random(1_000_000, 1)
	f, err := Build(slices.Clone(keys))
	if err != nil {
		b.Fatal(err)
	}
	for i := range b.N {
		f.Has(keys[i%len(keys)] + 1)
	}
}

func BenchmarkBuild(b *testing.B) {
	keys := random(1_000_000, 1)
	b.SetBytes(int64(8 * len(keys)))
	for range b.N {
		if _, err := Build(slices.Clone(keys)); err != nil {
			b.Fatal(err)
		}
	}
}
