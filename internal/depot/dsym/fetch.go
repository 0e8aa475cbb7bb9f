package dsym

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/needed"
)

// Fetch makes the bundle of a UUID below a folder, unless it is there already. What goes
// wrong is in the answer, as LLDB wants it.
func Fetch(ctx context.Context, d *depot.Depot, dir, text string) Answer {
	uuid, g, err := ParseUUID(text)
	if err != nil {
		return Answer{UUID: text, Error: err.Error()}
	}
	a := Answer{UUID: uuid}
	bundle, dwarf := Places(dir, uuid)
	if _, err := os.Stat(dwarf); err != nil {
		w, err := needed.OfPath(g.LLDB())
		if err == nil {
			err = needed.Save(ctx, d, w, dwarf, false)
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("neither the depot nor an upstream has debug information with this UUID")
		}
		if err != nil {
			a.Error = err.Error()
			return a
		}
	}
	plist := filepath.Join(bundle, "Contents", "Info.plist")
	if _, err := os.Stat(plist); err != nil { // also if an earlier command wrote the other file and was interrupted
		if err := durable.WriteFile(plist, []byte(InfoPlist(uuid)), 0o666); err != nil {
			a.Error = err.Error()
			return a
		}
	}
	a.Bundle, a.DWARF, a.Arch = bundle, dwarf, archOf(dwarf)
	return a
}

// archs are the processors by their numbers in Mach-O headers, as lipo names them.
var archs = map[[2]uint32]string{
	{0x01000007, 3}: "x86_64", {0x01000007, 8}: "x86_64h", {7, 3}: "i386", {0x0100000c, 0}: "arm64",
	{0x0100000c, 2}: "arm64e", {0x0200000c, 1}: "arm64_32",
	{12, 9}: "armv7", {12, 11}: "armv7s", {12, 12}: "armv7k",
}

// archOf returns the processor of a Mach-O file; empty if it is not known.
func archOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var h [12]byte
	if _, err := io.ReadFull(f, h[:]); err != nil {
		return ""
	}
	if m := binary.LittleEndian.Uint32(h[:]); m != 0xfeedface && m != 0xfeedfacf {
		return ""
	}
	return archs[[2]uint32{binary.LittleEndian.Uint32(h[4:]), binary.LittleEndian.Uint32(h[8:]) &^ 0xff000000}]
}
