package debugid_test

import (
	"fmt"
	"log"

	"github.com/symdepot/symdepot/debugid"
)

// One identity, and the spellings that tools use for it.
func Example() {
	id, err := debugid.Parse("497b72f6-390a-44fc-878e-5a2d63b6cc4b-1a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("Breakpad:", id.Breakpad())
	fmt.Println("GUID:    ", id.GUID.Lower())
	fmt.Println("LLDB:    ", id.GUID.LLDB())
	fmt.Println("age:     ", id.Age)
	// Output:
	// Breakpad: 497B72F6390A44FC878E5A2D63B6CC4B1a
	// GUID:     497b72f6390a44fc878e5a2d63b6cc4b
	// LLDB:     497B/72F6/390A/44FC/878E/5A2D63B6CC4B
	// age:      26
}

// Breakpad and Sentry make a debug id of a build-id.
func ExampleBuildID_DebugID() {
	b, err := debugid.ParseBuildID("DFB85DE42DAFFD09640C8FE377D572DE3E168920")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(b)
	fmt.Println(b.DebugID(true).Breakpad())
	// Output:
	// dfb85de42daffd09640c8fe377d572de3e168920
	// E45DB8DFAF2D09FD640C8FE377D572DE0
}

func ExamplePE() {
	p := debugid.PE{TimeDateStamp: 0x00E4915E, SizeOfImage: 0xAE000}
	fmt.Println(p)
	// Output: 00E4915Eae000
}
