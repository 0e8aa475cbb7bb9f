package objtab

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/dwarf"
	"github.com/symdepot/symdepot/objfile"
)

// MaxSplits is the number of split units that Links lists.
const MaxSplits = 4096

// maxLinkSection is the largest compressed section that Links reads, in bytes after
// decompression. Skeleton units are small.
const maxLinkSection = 64 << 20

// Links are the other files that an ELF file names.
type Links struct {
	// DWARF reports that the file has debug information of its own.
	DWARF bool
	// Debug is the name of the separate debug file in .gnu_debuglink, and CRC the
	// CRC-32 of its content.
	Debug string
	CRC   uint32
	// Alternate is the name of the supplementary file of dwz, and AlternateID its
	// build-id.
	Alternate   string
	AlternateID debugid.BuildID
	// Splits are the split units of its skeleton units, by id.
	Splits []dwarf.Split
}

// PELink returns the name and the CRC-32 of the separate debug file that
// .gnu_debuglink of a PE image names; no name if it names none. The error wraps
// objfile.ErrNotSymbolFile or objfile.ErrBroken, or it is that of reading.
func PELink(f File) (name string, crc uint32, err error) {
	img, err := objfile.OpenPE(f.Reader, f.Size)
	if err != nil {
		return "", 0, err
	}
	for _, s := range img.Sections() {
		if s.Name != ".gnu_debuglink" || s.Stored > 4096 {
			continue
		}
		p := make([]byte, s.Stored)
		if _, err := f.Reader.ReadAt(p, s.Offset); err != nil && !errors.Is(err, io.EOF) {
			return "", 0, err
		}
		text, _, ok := strings.Cut(string(p), "\x00")
		at := (len(text) + 4) &^ 3
		if !ok || at+4 > len(p) {
			return "", 0, nil
		}
		return text, binary.LittleEndian.Uint32(p[at:]), nil
	}
	return "", 0, nil
}

// LinksOf reads which other files an ELF file names. The error wraps
// objfile.ErrNotSymbolFile or objfile.ErrBroken, or it is that of ctx or of
// reading.
func LinksOf(ctx context.Context, f File) (Links, error) {
	var l Links
	e, err := objfile.OpenELF(f.Reader, f.Size)
	if err != nil {
		return l, err
	}
	usable := func(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, objfile.ErrBroken) }
	if l.Debug, l.CRC, err = e.DebugLink(); err != nil && !usable(err) {
		return l, err
	}
	if l.Alternate, l.AlternateID, err = e.AltLink(); err != nil && !usable(err) {
		return l, err
	}
	var addresses bool
	for s := range e.Sections() {
		l.DWARF = l.DWARF || s.InFile && (s.Name == ".debug_info" || s.Name == ".zdebug_info")
		addresses = addresses || s.InFile && (s.Name == ".debug_addr" || s.Name == ".zdebug_addr")
	}
	if !l.DWARF || !addresses { // the code of split units is at addresses of .debug_addr
		return l, nil
	}
	needed := []string{"debug_info", "debug_abbrev", "debug_str", "debug_str_offsets", "debug_line_str", "debug_addr"}
	get := func(name string) (dwarf.Section, error) {
		if !slices.Contains(needed, name) {
			return nil, fmt.Errorf("section .%s: %w", name, fs.ErrNotExist)
		}
		d, err := e.Section("."+name, objfile.SectionOptions{Limit: maxLinkSection})
		if err != nil {
			return nil, err
		}
		return d, nil
	}
	l.Splits, err = dwarf.Splits(ctx, get, e.Order(), MaxSplits)
	if usable(err) {
		err = nil
	}
	return l, err
}
