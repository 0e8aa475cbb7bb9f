package oldkeys

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
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
		keys := randomKeys(n)
		var back []Key
		for i, b := range Blocks(keys) {
			some, err := unpack(b.Body)
			if err != nil || len(some) != b.Keys || some[0].ID != b.First {
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
				if err != nil || !slices.Contains(found, k) {
					t.Fatalf("%s: %v, %v", k.ID, found, err)
				}
			}
			back = append(back, some...)
		}
		if !reflect.DeepEqual(back, keys) {
			t.Errorf("%d keys are not as they were", n)
		}
	}
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
	f.Add(Blocks(randomKeys(50))[0].Body)
	f.Add([]byte{blockVersion, 1, 0, 5, 0x12, 0x30, 2, 7})
	f.Fuzz(func(t *testing.T, b []byte) {
		keys, err := unpack(b)
		if err != nil {
			return
		}
		again, err := unpack(pack(keys))
		if err != nil || !reflect.DeepEqual(again, keys) {
			t.Errorf("%v, %v, want %v", again, err, keys)
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
	block := Blocks(keys)[3]
	for b.Loop() {
		if _, err := find(block.Body, block.First[:1]+"zz"); err != nil {
			b.Fatal(err)
		}
	}
}
