package fetch

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// check identifies the objects of a complete file and returns them if one of
// them answers the request.
func (d *download) check(sp *blob.Spool) ([]objfile.Object, error) {
	name := d.file.Object.Name
	if !symfile.ValidName(name) {
		name = "file"
		if len(d.want.Lookups) > 0 {
			name = d.want.Lookups[0].ID
		}
	}
	if d.want.Form == layout.FormSource {
		// Source code carries no id: trust the upstream.
		return objfile.Identify(sp, sp.Size(), sourceName(d.want), objfile.Options{Kind: symfile.SHA1})
	}
	if byHash(d.want) {
		if objs, err := objfile.Identify(sp, sp.Size(), name, objfile.Options{Kind: symfile.SHA1}); err == nil && answers(d.want, objs) {
			return objs, nil
		}
	}
	objs, err := objfile.Identify(sp, sp.Size(), name, objfile.Options{})
	if err != nil {
		return nil, err
	}
	// A compressed object inside the file is no answer: it would have to be
	// unpacked.
	objs = slices.DeleteFunc(objs, func(o objfile.Object) bool { return o.Deflated != 0 })
	if !answers(d.want, objs) {
		return nil, errWrongFile
	}
	return objs, nil
}

// checkHead rejects a file whose first bytes show that it is not a symbol file.
func (d *download) checkHead(_ string, head []byte) error {
	if byHash(d.want) || d.want.Form == layout.FormSource {
		return nil
	}
	if fatHead(head) {
		d.whole = true // the answer is one slice of it
	}
	return objfile.Detect(head, d.file.Object.Name)
}

// fatHead reports whether a file begins like a fat Mach-O file. Java class files
// have the same magic, but their version field, which is where the number of
// slices would be, is above 40.
func fatHead(head []byte) bool {
	if len(head) < 8 || binary.BigEndian.Uint32(head[4:]) > 40 {
		return false
	}
	return bytes.HasPrefix(head, []byte{0xca, 0xfe, 0xba, 0xbe}) || bytes.HasPrefix(head, []byte{0xca, 0xfe, 0xba, 0xbf})
}

// isFat reports whether the objects are slices of a fat Mach-O file of this
// size.
func isFat(objs []objfile.Object, size int64) bool {
	return slices.ContainsFunc(objs, func(o objfile.Object) bool { return o.Kind == symfile.MachO && o.Size != size })
}

// byHash reports whether a request may name the hash of a file, which any kind
// of file can answer.
func byHash(req layout.Request) bool {
	return slices.ContainsFunc(req.Lookups, func(l symfile.Lookup) bool {
		return l.Role&symfile.Other != 0 && (len(l.ID) == 40 || len(l.ID) == 64)
	})
}

// answered returns the object that answers the request.
func (d *download) answered(objs []objfile.Object) symfile.Object {
	for _, o := range objs {
		if answers(d.want, []objfile.Object{o}) {
			return o.Object
		}
	}
	return objs[0].Object
}

// answers reports whether one of a file's objects answers a request.
func answers(req layout.Request, objs []objfile.Object) bool {
	for _, o := range objs {
		for _, l := range req.Lookups {
			if l.Finds(o.Object) {
				return true
			}
		}
		if req.Age != nil && (o.Kind == symfile.PDB || o.Kind == symfile.MSFZ && wants(req, symfile.Compressed)) &&
			o.DebugID.GUID == req.Age.GUID && max(o.DebugID.Age, o.InfoAge) >= req.Age.Age {
			return true
		}
	}
	return false
}
