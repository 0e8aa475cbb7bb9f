package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

func TestWASMFiles(t *testing.T) {
	for file, want := range map[string]string{
		"w-sha1.wasm": "wasm wasm32 code=14690fa2e0c0baa18ab6ee604fef94a1c35bd5803f debug=14690FA2E0C0BAA18AB6EE604FEF94A10 " +
			"build=690fa2e0c0baa18ab6ee604fef94a1c35bd5803f executable+debug debug+symtab size=420",
		"w-sha1-stripped.wasm": "wasm wasm32 code=14690fa2e0c0baa18ab6ee604fef94a1c35bd5803f debug=14690FA2E0C0BAA18AB6EE604FEF94A10 " +
			"build=690fa2e0c0baa18ab6ee604fef94a1c35bd5803f executable symtab size=0",
		"w-uuid.wasm": "wasm wasm32 code=10458bea16b69346e9b7a542a6525b7047 debug=10458BEA16B69346E9B7A542A6525B700 " +
			"build=458bea16b69346e9b7a542a6525b7047 executable+debug debug+symtab size=420",
		"w-fast.wasm": "wasm wasm32 code=10838191aa47515ea7932913227f759227 debug=10838191AA47515EA7932913227F75920 " +
			"build=838191aa47515ea7932913227f759227 executable+debug debug+symtab size=420",
		"w-0x0a0b.wasm": "wasm wasm32 code=140a0b0c0d0e0f101112131415161718191a1b1c1d debug=140A0B0C0D0E0F1011121314151617180 " +
			"build=0a0b0c0d0e0f101112131415161718191a1b1c1d executable+debug debug+symtab size=420",
		"w-none.wasm": "wasm wasm32 code= debug= build= executable+debug debug+symtab size=420",
	} {
		objects, err := identifyBytes(t, identifyWASM, file, readTestdata(t, "wasm/"+file))
		if err != nil {
			t.Errorf("%s: identifyBytes: error %v, want no error", file, err)
		} else if got := summary(objects[0]); got != want {
			t.Errorf("%s:\n got %s\nwant %s", file, got, want)
		}
	}
}

// module makes a WASM module of sections.
func module(sections ...[]byte) []byte {
	return append([]byte("\x00asm\x01\x00\x00\x00"), bytes.Join(sections, nil)...)
}

func section(id byte, contents []byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(contents))), contents...)
}

func custom(name string, contents []byte) []byte {
	return section(0, append(append(binary.AppendUvarint(nil, uint64(len(name))), name...), contents...))
}

func TestWASMIDs(t *testing.T) {
	const id = "bda18fd85d4a4eb893022d6bfad846b1"
	for _, c := range []struct{ raw, code, debug, build string }{
		{id, id, "BDA18FD85D4A4EB893022D6BFAD846B10", id},
		{"10" + id, "10" + id, "10BDA18FD85D4A4EB893022D6BFAD8460", id},
		{"9000" + id, "9000" + id, "9000BDA18FD85D4A4EB893022D6BFAD80", id}, // a length byte too long
		{"11" + id, "11" + id, "11BDA18FD85D4A4EB893022D6BFAD8460", "11" + id},
		{"04deadbeef", "04deadbeef", "", "deadbeef"},
		{"deadbeef", "deadbeef", "", "deadbeef"},
		{"00", "00", "", "00"},
		{"ffffffffff", "ffffffffff", "", "ffffffffff"},
		{"", "", "", ""},
		{strings.Repeat("ab", 256), strings.Repeat("ab", 256), "ABABABABABABABABABABABABABABABAB0", strings.Repeat("ab", 256)},
		{strings.Repeat("ab", 257), "", "", ""},
	} {
		p := module(custom("producers", []byte("x")), custom("build_id", unhex(t, c.raw)))
		objects, err := identifyBytes(t, identifyWASM, "x", p)
		if err != nil {
			t.Errorf(`%s: identifyBytes("x"): error %v, want no error`, c.raw, err)
			continue
		}
		if o := objects[0]; o.CodeID != c.code || o.DebugID.Breakpad() != c.debug || string(o.BuildID) != c.build {
			t.Errorf("%s: got %s, %v, %v; want %v, o.DebugID.Breakpad() %v, %q", c.raw, summary(o), o.CodeID, string(o.BuildID), c.code, c.debug, c.build)
		}
	}
}

