package coldstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/ctxio"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/depot/bucketstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/cold"
)

const (
	// coolGrace is how long the plain bytes of a content stay after it became cold.
	coolGrace = time.Hour
	coolRate  = 32 << 20 // bytes per second, by default
	// Background work looks every coolRest whether something is due, and begins a pass
	// coolEvery after the last one.
	coolRest  = time.Minute
	coolEvery = 6 * time.Hour
	// WarmReads is in how many intervals of coolRest within warmWindow a content was read
	// that becomes plain again.
	WarmReads  = 3
	warmWindow = 7 * 24 * time.Hour
	// keptFree is the part of a disk below which nothing becomes cold: for a while both
	// forms of a content are on it.
	keptFree = 10
	// coolSamples is the number of blocks from which the length of a cold file is
	// estimated.
	coolSamples = 16
	// Finished uploads get a lease of renewFor every renewEvery while a cold file is read
	// back.
	renewFor   = 10 * time.Minute
	renewEvery = 2 * time.Minute
	// fewDeltas is how many deltas are too few to keep a base that nothing else needs.
	fewDeltas = 2
	// coldReadsKept limits the cold contents whose reads are noted and not stored yet.
	coldReadsKept = 1 << 18
	passNote      = 20 * time.Second // between two writes of the progress
	passOthers    = 5 * time.Minute  // without a write by another process until this one takes over
)

// Errors of Cold.
var (
	// ErrColdRefused means that a content cannot become cold now.
	ErrColdRefused = contents.ErrColdRefused
	// ErrDiskFull means that too little of the disk is free for cooling.
	ErrDiskFull = errors.New("less than a tenth of the disk is free, and cooling needs space for both forms of a content for an hour; " +
		"free some first (symdepot gc, symdepot disk)")
)

// ColdOptions configure how contents become cold.
type ColdOptions struct {
	// After is how long a content must not have been added or read; zero: nothing
	// becomes cold in the background.
	After time.Duration
	// Rate is how many bytes per second the background reads for it; zero is 32 MiB,
	// negative is no limit.
	Rate int64
	// Near limits the restored contents that are kept on this machine, in bytes; zero
	// is 8 GiB.
	Near int64
}

// Records of the index.
type (
	// ColdStats are the sums of all cold contents.
	ColdStats = contents.ColdStats
	// Cooling is the progress of the background.
	Cooling = contents.Cooling
	// ColdContent is the record of a cold content.
	ColdContent = record.Cold
)

// Cold is the part of a depot that keeps contents as differences from similar ones.
// Its methods may be called by many goroutines.
type Cold struct {
	db     *index.DB
	dir    string // of the depot, on this machine
	placed bool   // the contents are in a bucket
	now    func() time.Time
	log    *slog.Logger

	store   *Store
	Options ColdOptions
	owner   string // names this process in the progress
	forms   []string
	wait    func(ctx context.Context, d time.Duration) error
	unpack  func(ctx context.Context, src cold.Source) (cold.Source, error)
	// Space returns the size of the disk with the contents, and how much of it is free;
	// nil for a bucket.
	Space func() (total, free int64, err error)

	mu    sync.Mutex
	reads map[blob.Ref]int // guarded by mu; noted by asked and not stored yet
}

// Home is where the contents of a depot are.
type Home struct {
	DB *index.DB
	// Below keeps the plain contents and the cold files. Placed is set if it is a bucket.
	Below  blob.Backend
	Placed bool
	// Dir is the folder of the depot on this machine, and Local the one of the contents
	// that are restored.
	Dir, Local string
	// Forms are the tools whose contents become cold as the files do that they are made
	// of, built from each other and never from these files.
	Forms []string
}

// NewCold returns what keeps contents cold: over the store of h, the one that knows cold
// contents.
func NewCold(h Home, opt ColdOptions, log *slog.Logger, now func() time.Time) *Cold {
	c := &Cold{db: h.DB, dir: h.Dir, placed: h.Placed, now: now, log: log, Options: opt, owner: rand.Text(), wait: ctxio.Pause,
		unpack: cold.Unpack, forms: h.Forms}
	if !h.Placed {
		c.Space = c.Disk
	}
	c.store = New(h.Below, StoreOptions{Records: h.DB.Colds, Dir: h.Local, NearBytes: opt.Near, Log: log, Now: now, Asked: c.asked})
	return c
}

