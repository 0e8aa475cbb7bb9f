package xz

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	module "github.com/mikelolasagasti/xz"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// compress runs the xz program.
func compress(t testing.TB, plain []byte, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(symtest.Tool(t, "xz"), append([]string{"-c"}, args...)...)
	cmd.Stdin = bytes.NewReader(plain)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// text returns n bytes that compress somewhat, with repeats near and far.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // any will do
	b := make([]byte, 0, n+1000)
	for len(b) < n {
		switch k := r.IntN(10); {
		case k < 3 || len(b) < 10:
			for range r.IntN(40) {
				b = append(b, byte(r.IntN(256)))
			}
		case k < 8:
			from, m := r.IntN(len(b)), r.IntN(300)
			for i := range m {
				b = append(b, b[from+i%(len(b)-from)])
			}
		default:
			b = append(b, strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(600))...)
		}
	}
	return b[:n]
}

func decompress(t testing.TB, packed []byte) ([]byte, error) {
	t.Helper()
	z, err := NewReader(bytes.NewReader(packed), 64<<20)
	if err != nil {
		return nil, err
	}
	defer z.Close()
	return io.ReadAll(z)
}

// TestReader: what the xz program compresses with any parameters is read back.
func TestReader(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	program = program[:min(len(program), 12<<20)]
	for _, c := range []struct {
		name  string
		plain []byte
		args  []string
	}{
		{"empty", nil, nil},
		{"one byte", []byte("x"), nil},
		{"program", program, []string{"-1"}},
		{"program at the usual level", program[:3<<20], []string{"-6"}},
		{"text", text(5 << 20), []string{"-0"}},
		{"small dictionary", text(9 << 20), []string{"--lzma2=preset=1,dict=4KiB"}},
		{"odd dictionary", text(5 << 20), []string{"--lzma2=preset=1,dict=100KiB"}},
		{"lc=0 lp=4 pb=4", text(1 << 20), []string{"--lzma2=preset=1,lc=0,lp=4,pb=4"}},
		{"lc=4 lp=0 pb=0", text(1 << 20), []string{"--lzma2=preset=1,lc=4,lp=0,pb=0"}},
		{"lc=2 lp=2 pb=1", program[:1<<20], []string{"--lzma2=preset=1,lc=2,lp=2,pb=1"}},
		{"random", func() []byte {
			b := make([]byte, 3<<20)
			_, _ = rand.NewChaCha8([32]byte{}).Read(b)
			return b
		}(), []string{"-0"}},
		{"zeros", make([]byte, 20<<20), []string{"-0"}},
		{"blocks", text(3 << 20), []string{"-0", "--block-size=100000"}},
		{"threads", text(3 << 20), []string{"-0", "-T2", "--block-size=1000000"}},
		{"without a sum", text(1 << 20), []string{"-0", "--check=none"}},
		{"crc32", text(1 << 20), []string{"-0", "--check=crc32"}},
		{"sha256", text(1 << 20), []string{"-0", "--check=sha256"}},
		{"another filter", program[:1<<20], []string{"--x86", "--lzma2=preset=0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			packed := compress(t, c.plain, c.args...)
			got, err := decompress(t, packed)
			if err != nil || !bytes.Equal(got, c.plain) {
				t.Fatalf("%d bytes, %v, want the %d that were compressed", len(got), err, len(c.plain))
			}
			two := append(append(bytes.Clone(packed), 0, 0, 0, 0), packed...)
			if got, err := decompress(t, two); err != nil || !bytes.Equal(got, append(bytes.Clone(c.plain), c.plain...)) {
				t.Errorf("two streams: %d bytes, %v, want twice %d", len(got), err, len(c.plain))
			}
		})
	}
}

// TestDamaged: data that is cut or changed anywhere is an error, and what was read before
// is a beginning of the original.
func TestDamaged(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	plain := text(20_000)
	packed := compress(t, plain, "-6", "--block-size=15000")
	for i := range packed {
		if got, err := decompress(t, packed[:i]); err == nil || !bytes.HasPrefix(plain, got) {
			t.Errorf("cut at %d of %d: %d bytes, %v, want an error", i, len(packed), len(got), err)
		}
		bad := bytes.Clone(packed)
		bad[i] ^= byte(1 << (i % 8))
		if _, err := decompress(t, bad); err == nil {
			t.Errorf("byte %d of %d changed: no error", i, len(packed))
		}
	}
	if _, err := NewReader(bytes.NewReader(packed), 4096); err == nil {
		z, _ := NewReader(bytes.NewReader(packed), 4096)
		if _, err := io.ReadAll(z); !errors.Is(err, ErrDictionary) {
			t.Errorf("a dictionary over the limit: %v, want %v", err, ErrDictionary)
		}
	}
	if _, err := NewReader(strings.NewReader("something else entirely"), 1<<20); !errors.Is(err, module.ErrFormat) {
		t.Errorf("other data: %v, want %v", err, module.ErrFormat)
	}
}

