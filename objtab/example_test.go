package objtab_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/symdepot/symdepot/objtab"
)

// A stripped program and its separate debug file answer together to an address.
func ExampleELF() {
	open := func(path string) objtab.File {
		f, err := os.Open(path)
		if err != nil {
			log.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			log.Fatal(err)
		}
		return objtab.File{Reader: f, Size: info.Size()}
	}
	ctx := context.Background()
	b, err := objtab.ELF(ctx, objtab.ELFFiles{
		Name:    "prog",
		Program: open("../testdata/elf/prog-sha1.stripped"),
		Debug:   open("../testdata/elf/prog-sha1.debug"),
	}, objtab.Options{})
	if err != nil {
		log.Fatal(err)
	}
	table, err := b.Table(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for f := range table.Functions() {
		shown, _ := table.NameOf(f.Name)
		answer, _ := table.Lookup(f.Start)
		fmt.Printf("%#x %s %s:%d\n", f.Start, shown, answer.Frames[0].File, answer.Frames[0].Line)
	}
	// Output:
	// 0x1139 crash_here /usr/src/symdepot-src/prog.c:5
	// 0x113c main /usr/src/symdepot-src/prog.c:6
}
