package scan

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// An RPM package has a lead of 96 bytes, a header with signatures that is
// padded to eight bytes, the main header, and the payload: a compressed cpio
// archive. The magic of the payload shows its compression, so the headers are
// skipped. Packages with files of 4 GiB or more are an exception: their payload
// has file indexes in place of names and sizes, which the main header has.

const (
	rpmMaxTags  = 1 << 16   // RPM's own limit
	rpmMaxData  = 256 << 20 // RPM's own limit
	rpmMaxTable = 6 << 20   // our limit for the data of a header that is kept
	rpmMaxFiles = 1 << 17   // our limit for the files and folders that it lists
	rpmMaxSigns = 32 << 20  // our limit for the data of a header with signatures of files
)

// The tags in use.
const (
	rpmSizes      = 5008 // LONGFILESIZES: 64-bit; present only if one size needs it
	rpmModes      = 1030
	rpmTimes      = 1034
	rpmFlags      = 1037
	rpmInodes     = 1096
	rpmDirIndexes = 1116
	rpmBaseNames  = 1117
	rpmDirNames   = 1118
	rpmSignatures = 274 // FILESIGNATURES: the IMA signature of each file in hex, in the header with signatures
)

// rpmTag says where the values of a tag are in the header's data, and how many
// there are.
type rpmTag struct{ off, count uint32 }

// rpmHeader reads one header structure and moves behind it. It keeps the data
// only if that describes large files, if the list of files is wanted, or if it has
// signatures of files.
func rpmHeader(s *stream, list bool) (*rpmFiles, error) {
	var intro [16]byte
	if err := s.full(intro[:]); err != nil {
		return nil, rpmError(err)
	}
	be := binary.BigEndian
	tags, size := be.Uint32(intro[8:]), be.Uint32(intro[12:])
	if string(intro[:4]) != "\x8e\xad\xe8\x01" || tags > rpmMaxTags || size > rpmMaxData {
		return nil, errors.New("rpm: damaged header")
	}
	f := &rpmFiles{tags: map[uint32]rpmTag{}}
	for range tags {
		var e [16]byte
		if err := s.full(e[:]); err != nil {
			return nil, rpmError(err)
		}
		switch tag := be.Uint32(e[:]); tag {
		case rpmSizes, rpmModes, rpmTimes, rpmFlags, rpmInodes, rpmDirIndexes, rpmBaseNames, rpmDirNames, rpmSignatures:
			f.tags[tag] = rpmTag{be.Uint32(e[8:]), be.Uint32(e[12:])}
		}
	}
	end := s.pos + int64(size)
	_, large := f.tags[rpmSizes]
	_, signed := f.tags[rpmSignatures]
	signed = signed && !list && size <= rpmMaxSigns
	if !large && !signed && (!list || size > rpmMaxTable) {
		return nil, s.skipTo(end)
	}
	if !signed && size > rpmMaxTable {
		return nil, fmt.Errorf("rpm: %w: a header of %d bytes", errLimit, size)
	}
	var data strings.Builder
	// Memory grows with the data that arrives, not with the size that is
	// claimed.
	if _, err := io.CopyN(&data, s, int64(size)); err != nil {
		return nil, rpmError(err)
	}
	f.data = data.String()
	if !large {
		return f, nil
	}
	return f, f.index()
}

// regular returns the paths of the regular files that the payload should have, without
// a slash in front; nil if the header does not say it.
func (f *rpmFiles) regular() []string {
	names, _ := f.files()
	return names
}

