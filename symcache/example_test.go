package symcache_test

import (
	"fmt"
	"log"

	"github.com/symdepot/symdepot/symcache"
)

// What a path asks for, where the file is in a folder, and what a server that
// holds a file of an older version does.
func Example() {
	r, err := symcache.ParseRequest([]string{"v3.1.0", "app.pdb", "497b72f6-390a-44fc-878e-5a2d63b6cc4b"})
	if err != nil {
		log.Fatal(err)
	}
	held := symcache.Version{Major: 3}
	fmt.Println(r.Key.Path(held))
	fmt.Println(symcache.CanRead(r.Version, held))
	fmt.Println(symcache.Decide(r.Version, symcache.State{Held: []symcache.Version{held}}).Action)
	// Output:
	// app.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/app.pdb-v3.0.0.symcache
	// true
	// send
}
