package depot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Upstream is a source that files are fetched from, to be kept.
type Upstream struct {
	Source upstream.Source
	// Rank orders the sources: those of one rank are asked at once, the next
	// rank when all have answered or a short while has passed.
	Rank int
	// Product is the product through which what comes from there is seen, by
	// those who see everything in any case.
	Product string
}

// Question is a request with what is known of who asks.
type Question struct {
	Scope   Scope
	Request layout.Request
	// Client names the kind of client in a word, such as "gdb"; it is counted
	// for what is missing.
	Client string
	// Checksum is the value of a SymbolChecksum header, or empty.
	Checksum string
	// Via are the servers that the request has passed, this one last.
	Via []string
}

// Limits of a fetch. They are durations of patience, not of transfers: a file
// may take as long as it keeps coming.
type Limits struct {
	// NextRank is how long the sources of a rank are waited for before the
	// next rank is asked too; zero is 300 ms.
	NextRank time.Duration
	// FirstByte is how long a source may take to come to the first bytes, at
	// less than MinRate; zero is 3 s.
	FirstByte time.Duration
	// Stall is how long a transfer may stay below MinRate; zero is 10 s.
	Stall time.Duration
	// MinRate is in bytes per second; zero is 16 KiB.
	MinRate int64
	// MaxBytes is the most that a file may have; zero is 16 GiB.
	MaxBytes int64
	// Fetches is how many may be under way at once; zero is 64.
	Fetches int
}

// Lifetimes say for how long it is remembered why a source gave no file.
// Zero is the default in brackets, negative is not at all.
type Lifetimes struct {
	Absent    time.Duration // 1 h
	Forbidden time.Duration // 24 h
	Timeout   time.Duration // 60 s
	Broken    time.Duration // 10 min
	TooLarge  time.Duration // 24 h
}

func (l Lifetimes) of(c upstream.Class) time.Duration {
	switch c {
	case upstream.ClassAbsent:
		return cmp.Or(l.Absent, time.Hour)
	case upstream.ClassForbidden:
		return cmp.Or(l.Forbidden, 24*time.Hour)
	case upstream.ClassTimeout:
		return cmp.Or(l.Timeout, time.Minute)
	case upstream.ClassBroken:
		return cmp.Or(l.Broken, 10*time.Minute)
	case upstream.ClassTooLarge:
		return cmp.Or(l.TooLarge, 24*time.Hour)
	}
	return 0
}

const (
	withheld   = 64 << 10 // of a file's end, until all of it is known to be right
	announce   = 16 << 10 // bytes that are there before a client hears of a file
	hurry      = 5 * time.Second
	queueTime  = 20 * time.Second // for a place among the transfers that are under way
	crowd      = 8192             // transfers at once, those that wait for a place among them
	memoryMiss = 200_000          // keys remembered in memory
	refreshers = 8                // misses looked at again at once
)

// fetcher fetches what the depot lacks, once for everybody.
type fetcher struct {
	sources  []Upstream
	limits   Limits
	lives    Lifetimes
	slots    chan struct{} // transfers under way
	renewing chan struct{} // of them, misses that are looked at again

	misses *otter.Cache[string, miss]

	// checksums is set if a source answers only questions with a checksum.
	checksums bool

	mu        sync.Mutex
	transfers map[string]*transfer // guarded by mu; by slot
	under     sync.WaitGroup
}

// miss is what memory holds of a key that no source has.
type miss struct {
	until time.Time
	renew time.Time // from when on it is worth looking again
	// rows are how many sources the index remembers too, and looked when it
	// was last asked: another process may have made it forget them.
	rows   int
	looked time.Time
}

// lookAgain is how old what memory holds may be without a look at the index.
const lookAgain = 2 * time.Second

func newFetcher(sources []Upstream, limits Limits, lives Lifetimes) *fetcher {
	limits.NextRank = cmp.Or(limits.NextRank, 300*time.Millisecond)
	limits.FirstByte = cmp.Or(limits.FirstByte, 3*time.Second)
	limits.Stall = cmp.Or(limits.Stall, 10*time.Second)
	limits.MinRate = cmp.Or(limits.MinRate, 16<<10)
	limits.MaxBytes = cmp.Or(limits.MaxBytes, 16<<30)
	limits.Fetches = cmp.Or(limits.Fetches, 64)
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources, func(a, b Upstream) int { return cmp.Compare(a.Rank, b.Rank) })
	checksums := slices.ContainsFunc(sources, func(u Upstream) bool { return u.Source.Traits().NeedsChecksum })
	return &fetcher{
		checksums: checksums, sources: sources, limits: limits, lives: lives, transfers: make(map[string]*transfer),
		slots: make(chan struct{}, limits.Fetches), renewing: make(chan struct{}, refreshers),
		misses: otter.Must(&otter.Options[string, miss]{MaximumSize: memoryMiss}),
	}
}

