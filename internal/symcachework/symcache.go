package symcachework

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// FolderOptions say where SymCache files are besides in the depot itself. The
// zero value says nowhere.
type FolderOptions struct {
	// Folders are SymCache folders that other programs fill. They are only
	// read, and seen by the scope that sees everything.
	Folders []string
	// Store is a SymCache folder into which also goes what is made or fetched,
	// so that clients can read it over SMB. It is read like Folders.
	Store string
	// StoreBytes and StoreUnused bound the Store; zero is no limit. What was not
	// used for longest goes first, and only what the depot has too, or can make
	// again.
	StoreBytes  int64
	StoreUnused time.Duration
}

// Ask is a request for a SymCache file.
type Ask struct {
	Products []string // that the client may see; nil is all
	Request  symcache.Request
	// Exceeds is the version that the client has; zero: none.
	Exceeds symcache.Version
	// AllowsRetry says that the client rather comes again than waits; Head,
	// that it wants no bytes and never waits.
	AllowsRetry, Head bool
	// GaveUp says that the client has waited for as long as it may.
	GaveUp bool
	// HexAge looks for the age read as hex too, if nothing is held of the other.
	HexAge bool
	// Only, if not zero, is the version of the very file that is wanted.
	Only symcache.Version
	// HeldOnly has nothing made and asks nobody.
	HeldOnly bool
	// Via are the servers that the request has passed, this one last.
	Via []string
	// Client is the address of the client, without the port: it bounds how much
	// work one client can have under way. Empty is no client in particular.
	Client string
}

// Answer says what to do with a request.
type Answer struct {
	symcache.Decision
	// Key is that of the file to send: the one asked for, or its other reading.
	Key symcache.Key
	// File is what to send; it must be closed.
	File File
	// Retry is when the client should come again.
	Retry time.Duration
	// Wait, with that action, waits until what is under way has ended or ctx
	// ends. Then ask again.
	Wait func(ctx context.Context) error
}

// symCaches are the SymCache folders.
type symCaches struct {
	folders []*symCacheFolder
	store   *symCacheFolder // one of folders, or nil
	limits  FolderOptions

	mu      sync.Mutex
	touched map[string]time.Time // guarded by mu; files of the store
	retry   time.Duration        // guarded by mu; as of counted
	counted time.Time
}

// openFolders opens the folders.
func (svc *Service) openFolders(ctx context.Context, opt FolderOptions) error {
	s := &svc.symcaches
	s.limits, s.touched = opt, map[string]time.Time{}
	if opt.Store != "" {
		f, err := openSymCacheFolder(ctx, opt.Store, true)
		if err != nil {
			return err
		}
		s.store, s.folders = f, append(s.folders, f)
	}
	for _, dir := range opt.Folders {
		f, err := openSymCacheFolder(ctx, dir, false)
		if err != nil {
			return errors.Join(err, s.close())
		}
		s.folders = append(s.folders, f)
	}
	return nil
}

