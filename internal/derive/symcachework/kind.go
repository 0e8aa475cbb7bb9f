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
	"runtime"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/derive/jobs"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symcache"
	"github.com/symdepot/symdepot/symfile"
)

// Ability returns the ability to make a version of SymCache files.
func Ability(v symcache.Version) jobs.Ability {
	return jobs.Ability{Kind: Kind, Variant: int(v.Major), Version: v.String()}
}

// work is the kind of job that makes SymCache files. It implements jobs.Kind.
type work struct{ svc *Service }

func defaultSlots() int { return max(1, runtime.NumCPU()/2) }

// Name implements jobs.Kind.
func (work) Name() string { return Kind }

// Abilities implements jobs.Kind.
func (w work) Abilities() []jobs.Ability { return abilities(w.svc.make.Transcoders) }

func abilities(ts *transcode.Transcoders) (list []jobs.Ability) {
	for _, v := range ts.Versions() {
		list = append(list, Ability(v))
	}
	return list
}

// Tools implements jobs.Toolkit.
func (w work) Tools() (list []jobs.Tool) {
	for _, s := range w.svc.make.Transcoders.Status() {
		t := jobs.Tool{Kind: Kind, Name: s.Name, Tested: s.Tested}
		switch {
		case s.Err != nil:
			t.Fault = s.Err.Error()
		case !s.Version.IsZero():
			t.Version = s.Version.String()
		}
		list = append(list, t)
	}
	return list
}

// CheckAbility implements jobs.Kind.
func (work) CheckAbility(a jobs.Ability) (jobs.Ability, error) {
	v, err := symcache.ParseVersion(a.Version)
	if err != nil || v.Compare(symcache.MinVersion) < 0 || a.Variant != int(v.Major) {
		return a, fmt.Errorf("%w: version %q of variant %d", jobs.ErrBadWorker, a.Version, a.Variant)
	}
	return Ability(v), nil
}

// CheckFailure implements jobs.Kind. A worker knows the classes of transcoders.
func (work) CheckFailure(f jobs.Failure) (jobs.Failure, error) {
	if !slices.Contains(transcode.Classes, transcode.Class(f.Class)) {
		return f, fmt.Errorf("%w: class %q", jobs.ErrBadWorker, f.Class)
	}
	if f.Version != "" {
		v, err := symcache.ParseVersion(f.Version)
		if err != nil {
			return f, fmt.Errorf("%w: version %q", jobs.ErrBadWorker, f.Version)
		}
		f.Version = v.String()
	}
	return f, nil
}

// minScratch is how many bytes the disk of the scratch folder must have free
// before another job starts.
const minScratch = 512 << 20

// CanStart implements jobs.Kind.
func (w work) CanStart() bool {
	free, err := w.svc.make.Transcoders.Workspace().Free()
	return err != nil || free >= minScratch
}

// Input implements jobs.Kind. A transcoder is given the PDB's own name, not the
// one in the request, if it is harmless.
func (w work) Input(ctx context.Context, j jobs.Job) (jobs.Input, error) {
	key, want, err := readPayload(j)
	if err != nil {
		return jobs.Input{}, err
	}
	in, m := jobs.Input{Version: want.String()}, messageOf(key)
	if h, err := w.svc.FindPDB(ctx, key); err == nil {
		m.Name, in.Source = h.Object.Name, &h.Ref
	}
	m.Name = transcode.ProgramName(m.Name)
	in.Message, err = json.Marshal(m)
	return in, err
}

