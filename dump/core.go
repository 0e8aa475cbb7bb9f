package dump

import (
	"encoding/binary"
	"path"
	"sort"
	"strings"
)

// Numbers of ELF core files (elf.h).
const (
	noteFiles   = 0x46494c45 // "FILE": the list of mapped files
	manySegs    = 0xffff     // e_phnum is too small: section 0 has the number
	maxCoreNote = 1 << 20    // notes; a thousand threads have about five each
)

var coreArchs = map[uint16]string{
	2: "sparc", 3: "x86", 4: "m68k", 6: "x86", 8: "mips", 15: "hppa", 18: "sparc", 20: "ppc", 21: "ppc64", 22: "s390", 40: "arm",
	41: "alpha", 42: "sh", 43: "sparc64", 50: "ia64", 62: "x86_64", 183: "arm64", 243: "riscv32", 258: "loongarch32", 0x9026: "alpha",
}

// wideArchs are the names of processors that differ for 64-bit files.
var wideArchs = map[uint16]string{8: "mips64", 22: "s390x", 243: "riscv64", 258: "loongarch64"}

var coreSystems = map[byte]string{2: "netbsd", 3: "linux", 6: "solaris", 9: "freebsd", 12: "openbsd"}

// noteOwners maps the names of notes to operating systems. Linux and Solaris
// both write CORE, but the file header of Solaris differs.
var noteOwners = map[string]string{"LINUX": "linux", "CORE": "linux", "FreeBSD": "freebsd", "NetBSD-CORE": "netbsd", "OpenBSD": "openbsd"}

// core is an ELF core file while it is read.
type core struct {
	*Dump
	s     *source
	h     elfHeader
	mem   memory
	notes []region     // where the notes are
	files bool         // there is a list of mapped files
	more  *coreProcess // nil if only the modules are read
}

func readCore(s *source) (*Dump, error) {
	c := &core{Dump: &Dump{}, s: s}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c.Dump, nil
}

func (c *core) read() error {
	s := c.s
	c.Kind, c.mem = ELFCore, memory{s: s}
	p := make([]byte, min(s.size, 64))
	if err := s.readAt(p, 0); err != nil {
		return broken("core: %w", err)
	}
	var ok bool
	if c.h, ok = parseELF(p); !ok {
		return broken("core: the file header is cut short or not one")
	}
	c.BigEndian, c.OS = c.h.order == binary.BigEndian, coreSystems[c.h.osabi]
	if c.Arch = coreArchs[c.h.machine]; c.h.is64 && wideArchs[c.h.machine] != "" {
		c.Arch = wideArchs[c.h.machine]
	}
	if err := c.segments(); err != nil {
		return err
	}
	var files []mapping
	for _, n := range c.notes {
		files = append(files, c.readNotes(n)...)
	}
	if !c.files {
		c.problem("the core has no list of mapped files; the images in its memory name themselves, if they do")
	}
	c.mapped(files)
	c.unlisted()
	if c.more != nil {
		c.more.mapped(files)
	}
	return nil
}

// segments reads the program headers: where the notes and the memory are.
func (c *core) segments() error {
	n := uint64(c.h.phnum)
	w := window{s: c.s, ahead: 64 << 10}
	if n == manySegs && c.h.shoff != 0 {
		at, length := uint64(44), 64
		if !c.h.is64 {
			at, length = 28, 40
		}
		p, err := w.bytes(c.h.shoff, length)
		if err != nil {
			return broken("core: the section header that counts the segments: %w", err)
		}
		n = uint64(c.h.order.Uint32(p[at:]))
	}
	if n == 0 {
		return broken("core: no program headers")
	}
	end := uint64(0)
	c.mem.regions = make([]region, 0, c.s.maxItems(n, int64(c.h.phentlen), maxRegions))
	for i := range n {
		p, err := w.bytes(c.h.phoff+i*uint64(c.h.phentlen), c.h.phentlen)
		if err != nil {
			if i == 0 {
				return broken("core: program headers: %w", err)
			}
			c.problem("the list of %d segments ends after %d: %v", n, i, err)
			break
		}
		s := c.h.segment(p)
		switch {
		case s.typ == segNote && len(c.notes) < 64:
			c.notes = append(c.notes, region{off: s.off, size: s.filesz})
		case s.typ == segLoad && len(c.mem.regions) < maxRegions:
			// Segments that were not dumped count too: they show which memory
			// is code.
			c.mem.regions = append(c.mem.regions, region{addr: s.vaddr, off: s.off, size: s.filesz, flags: s.flags})
			end = max(end, s.off+s.filesz)
			if c.more != nil {
				c.more.segment(s)
			}
		}
	}
	if len(c.mem.regions) == maxRegions {
		c.problem("the core has more than %d pieces of memory; the rest is not looked at", maxRegions)
	}
	if end > uint64(c.s.size) {
		c.problem("the file ends before its memory does: it is truncated")
	}
	c.mem.sort()
	return nil
}

