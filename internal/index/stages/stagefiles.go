package stages

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// StageState is the state of a file of a stage.
type StageState int

// The states of files. Never renumber them.
const (
	StageAwaited StageState = iota // its content has not arrived
	StageArrived
	StageKnown   // the depot had its content
	StageRefused // its content is not wanted
)

// StageFile is a file of a stage.
type StageFile struct {
	Path string
	record.Content
	ModTime time.Time
	// Kind and ID are claims of the client about the file.
	Kind, ID string
	State    StageState
	Reason   string // of a refusal
	Facts    string // JSON: the objects in the file; empty if they are not known yet
}

const stageFileColumns = "f.path, f.sha256, f.size, f.mtime, f.kind, f.claim, f.state, f.reason, f.facts"

func scanStageFile(scan engine.Scan) (f StageFile, err error) {
	var sum []byte
	var mtime sql.NullInt64
	var facts sql.NullString
	if err := scan(&f.Path, &sum, &f.Size, &mtime, &f.Kind, &f.ID, &f.State, &f.Reason, &facts); err != nil {
		return f, err
	}
	f.ModTime, f.Facts = engine.FromMillis(mtime), facts.String
	return f, record.ScanRef(sum, &f.Ref)
}

var stagedPaths = record.AmongTexts("SELECT path, sha256, size, kind, claim, state FROM stage_file WHERE stage_id = $1 AND ", "path", "$2")

// StageKey is what distinguishes the files of a stage: two contents of one path are two
// files, because uploads of other tools name files by their base names only.
type StageKey struct {
	Path string
	Ref  blob.Ref
	Kind string // as in StageFile
	ID   string
}

// Key returns the key of the file.
func (f StageFile) Key() StageKey { return StageKey{f.Path, f.Ref, f.Kind, f.ID} }

// StagePut says how files are recorded.
type StagePut struct {
	// Most are the files and the bytes that the stage may have.
	Most StageLimitError
	// Replace means that other contents of the same paths go: the client's file has
	// changed since it was recorded.
	Replace bool
}

// PutFiles records files of a stage. A file that the stage has already gets the new
// state, unless its content has arrived there. If the stage would have more files or
// bytes than it may, nothing is recorded and the error is a *StageLimitError.
func (ss StageRows) PutFiles(ctx context.Context, id string, files []StageFile, how StagePut) error {
	paths := make([]string, len(files))
	last := make(map[StageKey]int, len(files))
	for i, f := range files {
		paths[i] = f.Path
		last[f.Key()] = i
	}
	list, err := json.Marshal(paths)
	if err != nil {
		return ss.db.Fail("record files of a stage", err)
	}
	return ss.db.UpdateUnsynced(ctx, "record files of a stage", func(w *engine.Write) error {
		sum, err := sumOfStage(w, id)
		if err != nil {
			return err
		}
		old := make(map[StageKey]StageFile, len(files))
		var gone [][]any
		if err := w.Each(stagedPaths, []any{id, string(list)}, func(scan engine.Scan) error {
			var f StageFile
			var ref []byte
			if err := scan(&f.Path, &ref, &f.Size, &f.Kind, &f.ID, &f.State); err != nil {
				return err
			}
			if err := record.ScanRef(ref, &f.Ref); err != nil {
				return err
			}
			k := f.Key()
			if _, again := last[k]; again || !how.Replace {
				old[k] = f
				return nil
			}
			sum.Files--
			sum.Bytes -= f.Size
			gone = append(gone, k.columns(id))
			return nil
		}); err != nil {
			return err
		}
		var rows [][]any
		for i, f := range files {
			if last[f.Key()] != i {
				continue
			}
			was, is := old[f.Key()]
			if is && was.State == StageArrived {
				continue
			}
			if is {
				sum.Files--
				sum.Bytes -= was.Size
			}
			sum.Files++
			sum.Bytes += f.Size
			var facts any
			if f.Facts != "" {
				facts = f.Facts
			}
			rows = append(rows, append(f.Key().columns(id), f.Size, engine.Millis(f.ModTime), int(f.State), f.Reason, facts))
		}
		if sum.Files > how.Most.Files || sum.Bytes > how.Most.Bytes {
			return &sum
		}
		if _, err := w.Many("DELETE FROM stage_file WHERE "+isStageFile, gone); err != nil {
			return err
		}
		if _, err := w.Many(`INSERT INTO stage_file (stage_id, path, sha256, kind, claim, size, mtime, state, reason, facts)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (stage_id, path, sha256, kind, claim) DO UPDATE SET size = excluded.size, mtime = excluded.mtime,
			state = excluded.state, reason = excluded.reason, facts = excluded.facts`, rows); err != nil {
			return err
		}
		_, err = w.Exec("UPDATE stage SET files = $2, bytes = $3, changes = changes + 1, used = $4 WHERE id = $1",
			id, sum.Files, sum.Bytes, ss.db.Now().UnixMilli())
		return err
	})
}

// isStageFile is the condition for the file with StageKey.columns.
const isStageFile = "stage_id = $1 AND path = $2 AND sha256 = $3 AND kind = $4 AND claim = $5"

// columns returns the primary key of a file of a stage.
func (k StageKey) columns(stage string) []any {
	return []any{stage, k.Path, k.Ref[:], k.Kind, k.ID}
}

