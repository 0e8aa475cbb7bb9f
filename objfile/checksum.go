package objfile

import (
	"bytes"
	"encoding/hex"
	"io"
)

// debugChecksum is the type of a debug entry with the checksum of a portable PDB
// (documentation of .NET, PE/COFF specification, "PDB Checksum Debug Directory
// Entry").
const debugChecksum = 19

// maxChecksum limits such an entry, in bytes.
const maxChecksum = 256

// PDBChecksum is the checksum of a PDB as its image has it.
type PDBChecksum struct {
	Algorithm string // SHA256 and the like, as written
	Sum       []byte
}

// String returns the algorithm and the sum in hex, as clients send them in the
// header SymbolChecksum.
func (c PDBChecksum) String() string { return c.Algorithm + ":" + hex.EncodeToString(c.Sum) }

// PDBChecksums returns the checksums of the PDB in an image of size bytes, at most 16.
// Images without any, and files that are no images, have none. The error wraps
// ErrBroken, or is an error of r.
func PDBChecksums(r io.ReaderAt, size int64) ([]PDBChecksum, error) {
	b := newBudget(r, size, IDBudget)
	head, err := b.bytes(0, min(size, 64))
	if err != nil || len(head) < 64 || head[0] != 'M' || head[1] != 'Z' {
		return nil, err
	}
	off, err := peOffset(b, head)
	if err != nil {
		return nil, nil //nolint:nilerr // a DOS program
	}
	f, err := openPE(b, off)
	if err != nil {
		return nil, err
	}
	entries, err := f.debugEntries()
	if err != nil {
		return nil, err
	}
	var list []PDBChecksum
	for _, e := range entries {
		if e.kind != debugChecksum || !e.inFile || e.size > maxChecksum || len(list) == maxRecords {
			continue
		}
		rec, err := b.bytes(e.off, e.size)
		if err != nil {
			return nil, err
		}
		if name, sum, ok := bytes.Cut(rec, []byte{0}); ok && len(name) > 0 && len(sum) > 0 {
			list = append(list, PDBChecksum{string(name), sum})
		}
	}
	return list, nil
}