// mapping is one mapped file of the process.
type mapping struct {
	start, end uint64
	path       string
	first      bool // it begins with the first page of the file
}

// readNotes searches the notes of one segment for the list of mapped files.
func (c *core) readNotes(at region) []mapping {
	w := window{s: c.s, ahead: 4 << 10}
	var files []mapping
	off, end := at.off, uint64(c.s.size)
	if at.size < end-min(off, end) {
		end = off + at.size
	}
	for range maxCoreNote {
		if off >= end || end-off < 12 {
			return files
		}
		p, err := w.bytes(off, 12)
		if err != nil {
			c.problem("the notes cannot be read: %v", err)
			return files
		}
		nameLen, descLen, typ := uint64(c.h.order.Uint32(p)), uint64(c.h.order.Uint32(p[4:])), c.h.order.Uint32(p[8:])
		desc := off + alignUp(12+nameLen, 4)
		if nameLen > 256 || desc > end || descLen > end-desc {
			c.problem("the notes are damaged or cut short at offset %#x", off)
			if nameLen > 256 || desc > end {
				return files
			}
			descLen = end - desc
		}
		owner := ""
		if p, err := w.bytes(off+12, int(nameLen)); err == nil {
			owner = cString(p)
		}
		if c.OS == "" {
			c.OS = noteOwners[owner]
		}
		if typ == noteFiles && owner == "CORE" && !c.files {
			c.files = true
			files = c.fileList(desc, descLen)
		} else if c.more != nil {
			c.more.note(owner, typ, &w, desc, descLen)
		}
		off = desc + alignUp(descLen, 4)
	}
	return files
}

// fileList reads an NT_FILE note: a count, the page size, three words for each
// mapping, and then the paths.
func (c *core) fileList(at, size uint64) []mapping {
	word := uint64(c.h.wordSize())
	if size < 2*word {
		c.problem("the list of mapped files is cut short")
		return nil
	}
	entries, names := window{s: c.s, ahead: 32 << 10}, window{s: c.s, ahead: 4 << 10}
	p, err := entries.bytes(at, int(2*word))
	if err != nil {
		c.problem("the list of mapped files cannot be read: %v", err)
		return nil
	}
	n := c.h.word(p)
	if most := (size - 2*word) / (3*word + 1); n > most {
		c.problem("the list of mapped files is damaged: it counts %d where %d fit", n, most)
		return nil
	}
	if n > maxRegions {
		c.problem("%d mappings are listed; the first %d are read", n, maxRegions)
	}
	off, end := at+2*word+n*3*word, at+size
	files := make([]mapping, 0, min(n, maxRegions))
	for i := range min(n, maxRegions) {
		text, err := readPath(&names, off, end)
		if err != nil {
			c.problem("the list of %d mapped files ends after %d: %v", n, i, err)
			break
		}
		off += uint64(len(text)) + 1
		p, err := entries.bytes(at+2*word+i*3*word, int(3*word))
		if err != nil {
			break // the paths follow all mappings
		}
		f := mapping{start: c.h.word(p), end: c.h.word(p[word:]), first: c.h.word(p[2*word:]) == 0}
		if last := len(files) - 1; last >= 0 && files[last].path == string(text) {
			f.path = files[last].path // shared string: a library has about five mappings
		} else if f.path = string(text); c.s.keep(f.path) != nil {
			c.problem("the list of %d mapped files ends after %d: %v", n, i, errText)
			break
		}
		files = append(files, f)
	}
	return files
}

