package pdb_test

import (
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