// files is regular with the index of each file in the package.
func (f *rpmFiles) files() (names []string, indexes []uint32) {
	const ghost = 1 << 6 // a file that the package owns and does not have
	n := f.tags[rpmBaseNames].count
	for tag, width := range map[uint32]uint64{rpmModes: 2, rpmFlags: 4, rpmDirIndexes: 4} {
		if t, ok := f.tags[tag]; !ok || t.count != n || uint64(t.off)+uint64(n)*width > uint64(len(f.data)) {
			return nil, nil
		}
	}
	bases, err := f.strings(rpmBaseNames)
	if err != nil {
		return nil, nil
	}
	dirs, err := f.strings(rpmDirNames)
	if err != nil {
		return nil, nil
	}
	names, left := make([]string, 0, n), 32<<20
	for i := range n {
		dir := f.number(rpmDirIndexes, i, 4)
		if dir >= uint64(len(dirs)) {
			return nil, nil
		}
		if f.number(rpmModes, i, 2)&cpioTypeMask != cpioRegular || f.number(rpmFlags, i, 4)&ghost != 0 {
			continue
		}
		d, b := f.text(dirs[dir]), f.text(bases[i])
		if left -= len(d) + len(b); left < 0 {
			return nil, nil // many files that share one very long folder name
		}
		names, indexes = append(names, strings.TrimPrefix(d+b, "/")), append(indexes, i)
	}
	return names, indexes
}

// maxSignature limits an IMA signature in hex: one of RSA with 16,384 bits fits.
const maxSignature = 4200

// signatures returns the IMA signatures of regular files, in lower-case hex, by their
// paths without a slash in front. signs is the header with signatures, f the main one; both may
// be nil. Values that are damaged are left out: the files are as good without them.
func (f *rpmFiles) signatures(signs *rpmFiles) map[string]string {
	if f == nil || signs == nil || signs.tags[rpmSignatures].count != f.tags[rpmBaseNames].count {
		return nil
	}
	at, err := signs.strings(rpmSignatures)
	if err != nil {
		return nil
	}
	list := map[string]string{}
	names, indexes := f.files()
	for i, name := range names {
		if text := signs.text(at[indexes[i]]); len(text) <= maxSignature {
			if raw, err := hex.DecodeString(text); err == nil && len(raw) > 0 {
				list[name] = hex.EncodeToString(raw)
			}
		}
	}
	return list
}

func rpmError(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("rpm: %w", err)
}

// rpmFiles is the file list of a package with large files.
type rpmFiles struct {
	tags   map[uint32]rpmTag
	data   string
	bases  []uint32          // offset in data of each base name
	dirs   []uint32          // offset in data of each folder name
	holder map[uint32]uint32 // by inode: the last file, which has the bytes
}

// index checks that all values are within the data, and finds the strings.
func (f *rpmFiles) index() error {
	n := f.tags[rpmSizes].count
	for tag, width := range map[uint32]uint64{rpmSizes: 8, rpmModes: 2, rpmTimes: 4, rpmInodes: 4, rpmDirIndexes: 4} {
		t, ok := f.tags[tag]
		if !ok || t.count != n || uint64(t.off)+uint64(n)*width > uint64(len(f.data)) {
			return errors.New("rpm: damaged table of files")
		}
	}
	var err error
	if f.bases, err = f.strings(rpmBaseNames); err != nil {
		return err
	}
	if f.dirs, err = f.strings(rpmDirNames); err != nil {
		return err
	}
	if uint32(len(f.bases)) != n {
		return errors.New("rpm: damaged table of files")
	}
	f.holder = map[uint32]uint32{}
	for i := range n {
		f.holder[uint32(f.number(rpmInodes, i, 4))] = i
	}
	return nil
}

// strings finds the strings of a tag. Each ends with a NUL byte.
func (f *rpmFiles) strings(tag uint32) ([]uint32, error) {
	t := f.tags[tag]
	if t.count > rpmMaxFiles {
		return nil, fmt.Errorf("rpm: %w: a package of %d files", errLimit, t.count)
	}
	var starts []uint32
	at := uint64(t.off)
	for range t.count {
		if at >= uint64(len(f.data)) {
			return nil, errors.New("rpm: damaged table of names")
		}
		end := strings.IndexByte(f.data[at:], 0)
		if end < 0 {
			return nil, errors.New("rpm: damaged table of names")
		}
		starts = append(starts, uint32(at))
		at += uint64(end) + 1
	}
	return starts, nil
}

