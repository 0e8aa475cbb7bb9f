package symcachework

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

const (
	symCacheJob  = "symcache" // kind of job
	symCacheTool = "symcache" // in the records of what was made, and what was not
	// symCacheSource is the source under which results are seen; they can be
	// let go of like what was fetched, and made again.
	symCacheSource = "transcoder"

	// Product is the product of results. No right names it: who sees a
	// PDB sees what was made of it, and nobody else does.
	Product = "\x01transcoded"
	// upgradePriority is below that of jobs that somebody waits for.
	upgradePriority = -10
	// unknownPriority is that of jobs whose PDB an upstream may have, but could not
	// answer: they are tried again for a while, after the jobs whose PDB is here.
	unknownPriority = -1
)

// SymCacheKey names the PDB that a SymCache file is made from.
type SymCacheKey = symcache.Key

// jobKey is the same for all spellings of a key.
func jobKey(k SymCacheKey) string { return symfile.Fold(k.Name) + "/" + symfile.Fold(k.ID.Breakpad()) }

// symCachePayload goes with a job.
type symCachePayload struct {
	Name string `json:"name"`
	GUID string `json:"guid"`
	Age  uint32 `json:"age"`
	// Want is the version that could be made when the job was entered. What is
	// held of its major version but older does not end the job.
	Want string `json:"want"`
}

func readSymCacheJob(j Job) (SymCacheKey, symcache.Version, error) {
	var p symCachePayload
	var k SymCacheKey
	if err := json.Unmarshal(j.Payload, &p); err != nil {
		return k, symcache.Version{}, fmt.Errorf("job %d: %w", j.ID, err)
	}
	g, err := debugid.ParseGUID(p.GUID)
	if err != nil {
		return k, symcache.Version{}, fmt.Errorf("job %d: %w", j.ID, err)
	}
	v, err := symcache.ParseVersion(p.Want)
	return SymCacheKey{Name: p.Name, ID: debugid.ID{GUID: g, Age: p.Age}}, v, err
}

// Producible returns the SymCache versions that the transcoders of this machine
// and the workers that live can make, the newest of each major one, ascending.
func (svc *Service) Producible() []symcache.Version {
	all := svc.jobs.opt.Transcoders.Versions()
	for _, w := range svc.Workers() {
		all = append(all, w.Versions...)
	}
	return transcode.Newest(all)
}

// RequestSymCache asks for a SymCache file in a version that is Producible, and
// says how far that is. The work is entered once however often it is asked for,
// and asking again writes nothing. JobDone says that a file of that major
// version, or a newer minor one than want, is held now. JobFailed says that it
// was tried and that it is not worth asking now; SymCacheFailure tells whether
// that will last. It asks no source.
func (svc *Service) RequestSymCache(ctx context.Context, key SymCacheKey, want symcache.Version) (JobState, error) {
	return svc.RequestSymCacheFor(ctx, key, want, "")
}

// RequestSymCacheFor is RequestSymCache for the client with that address, who can
// have only so many jobs.
func (svc *Service) RequestSymCacheFor(ctx context.Context, key SymCacheKey, want symcache.Version, client string) (JobState, error) {
	_, st, err := svc.enter(ctx, svc.row(key), want, 0, client)
	return st, err
}

// errManyJobs is the error for a job that is not entered because too many are
// queued, in all or by one client.
var errManyJobs = errors.New("too many jobs are queued")

// errUnknownPDB is the error for a PDB about which an upstream could not answer.
var errUnknownPDB = errors.New("an upstream cannot answer now")

