package stages

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// StageContent is a content of a stage.
type StageContent struct {
	record.Content
	Whole bool
	Node  string // which node has the parts
	Parts []byte // a bit for each part that has arrived, the lowest first; then PartsMark
}

// Content returns a content of a stage that has arrived or begun to.
func (ss StageRows) Content(ctx context.Context, id string, ref blob.Ref) (c StageContent, err error) {
	c.Ref = ref
	var state int
	err = ss.db.Points.Row(ctx, "SELECT size, state, node, parts FROM stage_content WHERE stage_id = $1 AND sha256 = $2",
		[]any{id, ref[:]}, &c.Size, &state, &c.Node, &c.Parts)
	c.Whole = state == 1
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return c, ss.db.Fail("look up a content of a stage", err)
}

// StageArrival is a content that has arrived in a stage.
type StageArrival struct {
	Stage string
	record.Content
	// Files have their new State, Reason and Facts. Other ones stay awaited.
	Files []StageFile
	// Objects are the contents that the stage now keeps: the content itself, or
	// those of its objects. Without any, nothing is kept.
	Objects []record.Content
}

var openStages = record.AmongTexts("SELECT id FROM stage WHERE closed IS NULL AND ", "id", "$1")

// openStage is openStages for one id, as it stands: the usual case, in which reading a
// list would take as long as the changes.
const openStage = "SELECT id FROM stage WHERE closed IS NULL AND id = $1"

