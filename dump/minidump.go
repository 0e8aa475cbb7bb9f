package dump

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/symdepot/symdepot/debugid"
)

// Stream types and record sizes of the minidump format (minidumpapiset.h).
const (
	streamModules    = 4
	streamMemory     = 5
	streamSystem     = 7
	streamMemory64   = 9
	streamUnloaded   = 14
	maxStreams       = 4096
	headerSize       = 32
	directorySize    = 12
	moduleSize       = 108
	memorySize       = 16
	unloadedSize     = 24
	maxCodeView      = 32 << 10 // a record with the longest path of Windows
	minidumpVersion  = 0xa793
	maxUnloadedEntry = 4096
)

var miniArchs = map[uint16]string{
	0: "x86", 1: "mips", 2: "alpha", 3: "ppc", 4: "sh", 5: "arm", 6: "ia64", 7: "alpha64", 9: "x86_64", 10: "x86", 12: "arm64",
	0x8001: "sparc", 0x8002: "ppc64", 0x8003: "arm64", 0x8004: "mips64", 0x8005: "riscv32", 0x8006: "riscv64",
}

// The first four are Windows systems. Breakpad has added the others.
var miniSystems = map[uint32]string{
	0: "windows", 1: "windows", 2: "windows", 3: "windows",
	0x8000: "unix", 0x8101: "macos", 0x8102: "ios", 0x8201: "linux", 0x8202: "solaris", 0x8203: "android",
	0x8204: "ps3", 0x8205: "nacl", 0x8206: "fuchsia",
}

type stream struct {
	size uint32
	at   uint64
}

// minidump is a minidump while it is read.
type minidump struct {
	*Dump
	s       *source
	list    window // lists
	loose   window // for names and CodeView records, which may be anywhere
	mem     memory
	streams map[uint32]stream
	text    []byte // of the current name
	listed  []int  // of each record of a module, its index in Modules or -1
}

func readMinidump(s *source) (*Dump, error) {
	m, err := startMinidump(s, &Dump{})
	if err != nil {
		return nil, err
	}
	if err := m.modules(); err != nil {
		return nil, err
	}
	m.unloaded()
	return m.Dump, nil
}

// startMinidump reads what all other streams depend on into d.
func startMinidump(s *source, d *Dump) (*minidump, error) {
	d.Kind = Minidump
	m := &minidump{
		Dump: d, s: s, mem: memory{s: s}, streams: map[uint32]stream{},
		list: window{s: s, ahead: 32 << 10}, loose: window{s: s, ahead: 4 << 10},
	}
	if err := m.directory(); err != nil {
		return nil, err
	}
	m.system()
	m.memory()
	return m, nil
}

// directory finds the streams. Of several of one type the first counts.
func (m *minidump) directory() error {
	h, err := m.list.bytes(0, headerSize)
	if err != nil {
		return broken("minidump: %w", err)
	}
	if v := binary.LittleEndian.Uint16(h[4:]); v != minidumpVersion {
		return broken("minidump: version %#x is unknown", v)
	}
	n, at := binary.LittleEndian.Uint32(h[8:]), uint64(binary.LittleEndian.Uint32(h[12:]))
	if t := binary.LittleEndian.Uint32(h[20:]); t != 0 {
		m.Time = time.Unix(int64(t), 0).UTC()
	}
	if n > maxStreams {
		return broken("minidump: %d streams", n)
	}
	for i := range uint64(n) {
		p, err := m.list.bytes(at+i*directorySize, directorySize)
		if err != nil {
			return broken("minidump: directory of %d streams: %w", n, err)
		}
		typ := binary.LittleEndian.Uint32(p)
		if _, ok := m.streams[typ]; !ok {
			m.streams[typ] = stream{size: binary.LittleEndian.Uint32(p[4:]), at: uint64(binary.LittleEndian.Uint32(p[8:]))}
		}
	}
	return nil
}

func (m *minidump) system() {
	st, ok := m.streams[streamSystem]
	if !ok {
		return
	}
	p, err := m.list.bytes(st.at, 24)
	if err != nil || st.size < 24 {
		m.problem("the system information stream cannot be read")
		return
	}
	m.Arch = miniArchs[binary.LittleEndian.Uint16(p)]
	m.OS = miniSystems[binary.LittleEndian.Uint32(p[20:])]
}

// count reads the number at the start of a list and finds the first item: some
// writers align it to eight bytes.
func (m *minidump) count(st stream, item int) (n uint32, at uint64, err error) {
	p, err := m.list.bytes(st.at, 4)
	if err != nil {
		return 0, 0, err
	}
	n, at = binary.LittleEndian.Uint32(p), st.at+4
	if uint64(st.size) == 8+uint64(n)*uint64(item) {
		at += 4
	}
	return n, at, nil
}