// FuzzReader compares with the module.
func FuzzReader(f *testing.F) {
	if symtest.Judge(f, "xz") != "" {
		f.Add(compress(f, text(3000), "-6"))
		f.Add(compress(f, text(30_000), "-0", "--block-size=9000", "--check=crc32"))
	}
	f.Add([]byte(headMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(z io.Reader, err error) ([]byte, error) {
			if err != nil {
				return nil, err
			}
			return io.ReadAll(io.LimitReader(z, 1<<20))
		}
		z, err := NewReader(bytes.NewReader(data), 1<<20)
		got, gotErr := read(z, err)
		if z != nil {
			_ = z.Close()
		}
		m, err := module.NewReader(bytes.NewReader(data), 1<<20)
		want, wantErr := read(m, err)
		if (gotErr == nil) != (wantErr == nil) && !errors.Is(gotErr, errFilters) {
			t.Fatalf("the error is %v, that of the module %v", gotErr, wantErr)
		}
		if wantErr == nil && gotErr == nil && !bytes.Equal(got, want) {
			t.Fatalf("%d other bytes than the %d of the module", len(got), len(want))
		}
	})
}

func BenchmarkReader(b *testing.B) {
	path := os.Getenv("SYMDEPOT_XZ")
	if path == "" {
		b.Skip("SYMDEPOT_XZ names no file")
	}
	packed, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		open func() (io.Reader, error)
	}{
		{"own", func() (io.Reader, error) { return NewReader(bytes.NewReader(packed), 64<<20) }},
		{"module", func() (io.Reader, error) { return module.NewReader(bytes.NewReader(packed), 64<<20) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				z, err := c.open()
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, z)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(n)
				if c, ok := z.(io.Closer); ok {
					_ = c.Close()
				}
			}
		})
	}
}

// TestBlocks: data in several blocks is read from anywhere, and equals what is read in
// order.
func TestBlocks(t *testing.T) {
	t.Parallel()
	plain := text(1_000_000)
	one := compress(t, plain, "-0", "--block-size=100000")
	two := append(append(bytes.Clone(one), 0, 0, 0, 0, 0, 0, 0, 0), compress(t, plain[:10], "-0")...)
	spare := make(chan struct{}, 1)
	spare <- struct{}{}
	for _, c := range []struct {
		name   string
		packed []byte
		plain  []byte
		spare  chan struct{}
	}{{"blocks", one, plain, nil}, {"two streams", two, append(bytes.Clone(plain), plain[:10]...), nil}, {"ahead", two, append(bytes.Clone(plain), plain[:10]...), spare}} {
		open := func() *Blocks {
			b, err := NewBlocks(bytes.NewReader(c.packed), int64(len(c.packed)), 1<<20, c.spare)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		b := open()
		if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, c.plain) || b.Size() != int64(len(c.plain)) {
			t.Fatalf("%s: %d bytes, %v, want %d", c.name, len(got), err, len(c.plain))
		}
		_ = b.Close()
		for _, hops := range [][]int{{0, 99_999, 1, 1, 100_000, 350_000}, {999_999}, {1_000_000}, {500_000, 0, 200_000}, {len(c.plain)}} {
			b := open()
			pos := 0
			for _, hop := range hops {
				if err := b.Skip(int64(hop)); err != nil {
					t.Fatalf("%s: Skip %d at %d: %v", c.name, hop, pos, err)
				}
				pos += hop
				p := make([]byte, min(50, len(c.plain)-pos))
				if _, err := io.ReadFull(b, p); err != nil || !bytes.Equal(p, c.plain[pos:pos+len(p)]) {
					t.Fatalf("%s: reading at %d: %v, or other bytes", c.name, pos, err)
				}
				pos += len(p)
			}
			if err := b.Skip(int64(len(c.plain) - pos + 1)); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: skipping beyond the end: %v, want %v", c.name, err, io.ErrUnexpectedEOF)
			}
			_ = b.Close()
		}
	}
	for _, packed := range [][]byte{compress(t, plain[:100], "-0"), compress(t, plain, "--block-size=100000", "--x86", "--lzma2=preset=0"), []byte("short"), one[:len(one)-1]} {
		if _, err := NewBlocks(bytes.NewReader(packed), int64(len(packed)), 1<<20, nil); err == nil {
			t.Errorf("data of %d bytes without blocks is opened, want an error", len(packed))
		}
	}
}