// downloadPDB returns nil if the depot or one of its trees has the PDB. Otherwise the upstreams are asked, within the bounds of all downloads, and
// wait waits until that download has ended. fs.ErrNotExist says that there is
// none to be had.
func (svc *Service) downloadPDB(ctx context.Context, pdb *pdbRow, ask Ask) (wait func(context.Context) error, err error) {
	if _, err := pdb.get(ctx); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	req := pdbRequest(pdb.key)
	if len(req.Lookups) == 0 {
		return nil, fs.ErrNotExist
	}
	if err := svc.depot.InTrees(ctx, req); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if !svc.fetch.Enabled() {
		return nil, fs.ErrNotExist
	}
	q := fetch.Question{Request: req, Via: ask.Via}
	ended, err := svc.fetch.Start(ctx, q)
	if errors.Is(err, fs.ErrNotExist) && svc.whyNoPDB(ctx, q, err).Class == ClassTransient {
		return nil, errUnknownPDB
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		select {
		case <-ended:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, nil
}

// enter enters a job for a version that can be made, unless there is one, or the
// file is held, or the last attempt is still known to have failed.
func (svc *Service) enter(ctx context.Context, pdb *pdbRow, want symcache.Version, priority int, client string) (Job, JobState, error) {
	none, key := Job{}, pdb.key
	if !symcache.ValidName(key.Name) || !symfile.ValidName(key.Name) || key.ID.GUID.IsZero() {
		return none, 0, fs.ErrNotExist
	}
	last, err := svc.db.LastJob(ctx, symCacheJob, jobKey(key), int(want.Major))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return none, 0, err
	case last.State <= JobRunning && last.Priority >= priority:
		return last, last.State, nil
	case last.State == JobFailed || last.State == JobCancelled:
		// What is remembered of a failure, and for how long, says its class;
		// only of what is not remembered it counts that it was just now.
		lasts := last.State == JobFailed && svc.rule(last.Outcome).byKey > 0
		if !lasts && svc.now().Sub(last.Finished) < svc.jobs.opt.Again {
			return last, JobFailed, nil
		}
	}
	if made, err := svc.isHeld(ctx, key, want); err != nil || made {
		return last, JobDone, err
	}
	if _, err := svc.failure(ctx, pdb, want); err == nil {
		return last, JobFailed, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return none, 0, err
	}
	payload, err := json.Marshal(symCachePayload{key.Name, key.ID.GUID.Upper(), key.ID.Age, want.String()})
	if err != nil {
		return none, 0, err
	}
	j := Job{Kind: symCacheJob, Key: jobKey(key), Variant: int(want.Major), Payload: payload, Priority: priority, MaxAttempts: jobAttempts, MaxQueued: mostJobs}
	if !svc.jobs.clientMayEnter(ctx, svc.db, client) {
		return none, 0, errManyJobs
	}
	var existing bool
	j.ID, existing, err = svc.db.Enqueue(ctx, j)
	if errors.Is(err, index.ErrQueueFull) {
		return none, 0, errManyJobs
	}
	if err == nil && !existing {
		svc.jobs.entered(client, j.ID)
	}
	svc.jobs.queued.ring()
	return j, JobQueued, err
}

// WaitSymCache is RequestSymCache and waits until the job has ended or ctx ends;
// then the state is JobQueued or JobRunning. The job goes on in any case.
func (svc *Service) WaitSymCache(ctx context.Context, key SymCacheKey, want symcache.Version) (JobState, error) {
	j, st, err := svc.enter(ctx, svc.row(key), want, 0, "")
	if err != nil || st > JobRunning {
		return st, err
	}
	return svc.waitJob(ctx, j, st)
}

// waitJob waits until a job has ended or ctx ends, and returns its state; st is
// the state so far.
func (svc *Service) waitJob(ctx context.Context, j Job, st JobState) (JobState, error) {
	for {
		rung := svc.jobs.ended.wait()
		now, err := svc.db.Job(context.WithoutCancel(ctx), j.ID)
		switch {
		case err != nil:
			return st, err
		case now.State == JobCancelled:
			return JobFailed, nil
		case now.State > JobRunning:
			return now.State, nil
		}
		st = now.State
		if !pause(ctx, rung, pollEvery) {
			return st, nil
		}
	}
}

// UpgradeSymCache has a newer version made in the background of a file that is
// held, unless upgrades are off, too much is waiting, or it was tried in vain.
func (svc *Service) UpgradeSymCache(ctx context.Context, key SymCacheKey, want symcache.Version) error {
	if svc.jobs.opt.NoUpgrades {
		return nil
	}
	long, err := svc.longQueue(ctx)
	if err != nil || long {
		return err
	}
	_, _, err = svc.enter(ctx, svc.row(key), want, upgradePriority, "")
	if errors.Is(err, errManyJobs) {
		return nil
	}
	return err
}

// longQueue reports whether there is enough to do. Counting takes a while, so
// the number is a little old.
func (svc *Service) longQueue(ctx context.Context) (bool, error) {
	j := &svc.jobs
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := svc.now(); j.counted.IsZero() || now.Sub(j.counted) > 2*time.Second || now.Before(j.counted) {
		stats, err := svc.db.JobStats(ctx)
		if err != nil {
			return true, err
		}
		j.length, j.counted = 0, now
		for _, s := range stats {
			j.length += s.Queued
		}
	}
	j.length++ // what is entered before the next count
	return j.length > int64(j.opt.UpgradeQueue), nil
}

// SymCacheFailure returns why a version cannot be made of a PDB and until when
// that is believed; nothing of the kind is fs.ErrNotExist. It ends when the PDB
// comes or changes, and with another version of the transcoder.
func (svc *Service) SymCacheFailure(ctx context.Context, key SymCacheKey, want symcache.Version) (index.Failure, error) {
	return svc.failure(ctx, svc.row(key), want)
}

func (svc *Service) failure(ctx context.Context, pdb *pdbRow, want symcache.Version) (index.Failure, error) {
	source, known := keyRef(jobKey(pdb.key)), false
	if h, err := pdb.get(ctx); err == nil {
		source, known = h.Ref, true
	} else if !errors.Is(err, fs.ErrNotExist) {
		return index.Failure{}, err
	}
	for _, version := range [...]string{want.String(), ""} {
		f, err := svc.db.Failure(ctx, source, symCacheTool, version)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !known && f.Class == ClassAbsent {
			// It may have come into a tree that is read in place.
			if svc.depot.InTrees(ctx, pdbRequest(pdb.key)) == nil {
				continue
			}
		}
		return f, err
	}
	return index.Failure{}, fs.ErrNotExist
}

// forgetFailures forgets why a job failed, of its key and of its PDB.
func (svc *Service) forgetFailures(ctx context.Context, j Job) error {
	refs := []blob.Ref{keyRef(j.Key)}
	if key, _, err := readSymCacheJob(j); err == nil {
		if h, err := svc.FindPDB(ctx, key); err == nil {
			refs = append(refs, h.Ref)
		}
	}
	for _, r := range refs {
		if _, err := svc.db.FlushFailures(ctx, index.FailureFilter{Source: &r, Tool: symCacheTool}); err != nil {
			return err
		}
	}
	return nil
}

// isHeld reports whether a file is held that a job for want would make.
func (svc *Service) isHeld(ctx context.Context, key SymCacheKey, want symcache.Version) (bool, error) {
	list, err := svc.indexed(ctx, nil, key)
	for _, v := range versionsOf(list) {
		if v.Major == want.Major && v.Compare(want) >= 0 {
			return true, err
		}
	}
	return false, err
}

// pdbRequest asks for the PDB of a key.
func pdbRequest(key SymCacheKey) layout.Request {
	req, err := layout.Route([]string{key.Name, key.ID.Breakpad(), key.Name})
	if err != nil || req.Form != layout.FormFile {
		return layout.Request{}
	}
	return req
}

// FindPDB looks for the PDB of a key among what the depot has.
func (svc *Service) FindPDB(ctx context.Context, key SymCacheKey) (index.Hit, error) {
	req := pdbRequest(key)
	hits, err := svc.depot.Find(ctx, nil, req)
	if errors.Is(err, fs.ErrNotExist) {
		req.AcceptMSFZ() // only to say that it is no good
		hits, err = svc.depot.Find(ctx, nil, req)
	}
	if err != nil {
		return index.Hit{}, err
	}
	return hits[0], nil
}

// openPDB opens the PDB of a key, from wherever it can be had. It may still be
// arriving. The error is a WorkFailure, or one of ours.
func (svc *Service) openPDB(ctx context.Context, key SymCacheKey) (File, error) {
	h, err := svc.FindPDB(ctx, key)
	packed := err == nil && h.Object.Kind == symfile.MSFZ
	q := fetch.Question{Request: pdbRequest(key)}
	f, err := svc.depot.Open(ctx, q.Request, packed)
	switch {
	case err == nil || !errors.Is(err, fs.ErrNotExist) && !fetch.IsFailure(err):
		return f, err
	case packed:
		return nil, WorkFailure{Class: string(transcode.ClassBadSource), PDB: &h.Ref, Detail: "the depot has the PDB only in compressed form (MSFZ), which cannot be unpacked"}
	}
	if len(q.Request.Lookups) == 0 || !svc.fetch.Enabled() {
		return nil, WorkFailure{Class: ClassAbsent, Detail: "the depot does not have the PDB"}
	}
	fail := svc.whyNoPDB(ctx, q, err)
	if fail.Class != ClassTransient {
		return nil, fail
	}
	// What is remembered of a source that could not answer holds for clients;
	// who tries seldom may ask it again.
	if f, err = svc.depot.Download(ctx, q.Request); err == nil || !errors.Is(err, fs.ErrNotExist) && !fetch.IsFailure(err) {
		return f, err
	}
	return nil, svc.whyNoPDB(ctx, q, err)
}

// whyNoPDB sums up what the sources said, or what is remembered of them: a PDB
// is absent only if all say so.
func (svc *Service) whyNoPDB(ctx context.Context, q fetch.Question, err error) WorkFailure {
	f := WorkFailure{Class: ClassAbsent, Detail: "no upstream has the PDB: " + err.Error()}
	for _, c := range svc.fetch.Reasons(ctx, q, err) {
		switch c {
		case fetch.ClassTimeout, fetch.ClassBroken, fetch.ClassBusy:
			f.Class, f.Detail = ClassTransient, "an upstream cannot answer now: "+err.Error()
		case fetch.ClassForbidden:
			if f.Class == ClassAbsent {
				f.Class, f.Detail = ClassForbidden, "an upstream denies access to the PDB: "+err.Error()
			}
		case fetch.ClassTooLarge:
			if f.Class == ClassAbsent {
				f.Class, f.Detail = string(transcode.ClassBadSource), "the PDB is larger than the limit of downloads: "+err.Error()
			}
		}
	}
	return f
}

// alreadyMade completes a job whose result there is already, and fails one that
// is known to fail; it reports whether there is nothing left to do.
func (svc *Service) alreadyMade(ctx context.Context, j Job) (bool, error) {
	key, want, err := readSymCacheJob(j)
	if err != nil {
		return false, err
	}
	if made, err := svc.isHeld(ctx, key, want); err != nil {
		return false, err
	} else if made {
		return true, svc.complete(ctx, j, index.Outcome{Class: "held", Detail: "the file is already held"})
	}
	h, err := svc.FindPDB(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if f, err := svc.db.Failure(ctx, h.Ref, symCacheTool, want.String()); err == nil {
		return false, WorkFailure{Class: f.Class, Version: want, Detail: f.Detail}
	}
	c, err := svc.db.Derived(ctx, h.Ref, symCacheVersion(want))
	if errors.Is(err, fs.ErrNotExist) || err == nil && c.Size == 0 {
		return false, nil // to be made
	}
	if err != nil {
		return false, err
	}
	// The same PDB under another name.
	if err := svc.enterResult(ctx, key, want, c); err != nil {
		return false, nil //nolint:nilerr // it was let go of meanwhile: make it again
	}
	return true, svc.complete(ctx, j, index.Outcome{Class: "ok", Detail: want.String() + ", as made before", Result: &c.Ref})
}

func (svc *Service) complete(ctx context.Context, j Job, o index.Outcome) error {
	err := svc.db.Complete(ctx, j.ID, j.Worker, j.Token, o)
	svc.jobs.ended.ring()
	return err
}

// symCacheVersion is the tool in the records of what was made of which content.
func symCacheVersion(v symcache.Version) index.Tool {
	return index.Tool{Name: symCacheTool, Version: int(v.Major)<<16 | int(v.Minor)<<8 | int(v.Patch)}
}

// transcodeJob does a job with the transcoders of this machine.
func (svc *Service) transcodeJob(ctx context.Context, j Job) error {
	if known, err := svc.alreadyMade(ctx, j); err != nil || known {
		return err
	}
	key, want, err := readSymCacheJob(j)
	if err != nil {
		return err
	}
	t := svc.jobs.opt.Transcoders
	sc, ref, err := svc.copyPDB(ctx, key)
	if err != nil {
		return err
	}
	defer sc.Drop()
	// What was fetched just now may be known.
	if known, err := svc.alreadyMade(ctx, j); err != nil || known {
		return err
	}
	m, err := t.Transcode(ctx, sc, transcode.Job{Name: key.Name, ID: key.ID, Major: j.Variant})
	if err != nil {
		f := failureOf(err)
		f.PDB = &ref
		return f
	}
	in, err := os.Open(m.Path)
	if err != nil {
		return err
	}
	defer in.Close()
	c, err := svc.keepResult(ctx, key, m.Version, m.Size, nil, in)
	if err != nil {
		return err
	}
	svc.noteDerived(ctx, ref, m.Version, c)
	svc.log.Info("a PDB was transcoded", "job", j.ID, "pdb", jobKey(key), "version", m.Version.String(), "wanted", want.String(), "transcoder", m.Program, "took", m.Took)
	return svc.complete(ctx, j, index.Outcome{Class: "ok", Detail: fmt.Sprintf("%s by %s in %s", m.Version, m.Program, m.Took.Round(time.Millisecond)), Result: &c.Ref})
}

// copyPDB puts the PDB of a key into a new scratch folder, which the caller
// drops, and returns its Ref. The program is given the PDB's own name, not the
// one in the request.
func (svc *Service) copyPDB(ctx context.Context, key SymCacheKey) (sc *transcode.Scratch, ref blob.Ref, err error) {
	f, err := svc.openPDB(ctx, key)
	if err != nil {
		return nil, ref, err
	}
	defer f.Close()
	name, _, _ := f.Content()
	if sc, err = svc.jobs.opt.Transcoders.Room().New(name); err != nil {
		return nil, ref, err
	}
	if ref, err = writePDB(ctx, f, sc); err != nil {
		sc.Drop()
		return nil, ref, err
	}
	return sc, ref, nil
}

// writePDB copies a PDB into a scratch folder and returns its Ref.
func writePDB(ctx context.Context, f File, sc *transcode.Scratch) (ref blob.Ref, err error) {
	out, err := sc.Create()
	if err != nil {
		return ref, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, content, size := f.Content(); f.OSFile() != nil && content != (blob.Ref{}) {
		// The kernel copies, or shares the blocks; a link would let the
		// program write to the depot.
		n, err := io.Copy(out, &io.LimitedReader{R: f.OSFile(), N: size})
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		return content, err
	}
	h := sha256.New()
	err = copyGrowing(ctx, io.MultiWriter(out, h), f)
	if _, broken := errors.AsType[*fetch.BrokenError](err); broken {
		err = WorkFailure{Class: ClassTransient, Detail: err.Error()}
	}
	return blob.Ref(h.Sum(nil)), err
}

// copyGrowing copies a file that may still be arriving.
func copyGrowing(ctx context.Context, w io.Writer, f File) error {
	buf := make([]byte, 256<<10)
	for off := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.ReadAt(buf, off)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
			off += int64(n)
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// keepResult stores a result and makes it findable. claimed, if not nil, is
// what the content must be.
func (svc *Service) keepResult(ctx context.Context, key SymCacheKey, v symcache.Version, size int64, claimed *blob.Ref, r io.Reader) (index.Content, error) {
	none := index.Content{}
	batch, err := svc.blobs.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer batch.Abort()
	limit := &io.LimitedReader{R: r, N: svc.jobs.opt.MaxResult + 1}
	peek := bufio.NewReaderSize(limit, 64<<10)
	if head, _ := peek.Peek(symcache.SniffLen); len(head) > 0 {
		if err := symcache.Detect(head); err != nil {
			return none, WorkFailure{Class: string(transcode.ClassBadOutput), Version: v, Detail: "the result is not a SymCache file: " + err.Error()}
		}
	}
	ref, n, err := batch.Put(ctx, size, peek)
	switch {
	case err != nil:
		return none, err
	case limit.N <= 0:
		return none, WorkFailure{Class: string(transcode.ClassTooLarge), Version: v, Detail: "the result is larger than the limit"}
	case n == 0:
		return none, WorkFailure{Class: string(transcode.ClassBadOutput), Version: v, Detail: "the result is empty"}
	case claimed != nil && *claimed != ref:
		return none, fmt.Errorf("%w: SHA-256 %s", blob.ErrMismatch, ref)
	}
	if err := batch.Commit(ctx); err != nil {
		return none, err
	}
	c := index.Content{Ref: ref, Size: n}
	return c, svc.enterResult(ctx, key, v, c)
}

// enterResult makes a stored result findable, as if it had been added.
func (svc *Service) enterResult(ctx context.Context, key SymCacheKey, v symcache.Version, c index.Content) error {
	b, err := svc.blobs.Open(ctx, c.Ref)
	if err != nil {
		return err
	}
	defer b.Close()
	leaf := key.FileName(v)
	objs, err := objfile.Identify(b, c.Size, key.Name+"/"+key.ID.Breakpad()+"/"+leaf, objfile.Options{})
	if err != nil {
		return WorkFailure{Class: string(transcode.ClassBadOutput), Version: v, Detail: "the result is " + err.Error()}
	}
	var entries []index.Entry
	for _, o := range objs {
		entries = append(entries, index.Entry{Object: o.Object, Features: o.Features.Words(), Ref: c.Ref, Size: c.Size, Aliases: o.Aliases(), Path: leaf})
	}
	err = svc.db.Cached.Put(ctx, index.CachedFile{Source: symCacheSource, Product: Product, Name: leaf, Ref: c.Ref, Size: c.Size, Fetched: svc.now(), Entries: entries},
		func(ctx context.Context, _ []blob.Ref) error {
			_, err := svc.blobs.Stat(ctx, c.Ref)
			return err
		})
	if err == nil {
		svc.storeSymCache(ctx, key, v, c)
	}
	return err
}

// noteDerived records what was made of a PDB, so that it need not be made again
// of the same PDB under another name.
func (svc *Service) noteDerived(ctx context.Context, pdb blob.Ref, v symcache.Version, c index.Content) {
	if v.Pre != "" {
		return // the number does not tell it from the release
	}
	err := svc.db.PutDerived(ctx, pdb, symCacheVersion(v), &c)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a PDB that is not kept
		svc.log.Warn("cannot record what was made of a PDB", "error", err)
	}
}

// OpenWorkPDB opens the PDB of a worker's job. If that cannot be had, the
// attempt has failed and the error is a WorkFailure.
func (svc *Service) OpenWorkPDB(ctx context.Context, id int64, worker, token string) (File, error) {
	j, err := svc.held(ctx, id, worker, token)
	if err != nil {
		return nil, err
	}
	key, _, err := readSymCacheJob(j)
	if err != nil {
		return nil, err
	}
	f, err := svc.openPDB(ctx, key)
	if err == nil || ctx.Err() != nil {
		return f, err
	}
	w := failureOf(err)
	if serr := svc.settle(ctx, j, w); serr != nil {
		return nil, serr
	}
	return nil, w
}

// WorkResult is what a worker made.
type WorkResult struct {
	Version symcache.Version
	SHA256  blob.Ref // of the body
	Size    int64    // bytes of the body; -1 if it is not known before
	Detail  string   // who made it and how long that took, for people
}

// ErrBadResult is wrapped by CompleteWork's error for a result that cannot be
// one of the job; the attempt has not ended.
var ErrBadResult = errors.New("not a result of this job")

// CompleteWork takes a worker's result in. To say the same twice is no error.
func (svc *Service) CompleteWork(ctx context.Context, id int64, worker, token string, r WorkResult, body io.Reader) error {
	if told, err := svc.db.Job(ctx, id); err == nil && told.State == JobDone && told.Result != nil && *told.Result == r.SHA256 {
		return nil
	}
	j, err := svc.held(ctx, id, worker, token)
	if err != nil {
		return err
	}
	key, _, err := readSymCacheJob(j)
	if err != nil {
		return err
	}
	if int(r.Version.Major) != j.Variant || r.Size == 0 || r.Size > svc.jobs.opt.MaxResult {
		return fmt.Errorf("%w: version %s, %d bytes", ErrBadResult, r.Version, r.Size)
	}
	c, err := svc.keepResult(ctx, key, r.Version, r.Size, &r.SHA256, body)
	if errors.Is(err, blob.ErrMismatch) {
		return fmt.Errorf("%w: %w", ErrBadResult, err)
	}
	if f, ok := errors.AsType[WorkFailure](err); ok {
		return fmt.Errorf("%w: %s", ErrBadResult, f.Detail)
	}
	if err != nil {
		return err
	}
	if h, err := svc.FindPDB(ctx, key); err == nil {
		svc.noteDerived(ctx, h.Ref, r.Version, c)
	}
	svc.log.Info("a worker made a SymCache file", "job", j.ID, "pdb", jobKey(key), "version", r.Version.String(), "worker", worker, "sha256", c.Ref.String(), "bytes", c.Size)
	return svc.complete(ctx, j, index.Outcome{Class: "ok", Detail: transcode.Printable(r.Detail), Result: &c.Ref})
}
