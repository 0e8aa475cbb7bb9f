package readytorun

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
)

// realImages are assemblies of .NET, without their extension: of .NET Core 3.1 and of .NET 9.
var realImages = []string{"System.Runtime.CompilerServices.Unsafe", "Microsoft.Extensions.ObjectPool"}

func openImage(t testing.TB, b []byte) *objfile.PEImage {
	t.Helper()
	img, err := objfile.OpenPE(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// TestNames: the methods at the entry points that the runtime itself told have the names that it told.
func TestNames(t *testing.T) {
	t.Parallel()
	for _, file := range realImages {
		m, err := Open(t.Context(), openImage(t, symtest.Testdata(t, "readytorun/"+file+".dll")))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(string(symtest.Testdata(t, "readytorun/"+file+".dll.names"))), "\n")
		for _, line := range lines {
			at, want, _ := strings.Cut(line, " ")
			var rva uint32
			if _, err := fmt.Sscanf(at, "%x", &rva); err != nil {
				t.Fatalf("%s: %q: %v", file, line, err)
			}
			if got, shared := m.Name(rva); got != want || shared {
				t.Errorf("%s: %#x has the name %q, shared %v; want %q, false", file, rva, got, shared, want)
			}
			if got, _ := m.Name(rva + 1); got != "" {
				t.Errorf("%s: %#x has the name %q, want none inside of a function", file, rva+1, got)
			}
		}
		if len(lines) < 30 || len(m.begin) < len(lines) || len(m.begin) > len(lines)+2 {
			t.Errorf("%s: %d functions, of which the runtime told %d; want at least 30, and all but two at most", file, len(m.begin), len(lines))
		}
	}
}

// flat is an image whose addresses are offsets.
type flat struct {
	b    []byte
	arch string
	cli  [2]uint32
}

func (f *flat) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(f.b).ReadAt(p, off) }
func (f *flat) Arch() string                            { return f.arch }
func (f *flat) Directory(i int) (rva, size uint32) {
	if i == dirCLI {
		return f.cli[0], f.cli[1]
	}
	return 0, 0
}

// put appends a part and returns its directory.
func (f *flat) put(p []byte) section {
	at := len(f.b)
	f.b = append(f.b, p...)
	return section{uint32(at), uint32(len(p))}
}

var le = binary.LittleEndian

// smallNumber writes a number of up to 14 bits in two bytes.
func smallNumber(v int) []byte { return le.AppendUint16(nil, uint16(v<<2|1)) }

// sparse writes an array of entry points: a runtime function for each row less one.
func sparse(elements map[int]int, count int) []byte {
	var tree func(low, high int) []byte
	tree = func(low, high int) []byte {
		var in []int
		for i := range elements {
			if i >= low && i < high {
				in = append(in, i)
			}
		}
		switch {
		case len(in) == 0:
			return nil
		case high-low == 1:
			return smallNumber(elements[low] << 1)
		case len(in) == 1:
			return append(smallNumber(in[0]&15<<2), smallNumber(elements[in[0]]<<1)...)
		}
		mid := (low + high) / 2
		left, right := tree(low, mid), tree(mid, high)
		flags := 0
		if left != nil {
			flags = 1
		}
		if right != nil {
			flags |= 2
		}
		return slices.Concat(smallNumber((2+len(left))<<2|flags), left, right)
	}
	var blocks, index []byte
	n := (count + 15) / 16
	for i := range n {
		index = append(index, byte(n+len(blocks)))
		block := tree(16*i, 16*i+16)
		if block == nil {
			block = smallNumber(15 << 2) // an element that the array has not
		}
		blocks = append(blocks, block...)
	}
	return slices.Concat(smallNumber(count<<2), index, blocks)
}

// table writes a hash table of elements in one bucket.
func table(elements ...[]byte) []byte {
	var list, content []byte
	for i, e := range elements {
		at := 3 * (len(elements) - i) // from the offset to the first element
		list = append(list, 7)
		list = append(list, smallNumber(at-1+len(content))...)
		content = append(content, e...)
	}
	start := uint16(4)
	return slices.Concat([]byte{1}, le.AppendUint16(le.AppendUint16(nil, start), start+uint16(len(list))), list, content)
}

// assembly is an image that is built: its native code is in functions of 16 bytes from 0x1000 on.
type assembly struct {
	functions int
	methods   map[int]int // runtime function by row less one
	instances [][]byte
	cold      int // 0: none
	change    map[uint32]section
}

