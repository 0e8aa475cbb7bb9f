// Package hfsplus lists the files of a volume of the file system HFS+ (Mac OS Extended) and reads their bytes.
//
// The format is that of Apple's Technical Note TN1150. All numbers are big-endian. Files are in one tree, the
// catalog, by the number of their folder and their name; a tree of extents has the pieces of files that lie in more
// than eight.
package hfsplus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf16"
)

// Errors of Open and Each.
var (
	// ErrFormat means that a volume is damaged.
	ErrFormat = errors.New("hfsplus: damaged")
	// ErrLimit means that a volume is larger than what is read.
	ErrLimit = errors.New("hfsplus: over the limit")
)

// Limits of a volume.
const (
	maxFolders = 1 << 18
	maxNames   = 32 << 20 // bytes of the names of folders
	maxExtents = 1 << 20  // in the tree of extents
	maxNode    = 32 << 10
	maxTree    = 1 << 30 // bytes of a tree
	maxPath    = 4096
	maxDepth   = 128
)

// Volume is an open volume.
type Volume struct {
	src   io.ReaderAt
	size  int64
	block int64 // bytes of an allocation block

	catalog *tree
	more    map[uint32][]extent // pieces of files that have more than eight
	folders map[uint32]folder
}

// folder is a folder of the catalog.
type folder struct {
	parent uint32
	name   string
}

// extent is a piece of a file, in allocation blocks.
type extent struct{ start, count uint32 }

// File is a file of a volume.
type File struct {
	// Path has slashes, and begins at the root of the volume. Accents are characters of their own, as they are stored.
	Path    string
	Size    int64
	ModTime time.Time
	// Compressed says that the bytes are compressed by the file system, in an attribute. They cannot be read.
	Compressed bool

	vol  *Volume
	id   uint32
	fork fork
}

// fork says where the bytes of a file are.
type fork struct {
	size  int64
	first [8]extent
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// readAt fills p from src.
func readAt(src io.ReaderAt, p []byte, off int64) error {
	n, err := src.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return damaged("cut off at %d", off+int64(n))
	}
	return err
}

// readFork reads the 80 bytes that describe a fork.
func readFork(b []byte) fork {
	be := binary.BigEndian
	f := fork{size: int64(be.Uint64(b) & (1<<63 - 1))}
	for i := range f.first {
		f.first[i] = extent{be.Uint32(b[16+8*i:]), be.Uint32(b[20+8*i:])}
	}
	return f
}

// Numbers of the files of a volume.
const (
	rootFolder  = 2
	extentsFile = 3
	catalogFile = 4
)

// Open reads the header and the folders of a volume of size bytes: at most some 128 MiB are held.
func Open(src io.ReaderAt, size int64) (*Volume, error) {
	const at, length = 1024, 512
	h := make([]byte, length)
	if err := readAt(src, h, at); err != nil {
		return nil, err
	}
	be := binary.BigEndian
	v := &Volume{src: src, size: size, block: int64(be.Uint32(h[40:])), more: map[uint32][]extent{}}
	if sign := string(h[:2]); sign != "H+" && sign != "HX" {
		return nil, damaged("no volume")
	}
	if v.block < 512 || v.block&(v.block-1) != 0 {
		return nil, damaged("blocks of %d bytes", v.block)
	}
	if f := readFork(h[192:]); f.size > 0 {
		t, err := v.openTree(extentsFile, f)
		if err != nil {
			return nil, err
		}
		if err := v.readExtents(t); err != nil {
			return nil, err
		}
	}
	var err error
	if v.catalog, err = v.openTree(catalogFile, readFork(h[272:])); err != nil {
		return nil, err
	}
	return v, v.readFolders()
}

// readExtents reads the tree of extents: those of the data forks.
func (v *Volume) readExtents(t *tree) error {
	n := 0
	return t.each(func(key, data []byte) error {
		be := binary.BigEndian
		if len(key) < 10 || len(data) < 64 {
			return damaged("a record of extents of %d bytes", len(data))
		}
		if key[0] != 0 {
			return nil // a resource fork
		}
		id := be.Uint32(key[2:])
		for i := range 8 {
			e := extent{be.Uint32(data[8*i:]), be.Uint32(data[8*i+4:])}
			if e.count == 0 {
				break
			}
			if n++; n > maxExtents {
				return fmt.Errorf("%w: more than %d extents", ErrLimit, maxExtents)
			}
			v.more[id] = append(v.more[id], e)
		}
		return nil
	})
}

// Kinds of records of the catalog.
const (
	folderRecord = 1
	fileRecord   = 2
)

// readFolders reads the folders of the catalog.
func (v *Volume) readFolders() error {
	v.folders = map[uint32]folder{}
	names := 0
	return v.catalog.each(func(key, data []byte) error {
		if len(data) < 12 || binary.BigEndian.Uint16(data) != folderRecord {
			return nil
		}
		parent, name, err := catalogKey(key)
		if err != nil {
			return err
		}
		if names += len(name); len(v.folders) >= maxFolders || names > maxNames {
			return fmt.Errorf("%w: more than %d folders, or names of them of more than %d bytes", ErrLimit, maxFolders, maxNames)
		}
		v.folders[binary.BigEndian.Uint32(data[8:])] = folder{parent, name}
		return nil
	})
}