// Disk returns the size in bytes of the file system of the depot on this machine, and
// how much of it is free.
func (c *Cold) Disk() (total, free int64, err error) { return durable.Space(c.dir) }

// BucketStore returns the store of a depot with its contents in a bucket.
func BucketStore(b blob.Backend) (*bucketstore.Store, bool) {
	if s, ok := b.(*Store); ok {
		b = s.Below()
	}
	in, ok := b.(*bucketstore.Store)
	return in, ok
}

// asked notes a read of a cold content. However many there are until storeReads, they
// count as one: who reads by ranges sends many requests.
func (c *Cold) asked(ref blob.Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads == nil || len(c.reads) >= coldReadsKept {
		c.reads = make(map[blob.Ref]int)
	}
	c.reads[ref] = 1
}

// ReadsNoted returns how many contents were read since the last StoreReads.
func (c *Cold) ReadsNoted() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.reads)
}

// StoreReads writes the noted reads to the index. It is called every coolRest.
func (c *Cold) StoreReads(ctx context.Context) error {
	c.mu.Lock()
	reads := c.reads
	c.reads = nil
	c.mu.Unlock()
	return c.db.Colds.Read(ctx, reads, warmWindow)
}

// Of returns the record of a cold content; fs.ErrNotExist for any other one.
func (c *Cold) Of(ctx context.Context, ref blob.Ref) (ColdContent, error) {
	return c.db.Colds.Of(ctx, ref)
}

// Stats returns the sums of all cold contents.
func (c *Cold) Stats(ctx context.Context) (ColdStats, error) { return c.db.Colds.Stats(ctx) }

// Progress returns how far the background has come, in whichever process.
func (c *Cold) Progress(ctx context.Context) (Cooling, error) { return c.db.Colds.Progress(ctx) }

// Pause stops the background of all servers from making contents cold, or lets it go on.
func (c *Cold) Pause(ctx context.Context, paused bool) error { return c.db.Colds.Pause(ctx, paused) }

// After returns how long contents must not have been used; zero: the background makes
// none cold.
func (c *Cold) After() time.Duration { return c.Options.After }

// NearBytes returns the bytes of the restored contents that are kept on this machine.
func (c *Cold) NearBytes() int64 { return c.store.NearBytes() }

// CoolOptions select what Cool makes cold.
type CoolOptions struct {
	// After is as in ColdOptions.
	After time.Duration
	// Products, if not nil, are the products whose files become cold.
	Products []string
	// DryRun only estimates.
	DryRun bool
	// Grace is how long the plain bytes stay: see CoolGrace.
	Grace time.Duration
	// Each, if not nil, is called for each content; its error ends Cool.
	Each func(Cooled) error
	// Pace, if not nil, is called with the number of bytes of each read.
	Pace func(n int) error
	// Position is the name after which Cool begins; Named, if not nil, is called after
	// each name.
	Position string
	Named    func(name string) error
	// Failed, if not nil, is called with the name at which Cool ends with an error.
	Failed func(name string, err error)
}

// CoolGrace is how long the plain bytes of a content usually stay after it became cold.
const CoolGrace = coolGrace

// Cooled is a content that became cold, or would.
type Cooled struct {
	Name    string   `json:"name"`
	Product string   `json:"product"`
	Ref     blob.Ref `json:"-"`
	Size    int64    `json:"bytes"`
	// File is the length of the cold file; an estimate if Cool was only tried.
	File int64    `json:"cold_bytes"`
	Base blob.Ref `json:"-"` // zero for a key
	// Skipped says why the content stays as it is; empty if it does not.
	Skipped string `json:"skipped,omitempty"`
}

// CoolSum counts what Cool did.
type CoolSum struct {
	Contents int64 `json:"contents"`
	Before   int64 `json:"before"`
	After    int64 `json:"after"`
	Skipped  int64 `json:"skipped"`
}

