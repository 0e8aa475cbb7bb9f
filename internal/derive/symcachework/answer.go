package symcachework

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/symcache"
)

// Answer is the answer to a request.
type Answer struct {
	symcache.Decision
	// Key is that of the file to send: the one of the request, or its hex reading.
	Key symcache.Key
	// File is what to send; it must be closed.
	File File
	// Retry is after what time the client should retry.
	Retry time.Duration
	// Limit names the limit that refused work that could have been done: one of
	// LimitJobs and LimitDownloads. Empty: none.
	Limit string
}

// The limits that refuse work.
const (
	LimitJobs      = "jobs"      // queued jobs, in all or of one client
	LimitDownloads = "downloads" // downloads from SymCache servers, in all or of one client
)

const (
	// maxRounds is how often a question is decided without a wait. Each round learns
	// something new: a file was removed, or a version cannot be made. There are few of
	// either.
	maxRounds = 16
	// leastWait is how long a wait must last to begin the count of rounds anew: work
	// that ends at once, again and again, must not be asked for without end.
	leastWait = time.Second
	// askAgain is how often a request that is held is decided anew. So it ends when
	// nobody is left who could make the file, and counts as a request for a download.
	askAgain = mostUnasked / 5
	// unableLife is how long requests are held for a queued job that nobody can do. In
	// that time a worker can restart, or its machine.
	unableLife = 10 * time.Minute
)

// Answer answers a request for a SymCache file, and begins the work that the
// answer promises. Only Ask.Hold waits for work.
func (svc *Service) Answer(ctx context.Context, ask Ask) (Answer, error) {
	if v := ask.Request.Version; v.Compare(symcache.MinVersion) < 0 {
		return Answer{Decision: symcache.Decide(v, symcache.State{})}, nil
	}
	q, err := svc.ask(ctx, ask, false)
	for round := 0; err == nil; round++ {
		if round == maxRounds {
			q.state.GaveUp, q.state.Upgrade = true, false
		}
		var a Answer
		var done bool
		a, done, err = q.answer(ctx)
		switch {
		case err != nil:
		case q.wait != nil && ask.Hold == nil:
			q.state.GaveUp, q.wait = true, nil
		case q.wait != nil:
			began := svc.now()
			var gaveUp bool
			if gaveUp, err = ask.Hold(ctx, q.wait); err == nil {
				q, err = svc.ask(ctx, ask, gaveUp)
				if svc.now().Sub(began) >= leastWait {
					round = -1
				}
			}
		case done || round == maxRounds:
			return a, nil
		}
	}
	return Answer{}, err
}

// question is one request on its way to an answer.
type question struct {
	svc   *Service
	ask   Ask
	key   symcache.Key
	pdb   *pdbRow
	held  []heldFile
	state symcache.State
	// fromServers means that SymCache servers are asked before anything is made
	// here.
	fromServers bool
	// live are the jobs of the key that are queued or running.
	live []jobs.Job
	// limit is that of Answer.
	limit string
	// wait, if not nil, waits for the work that answer has begun. The question has
	// to be asked again then.
	wait func(ctx context.Context) error
}

// ask gathers the state that decides about a request.
func (svc *Service) ask(ctx context.Context, ask Ask, gaveUp bool) (*question, error) {
	q := &question{svc: svc, ask: ask, key: ask.Request.Key}
	q.state = symcache.State{
		Exceeds: ask.Exceeds, AllowsRetry: ask.AllowsRetry, Head: ask.Head, GaveUp: gaveUp, Upgrade: !svc.make.NoUpgrades,
	}
	return q, q.gather(ctx)
}

// gather gathers the held files and the versions that can be made.
func (q *question) gather(ctx context.Context) error {
	svc, v := q.svc, q.ask.Request.Version
	all, err := svc.seesPDB(ctx, q.ask.Products, q.key)
	if err != nil {
		return err
	}
	if q.held, err = svc.heldFiles(ctx, q.ask.Products, q.key, all); err != nil {
		return err
	}
	if _, ok := symcache.Best(versionsOf(q.held), v, symcache.Version{}); !ok && q.ask.HexAge {
		hex := q.ask.Request.Hex
		if all, err = svc.seesPDB(ctx, q.ask.Products, hex); err != nil {
			return err
		}
		held, err := svc.heldFiles(ctx, q.ask.Products, hex, all)
		if err != nil {
			return err
		}
		if _, ok := symcache.Best(versionsOf(held), v, symcache.Version{}); ok {
			q.key, q.held, q.ask.HeldOnly = hex, held, true // nothing is made on a guess
		}
	}
	if only := q.ask.Only; !only.IsZero() {
		q.held = slices.DeleteFunc(q.held, func(h heldFile) bool { return h.version != only })
		q.ask.HeldOnly = true
	}
	q.state.Held = versionsOf(q.held)
	if q.ask.HeldOnly || !all || q.key.ID.GUID.IsZero() {
		return nil
	}
	q.pdb = svc.row(q.key)
	return q.gatherMakers(ctx)
}

