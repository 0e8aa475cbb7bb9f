package breakpad_test

import (
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/symdepot/symdepot/breakpad"
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
