package dump_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log"

	"github.com/symdepot/symdepot/dump"
)

// The modules of a dump on disk, with the debug information that each asks for.
func ExampleReadFile() {
	d, err := dump.ReadFile("../testdata/minidump/test_app.dmp")
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range d.Modules[:2] {
		for _, want := range m.Debug {
			fmt.Println(m.Name, want.Name, want.ID.Breakpad())
		}
	}
	// Output:
	// test_app.exe test_app.pdb 5A9832E5287241C1838ED98914E9B7FF1
	// ntdll.dll ntdll.pdb 36515FB5D04345E491F672FA2E2878C02
}

// The crashed thread of a dump, with the top of its stack.
func ExampleOpenFile() {
	p, file, err := dump.OpenFile("../testdata/minidump/test_app.dmp")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	thread := p.Threads[p.Requesting]
	var word [4]byte
	p.Memory.ReadMemory(word[:], thread.Registers.SP())
	fmt.Printf("%s at %#x\n", p.Exception.Reason, p.Exception.Address)
	fmt.Printf("eip %#x, top of the stack %#x\n", thread.Registers.PC(), binary.LittleEndian.Uint32(word[:]))
	// Output:
	// EXCEPTION_ACCESS_VIOLATION_WRITE at 0x45
	// eip 0x40429e, top of the stack 0x45
}

// The modules of a minidump name the symbol files that it needs.
func Example() {
	file := smallMinidump()
	d, err := dump.Read(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range d.Modules {
		fmt.Println(d.Kind, m.Name, m.Code)
	}
	// Output: minidump app.exe 5AB380779000
}

// smallMinidump returns a minidump of a process with one module.
func smallMinidump() []byte {
	const names, list, size = 44, 80, 4 + 108
	b := make([]byte, list+size)
	put := binary.LittleEndian.PutUint32
	copy(b, "MDMP\x93\xa7")
	put(b[8:], 1)     // streams
	put(b[12:], 32)   // their directory
	put(b[32:], 4)    // a list of modules
	put(b[36:], size) // bytes
	put(b[40:], list)
	name := `C:\app.exe`
	put(b[names:], uint32(2*len(name)))
	for i, c := range []byte(name) {
		b[names+4+2*i] = c
	}
	put(b[list:], 1) // module
	m := b[list+4:]
	put(m, 0x400000)        // base
	put(m[8:], 0x9000)      // size
	put(m[16:], 0x5AB38077) // time stamp
	put(m[20:], names)
	return b
}