// gatherMakers finds who can make a file, as far as it matters for the decision.
func (q *question) gatherMakers(ctx context.Context) error {
	svc, v := q.svc, q.ask.Request.Version
	best, held := symcache.Best(q.state.Held, v, q.ask.Exceeds)
	if held && (best.Compare(v) >= 0 && best.Pre == "") && svc.newest(v).Compare(best) <= 0 {
		return nil
	}
	if best.Compare(v) < 0 {
		may, err := svc.serversMayHave(ctx, q.key, v, q.state.Held)
		if err != nil {
			return err
		}
		if may {
			q.fromServers, q.state.Producible = true, []symcache.Version{v}
			return nil
		}
	}
	q.state.Producible = svc.Producible()
	if !held {
		if err := q.gatherLive(ctx); err != nil {
			return err
		}
	}
	for _, m := range q.state.Producible {
		if !symcache.CanRead(v, m) || m.Compare(best) <= 0 || q.liveJob(m) != nil {
			continue
		}
		failed, err := found(svc.failure(ctx, q.pdb, m))
		if err != nil {
			return err
		}
		if failed {
			q.state.Failed = append(q.state.Failed, m)
		}
	}
	return nil
}

// gatherLive finds the jobs for the key that are under way. Their versions can be
// made, also while nobody who can do them is known: a server that has just started
// knows no worker yet, and a worker that restarts is not known for a while.
func (q *question) gatherLive(ctx context.Context) error {
	list, err := q.svc.queue.Live(ctx, Kind, jobKey(q.key))
	if err != nil {
		return err
	}
	for _, j := range list {
		if _, want, err := readPayload(j); err == nil && q.svc.lives(j) {
			q.live = append(q.live, j)
			if !slices.Contains(q.state.Producible, want) {
				q.state.Producible = append(q.state.Producible, want)
			}
		}
	}
	return nil
}

// lives reports whether clients should wait for a job that has not ended: somebody
// can do it, or could a short time ago.
func (svc *Service) lives(j jobs.Job) bool {
	last := j.Created
	for _, t := range [...]time.Time{j.Started, j.NotBefore, j.LeaseUntil} {
		if t.After(last) {
			last = t
		}
	}
	return svc.now().Sub(last) < unableLife || svc.queue.Able(Kind, j.Variant)
}

// liveJob returns the job under way that makes a version; nil: none.
func (q *question) liveJob(v symcache.Version) *jobs.Job {
	for i := range q.live {
		if q.live[i].Variant == int(v.Major) {
			return &q.live[i]
		}
	}
	return nil
}

// newest returns the highest version that can be made here for a request.
func (svc *Service) newest(v symcache.Version) (best symcache.Version) {
	for _, m := range svc.Producible() {
		if symcache.CanRead(v, m) && m.Compare(best) > 0 {
			best = m
		}
	}
	return best
}

// answer decides and acts. done is false if the state has changed and the question
// has to be decided again, at once or after q.wait.
func (q *question) answer(ctx context.Context) (a Answer, done bool, err error) {
	a = Answer{Decision: symcache.Decide(q.ask.Request.Version, q.state), Key: q.key, Limit: q.limit}
	switch a.Action {
	case symcache.Send:
		if a.File, err = q.open(ctx, a.Version); err != nil {
			return Answer{}, false, err
		}
		if a.File == nil {
			return a, false, nil
		}
		if !a.Make.IsZero() {
			q.upgrade(ctx, a.Make)
		}
		return a, true, nil
	case symcache.ComeAgain, symcache.Wait:
		return q.begin(ctx, a)
	}
	return a, true, nil
}

