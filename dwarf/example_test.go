package dwarf_test

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"io/fs"
	"log"

	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/functab"
)

// sectionsOf gives the sections of a file that is trusted to the standard library;
// objfile reads those of files from elsewhere.
func sectionsOf(path string) dwarf.Sections {
	file, err := elf.Open(path)
	if err != nil {
		log.Fatal(err)
	}
	return func(name string) (dwarf.Section, error) {
		s := file.Section("." + name)
		if s == nil {
			return nil, fs.ErrNotExist
		}
		b, err := s.Data()
		return bytes.NewReader(b), err
	}
}

func ExampleRead() {
	ctx := context.Background()
	b := functab.NewBuilder(functab.Module{OS: "Linux", Name: "prog"}, functab.Limits{})
	stats, err := dwarf.Read(ctx, dwarf.Data{Sections: sectionsOf("../testdata/elf/prog-sha1")}, dwarf.Options{}, b)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("units:", stats.Units, "functions:", stats.Functions)
	table, err := b.Table(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for f := range table.Functions() {
		shown, _ := table.NameOf(f.Name)
		fmt.Printf("%#x %s\n", f.Start, shown)
	}
	// Output:
	// units: 1 functions: 2
	// 0x1139 crash_here
	// 0x113c main
}

func ExampleFiles() {
	data := dwarf.Data{Sections: sectionsOf("../testdata/elf/prog-sha1")}
	_, err := dwarf.Files(context.Background(), data, func(f dwarf.SourceFile) error {
		fmt.Println(f.Name)
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// /usr/src/symdepot-src/prog.c
	// /usr/include/stdio.h
}
