package stage

import (
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // an id of a protocol
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// tempPrefix begins the names of files that are being written.
const tempPrefix = "tmp-"

// partSuffix ends the names of contents of which not all parts have arrived.
const partSuffix = ".part"

var buffers = sync.Pool{New: func() any { return new([128 << 10]byte) }}

// Put receives a whole content: plain bytes. had is true if the stage needs it no
// more; the body is then not read. Otherwise the content was new to the stage,
// whether or not the depot had it.
func (s *Stages) Put(ctx context.Context, c Caller, id string, ref blob.Ref, body io.Reader) (had bool, err error) {
	row, files, err := s.awaited(ctx, c, id, ref)
	if err != nil || len(files) == 0 {
		return err == nil, err
	}
	size := files[0].Size
	end, err := s.begin(ctx, row, size)
	if err != nil {
		return false, err
	}
	defer end()
	t, err := s.receive(ctx, id, size, body)
	if err != nil {
		return false, s.explain(err, id)
	}
	defer t.remove()
	if t.ref != ref {
		return false, refuse(WrongHash, "the content has SHA-256 %s, not %s", t.ref, ref)
	}
	files, err = s.arrive(ctx, row, index.Content{Ref: ref, Size: size}, files, t.path)
	if err != nil {
		return false, s.explain(err, id)
	}
	if err := refusedAll(files); err != nil || !row.Collects {
		return false, err
	}
	_, err = s.collect(ctx, row, files)
	return false, err
}

// refusedAll returns the Refusal if all files of a content were refused.
func refusedAll(files []index.StageFile) error {
	for _, f := range files {
		if f.State != index.StageRefused {
			return nil
		}
	}
	return refuse(NotSymbol, "%s: %s", files[0].Path, files[0].Reason)
}

// awaited returns an open stage and those of its files that await a content. If
// the stage has none with the content, that is a Conflict; if all are refused,
// NotSymbol.
func (s *Stages) awaited(ctx context.Context, c Caller, id string, ref blob.Ref) (index.StageRow, []index.StageFile, error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return row, nil, err
	}
	all, err := s.db.FilesOf(ctx, id, []blob.Ref{ref})
	if err != nil {
		return row, nil, err
	}
	if len(all) == 0 {
		return row, nil, refuse(Conflict, "no file of the stage has the content %s: check it first", ref)
	}
	var list []index.StageFile
	for _, f := range all {
		if f.State == index.StageAwaited {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return row, nil, refusedAll(all)
	}
	return row, list, nil
}

// begin reserves space for a whole content until end is called.
func (s *Stages) begin(ctx context.Context, row index.StageRow, size int64) (end func(), err error) {
	if err := s.room(ctx, row, size); err != nil {
		return nil, err
	}
	s.receiving.Add(size)
	return func() { s.receiving.Add(-size) }, nil
}

// room returns an error for size more bytes for a stage if the stages hold too many or the disk
// is full.
func (s *Stages) room(ctx context.Context, row index.StageRow, size int64) error {
	total, free, err := s.depot.Space()
	if err != nil {
		total, free = 0, 1<<62 // not known
	}
	staged, least := s.limits.Staged, s.limits.Free
	if staged == 0 {
		staged = 64 << 30
		if total > 0 {
			staged = min(staged, total/10)
		}
	}
	if least == 0 && total > 0 {
		least = min(10<<30, total/20)
	}
	if free-size < least {
		return refuse(NoSpace, "the disk of the server is nearly full: %d bytes do not fit; nothing was lost, try again later", size)
	}
	if row.Staged+size > staged {
		return refuse(NoSpace, "the push holds %d bytes, and this server keeps at most %d for all unfinished pushes: push fewer files at once, or use symdepot add on the server", row.Staged+size, staged)
	}
	held, err := s.db.Staged(ctx)
	held += s.receiving.Load()
	if err == nil && held+size > staged {
		err = refuse(Busy, "unfinished pushes hold %d bytes, and the limit is %d; try again later", held, staged)
	}
	return err
}

// temp is a file of a stage that is being written.
type temp struct {
	path string
	file *os.File
	size int64
	ref  blob.Ref
	sha1 string
}

// remove removes the file, unless it was renamed.
func (t *temp) remove() { _ = os.Remove(t.path) }

// folder returns the folder of a stage.
func (s *Stages) folder(id string) string { return filepath.Join(s.dir, id) }

// path returns the name of the file of a whole content.
func (s *Stages) path(id string, ref blob.Ref) string {
	return filepath.Join(s.folder(id), ref.String())
}

func rename(from, to string) error {
	return durable.RetryRename(func() error { return os.Rename(from, to) })
}

func (s *Stages) create(id string) (*os.File, error) {
	if err := os.MkdirAll(s.folder(id), 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(s.folder(id), tempPrefix+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, s.perm)
}

// receive writes a body to a file and hashes it. size is that of the body; -1 is
// unknown, and the SHA-1 is computed too.
func (s *Stages) receive(ctx context.Context, id string, size int64, body io.Reader) (*temp, error) {
	f, err := s.create(id)
	if err != nil {
		return nil, err
	}
	t := &temp{path: f.Name(), file: f}
	limit := size
	sum, old := sha256.New(), hash.Hash(nil)
	to := io.MultiWriter(f, sum)
	if size < 0 {
		limit, old = s.limits.MaxFile, sha1.New() //nolint:gosec // an id of a protocol
		to = io.MultiWriter(f, sum, old)
	}
	t.size, err = s.copy(ctx, id, to, io.LimitReader(body, limit+1))
	beginWriting(s.depot, f, 0, t.size)
	err = errors.Join(err, f.Close())
	switch {
	case err != nil:
	case t.size > limit && size < 0:
		err = refuse(TooLarge, "the file has more than %d bytes, the limit", limit)
	case t.size > limit:
		err = refuse(WrongHash, "the content has more than the announced %d bytes", size)
	case size >= 0 && t.size < size:
		err = refuse(WrongHash, "the content has %d bytes instead of the announced %d", t.size, size)
	}
	if err != nil {
		t.remove()
		return nil, err
	}
	sum.Sum(t.ref[:0])
	if old != nil {
		t.sha1 = hex.EncodeToString(old.Sum(nil))
	}
	return t, nil
}

// beginWriting has the disk begin to write n bytes of a file, so that the commit
// waits less. In a bucket they are not kept.
func beginWriting(d Depot, f *os.File, off, n int64) {
	if !d.InBucket() {
		durable.StartWriting(f, off, n)
	}
}

// touchEvery is the interval at which a slow transfer records that its stage is in use.
const touchEvery = time.Minute

// copy copies a body and keeps the stage alive meanwhile. It writes whole buffers: a
// file system keeps aligned blocks in fewer steps than the pieces that a network
// brings.
func (s *Stages) copy(ctx context.Context, id string, w io.Writer, r io.Reader) (n int64, err error) {
	buf := buffers.Get().(*[128 << 10]byte)
	defer buffers.Put(buf)
	held := 0 // bytes in buf
	for touched := s.now(); ; {
		if err := ctx.Err(); err != nil {
			return n, err
		}
		m, rerr := r.Read(buf[held:])
		held += m
		if held == len(buf) || rerr != nil {
			if _, err := w.Write(buf[:held]); err != nil {
				return n, err
			}
			n, held = n+int64(held), 0
		}
		if rerr == io.EOF {
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
		if now := s.now(); now.Sub(touched) > touchEvery {
			touched = now
			if err := s.db.Touch(ctx, id); err != nil {
				return n, err
			}
		}
	}
}

// slice is a part of a file, or an inflated piece of it.
type slice struct{ offset, size, deflated int64 }

// arrive handles a content that is complete in a file: it identifies it under the
// name of each of the files that await it, keeps its objects, and records both. It
// returns the files with their new states. The file may get another name.
func (s *Stages) arrive(ctx context.Context, row index.StageRow, c index.Content, files []index.StageFile, path string) ([]index.StageFile, error) {
	f, err := durable.OpenShared(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	type claim struct{ name, kind, id string }
	type answer struct {
		facts, reason string
	}
	answers := map[claim]answer{}
	kept := map[slice]index.Content{}
	var known []index.KnownFile
	for i := range files {
		k := claim{symfile.BaseName(files[i].Path), files[i].Kind, files[i].ID}
		a, ok := answers[k]
		if !ok {
			facts, reason, err := s.identify(ctx, row, f, c, files[i], kept)
			if err != nil {
				return nil, err
			}
			a.reason = reason
			if reason == "" {
				if a.facts, err = formatFacts(facts); err != nil {
					return nil, err
				}
				if k.kind == "" && !isSimple(facts, c.Ref, k.name) {
					for j := range facts {
						facts[j].Other = false // that is of this product
					}
					text, err := formatFacts(facts)
					if err != nil {
						return nil, err
					}
					known = append(known, index.KnownFile{Content: c, Name: symfile.Fold(k.name), Facts: text})
				}
			}
			answers[k] = a
		}
		files[i].Facts, files[i].Reason, files[i].State = a.facts, a.reason, index.StageArrived
		if a.reason != "" {
			files[i].State = index.StageRefused
		}
	}
	arrival := index.StageArrival{Stage: row.ID, Content: c, Files: files}
	for where, o := range kept {
		arrival.Objects = append(arrival.Objects, o)
		if where != (slice{0, c.Size, 0}) {
			continue
		}
		if s.depot.InBucket() {
			err = s.depot.Place(ctx, c, io.NewSectionReader(f, 0, c.Size))
		} else {
			err = rename(path, s.path(row.ID, c.Ref))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := s.db.PutKnown(ctx, known); err != nil {
		return nil, err
	}
	return files, s.marks.put(ctx, arrival)
}

// identify returns the objects of a file. Those that are not the whole file are
// kept as contents of their own; kept has all contents that the stage keeps.
func (s *Stages) identify(ctx context.Context, row index.StageRow, f *os.File, c index.Content, file index.StageFile, kept map[slice]index.Content) (facts []fact, reason string, err error) {
	objs, err := s.depot.Identify(f, c.Size, file.Path, file.Kind, forcedID(file))
	if err != nil {
		if s.depot.Refuses(err) {
			return nil, err.Error(), nil
		}
		return nil, "", err
	}
	var objects []symfile.Object
	for _, o := range objs {
		objects = append(objects, o.Object)
	}
	if file.Kind == "" {
		if reason := contradicts(file.ID, objects); reason != "" {
			return nil, reason, nil
		}
	}
	flags := make([][]string, len(objs))
	for i, o := range objs {
		if flags[i], reason, err = s.depot.JudgeLinks(row.Product, file.Path, f, o); reason != "" || err != nil {
			return nil, reason, err
		}
	}
	var added []slice
	defer func() {
		if reason != "" {
			for _, where := range added {
				delete(kept, where)
			}
		}
	}()
	for i, o := range objs {
		where := slice{o.Offset, o.Size, o.Deflated}
		content, ok := kept[where]
		if !ok {
			content = c
			if !isWhole(o, c.Size) {
				if content, err = s.keepObject(ctx, row.ID, f, c.Size, o); err != nil {
					if errors.Is(err, errObjectSize) || s.depot.Refuses(err) {
						return nil, err.Error(), nil
					}
					return nil, "", err
				}
			}
			kept[where], added = content, append(added, where)
		}
		k := newFact(o, content)
		k.Flags = flags[i]
		if reason, err = k.judgeOther(ctx, s, row.Product, content.Ref); reason != "" || err != nil {
			return nil, reason, err
		}
		facts = append(facts, k)
	}
	return facts, "", nil
}

// judgeOther notes if the product has other bytes with the id of the object, and returns
// why the object is refused for that; empty if it is not.
func (k *fact) judgeOther(ctx context.Context, s *Stages, product string, ref blob.Ref) (refused string, err error) {
	o := k.Object
	if k.Other, err = s.db.HasOther(ctx, product, o, ref); err != nil {
		return "", err
	}
	if k.Other && s.limits.DenyOther && (o.Kind == symfile.PE || o.Kind == symfile.PDB || o.Kind == symfile.PDB20 || o.Kind == symfile.PortablePDB || o.Kind == symfile.Breakpad) {
		return fmt.Sprintf("product %q has other bytes for %s with the id %s", product, o.Name, idsOf(o)[0]), nil
	}
	return "", nil
}

// forcedID returns the id that a file of a forced kind is kept under.
func forcedID(f index.StageFile) string {
	if f.Kind == "" {
		return ""
	}
	return f.ID
}

var errObjectSize = errors.New("the size of an object in it differs from the recorded one")

// keepObject keeps an object that is a part of a file.
func (s *Stages) keepObject(ctx context.Context, id string, f *os.File, size int64, o objfile.Object) (index.Content, error) {
	t, err := s.receive(ctx, id, o.Size, s.depot.ObjectReader(f, size, o))
	if r, ok := errors.AsType[*Refusal](err); ok && r.Kind == WrongHash {
		err = fmt.Errorf("%w: %w", objfile.ErrBroken, errObjectSize)
	}
	if err != nil {
		return index.Content{}, err
	}
	defer t.remove()
	c := index.Content{Ref: t.ref, Size: t.size}
	if !s.depot.InBucket() {
		return c, rename(t.path, s.path(id, t.ref))
	}
	g, err := os.Open(t.path)
	if err != nil {
		return c, err
	}
	defer func() { _ = g.Close() }() // only read
	return c, s.depot.Place(ctx, c, g)
}

// Arrived describes a file of PutNew.
type Arrived struct {
	index.Content
	SHA1    string           // of the file, in lower-case hex
	Other   bool             // the product had another object with the same id
	Had     bool             // the caller could read all objects of the file before
	Objects []symfile.Object // in the file
	Receipt Receipt
	// Transaction is that of a stage that collects, in which the file is visible now.
	Transaction int64
}

// PutNew receives a file whose hash the client has not announced, and adds it to the
// stage. If the error is a Refusal of the kind
// NotSymbol, the file is not part of the stage, and the result has the hashes.
func (s *Stages) PutNew(ctx context.Context, c Caller, id, path string, modTime time.Time, body io.Reader) (Arrived, error) {
	return s.PutClaimed(ctx, c, id, Entry{Path: path, ModTime: modTime, Size: -1}, body, nil)
}

// PutClaimed is PutNew for a file about which the client makes claims: As and
// ID, and Size unless it is negative. Ref is not used. check, if not nil, is
// called with the identified file before it is part of the stage; its error ends
// the call, is returned unchanged, and leaves nothing of the file.
func (s *Stages) PutClaimed(ctx context.Context, c Caller, id string, e Entry, body io.Reader, check func(Arrived) error) (a Arrived, err error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return a, err
	}
	probe := e
	probe.Size, probe.Ref = 1, blob.Ref{}
	if err := s.validEntry(probe); err != nil {
		return a, err
	}
	if reason := unwanted(probe); reason != "" {
		return a, refuse(NotSymbol, "%s: %s", e.Path, reason)
	}
	if e.Size > s.limits.MaxFile {
		return a, refuse(TooLarge, "%s has %d bytes, and the limit for a file is %d", e.Path, e.Size, s.limits.MaxFile)
	}
	end, err := s.begin(ctx, row, max(e.Size, 0))
	if err != nil {
		return a, err
	}
	defer end()
	t, err := s.receive(ctx, id, -1, body)
	if err != nil {
		return a, s.explain(err, id)
	}
	defer t.remove()
	a.Content, a.SHA1 = index.Content{Ref: t.ref, Size: t.size}, t.sha1
	if e.Size >= 0 && t.size != e.Size {
		return a, refuse(WrongHash, "%s has %d bytes instead of the announced %d", e.Path, t.size, e.Size)
	}
	if t.size == 0 {
		return a, refuse(NotSymbol, "%s: an empty file has no symbols", e.Path)
	}
	file := index.StageFile{Path: e.Path, Content: a.Content, ModTime: e.ModTime, Kind: e.As, ID: e.ID}
	if err := s.quota(ctx, row, []index.StageFile{file}); err != nil {
		return a, err
	}
	// The file must be in the stage before its content arrives, and must not be if
	// it is refused.
	f, err := os.Open(t.path)
	if err != nil {
		return a, err
	}
	kept := map[slice]index.Content{}
	facts, reason, err := s.identify(ctx, row, f, a.Content, file, kept)
	_ = f.Close() // only read
	if err != nil {
		return a, s.explain(err, id)
	}
	if reason != "" {
		return a, refuse(NotSymbol, "%s: %s", e.Path, strings.TrimSpace(reason))
	}
	h, err := s.look(ctx, c, id, factRefs(facts))
	if err != nil {
		return a, err
	}
	a.Had = true
	for _, k := range facts {
		a.Objects = append(a.Objects, k.Object)
		o, err := k.content()
		a.Other = a.Other || k.Other
		a.Had = a.Had && err == nil && len(h.objects[o.Ref]) > 0
	}
	if check != nil {
		if err := check(a); err != nil {
			return a, err
		}
	}
	if err := c.again(ctx, row); err != nil { // the body may have come for hours
		return a, err
	}
	if err := s.db.PutSHA1(ctx, t.sha1, a.Content); err != nil {
		return a, err
	}
	if err := s.db.PutFiles(ctx, id, []index.StageFile{file}, index.StagePut{Most: s.most()}); err != nil {
		return a, s.explain(err, id)
	}
	files, err := s.arrive(ctx, row, a.Content, []index.StageFile{file}, t.path)
	if err != nil {
		return a, s.explain(err, id)
	}
	if err := refusedAll(files); err != nil {
		return a, err // another request has brought other bytes of its id meanwhile
	}
	a.Receipt = receiptOf(files[0])
	if row.Collects {
		a.Transaction, err = s.collect(ctx, row, files)
	}
	return a, err
}

// Refuse records a file that has arrived and is not wanted, with the reason, so that only a
// partial commit succeeds. Its bytes are not kept. Ref and Size of the entry may be zero.
func (s *Stages) Refuse(ctx context.Context, c Caller, id string, e Entry, reason string) error {
	if _, err := s.open(ctx, c, id); err != nil {
		return err
	}
	probe := e
	probe.Size, probe.Ref = 1, blob.Ref{}
	if err := s.validEntry(probe); err != nil {
		return err
	}
	file := index.StageFile{Path: e.Path, Content: index.Content{Ref: e.Ref, Size: e.Size}, ModTime: e.ModTime, State: index.StageRefused, Reason: reason}
	return s.explain(s.db.PutFiles(ctx, id, []index.StageFile{file}, index.StagePut{Most: s.most()}), id)
}

// Refused lists the files of an open stage that were refused, the first 1,000.
func (s *Stages) Refused(ctx context.Context, c Caller, id string) ([]Refused, error) {
	if _, err := s.row(ctx, c, id); err != nil {
		return nil, err
	}
	var list []Refused
	err := s.db.Files(ctx, id, func(f index.StageFile) error {
		if f.State == index.StageRefused && len(list) < maxMissing {
			list = append(list, Refused{f.Path, f.Reason})
		}
		return nil
	})
	return list, err
}

// marks records arrived contents, those of concurrent requests together.
type marks struct {
	write func(ctx context.Context, list []index.StageArrival) error

	mu      sync.Mutex
	waiting []mark // guarded by mu
	writing bool   // guarded by mu
}

type mark struct {
	arrival index.StageArrival
	done    chan error
	turn    chan struct{} // it is this caller's turn to write for all that wait
}

// maxMarks is the number of contents that are recorded in one write.
const maxMarks = 256

// put records a content. The caller that comes first writes, those that come
// meanwhile wait, and the first of them writes next, for all.
func (m *marks) put(ctx context.Context, a index.StageArrival) error {
	k := mark{a, make(chan error, 1), make(chan struct{}, 1)}
	m.mu.Lock()
	m.waiting = append(m.waiting, k)
	if !m.writing {
		m.writing = true
		k.turn <- struct{}{}
	}
	m.mu.Unlock()
	select {
	case err := <-k.done:
		return err
	case <-k.turn:
		m.run(context.WithoutCancel(ctx))
		return <-k.done
	case <-ctx.Done():
		go func() { // the others still need it if its turn comes
			select {
			case <-k.done: //nolint:errcheck // nobody waits for it any more
			case <-k.turn:
				m.run(context.WithoutCancel(ctx))
			}
		}()
		return ctx.Err()
	}
}

// run writes for all that wait, among them the caller, who is the first, and passes
// the turn on.
func (m *marks) run(ctx context.Context) {
	m.mu.Lock()
	n := min(len(m.waiting), maxMarks)
	batch := m.waiting[:n:n]
	m.waiting = m.waiting[n:]
	m.mu.Unlock()
	list := make([]index.StageArrival, n)
	for i := range batch {
		list[i] = batch[i].arrival
	}
	err := m.write(ctx, list)
	for _, k := range batch {
		k.done <- err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) > 0 {
		m.waiting[0].turn <- struct{}{}
	} else {
		m.waiting, m.writing = nil, false
	}
}