func (a assembly) image(t testing.TB) *flat {
	t.Helper()
	f := &flat{b: make([]byte, 256), arch: "x86_64", cli: [2]uint32{16, cliSize}}
	var functions []byte
	for i := range a.functions {
		functions = le.AppendUint32(le.AppendUint32(le.AppendUint32(functions, uint32(0x1000+16*i)), uint32(0x1010+16*i)), 0)
	}
	list := map[uint32]section{sectionFunctions: f.put(functions), sectionMethods: f.put(sparse(a.methods, 36))}
	if a.instances != nil {
		list[sectionInstances] = f.put(table(a.instances...))
	}
	if a.cold > 0 {
		list[sectionHotColdMap] = f.put(le.AppendUint32(le.AppendUint32(nil, uint32(a.cold)), 0))
	}
	maps.Copy(list, a.change)
	header := le.AppendUint32(le.AppendUint32(le.AppendUint64(nil, magic|9<<32), 0), uint32(len(list)))
	for _, kind := range slices.Sorted(maps.Keys(list)) {
		header = le.AppendUint32(le.AppendUint32(le.AppendUint32(header, kind), list[kind].rva), list[kind].size)
	}
	native := f.put(header)
	// The metadata of a real assembly, whose first methods have names.
	img := openImage(t, symtest.Testdata(t, "readytorun/"+realImages[0]+".dll"))
	at, _ := img.Directory(dirCLI)
	cli, err := read(img, at, cliSize)
	if err != nil {
		t.Fatal(err)
	}
	data, err := readSection(img, section{le.Uint32(cli[cliData:]), le.Uint32(cli[cliData+4:])})
	if err != nil {
		t.Fatal(err)
	}
	in := f.put(data)
	le.PutUint32(f.b[16+cliData:], in.rva)
	le.PutUint32(f.b[16+cliData+4:], in.size)
	le.PutUint32(f.b[16+cliNative:], native.rva)
	le.PutUint32(f.b[16+cliNative+4:], native.size)
	return f
}

const unsafe = "System.Runtime.CompilerServices.Unsafe."

// instance writes an instance of a method by its flags, its signature, and its runtime function.
func instance(function int, signature ...byte) []byte {
	return append(signature, smallNumber(function<<1)...)
}

// TestBuilt: what belongs to a method of an image with all kinds of entry points.
func TestBuilt(t *testing.T) {
	t.Parallel()
	// Rows 1 to 5 of the metadata are Read, ReadUnaligned, ReadUnaligned, Write, WriteUnaligned.
	const list = "Read|Read|ReadUnaligned|Write|Write"
	for _, tt := range []struct {
		what string
		a    assembly
		want string // names of the functions, without that of the type
	}{
		{"a function that no method begins with belongs to the one before", assembly{functions: 5, methods: map[int]int{0: 0, 1: 2, 3: 3}}, list},
		{"no method before the first", assembly{functions: 3, methods: map[int]int{0: 1}}, "|Read|Read"},
		{"blocks of the array", assembly{functions: 4, methods: map[int]int{0: 0, 15: 1, 16: 2, 35: 3}}, "Read|InitBlock|InitBlockUnaligned|System.Runtime.Versioning.NonVersionableAttribute..ctor"},
		{"methods with the same code", assembly{functions: 2, methods: map[int]int{0: 0, 3: 0, 4: 1}}, "Read+|WriteUnaligned"},
		{"overloads with the same code", assembly{functions: 2, methods: map[int]int{1: 0, 2: 0, 4: 1}}, "ReadUnaligned+|WriteUnaligned"},
		{"an instance of a method", assembly{functions: 3, methods: map[int]int{0: 0}, instances: [][]byte{instance(1, sigMethodArgs, 4, 1, elementCanon)}}, "Read|Write|Write"},
		{"an instance with all forms of types", assembly{functions: 2, methods: map[int]int{0: 0}, instances: [][]byte{
			instance(1, sigMethodArgs|sigOwner|sigConstrained,
				elementGeneric, elementClass, 5, 2, elementVector, elementModule, 1, elementValueType, 9, elementMethodVar, 0,
				4, 2, elementArray, elementPointer, elementVoid, 2, 1, 3, 1, 0, elementFunction, 0x10, 1, 1, elementObject, 8, elementInt)}}, "Read|Write"},
		{"an instance of a method of another module", assembly{functions: 2, methods: map[int]int{0: 0}, instances: [][]byte{instance(1, 0x80, sigModule, 1, 4)}}, "Read|"},
		{"an instance by slot", assembly{functions: 2, methods: map[int]int{0: 0}, instances: [][]byte{instance(1, sigSlot, 4)}}, "Read|"},
		{"an instance of a form that is not known", assembly{functions: 3, methods: map[int]int{0: 0, 1: 2}, instances: [][]byte{instance(1, sigOwner, 0x77, 4)}}, "Read||ReadUnaligned"},
		{"several instances", assembly{functions: 3, methods: map[int]int{0: 0}, instances: [][]byte{instance(1, 0, 4), instance(2, 0, 5)}}, "Read|Write|WriteUnaligned"},
		{"cold parts", assembly{functions: 4, methods: map[int]int{0: 0, 1: 1}, cold: 2}, "Read|ReadUnaligned||"},
		{"a method that the metadata does not have", assembly{functions: 2, methods: map[int]int{0: 0}, instances: [][]byte{instance(1, 0, 0x8f, 0xff)}}, "Read|"},
		{"a member", assembly{functions: 1, methods: map[int]int{}, instances: [][]byte{instance(0, sigMember, 1)}}, "System.Runtime.CompilerServices.IsReadOnlyAttribute..ctor"},
		{"a function beyond the last", assembly{functions: 1, methods: map[int]int{0: 0, 1: 9}}, "Read"},
	} {
		m, err := Open(t.Context(), tt.a.image(t))
		if err != nil {
			t.Errorf("%s: %v", tt.what, err)
			continue
		}
		var got []string
		for i := range tt.a.functions {
			name, shared := m.Name(uint32(0x1000 + 16*i))
			name = strings.TrimPrefix(name, unsafe)
			if shared {
				name += "+"
			}
			got = append(got, name)
		}
		if s := strings.Join(got, "|"); s != tt.want {
			t.Errorf("%s: %q, want %q", tt.what, s, tt.want)
		}
	}
}

