package functab_test

import (
	"context"
	"fmt"
	"log"

	"github.com/symdepot/symdepot/functab"
)

func Example() {
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: "x86_64", Name: "prog"}, functab.Limits{})
	file := b.File(functab.JoinPath("/build", "src", "prog.c"))
	err := b.Add(functab.Function{
		Start: 0x113C, Size: 0x2F, Name: b.Name("main", ""),
		Rows: []functab.Row{{Start: 0x113C, File: file, Line: 6}, {Start: 0x113F, File: file, Line: 4}, {Start: 0x1142, File: file, Line: 6}},
		Inlines: []functab.Inline{{
			Name: b.Name("add", ""), CallFile: file, CallLine: 6,
			Ranges: []functab.Range{{Start: 0x113F, Size: 3}},
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	t, err := b.Table(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	answer, _ := t.Lookup(0x113F)
	for _, l := range answer.Frames {
		fmt.Printf("%s %s:%d\n", l.Function, l.File, l.Line)
	}
	// Output:
	// add /build/src/prog.c:4
	// main /build/src/prog.c:6
}

func ExampleJoinPath() {
	fmt.Println(functab.JoinPath("/build", "src", "../include/a.h"))
	fmt.Println(functab.JoinPath(`C:\build`, "src", "a.c"))
	fmt.Println(functab.JoinPath("/build", "/usr/include", "stdio.h"))
	// Output:
	// /build/include/a.h
	// C:\build\src\a.c
	// /usr/include/stdio.h
}