// Existing implements jobs.Kind.
func (w work) Existing(ctx context.Context, j jobs.Job) (*jobs.Outcome, error) {
	svc := w.svc
	key, want, err := readPayload(j)
	if err != nil {
		return nil, err
	}
	if made, err := svc.isHeld(ctx, key, want); err != nil {
		return nil, err
	} else if made {
		return &jobs.Outcome{Class: "here", Detail: "the file is in the depot already"}, nil
	}
	h, err := svc.FindPDB(ctx, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if f, err := svc.queue.Failure(ctx, Kind, j.Key, &h.Ref, want.String()); err == nil {
		return nil, jobs.Failure{Class: f.Class, Version: want.String(), Detail: f.Detail}
	}
	c, err := svc.db.Derived(ctx, h.Ref, derivedTool(want))
	if errors.Is(err, fs.ErrNotExist) || err == nil && c.Size == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// The same PDB under another name.
	if err := w.enterResult(ctx, key, want, c); err != nil {
		return nil, nil //nolint:nilerr // the result was evicted meanwhile: make it again
	}
	return &jobs.Outcome{Class: "ok", Detail: want.String() + ", as made before", Result: &c.Ref}, nil
}

// derivedTool is the tool in the records of derived contents.
func derivedTool(v symcache.Version) record.Tool {
	return record.Tool{Name: Kind, Version: int(v.Major)<<16 | int(v.Minor)<<8 | int(v.Patch)}
}

// Make implements jobs.Kind with the transcoders of this machine.
func (w work) Make(ctx context.Context, j jobs.Job) (jobs.Outcome, error) {
	none := jobs.Outcome{}
	key, want, err := readPayload(j)
	if err != nil {
		return none, err
	}
	sc, ref, err := w.copyPDB(ctx, key)
	if err != nil {
		return none, err
	}
	defer sc.Remove()
	// The result of a PDB that was just downloaded may be known.
	if o, err := w.Existing(ctx, j); err != nil {
		return none, err
	} else if o != nil {
		return *o, nil
	}
	m, err := w.svc.make.Transcoders.Transcode(ctx, sc, transcode.Job{Name: key.Name, ID: key.ID, Major: j.Variant})
	if err != nil {
		f := programFailure(err)
		f.Source = &ref
		return none, f
	}
	in, err := os.Open(m.Path)
	if err != nil {
		return none, err
	}
	defer in.Close()
	c, err := w.keep(ctx, key, m.Version, m.Size, nil, in)
	if err != nil {
		return none, err
	}
	w.noteDerived(ctx, ref, m.Version, c)
	w.svc.log.Info("a PDB was transcoded", "job", j.ID, "pdb", jobKey(key), "version", m.Version.String(),
		"wanted", want.String(), "transcoder", m.Program, "took", m.Took)
	return jobs.Outcome{Class: "ok", Detail: madeBy(m), Result: &c.Ref}, nil
}

// madeBy describes which program made a result, and in what time.
func madeBy(m *transcode.Made) string {
	return fmt.Sprintf("%s by %s in %s", m.Version, m.Program, m.Took.Round(time.Millisecond))
}

// programFailure describes the error of a transcoder.
func programFailure(err error) jobs.Failure {
	f := jobs.Failure{Class: string(transcode.ClassOf(err)), Detail: err.Error()}
	if e, ok := errors.AsType[*transcode.ProgramError](err); ok {
		if !e.Version.IsZero() {
			f.Version = e.Version.String()
		}
		if e.Output != "" {
			f.Detail += "\n" + e.Output
		}
	}
	return f
}

// copyPDB copies the PDB of a key into a new scratch folder, which the caller
// drops, and returns its Ref. The program is given the PDB's own name, not the
// one in the request.
func (w work) copyPDB(ctx context.Context, key SymCacheKey) (sc *transcode.Scratch, ref blob.Ref, err error) {
	f, err := w.svc.openPDB(ctx, key)
	if err != nil {
		return nil, ref, err
	}
	defer f.Close()
	name, _, _ := f.Content()
	if sc, err = w.svc.make.Transcoders.Workspace().New(name); err != nil {
		return nil, ref, err
	}
	if ref, err = writePDB(ctx, f, sc); err != nil {
		sc.Remove()
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
		// The kernel copies, or shares the blocks. With a link, the program could
		// write to the depot.
		n, err := io.Copy(out, &io.LimitedReader{R: f.OSFile(), N: size})
		if err == nil && n != size {
			err = io.ErrUnexpectedEOF
		}
		return content, err
	}
	h := sha256.New()
	err = copyGrowing(ctx, io.MultiWriter(out, h), f)
	if _, broken := errors.AsType[*fetch.BrokenError](err); broken {
		err = jobs.Failure{Class: ClassTransient, Detail: err.Error()}
	}
	return blob.Ref(h.Sum(nil)), err
}

// copyGrowing copies a file that may still be downloading.
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

// Open implements jobs.Kind.
func (w work) Open(ctx context.Context, j jobs.Job) (jobs.File, error) {
	key, _, err := readPayload(j)
	if err != nil {
		return nil, err
	}
	return w.svc.openPDB(ctx, key)
}

// Keep implements jobs.Kind.
func (w work) Keep(ctx context.Context, j jobs.Job, r jobs.Result, body io.Reader) (jobs.Outcome, error) {
	none, svc := jobs.Outcome{}, w.svc
	key, _, err := readPayload(j)
	if err != nil {
		return none, err
	}
	v, err := symcache.ParseVersion(r.Version)
	if err != nil || int(v.Major) != j.Variant || r.Size == 0 || r.Size > svc.make.MaxResult {
		return none, fmt.Errorf("%w: version %q, %d bytes", jobs.ErrBadResult, r.Version, r.Size)
	}
	c, err := w.keep(ctx, key, v, r.Size, &r.SHA256, body)
	if errors.Is(err, blob.ErrMismatch) {
		return none, fmt.Errorf("%w: %w", jobs.ErrBadResult, err)
	}
	if f, ok := errors.AsType[jobs.Failure](err); ok {
		return none, fmt.Errorf("%w: %s", jobs.ErrBadResult, f.Detail)
	}
	if err != nil {
		return none, err
	}
	if h, err := svc.FindPDB(ctx, key); err == nil {
		w.noteDerived(ctx, h.Ref, v, c)
	}
	svc.log.Info("a worker made a SymCache file", "job", j.ID, "pdb", jobKey(key), "version", v.String(),
		"worker", j.Worker, "sha256", c.Ref.String(), "bytes", c.Size)
	return jobs.Outcome{Class: "ok", Detail: r.Detail, Result: &c.Ref}, nil
}

// keep stores a result and enters it into the index. claimed, if not nil, is the
// SHA-256 that the content must have.
func (w work) keep(
	ctx context.Context, key SymCacheKey, v symcache.Version, size int64, claimed *blob.Ref, r io.Reader,
) (record.Content, error) {
	none := record.Content{}
	batch, err := w.svc.blobs.Begin(ctx)
	if err != nil {
		return none, err
	}
	defer batch.Abort()
	bad := func(class transcode.Class, detail string) error {
		return jobs.Failure{Class: string(class), Version: v.String(), Detail: detail}
	}
	limit := &io.LimitedReader{R: r, N: w.svc.make.MaxResult + 1}
	peek := bufio.NewReaderSize(limit, 64<<10)
	if head, _ := peek.Peek(symcache.SniffLen); len(head) > 0 {
		if err := symcache.Detect(head); err != nil {
			return none, bad(transcode.ClassBadOutput, "the result is not a SymCache file: "+err.Error())
		}
	}
	ref, n, err := batch.Put(ctx, size, peek)
	switch {
	case err != nil:
		return none, err
	case limit.N <= 0:
		return none, bad(transcode.ClassTooLarge, "the result is larger than the limit")
	case n == 0:
		return none, bad(transcode.ClassBadOutput, "the result is empty")
	case claimed != nil && *claimed != ref:
		return none, fmt.Errorf("%w: SHA-256 %s", blob.ErrMismatch, ref)
	}
	if err := batch.Commit(ctx); err != nil {
		return none, err
	}
	c := record.Content{Ref: ref, Size: n}
	return c, w.enterResult(ctx, key, v, c)
}

// enterResult enters a stored result into the index, like a cached file.
func (w work) enterResult(ctx context.Context, key SymCacheKey, v symcache.Version, c record.Content) error {
	svc := w.svc
	b, err := svc.blobs.Open(ctx, c.Ref)
	if err != nil {
		return err
	}
	defer b.Close()
	leaf := key.FileName(v)
	objs, err := objfile.Identify(b, c.Size, key.Name+"/"+key.ID.Breakpad()+"/"+leaf, objfile.Options{})
	if err != nil {
		return jobs.Failure{Class: string(transcode.ClassBadOutput), Version: v.String(), Detail: "the result is " + err.Error()}
	}
	var entries []record.Entry
	for _, o := range objs {
		entries = append(entries,
			record.Entry{Object: o.Object, Features: o.Features.Words(), Ref: c.Ref, Size: c.Size, Aliases: o.Aliases(), Path: leaf})
	}
	err = svc.db.Cached.Put(ctx, contents.CachedFile{
		Source: transcoderSource, Product: Product, Name: leaf, Ref: c.Ref, Size: c.Size, Fetched: svc.now(),
		Entries: entries,
	}, func(ctx context.Context, _ []blob.Ref) error {
		_, err := svc.blobs.Stat(ctx, c.Ref)
		return err
	})
	if err == nil {
		svc.writeStore(ctx, key, v, c)
	}
	return err
}

// noteDerived records that a result was made of a PDB. The same PDB under another
// name then needs no work.
func (w work) noteDerived(ctx context.Context, pdb blob.Ref, v symcache.Version, c record.Content) {
	if v.Pre != "" {
		return // the number is that of the release too
	}
	err := w.svc.db.PutDerived(ctx, pdb, derivedTool(v), &c)
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // the depot does not keep the PDB
		w.svc.log.Warn("cannot record the SymCache file of a PDB", "error", err)
	}
}

