package stage

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// PutPart receives part n of a content of total bytes. A part that has arrived is
// not read again. With the last missing part the content is complete: then the
// errors are those of Put.
func (s *Stages) PutPart(ctx context.Context, c Caller, id string, ref blob.Ref, total int64, n int, body io.Reader) error {
	row, files, err := s.awaited(ctx, c, id, ref)
	if err != nil || len(files) == 0 {
		return err
	}
	if err := validPart(files[0].Size, total, n, s.parts(files[0].Size)); err != nil {
		return err
	}
	switch node, err := s.owner(ctx, row); {
	case err != nil:
		return err
	case node != "":
		_, err := s.forward(ctx, node, question{Owner: c.ID, Stage: id, Ref: ref.String(), Part: n, Total: total}, body)
		return err
	}
	return s.putPart(ctx, c, id, ref, total, n, body)
}

// validPart refuses a part that a content of size bytes with count parts does not
// have.
func validPart(size, total int64, n, count int) error {
	switch {
	case total != size:
		return refuse(Invalid, "the content was announced with %d bytes, not %d", size, total)
	case n < 0 || n >= count:
		return refuse(Invalid, "part %d of a content with parts 0 to %d", n, count-1)
	}
	return nil
}

// putPart is PutPart on the server that has the parts.
func (s *Stages) putPart(ctx context.Context, c Caller, id string, ref blob.Ref, total int64, n int, body io.Reader) error {
	if _, err := s.here(ctx, c, id); err != nil {
		return err
	}
	row, files, err := s.awaited(ctx, c, id, ref)
	if err != nil || len(files) == 0 {
		return err
	}
	content := record.Content{Ref: ref, Size: files[0].Size}
	count := s.parts(content.Size)
	if err := validPart(content.Size, total, n, count); err != nil {
		return err
	}
	k := partialKey{id, ref}
	p, done := s.partials.use(k)
	defer done()
	p.mu.Lock()
	busy := p.writing[n]
	p.writing[n] = true
	p.mu.Unlock()
	if busy {
		return refuse(Busy, "part %d is being received from another connection", n)
	}
	defer func() {
		p.mu.Lock()
		delete(p.writing, n)
		p.mu.Unlock()
	}()
	got, err := s.received(ctx, k, content)
	if err != nil {
		return s.explain(ctx, err, id)
	}
	if !hasBit(got, n) {
		if len(got) == 0 {
			if err := s.spool.room(ctx, row, content.Size); err != nil {
				return err
			}
		}
		upTo, err := s.writePart(ctx, p, k, content, n, body)
		if err != nil {
			return s.explain(ctx, err, id)
		}
		if got, err = s.db.PutPart(ctx, id, s.node, content, n, count); err != nil {
			return s.explain(ctx, err, id)
		}
		p.advance(upTo, got)
	}
	if !isComplete(got, count) {
		s.follow(ctx, p, k, content, got)
		return nil
	}
	files, err = s.finish(ctx, row, k, p, content, got)
	if err != nil || len(files) == 0 {
		return s.explain(ctx, err, id)
	}
	return refusedAll(files)
}

// Parts returns which parts of a content have arrived. If all have, the content is
// taken.
func (s *Stages) Parts(ctx context.Context, c Caller, id string, ref blob.Ref) (Parts, error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return Parts{}, err
	}
	switch node, err := s.owner(ctx, row); {
	case err != nil:
		return Parts{}, err
	case node != "":
		return s.forward(ctx, node, question{Owner: c.ID, Stage: id, Ref: ref.String(), Part: -1}, strings.NewReader(""))
	}
	return s.localParts(ctx, c, id, ref)
}

// localParts is Parts on the server that has the parts.
func (s *Stages) localParts(ctx context.Context, c Caller, id string, ref blob.Ref) (Parts, error) {
	row, err := s.here(ctx, c, id)
	if err != nil {
		return Parts{}, err
	}
	files, err := s.db.FilesOf(ctx, id, []blob.Ref{ref})
	if err != nil {
		return Parts{}, err
	}
	if len(files) == 0 {
		return Parts{}, refuse(NotFound, "no file of the stage has the content %s: check it first", ref)
	}
	content := record.Content{Ref: ref, Size: files[0].Size}
	list := Parts{Part: s.limits.Part, Length: content.Size}
	awaited := false
	for _, f := range files {
		awaited = awaited || f.State == stages.StageAwaited
	}
	count := s.parts(content.Size)
	k := partialKey{id, ref}
	var got []byte
	if awaited {
		if got, err = s.received(ctx, k, content); err != nil {
			return list, s.explain(ctx, err, id)
		}
		if isComplete(got, count) {
			p, done := s.partials.use(k)
			defer done()
			if _, err := s.finish(ctx, row, k, p, content, got); err != nil {
				return list, s.explain(ctx, err, id)
			}
		}
	}
	list.Got = ranges(count, func(n int) bool { return !awaited || hasBit(got, n) })
	return list, nil
}

// parts returns the number of parts of a content.
func (s *Stages) parts(size int64) int { return int((size + s.limits.Part - 1) / s.limits.Part) }

