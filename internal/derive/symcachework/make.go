package symcachework

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

const (
	// upgradePriority is below that of jobs that a client waits for.
	upgradePriority = -10
	// unknownPriority is that of jobs whose PDB an upstream may have but could not
	// send. They are tried again for a while, after the jobs whose PDB is held.
	unknownPriority = -1
)

// Producible returns the SymCache versions that the transcoders of this machine
// and the known workers can make: the newest of each major one, ascending.
func (svc *Service) Producible() []symcache.Version {
	var all []symcache.Version
	for _, a := range svc.queue.Abilities(Kind) {
		if v, err := symcache.ParseVersion(a.Version); err == nil {
			all = append(all, v)
		}
	}
	return transcode.Newest(all)
}

// RequestSymCache enters a job for a SymCache file in a version that is
// Producible, and returns its state. Repeated requests share one job and write
// nothing. Done means that a file of that major version, at least as new as want,
// is held now. Failed means that an attempt has failed and should not be repeated
// now; SymCacheFailure returns whether the failure is remembered. It asks no upstream.
func (svc *Service) RequestSymCache(ctx context.Context, key SymCacheKey, want symcache.Version) (jobs.State, error) {
	return svc.RequestSymCacheFor(ctx, key, want, "")
}

// RequestSymCacheFor is RequestSymCache for the client with that address, which
// can have a limited number of jobs.
func (svc *Service) RequestSymCacheFor(ctx context.Context, key SymCacheKey, want symcache.Version, client string) (jobs.State, error) {
	_, st, err := svc.enqueue(ctx, svc.row(key), want, 0, client)
	return st, err
}

// WaitSymCache is RequestSymCache and waits until the job has ended or ctx ends;
// then the state is Queued or Running. The job goes on in any case.
func (svc *Service) WaitSymCache(ctx context.Context, key SymCacheKey, want symcache.Version) (jobs.State, error) {
	j, st, err := svc.enqueue(ctx, svc.row(key), want, 0, "")
	if err != nil || st > jobs.Running {
		return st, err
	}
	return svc.queue.Wait(ctx, j.ID, st)
}

// UpgradeSymCache has a newer version of a held file made in the background,
// unless upgrades are off, too many jobs are queued, or an earlier attempt failed.
func (svc *Service) UpgradeSymCache(ctx context.Context, key SymCacheKey, want symcache.Version) error {
	if svc.make.NoUpgrades {
		return nil
	}
	spare, err := svc.queue.HasSpare(ctx, svc.make.UpgradeQueue)
	if err != nil || !spare {
		return err
	}
	_, _, err = svc.enqueue(ctx, svc.row(key), want, upgradePriority, "")
	if errors.Is(err, jobs.ErrFull) {
		return nil
	}
	return err
}

// enqueue enters a job for a version that is Producible. fs.ErrNotExist means that
// no PDB can have such a name or id.
func (svc *Service) enqueue(
	ctx context.Context, pdb *pdbRow, want symcache.Version, priority int, client string,
) (jobs.Job, jobs.State, error) {
	key := pdb.key
	if !symcache.ValidName(key.Name) || !symfile.ValidName(key.Name) || key.ID.GUID.IsZero() {
		return jobs.Job{}, 0, fs.ErrNotExist
	}
	body, err := json.Marshal(payload{messageOf(key), want.String()})
	if err != nil {
		return jobs.Job{}, 0, err
	}
	return svc.queue.Enqueue(ctx, jobs.Entry{
		Job:    jobs.Job{Kind: Kind, Key: jobKey(key), Variant: int(want.Major), Payload: body, Priority: priority},
		Client: client,
		Held:   func(ctx context.Context) (bool, error) { return svc.isHeld(ctx, key, want) },
		Failed: func(ctx context.Context) (bool, error) { return found(svc.failure(ctx, pdb, want)) },
	})
}

