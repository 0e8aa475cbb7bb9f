package udif_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/udif"
	"github.com/symdepot/symdepot/internal/files/udif/udiftest"
)

func free(int64) error { return nil }

// disk is the disk of testdata/scan/hfsplus.iso.gz: with an Apple Partition Map, made by xorriso.
func disk(t testing.TB) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(symtest.Testdata(t, "scan/hfsplus.iso.gz")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, image []byte) ([]byte, error) {
	t.Helper()
	m, err := udif.Open(bytes.NewReader(image), int64(len(image)), free)
	if err != nil {
		t.Fatal(err)
	}
	return io.ReadAll(io.NewSectionReader(m, 0, m.Size()))
}

// TestRead: all bytes, of every kind of block, in any order of reading.
func TestRead(t *testing.T) {
	t.Parallel()
	want := disk(t)
	half := len(want) / 2 &^ 511
	xz := symtest.Testdata(t, "scan/hello.txt.xz")
	bz := symtest.Testdata(t, "scan/hello.txt.bz2")
	image := udiftest.Image(udiftest.Zlib(want[:half]), udiftest.Zlib(want[half:]))
	got, err := read(t, image)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, %v; want the %d of the disk", len(got), err, len(want))
	}
	m, err := udif.Open(bytes.NewReader(image), int64(len(image)), free)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(symtest.Seed(t, 1), 0))
	for range 500 {
		off := r.IntN(len(want) + 1000)
		p := make([]byte, r.IntN(200_000))
		n, err := m.ReadAt(p, int64(off))
		rest := want[min(off, len(want)):]
		if n != min(len(p), len(rest)) || !bytes.Equal(p[:n], rest[:n]) || (err == io.EOF) != (n < len(p)) {
			t.Fatalf("%d bytes at %d: %d, %v; want those of the disk", len(p), off, n, err)
		}
	}
	raw := []byte(strings.Repeat("sector!!", 64))
	got, err = read(t, udiftest.Image([]udiftest.Block{{Kind: 0, Sectors: 1}, {Kind: 1, Sectors: 1, Data: raw}, {Kind: 2, Sectors: 2}}))
	if err != nil || string(got) != string(make([]byte, 512))+string(raw)+string(make([]byte, 1024)) {
		t.Errorf("zeros, a sector and zeros are %q, %v", got, err)
	}
	// Real xz and bzip2 data that is shorter than its sectors: damaged, and not zeros.
	for _, b := range []udiftest.Block{{Kind: 0x80000008, Sectors: 1, Data: xz}, {Kind: 0x80000006, Sectors: 1, Data: bz}} {
		if _, err := read(t, udiftest.Image([]udiftest.Block{b})); !errors.Is(err, udif.ErrFormat) || !strings.Contains(err.Error(), "EOF") {
			t.Errorf("kind %x: error %v, want damaged: it ends early", b.Kind, err)
		}
	}
	for _, kind := range []uint32{0x80000004, 0x80000007, 0x99} {
		if _, err := read(t, udiftest.Image([]udiftest.Block{{Kind: kind, Sectors: 1, Data: raw}})); !errors.Is(err, udif.ErrMethod) {
			t.Errorf("kind %x: error %v, want ErrMethod", kind, err)
		}
	}
	if got, err := read(t, want); err != nil || !bytes.Equal(got, want) {
		t.Errorf("a disk as it is: %d bytes, %v; want %d", len(got), err, len(want))
	}
}

