package unwind_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

var le = binary.LittleEndian

// info encodes an UNWIND_INFO. codes are pairs of bytes.
func info(version, flags, prolog, frame byte, codes []byte, tail ...byte) []byte {
	b := []byte{version | flags<<3, prolog, byte(len(codes) / 2), frame}
	b = append(b, codes...)
	if len(codes)/2%2 == 1 {
		b = append(b, 0, 0)
	}
	return append(b, tail...)
}

func entry(begin, end, info uint32) []byte {
	return le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, begin), end), info)
}

// image64 places code at 0x100, unwind data at 0x800 (each at a multiple of 0x100)
// and .pdata at 0x2000.
func image64(code []byte, entries []byte, infos ...[]byte) *flat {
	f := &flat{arch: "x86_64", bytes: make([]byte, 0x2000), pdata: 0x2000, size: uint32(len(entries)), code: [2]uint32{0x100, 0x700}}
	copy(f.bytes[0x100:], code)
	for i, u := range infos {
		copy(f.bytes[0x800+0x100*i:], u)
	}
	f.bytes = append(f.bytes, entries...)
	return f
}

func TestPE64Vectors(t *testing.T) {
	t.Parallel()
	join := func(parts ...[]byte) []byte { return slices.Concat(parts...) }
	push := func(off, reg byte) []byte { return []byte{off, reg << 4} }
	small := func(off byte, n int) []byte { return []byte{off, 2 | byte((n-8)/8)<<4} }
	large := func(off byte, n uint32) []byte { return []byte{off, 1, byte(n / 8), byte(n / 8 >> 8)} }
	huge := func(off byte, n uint32) []byte { return le.AppendUint32([]byte{off, 0x11}, n) }
	setFP := func(off byte) []byte { return []byte{off, 3} }
	save := func(off, reg byte, n uint32) []byte { return []byte{off, 4 | reg<<4, byte(n / 8), byte(n / 8 >> 8)} }
	saveFar := func(off, reg byte, n uint32) []byte { return le.AppendUint32([]byte{off, 5 | reg<<4}, n) }
	const rbx, rbp, rsi, rdi, r12 = 3, 5, 6, 7, 12
	one := entry(0x100, 0x140, 0x800)
	for _, tt := range []struct {
		name string
		img  *flat
		want string
	}{
		{"push and allocate", image64(nil, one, info(1, 0, 6, 0, join(small(6, 0x20), push(2, rbx)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n102 .cfa: $rsp 16 + $rbx: .cfa 16 - ^\n106 .cfa: $rsp 48 +"},
		{"home slot of the caller", image64(nil, one, info(1, 0, 10, 0, join(save(10, rbx, 0x30), small(10, 0x20), push(6, rdi)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n106 .cfa: $rsp 16 + $rdi: .cfa 16 - ^\n10a .cfa: $rsp 48 + $rbx: .cfa 0 + ^"},
		{"large allocations", image64(nil, one, info(1, 0, 14, 0, join(saveFar(14, r12, 0x80010), huge(14, 0x80000), large(7, 0x1000)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n107 .cfa: $rsp 4104 +\n10e .cfa: $rsp 528392 + $r12: .cfa 4088 - ^"},
		{"frame register", image64(nil, one, info(1, 0, 12, rbp|2<<4, join(save(12, rsi, 0x40), setFP(10), large(5, 0x50), push(1, rbp)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n101 .cfa: $rsp 16 + $rbp: .cfa 16 - ^\n105 .cfa: $rsp 96 +\n10a .cfa: $rbp 64 +\n10c $rsi: .cfa 32 - ^"},
		{"frame register far from the stack pointer", image64(nil, one, info(1, 0, 16, rbp|15<<4, join([]byte{16, 11, 17, 0, 0, 0}, large(8, 0xe8), push(2, rbx), push(1, rbp)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n101 .cfa: $rsp 16 + $rbp: .cfa 16 - ^\n102 .cfa: $rsp 24 + $rbx: .cfa 24 - ^\n" +
				"108 .cfa: $rsp 256 +\n110 .cfa: $rbp 16 -"},
		{"allocation after the frame register", image64(nil, one, info(1, 0, 12, rbp, join(small(8, 0x20), setFP(4), push(1, rbp)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n101 .cfa: $rsp 16 + $rbp: .cfa 16 - ^\n104 .cfa: $rbp 16 +"},
		{"machine frame", image64(nil, one, info(1, 0, 0, 0, join(small(0, 0x10), []byte{0, 10}))),
			"100 40 .cfa: $rsp 64 + .ra: .cfa 48 - ^ $rsp: .cfa 24 - ^"},
		{"machine frame with an error code", image64(nil, one, info(1, 0, 1, 0, join(push(1, rbp), []byte{0, 0x1a}))),
			"100 40 .cfa: $rsp 56 + .ra: .cfa 48 - ^ $rsp: .cfa 24 - ^\n101 .cfa: $rsp 64 + $rbp: .cfa 64 - ^"},
		{"chained", image64(nil, join(one, entry(0x140, 0x160, 0x900)),
			info(1, 0, 6, 0, join(small(6, 0x20), push(2, rbx))),
			info(1, 4, 5, 0, join(save(5, rsi, 0x38)), entry(0x100, 0x140, 0x800)...)),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n102 .cfa: $rsp 16 + $rbx: .cfa 16 - ^\n106 .cfa: $rsp 48 +\n" +
				"140 20 .cfa: $rsp 48 + .ra: .cfa 8 - ^ $rbx: .cfa 16 - ^\n145 $rsi: .cfa 8 + ^"},
		{"indirect entry", image64(nil, join(one, entry(0x140, 0x160, 0x2001)), info(1, 0, 6, 0, join(small(6, 0x20), push(2, rbx)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n102 .cfa: $rsp 16 + $rbx: .cfa 16 - ^\n106 .cfa: $rsp 48 +\n" +
				"140 20 .cfa: $rsp 48 + .ra: .cfa 8 - ^ $rbx: .cfa 16 - ^"},
		{"code without an entry", image64(join(make([]byte, 0x43), []byte{0xff, 0x25}, make([]byte, 0x10)), one, info(1, 0, 0, 0, nil)),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n143 6bd .cfa: $rsp 8 + .ra: .cfa 8 - ^"},
		{"XMM registers are not unwound", image64(nil, one, info(1, 0, 8, 0, join([]byte{8, 0x68, 2, 0}, small(4, 0x38)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n104 .cfa: $rsp 64 +"},
		{"epilog of version 2", image64(join(make([]byte, 0x37), []byte{0x48, 0x83, 0xc4, 0x20, 0x41, 0x5c, 0x5b, 0xc3}), entry(0x100, 0x13f, 0x800),
			info(2, 0, 6, 0, join([]byte{8, 0x16, 0, 6}, small(8, 0x20), push(4, r12), push(2, rbx)))),
			"100 3f .cfa: $rsp 8 + .ra: .cfa 8 - ^\n102 .cfa: $rsp 16 + $rbx: .cfa 16 - ^\n104 .cfa: $rsp 24 + $r12: .cfa 24 - ^\n108 .cfa: $rsp 56 +\n" +
				"13b .cfa: $rsp 24 +\n13d .cfa: $rsp 16 + $r12: $r12\n13e .cfa: $rsp 8 + $rbx: $rbx"},
		{"early epilog of version 2", image64(join(make([]byte, 0x10), []byte{0x5b, 0xc3}), entry(0x100, 0x140, 0x800),
			info(2, 0, 2, 0, join([]byte{2, 0x06, 0x30, 0x06}, push(2, rbx)))),
			"100 40 .cfa: $rsp 8 + .ra: .cfa 8 - ^\n102 .cfa: $rsp 16 + $rbx: .cfa 16 - ^\n111 .cfa: $rsp 8 + $rbx: $rbx\n112 .cfa: $rsp 16 + $rbx: .cfa 16 - ^"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list, warnings := frames(t, convertPE(tt.img))
			var got []string
			for _, f := range list {
				got = append(got, text(f))
			}
			if s := strings.Join(got, "\n"); s != tt.want || len(warnings) > 0 {
				t.Errorf("got\n%s\nwant\n%s\nwarnings %q, want none", s, tt.want, warnings)
			}
		})
	}
}

// TestPE64Bad holds what happens to entries that cannot be converted: a warning,
// and the others are there.
func TestPE64Bad(t *testing.T) {
	t.Parallel()
	good := info(1, 0, 1, 0, []byte{1, 0x30})
	for _, tt := range []struct {
		name string
		info []byte
		want string
	}{
		{"version", info(3, 0, 0, 0, nil), "unwind data at 0x100: version 3 is not known"},
		{"code", info(1, 0, 1, 0, []byte{1, 0x0f}), "unwind data at 0x100: unwind code 15 is not known"},
		{"cut off", info(1, 0, 1, 0, []byte{1, 0x01}), "unwind data at 0x100: the last unwind code is cut off"},
		{"chain to itself", info(1, 4, 0, 0, nil, entry(0x100, 0x140, 0x800)...), "unwind data at 0x100: the chain has more than 32 entries"},
		{"not sorted", info(1, 0, 9, 0, []byte{1, 0x30, 9, 0x50}), "unwind data at 0x100: the unwind codes are not sorted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			img := image64(nil, append(entry(0x100, 0x140, 0x800), entry(0x140, 0x160, 0x900)...), tt.info, good)
			list, warnings := frames(t, convertPE(img))
			if len(list) != 1 || list[0].Start != 0x140 || !slices.Equal(warnings, []string{tt.want}) {
				t.Errorf("got %d frames and warnings %q, want one frame and %q", len(list), warnings, tt.want)
			}
		})
	}
}

// rtlVirtualUnwind is what Windows does with the unwind data of x64, as its
// documentation and Wine describe it: it undoes the codes whose instructions were
// executed, and those of the chain.
func rtlVirtualUnwind(read func(rva uint32, n int) []byte, m machine, begin, pc, infoRVA uint32) map[string]uint64 {
	names := strings.Fields("$rax $rcx $rdx $rbx $rsp $rbp $rsi $rdi $r8 $r9 $r10 $r11 $r12 $r13 $r14 $r15")
	regs := maps.Clone(m.regs)
	load := func() uint64 {
		v := m.memory(regs["$rsp"])
		regs["$rsp"] += 8
		return v
	}
	base := uint64(0)
	machineFrame := false
	for level := 0; ; level++ {
		h := read(infoRVA, 4)
		offset := pc - begin
		codes := read(infoRVA+4, 2*int(h[2]))
		frameReg, frameOff := names[h[3]&15], uint64(h[3]>>4)*16
		flags, version := h[0]>>3, h[0]&7
		if level == 0 {
			base = regs["$rsp"]
			established := h[3]&15 != 0 && (offset >= uint32(h[1]) || flags&4 != 0)
			for i := 0; i < len(codes); {
				if codes[i+1]&15 == 3 && offset >= uint32(codes[i]) {
					established = established || h[3]&15 != 0
				}
				i += 2 * slots(codes[i:], version)
			}
			if established {
				base = regs[frameReg] - frameOff
			}
		}
		for i := 0; i < len(codes); {
			op, arg := codes[i+1]&15, codes[i+1]>>4
			n := slots(codes[i:], version)
			if uint32(codes[i]) <= offset && !(version == 2 && op == 6) {
				switch op {
				case 0:
					regs[names[arg]] = load()
				case 1:
					if arg == 0 {
						regs["$rsp"] += uint64(le.Uint16(codes[i+2:])) * 8
					} else {
						regs["$rsp"] += uint64(le.Uint32(codes[i+2:]))
					}
				case 2:
					regs["$rsp"] += uint64(arg)*8 + 8
				case 3:
					regs["$rsp"] = regs[frameReg] - frameOff
				case 4:
					regs[names[arg]] = m.memory(base + uint64(le.Uint16(codes[i+2:]))*8)
				case 5:
					regs[names[arg]] = m.memory(base + uint64(le.Uint32(codes[i+2:])))
				case 10:
					machineFrame = true
					if arg == 1 {
						regs["$rsp"] += 8
					}
					regs[".ra"] = m.memory(regs["$rsp"])
					regs["$rsp"] = m.memory(regs["$rsp"] + 24)
				}
			}
			i += 2 * n
		}
		if flags&4 == 0 {
			break
		}
		parent := read(infoRVA+4+uint32(len(codes)+len(codes)%4), 12)
		begin, infoRVA = le.Uint32(parent), le.Uint32(parent[8:])
	}
	if !machineFrame {
		regs[".ra"] = load()
	}
	return regs
}

func slots(p []byte, version byte) int {
	switch p[1] & 15 {
	case 1:
		if p[1]>>4 == 0 {
			return 2
		}
		return 3
	case 6:
		if version == 2 {
			return 1
		}
		return 2
	case 4, 8:
		return 2
	case 5, 7, 9:
		return 3
	}
	return 1
}

// thread returns a synthetic thread at an address: the registers and the memory
// hold values of their own, and the frame register has the value that the prolog
// gives it if it was executed so far.
func thread(read func(rva uint32, n int) []byte, begin, pc, infoRVA uint32) machine {
	m := machine{regs: map[string]uint64{}, memory: func(at uint64) uint64 { return at*0x9e3779b97f4a7c15>>3 | 1 }}
	for i, name := range strings.Fields("$rax $rcx $rdx $rbx $rsp $rbp $rsi $rdi $r8 $r9 $r10 $r11 $r12 $r13 $r14 $r15") {
		m.regs[name] = 0x7f0000000000 + uint64(i)*0x100000
	}
	names := strings.Fields("$rax $rcx $rdx $rbx $rsp $rbp $rsi $rdi $r8 $r9 $r10 $r11 $r12 $r13 $r14 $r15")
	h := read(infoRVA, 4)
	codes := read(infoRVA+4, 2*int(h[2]))
	below := uint64(0) // bytes allocated after the frame register was set
	for i := 0; i < len(codes); i += 2 * slots(codes[i:], h[0]&7) {
		if uint32(codes[i]) > pc-begin {
			continue
		}
		switch op, arg := codes[i+1]&15, codes[i+1]>>4; {
		case op == 3:
			m.regs[names[h[3]&15]] = m.regs["$rsp"] + below + uint64(h[3]>>4)*16
		case op == 0:
			below += 8
		case op == 2:
			below += uint64(arg)*8 + 8
		case op == 1 && arg == 0:
			below += uint64(le.Uint16(codes[i+2:])) * 8
		case op == 1:
			below += uint64(le.Uint32(codes[i+2:]))
		}
	}
	return m
}

// TestPE64Walk compares the rules with what Windows does, at each byte of prologs
// and at some of the body of each function of real files.
func TestPE64Walk(t *testing.T) {
	t.Parallel()
	dir := symtest.Material(t)
	var files []string
	for _, pattern := range []string{"go/saferwall/*", "npm/node-pty/win32-x64/*", "npm/sharp/*.node"} {
		m, err := filepath.Glob(filepath.Join(dir, "public", filepath.FromSlash(pattern)))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	tested := 0
	for _, name := range files {
		ext := filepath.Ext(name)
		if ext == ".pdb" || filepath.Base(name) == "impbyord.exe" {
			continue
		}
		img := openImage(t, name)
		if img.Arch() != "x86_64" {
			continue
		}
		tested++
		t.Run(filepath.Base(name), func(t *testing.T) { walkImage(t, img) })
	}
	if tested < 8 {
		t.Errorf("%d images for x64, want 8 or more", tested)
	}
}

// walkedFunctions is the number of functions of an image that the test walks.
const walkedFunctions = 500

func walkImage(t *testing.T, img unwind.Image) {
	list, warnings := frames(t, convertPE(img))
	if len(warnings) > 0 {
		t.Errorf("warnings %q, want none", warnings)
	}
	byStart := map[uint64]functab.Frame{}
	for _, f := range list {
		byStart[f.Start] = f
	}
	mapped := mapImage(t, img)
	read := func(rva uint32, n int) []byte { return mapped[rva : int(rva)+n] }
	rva, size := img.ExceptionTable()
	table := read(rva, int(size-size%12))
	places, functions := 0, 0
	// The test takes a part of the functions of a large image.
	step := max(1, len(table)/12/walkedFunctions)
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		step = 1
	}
	for i := 0; len(table) > 0 && !t.Failed(); i, table = i+1, table[12:] {
		if i%step != 0 {
			continue
		}
		begin, end, info := le.Uint32(table), le.Uint32(table[4:]), le.Uint32(table[8:])
		if begin == 0 && end == 0 {
			continue
		}
		functions++
		f, ok := byStart[uint64(begin)]
		if !ok || f.Size != end-begin {
			t.Fatalf("function at %#x of %d bytes: frame %v, want one of this length", begin, end-begin, f)
		}
		for _, pc := range placesOf(read, f, begin, end, info) {
			places++
			m := thread(read, begin, pc, info)
			want := rtlVirtualUnwind(read, m, begin, pc, info)
			popped, returned := unwindEpilog(read, m, begin, end, pc, info)
			if popped != nil {
				if !slices.ContainsFunc(f.Deltas, func(d functab.FrameDelta) bool { return d.Address == uint64(pc) }) {
					continue // perhaps within an instruction
				}
				want = popped
			}
			got, err := walk(m, rulesAt(f, uint64(pc)))
			if err != nil {
				t.Fatalf("function at %#x, place %#x: %v", begin, pc, err)
			}
			if _, ok := got["$rsp"]; !ok {
				got["$rsp"] = got[".cfa"]
			}
			delete(got, ".cfa")
			for name, v := range m.regs { // a register without a rule keeps its value
				if _, ok := got[name]; !ok {
					got[name] = v
				}
				if popped != nil && !returned[name] {
					got[name], want[name] = 0, 0 // restored before; the slot still has the value
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("function at %#x, place %#x, rules %q:\n got %s\nwant %s", begin, pc, rulesAt(f, uint64(pc)), values(got), values(want))
				break
			}
		}
	}
	t.Logf("%d functions, %d places, %d frames", functions, places, len(list))
}

// placesOf returns the addresses around each row and each unwind code, and some in
// the body.
func placesOf(read func(rva uint32, n int) []byte, f functab.Frame, begin, end, info uint32) []uint32 {
	h := read(info, 4)
	codes := read(info+4, 2*int(h[2]))
	list := []uint32{begin, begin + 1, begin + uint32(h[1]), begin + uint32(h[1]) + 1, begin + (end-begin)/2, end - 1}
	for i := 0; i < len(codes); i += 2 * slots(codes[i:], h[0]&7) {
		at := begin + uint32(codes[i])
		list = append(list, at-1, at, at+1)
	}
	for _, d := range f.Deltas {
		list = append(list, uint32(d.Address))
	}
	slices.Sort(list)
	return slices.DeleteFunc(slices.Compact(list), func(pc uint32) bool { return pc < begin || pc >= end })
}

// mapImage returns the image as the loader maps it.
func mapImage(t *testing.T, img unwind.Image) []byte {
	t.Helper()
	p, ok := img.(*objfile.PEImage)
	if !ok {
		t.Fatalf("image of type %T, want a PE image", img)
	}
	var mapped []byte
	for _, s := range p.Sections() {
		if n := int(s.RVA) + int(max(int64(s.Size), s.Stored)); n > len(mapped) {
			mapped = append(mapped, make([]byte, n-len(mapped))...)
		}
		if s.Stored == 0 {
			continue
		}
		if _, err := p.ReadAt(mapped[s.RVA:int64(s.RVA)+s.Stored], int64(s.RVA)); err != nil {
			t.Fatalf("section %s: %v", s.Name, err)
		}
	}
	return mapped
}

// unwindEpilog executes the rest of an epilog that unwind data of version 2
// describes, if pc is at an instruction of one. returned are the registers that it
// pops, and rsp.
func unwindEpilog(read func(rva uint32, n int) []byte, m machine, begin, end, pc, info uint32) (regs map[string]uint64, returned map[string]bool) {
	h := read(info, 4)
	if h[0]&7 != 2 {
		return nil, nil
	}
	codes := read(info+4, 2*int(h[2]))
	size, inside := uint32(0), false
	for i := 0; i < len(codes) && codes[i+1]&15 == 6; i += 2 {
		distance := uint32(codes[i+1]>>4)<<8 | uint32(codes[i])
		if i == 0 {
			size = uint32(codes[0])
			if distance = 0; codes[1]&0x10 != 0 {
				distance = size
			}
		}
		inside = inside || distance != 0 && pc >= end-distance && pc < end-distance+size
	}
	if !inside {
		return nil, nil
	}
	names := strings.Fields("$rax $rcx $rdx $rbx $rsp $rbp $rsi $rdi $r8 $r9 $r10 $r11 $r12 $r13 $r14 $r15")
	regs, returned = maps.Clone(m.regs), map[string]bool{"$rsp": true}
	for {
		switch p := read(pc, 8); {
		case p[0] == 0x48 && p[1] == 0x83 && p[2] == 0xc4:
			regs["$rsp"] += uint64(p[3])
			pc += 4
		case p[0] == 0x48 && p[1] == 0x81 && p[2] == 0xc4:
			regs["$rsp"] += uint64(le.Uint32(p[3:]))
			pc += 7
		case p[0]&0xf8 == 0x58, p[0] == 0x41 && p[1]&0xf8 == 0x58:
			n := int(p[0] & 7)
			if p[0] == 0x41 {
				n = int(p[1]&7) + 8
				pc++
			}
			pc++
			regs[names[n]] = m.memory(regs["$rsp"])
			returned[names[n]] = true
			regs["$rsp"] += 8
		case p[0] == 0xc3, p[0] == 0xe9, p[0] == 0xeb, p[0] == 0xff && p[1] == 0x25, p[0] == 0xf3 && p[1] == 0xc3, p[0] == 0x48 && p[1] == 0xff:
			regs[".ra"] = m.memory(regs["$rsp"])
			regs["$rsp"] += 8
			return regs, returned
		default:
			return nil, nil // not at the start of an instruction
		}
	}
}

func values(m map[string]uint64) string {
	var list []string
	for name, v := range m {
		list = append(list, fmt.Sprintf("%s=%x", name, v))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}
