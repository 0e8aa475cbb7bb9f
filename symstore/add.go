package symstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/layout"
)

// Compression is the form in which files are stored.
type Compression uint8

// The compressions.
const (
	Plain Compression = iota
	MSZIP             // a cabinet that every client can read
	LZX               // a cabinet as the genuine tool writes it, LZX:21
)

// AddOptions describe a transaction. The comments name the option of the genuine
// tool. The zero value stores files uncompressed.
type AddOptions struct {
	Product string // /t
	Version string // /v
	Comment string // /c
	// Time is the date of the transaction, for imports. Zero: now.
	Time time.Time
	// Pointer stores pointers to the files instead of the files (/p). Without
	// AllowLocal (/l) their paths must be network paths (\\server\share).
	Pointer    bool
	AllowLocal bool
	// Relative records relative paths as relative to the root of the store
	// (-:REL). It implies AllowLocal.
	Relative bool
	// Message is added to pointers, on a line of its own after the path (-:MSG).
	Message string
	// NoRefs creates a store without refs.ptr files (-:NOREFS). A store that was
	// created so keeps none, with and without this option. For any other store that
	// has transactions, the error is ErrRefs.
	NoRefs bool
	// NoForceCopy keeps a file that is already stored (-:NOFORCECOPY). The
	// transaction is recorded all the same.
	NoForceCopy bool
	// NoReplace makes it an error, ErrExists, to replace a stored file by
	// different content under the same key, which the genuine tool does silently.
	NoReplace bool
	Filter    Type       // Public or Private (/z); empty: all
	Prefer    Preference // /m and /h
	Compress  Compression
	// OversizePlain stores a file uncompressed if it is too large for a
	// cabinet. Without it such a file is an error.
	OversizePlain bool
	// AllKinds also stores files that otherwise fail with [NeedsAllError]: ELF,
	// Mach-O and WASM files, images that contain only resources, and
	// compressed PDBs (MSFZ).
	AllKinds bool
	// AllOrNothing stores nothing if one file fails.
	AllOrNothing bool
	// Workers is the number of files that are copied or compressed at the same
	// time. 0: one per processor, and four more without compression.
	Workers int
	// Event, if set, is called for each step of a file, in the order of the
	// files. Calls do not overlap.
	Event func(Event)
}

// File is one file to be added.
type File struct {
	// Path of the file. A pointer with Keys does not read it.
	Path string
	// Source is the path for the records, and the target of a pointer. Empty:
	// the absolute form of Path.
	Source string
	// Keys of the file, if they are known (index files). Nil: Add reads them
	// from the file.
	Keys []Key
}

// EventKind is the meaning of an Event.
type EventKind uint8

// The kinds of events.
const (
	EventStore   EventKind = iota // the file is complete and will be published
	EventPointer                  // the same for a pointer
	EventIgnored                  // files of this kind are not stored; Err has details
	EventFailed                   // Err is the cause
	EventRepeat                   // the transaction already has the same file
	EventPlain                    // too large for a cabinet: stored uncompressed; EventStore follows
	EventID                       // the transaction has its number, ID
)

var eventNames = [...]string{
	EventStore: "store", EventPointer: "pointer", EventIgnored: "ignored", EventFailed: "failed", EventRepeat: "repeat", EventPlain: "plain",
	EventID: "id",
}

// String returns the name of the kind in lower case, such as "ignored".
func (k EventKind) String() string {
	if int(k) < len(eventNames) {
		return eventNames[k]
	}
	return "unknown"
}

// Event is one step of an Add.
type Event struct {
	Kind EventKind
	Path string // of the file
	Name string
	Key  string
	Dest string // path of the stored file in the store, with slashes
	// Compressed means that the file is stored as a cabinet (EventStore).
	Compressed bool
	Err        error
	ID         ID
}

// AddResult counts what an Add did. A file that is stored under several keys
// counts once.
type AddResult struct {
	ID       ID  // 0 if nothing was stored; no number was used
	Stored   int // files or pointers
	Repeated int // files given twice, among Stored
	Ignored  int
	Failed   int
	Bytes    int64 // read from the stored files
	Written  int64 // size of the stored files on the disk, without pointers; a repeated file adds nothing
	// Held is how long this writer held the store's lock, Waited how long it
	// waited for the lock.
	Held, Waited time.Duration
	// Err is the first error of a file.
	Err error
}

// Add stores files as one transaction. A file that fails is counted in the result
// and does not stop the others, unless AllOrNothing is set. After an error nothing
// is stored, with one exception: if the final flush fails, the files are stored
// but may not survive a power loss.
//
// All files become visible at the same time. When Add returns, they are on the
// disk.
func (s *Store) Add(ctx context.Context, opt AddOptions, files iter.Seq2[File, error]) (AddResult, error) {
	if s.flat {
		return AddResult{}, fmt.Errorf("%w: %s", ErrNotStore, s.dir)
	}
	result, err := s.add(ctx, opt, files)
	if result.ID == 0 && err != nil {
		// The counted files are not in the store.
		result.Stored, result.Repeated, result.Bytes, result.Written = 0, 0, 0, 0
		if IsNoSpace(err) {
			s.undoCreate() // removes a store that this Add created
		}
	}
	return result, err
}

