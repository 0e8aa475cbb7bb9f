// Package udiftest makes disk images for tests.
package udiftest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zlib"
)

// Block is a block of an image: Sectors sectors, and how they are stored.
type Block struct {
	Kind    uint32
	Sectors uint64
	Data    []byte // as stored
	Again   bool   // the data are those of the block before
}

// Zlib returns blocks of up to 64 KiB, compressed with zlib, with the bytes of a disk; those of zeros have no data.
func Zlib(disk []byte) (list []Block) {
	for len(disk) > 0 {
		part := disk[:min(len(disk), 64<<10)]
		disk = disk[len(part):]
		b := Block{Kind: 0x80000005, Sectors: uint64(len(part)+511) / 512}
		if bytes.Count(part, []byte{0}) == len(part) {
			b.Kind = 2
		} else {
			var out bytes.Buffer
			z := zlib.NewWriter(&out)
			_, _ = z.Write(append(part[:len(part):len(part)], make([]byte, -len(part)&511)...)) // a Buffer does not fail
			_ = z.Close()
			b.Data = out.Bytes()
		}
		list = append(list, b)
	}
	return list
}

// Image returns an image of a disk of these blocks, with one table for each list of them.
func Image(tables ...[]Block) []byte {
	be := binary.BigEndian
	var out, list []byte
	sector := uint64(0)
	for i, blocks := range tables {
		t := make([]byte, 204)
		copy(t, "mish\x00\x00\x00\x01")
		be.PutUint64(t[8:], sector)
		be.PutUint32(t[200:], uint32(len(blocks)+1))
		at, from := uint64(0), 0
		add := func(b Block) {
			if !b.Again {
				from = len(out)
				out = append(out, b.Data...)
			}
			e := make([]byte, 40)
			be.PutUint32(e, b.Kind)
			be.PutUint64(e[8:], at)
			be.PutUint64(e[16:], b.Sectors)
			be.PutUint64(e[24:], uint64(from))
			be.PutUint64(e[32:], uint64(len(out)-from))
			t = append(t, e...)
			at += b.Sectors
		}
		for _, b := range blocks {
			add(b)
		}
		add(Block{Kind: 0xffffffff})
		be.PutUint64(t[16:], at)
		sector += at
		list = fmt.Appendf(list, "<dict><key>Attributes</key><string>0x0050</string><key>Data</key>\n<data>\n%s\n</data>\n"+
			"<key>ID</key><string>%d</string></dict>\n",
			base64.StdEncoding.EncodeToString(t), i)
	}
	plist := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict><key>resource-fork</key><dict><key>blkx</key><array>%s</array>
<key>plst</key><array><dict><key>Data</key><data>AAAA</data></dict></array></dict></dict></plist>`, list)
	k := make([]byte, 512)
	copy(k, "koly\x00\x00\x00\x04\x00\x00\x02\x00")
	be.PutUint64(k[32:], uint64(len(out)))
	be.PutUint32(k[60:], 1)
	be.PutUint64(k[216:], uint64(len(out)))
	be.PutUint64(k[224:], uint64(len(plist)))
	be.PutUint64(k[492:], sector)
	return append(append(out, plist...), k...)
}
