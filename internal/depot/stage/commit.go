package stage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"os"
	"slices"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// MaxNeeds is the number of transactions that a commit can name as needed.
const MaxNeeds = 100

// Commit makes all files of a stage visible together, as one transaction, and
// ends the stage. A repeated call has the same outcome. If contents are missing,
// the Refusal names them and the stage stays open.
func (s *Stages) Commit(ctx context.Context, c Caller, id string, ask Commit) (Committed, error) {
	if err := s.mayNeed(ctx, c, id, ask.Needs); err != nil {
		return Committed{}, err
	}
	for attempt := 1; ; attempt++ {
		row, err := s.row(ctx, c, id)
		if err != nil {
			return Committed{}, err
		}
		if !row.Closed.IsZero() {
			done, err := committed(row, ask)
			if err == nil && len(ask.Needs) > 0 {
				err = s.db.SetNeeds(ctx, row.Number, ask.Needs)
			}
			if err == nil {
				err = s.confirm(ctx, row.Number, ask.Accepted)
			}
			return done, s.explain(ctx, err, id)
		}
		if row.Collects {
			return Committed{}, refuse(Conflict, "the files of this stage are visible already; it ends by itself")
		}
		done, err := s.commit(ctx, row, ask)
		switch {
		case err == nil:
			s.dropSpool(id)
			if err := s.db.Clear(context.WithoutCancel(ctx), id); err != nil {
				s.log.Warn("cannot delete the rows of a committed stage; the next sweep does", "stage", id, "error", err)
			}
			return done, nil
		case errors.Is(err, stages.ErrStageClosed) && attempt < 5 && ctx.Err() == nil:
			continue // another call has committed it, or it has received files
		}
		return Committed{}, s.explain(ctx, err, id)
	}
}

// mayNeed refuses a commit that needs transactions which the caller may not
// protect from removal: those of products to which it may not write, and of other
// classes than its own.
func (s *Stages) mayNeed(ctx context.Context, c Caller, id string, needs []int64) error {
	if len(needs) == 0 {
		return nil
	}
	if _, err := s.row(ctx, c, id); err != nil {
		return err
	}
	if len(needs) > MaxNeeds {
		return refuse(Invalid, "the push needs %d builds, and the limit is %d", len(needs), MaxNeeds)
	}
	for _, n := range needs {
		product, class, err := s.db.LabelsOf(ctx, n)
		if err != nil && !isNotExist(err) {
			return err
		}
		switch {
		case err != nil || !c.Read(product) && !c.Write(product):
			return noSuchNeed(n)
		case !c.Write(product):
			return refuse(Forbidden, "%s may not keep build %d, because it may not add files to product %q", c.Name, n, product)
		case c.Class != "" && c.Class != class:
			return wrongClass(c)
		}
	}
	return nil
}

// committed returns the outcome of an earlier commit.
func committed(row stages.StageRow, ask Commit) (done Committed, err error) {
	if ask.Manifest != "" && ask.Manifest != row.Manifest.String() {
		return done, refuse(Conflict, "the stage was committed as build %d, with other files; open a new one", row.Number)
	}
	err = json.Unmarshal([]byte(row.Result), &done)
	return done, err
}

// contents lists the contents of a stage.
type contents struct {
	manifest blob.Ref
	files    int64
	out      Committed
	entries  []record.Entry
	staged   map[blob.Ref]int64 // contents that arrived, by size
}