// TestDamagedBlocks: whatever byte of a block is changed, decompressing ahead gives what
// decompressing in order gives, an error or bytes. Without a checksum, damage goes far.
func TestDamagedBlocks(t *testing.T) {
	t.Parallel()
	packed := compress(t, text(12_000), "-6", "--block-size=3000", "--check=none")
	spare := make(chan struct{}, 1)
	spare <- struct{}{}
	read := func(data []byte, spare chan struct{}) ([]byte, error) {
		b, err := NewBlocks(bytes.NewReader(data), int64(len(data)), 64<<20, spare)
		if err != nil {
			return nil, err
		}
		defer b.Close()
		return io.ReadAll(b)
	}
	wrong := 0
	for i := range packed {
		bad := bytes.Clone(packed)
		bad[i] ^= byte(1 << (i % 8))
		want, wantErr := read(bad, nil)
		got, err := read(bad, spare)
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Errorf("byte %d of %d changed: ahead %d bytes, %v; in order %d, %v", i, len(packed), len(got), err, len(want), wantErr)
		}
		if err == nil {
			wrong++
		}
	}
	if wrong == 0 {
		t.Error("each change was noticed, want some that only a checksum would show")
	}
}

// TestManyBlocks: an index of more blocks than any program makes is not kept in memory.
func TestManyBlocks(t *testing.T) {
	t.Parallel()
	le := binary.LittleEndian
	sum := func(b []byte) []byte { return le.AppendUint32(nil, crc32.ChecksumIEEE(b)) }
	flags := []byte{0, 1}
	stream := func(blocks int) []byte {
		b := append(append([]byte(headMagic), flags...), sum(flags)...)
		b = append(b, make([]byte, 4*blocks)...)
		index := binary.AppendUvarint([]byte{0}, uint64(blocks))
		for range blocks {
			index = append(index, 1, 0) // one byte, which decompresses to nothing
		}
		index = append(index, make([]byte, -len(index)&3)...)
		index = append(index, sum(index)...)
		foot := append(le.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
		return append(append(append(append(b, index...), sum(foot)...), foot...), footMagic...)
	}
	for _, c := range []struct {
		name string
		data []byte
		many bool
	}{
		{"one stream", stream(maxBlocks + 1), true},
		{"two streams", append(stream(maxBlocks/2+1), stream(maxBlocks/2)...), true},
		{"as many as are allowed", stream(maxBlocks), false},
	} {
		if _, err := NewBlocks(bytes.NewReader(c.data), int64(len(c.data)), 1<<20, nil); errors.Is(err, errManyBlocks) != c.many || err == nil {
			t.Errorf("%s: %v, want %v: %v, or that the blocks are damaged", c.name, err, errManyBlocks, c.many)
		}
	}
}

// hop reads a few bytes at many places of data in blocks, and compares them with what it
// decompresses to. Some hops lead to where decompression begins anew.
func hop(t *testing.T, packed, plain []byte, spare chan struct{}, seed uint64) {
	t.Helper()
	b, err := NewBlocks(bytes.NewReader(packed), int64(len(packed)), 1<<20, spare)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // any will do
	for pos := 0; pos < len(plain); {
		n := r.IntN(min(len(plain)-pos, 1+len(plain)/8))
		if at := int(b.Restart(int64(n))); at > 0 {
			if at > n {
				t.Fatalf("at %d decompression begins anew %d bytes ahead for the byte %d ahead", pos, at, n)
			}
			if r.IntN(2) == 0 {
				n = at
			}
		}
		if err := b.Skip(int64(n)); err != nil {
			t.Fatalf("Skip %d at %d of %d: %v", n, pos, len(plain), err)
		}
		pos += n
		p := make([]byte, r.IntN(min(len(plain)-pos, 1+len(plain)/8)+1))
		if _, err := io.ReadFull(b, p); err != nil || !bytes.Equal(p, plain[pos:pos+len(p)]) {
			t.Fatalf("%d bytes at %d of %d: %v, or others", len(p), pos, len(plain), err)
		}
		pos += len(p)
	}
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("at the end: %d bytes, %v, want %v", n, err, io.EOF)
	}
}

