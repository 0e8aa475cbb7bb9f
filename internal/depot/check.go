package depot

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/vault"
)

// Checker checks the stored contents: on demand, with Verify and Repair, and in
// the background, see ScrubState.
type Checker struct {
	cold     *coldstore.Cold
	dir      string // of the depot, or of this machine
	placed   bool   // see Depot
	blobs    blob.Backend
	db       *index.DB
	contents *content.Contents
	// accepted reports the files of stages that do not stand in their transactions; nil for
	// a copy, which has no stages.
	accepted func(ctx context.Context, report func(text string)) error
	log      *slog.Logger
	now      func() time.Time

	rate  int64  // of the background check in bytes per second; negative: never
	owner string // names this process in the state of the background check
	// wait waits; tests replace it.
	wait func(ctx context.Context, d time.Duration) error
}

// Verified counts what Verify checked.
type Verified struct {
	Contents int64 `json:"contents"`
	Bytes    int64 `json:"bytes"`
	Strays   int64 `json:"strays"` // blobs without a row in the index: no fault, gc frees them
	Faults   int64 `json:"faults"`
	// Of a bucket, if its objects were compared: their number, those that the index
	// does not know and that are older than a month, and whether these are deleted
	// later.
	Objects int64 `json:"objects,omitempty"`
	Unknown int64 `json:"unknown,omitempty"`
	Doomed  bool  `json:"doomed,omitempty"`
	// Modes, if not empty, says which users of this machine may read the depot
	// although a new depot would not let them.
	Modes string `json:"modes,omitempty"`
	// Cold is how many of the contents are cold, and Restored how many of these were
	// restored and hashed.
	Cold     int64 `json:"cold,omitempty"`
	Restored int64 `json:"restored,omitempty"`
}

// CheckOptions are the options of Run.
type CheckOptions struct {
	// Repair moves damaged blobs aside, drops damaged cached files, which are
	// downloaded again, and damaged derived contents, which are made again. Damaged
	// added files stay in the index: adding the same bytes restores them.
	Repair bool
	// Rows leaves out the stored bytes.
	Rows bool
	// Restore restores and hashes every cold content; otherwise their cold files are
	// hashed, as all stored contents are.
	Restore bool
	// Deep compares all objects of a bucket with the index. Unknown ones that are
	// older than a month are deleted later.
	Deep bool
}

// Verify hashes every blob and checks that rows and blobs match. It calls fault
// for each fault and progress, if not nil, repeatedly with the number of bytes
// read.
func (c *Checker) Verify(ctx context.Context, fault func(content.Fault), progress func(bytes int64)) (Verified, error) {
	return c.Run(ctx, CheckOptions{}, fault, progress)
}

// Repair is Verify, and repairs: see CheckOptions.
func (c *Checker) Repair(ctx context.Context, fault func(content.Fault), progress func(bytes int64)) (Verified, error) {
	return c.Run(ctx, CheckOptions{Repair: true}, fault, progress)
}

// Run is Verify with options.
func (c *Checker) Run(ctx context.Context, opt CheckOptions, fault func(content.Fault), progress func(bytes int64)) (Verified, error) {
	var v Verified
	began, damaged := c.now(), int64(0)
	suspected, err := c.contents.Suspected(ctx)
	if err != nil {
		return v, err
	}
	report := func(f content.Fault) {
		v.Faults++
		if ref, err := blob.ParseRef(f.Ref); err == nil {
			delete(suspected, ref)
			damaged++
			if !opt.Repair { // a later Verify finds what Repair leaves
				c.contents.Note(ref, f.What)
			}
		}
		fault(f)
	}
	problems, err := c.db.Check(ctx)
	if err != nil {
		return v, err
	}
	for _, p := range problems {
		report(content.Fault{What: p})
	}
	if c.accepted != nil {
		if err := c.accepted(ctx, func(text string) { report(content.Fault{What: text, Remedy: "add or push this file again"}) }); err != nil {
			return v, err
		}
	}
	lost := map[blob.Ref]bool{} // and reported already
	if opt.Deep && c.placed {
		a, err := c.audit(ctx, opt.Repair, func(f content.Fault, ref blob.Ref) { lost[ref] = true; report(f) })
		if err != nil {
			return v, err
		}
		v.Objects, v.Unknown, v.Doomed = a.Objects, a.Strays, a.Doomed
	}
	if err := c.verifyContents(ctx, opt, lost, report, &v, progress); err != nil || opt.Rows {
		return v, err
	}
	if err := c.verifyCold(ctx, opt, lost, report, &v, progress); err != nil {
		return v, err
	}
	err = c.db.Damages.Clear(ctx, slices.Collect(maps.Keys(suspected)))
	if err == nil {
		err = c.db.Scrub.Finish(ctx, began, c.now().Add(-scrubOthers), v.Contents, v.Bytes, damaged)
	}
	if err != nil && !errors.Is(err, index.ErrReadOnly) {
		return v, err
	}
	if c.placed {
		return v, nil // the index knows every object that is not referenced
	}
	v.Modes = home.WideModes(c.dir)
	err = c.countStrays(ctx, &v)
	return v, err
}

// verifyContents reads the contents whose bytes are stored as they are; with opt.Rows it
// counts them.
func (c *Checker) verifyContents(ctx context.Context, opt CheckOptions, lost map[blob.Ref]bool, report func(content.Fault), v *Verified, progress func(int64)) error {
	for content, err := range c.db.Contents(ctx) {
		if err != nil {
			return err
		}
		v.Contents++
		if !opt.Rows && !lost[content.Ref] {
			f, gone, err := c.verifyContent(ctx, content, opt.Repair)
			if err != nil {
				return err
			}
			if f != nil {
				lost[content.Ref] = gone
				report(*f)
			}
		}
		v.Bytes += content.Size
		if progress != nil {
			progress(v.Bytes)
		}
	}
	return nil
}