// open opens a held file of a version. If none can be opened, the version is no
// longer held and the file is nil.
func (q *question) open(ctx context.Context, v symcache.Version) (File, error) {
	for i := 0; i < len(q.held); {
		h := q.held[i]
		if h.version != v {
			i++
			continue
		}
		var f File
		var err error
		if h.hit != nil {
			f, err = q.svc.depot.OpenHit(ctx, *h.hit)
		} else {
			f, err = h.file.open()
		}
		if err == nil {
			q.svc.touchStore(q.key, h)
			return f, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if h.hit == nil && errors.Is(err, symcache.ErrForeign) {
			q.svc.log.Warn("a file in a SymCache folder is not a SymCache file", "folder", h.file.folder.dir, "error", err)
		} else if !errors.Is(err, fs.ErrNotExist) {
			q.svc.log.Error("cannot read a SymCache file", "key", jobKey(q.key), "error", err)
		}
		q.held = slices.Delete(q.held, i, i+1)
	}
	q.state.Held = versionsOf(q.held)
	return nil, nil
}

// upgrade has a newer file made while the client gets the old one.
func (q *question) upgrade(ctx context.Context, v symcache.Version) {
	if q.fromServers {
		q.svc.askServers(q.key, v, q.ask)
		return
	}
	if err := q.svc.UpgradeSymCache(ctx, q.key, v); err != nil && ctx.Err() == nil {
		q.svc.log.Warn("cannot queue the upgrade of a SymCache file", "key", jobKey(q.key), "error", err)
	}
}

// begin has a file made or downloaded.
func (q *question) begin(ctx context.Context, a Answer) (Answer, bool, error) {
	svc, v := q.svc, a.Make
	a.Retry = time.Second
	if q.fromServers {
		d := svc.askServers(q.key, v, q.ask)
		if d == nil { // too many downloads, or the depot is closing
			q.state.GaveUp, q.limit = true, LimitDownloads
			return a, false, nil
		}
		return q.waitFor(a, d.wait)
	}
	priority := 0
	if j := q.liveJob(v); j != nil {
		priority = max(j.Priority, unknownPriority)
		if j.Priority < unknownPriority { // nobody waited for it
			priority = 0
		}
	} else {
		// Anybody may ask for any id: a job is entered only for a PDB that is there.
		wait, err := svc.downloadPDB(ctx, q.pdb, q.ask)
		switch {
		case errors.Is(err, errUnknownPDB):
			priority = unknownPriority
		case errors.Is(err, fs.ErrNotExist):
			q.state.Producible = nil
			return a, false, nil
		case err != nil:
			return Answer{}, false, err
		case wait != nil:
			return q.waitFor(a, wait)
		}
	}
	return q.enter(ctx, a, priority)
}

// enter enters the job that makes a file, or joins it.
func (q *question) enter(ctx context.Context, a Answer, priority int) (Answer, bool, error) {
	svc, v := q.svc, a.Make
	job, st, err := svc.enqueue(ctx, q.pdb, v, priority, q.ask.Client)
	switch {
	case errors.Is(err, fs.ErrNotExist): // no PDB can have this name or id
		q.state.Producible = nil
		return a, false, nil
	case errors.Is(err, jobs.ErrFull):
		q.state.GaveUp, q.limit = true, LimitJobs
		return a, false, nil
	case err != nil:
		return Answer{}, false, err
	case st == jobs.Done:
		return a, false, q.gather(ctx)
	case st > jobs.Running:
		// An attempt has just failed: for long, or for a reason that will pass.
		if _, err := svc.failure(ctx, q.pdb, v); err == nil {
			q.state.Failed = append(q.state.Failed, v)
		} else {
			q.state.GaveUp = true
		}
		return a, false, nil
	}
	if a.Action == symcache.ComeAgain {
		a.Retry = svc.queue.Estimate(ctx, Kind)
	}
	return q.waitFor(a, func(ctx context.Context) error {
		_, err := svc.queue.Wait(ctx, job.ID, st)
		return err
	})
}

// waitFor ends the question, or has the client wait for the work that has begun. A
// wait ends after askAgain at the latest, and the question is asked again.
func (q *question) waitFor(a Answer, wait func(ctx context.Context) error) (Answer, bool, error) {
	if a.Action != symcache.Wait {
		return a, true, nil
	}
	q.wait = func(ctx context.Context) error {
		some, cancel := context.WithTimeout(ctx, askAgain)
		defer cancel()
		err := wait(some)
		if some.Err() != nil && ctx.Err() == nil {
			return nil
		}
		return err
	}
	return a, false, nil
}
