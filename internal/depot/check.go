package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

// Checker checks the stored contents: on demand, with Verify and Repair, and in
// the background, see ScrubState.
type Checker struct {
	dir      string // of the depot, or of this machine
	placed   bool   // see Depot
	blobs    blob.Backend
	db       *index.DB
	contents *contents
	log      *slog.Logger
	now      func() time.Time

	rate  int64  // of the background check in bytes per second; negative: never
	owner string // names this process in the state of the background check
	// wait waits; tests replace it.
	wait func(ctx context.Context, d time.Duration) error
}

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

// FaultFile is a file that is lost with a content.
type FaultFile struct {
	File        string `json:"file,omitempty"`
	Path        string `json:"path,omitempty"` // as it was added or downloaded
	Product     string `json:"product,omitempty"`
	Version     string `json:"version,omitempty"`
	Transaction int64  `json:"transaction,omitempty"`
	FetchedFrom string `json:"fetched_from,omitempty"` // the upstream of a cached file
	// MadeFrom and Tool are set for derived content: the SHA-256 of its source
	// and the tool that made it.
	MadeFrom string `json:"made_from,omitempty"`
	Tool     string `json:"tool,omitempty"`
}

// String describes the file in a few words, for people.
func (f FaultFile) String() string {
	switch {
	case f.MadeFrom != "":
		return fmt.Sprintf("derived by %s from content %s", f.Tool, f.MadeFrom)
	case f.FetchedFrom != "":
		return fmt.Sprintf("%s, fetched from %s", f.File, f.FetchedFrom)
	}
	s := fmt.Sprintf("%s of transaction %d", f.File, f.Transaction)
	if p := strings.TrimSpace(f.Product + " " + f.Version); p != "" {
		s += " (" + p + ")"
	}
	if f.Path != "" {
		s += ", added as " + f.Path
	}
	return s
}

// Verified counts what Verify checked.
type Verified struct {
	Contents int64 `json:"contents"`
	Bytes    int64 `json:"bytes"`
	Strays   int64 `json:"strays"` // blobs without a row in the index: no fault, gc frees them
	Faults   int64 `json:"faults"`
	// Modes, if not empty, says which users of this machine may read the depot
	// although a new depot would not let them.
	Modes string `json:"modes,omitempty"`
}

// Verify hashes every blob and checks that rows and blobs match. It calls fault
// for each fault and progress, if not nil, repeatedly with the number of bytes
// read.
func (c *Checker) Verify(ctx context.Context, fault func(Fault), progress func(bytes int64)) (Verified, error) {
	return c.verify(ctx, false, fault, progress)
}

// Repair is Verify, and moves damaged blobs aside, drops damaged cached files,
// which are downloaded again, and damaged derived contents, which are made
// again. Damaged added files stay in the index: adding the same bytes restores
// them.
func (c *Checker) Repair(ctx context.Context, fault func(Fault), progress func(bytes int64)) (Verified, error) {
	return c.verify(ctx, true, fault, progress)
}

func (c *Checker) verify(ctx context.Context, repair bool, fault func(Fault), progress func(bytes int64)) (Verified, error) {
	var v Verified
	report := func(f Fault) { v.Faults++; fault(f) }
	problems, err := c.db.Check(ctx)
	if err != nil {
		return v, err
	}
	for _, p := range problems {
		report(Fault{What: p})
	}
	for content, err := range c.db.Contents(ctx) {
		if err != nil {
			return v, err
		}
		v.Contents++
		f, err := c.verifyContent(ctx, content, repair)
		if err != nil {
			return v, err
		}
		if f != nil {
			report(*f)
		}
		v.Bytes += content.Size
		if progress != nil {
			progress(v.Bytes)
		}
	}
	if c.placed {
		return v, nil // the index knows every object that is not referenced
	}
	for info, err := range c.blobs.List(ctx) {
		if err != nil {
			return v, err
		}
		known, err := c.db.HasContent(ctx, info.Ref)
		if err != nil {
			return v, err
		}
		if !known {
			v.Strays++
		}
	}
	v.Modes = c.wideModes()
	return v, nil
}

// verifyContent hashes one content and returns its fault, or nil. An error means
// that the check could not continue.
func (c *Checker) verifyContent(ctx context.Context, content index.Content, repair bool) (*Fault, error) {
	what, err := c.contents.hash(ctx, content, nil)
	if err != nil || what == "" {
		return nil, err
	}
	f := &Fault{Ref: content.Ref.String(), What: "the blob is damaged: " + what}
	holders, err := c.db.Holders(ctx, content.Ref)
	if err != nil {
		return nil, err
	}
	added, cached, derived := false, false, false
	for _, h := range holders {
		l := FaultFile{File: h.File, Path: h.Path, Product: h.Product, Version: h.Version, Transaction: h.Transaction, FetchedFrom: h.Source, Tool: h.Tool}
		if h.Of != (blob.Ref{}) {
			l.MadeFrom = h.Of.String()
		}
		f.Files = append(f.Files, l)
		added, cached, derived = added || h.Transaction > 0, cached || h.Source != "", derived || l.MadeFrom != ""
	}
	switch {
	case added:
		f.Remedy = "add a file with the same bytes again (symdepot add), or remove its transactions (symdepot rm)"
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
	if repair {
		err = c.repair(ctx, content.Ref, f, added, cached)
	}
	return f, err
}

// repair moves the damaged bytes of a content aside and deletes the record of a
// content that can be downloaded or made again.
func (c *Checker) repair(ctx context.Context, ref blob.Ref, f *Fault, added, cached bool) error {
	path, err := c.blobs.SetAside(ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.MovedTo = path
	if _, err := c.db.ForgetDerived(ctx, ref); err != nil {
		return err
	}
	if added {
		return nil
	}
	drop := deleteBlobs(ctx, c.blobs, nil)
	if cached {
		_, _, err := c.db.Cached.Evict(ctx, []blob.Ref{ref}, drop)
		return err
	}
	_, err = c.db.DropContents(ctx, []blob.Ref{ref}, c.now(), drop)
	return err
}