// read reads the files of a stage.
func (s *Stages) read(ctx context.Context, row stages.StageRow) (k contents, err error) {
	k.staged = map[blob.Ref]int64{}
	k.out.Refused = []Refused{}
	sum := sha256.New()
	// The order of the rows is that of the lines: contents have one size.
	if err := s.db.Files(ctx, row.ID, func(f stages.StageFile) error {
		k.files++
		_, _ = sum.Write([]byte(manifestLine(f.Ref, f.Size, f.Path))) // never fails
		switch f.State {
		case stages.StageAwaited:
			return nil
		case stages.StageRefused:
			if len(k.out.Refused) < maxMissing {
				k.out.Refused = append(k.out.Refused, Refused{f.Path, f.Reason})
			}
			return nil
		case stages.StageKnown:
			k.out.KnownBytes += f.Size
		case stages.StageArrived:
			k.out.NewBytes += f.Size
		}
		k.out.Files++
		facts, err := parseFacts(f.Facts)
		if err != nil {
			return err
		}
		list, err := entriesFrom(f, facts)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(facts, func(k fact) bool { return k.Other }) {
			k.out.Other++
		}
		for i := range facts {
			for _, note := range facts[i].Flags {
				if len(k.out.Flags) < maxMissing {
					k.out.Flags = append(k.out.Flags, Flag{f.Path, note})
				}
			}
		}
		for _, e := range list {
			if f.State == stages.StageArrived {
				k.staged[e.Ref] = e.Size
			}
		}
		k.entries = append(k.entries, list...)
		return nil
	}); err != nil {
		return k, err
	}
	k.manifest = blob.Ref(sum.Sum(nil))
	sorting.Stable(k.entries, func(a, b record.Entry) int { return cmp.Compare(a.Path, b.Path) })
	return k, nil
}

func (s *Stages) commit(ctx context.Context, row stages.StageRow, ask Commit) (Committed, error) {
	missing, err := s.db.Missing(ctx, row.ID, maxMissing)
	if err != nil {
		return Committed{}, err
	}
	k, err := s.read(ctx, row)
	if err != nil {
		return Committed{}, err
	}
	switch {
	case ask.Files != 0 && ask.Files != k.files:
		return Committed{}, refuse(Conflict, "the stage has %d files, not %d: check the others first", k.files, ask.Files)
	case ask.Manifest != "" && ask.Manifest != k.manifest.String():
		return Committed{}, refuse(Conflict, "the stage has other files than the manifest: its own is %s", k.manifest)
	case len(missing) > 0:
		return Committed{}, missingRefusal(missing)
	case len(k.out.Refused) > 0 && !ask.Partial:
		r := k.out.Refused[0]
		return Committed{}, refuse(NotSymbol, "%d files were refused; the first is %s: %s", k.files-k.out.Files, r.Path, r.Reason)
	case len(k.entries) == 0:
		return Committed{}, refuse(Invalid, "the stage has no file to commit")
	}
	tx := s.transaction(row)
	tx.Entries, tx.Manifest = k.entries, k.manifest
	result := func(number int64, again bool) string {
		out := k.out
		out.Transaction, out.Again = number, again
		b, err := json.Marshal(out)
		if err != nil {
			return "{}" // impossible
		}
		return string(b)
	}
	tx.Stage = &record.StageCommit{
		ID: row.ID, Changes: row.Changes, Anew: ask.Anew, Needs: ask.Needs, Quota: s.limits.Quotas[row.Product],
		Result: result,
	}
	// What was sent is stored also if there is an equal transaction: its contents may be lost.
	accepted, err := entriesOf(ask.Accepted)
	if err != nil {
		return Committed{}, err
	}
	number, err := s.publish(ctx, row, tx, k.staged, accepted)
	if err != nil {
		return Committed{}, err
	}
	k.out.Transaction, k.out.Again = number, tx.Stage.Again
	return k.out, nil
}

// confirm looks up files of a transaction that was committed before.
func (s *Stages) confirm(ctx context.Context, number int64, accepted []Receipt) error {
	entries, err := entriesOf(accepted)
	if err != nil || len(entries) == 0 {
		return err
	}
	return s.depot.Confirm(ctx, number, entries)
}

// transaction returns the transaction of a stage without its files.
func (s *Stages) transaction(row stages.StageRow) record.Tx {
	return record.Tx{Kind: "add", Product: row.Product, Version: row.Version, Comment: row.Comment, Branch: row.Branch, Class: row.Class,
		Build: row.Build, Who: row.Caller, Time: s.now()}
}

