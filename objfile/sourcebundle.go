package objfile

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of the source bundle reader, in bytes.
const (
	bundleHeader    = 8          // "SYSB" and a version; offsets of the ZIP archive count from the start of the file
	zipEndSearch    = 66 << 10   // the end record and the longest comment
	zipTail         = 128 << 10  // of the central directory; the manifest is its last entry
	maxManifestZip  = 6 << 20    // compressed
	maxManifest     = 64 << 20   // inflated, streamed
	maxManifestWord = 1024       // of one attribute's name or value
	zipEntrySize    = 46         // of a central directory entry without its name
	zip64Marker     = 0xffffffff // the value is in a zip64 record
)

const manifestName = "manifest.json"

// identifySourceBundle reads the attributes in the manifest of Sentry's source
// bundle. It ignores the list of source files.
func identifySourceBundle(b *budget, head []byte, name string) ([]Object, error) {
	if len(head) < bundleHeader {
		return nil, broken("a source bundle of %d bytes", b.size)
	}
	if v := binary.LittleEndian.Uint32(head[4:]); v == 0 || v > 2 {
		return nil, broken("the source bundle has version %d, known are 1 and 2", v)
	}
	entry, err := findManifest(b)
	if err != nil {
		return nil, err
	}
	// The manifest lists all source files before the ids. A large bundle is
	// therefore the only file whose ids may exceed the id budget.
	b.allowFeatures()
	attributes, err := readManifest(b, entry)
	if err != nil {
		return nil, err
	}
	return bundleObject(b, attributes, name)
}

// zipEntry is a member of the bundle.
type zipEntry struct {
	method           uint16
	packed, unpacked int64
	off              int64 // of the local header
}

// findManifest searches the end of the central directory for the manifest,
// which writers of bundles add last.
func findManifest(b *budget) (zipEntry, error) {
	dirOff, dirSize, err := zipDirectory(b)
	if err != nil {
		return zipEntry{}, err
	}
	n := min(dirSize, zipTail)
	dir, err := b.bytes(dirOff+dirSize-n, n)
	if err != nil {
		return zipEntry{}, err
	}
	le := binary.LittleEndian
	for at := len(dir); ; {
		at = bytes.LastIndex(dir[:at], []byte("PK\x01\x02"))
		if at < 0 {
			return zipEntry{}, broken("the source bundle has no %s among its last files", manifestName)
		}
		e := dir[at:]
		if len(e) < zipEntrySize+len(manifestName) || le.Uint16(e[28:]) != uint16(len(manifestName)) ||
			string(e[zipEntrySize:zipEntrySize+len(manifestName)]) != manifestName {
			continue
		}
		z := zipEntry{
			method: le.Uint16(e[10:]), packed: int64(le.Uint32(e[20:])), unpacked: int64(le.Uint32(e[24:])), off: int64(le.Uint32(e[42:])),
		}
		extra := e[zipEntrySize+len(manifestName):]
		return z, z.zip64(extra[:min(len(extra), int(le.Uint16(e[30:])))])
	}
}

// zip64 replaces the fields whose values are in the zip64 extra field.
func (z *zipEntry) zip64(extra []byte) error {
	le := binary.LittleEndian
	for len(extra) >= 4 {
		n := int(le.Uint16(extra[2:]))
		if len(extra) < 4+n {
			break
		}
		p := extra[4 : 4+n]
		if le.Uint16(extra) == 1 {
			for _, v := range []*int64{&z.unpacked, &z.packed, &z.off} {
				if *v == zip64Marker && len(p) >= 8 {
					*v, p = int64(le.Uint64(p)), p[8:]
				}
			}
		}
		extra = extra[4+n:]
	}
	if z.packed < 0 || z.unpacked < 0 || z.off < 0 {
		return broken("the source bundle's manifest has an invalid size")
	}
	return nil
}

