package scan

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// benchWalk reads every byte of every file in one archive.
func benchWalk(b *testing.B, data string, plain int) {
	dir := b.TempDir()
	write(b, dir, "x", data)
	b.SetBytes(int64(plain))
	b.ReportAllocs()
	for b.Loop() {
		total := int64(0)
		for f, err := range Walk(context.Background(), []string{dir}, Options{}) {
			must(b, err)
			c, err := f.Open(context.Background())
			must(b, err)
			n, err := io.Copy(io.Discard, c.Reader())
			must(b, err)
			total += n
			must(b, c.Close())
			f.Discard()
		}
		if total != int64(plain) {
			b.Fatalf("%d bytes, want %v", total, int64(plain))
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	var entries []entry
	const count, size = 100, 100_000
	for i := range count {
		p := make([]byte, size)
		for j := range p {
			p[j] = "symbols "[r.IntN(8)]
		}
		entries = append(entries, entry{fmt.Sprint(i), string(p)})
	}
	tar := makeTar(b, entries...)
	for _, bb := range []struct{ name, data string }{
		{"tar", tar}, {"tar.gz", gz(b, tar)}, {"tar.zst", zst(b, tar)},
		{"zip-stored", makeZip(b, 0, entries...)}, {"zip-deflated", makeZip(b, 8, entries...)},
	} {
		b.Run(bb.name, func(b *testing.B) { benchWalk(b, bb.data, count*size) })
	}
}

func BenchmarkManySmall(b *testing.B) {
	var entries []entry
	for i := range 10_000 {
		entries = append(entries, entry{fmt.Sprint(i), "tiny"})
	}
	benchWalk(b, makeZip(b, 8, entries...), 40_000)
}