// TestOpenErrors: what has no ready-to-run code, and what is damaged.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	sound := assembly{functions: 2, methods: map[int]int{0: 0}, instances: [][]byte{instance(1, 0, 4)}}
	native := func(f *flat) uint32 { return le.Uint32(f.b[16+cliNative:]) }
	for what, tt := range map[string]struct {
		a      assembly
		change func(f *flat)
		want   error
	}{
		"another processor":           {sound, func(f *flat) { f.arch = "x86" }, fs.ErrNotExist},
		"no .NET":                     {sound, func(f *flat) { f.cli[1] = 0 }, fs.ErrNotExist},
		"IL only":                     {sound, func(f *flat) { clear(f.b[16+cliNative : 16+cliNative+8]) }, fs.ErrNotExist},
		"another native header":       {sound, func(f *flat) { f.b[native(f)] = 'N' }, fs.ErrNotExist},
		"a part of a composite image": {assembly{methods: map[int]int{0: 0}}, nil, fs.ErrNotExist},
		"the header of .NET is cut":   {sound, func(f *flat) { f.b = f.b[:40] }, ErrFormat},
		"a header outside":            {sound, func(f *flat) { le.PutUint32(f.b[16+cliNative:], 1<<31) }, ErrFormat},
		"2^32 sections":               {sound, func(f *flat) { le.PutUint32(f.b[native(f)+12:], 1<<32-1) }, ErrFormat},
		"functions outside":           {assembly{functions: 1, change: map[uint32]section{sectionFunctions: {1 << 30, 1 << 20}}}, nil, ErrFormat},
		"4 GiB of functions":          {assembly{functions: 1, change: map[uint32]section{sectionFunctions: {0, 1<<32 - 1}}}, nil, ErrFormat},
		"functions in disorder":       {sound, func(f *flat) { le.PutUint32(f.b[256+12:], 0xfff) }, ErrFormat},
		"no metadata":                 {sound, func(f *flat) { le.PutUint32(f.b[16+cliData:], 0) }, ErrFormat},
		"instances cut":               {assembly{functions: 1, change: map[uint32]section{sectionInstances: {256, 1}}}, nil, ErrFormat},
	} {
		img := tt.a.image(t)
		if tt.change != nil {
			tt.change(img)
		}
		if _, err := Open(t.Context(), img); !errors.Is(err, tt.want) {
			t.Errorf("%s: error %v, want %v", what, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	many := assembly{functions: 2, change: map[uint32]section{sectionInstances: {}}}.image(t)
	// 2^14 empty buckets.
	s := many.put(append([]byte{14 << 2}, make([]byte, 1<<14+1)...))
	at := native(many) + headerSize
	for le.Uint32(many.b[at:]) != sectionInstances {
		at += sectionEntry
	}
	le.PutUint32(many.b[at+4:], s.rva)
	le.PutUint32(many.b[at+8:], s.size)
	if _, err := Open(ctx, many); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: error %v, want context.Canceled", err)
	}
	if _, err := Open(t.Context(), many); err != nil {
		t.Errorf("empty buckets: error %v, want none", err)
	}
	// The same buckets, each of which has the whole table as its elements: quadratic work.
	b := many.b[s.rva+1 : s.rva+s.size]
	for i := range b {
		b[i] = byte(i&1) * 255
	}
	if _, err := Open(t.Context(), many); !errors.Is(err, ErrFormat) {
		t.Errorf("buckets that repeat each other: error %v, want ErrFormat", err)
	}
	if _, err := Open(t.Context(), &failing{*sound.image(t)}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader that fails: error %v, want its own", err)
	}
}

// failing is an image that cannot be read from its header on.
type failing struct{ flat }

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if off >= 256 {
		return 0, io.ErrClosedPipe
	}
	return f.flat.ReadAt(p, off)
}