// TestRefused: what is damaged, encrypted or too large.
func TestRefused(t *testing.T) {
	t.Parallel()
	sector := make([]byte, 512)
	change := func(at int, text string) []byte {
		b := udiftest.Image([]udiftest.Block{{Kind: 1, Sectors: 1, Data: sector}})
		copy(b[len(b)-512+at:], text)
		return b
	}
	again := []udiftest.Block{{Kind: 1, Sectors: 64, Data: make([]byte, 64*512)}}
	for range 100 {
		again = append(again, udiftest.Block{Kind: 1, Sectors: 64, Again: true})
	}
	attributes := change(0, "")
	binary.BigEndian.PutUint64(attributes[len(attributes)-512+224:], 100_000)
	attributes = slices.Insert(attributes, 512, []byte("<a"+strings.Repeat(` b=""`, 20_000))...)
	for _, c := range []struct {
		name  string
		image []byte
		want  error
	}{
		{"encrypted", []byte("encrcdsa\x00\x00\x00\x02"), udif.ErrEncrypted},
		{"encrypted by version 1", change(504, "cdsaencr"), udif.ErrEncrypted},
		{"split", change(60, "\x00\x00\x00\x02"), udif.ErrSplit},
		{"version 5", change(4, "\x00\x00\x00\x05"), udif.ErrFormat},
		{"no list", change(224, "\x00\x00\x00\x00\x00\x00\x00\x00"), udif.ErrFormat},
		{"a huge list", change(224, "\x7f\x00\x00\x00\x00\x00\x00\x00"), udif.ErrLimit},
		{"a list of attributes", attributes, udif.ErrLimit},
		{"a list outside", change(216, "\x7f\x00\x00\x00\x00\x00\x00\x00"), udif.ErrFormat},
		{"a huge block", udiftest.Image([]udiftest.Block{{Kind: 0x80000005, Sectors: 1 << 20, Data: sector}}), udif.ErrLimit},
		{"a huge disk", udiftest.Image([]udiftest.Block{{Kind: 0, Sectors: 1 << 50}}), udif.ErrFormat},
		{"a block that is larger when it is compressed", udiftest.Image([]udiftest.Block{{Kind: 0x80000005, Sectors: 1, Data: make([]byte, 1<<20)}}), udif.ErrFormat},
		{"blocks of one place", udiftest.Image(again), udif.ErrFormat},
		{"a short block", udiftest.Image([]udiftest.Block{{Kind: 1, Sectors: 2, Data: sector}}), udif.ErrFormat},
	} {
		if _, err := udif.Open(bytes.NewReader(c.image), int64(len(c.image)), free); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", c.name, err, c.want)
		}
	}
	// What is decompressed is paid for before.
	no, paid := errors.New("no"), int64(0)
	image := udiftest.Image(udiftest.Zlib([]byte(strings.Repeat("x", 1<<20))))
	m, err := udif.Open(bytes.NewReader(image), int64(len(image)), func(n int64) error {
		if paid += n; paid > 256<<10 {
			return no
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := m.ReadAt(make([]byte, 1<<20), 0); !errors.Is(err, no) || n != 256<<10 {
		t.Errorf("%d bytes, %v; want 256 KiB, and the error of the limit", n, err)
	}
}

// TestPartitions: of a map of Apple, of a table of GUIDs, and of a disk without one.
func TestPartitions(t *testing.T) {
	t.Parallel()
	iso := disk(t)
	list, err := udif.Partitions(bytes.NewReader(iso), int64(len(iso)))
	if err != nil || len(list) != 1 || list[0].Format != udif.HFSPlus {
		t.Fatalf("the partitions are %+v, %v; want one of HFS+", list, err)
	}
	volume := iso[list[0].Offset:][:list[0].Size]
	alone, err := udif.Partitions(bytes.NewReader(volume), int64(len(volume)))
	if err != nil || len(alone) != 1 || alone[0] != (udif.Partition{Format: udif.HFSPlus, Size: int64(len(volume))}) {
		t.Errorf("the partitions of a volume are %+v, %v; want one of HFS+", alone, err)
	}
	gpt := make([]byte, 64<<10)
	copy(gpt[512:], "EFI PART")
	copy(gpt[512+72:], "\x02\x00\x00\x00\x00\x00\x00\x00\x80\x00\x00\x00\x80\x00\x00\x00")
	copy(gpt[1024+32:], "\x28\x00\x00\x00\x00\x00\x00\x00\x30\x00\x00\x00\x00\x00\x00\x00")
	copy(gpt[1024+128+32:], "\x40\x00\x00\x00\x00\x00\x00\x00\x50\x00\x00\x00\x00\x00\x00\x00")
	copy(gpt[0x28*512+32:], "NXSB")
	copy(gpt[0x40*512+1024:], "BD")
	want := []udif.Partition{{udif.APFS, 0x28 * 512, 9 * 512}, {udif.HFS, 0x40 * 512, 17 * 512}}
	copy(gpt[1024+256:], gpt[1024+128:1024+256]) // the second one again
	list, err = udif.Partitions(bytes.NewReader(gpt), int64(len(gpt)))
	if err != nil || len(list) != 2 || list[0] != want[0] || list[1] != want[1] {
		t.Errorf("the partitions of a table of GUIDs are %+v, %v; want %+v", list, err, want)
	}
	copy(gpt[0x41*512+1024:], "BD")
	gpt[1024+256+32]++
	if list, err := udif.Partitions(bytes.NewReader(gpt), int64(len(gpt))); !errors.Is(err, udif.ErrFormat) {
		t.Errorf("partitions in one another are %+v, %v; want damaged", list, err)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(udiftest.Image(udiftest.Zlib([]byte(strings.Repeat("EFI PART", 500))), []udiftest.Block{{Kind: 0, Sectors: 3}}))
	f.Add(udiftest.Image([]udiftest.Block{{Kind: 1, Sectors: 1, Data: make([]byte, 512)}}))
	f.Add(append([]byte("ER\x02\x00"), make([]byte, 4096)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		left := int64(1 << 24)
		m, err := udif.Open(bytes.NewReader(data), int64(len(data)), func(n int64) error {
			if left -= n; left < 0 {
				return udif.ErrLimit
			}
			return nil
		})
		if err == nil {
			_, err = io.Copy(io.Discard, io.NewSectionReader(m, 0, min(m.Size(), 1<<24)))
		}
		if err == nil {
			var list []udif.Partition
			list, err = udif.Partitions(m, m.Size())
			for _, p := range list {
				if p.Offset < 0 || p.Size <= 0 || p.Offset+p.Size > m.Size() {
					t.Fatalf("a partition %+v of a disk of %d bytes", p, m.Size())
				}
			}
		}
		if err != nil && !errors.Is(err, udif.ErrFormat) && !errors.Is(err, udif.ErrLimit) && !errors.Is(err, udif.ErrEncrypted) &&
			!errors.Is(err, udif.ErrMethod) && !errors.Is(err, udif.ErrSplit) {
			t.Fatalf("error %v, want one of the package", err)
		}
	})
}
