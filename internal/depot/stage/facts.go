package stage

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// fact is an object in a file. Facts are kept as JSON.
type fact struct {
	Object    symfile.Object
	Arch      string   `json:",omitempty"`
	Features  []string `json:",omitempty"`
	DebugSize int64    `json:",omitempty"`
	SHA256    string
	Size      int64
	// Other means that the product had another object with the same id.
	Other bool `json:",omitempty"`
	// Flags say what the rules for links to source files note about the object.
	Flags []string `json:",omitempty"`
}

func newFact(o objfile.Object, c record.Content) fact {
	return fact{Object: o.Object, Arch: o.Arch, Features: o.Features.Words(), DebugSize: o.DebugSize, SHA256: c.Ref.String(), Size: c.Size}
}

// content returns the content of the object.
func (f fact) content() (record.Content, error) {
	ref, err := blob.ParseRef(f.SHA256)
	return record.Content{Ref: ref, Size: f.Size}, err
}

// factRefs returns the contents of objects.
func factRefs(list []fact) (refs []blob.Ref) {
	for _, f := range list {
		if c, err := f.content(); err == nil {
			refs = append(refs, c.Ref)
		}
	}
	return refs
}

func formatFacts(list []fact) (string, error) {
	b, err := json.Marshal(list)
	return string(b), err
}

func parseFacts(text string) (list []fact, err error) {
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf("%w: the objects of a staged file", engine.ErrCorrupt)
	}
	return list, nil
}

// Receipt names a file that a stage has accepted. It survives as JSON: who has answered
// a client that the file is stored asks Commit to confirm it.
type Receipt struct {
	Path string `json:"path"`
	// Objects are those of the file, for Commit.
	Objects string `json:"objects"`
}

func receiptOf(f stages.StageFile) Receipt { return Receipt{f.Path, f.Facts} }

// entriesOf returns the entries that a transaction with these files has.
func entriesOf(list []Receipt) (all []record.Entry, err error) {
	for _, r := range list {
		some, err := entries(stages.StageFile{Path: r.Path, Facts: r.Objects})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Path, err)
		}
		all = append(all, some...)
	}
	return all, nil
}

// entries returns the entries of a transaction for a file.
func entries(f stages.StageFile) ([]record.Entry, error) {
	facts, err := parseFacts(f.Facts)
	if err != nil {
		return nil, err
	}
	return entriesFrom(f, facts)
}

func entriesFrom(f stages.StageFile, facts []fact) ([]record.Entry, error) {
	list := make([]record.Entry, len(facts))
	for i, k := range facts {
		c, err := k.content()
		if err != nil {
			return nil, err
		}
		list[i] = record.Entry{Object: k.Object, Arch: k.Arch, Features: k.Features, DebugSize: k.DebugSize, Ref: c.Ref, Size: c.Size,
			Aliases: k.Object.Aliases(), Path: f.Path, ModTime: f.ModTime}
	}
	return list, nil
}

// isWhole reports whether an object is a whole file of size bytes.
func isWhole(o objfile.Object, size int64) bool {
	return o.Deflated == 0 && o.Offset == 0 && o.Size == size
}

// isSimple reports whether the base name and the content of a file determine its objects,
// as the index has them: it is one object of that name. A PE file may hold a PDB besides.
func isSimple(list []fact, ref blob.Ref, base string) bool {
	return len(list) == 1 && list[0].SHA256 == ref.String() && list[0].Object.Kind != symfile.PE && namesItself(list[0].Object, base)
}

// contradicts returns why the objects of a file do not have the claimed id; empty
// if one has it.
func contradicts(claim string, objects []symfile.Object) string {
	if claim == "" {
		return ""
	}
	var ids []string
	for _, o := range objects {
		for _, id := range idsOf(o) {
			if strings.EqualFold(id, claim) || strings.EqualFold(strings.ReplaceAll(claim, "-", ""), strings.ReplaceAll(id, "-", "")) {
				return ""
			}
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return fmt.Sprintf("the file has no id, but the client says %.80q", claim)
	}
	return fmt.Sprintf("the file has the id %s, but the client says %.80q", ids[0], claim)
}

// idsOf returns the ids of an object in their spellings.
func idsOf(o symfile.Object) (ids []string) {
	if o.DebugID != (debugid.ID{}) {
		ids = append(ids, o.DebugID.String(), o.DebugID.Breakpad())
	}
	for _, id := range []string{string(o.BuildID), o.CodeID, o.Hash} {
		if id != "" {
			ids = append(ids, id)
		}
	}
	for _, a := range o.Aliases() {
		ids = append(ids, a.ID)
	}
	return ids
}

// namesItself reports whether an object of a file of a name has that name, or would have
// its own name in a file of any name.
func namesItself(o symfile.Object, base string) bool {
	return o.Name == base || o.Kind == symfile.Breakpad // its name is in the file
}

// forcedID returns the id that a file of a forced kind is kept under.
func forcedID(f stages.StageFile) string {
	if f.Kind == "" {
		return ""
	}
	return f.ID
}

// Manifest returns the hash of a list of files: the SHA-256 over their lines,
// sorted by bytes: the SHA-256 in hex, a blank, the size, a blank, the path and a
// line feed.
func Manifest(list []Entry) blob.Ref {
	lines := make([]string, len(list))
	for i, e := range list {
		lines[i] = manifestLine(e.Ref, e.Size, e.Path)
	}
	slices.Sort(lines)
	sum := sha256.New()
	for _, l := range lines {
		_, _ = sum.Write([]byte(l)) // never fails
	}
	return blob.Ref(sum.Sum(nil))
}

func manifestLine(ref blob.Ref, size int64, path string) string {
	return ref.String() + " " + strconv.FormatInt(size, 10) + " " + path + "\n"
}