// Cool makes the contents cold that have not been used for a while, and returns their
// number and bytes. What it did so far is kept if it ends with an error.
func (c *Cold) Cool(ctx context.Context, opt CoolOptions) (sum CoolSum, err error) {
	unused := c.now().Add(-opt.After)
	for position := opt.Position; ; {
		names, err := c.db.Colds.Names(ctx, position, 256)
		if err != nil || len(names) == 0 {
			return sum, err
		}
		for _, name := range names {
			if err := c.coolName(ctx, name, unused, opt, &sum); err != nil {
				if opt.Failed != nil {
					opt.Failed(name, err)
				}
				return sum, err
			}
			if opt.Named != nil {
				if err := opt.Named(name); err != nil {
					return sum, err
				}
			}
		}
		position = names[len(names)-1]
	}
}

// coolName makes contents of one name cold.
func (c *Cold) coolName(ctx context.Context, name string, unused time.Time, opt CoolOptions, sum *CoolSum) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	list, err := c.dueOf(ctx, name, unused, opt.Products)
	if err != nil {
		return err
	}
	for _, s := range list {
		for _, i := range s.due {
			done, err := c.CoolOne(ctx, s.contents, i, opt)
			if errors.Is(err, ErrColdRefused) || errors.Is(err, fs.ErrNotExist) {
				done.Skipped = err.Error() // it changed meanwhile, or is damaged
			} else if err != nil {
				return err
			}
			done.Name, done.Product = name, s.product
			if done.Skipped == "" {
				sum.Contents, sum.Before, sum.After = sum.Contents+1, sum.Before+done.Size, sum.After+done.File
			} else {
				sum.Skipped++
			}
			if opt.Each != nil {
				if err := opt.Each(done); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// coolSeries is a series of package
type coolSeries struct {
	product  string
	contents []Candidate
	due      []int // positions of the contents that are to become cold
}

// dueOf returns the series of a name, with what is due in them.
func (c *Cold) dueOf(ctx context.Context, name string, unused time.Time, products []string) ([]coolSeries, error) {
	var list []coolSeries
	for _, tool := range append([]string{""}, c.forms...) {
		rows, err := c.db.Colds.Series(ctx, name, tool)
		if err != nil {
			return nil, err
		}
		list = append(list, seriesOf(rows, products)...)
	}
	for k := range list {
		s := &list[k]
		Settle(s.contents, c.now())
		for _, i := range Due(s.contents, unused) {
			newest, err := c.db.Colds.NewestOfAnother(ctx, s.contents[i].Ref, name)
			if err != nil {
				return nil, err
			}
			if !newest {
				s.due = append(s.due, i)
			}
		}
	}
	return list, nil
}

// CoolOutlook says what is due. Contents that are too short, or of kinds that are never
// cold, are not counted.
type CoolOutlook struct {
	Due, Bytes int64
	Cold       int64 // are cold already
	Used       int64 // were added or read too lately
	Newest     int64 // are the newest ones of a file
}

// Outlook counts what Cool would make cold with the same options, as far as that is known
// without reading it.
func (c *Cold) Outlook(ctx context.Context, opt CoolOptions) (o CoolOutlook, err error) {
	unused := c.now().Add(-opt.After)
	for position := ""; ; {
		names, err := c.db.Colds.Names(ctx, position, 256)
		if err != nil || len(names) == 0 {
			return o, err
		}
		for _, name := range names {
			list, err := c.dueOf(ctx, name, unused, opt.Products)
			if err != nil {
				return o, err
			}
			for _, s := range list {
				for i, k := range s.contents {
					switch {
					case slices.Contains(s.due, i):
						o.Due, o.Bytes = o.Due+1, o.Bytes+k.Size
					case k.Cold:
						o.Cold++
					case k.Size < MinSize:
					case k.Used.After(unused):
						o.Used++
					default:
						o.Newest++
					}
				}
			}
		}
		position = names[len(names)-1]
	}
}

// together reports whether two contents are in one series.
func together(a, b *contents.CoolCandidate) bool {
	return a.Product == b.Product && a.Kind == b.Kind && a.Arch == b.Arch
}

// newestOf returns the newest content of each series of a name, in all products.
func newestOf(rows []contents.CoolCandidate) map[blob.Ref]bool {
	newest := make(map[blob.Ref]bool)
	for i := 0; i < len(rows); {
		best := &rows[i]
		for i++; i < len(rows) && together(best, &rows[i]); i++ {
			if r := &rows[i]; cmp.Or(cmp.Compare(r.Tx, best.Tx), cmp.Compare(r.Object, best.Object)) > 0 {
				best = r
			}
		}
		newest[best.Ref] = true
	}
	return newest
}

// seriesOf divides the contents of a name into series. A content of several products
// belongs to the first of them.
func seriesOf(rows []contents.CoolCandidate, products []string) (list []coolSeries) {
	seen := make(map[blob.Ref]bool, len(rows))
	newest := newestOf(rows)
	var last *contents.CoolCandidate
	for i := range rows {
		r := &rows[i]
		if seen[r.Ref] || !Repeats(r.Kind) || products != nil && !slices.Contains(products, r.Product) {
			continue
		}
		seen[r.Ref] = true
		if last == nil || !together(last, r) {
			list = append(list, coolSeries{product: r.Product})
			last = r
		}
		s := &list[len(list)-1]
		k := Candidate{
			Ref: r.Ref, Size: r.Size, Product: s.product, Order: r.Object, Tx: r.Tx, Newest: newest[r.Ref], Used: r.Added,
			Cold: r.Cold, Base: r.Base, File: r.File, Made: r.Made, Needed: r.Deltas,
		}
		if read := r.Read.AddDate(0, 0, 1); !r.Read.IsZero() && read.After(k.Used) { // some time on that day
			k.Used = read
		}
		s.contents = append(s.contents, k)
	}
	return list
}

// opened is a content that a cold file is made from.
type opened struct {
	blob.File
	ref    blob.Ref
	source cold.Source // its bytes, or its unpacked form
}

func newOpened(f blob.File, ref blob.Ref) opened {
	return opened{f, ref, cold.Source{ReaderAt: f, Size: f.Size(), Sum: ref}}
}

// CoolOne makes content i of a series cold.
func (c *Cold) CoolOne(ctx context.Context, series []Candidate, i int, opt CoolOptions) (done Cooled, err error) {
	k := &series[i]
	done = Cooled{Ref: k.Ref, Size: k.Size}
	if err := c.hasSpace(k.Size); err != nil && !opt.DryRun {
		return done, err
	}
	plain, err := c.store.Below().OpenWhole(ctx, k.Ref)
	if err != nil {
		return done, err
	}
	defer plain.Close()
	src := newOpened(plain, k.Ref)
	if src.source, err = c.unpack(ctx, src.source); err != nil {
		return done, err
	}
	key, known := KeyLength(series, i)
	if !known {
		if key, err = cold.Estimate(ctx, src.source, nil, coolSamples); err != nil {
			return done, err
		}
	}
	best, base, err := c.chooseBase(ctx, series, i, src, key, opt.DryRun)
	if err != nil {
		return done, err
	}
	if base != nil {
		defer base.Close()
	}
	switch {
	case base != nil:
		done.Base, done.File = base.ref, best
	case key >= k.Size*9/10:
		done.Skipped = "it hardly becomes smaller"
		return done, nil
	default:
		done.File = key
	}
	if opt.DryRun {
		cooled(series, k, done, c.now())
		return done, nil
	}
	file, err := c.encode(ctx, src, base, opt.Pace)
	if err == nil && base != nil && !WorthDelta(file.Size, key) {
		base, done.Base = nil, blob.Ref{}
		file, err = c.encode(ctx, src, nil, opt.Pace)
	}
	if err != nil {
		return done, err
	}
	err = c.commit(ctx, src, file, base, opt)
	if errors.Is(err, blob.ErrDamaged) && src.source.Unpacked() {
		// Its streams cannot be made again after all.
		c.log.WarnContext(ctx, "compressed sections stay as they are: the cold file could not be read back",
			"content", src.ref.String(), "error", err)
		src = newOpened(src.File, src.ref)
		if base != nil {
			*base = newOpened(base.File, base.ref)
		}
		if file, err = c.encode(ctx, src, base, opt.Pace); err == nil {
			err = c.commit(ctx, src, file, base, opt)
		}
	}
	if err != nil {
		return done, err
	}
	done.File = file.Size
	cooled(series, k, done, c.now())
	return done, nil
}

// cooled notes in a series that its content k became cold.
func cooled(series []Candidate, k *Candidate, done Cooled, now time.Time) {
	k.Cold, k.Base, k.File, k.Made = true, done.Base, done.File, now
	for j := range series {
		if series[j].Ref == k.Base {
			series[j].Needed++
		}
	}
}

// hasSpace returns an error if too little of the disk is free to make a content cold.
func (c *Cold) hasSpace(size int64) error {
	if c.Space == nil {
		return nil
	}
	total, free, err := c.Space()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err == nil && free-size < total/keptFree {
		err = ErrDiskFull
	}
	return err
}

// chooseBase returns the content that a content is best built from, opened, and the estimated
// length of the delta, more exactly for a dry run; nil if it becomes a key, which has length
// key then.
func (c *Cold) chooseBase(ctx context.Context, series []Candidate, i int, src opened, key int64, dry bool) (
	delta int64, base *opened, err error,
) {
	measure := func(a, b int) (int64, error) {
		if a == i {
			return c.measure(ctx, src, series[b].Ref)
		}
		other, err := c.openBase(ctx, series[a].Ref, src.source.Unpacked())
		if err != nil {
			return 0, err
		}
		defer other.Close()
		return c.measure(ctx, *other, series[b].Ref)
	}
	var ref *blob.Ref
	best, delta, err := Base(series, i, c.now(), key, measure)
	if err != nil {
		return 0, nil, err
	}
	if best >= 0 {
		ref = &series[best].Ref
	}
	if series[i].Needed == 0 && src.source.Unpacked() {
		if ref, delta, err = c.orBeside(ctx, series[i].Product, src, ref, delta, key); err != nil {
			return 0, nil, err
		}
	}
	if ref == nil {
		return 0, nil, nil
	}
	base, err = c.openBase(ctx, *ref, src.source.Unpacked())
	if err != nil || !dry {
		return delta, base, err
	}
	if delta, err = cold.Estimate(ctx, src.source, &base.source, coolSamples); err != nil || !WorthDelta(delta, key) {
		_ = base.Close() // opened for reading
		return 0, nil, err
	}
	return delta, base, nil
}

// openBase opens a content that others may be built from, unpacked if these are.
func (c *Cold) openBase(ctx context.Context, ref blob.Ref, unpacked bool) (*opened, error) {
	f, err := c.store.OpenBase(ctx, ref)
	if err != nil {
		return nil, err
	}
	b := newOpened(f, ref)
	if unpacked {
		if b.source, err = cold.UnpackBase(ctx, b.source); err != nil {
			_ = f.Close() // opened for reading
			return nil, err
		}
	}
	return &b, nil
}

// measure estimates the length of a delta of an open content against another one.
func (c *Cold) measure(ctx context.Context, src opened, ref blob.Ref) (int64, error) {
	b, err := c.openBase(ctx, ref, src.source.Unpacked())
	if err != nil {
		return 0, err
	}
	defer b.Close()
	return cold.Compare(ctx, src.source, b.source)
}

// encode stores the cold file of a content, as a key if base is nil.
func (c *Cold) encode(ctx context.Context, src opened, base *opened, pace func(n int) error) (record.Content, error) {
	sp, err := c.store.Below().Spool()
	if err != nil {
		return record.Content{}, err
	}
	defer sp.Close()
	if base == nil {
		_, err = cold.EncodeKey(ctx, sp, src.source, pace)
	} else {
		_, err = cold.EncodeDelta(ctx, sp, src.source, base.source, pace)
	}
	if err != nil {
		sp.Abort()
		return record.Content{}, err
	}
	size := sp.Size()
	ref, err := sp.Keep(ctx)
	return record.Content{Ref: ref, Size: size}, err
}

// commit reads a cold file back, restores and hashes the content, and records that it
// is cold.
func (c *Cold) commit(ctx context.Context, src opened, file record.Content, base *opened, opt CoolOptions) error {
	row := record.Cold{Content: record.Content{Ref: src.ref, Size: src.Size()}, File: file}
	var onto *blob.Ref
	if base != nil {
		row.Base, onto = &record.Content{Ref: base.ref, Size: base.Size()}, &base.ref
	}
	if err := c.store.Restore(ctx, row, io.Discard, c.renewing(ctx, opt.Pace)); err != nil {
		return fmt.Errorf("the cold file of content %s was made and cannot be read back, so that the content stays as it is: %w", src.ref, err)
	}
	err := c.db.Colds.Put(ctx, src.ref, file, onto, func() error { return c.store.Complete(ctx, row) })
	if errors.Is(err, record.ErrNotUploaded) { // its upload, or its earlier record, is gone by now
		err = fmt.Errorf("%w: %w", ErrColdRefused, err)
	}
	if err != nil {
		return err
	}
	if err := c.db.Colds.DropVariants(ctx, src.ref, []string{transcode.Zstd.Name, transcode.Gzip.Name, transcode.Cab.Name}); err != nil {
		return err
	}
	if opt.Grace > 0 {
		return nil
	}
	_, err = c.db.Colds.Strip(ctx, []blob.Ref{src.ref}, c.now(), c.deletePlain(ctx))
	return err
}

// renewing returns a pace that renews the leases of finished uploads too: the reading of
// a large cold file may take longer than a lease.
func (c *Cold) renewing(ctx context.Context, pace func(n int) error) func(n int) error {
	if !c.placed {
		return pace
	}
	last := c.now()
	return func(n int) error {
		if now := c.now(); now.Sub(last) >= renewEvery {
			if err := c.db.Places.Extend(ctx, renewFor); err != nil {
				return err
			}
			last = now
		}
		if pace == nil {
			return nil
		}
		return pace(n)
	}
}

// deletePlain returns the function that deletes the plain bytes of cold contents. A
// file in use stays, and is deleted later.
func (c *Cold) deletePlain(ctx context.Context) func(blob.Ref) error {
	return content.Deleter(ctx, c.store.Below(), nil)
}

// Warm makes a content plain again. Its bytes are stored before its record ends. If the
// record or the stored bytes change meanwhile, it begins again.
func (c *Cold) Warm(ctx context.Context, row ColdContent, pace func(n int) error) (err error) {
	for range 3 {
		err = c.warmOnce(ctx, row, pace)
		if errors.Is(err, blob.ErrDamaged) || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, record.ErrNotUploaded) {
			return err
		}
		now, nerr := c.Of(ctx, row.Ref)
		if errors.Is(nerr, fs.ErrNotExist) {
			return nil // it is plain by now, or was removed
		}
		if nerr != nil {
			return nerr
		}
		row = now
	}
	return err
}

func (c *Cold) warmOnce(ctx context.Context, row ColdContent, pace func(n int) error) error {
	// The plain bytes may be stored, whatever the record says: a file that is added again
	// while its cold file is damaged is stored plain.
	err := c.store.Below().Verify(ctx, row.Ref, row.Size, pace)
	if err == nil {
		err = c.keepPlain(ctx, row)
	}
	if !errors.Is(err, fs.ErrNotExist) { // else they are not stored, are damaged, or have just been deleted
		return err
	}
	sp, err := c.store.Below().Spool()
	if err != nil {
		return err
	}
	defer sp.Close()
	if err := c.store.Restore(ctx, row, sp, pace); err != nil {
		sp.Abort()
		return err
	}
	ref, err := sp.Keep(ctx)
	if err == nil && ref != row.Ref {
		err = fmt.Errorf("content %s was restored as %s", row.Ref, ref)
	}
	if err != nil {
		return err
	}
	return c.isPlain(ctx, row)
}

// keepPlain ends the record of a cold content whose plain bytes are stored and intact. Its
// cold file is left to the garbage collection, or deleted if it is damaged.
func (c *Cold) keepPlain(ctx context.Context, row ColdContent) error {
	err := c.store.Below().Verify(ctx, row.File.Ref, row.File.Size, nil)
	switch {
	case err == nil:
		return c.isPlain(ctx, row)
	case errors.Is(err, fs.ErrNotExist):
		return c.Discard(ctx, row)
	}
	return err
}

// isPlain ends the record of a cold content whose plain bytes are stored.
func (c *Cold) isPlain(ctx context.Context, row ColdContent) error {
	return c.db.Colds.Warm(ctx, row.Content, func() error {
		_, err := c.store.Below().Stat(ctx, row.Ref)
		return err
	})
}

// Free makes the contents plain that are built from a base which only they need, so
// that the base can be deleted.
func (c *Cold) Free(ctx context.Context, base blob.Ref) error {
	for row, err := range c.db.Colds.Needing(ctx, base) {
		if err == nil {
			err = c.Warm(ctx, row, nil)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
