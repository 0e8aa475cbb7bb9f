package layout_test

import (
	"fmt"
	"log"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// The paths of one object in the layouts that have any for it.
func Example() {
	id, err := debugid.Parse("497b72f6390a44fc878e5a2d63b6cc4b1")
	if err != nil {
		log.Fatal(err)
	}
	o := symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: "Foo.pdb", DebugID: id}
	for _, l := range []layout.Layout{layout.SymStore, layout.Index2, layout.SSQP, layout.Unified} {
		fmt.Printf("%-16s%s\n", l, l.Paths(o)[0])
	}
	// Output:
	// symstore        Foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/Foo.pdb
	// symstore_index2 Fo/Foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/Foo.pdb
	// ssqp            foo.pdb/497b72f6390a44fc878e5a2d63b6cc4b1/foo.pdb
	// unified         49/7b72f6390a44fc878e5a2d63b6cc4b1/debuginfo
}

// What a URL path asks a symbol server for.
func ExampleRoute() {
	segs, err := layout.Segments("/download/symbols/foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/foo.pd_")
	if err != nil {
		log.Fatal(err)
	}
	req, err := layout.Route(segs)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(req.Layout, req.Name, req.Form == layout.FormCabinet)
	fmt.Println(req.Lookups[0].Name, req.Lookups[0].ID)
	// Output:
	// symstore foo.pdb true
	// foo.pdb 497b72f6390a44fc878e5a2d63b6cc4b1
}

// Where a server of another layout may have the answer.
func ExampleDialect_Places() {
	segs, err := layout.Segments("/buildid/dfb85de42daffd09640c8fe377d572de3e168920/debuginfo")
	if err != nil {
		log.Fatal(err)
	}
	req, err := layout.Route(segs)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range (layout.Dialect{Layout: layout.GDB}).Places(&req) {
		fmt.Println(p.Key())
	}
	// Output:
	// .build-id/df/b85de42daffd09640c8fe377d572de3e168920.debug
	// df/b85de42daffd09640c8fe377d572de3e168920.debug
}