func (f *rpmFiles) text(at uint32) string {
	s := f.data[at:]
	return s[:strings.IndexByte(s, 0)]
}

// number returns value i of a tag. index has checked that it exists.
func (f *rpmFiles) number(tag, i uint32, width int) uint64 {
	off := int(f.tags[tag].off) + int(i)*width
	var n uint64
	for _, c := range []byte(f.data[off : off+width]) {
		n = n<<8 | uint64(c)
	}
	return n
}

// member returns the description of file n of the package.
func (f *rpmFiles) member(n uint64) (*cpioMember, error) {
	if f == nil || n >= uint64(len(f.bases)) {
		return nil, errors.New("the payload has a file that the package does not list")
	}
	i := uint32(n)
	dir := f.number(rpmDirIndexes, i, 4)
	if dir >= uint64(len(f.dirs)) {
		return nil, errors.New("the payload has a folder that the package does not list")
	}
	m := &cpioMember{
		name:  "." + f.text(f.dirs[dir]) + f.text(f.bases[i]),
		mode:  uint32(f.number(rpmModes, i, 2)),
		size:  int64(f.number(rpmSizes, i, 8)),
		mod:   time.Unix(int64(f.number(rpmTimes, i, 4)), 0),
		links: 1,
	}
	if m.size < 0 || m.size > 1<<60 {
		return nil, errors.New("the size of a file is out of range")
	}
	const folder = 0x4000
	switch m.mode & cpioTypeMask {
	case cpioRegular:
		if f.holder[uint32(f.number(rpmInodes, i, 4))] != i {
			m.size, m.links = 0, 2
		}
	case folder:
		m.size = 0 // the header has the size on the builder's disk
	}
	return m, nil
}

// rpm reads the payload of an RPM package.
func (w *walk) rpm(in *input, s *stream) error {
	const lead = 96
	if err := s.skipTo(lead); err != nil {
		return rpmError(err)
	}
	signs, err := rpmHeader(s, false)
	if err != nil {
		return err
	}
	if err := s.skipTo((s.pos + 7) &^ 7); err != nil {
		return rpmError(err)
	}
	listed := w.visitor != nil && in.depth == 0
	files, err := rpmHeader(s, listed || signs != nil)
	if err != nil {
		return err
	}
	if listed && files != nil {
		if names := files.regular(); names != nil {
			if w.stop(w.visitor.Contents(names)); w.ended() {
				return nil
			}
		}
	}
	signatures := files.signatures(signs)
	start := s.pos
	payload := bufio.NewReader(s)
	head, err := payload.Peek(16)
	if len(head) == 0 {
		return rpmError(err)
	}
	members := *in // read as a stream, even if the payload is not compressed
	members.at, members.reopen = nil, nil
	k := detect(head)
	if !k.compressed() {
		if string(head[:min(5, len(head))]) != "07070" {
			return fmt.Errorf("rpm: the compression of the payload is %w", errUnsupported)
		}
		members.place = in.place.member(start, in.size-start)
		return w.cpio(&members, &stream{r: payload}, files, signatures)
	}
	stored := in.place.member(start, in.size-start)
	members.place = stored.unwrap(k)
	var z io.ReadCloser
	if in.at != nil {
		if b := w.blocks(w.ctx, k, io.NewSectionReader(in.at, start, in.size-start), in.size-start, in.meter); b != nil {
			z = b
		}
	}
	if z == nil {
		if z, err = w.decompress(w.ctx, k, payload, in.meter, w.notes(stored)); err != nil {
			return rpmError(err)
		}
	}
	defer func() { _ = z.Close() }()
	return w.cpio(&members, &stream{r: z}, files, signatures)
}
