package udif

import (
	"encoding/binary"
	"io"
)

// FileSystem is the format of a partition.
type FileSystem string

// The formats that are recognised. Others are of the disk itself, such as its tables and drivers.
const (
	HFSPlus FileSystem = "HFS+"
	HFS     FileSystem = "HFS"
	APFS    FileSystem = "APFS"
)

// Partition is a part of a disk with a file system.
type Partition struct {
	Format FileSystem
	Offset int64 // bytes
	Size   int64 // bytes; up to the end of the disk if no table says it
}

const maxPartitions = 128

// Partitions finds the partitions of a disk of size bytes that have a file system of Apple: in a table of GUIDs (UEFI
// Specification, chapter 5), in an Apple Partition Map, or alone on a disk without a table.
func Partitions(disk io.ReaderAt, size int64) ([]Partition, error) {
	if p, ok, err := probe(disk, size, 0, size); ok || err != nil {
		return []Partition{p}, err
	}
	head := make([]byte, 2*sector)
	if size < int64(len(head)) {
		return nil, nil
	}
	if err := readAt(disk, head, 0); err != nil {
		return nil, err
	}
	var list []Partition
	add := func(off, n uint64) error {
		if off >= uint64(size) || n > uint64(size)-off {
			return damaged("a partition lies outside of the disk")
		}
		p, ok, err := probe(disk, size, int64(off), int64(n))
		if !ok {
			return err
		}
		for _, q := range list {
			if p.Offset == q.Offset { // maps name a partition for several sizes of sectors
				return nil
			}
			if p.Offset < q.Offset+q.Size && q.Offset < p.Offset+p.Size {
				return damaged("two partitions have the same sectors")
			}
		}
		list = append(list, p)
		return nil
	}
	var err error
	switch {
	case string(head[sector:sector+8]) == "EFI PART":
		err = guids(disk, head[sector:], add)
	case string(head[:2]) == "ER" && string(head[sector:sector+2]) == "PM":
		err = appleMap(disk, head[sector:], add)
	}
	return list, err
}

// guids reads a table of GUIDs. h is its header.
func guids(disk io.ReaderAt, h []byte, add func(off, n uint64) error) error {
	const entry = 128
	le := binary.LittleEndian
	at, n, size := le.Uint64(h[72:]), le.Uint32(h[80:]), le.Uint32(h[84:])
	if at > maxDisk/sector || size < entry || size > 4096 {
		return damaged("a table of partitions of %d bytes each", size)
	}
	e := make([]byte, size)
	for i := range min(n, maxPartitions) {
		if err := readAt(disk, e, int64(at)*sector+int64(i)*int64(size)); err != nil {
			return err
		}
		first, last := le.Uint64(e[32:]), le.Uint64(e[40:])
		if first == 0 || last < first {
			continue
		}
		if last > maxDisk/sector {
			return damaged("a partition ends at sector %d", last)
		}
		if err := add(first*sector, (last-first+1)*sector); err != nil {
			return err
		}
	}
	return nil
}

// appleMap reads an Apple Partition Map. e is its first entry.
func appleMap(disk io.ReaderAt, e []byte, add func(off, n uint64) error) error {
	be := binary.BigEndian
	entries := min(be.Uint32(e[4:]), maxPartitions)
	for i := range entries {
		if err := readAt(disk, e[:sector], int64(i+1)*sector); err != nil {
			return err
		}
		if string(e[:2]) != "PM" {
			return damaged("the map of partitions ends early")
		}
		if err := add(uint64(be.Uint32(e[8:]))*sector, uint64(be.Uint32(e[12:]))*sector); err != nil {
			return err
		}
	}
	return nil
}

// probe looks for a file system in a part of the disk.
func probe(disk io.ReaderAt, size, off, n int64) (p Partition, ok bool, err error) {
	const header = 1024 // where the header of HFS and HFS+ is
	b := make([]byte, header+2)
	n = min(n, size-off)
	if n < int64(len(b)) {
		return p, false, nil
	}
	if err := readAt(disk, b, off); err != nil {
		return p, false, err
	}
	p = Partition{Offset: off, Size: n}
	switch string(b[header:]) {
	case "H+", "HX":
		p.Format = HFSPlus
	case "BD":
		p.Format = HFS
	default:
		if string(b[32:36]) != "NXSB" {
			return p, false, nil
		}
		p.Format = APFS
	}
	return p, true, nil
}
