// Package sbom reads which files a software bill of materials names, and writes facts about them into a copy
// of it: CycloneDX and SPDX 2, as JSON.
package sbom

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// Limits of a bill.
const (
	MaxBytes   = 128 << 20
	maxEntries = 1_000_000
	maxDepth   = 200 // of components in components
)

// ErrFormat is wrapped by errors about a text that is no bill of a known format.
var ErrFormat = errors.New("not a bill of materials in a known format (CycloneDX or SPDX 2, as JSON)")

// The formats.
type format int

const (
	cycloneDX format = iota
	spdx
)

// Bill is a bill of materials.
type Bill struct {
	doc     map[string]any
	format  format
	entries []*Entry
	bySum   map[string][]*Entry // by algorithm, colon, hash
	byName  map[string][]*Entry // by the base name of files
}

// Entry is a file, or a component that may be one.
type Entry struct {
	// Name is the name or the path that the bill has.
	Name string
	// Sums are its hashes in lower-case hex, by algorithms such as SHA256.
	Sums map[string]string

	bill   *Bill
	node   map[string]any
	isFile bool // its name is that of a file
}

// Fact is something known of an entry. Names are those of properties, such as symdepot:covered.
type Fact struct{ Name, Value string }

// Read reads a bill. The error wraps ErrFormat if it is none.
func Read(r io.Reader) (*Bill, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("a bill of materials has at most %d MiB", MaxBytes>>20)
	}
	b := &Bill{bySum: map[string][]*Entry{}, byName: map[string][]*Entry{}}
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	d.UseNumber() // numbers keep their spelling
	if err := d.Decode(&b.doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%w: something follows the JSON value", ErrFormat)
	}
	version, _ := b.doc["spdxVersion"].(string)
	switch {
	case b.doc["bomFormat"] == "CycloneDX":
		err = b.readCycloneDX()
	case strings.HasPrefix(version, "SPDX-2."):
		b.format = spdx
		err = b.readSPDX()
	case b.doc["@graph"] != nil:
		return nil, fmt.Errorf("%w: SPDX 3 is not read; write SPDX 2.3", ErrFormat)
	default:
		return nil, ErrFormat
	}
	return b, err
}

// nodes yields the objects of a list.
func nodes(list any, each func(map[string]any) error) error {
	items, _ := list.([]any)
	for _, item := range items {
		if node, ok := item.(map[string]any); ok {
			if err := each(node); err != nil {
				return err
			}
		}
	}
	return nil
}

func text(node map[string]any, key string) string {
	s, _ := node[key].(string)
	return s
}

// readCycloneDX reads components (CycloneDX 1.6, component): those of the bill, and those in them.
func (b *Bill) readCycloneDX() error {
	if meta, ok := b.doc["metadata"].(map[string]any); ok {
		if node, ok := meta["component"].(map[string]any); ok {
			if err := b.component(node, 0); err != nil {
				return err
			}
		}
	}
	return nodes(b.doc["components"], func(node map[string]any) error { return b.component(node, 0) })
}

func (b *Bill) component(node map[string]any, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("components lie in more than %d others", maxDepth)
	}
	e := &Entry{Name: text(node, "name"), Sums: map[string]string{}, isFile: node["type"] == "file", node: node}
	_ = nodes(node["hashes"], func(h map[string]any) error {
		e.sum(text(h, "alg"), text(h, "content"))
		return nil
	})
	if err := b.add(e); err != nil {
		return err
	}
	return nodes(node["components"], func(node map[string]any) error { return b.component(node, depth+1) })
}

// readSPDX reads files and packages (SPDX 2.3, chapters 7 and 8).
func (b *Bill) readSPDX() error {
	for _, list := range []struct{ key, name string }{{"files", "fileName"}, {"packages", "packageFileName"}} {
		if err := nodes(b.doc[list.key], func(node map[string]any) error {
			e := &Entry{Name: text(node, list.name), Sums: map[string]string{}, isFile: true, node: node}
			_ = nodes(node["checksums"], func(h map[string]any) error {
				e.sum(text(h, "algorithm"), text(h, "checksumValue"))
				return nil
			})
			return b.add(e)
		}); err != nil {
			return err
		}
	}
	return nil
}

