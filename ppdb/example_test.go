package ppdb_test

import (
	"fmt"
	"log"
	"os"

	"github.com/symdepot/symdepot/ppdb"
)

func Example() {
	f, err := os.Open("../testdata/ppdb/tiny.pdb")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	p, err := ppdb.Open(f, info.Size())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.ID().Breakpad())
	// Output: EE4F138B1B2548FDBA63E986D370518Fb7bd58b5
}
