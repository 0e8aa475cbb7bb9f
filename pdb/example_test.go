package pdb_test

import (
	"bytes"
	"fmt"
	"log"
	"os"

	"github.com/symdepot/symdepot/pdb"
)

// What names a PDB, and what it was made for.
func Example() {
	f, err := os.Open("../testdata/pdb/hello-x64.pdb")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	p, err := pdb.Open(f, info.Size())
	if err != nil {
		log.Fatal(err)
	}
	flavor, err := p.Flavor()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Format, p.ID().Breakpad(), p.Arch(), flavor)
	// Output: MSF F9EFE0B6AE7500394C4C44205044422E1 x86_64 private
}

// A copy of a PDB with a stream for a source server, as pdbstr -w makes it.
func ExampleFile_CopyWith() {
	f, err := os.Open("../testdata/pdb/hello-arm64.pdb")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	p, err := pdb.Open(f, info.Size())
	if err != nil {
		log.Fatal(err)
	}
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