// sum adds a hash.
func (e *Entry) sum(algorithm, value string) {
	algorithm = strings.ReplaceAll(strings.ToUpper(algorithm), "-", "")
	if value = strings.ToLower(strings.TrimSpace(value)); algorithm != "" && value != "" {
		e.Sums[algorithm] = value
	}
}

func (b *Bill) add(e *Entry) error {
	if len(b.entries) == maxEntries {
		return fmt.Errorf("a bill of materials has at most %d entries", maxEntries)
	}
	e.bill = b
	b.entries = append(b.entries, e)
	for algorithm, value := range e.Sums {
		b.bySum[algorithm+":"+value] = append(b.bySum[algorithm+":"+value], e)
	}
	if name := base(e.Name); e.isFile && name != "" {
		b.byName[name] = append(b.byName[name], e)
	}
	return nil
}

// base is the base name of a path, in lower case.
func base(p string) string {
	p = strings.ToLower(strings.ReplaceAll(p, `\`, "/"))
	if p == "" || strings.HasSuffix(p, "/") {
		return ""
	}
	return path.Base(p)
}

// Entries returns the number of entries.
func (b *Bill) Entries() int { return len(b.entries) }

// Algorithms returns the algorithms of the hashes in the bill, sorted.
func (b *Bill) Algorithms() (list []string) {
	for _, e := range b.entries {
		for algorithm := range e.Sums {
			if !slices.Contains(list, algorithm) {
				list = append(list, algorithm)
			}
		}
	}
	slices.Sort(list)
	return list
}

// Find returns the entries of a file: those with one of its hashes; if there are none, those without hashes of these
// algorithms that have the end of its path.
func (b *Bill) Find(file string, sums map[string]string) (list []*Entry) {
	for algorithm, value := range sums {
		for _, e := range b.bySum[algorithm+":"+value] {
			if !slices.Contains(list, e) {
				list = append(list, e)
			}
		}
	}
	if len(list) > 0 {
		return list
	}
	whole := "/" + strings.ToLower(strings.ReplaceAll(file, `\`, "/"))
	for _, e := range b.byName[base(file)] {
		name := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(strings.ReplaceAll(e.Name, `\`, "/")), "."), "/")
		if strings.HasSuffix(whole, "/"+name) && !e.hasOther(sums) {
			list = append(list, e)
		}
	}
	return list
}

// hasOther reports whether the entry has other hashes than these: then another file is meant.
func (e *Entry) hasOther(sums map[string]string) bool {
	for algorithm, value := range sums {
		if has, ok := e.Sums[algorithm]; ok && has != value {
			return true
		}
	}
	return false
}

// prefix is that of the names of facts.
const prefix = "symdepot:"

// Set writes facts into the entry, in place of those that an earlier run has written: as properties of CycloneDX, or as
// an annotation of SPDX. tool names the program, and at is the time.
func (e *Entry) Set(facts []Fact, tool string, at time.Time) {
	if e.bill.format == spdx {
		var parts []string
		for _, f := range facts {
			parts = append(parts, f.Name+"="+f.Value)
		}
		annotator := "Tool: " + tool
		e.node["annotations"] = append(without(e.node["annotations"], "comment"), any(map[string]any{
			"annotationDate": at.UTC().Format(time.RFC3339), "annotationType": "OTHER", "annotator": annotator,
			"comment": strings.Join(parts, " "),
		}))
		return
	}
	list := without(e.node["properties"], "name")
	for _, f := range facts {
		list = append(list, map[string]any{"name": f.Name, "value": f.Value})
	}
	e.node["properties"] = list
}

// without returns a list without the objects whose member of a name begins with prefix.
func without(list any, member string) []any {
	items, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(items), func(item any) bool {
		node, ok := item.(map[string]any)
		return ok && strings.HasPrefix(text(node, member), prefix)
	})
}

// Signed reports whether the bill has a signature of the JSON Signature Format in it, which a copy with facts would
// break.
func (b *Bill) Signed() bool { return b.doc["signature"] != nil }

// JSON returns the bill with the facts, as JSON with sorted members.
func (b *Bill) JSON() ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(b.doc)
	return out.Bytes(), err
}
