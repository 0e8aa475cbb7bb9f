package record

import (
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Query says what to find: objects that match any of the criteria that are set.
type Query struct {
	// Name is a folded file name; * matches any text, ? one character.
	Name string
	// IDs are folded ids, in any spelling that finds an object.
	IDs []string
	// Prefix is the beginning of a folded id, RefPrefix that of the hash of a content, in
	// hex.
	Prefix, RefPrefix string
	// Ref is a content.
	Ref *blob.Ref
	// Kind, if it is not symfile.KindUnknown, limits the result to one kind.
	Kind symfile.Kind
}
