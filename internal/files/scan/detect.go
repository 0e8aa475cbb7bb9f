package scan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/symdepot/symdepot/internal/files/msi"
)

// kind is the format of a file, detected by its first bytes.
type kind int

const (
	plain kind = iota
	zipKind
	tarKind
	debKind
	rpmKind
	cpioKind
	gzipKind
	zlibKind // possibly: see walk.zlib
	zstdKind
	xzKind
	bzip2Kind
	cabinetKind
	compoundKind // possibly an installer package: see walk.msi
	imageKind    // by its name a disk image
	foreignKind  // an archive format that is not supported
)

// compressed reports whether files of this kind hold one compressed file.
func (k kind) compressed() bool { return k >= gzipKind && k <= bzip2Kind }

// magics lists the kinds that begin with fixed bytes.
var magics = []struct {
	magic string
	kind  kind
}{
	{"PK\x03\x04", zipKind},
	{"PK\x05\x06", zipKind}, // an empty archive
	{"PK\x07\x08PK\x03\x04", zipKind},
	{"!<arch>\ndebian-binary", debKind}, // any other ar archive is a static library
	{"\xed\xab\xee\xdb", rpmKind},
	{"070701", cpioKind},
	{"070702", cpioKind},
	{"\x1f\x8b\x08", gzipKind},
	{"\x28\xb5\x2f\xfd", zstdKind},
	{"\xfd7zXZ\x00", xzKind},
	{"MSCF\x00\x00\x00\x00", cabinetKind},
	{msi.Magic, compoundKind},
	{"7z\xbc\xaf\x27\x1c", foreignKind},
	{"Rar!\x1a\x07", foreignKind},
	{"xar!\x00\x1c", foreignKind},
	{"hsqs", foreignKind},
}

func detect(head []byte) kind {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.kind
		}
	}
	switch {
	case isBzip2(head):
		return bzip2Kind
	case isTar(head):
		return tarKind
	case isSkippableZstd(head):
		return zstdKind
	case len(head) > 2 && head[0] == 0x78 && head[1]&0x20 == 0 && binary.BigEndian.Uint16(head)%31 == 0:
		return zlibKind // deflate, window of 32 KiB, no dictionary, valid check bits
	}
	return plain
}

// isBzip2 checks for "BZh", a level, and the magic of a block or of the end.
func isBzip2(head []byte) bool {
	if len(head) < 10 || string(head[:3]) != "BZh" || head[3] < '1' || head[3] > '9' {
		return false
	}
	m := string(head[4:10])
	return m == "1AY&SY" || m == "\x17\x72\x45\x38\x50\x90"
}

// isSkippableZstd recognizes the output of parallel zstd tools, which begins
// with a skippable frame.
func isSkippableZstd(head []byte) bool {
	if len(head) < 8 || head[0]&0xf0 != 0x50 || string(head[1:4]) != "\x2a\x4d\x18" {
		return false
	}
	next := 8 + uint64(binary.LittleEndian.Uint32(head[4:]))
	return next < uint64(len(head)) && bytes.HasPrefix(head[next:], []byte("\x28\xb5\x2f\xfd"))
}

// isTar checks the checksum of the first header, because old tar files have no
// magic.
func isTar(head []byte) bool {
	if len(head) < 512 || head[0] == 0 {
		return false
	}
	var want, unsigned, digits int64
	field := bytes.Trim(head[148:156], " \x00")
	for _, c := range field {
		if c < '0' || c > '7' {
			return false
		}
		want = want<<3 | int64(c-'0')
		digits++
	}
	var signed int64
	for i, c := range head[:512] {
		if i >= 148 && i < 156 {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	return digits > 0 && (want == unsigned || want == signed)
}

// suffixes lists how the name of a compressed file changes when it is
// decompressed.
var suffixes = []struct{ packed, plain string }{
	{".gz", ""}, {".zz", ""}, {".zlib", ""}, {".zst", ""}, {".zstd", ""}, {".xz", ""}, {".bz2", ""},
	{".tgz", ".tar"}, {".tzst", ".tar"}, {".txz", ".tar"}, {".tbz", ".tar"}, {".tbz2", ".tar"},
}

// unpackedName returns the name of a decompressed file. It ignores the name in
// a gzip header.
func unpackedName(name string) string {
	for _, s := range suffixes {
		if cut := len(name) - len(s.packed); cut > 0 && strings.EqualFold(name[cut:], s.packed) {
			return name[:cut] + s.plain
		}
	}
	return name
}

func zlibName(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".zz") || strings.HasSuffix(name, ".zlib")
}

// foreignName returns the name of the format of a foreignKind file, as an
// error.
func foreignName(head []byte) error {
	names := map[byte]string{'7': "7z", 'R': "rar", 'x': "xar, an installer package of macOS", 'h': "squashfs"}
	return errors.New(names[head[0]])
}