// TestRealImages opens the assemblies of a folder, as those of a .NET runtime: all their functions have names.
func TestRealImages(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("SYMDEPOT_DOTNET")
	if folder == "" {
		t.Skip("needs SYMDEPOT_DOTNET (a folder of a .NET runtime for x64 or ARM64, such as shared/Microsoft.NETCore.App/VERSION)")
	}
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	images, functions := 0, 0
	for _, e := range list {
		b, err := os.ReadFile(folder + "/" + e.Name())
		if err != nil || !strings.HasSuffix(e.Name(), ".dll") {
			continue
		}
		m, err := Open(t.Context(), openImage(t, b))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		images++
		functions += len(m.begin)
		for _, at := range m.begin {
			if name, _ := m.Name(at); name == "" {
				t.Errorf("%s: the function at %#x has no name", e.Name(), at)
			}
		}
	}
	if images == 0 {
		t.Errorf("no ready-to-run image in %s", folder)
	}
	t.Logf("%d images, %d functions", images, functions)
}

// FuzzOpen: any image is opened or refused, in bounded time, and gives names or none.
func FuzzOpen(f *testing.F) {
	for _, file := range realImages {
		f.Add(symtest.Testdata(f, "readytorun/"+file+".dll"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		img, err := objfile.OpenPE(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		m, err := Open(t.Context(), img)
		if err != nil {
			return
		}
		for _, at := range m.begin[:min(len(m.begin), 1<<10)] {
			if name, _ := m.Name(at); len(name) > 64<<12 {
				t.Fatalf("a name of %d bytes", len(name))
			}
		}
	})
}

// FuzzEntries: entry points of any bytes.
func FuzzEntries(f *testing.F) {
	f.Add(sparse(map[int]int{0: 0, 15: 1, 16: 2, 35: 3}, 36), table(instance(1, sigMethodArgs, 4, 1, elementCanon), instance(2, 0, 5)))
	f.Fuzz(func(t *testing.T, methods, instances []byte) {
		img := assembly{functions: 8}.image(t)
		sm, si := img.put(methods), img.put(instances)
		list := map[uint32]section{sectionMethods: sm, sectionInstances: si}
		m, err := Open(t.Context(), img)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.entryPoints(t.Context(), img, list); err != nil && !errors.Is(err, ErrFormat) {
			t.Fatalf("error %v, want none or ErrFormat", err)
		}
		for _, at := range m.begin {
			m.Name(at)
		}
	})
}

// pages is an image of sections that all have the bytes of one of chunk bytes.
type pages struct{ flat }

func (p *pages) ReadAt(b []byte, off int64) (int, error) {
	at := off % chunk
	n := copy(b, p.b[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// TestRepeatedBytes: a section is not made of sections of the file that repeat its bytes.
func TestRepeatedBytes(t *testing.T) {
	t.Parallel()
	img := &pages{flat{b: make([]byte, chunk)}}
	if b, err := readSection(img, section{0, chunk}); err != nil || len(b) != chunk {
		t.Errorf("one section: %d bytes, error %v; want all", len(b), err)
	}
	for _, s := range []section{{0, 2 * chunk}, {chunk, 3*chunk + 1}, {5, 2 * chunk}} {
		if b, err := readSection(img, s); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes at %d: %d bytes, error %v; want ErrFormat", s.size, s.rva, len(b), err)
		}
	}
}