// UpstreamStatus says how a source fares.
type UpstreamStatus = upstream.Status

// Upstreams says how the sources fare that know it of themselves.
func (d *Depot) Upstreams() []UpstreamStatus {
	var list []UpstreamStatus
	for _, u := range slices.Concat(d.fetch.sources, d.symcaches.far.sources) {
		if status := u.Source.Traits().Status; status != nil {
			list = append(list, status())
		}
	}
	return list
}

// Fetches reports whether there is anybody to ask for what the depot lacks.
func (d *Depot) Fetches() bool { return len(d.fetch.sources) > 0 }

// Fetch asks the upstream sources for what Open did not find. It returns when
// the file's bytes have begun to arrive; the File grows, and what has been read
// of it is right only if its end can be read: that is withheld until the whole
// file is known to be the one asked for. Absence is fs.ErrNotExist.
//
// Calls for one key wait for one transfer, which goes on when they give up.
func (d *Depot) Fetch(ctx context.Context, q Question) (*File, error) {
	if len(d.fetch.sources) == 0 || len(q.Request.Lookups) == 0 {
		return nil, fs.ErrNotExist
	}
	switch q.Request.Form {
	case layout.FormFile, layout.FormSource:
	case layout.FormSection:
		return d.fetchSection(ctx, q)
	case layout.FormCabinet:
		// Nobody waits for a cabinet; the plain file will be there soon.
		_, err := d.join(ctx, q)
		if err == nil {
			err = fs.ErrNotExist
		}
		return nil, err
	default:
		return nil, fs.ErrNotExist
	}
	for range 3 {
		fl, err := d.join(ctx, q)
		if err != nil {
			return nil, err
		}
		f, err := fl.open(ctx, d.fetch.slot(q, fl.sources))
		if !errors.Is(err, errGone) {
			return f, err
		}
		// It may be evicted again before we come to it.
		if f, err = d.Open(ctx, q.Scope, q.Request); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// fetchAnew is Fetch for who does not believe what is remembered: all sources
// are asked.
func (d *Depot) fetchAnew(ctx context.Context, q Question) (*File, error) {
	sources := d.fetch.seen(q)
	slot := d.fetch.slot(q, sources)
	fl := d.takeOff(d.fetch.key(q.Request), slot, sources, q, true)
	if fl == nil {
		return nil, notFound([]error{errCrowd})
	}
	f, err := fl.open(ctx, slot)
	if errors.Is(err, errGone) {
		return d.Open(ctx, q.Scope, q.Request)
	}
	return f, err
}

// join returns the transfer of what is asked for, a new one if there is none,
// or fs.ErrNotExist if it is known that no source has it.
func (d *Depot) join(ctx context.Context, q Question) (*transfer, error) {
	f := d.fetch
	sources := f.seen(q)
	if len(sources) == 0 {
		return nil, fs.ErrNotExist
	}
	key, slot := f.key(q.Request), f.slot(q, sources)
	if m, ok := d.knownMiss(ctx, key, slot, sources); ok {
		if d.now().After(m.renew) {
			d.renew(key, slot, sources, q, m)
		}
		return nil, fs.ErrNotExist
	}
	if wide, ok := acceptingMSFZ(q); ok {
		// Who takes more found nothing: neither does who takes less.
		if _, ok := d.knownMiss(ctx, f.key(wide.Request), f.slot(wide, sources), sources); ok {
			return nil, fs.ErrNotExist
		}
	}
	fl := d.takeOff(key, slot, sources, q, false)
	if fl == nil {
		return nil, notFound([]error{errCrowd})
	}
	return fl, nil
}

// errCrowd is why no transfer begins.
var errCrowd = errors.New("too much is being fetched, or the depot is closing")

// acceptingMSFZ returns the question as somebody asks it who takes PDBs in MSFZ
// containers too; ok is false if that is no other question.
func acceptingMSFZ(q Question) (wide Question, ok bool) {
	if q.Request.Name == "" || !wants(q.Request, symfile.Debug) || wants(q.Request, symfile.Compressed) {
		return q, false
	}
	q.Request.Form, q.Request.Lookups = layout.FormFile, slices.Clone(q.Request.Lookups)
	q.Request.AcceptMSFZ()
	return q, true
}

// fetchSection answers with a section of debug information that has to be
// fetched: no section alone can be checked. Its client does not wait longer than
// for the first bytes of any file, as it asks for the whole next, which is on
// its way then.
func (d *Depot) fetchSection(ctx context.Context, q Question) (*File, error) {
	wait := time.NewTimer(d.fetch.limits.FirstByte)
	defer wait.Stop()
	for _, l := range q.Request.Lookups {
		whole := q
		whole.Request = layout.Request{Form: layout.FormFile, Layout: q.Request.Layout, Lookups: []symfile.Lookup{l}}
		if _, _, err := d.find(ctx, q.Scope, whole.Request); err == nil {
			return nil, fs.ErrNotExist // without that section, as Open has seen
		}
		fl, err := d.join(ctx, whole)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-fl.ended:
		case <-wait.C:
			return nil, fs.ErrNotExist
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f, err := d.Open(ctx, q.Scope, q.Request); !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	return nil, fs.ErrNotExist
}

// key is the same for all spellings of one request.
func (f *fetcher) key(req layout.Request) string {
	if req.Form == layout.FormSource {
		a := sourceAlias(req)
		return a.Name + "/" + a.ID + ";"
	}
	var b strings.Builder
	for _, l := range req.Lookups {
		if l.Unique {
			continue // what a name with that id was asked for, it says before
		}
		fmt.Fprintf(&b, "%s/%s/%x;", l.Name, l.ID, uint16(l.Role))
	}
	return b.String()
}

// slot is the same for all questions that one transfer answers: for the same
// file, and the same sources may be asked.
func (f *fetcher) slot(q Question, sources []Upstream) string {
	slot := f.key(q.Request)
	if len(sources) < len(f.sources) {
		for _, u := range sources {
			slot += "\n" + u.Source.Name()
		}
		slot += "\n" + strings.Join(q.Scope.Products, "\n")
	}
	if f.checksums && q.Checksum != "" {
		slot += "\nchecksum"
	}
	return slot
}

// seen returns the sources that may answer a question: those whose files the
// scope may see, and none that asks it itself. Two servers that ask each other
// would else wait for each other's transfer.
func (f *fetcher) seen(q Question) []Upstream {
	if q.Scope.Products == nil && len(q.Via) < 2 {
		return f.sources
	}
	var list []Upstream
	for _, u := range f.sources {
		if !q.Scope.sees(u.Product) {
			continue
		}
		if len(q.Via) > 1 {
			if id := u.Source.Traits().ServerID; id != "" && slices.Contains(q.Via, id) {
				continue
			}
		}
		list = append(list, u)
	}
	return list
}

// takeOff returns the transfer in a slot, a new one if there is none. again is
// for a miss that is looked at anew, which asks all sources. It returns nil if
// there can be no more.
func (d *Depot) takeOff(key, slot string, sources []Upstream, q Question, again bool) *transfer {
	f := d.fetch
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.transfers[slot]; fl != nil {
		return fl
	}
	if d.closing.Err() != nil || len(f.transfers) >= crowd {
		return nil
	}
	if q.Request.Form == layout.FormCabinet {
		q.Request.Form = layout.FormFile
	}
	fl := newTransfer(key, slot, q, sources)
	f.transfers[slot] = fl
	fl.retire = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, slot := range []string{fl.slot, fl.other} {
			if f.transfers[slot] == fl {
				delete(f.transfers, slot)
			}
		}
	}
	f.under.Go(func() { d.fly(d.closing, fl, again) })
	return fl
}

// knownMiss returns what is known of a key that no source has.
func (d *Depot) knownMiss(ctx context.Context, key, slot string, sources []Upstream) (miss, bool) {
	now := d.now()
	m, ok := d.fetch.misses.GetIfPresent(slot)
	if !ok {
		known, err := d.rememberedMisses(ctx, key)
		if err != nil {
			return m, false
		}
		if m, ok = d.fetch.combine(known, sources, now); !ok {
			return m, false
		}
		d.fetch.misses.Set(slot, m)
	} else if m.rows > 0 && now.Sub(m.looked) > lookAgain {
		known, err := d.rememberedMisses(ctx, key)
		if err != nil || lasting(known, now) < m.rows {
			d.fetch.misses.Invalidate(slot)
			return m, false
		}
		m.looked = now
		d.fetch.misses.Set(slot, m)
	}
	if !now.Before(m.until) {
		d.fetch.misses.Invalidate(slot)
		return m, false
	}
	return m, true
}

// Missed reports whether memory alone says that no source has what is asked for.
// It takes a microsecond; false means that Fetch can tell.
func (d *Depot) Missed(q Question) bool {
	f := d.fetch
	if f.checksums || q.Request.Form != layout.FormFile && q.Request.Form != layout.FormCabinet {
		return false
	}
	m, ok := f.misses.GetIfPresent(f.slot(q, f.seen(q)))
	now := d.now()
	return ok && now.Before(m.until) && !now.After(m.renew) && (m.rows == 0 || now.Sub(m.looked) <= lookAgain)
}

// renew looks beside the answer whether a miss that will not hold much longer
// is one still.
func (d *Depot) renew(key, slot string, sources []Upstream, q Question, m miss) {
	select {
	case d.fetch.renewing <- struct{}{}:
	default:
		return
	}
	m.renew = m.until // once
	d.fetch.misses.Set(slot, m)
	fl := d.takeOff(key, slot, sources, q, true)
	if fl == nil {
		<-d.fetch.renewing
		return
	}
	go func() {
		<-fl.ended
		<-d.fetch.renewing
	}()
}

// combine returns until when no source needs to be asked, and whether there is
// such a time: every source must be known not to have the key.
func (f *fetcher) combine(known map[string]failed, sources []Upstream, now time.Time) (miss, bool) {
	var m miss
	for _, s := range sources {
		k, ok := known[s.Source.Name()]
		if !ok || !now.Before(k.until) {
			return miss{}, false
		}
		if m.until.IsZero() || k.until.Before(m.until) {
			m.until = k.until
			m.renew = k.until.Add(-f.lives.of(k.class) / 4)
		}
	}
	m.rows, m.looked = lasting(known, now), now
	return m, !m.until.IsZero()
}

// lasting counts what the index remembers too.
func lasting(known map[string]failed, now time.Time) (n int) {
	for _, k := range known {
		if k.persists(now) {
			n++
		}
	}
	return n
}

// persists reports whether a failure is written down.
func (f failed) persists(now time.Time) bool {
	return f.class != upstream.ClassSkipped && f.class != upstream.ClassBusy && f.until.After(now)
}

// failed is what is remembered of one source and one key.
type failed struct {
	class  upstream.Class
	until  time.Time
	since  time.Time
	detail string
}

// remember keeps why the sources gave no file.
func (d *Depot) remember(ctx context.Context, fl *transfer, known map[string]failed) {
	now := d.now()
	if m, ok := d.fetch.combine(known, fl.sources, now); ok {
		d.fetch.misses.Set(fl.slot, m)
	}
	if err := d.putMisses(ctx, fl.key, known, now); err != nil && ctx.Err() == nil {
		d.log.Warn("what is missing elsewhere could not be written down", "error", err)
	}
}

// lasting turns the error of a source into what is remembered of it; ok is
// false if it is nothing that the source is to blame for.
func (d *Depot) lasting(err error) (failed, bool) {
	now, class := d.now(), upstream.ClassOf(err)
	f := failed{class: class, since: now, detail: err.Error()}
	if fail, ok := errors.AsType[*upstream.Failure](err); ok && !fail.Retry.IsZero() {
		f.until = fail.Retry
		if most := now.Add(24 * time.Hour); f.until.After(most) {
			f.until = most
		}
		return f, f.until.After(now)
	}
	switch class {
	case upstream.ClassSkipped:
		f.until = now.Add(time.Hour) // its configuration says so; in memory only
		return f, true
	case upstream.ClassBusy:
		f.until = now.Add(hurry)
		return f, true
	}
	life := d.fetch.lives.of(class)
	f.until = now.Add(life)
	return f, life > 0
}