// Arrive records contents that have arrived. It ignores those of stages that are
// no longer open.
func (ss StageRows) Arrive(ctx context.Context, arrivals []StageArrival) error {
	if len(arrivals) == 0 {
		return nil
	}
	var ids []string
	for _, a := range arrivals {
		ids = append(ids, a.Stage)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	which, arg := openStages, ids[0]
	if len(ids) == 1 {
		which = openStage
	} else if list, err := json.Marshal(ids); err != nil {
		return ss.db.Fail("record arrived contents", err)
	} else {
		arg = string(list)
	}
	return ss.db.UpdateUnsynced(ctx, "record arrived contents", func(w *engine.Write) error {
		open := make(map[string]bool)
		if err := w.Each(which, []any{arg}, func(scan engine.Scan) error {
			var id string
			err := scan(&id)
			open[id] = true
			return err
		}); err != nil {
			return err
		}
		var files, ended, kept [][]any
		for _, a := range arrivals {
			if !open[a.Stage] {
				continue
			}
			for _, f := range a.Files {
				var facts any
				if f.Facts != "" {
					facts = f.Facts
				}
				files = append(files, append(f.Key().columns(a.Stage), int(f.State), f.Reason, facts))
			}
			ended = append(ended, []any{a.Stage, a.Ref[:]})
			for _, o := range a.Objects {
				kept = append(kept, []any{a.Stage, o.Ref[:], o.Size})
			}
		}
		if _, err := w.Many("UPDATE stage_file SET state = $6, reason = $7, facts = $8 WHERE "+isStageFile+" AND state = 0", files); err != nil {
			return err
		}
		staged := make(map[string]int64)
		// The parts of a content that is whole now.
		gone, err := w.Many("DELETE FROM stage_content WHERE stage_id = $1 AND sha256 = $2 AND state = 0", ended)
		if err != nil {
			return err
		}
		i := 0
		for _, a := range arrivals {
			if open[a.Stage] {
				staged[a.Stage] -= gone[i] * a.Size
				i++
			}
		}
		added, err := w.Many("INSERT INTO stage_content (stage_id, sha256, size, state, node) "+
			"VALUES ($1, $2, $3, 1, '') ON CONFLICT (stage_id, sha256) DO NOTHING", kept)
		if err != nil {
			return err
		}
		i = 0
		for _, a := range arrivals {
			if !open[a.Stage] {
				continue
			}
			for _, o := range a.Objects {
				staged[a.Stage] += added[i] * o.Size
				i++
			}
		}
		var sums [][]any
		for id, n := range staged {
			sums = append(sums, []any{id, n, ss.db.Now().UnixMilli()})
		}
		_, err = w.Many("UPDATE stage SET staged = staged + $2, used = $3, changes = changes + 1 WHERE id = $1", sums)
		return err
	})
}

// markSize is the size of PartsMark.
const markSize = 8

// newParts returns the record of parts of which none has arrived.
func newParts(parts int) []byte {
	got := make([]byte, (parts+7)/8+markSize)
	_, _ = rand.Read(got[len(got)-markSize:]) // never fails
	return got
}

// PartsMark returns the mark of the record of parts of a content. It is another one when parts were forgotten and have
// come again.
func PartsMark(got []byte) string { return string(got[max(len(got)-markSize, 0):]) }

// PutPart records a part of a content, with its number from 0, in the spool of a
// node. Parts of another node are forgotten. It returns all recorded parts. If the
// node is not the owner of the stage, the error is ErrStageMoved.
func (ss StageRows) PutPart(ctx context.Context, id, node string, c record.Content, n, parts int) (got []byte, err error) {
	err = ss.db.UpdateUnsynced(ctx, "record a part", func(w *engine.Write) error {
		got = nil
		if _, err := sumOfStage(w, id); err != nil {
			return err
		}
		var size int64
		var state int
		var at string
		if err := w.Row("SELECT node FROM stage WHERE id = $1", []any{id}, &at); err != nil {
			return err
		}
		if at != node {
			return ErrStageMoved
		}
		err := w.Row("SELECT size, state, node, parts FROM stage_content WHERE stage_id = $1 AND sha256 = $2",
			[]any{id, c.Ref[:]}, &size, &state, &at, &got)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			got = newParts(parts)
			if _, err := w.Exec("INSERT INTO stage_content (stage_id, sha256, size, state, node) VALUES ($1, $2, $3, 0, $4)",
				id, c.Ref[:], c.Size, node); err != nil {
				return err
			}
			if _, err := w.Exec("UPDATE stage SET staged = staged + $2 WHERE id = $1", id, c.Size); err != nil {
				return err
			}
		case err != nil:
			return err
		case state != 0:
			got = nil
			return nil // it is whole already
		case at != node || len(got) != (parts+7)/8+markSize:
			got = newParts(parts)
		}
		got[n/8] |= 1 << (n % 8)
		_, err = w.Exec("UPDATE stage_content SET node = $3, parts = $4 WHERE stage_id = $1 AND sha256 = $2", id, c.Ref[:], node, got)
		if err == nil {
			_, err = w.Exec("UPDATE stage SET used = $2 WHERE id = $1", id, ss.db.Now().UnixMilli())
		}
		return err
	})
	return got, err
}

// Forget forgets contents of a stage that have arrived or begun to, because their
// bytes are not there any more: their files are awaited again.
func (ss StageRows) Forget(ctx context.Context, id string, refs []blob.Ref) error {
	return ss.db.UpdateUnsynced(ctx, "forget contents of a stage", func(w *engine.Write) error {
		if _, err := sumOfStage(w, id); err != nil {
			return err
		}
		rows := make([][]any, len(refs))
		for i := range refs {
			rows[i] = []any{id, refs[i][:]}
		}
		if _, err := w.Many("UPDATE stage SET staged = staged - coalesce((SELECT size FROM stage_content "+
			"WHERE stage_id = $1 AND sha256 = $2), 0) WHERE id = $1", rows); err != nil {
			return err
		}
		if _, err := w.Many("DELETE FROM stage_content WHERE stage_id = $1 AND sha256 = $2", rows); err != nil {
			return err
		}
		if _, err := w.Many("UPDATE stage_file SET state = 0, facts = NULL WHERE stage_id = $1 AND sha256 = $2 AND state IN (1, 2)",
			rows); err != nil {
			return err
		}
		_, err := w.Exec("UPDATE stage SET changes = changes + 1 WHERE id = $1", id)
		return err
	})
}