// zipDirectory finds the central directory.
func zipDirectory(b *budget) (off, size int64, err error) {
	n := min(b.size-bundleHeader, zipEndSearch)
	tail, err := b.bytes(b.size-n, n)
	if err != nil {
		return 0, 0, err
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || len(tail)-at < 22 {
		return 0, 0, broken("the source bundle's ZIP archive has no end record: the file may be truncated")
	}
	le := binary.LittleEndian
	size, off = int64(le.Uint32(tail[at+12:])), int64(le.Uint32(tail[at+16:]))
	if off == zip64Marker || size == zip64Marker {
		if at < 20 || string(tail[at-20:at-16]) != "PK\x06\x07" {
			return 0, 0, broken("the source bundle's ZIP archive has no zip64 locator")
		}
		end, err := b.bytes(int64(le.Uint64(tail[at-12:])), 56)
		if err != nil {
			return 0, 0, err
		}
		if string(end[:4]) != "PK\x06\x06" {
			return 0, 0, broken("the source bundle's ZIP archive has no zip64 end record")
		}
		size, off = int64(le.Uint64(end[40:])), int64(le.Uint64(end[48:]))
	}
	if off < 0 || size < 0 || off > b.size || size > b.size-off {
		return 0, 0, broken("the source bundle's directory of %d bytes at offset %d lies outside the file of %d bytes", size, off, b.size)
	}
	return off, size, nil
}

// readManifest inflates the manifest and returns its attributes.
func readManifest(b *budget, z zipEntry) (map[string]string, error) {
	if z.packed > maxManifestZip || z.unpacked > maxManifest {
		return nil, broken("the source bundle's manifest claims %d bytes, %d of them packed", z.unpacked, z.packed)
	}
	h, err := b.bytes(z.off, 30)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if string(h[:4]) != "PK\x03\x04" {
		return nil, broken("the source bundle's manifest is not where the directory says")
	}
	data := z.off + 30 + int64(le.Uint16(h[26:])) + int64(le.Uint16(h[28:]))
	if data+z.packed > b.size {
		return nil, broken("the source bundle's manifest lies outside the file of %d bytes", b.size)
	}
	var r io.Reader = io.NewSectionReader(b, data, z.packed)
	switch z.method {
	case 0:
	case 8:
		r = flate.NewReader(r)
	default:
		return nil, broken("the source bundle's manifest is packed by method %d", z.method)
	}
	attributes, err := flatAttributes(io.LimitReader(r, z.unpacked), maxManifestWord)
	if err != nil {
		return nil, fmt.Errorf("the source bundle's manifest: %w", err)
	}
	return attributes, nil
}

// bundleObject returns the object for the attributes of a bundle.
func bundleObject(b *budget, attributes map[string]string, name string) ([]Object, error) {
	o := b.whole(symfile.Object{Kind: symfile.SourceBundle, Role: symfile.Sources})
	if s := attributes["debug_id"]; s != "" {
		id, err := debugid.Parse(s)
		if err != nil {
			return nil, err
		}
		o.DebugID = id
	}
	code := attributes["code_id"]
	o.Name = symfile.BaseName(attributes["object_name"])
	if o.Name == "" {
		o.Name, _ = strings.CutSuffix(name, ".src.zip")
	}
	if o.Arch = archWord(attributes["arch"]); o.Arch == "unknown" {
		o.Arch = ""
	}
	o.Of = bundleKind(o.DebugID, code, o.Name, o.Arch)
	o.setCodeID(code)
	o.Features = Features{Sources: true}
	return []Object{o}, nil
}

// bundleKind returns the format of the module whose sources are in a bundle. It
// follows from the form of the ids, because the manifest does not have it.
func bundleKind(id debugid.ID, code, name, arch string) symfile.Kind {
	name = symfile.Fold(name)
	ends := func(suffixes ...string) bool {
		for _, s := range suffixes {
			if strings.HasSuffix(name, s) {
				return true
			}
		}
		return false
	}
	if strings.HasPrefix(arch, "wasm") {
		return symfile.WASM
	}
	// The stamp of a portable PDB has its top bit set; an age is a small
	// number.
	if id.Age >= 1<<31 {
		return symfile.PortablePDB
	}
	if _, err := debugid.ParsePE(code); err == nil || id.Age != 0 {
		return symfile.PE
	}
	if g, err := debugid.ParseGUID(code); err == nil && g == id.GUID && !ends(".so", ".debug") {
		return symfile.MachO
	}
	if build, err := debugid.ParseBuildID(code); err == nil &&
		(build.DebugID(true) == id || build.DebugID(false) == id) {
		return symfile.ELF
	}
	switch {
	case ends(".pdb", ".exe", ".dll", ".sys", ".ocx"):
		return symfile.PE
	case ends(".dylib", ".dsym"):
		return symfile.MachO
	case ends(".wasm"):
		return symfile.WASM
	case ends(".so", ".debug"), strings.Contains(name, ".so."):
		return symfile.ELF
	}
	return symfile.KindUnknown
}

var errJSON = errors.New("not a JSON object")

// flatAttributes returns the members of a JSON object whose values are strings.
// It keeps nothing else in memory, so that a manifest of a million files takes
// time only. It omits names and values of more than limit bytes.
func flatAttributes(r io.Reader, limit int) (map[string]string, error) {
	s := &jsonScanner{limit: limit, attributes: map[string]string{}}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		for _, c := range buf[:n] {
			if err := s.next(c); err != nil {
				return nil, err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if !s.started || s.depth != 0 || s.quoted {
		return nil, fmt.Errorf("%w: unexpected end", errJSON)
	}
	return s.attributes, nil
}

// jsonScanner tracks quotes and braces. It does not validate the text between
// them.
type jsonScanner struct {
	limit      int
	attributes map[string]string

	started bool
	depth   int
	quoted  bool
	escape  int // remaining bytes of an escape
	long    bool
	text    []byte // of the current string at depth 1
	key     string
	isValue bool // a colon followed the key
}

func (s *jsonScanner) next(c byte) error {
	if s.quoted {
		s.inString(c)
		return nil
	}
	switch c {
	case '"':
		s.quoted, s.long, s.text = true, false, s.text[:0]
	case '{', '[':
		if !s.started && c != '{' {
			return errJSON
		}
		s.started = true
		s.depth++
	case '}', ']':
		s.depth--
	case ':':
		if s.depth == 1 {
			s.isValue = true
		}
	case ',':
		if s.depth == 1 {
			s.isValue = false
		}
	case ' ', '\t', '\r', '\n':
	default:
		if !s.started {
			return errJSON
		}
	}
	if s.depth < 0 || s.started && s.depth == 0 && c != '}' && c > ' ' {
		return errJSON
	}
	return nil
}

func (s *jsonScanner) inString(c byte) {
	switch {
	case s.escape > 0:
		s.escape--
	case c == '\\':
		s.escape = 1
	case c == '"':
		s.quoted = false
		s.endString()
		return
	}
	if s.depth != 1 || s.long {
		return
	}
	if len(s.text) >= s.limit {
		s.long = true
		return
	}
	s.text = append(s.text, c)
}

// endString handles a string at the top level: a name or a value. Of a repeated
// name the last value counts, as in other JSON readers.
func (s *jsonScanner) endString() {
	if s.depth != 1 {
		return
	}
	text := ""
	if !s.long {
		text = unescape(s.text)
	}
	switch {
	case !s.isValue:
		s.key = text
	case s.key != "" && len(s.attributes) < 64:
		s.attributes[s.key] = text
	}
}

// unescape resolves the escapes of a JSON string.
func unescape(p []byte) string {
	var s string
	if json.Unmarshal([]byte(`"`+string(p)+`"`), &s) != nil {
		return ""
	}
	return s
}
