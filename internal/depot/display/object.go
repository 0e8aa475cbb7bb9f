package display

import (
	"strconv"
	"strings"
	"time"

	"cmp"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
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
	SHA256       string    `json:"sha256,omitempty"` // empty for an object in a watched folder
	Transactions []int64   `json:"builds"`
	FetchedFrom  string    `json:"fetched_from,omitempty"`
	Fetched      time.Time `json:"fetched,omitzero"`
	// InPlace is the path of an object in a watched folder, behind that of its package;
	// such an object has no SHA256.
	InPlace string `json:"in_place,omitempty"`
	Away    bool   `json:"away,omitempty"` // the watched folder is away: nothing of it is served
	// Cold is how a cold content is stored; missing: it is plain.
	Cold *ColdFile `json:"cold,omitempty"`
	// SameContent is set if the query was a local file: whether the object has
	// that file's bytes, not only its ids.
	SameContent *bool `json:"same_content,omitempty"`
}

// NewFound describes an object that query found. same is nil unless the query
// was a local file.
func NewFound(query string, f depot.Found, same *bool) Found {
	l := Found{
		Query: query, Object: newObject(f.Object, f.Arch, f.Size, f.Features), SHA256: f.Ref.String(),
		Transactions: f.Transactions, FetchedFrom: f.Source, Cold: NewColdFile(f.Cold), SameContent: same,
	}
	if l.Transactions == nil {
		l.Transactions = []int64{} // a list for programs, also if it is empty
	}
	if f.Source != "" {
		l.Fetched = f.Added.UTC()
	}
	if f.InPlace {
		l.SHA256, l.InPlace, l.Away = "", f.Path, f.Away
		if f.Archive != "" {
			l.InPlace = f.Archive + "!" + f.Path
		}
	}
	return l
}

// Numbers are those of the newest transactions, at most five.
func (f Found) Numbers() string {
	var s []string
	for i, n := range f.Transactions {
		if i == 5 {
			s = append(s, "…")
			break
		}
		s = append(s, strconv.FormatInt(n, 10))
	}
	return strings.Join(s, ",")
}

// Remark holds the facts of a line of a table that have no column: whether the content is
// that of the local file, and where a cached file was downloaded from.
func (f Found) Remark() string {
	var words []string
	if f.SameContent != nil {
		words = append(words, map[bool]string{true: "same content", false: "other content"}[*f.SameContent])
	}
	if f.InPlace != "" {
		words = append(words, map[bool]string{false: "in place: ", true: "in place, away: "}[f.Away]+f.InPlace)
	}
	if f.Cold != nil {
		words = append(words, f.Cold.Text())
	}
	if f.FetchedFrom != "" {
		words = append(words, "fetched from "+f.FetchedFrom+" on "+f.Fetched.Local().Format("2006-01-02 15:04"))
	}
	return strings.Join(words, ", ")
}

// ID is the id that people know an object of a kind by: the build-id if there is
// one, the code id of a PE or DBG file, else the debug id.
func ID(kind, codeID, debugID, buildID string) string {
	switch {
	case buildID != "":
		return buildID
	case kind == "pe" || kind == "dbg" || debugID == "":
		return codeID
	}
	return debugID
}

// ObjectID is the id of an object as its own tools show it.
func ObjectID(o symfile.Object) string {
	return cmp.Or(ID(o.Kind.String(), o.CodeID, o.DebugID.Breakpad(), string(o.BuildID)), o.Hash, o.CodeID)
}

// NewPaths returns the paths of an object in each layout, by its name.
func NewPaths(o symfile.Object) map[string][]string {
	paths := map[string][]string{}
	for _, l := range layout.All() {
		if ps := l.Paths(o); len(ps) > 0 {
			paths[l.Name()] = ps
		}
	}
	return paths
}
