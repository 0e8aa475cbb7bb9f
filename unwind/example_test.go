package unwind_test

import (
	"context"
	"fmt"
	"os"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/unwind"
)

func ExampleEHFrame() {
	f, err := os.Open("../testdata/elf/prog-sha1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		fmt.Println(err)
		return
	}
	elf, err := objfile.OpenELF(f, st.Size())
	if err != nil {
		fmt.Println(err)
		return
	}
	data, err := elf.Section(".eh_frame", objfile.SectionOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	section, err := data.ReadAll(1 << 30)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := unwind.Sections{Arch: elf.Arch(), Base: elf.Base(), EHFrame: section, EHFrameAddress: elf.SectionAddress(".eh_frame")}
	b := functab.NewBuilder(functab.Module{OS: "Linux", Arch: s.Arch, Name: "prog"}, functab.Limits{})
	if err := unwind.EHFrame(context.Background(), s, b); err != nil {
		fmt.Println(err)
		return
	}
	table, err := b.Table(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	for f := range table.Frames() {
		fmt.Printf("STACK CFI INIT %x %x %s\n", f.Start, f.Size, f.CFI)
		for _, d := range f.Deltas {
			fmt.Printf("STACK CFI %x %s\n", d.Address, d.Rules)
		}
	}
	// Output:
	// STACK CFI INIT 1020 20 .cfa: $rsp 16 + .ra: .cfa -8 + ^
	// STACK CFI 1026 .cfa: $rsp 24 +
	// STACK CFI 1030 .cfa: $rsp 8 +
	// STACK CFI 103b .cfa: $rsp 16 +
	// STACK CFI INIT 1040 8 .cfa: $rsp 8 + .ra: .cfa -8 + ^
	// STACK CFI INIT 1050 22 .cfa: $rsp 8 + .ra: 0
	// STACK CFI INIT 1139 3 .cfa: $rsp 8 + .ra: .cfa -8 + ^
	// STACK CFI INIT 113c 2f .cfa: $rsp 8 + .ra: .cfa -8 + ^
	// STACK CFI 113d .cfa: $rsp 16 + $rbx: .cfa -16 + ^
	// STACK CFI 115e .cfa: $rsp 8 +
	// STACK CFI 115f .cfa: $rsp 16 +
}
