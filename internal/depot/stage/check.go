package stage

import (
	"context"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// emptyRef is the hash of an empty file.
var emptyRef = blob.Sum(nil)

// Check records files of a stage and returns a verdict on each, in order. A path
// that was checked before gets the new content, unless several clients add files to
// the stage: then both stay. The answer is Have only for contents that the caller may
// read, or that it has sent to this stage: whoever knows a hash could otherwise get at
// the bytes.
func (s *Stages) Check(ctx context.Context, c Caller, id string, list []Entry) ([]Verdict, error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return nil, err
	}
	if len(list) > s.limits.CheckBatch {
		return nil, refuse(Invalid, "%d files in one check, and the limit is %d", len(list), s.limits.CheckBatch)
	}
	if len(list) == 0 {
		return []Verdict{}, nil
	}
	files, err := s.examine(ctx, c, row, list)
	if err != nil {
		return nil, err
	}
	if err := s.quota(ctx, row, files); err != nil {
		return nil, err
	}
	if err := s.db.PutFiles(ctx, id, files, stages.StagePut{Most: s.limits.most(), Replace: !row.Joins}); err != nil {
		return nil, s.explain(ctx, err, id)
	}
	bases, err := s.Bases.propose(ctx, c, row, files)
	if err != nil {
		return nil, err
	}
	verdicts := make([]Verdict, len(files))
	var known []stages.StageFile
	for i, f := range files {
		switch f.State {
		case stages.StageAwaited:
			verdicts[i] = Verdict{Answer: Send, Base: bases[i]}
		case stages.StageRefused:
			verdicts[i] = Verdict{Answer: Refuse, Reason: f.Reason}
		default:
			verdicts[i].Answer = Have
			known = append(known, f)
		}
	}
	if row.Collects && len(known) > 0 {
		if _, err := s.collect(ctx, row, known); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}

// Enter adds a file to a stage whose content the depot has and the caller may read, so
// that it does not go with the build that brought it first. Other files of its path
// stay. If entered is false, nothing was recorded, and the content must be sent.
func (s *Stages) Enter(ctx context.Context, c Caller, id string, e Entry) (r Receipt, entered bool, err error) {
	row, err := s.open(ctx, c, id)
	if err != nil {
		return r, false, err
	}
	files, err := s.examine(ctx, c, row, []Entry{e})
	if err != nil || files[0].State == stages.StageAwaited || files[0].State == stages.StageRefused {
		return r, false, err
	}
	if err := s.db.PutFiles(ctx, id, files, stages.StagePut{Most: s.limits.most()}); err != nil {
		return r, false, s.explain(ctx, err, id)
	}
	if row.Collects {
		_, err = s.collect(ctx, row, files)
	}
	return receiptOf(files[0]), err == nil, err
}

// examine returns the files of a Check with their states.
func (s *Stages) examine(ctx context.Context, c Caller, row stages.StageRow, list []Entry) ([]stages.StageFile, error) {
	sizes := make(map[blob.Ref]int64, len(list))
	refs := make([]blob.Ref, 0, len(list))
	paths := make(map[string]blob.Ref, len(list))
	for _, e := range list {
		if err := s.limits.validEntry(e); err != nil {
			return nil, err
		}
		if ref, twice := paths[e.Path]; twice && ref != e.Ref {
			return nil, refuse(Invalid, "%s has two different contents in one check", e.Path)
		}
		paths[e.Path] = e.Ref
		size, ok := sizes[e.Ref]
		if !ok {
			sizes[e.Ref] = e.Size
			refs = append(refs, e.Ref)
		} else if size != e.Size {
			return nil, refuse(Invalid, "%s: content %s has %d bytes here and %d bytes under another path", e.Path, e.Ref, e.Size, size)
		}
	}
	h, err := s.look(ctx, c, row, refs)
	if err != nil {
		return nil, err
	}
	if len(h.lost) > 0 {
		if err := s.db.AwaitFiles(ctx, row.ID, h.lost); err != nil {
			return nil, err
		}
	}
	files := make([]stages.StageFile, len(list))
	for i, e := range list {
		f := stages.StageFile{Path: e.Path, Content: record.Content{Ref: e.Ref, Size: e.Size}, ModTime: e.ModTime, Kind: e.As, ID: e.ID}
		if reason := unwanted(e); reason != "" {
			f.State, f.Reason = stages.StageRefused, reason
		} else if err := s.find(ctx, h, row.Product, &f); err != nil {
			return nil, err
		}
		files[i] = f
	}
	return files, nil
}

// validEntry refuses entries that no client may send.
func (l Limits) validEntry(e Entry) error {
	switch {
	case len(e.Path) > maxPath || !fs.ValidPath(e.Path) || e.Path == "." || !utf8.ValidString(e.Path) ||
		strings.ContainsFunc(e.Path, func(r rune) bool { return r < 0x20 || r == 0x7f || r == '\\' }):
		return refuse(Invalid, "path %.200q is not relative with slashes, is longer than %d bytes, or has control characters", e.Path, maxPath)
	case e.Size < 0 || e.Size == 0 != (e.Ref == emptyRef):
		return refuse(Invalid, "%s: %d bytes do not have the hash %s", e.Path, e.Size, e.Ref)
	case e.Size > l.MaxFile:
		return refuse(TooLarge, "%s has %d bytes, and the limit for a file is %d", e.Path, e.Size, l.MaxFile)
	case len(e.As) > maxLabel || len(e.ID) > maxLabel || !utf8.ValidString(e.As+e.ID) || strings.ContainsRune(e.As+e.ID, 0):
		return refuse(Invalid, "%s: the kind or the id is longer than %d bytes or is not UTF-8", e.Path, maxLabel)
	}
	return nil
}

// unwanted returns why a file is refused before its content is known; or "".
func unwanted(e Entry) string {
	if e.Size == 0 {
		return "an empty file has no symbols"
	}
	if !symfile.ValidName(symfile.BaseName(e.Path)) {
		return "its name is longer than 255 bytes"
	}
	kind, err := objfile.ParseForced(e.As)
	if err != nil {
		return err.Error()
	}
	if kind == symfile.JSMap {
		return "a source map needs its script beside it: add it on the server"
	}
	return ""
}