func TestWASMClasses(t *testing.T) {
	functions, code := section(wasmFunction, []byte{1, 0}), section(wasmCode, []byte{1, 2, 0, 11})
	for _, c := range []struct {
		name string
		p    []byte
		want string
	}{
		{"nothing", module(), "wasm32 code= debug= build= companion  size=0"},
		{"module", module(functions, code), "wasm32 code= debug= build= executable  size=0"},
		{"64 bit", module(section(wasmMemory, []byte{1, 4, 1}), functions), "wasm64 code= debug= build= executable  size=0"},
		{"32 bit", module(section(wasmMemory, []byte{1, 3, 1}), functions), "wasm32 code= debug= build= executable  size=0"},
		{"empty sections", module(section(wasmFunction, []byte{0}), section(wasmCode, []byte{0})), "wasm32 code= debug= build= companion  size=0"},
		{"debug only", module(custom(".debug_info", make([]byte, 9)), custom(".debug_line", make([]byte, 5))), "wasm32 code= debug= build= debug+companion debug size=14"},
		{"names", module(functions, custom("name", []byte{1})), "wasm32 code= debug= build= executable symtab size=0"},
		{"map", module(functions, custom("sourceMappingURL", []byte("\x01x"))), "wasm32 code= debug= build= executable sources size=0"},
		{"external", module(functions, custom("external_debug_info", []byte("\x01x"))), "wasm32 code= debug= build= executable  size=0"},
		{"long name", module(functions, custom(strings.Repeat("n", 65), []byte{1})), "wasm32 code= debug= build= executable  size=0"},
		{"first id wins", module(custom("build_id", []byte{1, 5}), custom("build_id", []byte{1, 6})), "wasm32 code=0105 debug= build=05 companion  size=0"},
	} {
		objects, err := identifyBytes(t, identifyWASM, "x", c.p)
		if err != nil || summary(objects[0]) != "wasm "+c.want {
			t.Errorf("%s: %v, %v, want %s", c.name, objects, err, c.want)
		}
	}
}

func TestWASMHostile(t *testing.T) {
	for name, c := range map[string]struct {
		p    []byte
		want error
	}{
		"magic only":          {[]byte("\x00asm"), ErrBroken},
		"component":           {[]byte("\x00asm\x0d\x00\x01\x00"), ErrNotSymbolFile},
		"section of 4 GiB":    {module([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x0f}), ErrBroken},
		"number too large":    {module([]byte{0, 0xff, 0xff, 0xff, 0xff, 0x1f}), ErrBroken},
		"endless number":      {module(append([]byte{0}, bytes.Repeat([]byte{0x80}, 100)...)), ErrBroken},
		"number cut off":      {module([]byte{0, 0x80}), ErrBroken},
		"id without size":     {module([]byte{0}), ErrBroken},
		"name of 4 GiB":       {module(section(0, []byte{0xff, 0xff, 0xff, 0xff, 0x0f})), ErrBroken},
		"name behind the end": {module(section(0, []byte{5, 'a'}), section(0, []byte("\x00aaaa"))), ErrBroken},
		"custom without name": {module(section(0, nil)), ErrBroken},
		"100,000 sections":    {module(bytes.Repeat([]byte{1, 0}, 100_000)), ErrBroken},
	} {
		if objects, err := identifyBytes(t, identifyWASM, "x", c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, %v, want %v", name, objects, err, c.want)
		}
	}
}

func TestWASMDamage(t *testing.T) {
	whole := map[string]map[int]bool{} // where sections end
	for path, p := range realFiles(t, "wasm") {
		whole[path] = map[int]bool{8: true}
		for off := 8; off < len(p); {
			size, n := binary.Uvarint(p[off+1:])
			off += 1 + n + int(size)
			whole[path][off] = true
		}
	}
	damage(t, identifyWASM, "wasm", func(path string, n int) bool { return whole[path][n] })
}

func FuzzWASM(f *testing.F) {
	for _, p := range realFiles(f, "wasm") {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p []byte) { _, _ = identifyBytes(t, identifyWASM, "x", p) })
}
