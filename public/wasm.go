package public

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
)

// Numbers of the format of WebAssembly modules and of its section of names.
const (
	wasmCustom, wasmExport = 0, 7

	wasmNamesModule, wasmNamesFunctions, wasmNamesGlobals = 0, 1, 7
)

// wasmSection is a section of a WASM module.
type wasmSection struct {
	id        byte
	name      string // of a custom section
	at, start int64  // of the section, and of its content after the name
	end       int64
}

// wasmSections reads the heads of the sections.
func wasmSections(r io.ReaderAt, size int64) ([]wasmSection, error) {
	var list []wasmSection
	for at := int64(8); at < size; {
		head := make([]byte, min(6+5+maxWASMName, size-at))
		if err := readFull(r, head, at); err != nil {
			return nil, err
		}
		n, used := uleb(head[1:])
		if used == 0 || n > uint64(size-at-1-int64(used)) {
			return nil, broken("WASM: the section at offset %d extends beyond the file of %d bytes", at, size)
		}
		s := wasmSection{id: head[0], at: at, start: at + 1 + int64(used), end: at + 1 + int64(used) + int64(n)}
		if s.id == wasmCustom {
			p := head[1+used:]
			k, more := uleb(p[:min(uint64(len(p)), n)])
			if more == 0 || k > n-uint64(more) {
				return nil, broken("WASM: the custom section at offset %d has no name", at)
			}
			if p = p[more:]; k <= uint64(min(len(p), maxWASMName)) {
				s.name = string(p[:k])
			}
			s.start += int64(more) + int64(k)
		}
		if list = append(list, s); len(list) > maxWASMSections {
			return nil, broken("WASM: more than %d sections", maxWASMSections)
		}
		at = s.end
	}
	return list, nil
}

const (
	maxWASMSections = 10_000
	maxWASMName     = 64
)

// uleb decodes an unsigned number of 32 bits, and returns the number of its bytes; 0: not valid.
func uleb(p []byte) (uint64, int) {
	n, used := binary.Uvarint(p[:min(len(p), 5)])
	if used <= 0 || n > 1<<32-1 {
		return 0, 0
	}
	return n, used
}

// isLoadedWASM reports whether engines or debuggers need a custom section: all others may have
// anything in them.
func isLoadedWASM(name string) bool {
	return name == "build_id" || name == "target_features" || name == "dylink.0" || name == "dylink"
}

// wasm examines a WASM module. It keeps what engines need, and of the section of names those of the
// module, of its functions and of its global variables.
func (f *form) wasm(r io.ReaderAt, size int64, n *namer) error {
	sections, err := wasmSections(r, size)
	if err != nil {
		return err
	}
	out := &pieces{r: r}
	out.input(0, 0, 8)
	at := int64(8)
	for _, s := range sections {
		switch {
		case s.id == wasmCustom && s.name == "name":
			data, err := f.wasmNames(r, size, sections, s, n)
			if err != nil {
				return err
			}
			f.take(RemovedSymbols, 0, max(s.end-s.at-int64(len(data)), 0))
			out.memory(at, data)
			at += int64(len(data))
			continue
		case s.id == wasmCustom && (s.name == "linking" || strings.HasPrefix(s.name, "reloc.")):
			return private("a relocatable WASM module")
		case s.id == wasmCustom && isDebugSection(s.name):
			f.take(RemovedDebug, 1, s.end-s.at)
			continue
		case s.id == wasmCustom && !isLoadedWASM(s.name):
			f.take(RemovedSections, 1, s.end-s.at)
			continue
		}
		out.input(at, s.at, s.end-s.at)
		at += s.end - s.at
	}
	f.write = out.write
	return out.check()
}

// wasmNames returns the public section of names.
func (f *form) wasmNames(r io.ReaderAt, size int64, sections []wasmSection, s wasmSection, n *namer) ([]byte, error) {
	p, err := readPart(r, size, uint64(s.start), uint64(s.end-s.start))
	if err != nil {
		return nil, err
	}
	exported := map[uint64]bool{}
	if n.opt.Exported {
		if exported, err = wasmExports(r, size, sections); err != nil {
			return nil, err
		}
	}
	body := append(binary.AppendUvarint(nil, 4), "name"...)
	err = eachNames(p, func(id byte, part []byte, _ int) error {
		if id == wasmNamesModule && !bytes.ContainsAny(part, `/\`) {
			body = appendPart(body, id, part)
			return nil
		}
		if id != wasmNamesFunctions && id != wasmNamesGlobals {
			f.take(RemovedSymbols, 1, 0)
			return nil
		}
		var names []byte
		count := uint64(0)
		if err := eachName(part, func(index uint64, name []byte, _ int) {
			if n.opt.Exported && (id != wasmNamesFunctions || !exported[index]) {
				f.take(RemovedSymbols, 1, 0)
				return
			}
			text := n.at(string(name), index)
			names = binary.AppendUvarint(binary.AppendUvarint(names, index), uint64(len(text)))
			names = append(names, text...)
			count++
		}); err != nil {
			return err
		}
		body = appendPart(body, id, append(binary.AppendUvarint(nil, count), names...))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return append(binary.AppendUvarint([]byte{wasmCustom}, uint64(len(body))), body...), nil
}

func appendPart(body []byte, id byte, part []byte) []byte {
	return append(binary.AppendUvarint(append(body, id), uint64(len(part))), part...)
}

// eachNames calls visit with each part of a section of names and its offset in the section.
func eachNames(p []byte, visit func(id byte, part []byte, at int) error) error {
	for at := 0; at < len(p); {
		n, used := uleb(p[at+1:])
		start := at + 1 + used
		if used == 0 || n > uint64(len(p)-start) {
			return broken("WASM: a part of the section of names extends beyond it")
		}
		if err := visit(p[at], p[start:start+int(n)], start); err != nil {
			return err
		}
		at = start + int(n)
	}
	return nil
}

// eachName calls visit with each name of a part, the number of what it names, and its offset.
func eachName(p []byte, visit func(index uint64, name []byte, at int)) error {
	count, at := uleb(p)
	if at == 0 {
		return broken("WASM: a list of names without their number")
	}
	for range count {
		index, used := uleb(p[at:])
		n, more := uleb(p[at+used:])
		start := at + used + more
		if used == 0 || more == 0 || n > uint64(len(p)-start) {
			return broken("WASM: a name extends beyond the section of names")
		}
		visit(index, p[start:start+int(n)], start)
		at = start + int(n)
	}
	return nil
}

// wasmExports returns the numbers of the exported functions.
func wasmExports(r io.ReaderAt, size int64, sections []wasmSection) (map[uint64]bool, error) {
	exported := map[uint64]bool{}
	for _, s := range sections {
		if s.id != wasmExport {
			continue
		}
		p, err := readPart(r, size, uint64(s.start), uint64(s.end-s.start))
		if err != nil {
			return nil, err
		}
		count, at := uleb(p)
		for range count {
			n, used := uleb(p[at:])
			if used == 0 || n >= uint64(len(p)-at-used) {
				return nil, broken("WASM: an export extends beyond its section")
			}
			at += used + int(n)
			index, more := uleb(p[at+1:])
			if more == 0 {
				return nil, broken("WASM: an export extends beyond its section")
			}
			if p[at] == 0 {
				exported[index] = true
			}
			at += 1 + more
		}
	}
	return exported, nil
}