// TestHops: whatever is skipped, the bytes that are read are the right ones, with helpers and
// without.
func TestHops(t *testing.T) {
	t.Parallel()
	plain := text(700_000)
	for _, size := range []string{"1000", "65536", "200001"} {
		packed := compress(t, plain, "-0", "--block-size="+size)
		for helpers := range 3 {
			spare := make(chan struct{}, helpers)
			for range helpers {
				spare <- struct{}{}
			}
			for seed := range uint64(10) {
				hop(t, packed, plain, spare, seed)
			}
			if len(spare) != helpers {
				t.Errorf("%d of %d helpers are left", len(spare), helpers)
			}
		}
	}
}

// storedStream makes a stream with a block of each element, whose chunks are not compressed. Each
// chunk but the first may begin anew.
func storedStream(resets bool, blocks ...[]byte) []byte {
	le := binary.LittleEndian
	sum := func(b []byte) []byte { return le.AppendUint32(nil, crc32.ChecksumIEEE(b)) }
	flags := []byte{0, 0}
	b := append(append([]byte(headMagic), flags...), sum(flags)...)
	index := binary.AppendUvarint([]byte{0}, uint64(len(blocks)))
	for _, plain := range blocks {
		head := []byte{2, 0, 0x21, 1, 16, 0, 0, 0}
		body := append(head, sum(head)...)
		for at := 0; at < len(plain); at += 1000 {
			part := plain[at:min(at+1000, len(plain))]
			control := byte(2)
			if at == 0 || resets {
				control = 1
			}
			body = append(append(body, control), byte((len(part)-1)>>8), byte(len(part)-1))
			body = append(body, part...)
		}
		body = append(body, 0)
		index = binary.AppendUvarint(binary.AppendUvarint(index, uint64(len(body))), uint64(len(plain)))
		b = append(append(b, body...), make([]byte, -len(body)&3)...)
	}
	index = append(index, make([]byte, -len(index)&3)...)
	index = append(index, sum(index)...)
	foot := append(le.AppendUint32(nil, uint32(len(index)/4-1)), flags...)
	return append(append(append(append(b, index...), sum(foot)...), foot...), footMagic...)
}

// TestResets: a block that begins anew within itself is read from its beginning, also if it was
// begun ahead.
func TestResets(t *testing.T) {
	t.Parallel()
	plain := text(90_000)
	for _, resets := range []bool{false, true} {
		packed := storedStream(resets, plain[:30_000], plain[30_000:60_000], plain[60_000:])
		if got, err := decompress(t, packed); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("%d bytes, %v, want %d", len(got), err, len(plain))
		}
		spare := make(chan struct{}, 1)
		spare <- struct{}{}
		for seed := range uint64(20) {
			hop(t, packed, plain, spare, seed)
		}
	}
}

// FuzzBlocks: an index that lies gives an error or bytes, never a panic, and blocks that
// agree with it give what is read in order, also if they are decompressed ahead.
func FuzzBlocks(f *testing.F) {
	if symtest.Judge(f, "xz") != "" {
		f.Add(compress(f, text(3000), "-6", "--block-size=1000"), uint16(1500))
		f.Add(append(compress(f, text(3000), "-6"), compress(f, text(10), "-6")...), uint16(2999))
	}
	f.Fuzz(func(t *testing.T, data []byte, skip uint16) {
		read := func(skip uint16, spare chan struct{}) ([]byte, error) {
			b, err := NewBlocks(bytes.NewReader(data), int64(len(data)), 1<<20, spare)
			if err != nil {
				return nil, err
			}
			defer b.Close()
			if b.Size() > 1<<20 {
				return nil, errDamaged
			}
			if err := b.Skip(int64(skip)); err != nil {
				return nil, err
			}
			got, err := io.ReadAll(b)
			if err == nil && int64(skip)+int64(len(got)) != b.Size() {
				t.Fatalf("%d bytes behind %d, want %d in all", len(got), skip, b.Size())
			}
			return got, err
		}
		want, wantErr := read(skip, nil)
		spare := make(chan struct{}, 1)
		spare <- struct{}{}
		got, err := read(skip, spare)
		<-spare // it was given back
		if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("decompressed ahead: %d bytes, %v; want %d, %v", len(got), err, len(want), wantErr)
		}
		spare <- struct{}{}
		if whole, err := read(0, nil); err == nil && len(whole) > 0 {
			hop(t, data, whole, spare, uint64(skip))
		}
	})
}
