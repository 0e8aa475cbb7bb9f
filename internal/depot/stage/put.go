package stage

import (
	"context" //nolint:gosec // an id of a protocol
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// partSuffix ends the names of contents of which not all parts have arrived.
const partSuffix = ".part"

// Put receives a whole content: plain bytes. had is true if the stage needs it no
// more; the body is then not read. Otherwise the content was new to the stage,
// whether or not the depot had it.
func (s *Stages) Put(ctx context.Context, c Caller, id string, ref blob.Ref, body io.Reader) (had bool, err error) {
	row, files, err := s.awaited(ctx, c, id, ref)
	if err != nil || len(files) == 0 {
		return err == nil, err
	}
	size := files[0].Size
	end, err := s.spool.begin(ctx, row, size)
	if err != nil {
		return false, err
	}
	defer end()
	t, err := s.spool.receive(ctx, id, size, body)
	if err != nil {
		return false, s.explain(ctx, err, id)
	}
	defer t.remove()
	if t.ref != ref {
		return false, wrongContent(t.ref, ref)
	}
	files, err = s.arrive(ctx, row, record.Content{Ref: ref, Size: size}, files, t)
	if err != nil {
		return false, s.explain(ctx, err, id)
	}
	if err := refusedAll(files); err != nil || !row.Collects {
		return false, err
	}
	_, err = s.collect(ctx, row, files)
	return false, err
}

// refusedAll returns the Refusal if all files of a content were refused.
func refusedAll(files []stages.StageFile) error {
	for _, f := range files {
		if f.State != stages.StageRefused {
			return nil
		}
	}
	return refuse(NotSymbol, "%s: %s", files[0].Path, files[0].Reason)
}

// awaited returns an open stage and those of its files that await a content. If
// the stage has none with the content, that is a Conflict; if all are refused,
// NotSymbol.
func (s *Stages) awaited(ctx context.Context, c Caller, id string, ref blob.Ref) (stages.StageRow, []stages.StageFile, error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return row, nil, err
	}
	all, err := s.db.FilesOf(ctx, id, []blob.Ref{ref})
	if err != nil {
		return row, nil, err
	}
	if len(all) == 0 {
		return row, nil, noSuchContent(ref)
	}
	list := awaitedOf(all)
	if len(list) == 0 {
		return row, nil, refusedAll(all)
	}
	return row, list, nil
}

// awaitedOf returns those of some files whose content has not arrived.
func awaitedOf(files []stages.StageFile) (list []stages.StageFile) {
	for _, f := range files {
		if f.State == stages.StageAwaited {
			list = append(list, f)
		}
	}
	return list
}

// slice is a part of a file, or an inflated piece of it.
type slice struct{ offset, size, deflated int64 }

// arrive handles a content that is complete in a file: it keeps and records it. It
// returns the files with their new states. The file may get another name.
func (s *Stages) arrive(
	ctx context.Context, row stages.StageRow, c record.Content, files []stages.StageFile, t *temp,
) ([]stages.StageFile, error) {
	arrival, known, err := s.keep(ctx, row, c, files, t)
	if err != nil {
		return nil, err
	}
	if err := s.db.PutKnown(ctx, known); err != nil {
		return nil, err
	}
	return files, s.marks.put(ctx, arrival)
}

// keep identifies a content that is complete in a file under the name of each of the files that
// await it, and keeps its objects. It gives the files their new states, and returns what is to be
// recorded. The file may get another name.
func (s *Stages) keep(
	ctx context.Context, row stages.StageRow, c record.Content, files []stages.StageFile, t *temp,
) (arrival stages.StageArrival, known []stages.KnownFile, err error) {
	f, done, err := t.open()
	if err != nil {
		return arrival, nil, err
	}
	defer done()
	type claim struct{ name, kind, id string }
	type answer struct {
		facts, reason string
	}
	answers := map[claim]answer{}
	kept := map[slice]record.Content{}
	for i := range files {
		k := claim{symfile.BaseName(files[i].Path), files[i].Kind, files[i].ID}
		a, ok := answers[k]
		if !ok {
			facts, reason, err := s.identify(ctx, row, f, c, files[i], kept)
			if err != nil {
				return arrival, nil, err
			}
			a.reason = reason
			if reason == "" {
				if a.facts, err = formatFacts(facts); err != nil {
					return arrival, nil, err
				}
				if k.kind == "" && !isSimple(facts, c.Ref, k.name) {
					for j := range facts {
						facts[j].Other = false // that is of this product
					}
					text, err := formatFacts(facts)
					if err != nil {
						return arrival, nil, err
					}
					known = append(known, stages.KnownFile{Content: c, Name: symfile.Fold(k.name), Facts: text})
				}
			}
			answers[k] = a
		}
		files[i].Facts, files[i].Reason, files[i].State = a.facts, a.reason, stages.StageArrived
		if a.reason != "" {
			files[i].State = stages.StageRefused
		}
	}
	arrival = stages.StageArrival{Stage: row.ID, Content: c, Files: files}
	for where, o := range kept {
		arrival.Objects = append(arrival.Objects, o)
		if where != (slice{0, c.Size, 0}) {
			continue
		}
		if s.depot.InBucket() {
			err = s.depot.Place(ctx, c, io.NewSectionReader(f, 0, c.Size))
		} else {
			err = rename(t.path, s.spool.path(row.ID, c.Ref))
		}
		if err != nil {
			return arrival, nil, err
		}
	}
	return arrival, known, nil
}

