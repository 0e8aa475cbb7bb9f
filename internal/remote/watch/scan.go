package watch

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/watched"
)

// ScanStats says what one scan has done.
type ScanStats struct {
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"took"`
	Folders  int64         `json:"folders"`
	Files    int64         `json:"files"`    // that were seen
	Read     int64         `json:"read"`     // of them, new or changed
	Bytes    int64         `json:"bytes"`    // of the files that were read
	Objects  int64         `json:"objects"`  // in the files that were read
	Gone     int64         `json:"gone"`     // files that are no longer there
	Problems int64         `json:"problems"` // files that were read and left out
	// LeftOut are the files that are left out, also by earlier scans, or cannot be opened;
	// of complete scans only.
	LeftOut  int64  `json:"left_out"`
	Unlisted int64  `json:"unlisted"`        // folders that cannot be listed
	Changing int64  `json:"changing"`        // files that changed while they were read; the next scan reads them
	Unopened int64  `json:"unopened"`        // files that cannot be opened; each scan tries again
	FirstErr string `json:"error,omitempty"` // of the first folder that cannot be listed
}

// Scan looks at the whole folder once, and reads the files that are new or have changed.
// It waits for a scan that is running. The error is that of the context, of the index, or
// of the folder itself; it wraps ErrAway if that is away.
func (f *Folder) Scan(ctx context.Context) (ScanStats, error) {
	return f.scan(ctx, nil)
}

// scan scans the given folders, without those below them; nil: all.
func (f *Folder) scan(ctx context.Context, only []string) (ScanStats, error) {
	select {
	case f.scanning <- struct{}{}:
		defer func() { <-f.scanning }()
	case <-ctx.Done():
		return ScanStats{}, ctx.Err()
	}
	p := newPass(ctx, f)
	err := p.run(only)
	if err == nil && only == nil {
		var t watched.Totals
		t, err = f.db.Totals(ctx, kindPackage)
		p.stats.LeftOut = t.Problems + p.stats.Unopened
		err = errors.Join(err, f.db.Used())
	}
	p.stats.Took = f.opt.Now().Sub(p.stats.Started)
	f.mu.Lock()
	if f.failed = err; err == nil && only == nil {
		f.last = p.stats
	}
	f.mu.Unlock()
	if f.opt.Scanned != nil && err == nil && only == nil {
		f.opt.Scanned(p.stats)
	}
	return p.stats, err
}

// pass is one scan. The goroutine of run lists the folders, the workers read files, and one
// goroutine writes what they have found.
type pass struct {
	ctx   context.Context
	stop  context.CancelCauseFunc
	f     *Folder
	stats ScanStats
	list  lister
	seen  map[string]bool // folders
	lost  map[string]bool // of them, those that cannot be listed

	dropped bool // set by the writer: files were dropped from the index

	work    chan job
	spare   chan struct{} // one for each worker without work
	results chan result
	pending sync.WaitGroup

	mu   sync.Mutex
	show Progress // guarded by mu
}

// job is a file to read.
type job struct {
	dir  *listing
	name string
	was  stamp // when it was listed
	old  int64 // its row; 0: none
}

// listing is a folder whose files are being read. Its row is written when all were.
type listing struct {
	path string
	same bool // its fingerprints have not changed so far

	mu   sync.Mutex
	left int      // guarded by mu; jobs, and one for the listing itself
	dull []uint64 // guarded by mu
	drop []int64  // guarded by mu
}

// result is what the writer puts into the index.
type result struct {
	change watched.Change
	rows   int
}

func newPass(ctx context.Context, f *Folder) *pass {
	p := &pass{
		f: f, list: f.src.folder, spare: make(chan struct{}, f.opt.Workers), seen: map[string]bool{},
		lost: map[string]bool{}, work: make(chan job, 64), results: make(chan result, 64),
	}
	p.ctx, p.stop = context.WithCancelCause(ctx)
	p.stats.Started = f.opt.Now()
	return p
}

func (p *pass) run(only []string) error {
	defer p.stop(nil)
	root, err := p.f.present(p.ctx)
	if err != nil {
		return err
	}
	for range p.f.opt.Workers {
		p.pending.Go(p.worker)
	}
	wrote := make(chan struct{})
	go func() {
		defer close(wrote)
		p.writer()
	}()
	if only == nil {
		err = p.tree()
	} else {
		err = p.some(only)
	}
	close(p.work)
	p.pending.Wait()
	if err == nil && p.ctx.Err() == nil && only == nil {
		err = p.vanished()
	}
	close(p.results)
	<-wrote
	if p.dropped {
		err = errors.Join(err, p.f.db.Apply(context.WithoutCancel(p.ctx), watched.Change{Notes: map[string]string{staleNote: "yes"}}))
	}
	if cause := context.Cause(p.ctx); cause != nil {
		return cause
	}
	if err != nil {
		return err
	}
	if only == nil {
		err = p.f.noteRoot(p.ctx, root)
	}
	if err == nil && only == nil {
		err = p.groom()
	}
	if p.stats.Bytes > 64<<20 {
		// Twice: pools keep what they have for one collection.
		runtime.GC()
		debug.FreeOSMemory()
	}
	return err
}

// staleNote is the name under which an index says that files were dropped from it since it
// was groomed.
const staleNote = "stale"

// groom deletes what is left of files that were dropped, by this scan or earlier ones. That
// reads all keys of the index, so a scan of a few folders does not do it.
func (p *pass) groom() error {
	stale, err := p.f.db.Note(p.ctx, staleNote)
	if err != nil || stale == "" {
		return err
	}
	if _, err := p.f.db.Groom(p.ctx); err != nil {
		return err
	}
	return p.f.db.Apply(p.ctx, watched.Change{Notes: map[string]string{staleNote: ""}})
}

// tree lists all folders, parents first.
func (p *pass) tree() (err error) {
	if p.list, err = p.f.src.snapshot(p.ctx); err != nil {
		return fmt.Errorf("the watched folder cannot be read: %w", err)
	}
	todo := []string{""}
	for len(todo) > 0 {
		if p.ctx.Err() != nil {
			return nil //nolint:nilerr // run reports why
		}
		dir := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		dirs, err := p.folder(dir)
		switch {
		case err == nil:
		case errors.Is(err, ErrAway):
			return err
		case dir == "":
			return fmt.Errorf("the watched folder cannot be read: %w", err) // scanSome logs it
		case errors.Is(err, fs.ErrNotExist):
			continue // deleted meanwhile
		default:
			p.unlisted(dir, err)
		}
		for _, d := range slices.Backward(dirs) {
			todo = append(todo, within(dir, d))
		}
	}
	return nil
}

// unlisted notes a folder that cannot be listed. What is known of it stays: its files are
// compared when they are opened.
func (p *pass) unlisted(dir string, err error) {
	p.seen[dir], p.lost[dir] = true, true
	p.stats.Unlisted++
	if p.stats.FirstErr == "" {
		p.stats.FirstErr = err.Error()
	}
	if p.f.noteReadable(dir, false) {
		p.f.opt.Log.Warn("a folder in a watched folder cannot be listed; its files are absent until it can",
			"folder", p.f.where, "path", dir, "error", err)
	}
}

// noteReadable notes whether a folder could be listed, or a file be opened, and reports
// whether that has changed: many scans find the same, and the log says it once.
func (f *Folder) noteReadable(path string, readable bool) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unreadable[path] == !readable {
		return false
	}
	if readable {
		delete(f.unreadable, path)
		return true
	}
	if len(f.unreadable) >= maxUnreadable {
		clear(f.unreadable)
	}
	f.unreadable[path] = true
	return true
}

// maxUnreadable limits the paths in memory that could not be read. If there are more, the
// log says some of them again.
const maxUnreadable = 10_000

// folder compares one folder with the index, and sends the files that are new or have
// changed to the workers.
func (p *pass) folder(dir string) (dirs []string, err error) {
	p.f.watchFolder(dir)
	files, dirs, err := p.list(p.ctx, dir)
	if err == nil && dir == "" && len(files)+len(dirs) == 0 {
		err = p.f.Present(p.ctx) // it may have been unmounted since the scan began
	}
	if err != nil {
		return dirs, err
	}
	if p.f.noteReadable(dir, true) {
		if dir == "" {
			p.f.opt.Log.Info("a watched folder is back", "folder", p.f.where)
		} else {
			p.f.opt.Log.Info("a folder in a watched folder can be listed again", "folder", p.f.where, "path", dir)
		}
	}
	p.seen[dir] = true
	p.stats.Folders++
	p.stats.Files += int64(len(files))
	prints, rows, known, err := p.f.db.Dir(p.ctx, dir)
	if err != nil {
		p.stop(err)
		return nil, nil
	}
	old := make(map[string]watched.File, len(rows))
	for _, r := range rows {
		old[r.Name] = r
	}
	dull := unpackPrints(prints)
	l := &listing{path: dir, left: 1}
	var jobs []job
	for _, file := range files {
		row, have := old[file.name]
		delete(old, file.name)
		if have && stampOf(row) == file.stamp {
			continue
		}
		if print := file.stamp.print(file.name); !have && dull[print] {
			l.dull = append(l.dull, print)
			continue
		}
		jobs = append(jobs, job{l, file.name, file.stamp, row.ID})
	}
	// The largest first, so that no worker is left alone with one at the end.
	sorting.Stable(jobs, func(a, b job) int { return cmp.Compare(b.was.size, a.was.size) })
	for _, row := range old {
		l.drop = append(l.drop, row.ID)
		p.stats.Gone++
	}
	if known && len(jobs) == 0 && len(l.drop) == 0 && len(l.dull) == len(dull) || !known && len(files) == 0 && dir != "" {
		l.same = true // nothing to write
	}
	l.left += len(jobs)
	p.note(func(s *Progress) { s.Files, s.Changed = p.stats.Files, s.Changed+int64(len(jobs)) })
	for _, j := range jobs {
		select {
		case p.work <- j:
		case <-p.ctx.Done():
			return nil, nil
		}
	}
	p.release(l, nil, nil)
	return dirs, nil
}

// release ends one job of a folder. The last one writes the folder.
func (p *pass) release(l *listing, print *uint64, drop []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if print != nil {
		l.dull = append(l.dull, *print)
	}
	l.drop = append(l.drop, drop...)
	if l.left--; l.left > 0 || l.same {
		return
	}
	p.send(result{
		rows:   len(l.drop) + 1,
		change: watched.Change{Drop: l.drop, Dirs: []watched.Dir{{Path: l.path, Dull: packPrints(l.dull)}}},
	})
}

func (p *pass) send(r result) {
	select {
	case p.results <- r:
	case <-p.ctx.Done():
	}
}

func packPrints(list []uint64) []byte {
	slices.Sort(list)
	var b []byte
	for _, n := range list {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

func unpackPrints(b []byte) map[uint64]bool {
	m := make(map[uint64]bool, len(b)/8)
	for ; len(b) >= 8; b = b[8:] {
		m[binary.LittleEndian.Uint64(b)] = true
	}
	return m
}

// worker reads files.
func (p *pass) worker() {
	for {
		p.spare <- struct{}{} // while there is no work, others may read ahead
		j, ok := <-p.work
		if !ok {
			return
		}
		<-p.spare
		if p.ctx.Err() == nil {
			p.read(j)
		}
	}
}

// read reads one file. What changed while it was read, or cannot be opened, is read again
// by the next scan. That one is not asked for here: a large package that is being written
// would be read again and again until it is whole.
func (p *pass) read(j job) {
	log := p.f.opt.Log
	path := within(j.dir.path, j.name)
	var drop []int64
	if j.old != 0 {
		drop = []int64{j.old}
	}
	h, err := p.f.src.open(p.ctx, path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			p.f.noteReadable(path, true)
		} else {
			p.note(func(*Progress) { p.stats.Unopened++ })
			if p.f.noteReadable(path, false) {
				log.Warn("a file in a watched folder cannot be opened; it is absent until it can", "folder", p.f.where, "path", path, "error", err)
			}
		}
		p.release(j.dir, nil, drop)
		return
	}
	defer h.Close()
	p.f.noteReadable(path, true)
	if !p.settled(h.stamp()) {
		return
	}
	e, err := p.f.readFile(p.ctx, h, j.dir.path, j.name, p.spare)
	switch {
	case err != nil:
		return // the context has ended
	case h.changed():
		log.Info("a file in a watched folder changed while it was read", "folder", p.f.where, "path", path)
		p.note(func(*Progress) { p.stats.Changing++ })
		p.release(j.dir, nil, drop) // the end of writing is reported, or a rescan finds it
		return
	case e.File.Problem != "":
		log.Warn("a file in a watched folder is left out", "folder", p.f.where, "path", path, "error", e.File.Problem)
	}
	p.note(func(s *Progress) {
		s.Read++
		s.Bytes += e.File.Size
		s.Path = path
		p.stats.Read++
		p.stats.Bytes += e.File.Size
		p.stats.Objects += int64(len(e.Objects))
		if e.File.Problem != "" {
			p.stats.Problems++
		}
	})
	if len(e.Objects) == 0 && len(e.Sources) == 0 && e.File.Problem == "" {
		print := h.stamp().print(j.name)
		p.release(j.dir, &print, drop)
		return
	}
	p.send(result{rows: 2 + 4*len(e.Objects) + len(e.Sources), change: watched.Change{Drop: drop, Put: []watched.Entry{*e}}})
	p.release(j.dir, nil, nil)
}

// The steps of the clocks that stamp files, and a little more: those of most file systems,
// and those of file systems with whole seconds, such as FAT's.
const (
	tick     = 20 * time.Millisecond
	slowTick = 2100 * time.Millisecond
)

// unsettled returns for how long a file may still change without getting another stamp,
// because it was just written to.
func (s stamp) unsettled(now time.Time) time.Duration {
	step := tick
	if s.tag == "" && s.mtime%int64(time.Second) == 0 && s.ctime%int64(time.Second) == 0 {
		step = slowTick
	}
	age := now.Sub(time.Unix(0, max(s.mtime, s.ctime)))
	if age < 0 {
		return 0 // a time in the future says nothing
	}
	return max(0, step-age)
}

// settled waits until a file cannot change without getting another stamp. It returns false
// if the context has ended.
func (p *pass) settled(s stamp) bool {
	wait := s.unsettled(time.Now())
	if wait == 0 {
		return p.ctx.Err() == nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

// note changes the counts, and reports them.
func (p *pass) note(change func(s *Progress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.show)
	if p.f.opt.Progress != nil {
		p.f.opt.Progress(p.show)
	}
}

// writer writes results, many in one transaction.
func (p *pass) writer() {
	const most = 4096 // rows of one transaction
	var c watched.Change
	rows := 0
	flush := func() {
		if rows > 0 {
			err := p.f.db.Apply(context.WithoutCancel(p.ctx), c)
			if err != nil {
				p.stop(err)
			} else if p.f.found != nil && len(c.Put) > 0 {
				p.f.found(p.ctx, keysIn(&c))
			}
		}
		c, rows = watched.Change{}, 0
	}
	for r := range p.results {
		p.dropped = p.dropped || len(r.change.Drop) > 0
		c.Put = append(c.Put, r.change.Put...)
		c.Drop = append(c.Drop, r.change.Drop...)
		c.Dirs = append(c.Dirs, r.change.Dirs...)
		c.Gone = append(c.Gone, r.change.Gone...)
		if rows += r.rows; rows >= most || len(p.results) == 0 && rows >= most/8 {
			flush()
		}
	}
	flush()
}

// vanished drops the folders that are no longer there.
func (p *pass) vanished() error {
	if err := p.f.Present(p.ctx); err != nil {
		return err
	}
	after := ""
	for {
		list, err := p.f.db.Dirs(p.ctx, after, 1000)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, dir := range list {
			if after = dir; p.seen[dir] || p.hidden(dir) {
				continue
			}
			if err := p.forget(dir); err != nil {
				return err
			}
		}
	}
}

// hidden reports whether a folder lies below one that cannot be listed. Nobody knows
// whether it is still there.
func (p *pass) hidden(dir string) bool {
	for d := parent(dir); d != ""; d = parent(d) {
		if p.seen[d] {
			return p.lost[d]
		}
	}
	return false
}

// parent returns the folder around one; "" for the watched folder itself.
func parent(dir string) string {
	i := strings.LastIndexByte(dir, '/')
	return dir[:max(i, 0)]
}