func (s *Store) add(ctx context.Context, opt AddOptions, files iter.Seq2[File, error]) (AddResult, error) {
	ws, err := s.journal.open()
	if err != nil {
		return AddResult{}, err
	}
	a := &adder{s: s, ws: ws, tiers: s.Tiers(), opt: opt, seen: map[string]int{}, start: opt.Time, guess: s.guessID()}
	if opt.Time.IsZero() {
		a.start = s.opt.Now()
	}
	published := false
	defer func() {
		if !published {
			ws.discard()
		}
		ws.release()
	}()
	if err := a.decideRefs(); err != nil {
		return a.result, err
	}
	if err := a.stageFiles(ctx, files); err != nil {
		return a.result, err
	}
	if opt.AllOrNothing && a.result.Failed > 0 {
		return a.result, fmt.Errorf("nothing was stored: %w", a.result.Err)
	}
	if a.result.Stored == 0 {
		return a.result, nil
	}
	p, err := a.publish(ctx)
	if err != nil {
		published = errors.Is(err, ErrLockLost) // the new owner decides
		return a.result, err
	}
	published = true
	a.result.ID = p.ID
	a.event(Event{Kind: EventID, ID: p.ID})
	return a.result, ws.settle(p)
}

// item is one file of an Add.
type item struct {
	file   File
	source string
	keys   []stagedKey
	sum    [32]byte // SHA-256 of the plain content, if summed
	summed bool
	bytes  int64
	plain  bool // stored uncompressed, too large for a cabinet
	err    error
	fatal  bool // err is a failure of the store, not of the file
}

// stagedKey is a key and the staged file that will be published there.
type stagedKey struct {
	Key        Key
	staged     string // in the writer's folder; empty for a pointer
	compressed bool
	written    int64 // size of the staged file in bytes
	spot       *spot // nil if the file is staged without a folder
}

// adder is one Add.
type adder struct {
	s      *Store
	ws     *workspace
	tiers  Tiers
	opt    AddOptions
	start  time.Time
	guess  ID   // expected number of the transaction
	noRefs bool // the store keeps no refs.ptr files
	result AddResult
	g      *stager

	mu    sync.Mutex
	items []*item        // in the order of the files; guarded by mu
	told  int            // items whose events were sent; guarded by mu
	seen  map[string]int // item of each folded name and key; guarded by mu
}

// stageFiles copies or compresses all files into the workspace.
func (a *adder) stageFiles(ctx context.Context, files iter.Seq2[File, error]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := a.opt.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
		if a.opt.Compress == Plain {
			workers += 4 // copying often waits for the disk
		}
	}
	g := newStager(a.ws, newSpots(a.s.newTargets(nil)), a.opt.Compress)
	a.g = g
	defer g.abort()
	type job struct {
		i    int
		file File
	}
	jobs := make(chan job, 8*workers) // so that workers do not wait for the search
	var wg sync.WaitGroup
	for n := range workers {
		w, err := g.newWorker(strconv.Itoa(n))
		if err != nil {
			cancel(wrapError(err))
			break
		}
		wg.Go(func() {
			defer w.dirs.Close()
			for j := range jobs {
				it := g.stageFile(ctx, a, w, j.i, j.file)
				if it.fatal {
					cancel(it.err)
				}
				a.done(j.i, it)
			}
		})
	}
	i := 0
	var walkErr error
	for f, err := range files {
		if err != nil {
			walkErr = err
			break
		}
		a.mu.Lock()
		a.items = append(a.items, nil)
		a.mu.Unlock()
		select {
		case jobs <- job{i, f}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		i++
	}
	close(jobs)
	wg.Wait()
	if walkErr != nil {
		return walkErr
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if a.result.Stored == 0 || a.opt.AllOrNothing && a.result.Failed > 0 {
		return nil // nothing to publish
	}
	a.listFolders()
	return wrapError(g.flushAll())
}

// listFolders lists the completed folders, in the order of the files.
func (a *adder) listFolders() {
	a.ws.folders.Guess = a.guess
	for _, it := range a.items {
		for _, k := range it.keys {
			if k.spot != nil {
				a.ws.folders.Folders = append(a.ws.folders.Folders, k.spot.folder)
			}
		}
	}
}

// done records that a file is staged, and reports all files up to the first
// incomplete one.
func (a *adder) done(i int, it *item) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.items[i] = it
	for a.told < len(a.items) && a.items[a.told] != nil {
		a.report(a.told, a.items[a.told])
		a.told++
	}
}