// catalogKey returns the parent and the name in a key of the catalog. A slash in a name stands as a colon, as the
// system shows it to programs.
func catalogKey(key []byte) (parent uint32, name string, err error) {
	be := binary.BigEndian
	if len(key) < 6 {
		return 0, "", damaged("a key of %d bytes", len(key))
	}
	n := int(be.Uint16(key[4:]))
	if n > 255 || len(key) < 6+2*n {
		return 0, "", damaged("a name of %d characters in a key of %d bytes", n, len(key))
	}
	text := make([]uint16, n)
	for i := range text {
		text[i] = be.Uint16(key[6+2*i:])
	}
	return be.Uint32(key), strings.ReplaceAll(string(utf16.Decode(text)), "/", ":"), nil
}

// path returns the path of a folder with a slash behind it; empty: the root. ok is false if it does not lead to the root.
func (v *Volume) path(id uint32) (path string, ok bool) {
	for range maxDepth {
		if id == rootFolder {
			return path, true
		}
		f, known := v.folders[id]
		if !known || len(path) > maxPath {
			return "", false
		}
		path = f.name + "/" + path
		id = f.parent
	}
	return "", false
}

// Each calls do for the regular files of the volume, in the order of the catalog. An error of do ends it.
func (v *Volume) Each(do func(f *File) error) error {
	const length, typeMask, regular, flagCompressed = 248, 0xf000, 0x8000, 0x20
	be := binary.BigEndian
	last, path, known := uint32(0), "", false
	return v.catalog.each(func(key, data []byte) error {
		if len(data) < 2 || be.Uint16(data) != fileRecord {
			return nil
		}
		parent, name, err := catalogKey(key)
		if err != nil {
			return err
		}
		if len(data) < length {
			return damaged("the record of a file has %d bytes", len(data))
		}
		mode := be.Uint16(data[42:])
		if kind := mode & typeMask; kind != 0 && kind != regular {
			return nil
		}
		if string(data[48:56]) == "hlnkhfs+" {
			return nil // a hard link: the file itself is in a hidden folder
		}
		if parent != last || !known {
			if path, known = v.path(parent); !known {
				return damaged("the folder %d does not lead to the root", parent)
			}
			last = parent
		}
		f := &File{Path: path + name, vol: v, id: be.Uint32(data[8:]), fork: readFork(data[88:]), Compressed: data[41]&flagCompressed != 0}
		f.Size = f.fork.size
		if s := int64(be.Uint32(data[16:])); s > 0 {
			const epoch = 2082844800 // seconds from 1904 to 1970
			f.ModTime = time.Unix(s-epoch, 0).UTC()
		}
		return do(f)
	})
}

// Open returns the bytes of a file.
func (f *File) Open() (io.ReaderAt, error) {
	if f.Compressed {
		return nil, errors.New("hfsplus: the file is compressed by the file system")
	}
	return f.vol.open(f.id, f.fork)
}

// open returns the bytes of a fork.
func (v *Volume) open(id uint32, f fork) (*content, error) {
	if f.size > v.size {
		return nil, damaged("a file of %d bytes in a volume of %d", f.size, v.size)
	}
	c := &content{src: v.src, size: f.size}
	total := int64(0)
	for _, list := range [][]extent{f.first[:], v.more[id]} {
		for _, e := range list {
			if e.count == 0 || total >= f.size {
				break
			}
			n := int64(e.count) * v.block
			off := int64(e.start) * v.block
			if off > v.size || n > v.size-off {
				return nil, damaged("a piece of a file lies outside of the volume")
			}
			c.runs = append(c.runs, run{total, off, n})
			total += n
		}
	}
	if total < f.size {
		return nil, damaged("a file of %d bytes has only %d", f.size, total)
	}
	return c, nil
}

// content is the bytes of a file. Several goroutines may read it.
type content struct {
	src  io.ReaderAt
	size int64
	runs []run
}

// run is a piece of a file: where it is in the file and in the volume, and its size, in bytes.
type run struct{ at, off, n int64 }

// ReadAt implements io.ReaderAt.
func (c *content) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("hfsplus: negative offset")
	}
	short := off >= c.size || int64(len(p)) > c.size-off
	if short {
		p = p[:max(0, c.size-off)]
	}
	low, high := 0, len(c.runs)
	for low+1 < high {
		if mid := (low + high) / 2; c.runs[mid].at <= off {
			low = mid
		} else {
			high = mid
		}
	}
	for i := low; n < len(p); i++ {
		r := c.runs[i]
		skip := off + int64(n) - r.at
		part := p[n:min(int64(len(p)), int64(n)+r.n-skip)]
		if err := readAt(c.src, part, r.off+skip); err != nil {
			return n, err
		}
		n += len(part)
	}
	if short {
		return n, io.EOF
	}
	return n, nil
}