// memory reads both lists of memory regions. It only improves the results, so a
// damaged list is not an error.
func (m *minidump) memory() {
	if st, ok := m.streams[streamMemory]; ok {
		n, at, err := m.count(st, memorySize)
		m.mem.regions = make([]region, 0, m.s.maxItems(uint64(n), memorySize, maxRegions))
		for i := uint64(0); err == nil && i < uint64(n) && i < maxRegions; i++ {
			var p []byte
			if p, err = m.list.bytes(at+i*memorySize, memorySize); err == nil {
				m.mem.regions = append(m.mem.regions, region{addr: binary.LittleEndian.Uint64(p),
					size: uint64(binary.LittleEndian.Uint32(p[8:])), off: uint64(binary.LittleEndian.Uint32(p[12:]))})
			}
		}
		m.damaged("list of memory", err)
	}
	if st, ok := m.streams[streamMemory64]; ok {
		m.damaged("list of all memory", m.memory64(st))
	}
	m.mem.sort()
}

// memory64 reads the list of a full dump, in which the bytes of all regions are
// contiguous.
func (m *minidump) memory64(st stream) error {
	p, err := m.list.bytes(st.at, 16)
	if err != nil {
		return err
	}
	n, off := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
	m.mem.regions = slices.Grow(m.mem.regions, m.s.maxItems(n, memorySize, maxRegions-len(m.mem.regions)))
	for i := uint64(0); i < n && len(m.mem.regions) < maxRegions; i++ {
		p, err := m.list.bytes(st.at+16+i*memorySize, memorySize)
		if err != nil {
			return err
		}
		size := binary.LittleEndian.Uint64(p[8:])
		if off+size < off {
			return errOutside
		}
		m.mem.regions = append(m.mem.regions, region{addr: binary.LittleEndian.Uint64(p), size: size, off: off})
		off += size
	}
	if off > uint64(m.s.size) {
		m.problem("the file ends before its memory does: it is truncated")
	}
	return nil
}

func (m *minidump) damaged(what string, err error) {
	if err != nil {
		m.problem("the %s cannot be read: %v", what, err)
	}
}

// modules reads the list of loaded modules. A truncated list gives the modules
// that it has. An unreadable start is an error.
func (m *minidump) modules() error {
	st, ok := m.streams[streamModules]
	if !ok {
		return broken("minidump: there is no list of modules")
	}
	n, at, err := m.count(st, moduleSize)
	if err != nil {
		return broken("minidump: list of modules: %w", err)
	}
	for i := range uint64(n) {
		if i == maxModules {
			m.problem("%d modules are listed; the first %d are read", n, maxModules)
			break
		}
		p, err := m.list.bytes(at+i*moduleSize, moduleSize)
		if err != nil {
			if i == 0 {
				return broken("minidump: list of %d modules: %w", n, err)
			}
			m.problem("the list of %d modules ends after %d: %v", n, i, err)
			break
		}
		if err := m.module(p); err != nil {
			if errors.Is(err, errLimit) || errors.Is(err, errText) {
				m.problem("module %d of %d and the following: %v", i+1, n, err)
				break
			}
			m.problem("module %d of %d: %v", i+1, n, err)
		}
	}
	return nil
}

// module adds the module of one record.
func (m *minidump) module(p []byte) error {
	le := binary.LittleEndian
	mod := Module{Base: le.Uint64(p), Size: uint64(le.Uint32(p[8:]))}
	code := debugid.PE{TimeDateStamp: le.Uint32(p[16:]), SizeOfImage: le.Uint32(p[8:])}
	nameAt, cvSize, cvAt := le.Uint32(p[20:]), le.Uint32(p[76:]), le.Uint32(p[80:])
	name, err := m.name(nameAt)
	mod.setPath(name, m.OS)
	cvErr := m.codeView(&mod, cvSize, cvAt)
	if m.OS == "windows" || m.OS == "" && mod.BuildID == "" {
		mod.Code = code
	}
	if mod.BuildID == "" && mod.UUID.IsZero() && m.s.left > 0 {
		m.mem.identify(&mod)
	}
	m.listed = append(m.listed, -1)
	if mod.Path != "" || mod.HasID() {
		m.listed[len(m.listed)-1] = len(m.Modules)
		m.Modules = append(m.Modules, mod)
	}
	if err != nil {
		return err
	}
	return cvErr
}

