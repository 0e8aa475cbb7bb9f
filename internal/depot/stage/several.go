package stage

import (
	"context"
	"errors"
	"io"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// Limits of PutSeveral.
const (
	MaxSeveral      = 64       // contents
	MaxSeveralBytes = 16 << 20 // the sum of their sizes
)

// PutSeveral receives several whole contents: the plain bytes of one after the other. Of the entries
// only Ref and Size count. The answer to each is Have: it has arrived, now or before; Refuse: none of
// its files is wanted; or Send: it has arrived damaged. An error concerns all of them; those in
// front of it may have arrived.
func (s *Stages) PutSeveral(ctx context.Context, c Caller, id string, list []Entry, body io.Reader) ([]Verdict, error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return nil, err
	}
	r := several{s: s, row: row, body: body}
	files, awaited, err := r.files(ctx, list)
	if err != nil {
		return nil, err
	}
	end, err := s.spool.begin(ctx, row, awaited)
	if err != nil {
		return nil, err
	}
	defer end()
	verdicts := make([]Verdict, len(list))
	for i, e := range list {
		if verdicts[i], err = r.next(ctx, record.Content{Ref: e.Ref, Size: e.Size}, files[e.Ref]); err != nil {
			break
		}
	}
	if err == nil {
		err = r.ended()
	}
	// What has arrived in front of a failure need not be sent again.
	if recorded := r.record(context.WithoutCancel(ctx)); err == nil {
		err = recorded
	}
	if err != nil {
		return nil, s.explain(ctx, err, id)
	}
	return verdicts, nil
}

// several receives the contents of one request, and records them together.
type several struct {
	s        *Stages
	row      stages.StageRow
	body     io.Reader
	arrivals []stages.StageArrival
	known    []stages.KnownFile
}

// files returns the files of the stage that have one of some contents, and the bytes of the
// contents that are awaited. All of them must be contents of the stage.
func (r *several) files(ctx context.Context, list []Entry) (files map[blob.Ref][]stages.StageFile, awaited int64, err error) {
	if r.row.Collects {
		return nil, 0, refuse(Conflict, "the files of this stage come one by one")
	}
	refs, sum := make([]blob.Ref, len(list)), int64(0)
	sizes := make(map[blob.Ref]int64, len(list))
	for i, k := range list {
		if _, twice := sizes[k.Ref]; twice {
			return nil, 0, refuse(Invalid, "the content %s is listed twice", k.Ref)
		}
		if k.Size < 0 || k.Size > MaxSeveralBytes-sum || i == MaxSeveral {
			return nil, 0, refuse(TooLarge, "one request has %d contents of %d bytes together at most", MaxSeveral, MaxSeveralBytes)
		}
		refs[i], sizes[k.Ref] = k.Ref, k.Size
		sum += k.Size
	}
	all, err := r.s.db.FilesOf(ctx, r.row.ID, refs)
	if err != nil {
		return nil, 0, err
	}
	files = make(map[blob.Ref][]stages.StageFile, len(list))
	for _, f := range all {
		if f.Size != sizes[f.Ref] {
			return nil, 0, refuse(Invalid, "the content %s was announced with %d bytes, not %d", f.Ref, f.Size, sizes[f.Ref])
		}
		files[f.Ref] = append(files[f.Ref], f)
	}
	for _, k := range list {
		if len(files[k.Ref]) == 0 {
			return nil, 0, noSuchContent(k.Ref)
		}
		if len(awaitedOf(files[k.Ref])) > 0 {
			awaited += k.Size
		}
	}
	return files, awaited, nil
}

// next receives the next content, of which the stage has these files.
func (r *several) next(ctx context.Context, c record.Content, files []stages.StageFile) (Verdict, error) {
	body := io.LimitReader(r.body, c.Size)
	wanted := awaitedOf(files)
	if len(wanted) == 0 {
		if n, err := r.s.spool.copy(ctx, r.row.ID, io.Discard, body); err != nil {
			return Verdict{}, err
		} else if n != c.Size {
			return Verdict{}, refuse(WrongHash, "the body ends within the content %s", c.Ref)
		}
		return verdictOf(files), nil
	}
	t, err := r.s.spool.receive(ctx, r.row.ID, c.Size, body)
	if err != nil {
		return Verdict{}, err
	}
	defer t.remove()
	if t.ref != c.Ref {
		return Verdict{Answer: Send, Reason: wrongContent(t.ref, c.Ref).Text}, nil
	}
	arrival, known, err := r.s.keep(ctx, r.row, c, wanted, t)
	if err != nil {
		return Verdict{}, err
	}
	r.arrivals, r.known = append(r.arrivals, arrival), append(r.known, known...)
	return verdictOf(wanted), nil
}

// ended refuses a body with more bytes than the contents have.
func (r *several) ended() error {
	var more [1]byte
	_, err := io.ReadFull(r.body, more[:])
	switch err {
	case nil:
		return refuse(Invalid, "the body has more bytes than the contents of its list")
	case io.EOF:
		return nil
	}
	return err
}

// record records what has arrived.
func (r *several) record(ctx context.Context) error {
	if err := r.s.db.PutKnown(ctx, r.known); err != nil {
		return err
	}
	return r.s.db.Arrive(ctx, r.arrivals)
}

// verdictOf answers a content that the stage does not await.
func verdictOf(files []stages.StageFile) Verdict {
	if r, ok := errors.AsType[*Refusal](refusedAll(files)); ok {
		return Verdict{Answer: Refuse, Reason: r.Text}
	}
	return Verdict{Answer: Have}
}
