package dump

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// place is where a minidump has something: a size and an offset in the file.
type place struct{ size, at uint32 }

func placeOf(b []byte) place {
	return place{binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])}
}

// comments reads the two streams of text that a debugger stores.
func (p *miniProcess) comments() {
	for _, typ := range []uint32{streamCommentA, streamCommentW} {
		st, ok := p.streams[typ]
		if !ok || st.size == 0 {
			continue
		}
		b, err := p.loose.bytes(st.at, int(min(st.size, maxItem)))
		if err != nil {
			p.damaged("comment", err)
			continue
		}
		var text string
		if typ == streamCommentA {
			text = cString(b)
		} else {
			text = utf16Text(b)
		}
		p.annotate(p.s, "", "comment", text)
	}
}

// crashpad reads the annotations of the process and of its modules.
func (p *miniProcess) crashpad() {
	const oldSize, newSize = 52, 60 // with the mask of addresses
	b := p.stream(streamCrashpad, oldSize, "information of Crashpad")
	if b == nil {
		return
	}
	simple, modules := placeOf(b[36:]), placeOf(b[44:])
	if p.streams[streamCrashpad].size >= newSize {
		if b := p.stream(streamCrashpad, newSize, "information of Crashpad"); b != nil {
			p.AddressMask = binary.LittleEndian.Uint64(b[52:])
		}
	}
	p.damaged("annotations", p.dictionary("", simple))
	err := p.each(modules, 12, func(b []byte) error {
		index, info := binary.LittleEndian.Uint32(b), placeOf(b[4:])
		var name string
		if i := uint64(index); i < uint64(len(p.listed)) && p.listed[i] >= 0 {
			name = p.minidump.Modules[p.listed[i]].Name
		} else {
			name = fmt.Sprintf("module %d", index)
		}
		return p.moduleAnnotations(name, info)
	})
	p.damaged("annotations of the modules", err)
}

// moduleAnnotations reads the three lists of one module: names alone, names with
// values, and objects.
func (p *miniProcess) moduleAnnotations(module string, info place) error {
	if info.size < 28 {
		return nil
	}
	b, err := p.loose.bytes(uint64(info.at), 28)
	if err != nil {
		return err
	}
	list, simple, objects := placeOf(b[4:]), placeOf(b[12:]), placeOf(b[20:])
	err = p.each(list, 4, func(b []byte) error {
		return p.annotation(module, 0, binary.LittleEndian.Uint32(b))
	})
	if err != nil {
		return err
	}
	if err := p.dictionary(module, simple); err != nil {
		return err
	}
	return p.each(objects, 12, func(b []byte) error {
		const text = 1
		if binary.LittleEndian.Uint16(b[4:]) != text {
			return nil // the program's own kinds are not for readers
		}
		return p.annotation(module, binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[8:]))
	})
}

func (p *miniProcess) dictionary(module string, at place) error {
	return p.each(at, 8, func(b []byte) error {
		return p.annotation(module, binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:]))
	})
}

// each calls f for each item of a list that begins with their number.
func (p *miniProcess) each(list place, size int, f func([]byte) error) error {
	if list.size < 4 || list.at == 0 {
		return nil
	}
	b, err := p.list.bytes(uint64(list.at), 4)
	if err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(b)
	if most := (list.size - 4) / uint32(size); n > most {
		return fmt.Errorf("a list counts %d items where %d fit", n, most)
	}
	for i := range uint64(min(n, maxAnnotations)) {
		b, err := p.list.bytes(uint64(list.at)+4+i*uint64(size), size)
		if err != nil {
			return err
		}
		if err := f(append([]byte(nil), b...)); err != nil {
			return err
		}
	}
	return nil
}

// annotation adds the annotation whose name and value are at the given offsets.
func (p *miniProcess) annotation(module string, name, value uint32) error {
	var texts [2]string
	for i, at := range []uint32{name, value} {
		if at == 0 {
			continue
		}
		b, err := p.loose.bytes(uint64(at), 4)
		if err != nil {
			return err
		}
		n := binary.LittleEndian.Uint32(b)
		if n > maxItem {
			return fmt.Errorf("a text of %d bytes: %w", n, errLimit)
		}
		if b, err = p.loose.bytes(uint64(at)+4, int(n)); err != nil {
			return err
		}
		texts[i] = strings.ToValidUTF8(strings.TrimRight(string(b), "\x00"), "\uFFFD")
	}
	if !p.annotate(p.s, module, texts[0], texts[1]) {
		return errText
	}
	return nil
}

// macCrash reads what libraries of macOS say about a crash: Firefox stores it.
func (p *miniProcess) macCrash() {
	const head, most = 12, 20
	b := p.stream(streamMacCrash, head+8*most, "crash information of macOS")
	if b == nil {
		return
	}
	n, start := binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:])
	var records []place
	for i := range min(n, most) {
		records = append(records, placeOf(b[head+8*i:]))
	}
	for _, r := range records {
		b, err := p.loose.bytes(uint64(r.at), int(min(r.size, maxItem)))
		if err != nil {
			p.damaged("crash information of macOS", err)
			return
		}
		if uint64(len(b)) < uint64(start) {
			continue
		}
		// The path of the module, then the texts.
		texts := strings.SplitN(string(b[start:]), "\x00", 6)
		module := texts[0][strings.LastIndexByte(texts[0], '/')+1:]
		for i, name := range []string{"message", "signature", "backtrace", "message2"} {
			if i+1 < len(texts)-1 && texts[i+1] != "" {
				p.annotate(p.s, module, name, strings.ToValidUTF8(texts[i+1], "\uFFFD"))
			}
		}
	}
}
