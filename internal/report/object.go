package report

import (
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Object describes an object in JSON, wherever it was found.
type Object struct {
	Kind     string   `json:"kind"`
	Name     string   `json:"name"`
	Arch     string   `json:"arch"`
	Size     int64    `json:"size"`
	CodeID   string   `json:"code_id"`
	DebugID  string   `json:"debug_id"`
	BuildID  string   `json:"build_id"`
	Features []string `json:"features"`
}

func newObject(o symfile.Object, arch string, size int64, features []string) Object {
	return Object{o.Kind.String(), o.Name, arch, size, o.CodeID, o.DebugID.Breakpad(), string(o.BuildID), features}
}

// ID is the id of the object that people know it by; see the function ID.
func (o Object) ID() string { return ID(o.Kind, o.CodeID, o.DebugID, o.BuildID) }

// Found is an object that a query found, in JSON.
type Found struct {
	Query string `json:"query"`
	Object
	SHA256       string    `json:"sha256"`
	Transactions []int64   `json:"transactions"`
	FetchedFrom  string    `json:"fetched_from,omitempty"`
	Fetched      time.Time `json:"fetched,omitzero"`
	// SameContent is set if the query was a local file: whether the object has
	// that file's bytes, not only its ids.
	SameContent *bool `json:"same_content,omitempty"`
}

// NewFound describes an object that query found. same is nil unless the query
// was a local file.
func NewFound(query string, f depot.Found, same *bool) Found {
	l := Found{Query: query, Object: newObject(f.Object, f.Arch, f.Size, f.Features), SHA256: f.Ref.String(), Transactions: f.Transactions, FetchedFrom: f.Source, SameContent: same}
	if l.Transactions == nil {
		l.Transactions = []int64{} // a list for programs, also if it is empty
	}
	if f.Source != "" {
		l.Fetched = f.Added.UTC()
	}
	return l
}

// Identified is an object of a local file, in JSON.
type Identified struct {
	Path string `json:"path"`
	Object
	Paths map[string][]string `json:"paths"`           // in each layout, by its name
	Wants []string            `json:"wants,omitempty"` // paths of its PDBs in a SymStore tree
}

// NewIdentified describes an object of the file at path.
func NewIdentified(path string, o objfile.Object) Identified {
	id := Identified{Path: path, Object: newObject(o.Object, o.Arch, o.Size, o.Features.Words()), Paths: map[string][]string{}}
	for _, l := range layout.All() {
		if ps := l.Paths(o.Object); len(ps) > 0 {
			id.Paths[l.Name()] = ps
		}
	}
	for _, w := range o.PDBs {
		if ps := layout.SymStore.Paths(w); len(ps) > 0 {
			id.Wants = append(id.Wants, ps[0])
		}
	}
	return id
}

// ID is the id of the object that people know it by; see the function ID. Kinds
// that are requested by a hash have it in their path only.
func (id Identified) ID() string {
	if s := id.Object.ID(); s != "" {
		return s
	}
	if ps := id.Paths[layout.SymStore.Name()]; len(ps) > 0 {
		if parts := strings.Split(ps[0], "/"); len(parts) > 1 {
			return parts[1]
		}
	}
	return ""
}