// report decides whether a staged file is stored, and sends its events. It is
// called in the order of the files.
func (a *adder) report(i int, it *item) {
	e := Event{Path: it.file.Path}
	switch {
	case it.err != nil && ignored(it.err):
		a.result.Ignored++
		e.Kind, e.Err = EventIgnored, it.err
		a.event(e)
		return
	case it.err != nil:
		a.fail(it, it.err)
		return
	}
	repeat, err := a.repeats(i, it)
	if err != nil {
		a.fail(it, err)
		return
	}
	a.result.Stored++
	a.result.Bytes += it.bytes
	if repeat {
		a.result.Repeated++
		a.g.drop(it)
		e.Kind = EventRepeat
		a.event(e)
		return
	}
	if it.plain {
		e.Kind = EventPlain
		a.event(e)
	}
	for _, k := range it.keys {
		a.result.Written += k.written
		e.Kind, e.Name, e.Key, e.Compressed = EventStore, k.Key.Name, k.Key.Key, false
		leaf := k.Key.Name
		switch {
		case a.opt.Pointer:
			e.Kind, leaf = EventPointer, pointerLeaf
		case k.compressed:
			leaf = layout.CabinetName(k.Key.Name)
			e.Compressed = true
		}
		e.Dest = path.Join(dirOf(a.tiers, k.Key.Name, k.Key.Key), leaf)
		a.event(e)
	}
}

func (a *adder) event(e Event) {
	if a.opt.Event != nil {
		a.opt.Event(e)
	}
}

func (a *adder) fail(it *item, err error) {
	a.result.Failed++
	a.g.drop(it)
	it.err = fmt.Errorf("%s: %w", it.file.Path, err)
	if a.result.Err == nil {
		a.result.Err = it.err
	}
	a.event(Event{Kind: EventFailed, Path: it.file.Path, Err: err})
}

// repeats reports whether the transaction already has the same file. Different
// content under one of its keys is an error: one of the two would be lost.
func (a *adder) repeats(i int, it *item) (bool, error) {
	same := 0
	for _, k := range it.keys {
		j, ok := a.seen[k.Key.folded()]
		if !ok {
			continue
		}
		first := a.items[j]
		equal, err := a.equal(first, it)
		if err != nil {
			return false, err
		}
		if !equal {
			return false, fmt.Errorf("%w: %s has the same key %s and different content",
				ErrExists, cmp.Or(first.file.Source, first.file.Path), k.Key)
		}
		same++
	}
	if same == len(it.keys) {
		return true, nil
	}
	for _, k := range it.keys {
		a.seen[k.Key.folded()] = i
	}
	return false, nil
}

// equal reports whether two files have the same content.
func (a *adder) equal(x, y *item) (bool, error) {
	if a.opt.Pointer {
		return true, nil
	}
	for _, it := range []*item{x, y} {
		if err := a.hash(it); err != nil {
			return false, err
		}
	}
	return x.sum == y.sum, nil
}

// hash computes the sum of an item if it is not known. Few items need it.
func (a *adder) hash(it *item) error {
	if it.summed {
		return nil
	}
	f, err := a.ws.root.Open(it.keys[0].staged)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h := sha256.New()
	if it.keys[0].compressed {
		err = unpack(f, info.Size(), h)
	} else {
		_, err = io.Copy(h, f)
	}
	h.Sum(it.sum[:0])
	it.summed = err == nil
	return err
}

// pointerContent returns the content of a file.ptr: the path, and a message on a line
// of its own. The first line is what a file.ptr without a message has.
func (o *AddOptions) pointerContent(source string) []byte {
	if o.Message == "" {
		return []byte(source)
	}
	return []byte(source + "\r\nMSG: " + clean(o.Message))
}

// source returns the path that is recorded for a file.
func (a *adder) source(f File) (string, error) {
	p := f.Source
	if p == "" {
		abs, err := filepath.Abs(f.Path)
		if err != nil {
			return "", err
		}
		p = abs
		if a.opt.Pointer && a.opt.Relative && !filepath.IsAbs(f.Path) {
			rel, err := filepath.Rel(a.s.dir, resolved(abs))
			if err != nil {
				return "", fmt.Errorf("%w: %w", ErrPointer, err)
			}
			p = strings.ReplaceAll(rel, "/", `\`)
		}
	}
	if !a.opt.Pointer {
		return p, nil
	}
	if clean(p) != p || strings.TrimSpace(p) != p || p == "" {
		return "", fmt.Errorf("%w: the records cannot represent the path %q", ErrPointer, truncate.Text(p))
	}
	if !a.opt.AllowLocal && !a.opt.Relative && !isNetworkPath(p) {
		return "", fmt.Errorf("%w: %q is a local path", ErrPointer, truncate.Text(p))
	}
	return p, nil
}

// resolved resolves symbolic links in the folders of a path, as Open does for the
// path of the store.
func resolved(p string) string {
	dir, err := filepath.EvalSymlinks(filepath.Dir(p))
	if err != nil {
		return p
	}
	return filepath.Join(dir, filepath.Base(p))
}

func isNetworkPath(p string) bool { return strings.HasPrefix(p, `\\`) || strings.HasPrefix(p, "//") }
