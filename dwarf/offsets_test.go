package dwarf

import "testing"

func TestOffsets(t *testing.T) {
	t.Parallel()
	var o offsets
	if _, ok := o.get(0); ok {
		t.Error("an empty table has offset 0")
	}
	// As many as are remembered at once, at distances of entries and of strings.
	const n = maxOffsets * 3 / 4
	for i := range uint64(n) {
		o.set(i*i, i)
	}
	for i := range uint64(n) {
		if v, ok := o.get(i * i); !ok || v != i {
			t.Fatalf("offset %d has the number %d, %v; want %d", i*i, v, ok, i)
		}
		if v, ok := o.get(i*i + 3); ok && (i > 1) {
			t.Fatalf("offset %d, which was not set, has the number %d", i*i+3, v)
		}
	}
	o.set(5, 1)
	o.set(5, 2)
	if v, ok := o.get(5); !ok || v != 2 {
		t.Errorf("offset 5 has the number %d, %v; want 2, which was set last", v, ok)
	}
	if v, ok := o.get(49); ok {
		t.Errorf("after one more the table still has the number %d of offset 49: it grows without an end", v)
	}
	if len(o.slots) != maxOffsets {
		t.Errorf("the table has %d slots, want %d", len(o.slots), maxOffsets)
	}
}
