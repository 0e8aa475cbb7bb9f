package objfile_test

import (
	"fmt"
	"log"
	"os"

	"github.com/symdepot/symdepot/objfile"
)

// A fat Mach-O file holds one object for each processor.
func Example() {
	f, err := os.Open("../testdata/macho/app-fat")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	objects, err := objfile.Identify(f, info.Size(), f.Name(), objfile.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range objects {
		fmt.Println(o.Kind, o.Arch, o.Name)
	}
	// Output:
	// macho x86_64 app-fat
	// macho arm64 app-fat
}

// A program says which PDB it asks for.
func ExampleObject() {
	f, err := os.Open("../testdata/pdb/hello-x64.exe")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		log.Fatal(err)
	}
	objects, err := objfile.Identify(f, info.Size(), f.Name(), objfile.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range objects[0].PDBs {
		fmt.Println(p.Name, p.DebugID.Breakpad())
	}
	// Output: hello-x64.pdb F9EFE0B6AE7500394C4C44205044422E1
}