// received returns the recorded parts of a content, as bits. Those of another
// server, or whose file is missing, do not count.
func (s *Stages) received(ctx context.Context, k partialKey, c record.Content) ([]byte, error) {
	row, err := s.db.Content(ctx, k.stage, c.Ref)
	if isNotExist(err) || err == nil && (row.Whole || row.Node != s.node) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.spool.path(k.stage, c.Ref) + partSuffix); err != nil {
		if !isNotExist(err) {
			return nil, err
		}
		s.partials.forget(k)
		forgotten, err := s.db.ForgetParts(ctx, k.stage, c.Ref, row.Parts)
		if err == nil && !forgotten {
			err = refuse(Busy, "the parts are being accepted, or lost parts are sent again; try again")
		}
		return nil, err
	}
	return row.Parts, nil
}

// writePart writes a part to the file of its content. It returns the hash of all parts up to this
// one, if those in front of it are hashed, otherwise the zero prefix.
func (s *Stages) writePart(
	ctx context.Context, p *partial, k partialKey, c record.Content, n int, body io.Reader,
) (upTo prefix, err error) {
	if err := os.MkdirAll(s.spool.folder(k.stage), 0o700); err != nil {
		return upTo, err
	}
	f, err := os.OpenFile(s.spool.path(k.stage, c.Ref)+partSuffix, os.O_WRONLY|os.O_CREATE, s.spool.perm)
	if err != nil {
		return upTo, err
	}
	off := int64(n) * s.limits.Part
	want := min(s.limits.Part, c.Size-off)
	var to io.Writer = io.NewOffsetWriter(f, off)
	if hashed := p.hashed(); hashed.parts == n {
		upTo = hashed
		to = io.MultiWriter(to, upTo.sum)
	}
	// A byte too much would be written over the next part.
	m, err := s.spool.copy(ctx, k.stage, to, io.LimitReader(body, want))
	if err == nil && m == want {
		var more [1]byte
		var extra int
		if extra, err = io.ReadFull(body, more[:]); err == io.EOF {
			err = nil
		}
		m += int64(extra)
		beginWriting(s.depot, f, off, want)
	}
	err = errors.Join(err, f.Close())
	if err == nil && m != want {
		err = refuse(WrongHash, "part %d has %d bytes or more instead of %d", n, m, want)
		if m < want {
			err = refuse(WrongHash, "part %d has %d bytes instead of %d", n, m, want)
		}
	}
	return upTo, err
}

// maxFollow is how many parts a request hashes besides its own before it is answered.
const maxFollow = 4

// follow hashes parts that came before those in front of them, while others arrive: at the end,
// little is left to hash. One request does so at a time. recorded are the parts that have arrived.
// What fails here fails again at the end, and is told then.
func (s *Stages) follow(ctx context.Context, p *partial, k partialKey, c record.Content, recorded []byte) {
	if !p.hashing.TryLock() {
		return
	}
	defer p.hashing.Unlock()
	p.check(recorded)
	x := p.hashed()
	if !hasBit(recorded, x.parts) {
		return
	}
	f, err := durable.OpenShared(s.spool.path(k.stage, c.Ref) + partSuffix)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // only read
	for range maxFollow {
		off := int64(x.parts) * s.limits.Part
		n := min(s.limits.Part, c.Size-off)
		if got, err := s.spool.copy(ctx, k.stage, x.sum, io.NewSectionReader(f, off, n)); err != nil || got != n || !p.advance(x, recorded) {
			return
		}
		if x = p.hashed(); !hasBit(recorded, x.parts) {
			return
		}
	}
}

// finish accepts a content of which all parts have arrived and are recorded. It returns nil if that
// has happened already.
func (s *Stages) finish(
	ctx context.Context, row stages.StageRow, k partialKey, p *partial, c record.Content, recorded []byte,
) ([]stages.StageFile, error) {
	p.ending.Lock()
	defer p.ending.Unlock()
	p.check(recorded)
	all, err := s.db.FilesOf(ctx, k.stage, []blob.Ref{c.Ref})
	if err != nil {
		return nil, err
	}
	files := awaitedOf(all)
	if len(files) == 0 {
		return nil, nil
	}
	path := s.spool.path(k.stage, c.Ref) + partSuffix
	ref, err := s.hashParts(ctx, p, path, k, c)
	if err != nil {
		return nil, err
	}
	if ref != c.Ref {
		s.partials.forget(k)
		_ = os.Remove(path)
		if _, err := s.db.ForgetParts(ctx, k.stage, c.Ref, recorded); err != nil {
			return nil, err
		}
		return nil, refuse(WrongHash, "the parts together have SHA-256 %s, not %s: send all of them again", ref, c.Ref)
	}
	files, err = s.arrive(ctx, row, c, files, &temp{path: path})
	if err != nil {
		return nil, err
	}
	s.partials.forget(k)
	_ = os.Remove(path) // if it has not become the content
	if row.Collects {
		_, err = s.collect(ctx, row, files)
	}
	return files, err
}

// hashParts returns the hash of a content in a file. It reads only what was not
// hashed on the way.
func (s *Stages) hashParts(ctx context.Context, p *partial, path string, k partialKey, c record.Content) (ref blob.Ref, err error) {
	p.hashing.Lock() // what is being hashed need not be hashed twice
	defer p.hashing.Unlock()
	x := p.hashed()
	off := min(int64(x.parts)*s.limits.Part, c.Size)
	f, err := os.Open(path)
	if isNotExist(err) {
		return ref, refuse(Busy, "the parts together were not the content, and are sent again; try again")
	}
	if err != nil {
		return ref, err
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := s.spool.copy(ctx, k.stage, x.sum, io.NewSectionReader(f, off, c.Size-off)); err != nil {
		return ref, err
	}
	x.sum.Sum(ref[:0])
	return ref, nil
}