// filesByHash and filesByOneHash name their index: SQLite would otherwise read all
// files of the stage, in the order of the primary key.
var (
	filesByHash    = filesWhere(record.InHashes("f.sha256", "$2"))
	filesByOneHash = filesWhere("f.sha256 = $2", "f.sha256 = $2")
)

func filesWhere(sqlite, postgres string) string {
	const before, after = " WHERE f.stage_id = $1 AND ", " ORDER BY f.sha256, f.path, f.kind, f.claim"
	return engine.Dialects("SELECT "+stageFileColumns+" FROM stage_file f INDEXED BY stage_file_content"+before+sqlite+after,
		"SELECT "+stageFileColumns+" FROM stage_file f"+before+postgres+after)
}

// FilesOf returns the files of a stage that have one of the contents, in the order
// of their contents and paths.
func (ss StageRows) FilesOf(ctx context.Context, id string, refs []blob.Ref) ([]StageFile, error) {
	var list []StageFile
	text, args := filesByHash, []any{id, record.HashList(refs)}
	if len(refs) == 1 {
		text, args = filesByOneHash, []any{id, refs[0][:]}
	}
	err := ss.db.Points.Each(ctx, true, text, args, func(scan engine.Scan) (bool, error) {
		f, err := scanStageFile(scan)
		list = append(list, f)
		return true, err
	})
	return list, ss.db.Fail("look up files of a stage", err)
}

// Files calls each for the files of a stage in the order of their contents and
// paths, until each returns an error.
func (ss StageRows) Files(ctx context.Context, id string, each func(StageFile) error) error {
	after := StageFile{}
	ref := []byte{} // before the first one
	for {
		var page []StageFile
		if err := ss.db.Scans.Each(ctx, true, "SELECT "+stageFileColumns+` FROM stage_file f
			WHERE f.stage_id = $1 AND (f.sha256, f.path, f.kind, f.claim) > ($2, $3, $4, $5)
			ORDER BY f.sha256, f.path, f.kind, f.claim LIMIT $6`, []any{id, ref, after.Path, after.Kind, after.ID, engine.PageRows},
			func(scan engine.Scan) (bool, error) {
				f, err := scanStageFile(scan)
				page = append(page, f)
				return true, err
			}); err != nil {
			return ss.db.Fail("list files of a stage", err)
		}
		for _, f := range page {
			if err := each(f); err != nil {
				return err
			}
		}
		if len(page) < engine.PageRows {
			return nil
		}
		after = page[len(page)-1]
		ref = after.Ref[:]
	}
}

// StageCount is the number of files of a stage in each state, and their bytes.
type StageCount [4]struct{ Files, Bytes int64 }

// Count counts the files of a stage by their state.
func (ss StageRows) Count(ctx context.Context, id string) (n StageCount, err error) {
	err = ss.db.Scans.Each(ctx, true, "SELECT state, count(*), coalesce(sum(size), 0) FROM stage_file WHERE stage_id = $1 "+
		"GROUP BY state", []any{id}, func(scan engine.Scan) (bool, error) {
		var state int
		var files, bytes int64
		err := scan(&state, &files, &bytes)
		if err == nil && (state < 0 || state >= len(n)) {
			err = engine.ErrCorrupt
		}
		if err == nil {
			n[state].Files, n[state].Bytes = files, bytes
		}
		return true, err
	})
	return n, ss.db.Fail("count the files of a stage", err)
}

// Missing returns the first contents of a stage, in their order, that have not
// arrived, at most limit.
func (ss StageRows) Missing(ctx context.Context, id string, limit int) (refs []blob.Ref, err error) {
	err = ss.db.Scans.Each(ctx, true, "SELECT DISTINCT sha256 FROM stage_file WHERE stage_id = $1 AND state = 0 "+
		"ORDER BY sha256 LIMIT $2", []any{id, limit}, func(scan engine.Scan) (bool, error) {
		var sum []byte
		var ref blob.Ref
		err := scan(&sum)
		if err == nil {
			err = record.ScanRef(sum, &ref)
		}
		refs = append(refs, ref)
		return true, err
	})
	return refs, ss.db.Fail("look for missing contents of a stage", err)
}

// AwaitedBytes returns the size of the contents of a stage that have not arrived.
func (ss StageRows) AwaitedBytes(ctx context.Context, id string) (n int64, err error) {
	err = ss.db.Scans.Row(ctx, "SELECT coalesce(sum(k.size), 0) "+
		"FROM (SELECT DISTINCT sha256, size FROM stage_file WHERE stage_id = $1 AND state = 0) AS k", []any{id}, &n)
	return n, ss.db.Fail("count missing bytes of a stage", err)
}

// AwaitFiles marks files of a stage as awaited.
func (ss StageRows) AwaitFiles(ctx context.Context, id string, files []StageKey) error {
	return ss.db.UpdateUnsynced(ctx, "await files of a stage", func(w *engine.Write) error {
		rows := make([][]any, len(files))
		for i, k := range files {
			rows[i] = k.columns(id)
		}
		if _, err := w.Many("UPDATE stage_file SET state = 0, facts = NULL WHERE "+isStageFile+" AND state IN (1, 2)", rows); err != nil {
			return err
		}
		_, err := w.Exec("UPDATE stage SET changes = changes + 1 WHERE id = $1", id)
		return err
	})
}