// readPath returns the text at off up to its zero byte. The longest path on
// Linux has 4096 bytes.
func readPath(w *window, off, end uint64) ([]byte, error) {
	for _, try := range [2]uint64{256, 4200} {
		p, err := w.bytes(off, int(min(try, end-off)))
		if err != nil {
			return nil, err
		}
		for i, b := range p {
			if b == 0 {
				return p[:i], nil
			}
		}
	}
	return nil, errText
}

// mapped adds the images among the mapped files.
func (c *core) mapped(files []mapping) {
	for i := 0; i < len(files); i++ {
		f := files[i]
		m := Module{Base: f.start}
		m.setPath(strings.TrimSuffix(strings.ToValidUTF8(f.path, "\uFFFD"), " (deleted)"), "linux")
		image, known := c.image(&m)
		// The following mappings of the same file belong to it, up to one of
		// its first page.
		last := f.end
		for i+1 < len(files) && files[i+1].path == f.path {
			next := files[i+1]
			again := c.beginsLikeImage(next.start)
			switch {
			case image: // the data segment of a small file maps the first page again
				again = next.start-m.Base >= m.Size && (again || next.first)
			case again && next.first && !known: // so does a section of a .NET assembly
				image = c.mem.peSection(&m, next.start)
				again = !image
			}
			if again {
				break
			}
			last = next.end
			i++
		}
		if m.Size == 0 && last > f.start {
			m.Size = last - f.start
		}
		if !image && (known || !c.isLikelyImage(f.path, f.start, last)) {
			continue
		}
		if !c.add(m) {
			return
		}
	}
}

// image identifies the image at m.Base. known reports whether the dump has its
// memory.
func (c *core) image(m *Module) (image, known bool) {
	var p [4]byte
	if c.mem.readAt(p[:], m.Base) < len(p) {
		return false, false
	}
	return c.mem.identify(m), true
}

// beginsLikeImage reports whether the memory at addr begins like an image.
func (c *core) beginsLikeImage(addr uint64) bool {
	var p [4]byte
	return c.mem.readAt(p[:], addr) == len(p) && (string(p[:]) == "\x7fELF" || string(p[:2]) == "MZ")
}

// isLikelyImage guesses whether a file is an image although the dump lacks its first
// page: it has executable parts, or the name of one.
func (c *core) isLikelyImage(name string, start, end uint64) bool {
	name = strings.ToLower(path.Base(strings.TrimSuffix(name, " (deleted)")))
	switch path.Ext(name) {
	case ".so", ".dll", ".exe":
		return true
	}
	if strings.Contains(name, ".so.") {
		return true
	}
	rs := c.mem.regions
	for i := sort.Search(len(rs), func(i int) bool { return rs[i].addr >= start }); i < len(rs) && rs[i].addr < end; i++ {
		if rs[i].flags&segExecutable != 0 {
			return true
		}
		if start = rs[i].addr; i > 0 && rs[i-1].addr == start {
			return false // hostile: mappings overlap
		}
	}
	return len(rs) == 0
}

// add appends m if it has a name or an id. It returns false when the limit is
// reached.
func (c *core) add(m Module) bool {
	if m.Path == "" && !m.HasID() {
		return true
	}
	if len(c.Modules) == maxModules {
		c.problem("more than %d modules; the rest is not listed", maxModules)
		return false
	}
	c.Modules = append(c.Modules, m)
	return true
}

// unlisted adds the ELF images outside the mapped files: the kernel's code page
// and, in a core without a list of files, all images.
func (c *core) unlisted() {
	type span struct{ start, end uint64 }
	var listed []span
	for _, m := range c.Modules {
		listed = append(listed, span{m.Base, m.Base + max(m.Size, 1)})
	}
	at := 0
	for _, r := range c.mem.regions {
		for at < len(listed) && listed[at].end <= r.addr {
			at++
		}
		if at < len(listed) && listed[at].start <= r.addr || r.size < 52 || !c.beginsLikeImage(r.addr) {
			continue
		}
		m := Module{Base: r.addr}
		if !c.mem.identify(&m) || m.BuildID == "" && m.Path == "" && len(m.Debug) == 0 {
			continue
		}
		if !c.add(m) {
			return
		}
		if at == len(listed) {
			listed = append(listed, span{m.Base, m.Base + m.Size})
		}
	}
}
