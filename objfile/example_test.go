package objfile_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"

	"github.com/symdepot/symdepot/objfile"
)

// A fat Mach-O file holds one object for each processor.
func Example() {
	objects, err := objfile.IdentifyFile("../testdata/macho/app-fat", objfile.Options{})
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

// The ids of a file, in the form of its own tools.
func ExampleIdentifyFile() {
	objects, err := objfile.IdentifyFile("../testdata/elf/prog-sha1", objfile.Options{IDs: true})
	if err != nil {
		log.Fatal(err)
	}
	for _, o := range objects {
		fmt.Println(o.Kind, o.Role, o.BuildID)
	}
	_, err = objfile.IdentifyFile("../testdata/README.md", objfile.Options{IDs: true})
	fmt.Println(err, errors.Is(err, objfile.ErrNotSymbolFile))
	// Output:
	// elf executable|debug adac45aa231bba3143d7af433767c61f31021c16
	// ../testdata/README.md: not a symbol file: a text file true
}

// An archive member, a download or bytes in memory need no file on disk. The name is that
// under which the file is asked for.
func ExampleIdentify() {
	member := bytes.NewReader([]byte("MODULE windows x86_64 497B72F6390A44FC878E5A2D63B6CC4B1 foo.pdb\n"))
	objects, err := objfile.Identify(member, member.Size(), "foo.sym", objfile.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(objects[0].Kind, objects[0].Name, objects[0].DebugID.Breakpad())
	// Output: breakpad foo.pdb 497B72F6390A44FC878E5A2D63B6CC4B1
}

// A program says which PDB it asks for.
func ExampleObject() {
	objects, err := objfile.IdentifyFile("../testdata/pdb/hello-x64.exe", objfile.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range objects[0].PDBs {
		fmt.Println(p.Name, p.DebugID.Breakpad())
	}
	// Output: hello-x64.pdb F9EFE0B6AE7500394C4C44205044422E1
}
