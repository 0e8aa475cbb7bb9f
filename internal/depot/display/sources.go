package display

import "github.com/symdepot/symdepot/internal/depot/sourcefiles"

// SourceName describes a source file that debug information names, in JSON.
type SourceName struct {
	Name     string `json:"name"`
	State    string `json:"state"`              // embedded, bundle, held or missing
	Checksum string `json:"checksum,omitempty"` // the algorithm in the debug information; what is held has the same checksum
	SHA256   string `json:"sha256,omitempty"`   // of the text, if it is held as a file
	Size     *int64 `json:"size,omitempty"`     // of the text, unless it is missing
}

// NewSourceName describes a source file.
func NewSourceName(n sourcefiles.SourceName) SourceName {
	s := SourceName{Name: n.Name, State: n.State, Checksum: n.Checksum}
	if none := (sourcefiles.SourceName{}); n.Ref != none.Ref {
		s.SHA256 = n.Ref.String()
	}
	if n.Size >= 0 {
		s.Size = &n.Size
	}
	return s
}
