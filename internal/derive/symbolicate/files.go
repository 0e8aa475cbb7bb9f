package symbolicate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// piece is one file of a module: an object of the index, or a file of a tree.
type piece struct {
	hit *record.Hit
	// path is the request that finds the file in a tree, as segments, if hit is nil.
	path  []string
	debug bool // of a file of a tree: it was found as debug information
	name  string
	kind  symfile.Kind
	tag   string // changes with the content
	size  int64
}

// ref returns the content; zero for a file of a tree.
func (p *piece) ref() blob.Ref {
	if p == nil || p.hit == nil {
		return blob.Ref{}
	}
	return p.hit.Ref
}

// files are the files of which a module's functions are read.
type files struct {
	name string     // of the debug file, for the MODULE record
	id   debugid.ID // zero if it is unknown
	list []*piece   // the best first: a .sym alone, or debug information and then the program
	// byCode means that the client knows only the code id.
	byCode bool
	code   string // file name of the program, or empty
	// missing names the files that the others refer to and that were not found, for
	// people.
	missing []string
	// alternate is the build-id of the supplementary file of dwz if it is missing.
	alternate debugid.BuildID
}

// recipe identifies the result of making a format from the files.
func (f *files) recipe(format Format) string {
	h := sha256.New()
	h.Write([]byte(format.tool()))
	h.Write([]byte{0, Version})
	for _, p := range f.list {
		h.Write([]byte(p.tag + "\n"))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// tool is the tool in the record of the result: a different program of the module
// makes it again.
func (f *files) tool(format Format) record.Tool {
	t := record.Tool{Name: format.tool(), Version: Version}
	if len(f.list) > 4 { // many .dwo files
		t.Name += "+" + f.recipe(format)
		return t
	}
	for _, p := range f.list[1:] {
		t.Name += "+" + p.tag[:min(16, len(p.tag))]
	}
	return t
}

// source is the content of which the result is derived; zero if it is not in the
// index.
func (f *files) source() blob.Ref {
	for _, p := range f.list {
		if p.hit == nil {
			return blob.Ref{}
		}
	}
	return f.list[0].ref()
}

// content is source for the memory of failures: nil if it is not in the index.
func (f *files) content() *blob.Ref {
	if ref := f.source(); ref != (blob.Ref{}) {
		return &ref
	}
	return nil
}

// version is the version in the memory of failures of what is made of the files. It names
// all of several files: a damaged program, which perhaps some callers see only, must not
// keep a sound PDB from being read with another one.
func (f *files) version(format Format) string {
	v := fmt.Sprintf("%s %d", format, Version)
	if len(f.list) > 1 {
		v += " of " + f.recipe(format)
	}
	return v
}

// size is the size of all files in bytes.
func (f *files) size() (n int64) {
	for _, p := range f.list {
		n += p.size
	}
	return n
}

// from describes the files for people.
func (f *files) from() string {
	var list []string
	for i, p := range f.list {
		if i == mostNamed {
			list = append(list, fmt.Sprintf("%d more", len(f.list)-i))
			break
		}
		list = append(list, p.kind.String()+" "+p.name)
	}
	return strings.Join(list, ", ")
}

// arch returns the processor of the module, as the first file of the index that names
// one does: a GSYM file does not.
func (f *files) arch() string {
	for _, p := range f.list {
		if p.hit != nil && p.hit.Arch != "" {
			return p.hit.Arch
		}
	}
	return ""
}

// mostNamed is how many files of a module are described by their names.
const mostNamed = 8

// key is the key of jobs.
func (f *files) key(format Format) string {
	id := f.list[0].tag[:min(16, len(f.list[0].tag))]
	if !f.id.IsZero() {
		id = f.id.Breakpad()
	}
	return symfile.Fold(f.name) + "/" + symfile.Fold(id) + format.Ext() + "/" + f.recipe(format)
}

// isSym reports whether the file is a .sym of the index.
func (f *files) isSym() bool {
	return len(f.list) == 1 && f.list[0].kind == symfile.Breakpad && f.list[0].hit != nil
}

func hasDebug(list []*piece) bool {
	return slices.ContainsFunc(list, func(p *piece) bool {
		return p.kind == symfile.PDB || p.debug || p.hit != nil && p.hit.Object.Role&symfile.Debug != 0
	})
}

func pieceOf(h *record.Hit) *piece {
	return &piece{hit: h, name: h.Object.Name, kind: h.Object.Kind, tag: h.Ref.String(), size: h.Size}
}