// Ended implements jobs.Ender: a PDB that was only downloaded to be transcoded is not
// needed any more when no file can be made of it.
func (w work) Ended(ctx context.Context, j jobs.Job) {
	svc := w.svc
	key, _, err := readPayload(j)
	if err != nil || !svc.make.DropPDBs {
		return
	}
	if err := svc.dropPDB(ctx, key); err != nil && ctx.Err() == nil {
		svc.log.Warn("cannot drop a PDB whose SymCache files are made", "pdb", jobKey(key), "error", err)
	}
}

// dropPDB drops the cached PDB of a key, unless a version can still be made of it.
func (svc *Service) dropPDB(ctx context.Context, key SymCacheKey) error {
	pdb := svc.row(key)
	h, err := pdb.get(ctx)
	if err != nil {
		_, err = found(h, err)
		return err
	}
	if live, err := svc.queue.Live(ctx, Kind, jobKey(key)); err != nil || len(live) > 0 {
		return err
	}
	can := svc.Producible()
	if len(can) == 0 {
		return nil // who made the file has left, and may come back with other versions
	}
	for _, v := range can {
		if held, err := svc.isHeld(ctx, key, v); err != nil {
			return err
		} else if held {
			continue
		}
		if failed, err := found(svc.failure(ctx, pdb, v)); err != nil || !failed {
			return err
		}
	}
	dropped, err := svc.depot.DropCached(ctx, symfile.Fold(key.ID.Breakpad()), h.Ref)
	if dropped {
		svc.log.Info("dropped a downloaded PDB, because its SymCache files are made", "pdb", jobKey(key), "bytes", h.Size)
	}
	return err
}