// publish commits a transaction of a stage, which must have the accepted files. Contents that are not there any more
// are awaited again, and the error is a Refusal that names them.
func (s *Stages) publish(
	ctx context.Context, row stages.StageRow, tx record.Tx, staged map[blob.Ref]int64, accepted []record.Entry,
) (int64, error) {
	var files []File
	var lost []blob.Ref
	if !s.depot.InBucket() {
		for ref, size := range staged {
			path := s.spool.path(row.ID, ref)
			info, err := os.Stat(path)
			switch {
			case isNotExist(err):
				files = append(files, File{Content: record.Content{Ref: ref, Size: size}})
			case err != nil:
				return 0, err
			default:
				intact, err := s.spool.intact(ctx, row.ID, ref, size, info)
				if err != nil && !isNotExist(err) { // a commit of the same bytes may have removed it meanwhile
					return 0, err
				}
				if !intact && err == nil {
					lost = append(lost, ref)
				}
				files = append(files, File{record.Content{Ref: ref, Size: size}, path})
			}
		}
	}
	var number int64
	var err error
	if len(lost) == 0 {
		number, err = s.depot.Commit(ctx, tx, files, accepted)
	}
	if m, ok := errors.AsType[*MissingError](err); ok {
		lost, err = m.Refs, nil
	}
	if q, ok := errors.AsType[*stages.QuotaError](err); ok {
		return 0, overQuota(row.Product, q.Used, q.Quota)
	}
	if err != nil || len(lost) == 0 {
		return number, err
	}
	return 0, s.lose(ctx, row, lost)
}

// lose marks the files of contents that are not there any more as awaited.
func (s *Stages) lose(ctx context.Context, row stages.StageRow, objects []blob.Ref) error {
	gone := make(map[blob.Ref]bool, len(objects))
	for _, r := range objects {
		gone[r] = true
	}
	var awaited []stages.StageKey
	refs := map[blob.Ref]bool{}
	if err := s.db.Files(ctx, row.ID, func(f stages.StageFile) error {
		if f.State != stages.StageArrived && f.State != stages.StageKnown {
			return nil
		}
		list, err := entries(f)
		if err != nil {
			return err
		}
		for _, e := range list {
			if gone[e.Ref] {
				awaited, refs[f.Ref] = append(awaited, f.Key()), true
				break
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if err := s.db.Forget(ctx, row.ID, objects); err != nil {
		return err
	}
	if err := s.db.AwaitFiles(ctx, row.ID, awaited); err != nil {
		return err
	}
	for _, r := range objects {
		_ = os.Remove(s.spool.path(row.ID, r)) // if it is damaged
	}
	var list []blob.Ref
	for r := range refs {
		list = append(list, r)
	}
	if len(list) == 0 {
		return refuse(Busy, "the files of the stage have changed meanwhile; commit again")
	}
	sorting.By(list, func(a, b blob.Ref) int { return slices.Compare(a[:], b[:]) })
	return missingRefusal(list[:min(len(list), maxMissing)])
}

// collect makes files of a stage that collects visible, and returns the number of
// their transaction.
func (s *Stages) collect(ctx context.Context, row stages.StageRow, files []stages.StageFile) (int64, error) {
	tx := s.transaction(row)
	staged := map[blob.Ref]int64{}
	for _, f := range files {
		if f.State == stages.StageRefused {
			continue
		}
		list, err := entries(f)
		if err != nil {
			return 0, err
		}
		for _, e := range list {
			if f.State == stages.StageArrived {
				staged[e.Ref] = e.Size
			}
		}
		tx.Entries = append(tx.Entries, list...)
	}
	if len(tx.Entries) == 0 {
		return 0, nil
	}
	tx.Stage = &record.StageCommit{ID: row.ID, Collect: true, Quota: s.limits.Quotas[row.Product]}
	number, err := s.publish(ctx, row, tx, staged, nil)
	if err != nil {
		return 0, s.explain(ctx, err, row.ID)
	}
	return number, s.collected(ctx, row, staged)
}