// countStrays counts the stored files that the index does not know.
func (c *Checker) countStrays(ctx context.Context, v *Verified) error {
	for info, err := range c.blobs.List(ctx) {
		if err != nil {
			return err
		}
		known, err := c.db.HasContent(ctx, info.Ref)
		if err != nil {
			return err
		}
		if !known {
			v.Strays++
		}
	}
	return nil
}

// audit compares the objects of the bucket with the index.
func (c *Checker) audit(ctx context.Context, repair bool, lost func(content.Fault, blob.Ref)) (vault.Audited, error) {
	store, ok := coldstore.VaultOf(c.blobs)
	if !ok {
		return vault.Audited{}, errors.ErrUnsupported
	}
	a, err := store.Audit(ctx, func(k index.Content, what string) error {
		f, err := c.describe(ctx, k.Ref, "the blob is damaged: "+what, repair)
		if err == nil {
			lost(*f, k.Ref)
		}
		return err
	})
	if err == nil {
		err = c.db.Places.SetAudited(ctx, c.now())
	}
	return a, err
}

const (
	auditEvery = 30 * 24 * time.Hour // between two audits by servers and the garbage collection
	auditRest  = time.Hour           // between two looks of a server whether one is due
)

// auditMonthly compares all objects of a bucket with the index once a month until ctx
// ends.
func (c *Checker) auditMonthly(ctx context.Context) {
	if !c.placed {
		return
	}
	for c.wait(ctx, auditRest) == nil {
		if err := c.auditDue(ctx); err != nil && ctx.Err() == nil && !content.IsAway(err) {
			c.log.Warn("the monthly comparison of the bucket with the index failed", "error", err)
		}
	}
}

// auditDue audits if the last audit was a month ago and no other process is auditing,
// and logs what is missing. A new depot has its first audit after a month.
func (c *Checker) auditDue(ctx context.Context) error {
	_, err := c.db.Nodes.Do(ctx, "audit", 0, c.auditIfDue)
	return err
}

func (c *Checker) auditIfDue(ctx context.Context) error {
	last, err := c.db.Places.Audited(ctx)
	if err != nil {
		return err
	}
	if last.IsZero() {
		return c.db.Places.SetAudited(ctx, c.now())
	}
	if c.now().Sub(last) < auditEvery {
		return nil
	}
	a, err := c.audit(ctx, false, func(f content.Fault, ref blob.Ref) {
		c.contents.Report(&blob.DamageError{Ref: ref, What: f.What})
	})
	if err == nil {
		c.log.Info("all objects of the bucket were compared with the index", "objects", a.Objects, "missing", a.Missing, "unknown", a.Strays)
	}
	return err
}

// verifyContent hashes one content and returns its fault, or nil. gone says that the
// content is lost: of one that is plain and cold, the other form may be intact. An error
// means that the check could not continue.
func (c *Checker) verifyContent(ctx context.Context, content index.Content, repair bool) (f *content.Fault, gone bool, err error) {
	what, err := c.contents.Hash(ctx, content, nil)
	switch {
	case err != nil:
		return nil, false, err
	case what != "":
		f, err = c.describe(ctx, content.Ref, "the blob is damaged: "+what, repair)
		return f, true, err
	case c.cold.Store().Below().Suspect(content.Ref):
		f, err = c.plainDamaged(ctx, content, repair)
	}
	return f, false, err
}

// describe describes a damaged content with its remedy, and repairs it if that is
// demanded.
func (c *Checker) describe(ctx context.Context, ref blob.Ref, what string, repair bool) (*content.Fault, error) {
	f, h, err := c.faults().Describe(ctx, ref, what, repair)
	if err == nil && repair {
		err = c.repair(ctx, ref, f, h.Added, h.Cached, h.Chilled || h.Needed)
	}
	return f, err
}

// faults describes what is lost.
func (c *Checker) faults() content.Faults { return content.Faults{DB: c.db, Placed: c.placed} }

// repair moves the damaged bytes of a content aside and deletes the record of a
// content that can be downloaded or made again.
func (c *Checker) repair(ctx context.Context, ref blob.Ref, f *content.Fault, added, cached, needed bool) error {
	path, err := c.blobs.SetAside(ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.MovedTo = path
	if _, err := c.db.ForgetDerived(ctx, ref); err != nil {
		return err
	}
	if added || needed {
		return nil
	}
	drop := content.Deleter(ctx, c.blobs, nil)
	if cached {
		_, _, err := c.db.Cached.Evict(ctx, []blob.Ref{ref}, drop)
		return err
	}
	_, err = c.db.DropContents(ctx, []blob.Ref{ref}, c.now(), drop)
	return err
}

// Space returns the size in bytes of the file system that the depot writes to on this
// machine, and how much of it is free.
func (c *Checker) Space() (total, free int64, err error) { return durable.Space(c.dir) }

// ErrCopy means that another copy of the depot's database deletes the objects of its
// bucket, and this one does not.
var ErrCopy = vault.ErrCopy

// Claim makes this database the one that deletes objects of the bucket, instead of
// another copy of it.
func (c *Checker) Claim(ctx context.Context) error {
	v, ok := coldstore.VaultOf(c.blobs)
	if !ok {
		return errors.New("the depot keeps its contents in its folder: there is nothing to claim")
	}
	return v.Claim(ctx)
}
