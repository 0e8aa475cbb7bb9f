package breakpad_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/symdepot/symdepot/breakpad"
	"github.com/symdepot/symdepot/functab"
)

func ExampleParseHeader() {
	const file = "MODULE windows x86_64 497B72F6390A44FC878E5A2D63B6CC4B1 foo.pdb\nINFO CODE_ID 5AB380779000 foo.dll\nFUNC 1000 10 0 f\n"
	h, err := breakpad.ParseHeader(strings.NewReader(file))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Name, h.ID.Breakpad())
	fmt.Println(h.CodeName, h.CodeID)
	fmt.Println(breakpad.SymName(h.Name))
	// Output:
	// foo.pdb 497B72F6390A44FC878E5A2D63B6CC4B1
	// foo.dll 5AB380779000
	// foo.sym
}

func ExampleWriteHeader() {
	h, err := breakpad.ParseHeader(strings.NewReader("MODULE Linux x86_64 E45DB8DFAF2D09FD640C8FE377D572DE0 libm.so.6\n"))
	if err != nil {
		log.Fatal(err)
	}
	if err := breakpad.WriteHeader(os.Stdout, h); err != nil {
		log.Fatal(err)
	}
	// Output: MODULE Linux x86_64 E45DB8DFAF2D09FD640C8FE377D572DE0 libm.so.6
}

func ExampleReadSym() {
	const file = `MODULE Linux x86_64 4C70B8C9113B1B3A9AB4D2F1AA7B11C30 prog
FILE 5 /build/main.c
FUNC 1040 2c 0 main
1040 8 10 5
1048 24 11 5
`
	b := functab.NewBuilder(functab.Module{}, functab.Limits{})
	if err := breakpad.ReadSym(strings.NewReader(file), b); err != nil {
		log.Fatal(err)
	}
	t, err := b.Table(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	answer, _ := t.Lookup(0x1050)
	fmt.Println(answer.Frames[0].Function, answer.Frames[0].File, answer.Frames[0].Line)
	if err := breakpad.WriteSym(os.Stdout, t); err != nil {
		log.Fatal(err)
	}
	// Output:
	// main /build/main.c 11
	// MODULE Linux x86_64 4C70B8C9113B1B3A9AB4D2F1AA7B11C30 prog
	// FILE 0 /build/main.c
	// FUNC 1040 2c 0 main
	// 1040 8 10 0
	// 1048 24 11 0
}