// identify returns the objects of a file. Those that are not the whole file are
// kept as contents of their own; kept has all contents that the stage keeps.
func (s *Stages) identify(
	ctx context.Context, row stages.StageRow, f io.ReaderAt, c record.Content, file stages.StageFile,
	kept map[slice]record.Content,
) (facts []fact, reason string, err error) {
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
				if content, err = s.spool.keepObject(ctx, row.ID, f, c.Size, o); err != nil {
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
func (s *Stages) PutClaimed(
	ctx context.Context, c Caller, id string, e Entry, body io.Reader, check func(Arrived) error,
) (a Arrived, err error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return a, err
	}
	if err := s.mayArrive(e); err != nil {
		return a, err
	}
	end, err := s.spool.begin(ctx, row, max(e.Size, 0))
	if err != nil {
		return a, err
	}
	defer end()
	t, err := s.spool.receive(ctx, id, -1, body)
	if err != nil {
		return a, s.explain(ctx, err, id)
	}
	defer t.remove()
	a.Content, a.SHA1 = record.Content{Ref: t.ref, Size: t.size}, t.sha1
	if e.Size >= 0 && t.size != e.Size {
		return a, refuse(WrongHash, "%s has %d bytes instead of the announced %d", e.Path, t.size, e.Size)
	}
	if t.size == 0 {
		return a, refuse(NotSymbol, "%s: an empty file has no symbols", e.Path)
	}
	file := stages.StageFile{Path: e.Path, Content: a.Content, ModTime: e.ModTime, Kind: e.As, ID: e.ID}
	if err := s.quota(ctx, row, []stages.StageFile{file}); err != nil {
		return a, err
	}
	// The file must be in the stage before its content arrives, and must not be if
	// it is refused.
	if err := s.describe(ctx, c, row, file, t.path, &a); err != nil {
		return a, err
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
	if err := s.db.PutFiles(ctx, id, []stages.StageFile{file}, stages.StagePut{Most: s.limits.most()}); err != nil {
		return a, s.explain(ctx, err, id)
	}
	files, err := s.arrive(ctx, row, a.Content, []stages.StageFile{file}, t)
	if err != nil {
		return a, s.explain(ctx, err, id)
	}
	if err := refusedAll(files); err != nil {
		return a, err // another request has brought other bytes of its id meanwhile
	}
	a.Receipt = receiptOf(files[0])
	if note := a.OtherNote(); note != "" {
		s.log.Warn(note, "path", e.Path, "product", row.Product, "version", row.Version, "stage", id, "caller", row.Caller)
	}
	if row.Collects {
		a.Transaction, err = s.collect(ctx, row, files)
	}
	return a, err
}

// mayArrive refuses a file for what the client says of it.
func (s *Stages) mayArrive(e Entry) error {
	probe := e
	probe.Size, probe.Ref = 1, blob.Ref{}
	if err := s.limits.validEntry(probe); err != nil {
		return err
	}
	if reason := unwanted(probe); reason != "" {
		return refuse(NotSymbol, "%s: %s", e.Path, reason)
	}
	if e.Size > s.limits.MaxFile {
		return refuse(TooLarge, "%s has %d bytes, and the limit for a file is %d", e.Path, e.Size, s.limits.MaxFile)
	}
	return nil
}

// describe fills in which objects a file that has arrived has, and whether the product and
// the caller had them. A file without objects is refused.
func (s *Stages) describe(ctx context.Context, c Caller, row stages.StageRow, file stages.StageFile, path string, a *Arrived) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	facts, reason, err := s.identify(ctx, row, f, a.Content, file, map[slice]record.Content{})
	if err != nil {
		return s.explain(ctx, err, row.ID)
	}
	if reason != "" {
		return refuse(NotSymbol, "%s: %s", file.Path, strings.TrimSpace(reason))
	}
	h, err := s.look(ctx, c, row, factRefs(facts))
	if err != nil {
		return err
	}
	a.Had = true
	for _, k := range facts {
		a.Objects = append(a.Objects, k.Object)
		o, err := k.content()
		a.Other = a.Other || k.Other
		a.Had = a.Had && err == nil && len(h.objects[o.Ref]) > 0
	}
	return nil
}

// Refuse records a file that has arrived and is not wanted, with the reason, so that only a
// partial commit succeeds. Its bytes are not kept. Ref and Size of the entry may be zero.
func (s *Stages) Refuse(ctx context.Context, c Caller, id string, e Entry, reason string) error {
	if _, err := s.open(ctx, c, id); err != nil {
		return err
	}
	probe := e
	probe.Size, probe.Ref = 1, blob.Ref{}
	if err := s.limits.validEntry(probe); err != nil {
		return err
	}
	file := stages.StageFile{
		Path: e.Path, Content: record.Content{Ref: e.Ref, Size: e.Size}, ModTime: e.ModTime, State: stages.StageRefused,
		Reason: reason,
	}
	return s.explain(ctx, s.db.PutFiles(ctx, id, []stages.StageFile{file}, stages.StagePut{Most: s.limits.most()}), id)
}

// Refused lists the files of an open stage that were refused, the first 1,000.
func (s *Stages) Refused(ctx context.Context, c Caller, id string) ([]Refused, error) {
	if _, err := s.row(ctx, c, id); err != nil {
		return nil, err
	}
	var list []Refused
	err := s.db.Files(ctx, id, func(f stages.StageFile) error {
		if f.State == stages.StageRefused && len(list) < maxMissing {
			list = append(list, Refused{f.Path, f.Reason})
		}
		return nil
	})
	return list, err
}
