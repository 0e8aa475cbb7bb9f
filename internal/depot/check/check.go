// Package check checks the stored contents of a depot: on demand and in the background.
package check

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/bucketstore"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Checker checks the stored contents: on demand, with Run, and in the background, see Scrub.
type Checker struct {
	home     *home.Home
	cold     *coldstore.Cold
	contents *content.Contents
	// accepted reports the files of stages that do not stand in their transactions; nil for
	// a copy, which has no stages.
	accepted func(ctx context.Context, report func(text string)) error
	log      *slog.Logger

	rate  int64  // of the background check in bytes per second; negative: never
	owner string // names this process in the state of the background check

	// Now is the clock, and Wait waits. Tests replace them before anything is checked.
	Now  func() time.Time
	Wait func(ctx context.Context, d time.Duration) error
}

// New returns the Checker of a depot, whose background check reads rate bytes per second: zero
// means 8 MiB; with a negative one there is none.
func New(h *home.Home, cold *coldstore.Cold, contents *content.Contents, rate int64, log *slog.Logger) *Checker {
	return &Checker{
		home: h, cold: cold, contents: contents, log: log,
		rate: cmp.Or(rate, scrubRate), owner: rand.Text(), Now: h.Now, Wait: ctxio.Pause,
	}
}

// UseAccepted sets what reports the files of stages that were accepted and do not stand in
// their transactions, before the first check.
func (c *Checker) UseAccepted(audit func(ctx context.Context, report func(text string)) error) {
	c.accepted = audit
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
	// Denied is how many of the contents the user of this process may not read: nothing is
	// known of their bytes. A fault says why.
	Denied int64 `json:"denied,omitempty"`

	why *account.DeniedError // of the last one of these
}

// Options are those of Run.
type Options struct {
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
	return c.Run(ctx, Options{}, fault, progress)
}

// Repair is Verify, and repairs: see Options.
func (c *Checker) Repair(ctx context.Context, fault func(content.Fault), progress func(bytes int64)) (Verified, error) {
	return c.Run(ctx, Options{Repair: true}, fault, progress)
}