const day = 24 * time.Hour

// Rule implements jobs.Kind.
func (w work) Rule(class string) jobs.Rule {
	switch transcode.Class(class) {
	case ClassNotFound:
		return jobs.Rule{ByKey: w.svc.make.NotFound}
	case ClassForbidden:
		return jobs.Rule{}
	case ClassTransient:
		return jobs.Rule{Retries: 3, Backoff: []time.Duration{5 * time.Second, 20 * time.Second, 65 * time.Second}}
	case transcode.ClassBadSource:
		return jobs.Rule{ByContent: day, ByKey: day}
	case transcode.ClassTimeout, transcode.ClassMemory, transcode.ClassTooLarge:
		return jobs.Rule{Retries: 1, Backoff: []time.Duration{2 * time.Second}, ByContent: 30 * day, ByKey: day, Versioned: true}
	case transcode.ClassExit, transcode.ClassNoOutput, transcode.ClassBadOutput:
		return jobs.Rule{
			Retries: 1, Backoff: []time.Duration{2 * time.Second}, NeedsOther: true, ByContent: 30 * day, ByKey: day,
			Versioned: true,
		}
	}
	return jobs.Rule{Retries: 8, Backoff: []time.Duration{5 * time.Second, 15 * time.Second, 45 * time.Second}}
}
