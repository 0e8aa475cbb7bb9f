package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
)

const (
	reportAgain = time.Hour // between two log lines about one damaged content
	maxReported = 4096      // damaged contents whose log lines are remembered
)

// damage reports damaged contents to the log.
type damage struct {
	log *slog.Logger
	now func() time.Time

	mu       sync.Mutex
	reported map[blob.Ref]time.Time // guarded by mu
}

// report logs an error if it is one of a damaged content, once an hour for each
// content.
func (d *damage) report(err error) {
	e, ok := errors.AsType[*blob.DamageError](err)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if last, ok := d.reported[e.Ref]; ok && now.Sub(last) < reportAgain {
		return
	}
	if d.reported == nil || len(d.reported) >= maxReported {
		d.reported = make(map[blob.Ref]time.Time)
	}
	d.reported[e.Ref] = now
	d.log.Error("a stored file is damaged and is not served; run symdepot verify", "content", e.Ref.String(), "damage", e.What)
}

// openBlob opens a content that the index refers to. A damaged or missing one
// is reported and is fs.ErrNotExist.
func (d *Depot) openBlob(ctx context.Context, c index.Content) (blob.File, error) {
	b, err := d.blobs.Open(ctx, c.Ref)
	switch {
	case err == nil && b.Size() != c.Size:
		err = b.Reject(fmt.Sprintf("it has %d bytes instead of %d", b.Size(), c.Size))
		_ = b.Close() // opened for reading
	case err == nil:
		return b, nil
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrDamaged):
		// Evicted or collected since it was looked up, or lost.
		known, kerr := d.db.HasContent(ctx, c.Ref)
		if kerr != nil {
			return nil, kerr
		}
		if known {
			err = d.blobs.Missing(c.Ref)
		}
	}
	d.damage.report(err)
	return nil, err
}

// Fault is one thing that Verify found wrong.
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

// Verified counts what Verify looked at.
type Verified struct {
	Contents int64 `json:"contents"`
	Bytes    int64 `json:"bytes"`
	Strays   int64 `json:"strays"` // blobs that no row refers to: no fault, gc frees them
	Faults   int64 `json:"faults"`
	// Modes, if not empty, says which users of this machine may read the depot
	// although a new depot would not let them.
	Modes string `json:"modes,omitempty"`
}

// Verify hashes every blob and checks every row of the index both ways. It
// calls fault for each fault and progress, if not nil, now and then with the
// number of bytes read.
func (d *Depot) Verify(ctx context.Context, fault func(Fault), progress func(bytes int64)) (Verified, error) {
	return d.verify(ctx, false, fault, progress)
}

// Repair is Verify, and moves damaged blobs aside, drops damaged cached files,
// which are downloaded again, and damaged derived contents, which are made
// again. What was added stays listed: adding the same bytes restores it.
func (d *Depot) Repair(ctx context.Context, fault func(Fault), progress func(bytes int64)) (Verified, error) {
	return d.verify(ctx, true, fault, progress)
}

func (d *Depot) verify(ctx context.Context, repair bool, fault func(Fault), progress func(bytes int64)) (Verified, error) {
	var v Verified
	report := func(f Fault) { v.Faults++; fault(f) }
	problems, err := d.db.Check(ctx)
	if err != nil {
		return v, err
	}
	for _, p := range problems {
		report(Fault{What: p})
	}
	for c, err := range d.db.Contents(ctx) {
		if err != nil {
			return v, err
		}
		v.Contents++
		f, err := d.verifyContent(ctx, c, repair)
		if err != nil {
			return v, err
		}
		if f != nil {
			report(*f)
		}
		v.Bytes += c.Size
		if progress != nil {
			progress(v.Bytes)
		}
	}
	for info, err := range d.blobs.List(ctx) {
		if err != nil {
			return v, err
		}
		known, err := d.db.HasContent(ctx, info.Ref)
		if err != nil {
			return v, err
		}
		if !known {
			v.Strays++
		}
	}
	v.Modes = d.wideModes()
	return v, nil
}

// verifyContent hashes one content and returns what is wrong with it, or nil.
// An error means that the check itself could not go on.
func (d *Depot) verifyContent(ctx context.Context, c index.Content, repair bool) (*Fault, error) {
	what, err := d.hashContent(ctx, c, nil)
	if err != nil || what == "" {
		return nil, err
	}
	f := &Fault{Ref: c.Ref.String(), What: "the blob is damaged: " + what}
	holders, err := d.db.Holders(ctx, c.Ref)
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
		err = d.repair(ctx, c.Ref, f, added, cached)
	}
	return f, err
}

// repair moves the damaged bytes of a content aside and forgets what can be
// had again.
func (d *Depot) repair(ctx context.Context, ref blob.Ref, f *Fault, added, cached bool) error {
	path, err := d.blobs.SetAside(ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.MovedTo = path
	if _, err := d.db.ForgetDerived(ctx, ref); err != nil {
		return err
	}
	if added {
		return nil
	}
	drop := func(ref blob.Ref) error { return d.blobs.Delete(ctx, ref) }
	if cached {
		_, _, err := d.db.Cached.Evict(ctx, []blob.Ref{ref}, drop)
		return err
	}
	_, err = d.db.DropContents(ctx, []blob.Ref{ref}, d.now(), drop)
	return err
}

// hashContent hashes the stored bytes of a content and returns what is wrong
// with them, or "". pace is as for blob.Store.Verify.
func (d *Depot) hashContent(ctx context.Context, c index.Content, pace func(n int) error) (what string, err error) {
	err = d.blobs.Verify(ctx, c.Ref, c.Size, pace)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if e, ok := errors.AsType[*blob.DamageError](err); ok {
		return e.What, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// It may have been collected since the row was read.
	if known, err := d.db.HasContent(ctx, c.Ref); err != nil || !known {
		return "", err
	}
	_ = d.blobs.Missing(c.Ref)
	return "it is missing", nil
}