// found reports whether a lookup found something: fs.ErrNotExist is no error.
func found[T any](_ T, err error) (bool, error) {
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// SymCacheFailure returns why a version cannot be made of a PDB, and until when
// that is remembered. No failure is fs.ErrNotExist. The memory ends when the PDB
// is added or changes, and with another version of the transcoder.
func (svc *Service) SymCacheFailure(ctx context.Context, key SymCacheKey, want symcache.Version) (queue.Failure, error) {
	return svc.failure(ctx, svc.row(key), want)
}

func (svc *Service) failure(ctx context.Context, pdb *pdbRow, want symcache.Version) (queue.Failure, error) {
	var source *blob.Ref
	if h, err := pdb.get(ctx); err == nil {
		source = &h.Ref
	} else if !errors.Is(err, fs.ErrNotExist) {
		return queue.Failure{}, err
	}
	for _, version := range [...]string{want.String(), ""} {
		f, err := svc.queue.Failure(ctx, Kind, jobKey(pdb.key), source, version)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && source == nil && f.Class == ClassNotFound {
			// A tree that is served in place may have received the PDB.
			if svc.depot.InTrees(ctx, pdbRequest(pdb.key)) == nil {
				continue
			}
		}
		return f, err
	}
	return queue.Failure{}, fs.ErrNotExist
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

// pdbRequest is the request for the PDB of a key.
func pdbRequest(key SymCacheKey) layout.Request {
	req, err := layout.Route([]string{key.Name, key.ID.Breakpad(), key.Name})
	if err != nil || req.Form != layout.FormFile {
		return layout.Request{}
	}
	return req
}

// FindPDB finds the PDB of a key in the index.
func (svc *Service) FindPDB(ctx context.Context, key SymCacheKey) (record.Hit, error) {
	req := pdbRequest(key)
	hits, err := svc.depot.Find(ctx, nil, req)
	if errors.Is(err, fs.ErrNotExist) {
		req.AcceptMSFZ() // only to report that a compressed PDB is of no use
		hits, err = svc.depot.Find(ctx, nil, req)
	}
	if err != nil {
		return record.Hit{}, err
	}
	return hits[0], nil
}

// pdbRow is the row of the PDB of a key, looked up once for a question.
type pdbRow struct {
	svc    *Service
	key    symcache.Key
	looked bool
	hit    record.Hit
	err    error
}

func (svc *Service) row(key symcache.Key) *pdbRow { return &pdbRow{svc: svc, key: key} }

// get returns the row; fs.ErrNotExist if the index does not have the PDB.
func (r *pdbRow) get(ctx context.Context) (record.Hit, error) {
	if !r.looked {
		r.hit, r.err = r.svc.FindPDB(ctx, r.key)
		r.looked = true
	}
	return r.hit, r.err
}

// errUnknownPDB is the error for a PDB about which an upstream could not answer.
var errUnknownPDB = errors.New("an upstream cannot answer now")

// downloadPDB returns nil if the depot or one of its trees has the PDB. Otherwise
// it starts a download, within the limits of all downloads, and returns a function
// that waits for its end. fs.ErrNotExist means that no upstream has the PDB.
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
	if errors.Is(err, fs.ErrNotExist) && noPDBReason(svc.fetch.Reasons(ctx, q, err), err).Class == ClassTransient {
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

// openPDB opens the PDB of a key, from the depot, its trees or an upstream. It may
// still be downloading. If there is none, the error is a jobs.Failure.
func (svc *Service) openPDB(ctx context.Context, key SymCacheKey) (File, error) {
	h, err := svc.FindPDB(ctx, key)
	packed := err == nil && h.Object.Kind == symfile.MSFZ
	q := fetch.Question{Request: pdbRequest(key)}
	f, err := svc.depot.Open(ctx, q.Request, packed)
	switch {
	case err == nil || !errors.Is(err, fs.ErrNotExist) && !fetch.IsFailure(err):
		return f, err
	case packed:
		return nil, jobs.Failure{
			Class: string(transcode.ClassBadSource), Source: &h.Ref,
			Detail: "the depot has the PDB only in compressed form (MSFZ), which cannot be unpacked",
		}
	}
	if len(q.Request.Lookups) == 0 || !svc.fetch.Enabled() {
		return nil, jobs.Failure{Class: ClassNotFound, Detail: "the depot does not have the PDB"}
	}
	reasons := svc.fetch.Reasons(ctx, q, err)
	if fail := noPDBReason(reasons, err); len(reasons) > 0 && fail.Class != ClassTransient {
		return nil, fail
	}
	// The remembered state of an upstream that could not answer is meant for
	// clients. A job is tried seldom, and asks the upstream again. It does so too
	// if there is no reason: what was remembered has expired meanwhile.
	if f, err = svc.depot.Download(ctx, q.Request); err == nil || !errors.Is(err, fs.ErrNotExist) && !fetch.IsFailure(err) {
		return f, err
	}
	return nil, noPDBReason(svc.fetch.Reasons(ctx, q, err), err)
}

// noPDBReason summarizes the answers of the upstreams, or the remembered ones: a PDB
// counts as not found only if all of them say so.
func noPDBReason(reasons []fetch.Class, err error) jobs.Failure {
	f := jobs.Failure{Class: ClassNotFound, Detail: "no upstream has the PDB: " + err.Error()}
	for _, c := range reasons {
		switch c {
		case fetch.ClassTimeout, fetch.ClassBroken, fetch.ClassBusy:
			f.Class, f.Detail = ClassTransient, "an upstream cannot answer now: "+err.Error()
		case fetch.ClassForbidden, fetch.ClassUnauthorized:
			if f.Class == ClassNotFound {
				f.Class, f.Detail = ClassForbidden, "an upstream denies access to the PDB: "+err.Error()
			}
		case fetch.ClassTooLarge:
			if f.Class == ClassNotFound {
				f.Class, f.Detail = string(transcode.ClassBadSource), "the PDB is larger than the limit of downloads: "+err.Error()
			}
		}
	}
	return f
}