// Run is Verify with options.
func (c *Checker) Run(ctx context.Context, opt Options, fault func(content.Fault), progress func(bytes int64)) (Verified, error) {
	var v Verified
	began, damaged := c.Now(), int64(0)
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
	problems, err := c.home.DB.Check(ctx)
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
	var told *account.DeniedError
	if !c.home.Placed {
		var n int64
		told, n = home.Denied(ctx, c.home.Dir)
		if told != nil {
			report(content.Denied(told, n))
		}
	}
	lost := map[blob.Ref]bool{} // and reported already
	if opt.Deep && c.home.Placed {
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
	if v.Denied > 0 && told == nil {
		report(content.Denied(v.why, v.Denied))
	}
	if v.Denied > 0 {
		return v, nil // a check that has not read everything ends no suspicion
	}
	err = c.home.DB.Damages.Clear(ctx, slices.Collect(maps.Keys(suspected)))
	if err == nil {
		err = c.home.DB.Scrub.Finish(ctx, began, c.Now().Add(-scrubOthers), v.Contents, v.Bytes, damaged)
	}
	if err != nil && !errors.Is(err, engine.ErrReadOnly) {
		return v, err
	}
	if c.home.Placed {
		return v, nil // the index knows every object that is not referenced
	}
	v.Modes = home.WideModes(c.home.Dir)
	err = c.countStrays(ctx, &v)
	return v, err
}

// verifyContents reads the contents whose bytes are stored as they are; with opt.Rows it
// counts them.
func (c *Checker) verifyContents(
	ctx context.Context, opt Options, lost map[blob.Ref]bool, report func(content.Fault), v *Verified, progress func(int64),
) error {
	for content, err := range c.home.DB.Contents(ctx) {
		if err != nil {
			return err
		}
		v.Contents++
		if !opt.Rows && !lost[content.Ref] {
			f, gone, err := c.verifyContent(ctx, content, opt.Repair)
			if err = v.denied(err); err != nil {
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

// denied counts a content that may not be read, and then returns nil.
func (v *Verified) denied(err error) error {
	why, ok := errors.AsType[*account.DeniedError](err)
	if !ok {
		return err
	}
	v.Denied, v.why = v.Denied+1, why
	return nil
}

// countStrays counts the stored files that the index does not know.
func (c *Checker) countStrays(ctx context.Context, v *Verified) error {
	for info, err := range c.home.Blobs.List(ctx) {
		if content.IsDenied(err) {
			return nil // that is a fault already
		}
		if err != nil {
			return err
		}
		known, err := c.home.DB.HasContent(ctx, info.Ref)
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
func (c *Checker) audit(ctx context.Context, repair bool, lost func(content.Fault, blob.Ref)) (bucketstore.Audited, error) {
	store, ok := coldstore.BucketStore(c.home.Blobs)
	if !ok {
		return bucketstore.Audited{}, errors.ErrUnsupported
	}
	a, err := store.Audit(ctx, func(k record.Content, what string) error {
		f, err := c.describe(ctx, k.Ref, "the blob is damaged: "+what, repair)
		if err == nil {
			lost(*f, k.Ref)
		}
		return err
	})
	if err == nil {
		err = c.home.DB.Places.SetAudited(ctx, c.Now())
	}
	return a, err
}

const (
	auditEvery = 30 * 24 * time.Hour // between two audits by servers and the garbage collection
	auditRest  = time.Hour           // between two looks of a server whether one is due
)

// AuditMonthly compares all objects of a bucket with the index once a month until ctx
// ends.
func (c *Checker) AuditMonthly(ctx context.Context) {
	if !c.home.Placed {
		return
	}
	for c.Wait(ctx, auditRest) == nil {
		if err := c.AuditDue(ctx); err != nil && ctx.Err() == nil && !content.IsAway(err) {
			c.log.Warn("the monthly comparison of the bucket with the index failed", "error", err)
		}
	}
}

// AuditDue audits if the last audit was a month ago and no other process is auditing,
// and logs what is missing. A new depot has its first audit after a month.
func (c *Checker) AuditDue(ctx context.Context) error {
	_, err := c.home.DB.Nodes.Do(ctx, "audit", 0, c.auditIfDue)
	return err
}

func (c *Checker) auditIfDue(ctx context.Context) error {
	last, err := c.home.DB.Places.Audited(ctx)
	if err != nil {
		return err
	}
	if last.IsZero() {
		return c.home.DB.Places.SetAudited(ctx, c.Now())
	}
	if c.Now().Sub(last) < auditEvery {
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
func (c *Checker) verifyContent(ctx context.Context, content record.Content, repair bool) (f *content.Fault, gone bool, err error) {
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
func (c *Checker) faults() content.Faults {
	return content.Faults{DB: c.home.DB, Placed: c.home.Placed}
}

// repair moves the damaged bytes of a content aside and deletes the record of a
// content that can be downloaded or made again.
func (c *Checker) repair(ctx context.Context, ref blob.Ref, f *content.Fault, added, cached, needed bool) error {
	path, err := c.home.Blobs.SetAside(ref)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f.MovedTo = path
	if _, err := c.home.DB.ForgetDerived(ctx, ref); err != nil {
		return err
	}
	if added || needed {
		return nil
	}
	drop := content.Deleter(ctx, c.home.Blobs, nil)
	if cached {
		_, _, err := c.home.DB.Cached.Evict(ctx, []blob.Ref{ref}, drop)
		return err
	}
	_, err = c.home.DB.DropContents(ctx, []blob.Ref{ref}, c.Now(), drop)
	return err
}

// Space returns the size in bytes of the file system that the depot writes to on this
// machine, and how much of it is free.
func (c *Checker) Space() (total, free int64, err error) { return durable.Space(c.home.Dir) }

// ErrCopy means that another copy of the depot's database deletes the objects of its
// bucket, and this one does not.
var ErrCopy = bucketstore.ErrCopy

// Claim makes this database the one that deletes objects of the bucket, instead of
// another copy of it.
func (c *Checker) Claim(ctx context.Context) error {
	v, ok := coldstore.BucketStore(c.home.Blobs)
	if !ok {
		return errors.New("the depot keeps its contents in its folder: there is nothing to claim")
	}
	return v.Claim(ctx)
}
