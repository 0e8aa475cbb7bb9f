package content

import (
	"context"
	"fmt"
	"strings"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Fault is one fault that Verify found.
type Fault struct {
	Ref  string `json:"ref,omitempty"` // SHA-256 of the content, if it is one
	What string `json:"what"`
	// Files are the files that were stored with this content, newest
	// transactions first, at most 20.
	Files []FaultFile `json:"files,omitempty"`
	// MovedTo is where Verify moved the damaged bytes.
	MovedTo string `json:"moved_to,omitempty"`
	// Remedy says how to get the content back.
	Remedy string `json:"remedy,omitempty"`
}

// Denied returns the fault of n files and folders of a depot that the user of this process may
// not use: why is what refuses the first one.
func Denied(why *account.DeniedError, n int64) Fault {
	return Fault{What: why.Of(n), Remedy: why.Cure}
}

// FaultFile is a file that is lost with a content.
type FaultFile struct {
	File        string `json:"file,omitempty"`
	Path        string `json:"path,omitempty"` // as it was added or downloaded
	Product     string `json:"product,omitempty"`
	Version     string `json:"version,omitempty"`
	Transaction int64  `json:"build,omitempty"`
	FetchedFrom string `json:"fetched_from,omitempty"` // the upstream of a cached file
	// MadeFrom and Tool are set for derived content: the SHA-256 of its source
	// and the tool that made it.
	MadeFrom string `json:"made_from,omitempty"`
	Tool     string `json:"tool,omitempty"`
	// BuiltFrom is set for a file with another content, which is cold and built from
	// this one.
	BuiltFrom bool `json:"built_from,omitempty"`
}

// String describes the file in a few words, for people.
func (f FaultFile) String() string {
	switch {
	case f.MadeFrom != "":
		return fmt.Sprintf("derived by %s from content %s", f.Tool, f.MadeFrom)
	case f.BuiltFrom && f.Transaction == 0: // of no transaction now
		return fmt.Sprintf("content %s, is built from it", f.File)
	case f.FetchedFrom != "":
		return fmt.Sprintf("%s, fetched from %s", f.File, f.FetchedFrom)
	}
	s := fmt.Sprintf("%s of build %d", f.File, f.Transaction)
	if p := strings.TrimSpace(f.Product + " " + f.Version); p != "" {
		s += " (" + p + ")"
	}
	if f.Path != "" {
		s += ", added as " + f.Path
	}
	if f.BuiltFrom {
		s += ", is built from it"
	}
	return s
}

// Faults describes faults of stored contents. Placed is set if they are in a bucket.
type Faults struct {
	DB     *index.DB
	Placed bool
}

// Describe describes a damaged content with its remedy: what to do, or what was done if the
// caller repairs it.
func (x Faults) Describe(ctx context.Context, ref blob.Ref, what string, repair bool) (*Fault, Holding, error) {
	f, h, err := x.Of(ctx, ref, what)
	if err != nil {
		return nil, h, err
	}
	added, cached, derived := h.Added, h.Cached, h.Derived
	switch {
	case h.Chilled:
		f.Remedy = "the contents that cannot be restored without it are named too"
	case h.Needed:
		f.Remedy = "the cold contents that are built from it are named too; " +
			"a file with the same bytes, if it is added again (symdepot add), heals them"
	case added && x.Placed && !repair:
		f.Remedy = "symdepot verify --repair, then add a file with the same bytes again (symdepot add), or remove its builds (symdepot rm)"
	case added:
		f.Remedy = "add a file with the same bytes again (symdepot add), or remove its builds (symdepot rm)"
	case cached && repair:
		f.Remedy = "it was removed from the cache; the next request downloads it again"
	case cached:
		f.Remedy = "the next request downloads it again; --repair removes it from the cache"
	case derived && repair:
		f.Remedy = "its record was removed; it is made again when it is needed"
	case derived:
		f.Remedy = "--repair removes its record, so that it is made again when it is needed"
	case repair:
		f.Remedy = "nothing referred to it; its record was removed"
	default:
		f.Remedy = "nothing refers to it; --repair or symdepot gc removes its record"
	}
	return f, h, nil
}

// Holding are the kinds of references to a content: Chilled is that of a cold file, and
// Needed is a base that only cold contents need.
type Holding struct{ Added, Cached, Derived, Chilled, Needed bool }

// Of describes a content that is lost, with the files that were stored with it, and says
// what holds it. It names no remedy.
func (x Faults) Of(ctx context.Context, ref blob.Ref, what string) (*Fault, Holding, error) {
	f, h := &Fault{Ref: ref.String(), What: what}, Holding{}
	holders, err := x.DB.Holders(ctx, ref)
	if err != nil {
		return nil, h, err
	}
	for _, o := range holders {
		l := FileOf(o)
		if o.Of != (blob.Ref{}) {
			l.MadeFrom = o.Of.String()
		}
		f.Files = append(f.Files, l)
		h.Chilled = h.Chilled || o.Tool == contents.ColdTool.Name
		h.Added, h.Cached, h.Derived = h.Added || o.Transaction > 0, h.Cached || o.Source != "", h.Derived || l.MadeFrom != ""
	}
	if len(holders) == 0 {
		f.Files, err = x.builtFrom(ctx, ref)
		h.Needed = len(f.Files) > 0
	}
	return f, h, err
}

// FileOf describes a file that holds a content, for a fault of it.
func FileOf(o index.Holder) FaultFile {
	return FaultFile{
		File: o.File, Path: o.Path, Product: o.Product, Version: o.Version, Transaction: o.Transaction,
		FetchedFrom: o.Source, Tool: o.Tool,
	}
}

// maxBuiltFrom limits the files that a fault names of contents that are built from it.
const maxBuiltFrom = 20

// builtFrom returns files whose contents are cold and built from another content.
func (x Faults) builtFrom(ctx context.Context, base blob.Ref) (list []FaultFile, err error) {
	for row, err := range x.DB.Colds.Needing(ctx, base) {
		if err != nil {
			return nil, err
		}
		holders, err := x.DB.Holders(ctx, row.Ref)
		if err != nil {
			return nil, err
		}
		if len(holders) == 0 { // it is in the trash, or the next gc takes it
			holders = append(holders, index.Holder{File: row.Ref.String()})
		}
		for _, o := range holders {
			if len(list) == maxBuiltFrom {
				return list, nil
			}
			l := FileOf(o)
			l.BuiltFrom = true
			list = append(list, l)
		}
	}
	return list, nil
}
