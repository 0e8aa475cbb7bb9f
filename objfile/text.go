package objfile

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

// Pseudo addresses of a ready-to-run perf map's header lines (SSQP key
// conventions, R2R PerfMap v1).
const (
	perfMapSignature = 0xffffffff
	perfMapVersion   = 0xfffffffe
	perfMapLast      = 0xfffffffb
)

// perfMapLine splits "ADDRESS LENGTH TEXT".
func perfMapLine(line []byte) (address uint64, text string, ok bool) {
	f := strings.SplitN(strings.TrimRight(string(line[:min(len(line), 256)]), "\r"), " ", 3)
	if len(f) != 3 {
		return 0, "", false
	}
	address, err := strconv.ParseUint(f[0], 16, 64)
	if _, err2 := strconv.ParseUint(f[1], 16, 64); err != nil || err2 != nil {
		return 0, "", false
	}
	return address, f[2], true
}

// isPerfMap reports whether the first line is the signature of a
// ready-to-run perf map.
func isPerfMap(head []byte) bool {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	a, text, ok := perfMapLine(line)
	return ok && a == perfMapSignature && len(text) == 32 && debugid.IsHex(text)
}

// identifyPerfMap reads the header lines at the start of the file. Each has a
// pseudo address.
func identifyPerfMap(b *budget, head []byte, name string) ([]Object, error) {
	o := b.whole(symfile.Object{Kind: symfile.R2RMap, Role: symfile.Other, Name: name})
	o.Features = Features{Symtab: true}
	for rest := head; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		a, text, ok := perfMapLine(line)
		if !ok || a < perfMapLast || a > perfMapSignature {
			break
		}
		switch a {
		case perfMapSignature:
			o.Hash = strings.ToLower(text)
		case perfMapVersion:
			v, err := strconv.ParseUint(text, 10, 31)
			if err != nil {
				return nil, broken("the perf map's version is %q", truncate.Text(text))
			}
			o.Version = int(v)
		}
	}
	if o.Version == 0 {
		return nil, broken("the perf map has no version")
	}
	return []Object{o}, nil
}

// identifyBCSymbolMap takes the id from the name of the file, because the
// content has none.
func identifyBCSymbolMap(b *budget, head []byte, name string) ([]Object, error) {
	first, _, _ := bytes.Cut(head, []byte("\n"))
	version, ok := bytes.CutPrefix(bytes.TrimSpace(first), []byte("BCSymbolMap Version: "))
	if !ok {
		return nil, notSymbol("a text file whose first line is no BCSymbolMap record")
	}
	if major, _, _ := bytes.Cut(version, []byte(".")); string(major) != "1" && string(major) != "2" {
		return nil, broken("the BCSymbolMap has version %q", truncate.Text(string(version)))
	}
	id, err := stemUUID(name)
	if err != nil {
		return nil, err
	}
	o := b.whole(symfile.Object{Kind: symfile.BCSymbolMap, Role: symfile.BCSymbols, Name: name, DebugID: id})
	o.Features = Features{Symtab: true}
	return []Object{o}, nil
}

// stemUUID parses the name of a file, which must be a UUID.
func stemUUID(name string) (debugid.ID, error) {
	stem, _, _ := strings.Cut(name, ".")
	g, err := debugid.ParseGUID(stem)
	if err != nil || g.IsZero() {
		return debugid.ID{}, broken("the file name %q is not a UUID; it must be that of the image", truncate.Text(name))
	}
	return debugid.ID{GUID: g}, nil
}

// maxPlist is the largest size in bytes of a property list that is read.
const maxPlist = 256 << 10

// isUUIDMap reports whether head begins an XML property list. Only its content
// shows whether it maps UUIDs.
func isUUIDMap(head []byte) bool {
	h := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	return bytes.HasPrefix(h, []byte("<")) && bytes.Contains(h, []byte("<plist"))
}

// identifyUUIDMap takes the UUID of the dSYM from the name of the file, and
// checks that the list has the original UUID.
func identifyUUIDMap(b *budget, name string) ([]Object, error) {
	original, err := plistString(io.NewSectionReader(b, 0, min(b.size, maxPlist)), "DBGOriginalUUID")
	if err != nil {
		return nil, err
	}
	if original == "" {
		return nil, notSymbol("a property list that maps no UUID")
	}
	if _, err := debugid.ParseGUID(original); err != nil {
		return nil, broken("DBGOriginalUUID is %q", truncate.Text(original))
	}
	id, err := stemUUID(name)
	if err != nil {
		return nil, err
	}
	return []Object{b.whole(symfile.Object{Kind: symfile.UUIDMap, Role: symfile.UUIDs, Name: name, DebugID: id})}, nil
}

// plistString returns the string behind a key anywhere in an XML property
// list, or "".
func plistString(r io.Reader, key string) (string, error) {
	d := xml.NewDecoder(r)
	element, found := "", false
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			if syntax := (*xml.SyntaxError)(nil); errors.As(err, &syntax) {
				return "", broken("property list: %w", err)
			}
			return "", err
		}
		switch t := t.(type) {
		case xml.StartElement:
			element = t.Name.Local
		case xml.EndElement:
			element = ""
		case xml.CharData:
			text := strings.TrimSpace(string(t))
			if found && element == "string" {
				return text, nil
			}
			if element == "key" {
				found = text == key
			}
		}
	}
}
