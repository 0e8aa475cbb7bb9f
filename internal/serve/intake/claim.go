package intake

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/symfile"
)

// hasID reports whether an object is found under an id in any spelling.
func hasID(o symfile.Object, id string) bool {
	id = symfile.Fold(strings.NewReplacer("-", "", "{", "", "}", "").Replace(id))
	if id == "" {
		return false
	}
	if slices.ContainsFunc(o.Aliases(), func(a symfile.Alias) bool { return a.ID == id }) {
		return true
	}
	if id == string(o.BuildID) || id == symfile.Fold(o.CodeID) {
		return true
	}
	// Ids of GUIDs are compared without regard to zero ages, which some tools
	// leave out.
	if d, err := debugid.Parse(id); err == nil {
		return sameDebugID(o, d)
	}
	return false
}

// sameDebugID compares the debug id that a client claims. Tools take the age of a
// PDB for its image, and one of the two ages in a PDB.
func sameDebugID(o symfile.Object, id debugid.ID) bool {
	switch {
	case o.DebugID == id:
		return true
	case o.DebugID.GUID != id.GUID || o.DebugID.PDB20 != id.PDB20:
		return false
	case o.Kind == symfile.PE, o.Kind == symfile.ELF, o.Kind == symfile.MachO, o.Kind == symfile.WASM, o.Kind == symfile.PortablePDB:
		return true
	}
	return id.Age == o.InfoAge || id.Age == 0
}

// wrongID is the error for a file without the id that the client has claimed.
// It names those that it has.
func wrongID(name, id string, objects []symfile.Object) error {
	return &wrongClaim{fmt.Sprintf("%s does not have the id %s; %s", truncate.Text(name), truncate.Text(id), itsIDs(objects))}
}

// wrongClaim is the error for bytes that differ from the claims of the request about
// them.
type wrongClaim struct{ text string }

func (e *wrongClaim) Error() string { return e.text }

// itsIDs lists the ids of a file: "its ids are A, B".
func itsIDs(objects []symfile.Object) string {
	var ids []string
	for _, o := range objects {
		for _, id := range []string{o.DebugID.Breakpad(), o.CodeID, string(o.BuildID), o.Hash} {
			if id != "" && !slices.ContainsFunc(ids, func(s string) bool { return strings.EqualFold(s, id) }) {
				ids = append(ids, id)
			}
		}
		if len(ids) > 16 {
			break // a fat file of many slices
		}
	}
	switch len(ids) {
	case 0:
		return "it has none"
	case 1:
		return "its id is " + ids[0]
	}
	return "its ids are " + strings.Join(ids, ", ")
}

// oneHasID reports whether one of the objects has an id.
func oneHasID(objects []symfile.Object, id string) bool {
	return slices.ContainsFunc(objects, func(o symfile.Object) bool { return hasID(o, id) })
}

// maxPath limits the paths of files in uploads, in bytes.
const maxPath = 1024

// cleanPath returns the slash-separated relative path under which a file of an
// upload is recorded. It refuses names that lead out of a folder.
func cleanPath(p string) (string, error) {
	if len(p) > maxPath {
		return "", &failure{http.StatusBadRequest, fmt.Sprintf("the name %q is longer than %d bytes", truncate.Text(p), maxPath)}
	}
	bad := func() (string, error) {
		return "", &failure{http.StatusBadRequest, fmt.Sprintf("the name %q is not safe as a path", truncate.Text(p))}
	}
	if !truncate.Printable(p) {
		return bad()
	}
	var list []string
	for s := range strings.SplitSeq(strings.ReplaceAll(p, `\`, "/"), "/") {
		switch s {
		case "", ".":
		case "..":
			return bad()
		default:
			list = append(list, s)
		}
	}
	if len(list) == 0 || !symfile.ValidName(list[len(list)-1]) {
		return bad()
	}
	return strings.Join(list, "/"), nil
}
