package pdb_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/pdb"
)

// What names a PDB, and what it was made for.
func Example() {
	p, file, err := pdb.OpenFile("../testdata/pdb/hello-x64.pdb")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	flavor, err := p.Flavor()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Format, p.ID().Breakpad(), p.Arch(), flavor)
	// Output: MSF F9EFE0B6AE7500394C4C44205044422E1 x86_64 private
}

// The function and the line at an address, relative to the base of the image.
func ExampleFile_Functions() {
	p, file, err := pdb.OpenFile("../testdata/pdb/hello-x64.pdb")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	ctx := context.Background()
	b := functab.NewBuilder(p.Module("hello-x64.pdb"), functab.Limits{})
	if err := p.Functions(ctx, b, pdb.FunctionOptions{}); err != nil {
		log.Fatal(err)
	}
	table, err := b.Table(ctx)
	if err != nil {
		log.Fatal(err)
	}
	answer, _ := table.Lookup(0x1004)
	for _, f := range answer.Frames {
		fmt.Printf("%s %s:%d\n", f.Function, f.File, f.Line)
	}
	// Output: sum(Pair*) /tmp/hello/hello.c:3
}

// A copy of a PDB with a stream for a source server, as pdbstr -w makes it.
func ExampleFile_CopyWith() {
	p, file, err := pdb.OpenFile("../testdata/pdb/hello-arm64.pdb")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	var out bytes.Buffer // usually a temporary file
	if err := p.CopyWith(&out, map[string][]byte{"srcsrv": []byte("SRCSRV: ini\r\n…")}); err != nil {
		log.Fatal(err)
	}
	q, err := pdb.Open(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		log.Fatal(err)
	}
	names, err := q.Names()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(q.ID() == p.ID(), names["srcsrv"] == p.Streams())
	// Output: true true
}
