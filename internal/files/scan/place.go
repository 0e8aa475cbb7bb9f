package scan

// Method is how the bytes at a Place are compressed. The numbers are stored in indexes and
// never change.
type Method uint8

// The methods.
const (
	Nested  Method = iota // not known: the bytes are found by reading the archives around them
	Stored                // not compressed
	Deflate               // raw deflate, of a member of a zip archive
	Gzip
	Zlib
	Zstd
	XZ
	Bzip2
)

var methods = map[kind]Method{gzipKind: Gzip, zlibKind: Zlib, zstdKind: Zstd, xzKind: XZ, bzip2Kind: Bzip2}

// Place says where in a file on disk the bytes of a member begin: a compressed stream of
// Packed bytes at Base, and an offset in what it decompresses to. If nothing is
// compressed, Base is the place of the member itself, and Packed its size.
type Place struct {
	Method       Method
	Base, Packed int64
	Offset       int64
}

// member returns the place of a part of what is at p.
func (p Place) member(off, size int64) Place {
	switch p.Method {
	case Nested:
		return p
	case Stored:
		if size < 0 || off < 0 || size > p.Packed-off {
			return Place{}
		}
		return Place{Method: Stored, Base: p.Base + off, Packed: size}
	}
	p.Offset += off
	return p
}

// unwrap returns the place of what the stream at p decompresses to.
func (p Place) unwrap(k kind) Place {
	if p.Method != Stored {
		return Place{} // a compressed stream in another
	}
	p.Method = methods[k]
	return p
}