// name reads a MINIDUMP_STRING: a length in bytes, then UTF-16.
func (m *minidump) name(at uint32) (string, error) {
	p, err := m.loose.bytes(uint64(at), 4)
	if err != nil {
		return "", err
	}
	n := binary.LittleEndian.Uint32(p)
	if n > maxItem-4 {
		return "", errors.New("the name is longer than the longest path")
	}
	p, err = m.loose.bytes(uint64(at)+4, int(n))
	if err != nil {
		return "", err
	}
	m.text = appendUTF16(m.text[:0], p)
	name := string(m.text)
	return name, m.s.keep(name)
}

// appendUTF16 appends the text of p up to its first zero.
func appendUTF16(text, p []byte) []byte {
	for len(p) >= 2 {
		r := rune(binary.LittleEndian.Uint16(p))
		if r == 0 {
			break
		}
		p = p[2:]
		if utf16.IsSurrogate(r) {
			low := rune(0)
			if len(p) >= 2 {
				low = rune(binary.LittleEndian.Uint16(p))
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				p = p[2:]
			}
		}
		text = utf8.AppendRune(text, r)
	}
	return text
}

func utf16Text(p []byte) string { return string(appendUTF16(nil, p)) }

// codeView reads the record of the debug information of a module.
func (m *minidump) codeView(mod *Module, size, at uint32) error {
	if size == 0 || at == 0 {
		return nil
	}
	p, err := m.loose.bytes(uint64(at), int(min(size, maxCodeView)))
	if err != nil {
		return err
	}
	if len(p) > 4 && string(p[:4]) == "LEpB" {
		mod.BuildID = buildID(p[4:])
		return nil
	}
	d, ok := parseCodeView(p)
	if !ok {
		return nil // other records have no id that a server could have
	}
	switch m.OS {
	case "macos", "ios":
		mod.UUID = d.ID.GUID // Breakpad stores the UUID in the form of a GUID
	default:
		mod.Debug = append(mod.Debug, d)
	}
	return m.s.keep(d.Path)
}

// buildID converts the bytes of a record or note to a build-id. It returns none
// for a length that no client can send.
func buildID(p []byte) debugid.BuildID {
	if len(p) > debugid.MaxBuildID {
		return ""
	}
	if strings.Trim(string(p), "\x00") == "" {
		return "" // Crashpad and Breakpad write zeros for "none"
	}
	return debugid.NewBuildID(p)
}

// parseCodeView reads an RSDS or NB10 record.
func parseCodeView(p []byte) (Debug, bool) {
	var d Debug
	switch {
	case len(p) >= 24 && string(p[:4]) == "RSDS":
		d.ID = debugid.ID{GUID: debugid.FromMicrosoft([16]byte(p[4:20])), Age: binary.LittleEndian.Uint32(p[20:])}
		d.Path = cString(p[24:])
	case len(p) >= 16 && string(p[:4]) == "NB10":
		d.ID = debugid.PDB20(binary.LittleEndian.Uint32(p[8:]), binary.LittleEndian.Uint32(p[12:]))
		d.Path = cString(p[16:])
	}
	d.Name = d.Path[strings.LastIndexAny(d.Path, `/\`)+1:]
	return d, !d.ID.IsZero()
}

// cString returns the text up to the first zero byte.
func cString(p []byte) string {
	s, _, _ := strings.Cut(string(p), "\x00")
	return strings.ToValidUTF8(s, "\uFFFD")
}

// unloaded reads the list of modules that were unloaded before the dump. Not
// all dumps have it.
func (m *minidump) unloaded() {
	st, ok := m.streams[streamUnloaded]
	if !ok {
		return
	}
	p, err := m.list.bytes(st.at, 12)
	if err != nil {
		m.damaged("list of unloaded modules", err)
		return
	}
	le := binary.LittleEndian
	head, item, n := le.Uint32(p), le.Uint32(p[4:]), le.Uint32(p[8:])
	if head < 12 || item < unloadedSize || item > maxUnloadedEntry {
		m.problem("the list of unloaded modules cannot be read")
		return
	}
	for i := uint64(0); i < uint64(n) && len(m.Modules) < maxModules; i++ {
		p, err := m.list.bytes(st.at+uint64(head)+i*uint64(item), unloadedSize)
		if err != nil {
			m.damaged("list of unloaded modules", err)
			return
		}
		mod := Module{Base: le.Uint64(p), Size: uint64(le.Uint32(p[8:])), Unloaded: true}
		if m.OS == "windows" || m.OS == "" {
			mod.Code = debugid.PE{TimeDateStamp: le.Uint32(p[16:]), SizeOfImage: le.Uint32(p[8:])}
		}
		name, err := m.name(le.Uint32(p[20:]))
		if err != nil {
			m.damaged("list of unloaded modules", err)
			return
		}
		mod.setPath(name, m.OS)
		m.Modules = append(m.Modules, mod)
	}
}