// ForgetParts forgets the parts of a content, because their file is not there or has other bytes. It returns false, and
// changes nothing, if these are not all recorded parts any more: more have come, or the content has arrived.
func (ss StageRows) ForgetParts(ctx context.Context, id string, ref blob.Ref, got []byte) (forgotten bool, err error) {
	err = ss.db.UpdateUnsynced(ctx, "forget parts", func(w *engine.Write) error {
		if _, err := sumOfStage(w, id); err != nil {
			return err
		}
		var size int64
		err := w.Row("DELETE FROM stage_content WHERE stage_id = $1 AND sha256 = $2 AND state = 0 AND parts = $3 RETURNING size",
			[]any{id, ref[:], got}, &size)
		if forgotten = err == nil; errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			_, err = w.Exec("UPDATE stage SET staged = staged - $2, changes = changes + 1 WHERE id = $1", id, size)
		}
		return err
	})
	return forgotten, err
}

// Staged returns the sum of the bytes that all stages keep.
func (ss StageRows) Staged(ctx context.Context) (n int64, err error) {
	err = ss.db.Points.Row(ctx, "SELECT coalesce(sum(staged), 0) FROM stage WHERE staged > 0", nil, &n)
	return n, ss.db.Fail("count staged bytes", err)
}

// KnownFile says which objects a file has that are not simply the whole file.
type KnownFile struct {
	record.Content
	Name  string // folded base name
	Facts string // JSON
}

var knownFiles = record.AmongHashes("SELECT sha256, name, size, facts FROM stage_known WHERE ", "sha256", "$1", "")

// Known returns the known files among contents.
func (ss StageRows) Known(ctx context.Context, refs []blob.Ref) (list []KnownFile, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	err = ss.db.Points.Each(ctx, true, knownFiles, []any{record.HashList(refs)}, func(scan engine.Scan) (bool, error) {
		var k KnownFile
		var sum []byte
		if err := scan(&sum, &k.Name, &k.Size, &k.Facts); err != nil {
			return false, err
		}
		err := record.ScanRef(sum, &k.Ref)
		list = append(list, k)
		return true, err
	})
	return list, ss.db.Fail("look up files", err)
}

// PutKnown records known files, or that they were pushed again.
func (ss StageRows) PutKnown(ctx context.Context, files []KnownFile) error {
	if len(files) == 0 {
		return nil
	}
	now := ss.db.Now().UnixMilli()
	rows := make([][]any, len(files))
	for i, f := range files {
		rows[i] = []any{f.Ref[:], f.Name, f.Size, f.Facts, now}
	}
	return ss.db.UpdateUnsynced(ctx, "record known files", func(w *engine.Write) error {
		_, err := w.Many(`INSERT INTO stage_known (sha256, name, size, facts, used) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (sha256, name) DO UPDATE SET facts = excluded.facts, used = excluded.used`, rows)
		return err
	})
}

// PutSHA1 records the SHA-1 of a file, in hex.
func (ss StageRows) PutSHA1(ctx context.Context, sha1 string, c record.Content) error {
	return ss.db.UpdateUnsynced(ctx, "record a SHA-1", func(w *engine.Write) error {
		_, err := w.Exec(`INSERT INTO stage_sha1 (sha1, sha256, size, used) VALUES ($1, $2, $3, $4)
			ON CONFLICT (sha1) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, used = excluded.used`,
			sha1, c.Ref[:], c.Size, ss.db.Now().UnixMilli())
		return err
	})
}

// BySHA1 returns the file with a SHA-1, in lower-case hex. An unknown one is
// fs.ErrNotExist.
func (ss StageRows) BySHA1(ctx context.Context, sha1 string) (c record.Content, err error) {
	var sum []byte
	err = ss.db.Points.Row(ctx, "SELECT sha256, size FROM stage_sha1 WHERE sha1 = $1", []any{engine.Text(sha1)}, &sum, &c.Size)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = record.ScanRef(sum, &c.Ref)
	}
	return c, ss.db.Fail("look up a SHA-1", err)
}
