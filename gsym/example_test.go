package gsym_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/gsym"
)

func Example() {
	b := functab.NewBuilder(functab.Module{OS: "Linux", Name: "prog"}, functab.Limits{})
	file := b.File("/build/prog.c")
	err := b.Add(functab.Function{
		Start: 0x113C, Size: 0x2F, Name: b.Name("main", ""),
		Rows:    []functab.Row{{Start: 0x113C, File: file, Line: 6}, {Start: 0x113F, File: file, Line: 4}, {Start: 0x1142, File: file, Line: 6}},
		Inlines: []functab.Inline{{Name: b.Name("add", ""), CallFile: file, CallLine: 6, Ranges: []functab.Range{{Start: 0x113F, Size: 3}}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	tables, err := b.Table(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer
	if err := gsym.Write(&out, tables); err != nil {
		log.Fatal(err)
	}

	f, err := gsym.NewFile(bytes.NewReader(out.Bytes()), int64(out.Len()), 0)
	if err != nil {
		log.Fatal(err)
	}
	answer, ok, err := f.Lookup(0x1140)
	if err != nil || !ok {
		log.Fatal(ok, err)
	}
	for _, l := range answer.Frames {
		fmt.Printf("%s %s:%d\n", l.Function, l.File, l.Line)
	}
	// Output:
	// add /build/prog.c:4
	// main /build/prog.c:6
}
