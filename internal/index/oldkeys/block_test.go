package oldkeys

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func randomKeys(n int) (keys []Key) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		k := Key{ID: fmt.Sprintf("%016x%016x%x", rnd.Uint64(), rnd.Uint64(), i%3), Own: true, Object: int64(i + 1), Role: int64(1 + i%9)}
		switch i % 10 {
		case 0:
			k.ID = fmt.Sprintf("sha1-%040X", rnd.Uint64())
		case 1:
			k.Own, k.Name = false, fmt.Sprintf("näme%d", i)
		case 2:
			k.ID = keys[i-1].ID
		case 3:
			k.ID = "é" + k.ID[:7]
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Compare)
	return keys
}

// TestBlocks: keys come back as they were packed, in blocks that fill a part of a page.
func TestBlocks(t *testing.T) {
	for _, n := range []int{1, 2, 90, 5000} {
		for _, floor := range []int64{BitsFormat - 1, BitsFormat} {
			testBlocks(t, randomKeys(n), floor)
		}
	}
}

func testBlocks(t *testing.T, keys []Key, floor int64) {
	var back []Key
	for i, b := range Blocks(keys, floor) {
		some, err := unpack(b.Body)
		if err != nil || len(some) != b.Keys || some[0].ID < b.First || len(back) > 0 && back[len(back)-1].ID >= b.First {
			t.Fatalf("block %d: %d keys from %s, %v, want %d from %s", i, len(some), some[0].ID, err, b.Keys, b.First)
		}
		if len(b.Body) > blockBytes+200 {
			t.Errorf("block %d has %d bytes, want about %d at most", i, len(b.Body), blockBytes)
		}
		if len(back) > 0 && back[len(back)-1].ID == some[0].ID {
			t.Errorf("block %d divides the keys of %s", i, some[0].ID)
		}
		for _, k := range some {
			found, err := find(b.Body, k.ID)
			if err != nil || !slices.Contains(found, k) || slices.ContainsFunc(found, func(f Key) bool { return f.ID != k.ID }) {
				t.Fatalf("%s: %v, %v", k.ID, found, err)
			}
			for _, other := range []string{k.ID[:len(k.ID)-1], k.ID + "0", k.ID[:len(k.ID)-1] + "~", k.ID[:len(k.ID)/2] + "0"} {
				found, err := find(b.Body, other)
				want := slices.DeleteFunc(slices.Clone(some), func(k Key) bool { return k.ID != other })
				if err != nil || len(found) != len(want) || len(want) > 0 && !slices.Equal(found, want) {
					t.Fatalf("%s: %v, %v, want %v", other, found, err, want)
				}
			}
		}
		back = append(back, some...)
	}
	if !reflect.DeepEqual(back, keys) {
		t.Errorf("%d keys are not as they were", len(keys))
	}
}

// TestShortBlocks: blocks of version 2 are an eighth smaller at least.
func TestShortBlocks(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var keys []Key
	for i := range 20_000 {
		keys = append(keys, Key{ID: fmt.Sprintf("%016x%016x%x", rnd.Uint64(), rnd.Uint64(), i%2), Own: true, Object: int64(i + 1), Role: 2})
	}
	slices.SortFunc(keys, Compare)
	var sizes [2]int
	for i := range sizes {
		for _, b := range Blocks(keys, BitsFormat-1+int64(i)) {
			sizes[i] += len(b.Body) + 2*len(b.First)
		}
	}
	if 8*sizes[1] > 7*sizes[0] {
		t.Errorf("%d bytes, %d in version 1; want seven eighths at most", sizes[1], sizes[0])
	}
}

// TestManyShapes: keys of many lengths and roles, with the longest ids and names.
func TestManyShapes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var keys []Key
	for i := range 3000 {
		k := Key{ID: strings.Repeat(string("0123456789abcdefghé"[rnd.IntN(18)]), 1+rnd.IntN(maxText-1)), Own: i%3 > 0, Object: 1 << rnd.IntN(63), Role: rnd.Int64N(1 << 40)}
		if !k.Own {
			k.Name = strings.Repeat("n", rnd.IntN(maxText+1))
		}
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Compare)
	testBlocks(t, keys, BitsFormat)
}

// TestIDs: the ids from which packed keys are found never change: old blocks rely on them.
func TestIDs(t *testing.T) {
	for _, c := range []struct {
		o    Object
		want []string
	}{
		{Object{DebugID: "0B63363B765C2BBA70D3662B71584E281", InfoAge: 31}, []string{"0b63363b765c2bba70d3662b71584e281", "0b63363b765c2bba70d3662b71584e281f"}},
		{Object{CodeID: "5A3Bc0001000", DebugID: "0B63363B765C2BBA70D3662B71584E281"}, []string{"5a3bc0001000", "0b63363b765c2bba70d3662b71584e281"}},
		{Object{BuildID: "ab01", CodeID: "ab01"}, []string{"ab01"}},
		{Object{}, nil},
	} {
		if got := c.o.ids(); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
}

func FuzzBlock(f *testing.F) {
	f.Add(Blocks(randomKeys(50), BitsFormat-1)[0].Body)
	f.Add(Blocks(randomKeys(50), BitsFormat)[0].Body)
	f.Add([]byte{blockVersion, 1, 0, 5, 0x12, 0x30, 2, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := unpack(b)
		if err != nil {
			return
		}
		for _, pack := range []func([]Key) []byte{packBytes, packBits} {
			again, err := unpack(pack(keys))
			if err != nil || !reflect.DeepEqual(again, keys) {
				t.Errorf("%v, %v, want %v", again, err, keys)
			}
		}
		if len(keys) > 0 {
			if _, err := find(b, keys[0].ID); err != nil {
				t.Error(err)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	keys := randomKeys(5000)
	for _, floor := range []int64{BitsFormat - 1, BitsFormat} {
		block := Blocks(keys, floor)[3]
		some, err := unpack(block.Body)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("version=%d", block.Body[0]), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if keys, err := find(block.Body, some[i%len(some)].ID); err != nil || len(keys) == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}