func (s *symCaches) close() error {
	var errs []error
	for _, f := range s.folders {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// heldFile is a file that can be sent at once: a row of the index or one
// in a folder.
type heldFile struct {
	version symcache.Version
	hit     *index.Hit
	file    folderFile
}

// heldFiles returns the files of a key, the best copy of each version first. all
// says that the client may see everything of the key.
func (svc *Service) heldFiles(ctx context.Context, products []string, key symcache.Key, all bool) ([]heldFile, error) {
	if key.ID.IsZero() {
		return nil, nil
	}
	if all {
		products = nil
	}
	list, err := svc.indexed(ctx, products, key)
	if err != nil {
		return nil, err
	}
	if all {
		for _, f := range svc.symcaches.folders {
			for _, h := range f.held(key) {
				list = append(list, heldFile{version: h.version, file: h})
			}
		}
	}
	return list, nil
}

// indexed returns the files of a key that the index has.
func (svc *Service) indexed(ctx context.Context, products []string, key symcache.Key) (list []heldFile, err error) {
	l := symfile.Lookup{Name: symfile.Fold(key.Name), ID: symfile.Fold(key.ID.Breakpad()), Role: symfile.SymCacheFile}
	// For limited scopes the filter would show what is hidden from them.
	if products == nil && svc.depot.NotIndexed(ctx, layout.Request{Lookups: []symfile.Lookup{l}}) {
		return nil, nil
	}
	hits, err := svc.db.Lookup(ctx, scopeOf(products), l)
	for i := range hits {
		if _, v, err := symcache.ParseFileName(hits[i].Object.CodeName); err == nil {
			list = append(list, heldFile{version: v, hit: &hits[i]})
		}
	}
	return list, err
}

func versionsOf(held []heldFile) (list []symcache.Version) {
	for _, h := range held {
		list = append(list, h.version)
	}
	return list
}

// seesPDB reports whether a scope sees the PDB of a key, and so all that was and
// can be made of it.
func (svc *Service) seesPDB(ctx context.Context, products []string, key symcache.Key) (bool, error) {
	if products == nil {
		return true, nil
	}
	_, err := svc.depot.Find(ctx, products, pdbRequest(key))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Answer answers a request for a SymCache file, and has the work begun that
// the answer promises. It does not wait for any.
func (svc *Service) Answer(ctx context.Context, ask Ask) (Answer, error) {
	none := Answer{}
	if v := ask.Request.Version; v.Compare(symcache.MinVersion) < 0 {
		none.Decision = symcache.Decide(v, symcache.State{})
		return none, nil
	}
	q := &question{svc: svc, ask: ask, key: ask.Request.Key}
	q.state = symcache.State{
		Exceeds: ask.Exceeds, AllowsRetry: ask.AllowsRetry, Head: ask.Head, GaveUp: ask.GaveUp, Upgrade: !svc.jobs.opt.NoUpgrades,
	}
	if err := q.look(ctx); err != nil {
		return none, err
	}
	// Each round learns something new: a file that has gone, or that a version
	// cannot be made. There are few of either.
	for range 16 {
		a, done, err := q.answer(ctx)
		if err != nil || done {
			return a, err
		}
	}
	q.state.GaveUp, q.state.Upgrade = true, false
	a, _, err := q.answer(ctx)
	return a, err
}

// question is one request on its way to an answer.
type question struct {
	svc   *Service
	ask   Ask
	key   symcache.Key
	pdb   *pdbRow
	held  []heldFile
	state symcache.State
	// fromServers says that SymCache servers are asked before anything is made here.
	fromServers bool
}

// look gathers what is there and what could be made.
func (q *question) look(ctx context.Context) error {
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
	return q.lookMakers(ctx)
}

// pdbRow is the row of the PDB of a key, looked up once for a question.
type pdbRow struct {
	svc    *Service
	key    symcache.Key
	looked bool
	hit    index.Hit
	err    error
}

func (svc *Service) row(key symcache.Key) *pdbRow { return &pdbRow{svc: svc, key: key} }

// get returns the row; fs.ErrNotExist if the depot does not have the PDB.
func (r *pdbRow) get(ctx context.Context) (index.Hit, error) {
	if !r.looked {
		r.hit, r.err = r.svc.FindPDB(ctx, r.key)
		r.looked = true
	}
	return r.hit, r.err
}

// lookMakers finds out who could make a file, as far as it matters.
func (q *question) lookMakers(ctx context.Context) error {
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
	for _, m := range q.state.Producible {
		if !symcache.CanRead(v, m) || m.Compare(best) <= 0 {
			continue
		}
		_, err := svc.failure(ctx, q.pdb, m)
		switch {
		case err == nil:
			q.state.Failed = append(q.state.Failed, m)
		case !errors.Is(err, fs.ErrNotExist):
			return err
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

// answer decides and acts; done is false if that brought something to light.
func (q *question) answer(ctx context.Context) (a Answer, done bool, err error) {
	a = Answer{Decision: symcache.Decide(q.ask.Request.Version, q.state), Key: q.key}
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

// open opens a held file, the first that can be of the version. If none can,
// none is held and the file is nil.
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

// begin has a file made or fetched.
func (q *question) begin(ctx context.Context, a Answer) (Answer, bool, error) {
	svc, key, v := q.svc, q.key, a.Make
	a.Retry = time.Second
	if q.fromServers {
		f := svc.askServers(key, v, q.ask)
		if f == nil { // too many are under way, or the depot is closing
			q.state.GaveUp = true
			return a, false, nil
		}
		a.Wait = f.wait
		return a, true, nil
	}
	// Anybody may ask for any id: a job is entered only for a PDB that is there.
	priority := 0
	fetching, err := svc.downloadPDB(ctx, q.pdb, q.ask)
	switch {
	case errors.Is(err, errUnknownPDB):
		priority = unknownPriority
	case errors.Is(err, fs.ErrNotExist):
		q.state.Producible = nil
		return a, false, nil
	case err != nil:
		return Answer{}, false, err
	case fetching != nil:
		a.Wait = fetching
		return a, true, nil
	}
	job, st, err := svc.enter(ctx, q.pdb, v, priority, q.ask.Client)
	switch {
	case errors.Is(err, fs.ErrNotExist): // no name of a PDB that could be had
		q.state.Producible = nil
		return a, false, nil
	case errors.Is(err, errManyJobs):
		q.state.GaveUp = true
		return a, false, nil
	case err != nil:
		return Answer{}, false, err
	case st == JobDone:
		return a, false, q.look(ctx)
	case st > JobRunning:
		// Tried just now; for good, or for a reason that will pass.
		if _, err := svc.failure(ctx, q.pdb, v); err == nil {
			q.state.Failed = append(q.state.Failed, v)
		} else {
			q.state.GaveUp = true
		}
		return a, false, nil
	}
	if a.Action == symcache.ComeAgain {
		a.Retry = svc.symCacheRetry(ctx)
	}
	a.Wait = func(ctx context.Context) error {
		_, err := svc.waitJob(ctx, job, st)
		return err
	}
	return a, true, nil
}

// symCacheRetry estimates when a job that is entered now will have ended. The
// estimate is a little old, so that asking costs nothing.
func (svc *Service) symCacheRetry(ctx context.Context) time.Duration {
	s := &svc.symcaches
	s.mu.Lock()
	defer s.mu.Unlock()
	now := svc.now()
	if !s.counted.IsZero() && now.Sub(s.counted).Abs() < 2*time.Second {
		return s.retry
	}
	s.counted, s.retry = now, time.Second
	stats, err := svc.db.JobStats(ctx)
	if err != nil {
		return s.retry
	}
	slots := int64(0)
	if svc.jobs.opt.Transcoders != nil {
		slots = int64(svc.jobs.opt.Slots)
	}
	for _, w := range svc.Workers() {
		slots += int64(w.Slots)
	}
	for _, st := range stats {
		var jobs int64
		var took time.Duration
		for _, o := range st.Outcomes {
			if st.Kind == symCacheJob && o.State == JobDone {
				jobs, took = jobs+o.Jobs, took+o.Total
			}
		}
		if jobs > 0 {
			s.retry = max(s.retry, took/time.Duration(jobs)*time.Duration(st.Queued)/time.Duration(max(slots, 1)))
		}
	}
	return s.retry
}

// storeSymCache writes a file that was made or fetched to the store, if there is
// one. That it failed is logged: the depot has the file.
func (svc *Service) storeSymCache(ctx context.Context, key symcache.Key, v symcache.Version, c index.Content) {
	store := svc.symcaches.store
	if store == nil {
		return
	}
	b, err := svc.blobs.Open(ctx, c.Ref)
	if err == nil {
		var r io.Reader = io.NewSectionReader(b, 0, c.Size)
		if f := blob.OSFile(b); f != nil {
			r = &io.LimitedReader{R: f, N: c.Size} // the kernel copies
		}
		err = errors.Join(store.put(key, v, c.Size, r), b.Close())
	}
	if err != nil {
		svc.log.Error("cannot write a SymCache file to the store", "store", store.dir, "file", key.Path(v), "error", err)
	}
}

// maxTouched is for how many files of the store it is known that their last use
// was noted.
const maxTouched = 100_000

// touchStore notes that a file was served, on its copy in the store.
func (svc *Service) touchStore(key symcache.Key, h heldFile) {
	s := &svc.symcaches
	if s.store == nil || h.hit == nil && h.file.folder != s.store {
		return
	}
	now, name := svc.now(), key.Fold().Path(h.version)
	s.mu.Lock()
	last, ok := s.touched[name]
	due := !ok || now.Sub(last).Abs() >= touchAfter
	if due {
		if len(s.touched) >= maxTouched {
			clear(s.touched)
		}
		s.touched[name] = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	files := []folderFile{h.file}
	if h.hit != nil {
		files = s.store.held(key)
	}
	for _, f := range files {
		if f.version != h.version {
			continue
		}
		if err := f.touch(now); err != nil {
			svc.log.Debug("cannot record the last use of a SymCache file", "file", f.path, "error", err)
		}
	}
}

// keepFolders says once what is in the folders, and keeps the store within its
// limits until ctx ends.
func (svc *Service) keepFolders(ctx context.Context) {
	for _, f := range svc.symcaches.folders {
		c, err := f.walk(ctx, func(folderFile, symcache.Key) {})
		if err != nil {
			return
		}
		svc.log.Info("serving a SymCache folder", "folder", f.dir, "files", c.Files, "bytes", c.Bytes,
			"of version 1 or 2", c.Old, "unfinished", c.Unfinished, "notes", c.Negative, "other", c.Other)
	}
	l := svc.symcaches.limits
	if svc.symcaches.store == nil || l.StoreBytes <= 0 && l.StoreUnused <= 0 {
		return
	}
	for ctx.Err() == nil {
		if e, err := svc.TrimSymCacheStore(ctx); err != nil && ctx.Err() == nil {
			svc.log.Warn("cannot trim the SymCache store", "error", err)
		} else if e.Files > 0 {
			svc.log.Info("the SymCache store was trimmed", "files", e.Files, "bytes", e.Bytes)
		}
		pause(ctx, nil, trimTime)
	}
}

// trimTime is how often the store is walked.
const trimTime = 10 * time.Minute

// TrimSymCacheStore deletes from the store what its limits do not allow.
func (svc *Service) TrimSymCacheStore(ctx context.Context) (Trimmed, error) {
	s := &svc.symcaches
	if s.store == nil {
		return Trimmed{}, nil
	}
	var oldest time.Time
	if s.limits.StoreUnused > 0 {
		oldest = svc.now().Add(-s.limits.StoreUnused)
	}
	return s.store.trim(ctx, s.limits.StoreBytes, oldest, func(key symcache.Key, v symcache.Version) bool {
		if _, err := svc.FindPDB(ctx, key); err == nil {
			return true
		}
		list, err := svc.indexed(ctx, nil, key)
		return err == nil && slices.Contains(versionsOf(list), v)
	})
}
