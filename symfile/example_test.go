package symfile_test

import (
	"fmt"
	"log"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// A lookup finds an object under any of its aliases. It names a kind of id where
// the path that it was made of does.
func Example() {
	id, err := debugid.Parse("497b72f6390a44fc878e5a2d63b6cc4b1")
	if err != nil {
		log.Fatal(err)
	}
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "Foo.pdb", DebugID: id}
	for _, a := range o.Aliases() {
		fmt.Println(a.Name, a.ID)
	}
	l := symfile.Lookup{Name: "foo.pdb", ID: "497b72f6390a44fc878e5a2d63b6cc4b1", Role: symfile.Debug}
	fmt.Println(l.Finds(o))
	l.IDKind = symfile.BuildIDs
	fmt.Println(l.Finds(o))
	// Output:
	// foo.pdb 497b72f6390a44fc878e5a2d63b6cc4b1
	// true
	// false
}
