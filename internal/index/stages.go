package index

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/symfile"
)

// Stages is the part of the index for stages: pushes that are not a transaction
// yet. Its latest writes survive a crash of the process, but perhaps not a power
// loss: the client of a push then asks again which contents are missing.
//
// An unknown stage is fs.ErrNotExist.
type Stages struct{ db *DB }

var (
	// ErrStageClosed means that a stage has been committed already, or that its
	// files have changed since they were read for the commit.
	ErrStageClosed = errors.New("the stage has been committed or changed meanwhile")
	// ErrStageMoved means that another node has become the owner of a stage.
	ErrStageMoved = errors.New("another server has the parts of the stage")
	// ErrTooManyStages means that an owner has too many open stages.
	ErrTooManyStages = errors.New("too many open stages")
)

// StageLimitError is the error for a stage with too many files or bytes.
type StageLimitError struct{ Files, Bytes int64 } // of the stage with the refused files

func (e *StageLimitError) Error() string {
	return fmt.Sprintf("the stage would have %d files with %d bytes", e.Files, e.Bytes)
}

// QuotaError is the error of a commit after which a product would hold more
// bytes than its quota.
type QuotaError struct{ Used, Quota int64 } // bytes; Used with the refused files

func (e *QuotaError) Error() string {
	return fmt.Sprintf("the product would hold %d bytes, and its quota is %d", e.Used, e.Quota)
}

// StageRow is a stage.
type StageRow struct {
	ID     string // random
	Caller string // name of the principal, for people
	// Owner identifies the principal: two may have one name. Stages that programs of
	// earlier versions have opened belong to nobody: it is empty, or NamedOwner and the
	// name.
	Owner string
	// Key names the stage for its owner; empty for none. Two stages of an owner
	// never have the same key.
	Key                                      string
	Product, Version, Branch, Class, Comment string
	Build                                    string // JSON
	// Collects means that each file is added to the transaction at once.
	Collects bool
	// Joins means that several clients add files.
	Joins    bool
	Node     string // which node has its parts
	Opened   time.Time
	Used     time.Time // last request
	Changes  int64     // rises with every change of the files
	Files    int64
	Bytes    int64     // sum of the files' sizes
	Staged   int64     // bytes of contents that have arrived or begun to
	Number   int64     // of the transaction; 0 before there is one
	Closed   time.Time // of the commit; zero for an open stage
	Manifest blob.Ref  // of a committed stage
	Result   string    // of a committed stage: JSON
}

// NamedOwner begins StageRow.Owner of the stages of before there were owners.
const NamedOwner = "name:"

const stageColumns = `id, caller, owner, key, product, version, branch, class, comment, build, collects, joins, node, opened, used, changes, files, bytes, staged,
	tx_id, closed, manifest, result`

func scanStage(scan func(...any) error) (s StageRow, err error) {
	var collects, joins int
	var opened, used int64
	var number, closed sql.NullInt64
	var manifest []byte
	var result sql.NullString
	if err := scan(&s.ID, &s.Caller, &s.Owner, &s.Key, &s.Product, &s.Version, &s.Branch, &s.Class, &s.Comment, &s.Build, &collects, &joins, &s.Node,
		&opened, &used, &s.Changes, &s.Files, &s.Bytes, &s.Staged, &number, &closed, &manifest, &result); err != nil {
		return s, err
	}
	s.Collects, s.Joins, s.Number, s.Result = collects != 0, joins != 0, number.Int64, result.String
	s.Opened, s.Used, s.Closed = time.UnixMilli(opened).UTC(), time.UnixMilli(used).UTC(), fromMillis(closed)
	copy(s.Manifest[:], manifest)
	return s, nil
}

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
	Content
	ModTime time.Time
	// Kind and ID are claims of the client about the file.
	Kind, ID string
	State    StageState
	Reason   string // of a refusal
	Facts    string // JSON: the objects in the file; empty if they are not known yet
}

const stageFileColumns = "f.path, f.sha256, f.size, f.mtime, f.kind, f.claim, f.state, f.reason, f.facts"

func scanStageFile(scan func(...any) error) (f StageFile, err error) {
	var sum []byte
	var mtime sql.NullInt64
	var facts sql.NullString
	if err := scan(&f.Path, &sum, &f.Size, &mtime, &f.Kind, &f.ID, &f.State, &f.Reason, &facts); err != nil {
		return f, err
	}
	f.ModTime, f.Facts = fromMillis(mtime), facts.String
	return f, scanRef(sum, &f.Ref)
}

// inHashes and inTexts are conditions on a column that take a JSON list.
func inHashes(column, arg string) (sqlite, postgres string) {
	return column + " IN (SELECT unhex(value) FROM json_each(" + arg + "))",
		column + " IN (SELECT decode(v, 'hex') FROM json_array_elements_text(" + arg + "::text::json) AS k(v))"
}

func eachHash(before, column, arg, after string) string {
	s, p := inHashes(column, arg)
	return each(before+s+after, before+p+after)
}

func inTexts(before, column, arg string) string {
	return each(before+column+" IN (SELECT value FROM json_each("+arg+"))",
		before+column+" IN (SELECT v FROM json_array_elements_text("+arg+"::text::json) AS k(v))")
}

// hashList returns the JSON list of contents for inHashes.
func hashList(refs []blob.Ref) string {
	b := make([]byte, 0, 2+len(refs)*67)
	b = append(b, '[')
	for i, r := range refs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '"')
		b = hex.AppendEncode(b, r[:])
		b = append(b, '"')
	}
	return string(append(b, ']'))
}

// Open records a stage, unless its owner has one of that key: again is true for
// that. One whose transaction has been removed since is replaced. If the owner
// has as many open stages as most, of those that collect or of the others, the
// error is ErrTooManyStages.
func (ss Stages) Open(ctx context.Context, s StageRow, most int) (row StageRow, again bool, err error) {
	err = ss.db.updateUnsynced(ctx, "open a stage", func(w *write) error {
		row, again = s, false
		now := ss.db.now()
		row.Opened, row.Used = now, now
		if s.Key != "" {
			old, err := scanStage(func(dest ...any) error {
				return w.row("SELECT "+stageColumns+" FROM stage WHERE owner = $1 AND key = $2 AND key <> '' AND owner <> ''", []any{text(s.Owner), text(s.Key)}, dest...)
			})
			switch {
			case errors.Is(err, sql.ErrNoRows):
			case err != nil:
				return err
			default:
				var gone bool
				if !old.Closed.IsZero() {
					if err := w.row("SELECT NOT EXISTS (SELECT 1 FROM tx WHERE id = $1 AND deleted_at IS NULL)", []any{old.Number}, &gone); err != nil {
						return err
					}
				}
				if !gone {
					row, again = old, true
					row.Used = now
					row.Joins = old.Joins || s.Joins
					_, err := w.exec("UPDATE stage SET used = $2, joins = $3 WHERE id = $1", old.ID, now.UnixMilli(), bit(row.Joins))
					return err
				}
				if _, err := w.exec("DELETE FROM stage WHERE id = $1", old.ID); err != nil {
					return err
				}
			}
		}
		var open int
		if err := w.row("SELECT count(*) FROM stage WHERE owner = $1 AND collects = $2 AND closed IS NULL", []any{text(s.Owner), bit(s.Collects)}, &open); err != nil {
			return err
		}
		if open >= most {
			return ErrTooManyStages
		}
		_, err := w.exec(`INSERT INTO stage (id, caller, owner, key, product, version, branch, class, comment, build, collects, node, opened, used, changes, files, bytes, staged, joins)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $13, 0, 0, 0, 0, $14)`, s.ID, text(s.Caller), text(s.Owner), text(s.Key), text(s.Product), text(s.Version),
			text(s.Branch), text(s.Class), text(s.Comment), text(s.Build), bit(s.Collects), s.Node, now.UnixMilli(), bit(s.Joins))
		return err
	})
	return row, again, err
}

// bit is a bool as a column.
func bit(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Get returns a stage.
func (ss Stages) Get(ctx context.Context, id string) (StageRow, error) {
	s, err := scanStage(func(dest ...any) error {
		return ss.db.points.row(ctx, "SELECT "+stageColumns+" FROM stage WHERE id = $1", []any{text(id)}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return s, ss.db.fail("look up a stage", err)
}

// KeyOf returns the key of the stage that became a transaction; empty if there was
// none, or if the stage was forgotten.
func (ss Stages) KeyOf(ctx context.Context, number int64) (key string, err error) {
	err = ss.db.points.row(ctx, "SELECT key FROM stage WHERE tx_id = $1 AND key <> '' ORDER BY opened LIMIT 1", []any{number}, &key)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return key, ss.db.fail("look up a stage", err)
}

// Touch records that a stage is in use.
func (ss Stages) Touch(ctx context.Context, id string) error {
	return ss.db.updateUnsynced(ctx, "touch a stage", func(w *write) error {
		_, err := w.exec("UPDATE stage SET used = $2 WHERE id = $1 AND used < $2", id, ss.db.now().UnixMilli())
		return err
	})
}

var stagedPaths = inTexts("SELECT path, sha256, size, kind, claim, state FROM stage_file WHERE stage_id = $1 AND ", "path", "$2")

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
func (ss Stages) PutFiles(ctx context.Context, id string, files []StageFile, how StagePut) error {
	paths := make([]string, len(files))
	last := make(map[StageKey]int, len(files))
	for i, f := range files {
		paths[i] = f.Path
		last[f.Key()] = i
	}
	list, err := json.Marshal(paths)
	if err != nil {
		return ss.db.fail("record files of a stage", err)
	}
	return ss.db.updateUnsynced(ctx, "record files of a stage", func(w *write) error {
		sum, err := w.openStage(id)
		if err != nil {
			return err
		}
		old := make(map[StageKey]StageFile, len(files))
		var gone [][]any
		if err := w.each(stagedPaths, []any{id, string(list)}, func(scan func(...any) error) error {
			var f StageFile
			var ref []byte
			if err := scan(&f.Path, &ref, &f.Size, &f.Kind, &f.ID, &f.State); err != nil {
				return err
			}
			if err := scanRef(ref, &f.Ref); err != nil {
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
			rows = append(rows, append(f.Key().columns(id), f.Size, millis(f.ModTime), int(f.State), f.Reason, facts))
		}
		if sum.Files > how.Most.Files || sum.Bytes > how.Most.Bytes {
			return &sum
		}
		if _, err := w.many("DELETE FROM stage_file WHERE "+isStageFile, gone); err != nil {
			return err
		}
		if _, err := w.many(`INSERT INTO stage_file (stage_id, path, sha256, kind, claim, size, mtime, state, reason, facts) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (stage_id, path, sha256, kind, claim) DO UPDATE SET size = excluded.size, mtime = excluded.mtime,
			state = excluded.state, reason = excluded.reason, facts = excluded.facts`, rows); err != nil {
			return err
		}
		_, err = w.exec("UPDATE stage SET files = $2, bytes = $3, changes = changes + 1, used = $4 WHERE id = $1", id, sum.Files, sum.Bytes, ss.db.now().UnixMilli())
		return err
	})
}

// isStageFile is the condition for the file with StageKey.columns.
const isStageFile = "stage_id = $1 AND path = $2 AND sha256 = $3 AND kind = $4 AND claim = $5"

// columns returns the primary key of a file of a stage.
func (k StageKey) columns(stage string) []any {
	return []any{stage, k.Path, k.Ref[:], k.Kind, k.ID}
}

// openStage returns the number of files and bytes of an open stage.
func (w *write) openStage(id string) (sum StageLimitError, err error) {
	var closed sql.NullInt64
	err = w.row("SELECT files, bytes, closed FROM stage WHERE id = $1", []any{id}, &sum.Files, &sum.Bytes, &closed)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	if err == nil && closed.Valid {
		err = ErrStageClosed
	}
	return sum, err
}

// filesByHash and filesByOneHash name their index: SQLite would otherwise read all
// files of the stage, in the order of the primary key.
var (
	filesByHash    = filesWhere(inHashes("f.sha256", "$2"))
	filesByOneHash = filesWhere("f.sha256 = $2", "f.sha256 = $2")
)

func filesWhere(sqlite, postgres string) string {
	const before, after = " WHERE f.stage_id = $1 AND ", " ORDER BY f.sha256, f.path, f.kind, f.claim"
	return each("SELECT "+stageFileColumns+" FROM stage_file f INDEXED BY stage_file_content"+before+sqlite+after,
		"SELECT "+stageFileColumns+" FROM stage_file f"+before+postgres+after)
}

// FilesOf returns the files of a stage that have one of the contents, in the order
// of their contents and paths.
func (ss Stages) FilesOf(ctx context.Context, id string, refs []blob.Ref) ([]StageFile, error) {
	var list []StageFile
	text, args := filesByHash, []any{id, hashList(refs)}
	if len(refs) == 1 {
		text, args = filesByOneHash, []any{id, refs[0][:]}
	}
	err := ss.db.points.each(ctx, true, text, args, func(scan func(...any) error) (bool, error) {
		f, err := scanStageFile(scan)
		list = append(list, f)
		return true, err
	})
	return list, ss.db.fail("look up files of a stage", err)
}

// Files calls each for the files of a stage in the order of their contents and
// paths, until each returns an error.
func (ss Stages) Files(ctx context.Context, id string, each func(StageFile) error) error {
	after := StageFile{}
	ref := []byte{} // before the first one
	for {
		var page []StageFile
		if err := ss.db.scans.each(ctx, true, "SELECT "+stageFileColumns+` FROM stage_file f WHERE f.stage_id = $1 AND (f.sha256, f.path, f.kind, f.claim) > ($2, $3, $4, $5)
			ORDER BY f.sha256, f.path, f.kind, f.claim LIMIT $6`, []any{id, ref, after.Path, after.Kind, after.ID, pageRows}, func(scan func(...any) error) (bool, error) {
			f, err := scanStageFile(scan)
			page = append(page, f)
			return true, err
		}); err != nil {
			return ss.db.fail("list files of a stage", err)
		}
		for _, f := range page {
			if err := each(f); err != nil {
				return err
			}
		}
		if len(page) < pageRows {
			return nil
		}
		after = page[len(page)-1]
		ref = after.Ref[:]
	}
}

// StageCount is the number of files of a stage in each state, and their bytes.
type StageCount [4]struct{ Files, Bytes int64 }

// Count counts the files of a stage by their state.
func (ss Stages) Count(ctx context.Context, id string) (n StageCount, err error) {
	err = ss.db.scans.each(ctx, true, "SELECT state, count(*), coalesce(sum(size), 0) FROM stage_file WHERE stage_id = $1 GROUP BY state", []any{id}, func(scan func(...any) error) (bool, error) {
		var state int
		var files, bytes int64
		err := scan(&state, &files, &bytes)
		if err == nil && (state < 0 || state >= len(n)) {
			err = ErrCorrupt
		}
		if err == nil {
			n[state].Files, n[state].Bytes = files, bytes
		}
		return true, err
	})
	return n, ss.db.fail("count the files of a stage", err)
}

// Missing returns the first contents of a stage, in their order, that have not
// arrived, at most limit.
func (ss Stages) Missing(ctx context.Context, id string, limit int) (refs []blob.Ref, err error) {
	err = ss.db.scans.each(ctx, true, "SELECT DISTINCT sha256 FROM stage_file WHERE stage_id = $1 AND state = 0 ORDER BY sha256 LIMIT $2", []any{id, limit}, func(scan func(...any) error) (bool, error) {
		var sum []byte
		var ref blob.Ref
		err := scan(&sum)
		if err == nil {
			err = scanRef(sum, &ref)
		}
		refs = append(refs, ref)
		return true, err
	})
	return refs, ss.db.fail("look for missing contents of a stage", err)
}

// AwaitedBytes returns the size of the contents of a stage that have not arrived.
func (ss Stages) AwaitedBytes(ctx context.Context, id string) (n int64, err error) {
	err = ss.db.scans.row(ctx, "SELECT coalesce(sum(k.size), 0) FROM (SELECT DISTINCT sha256, size FROM stage_file WHERE stage_id = $1 AND state = 0) AS k", []any{id}, &n)
	return n, ss.db.fail("count missing bytes of a stage", err)
}

// StageContent is a content of a stage.
type StageContent struct {
	Content
	Whole bool
	Node  string // which node has the parts
	Parts []byte // a bit for each part that has arrived, the lowest first
}

// Content returns a content of a stage that has arrived or begun to.
func (ss Stages) Content(ctx context.Context, id string, ref blob.Ref) (c StageContent, err error) {
	c.Ref = ref
	var state int
	err = ss.db.points.row(ctx, "SELECT size, state, node, parts FROM stage_content WHERE stage_id = $1 AND sha256 = $2", []any{id, ref[:]}, &c.Size, &state, &c.Node, &c.Parts)
	c.Whole = state == 1
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	return c, ss.db.fail("look up a content of a stage", err)
}

// StageArrival is a content that has arrived in a stage.
type StageArrival struct {
	Stage string
	Content
	// Files have their new State, Reason and Facts. Other ones stay awaited.
	Files []StageFile
	// Objects are the contents that the stage now keeps: the content itself, or
	// those of its objects. Without any, nothing is kept.
	Objects []Content
}

var openStages = inTexts("SELECT id FROM stage WHERE closed IS NULL AND ", "id", "$1")

// openStage is openStages for one id, as it stands: the usual case, in which reading a
// list would take as long as the changes.
const openStage = "SELECT id FROM stage WHERE closed IS NULL AND id = $1"

// Arrive records contents that have arrived. It ignores those of stages that are
// no longer open.
func (ss Stages) Arrive(ctx context.Context, arrivals []StageArrival) error {
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
		return ss.db.fail("record arrived contents", err)
	} else {
		arg = string(list)
	}
	return ss.db.updateUnsynced(ctx, "record arrived contents", func(w *write) error {
		open := make(map[string]bool)
		if err := w.each(which, []any{arg}, func(scan func(...any) error) error {
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
		if _, err := w.many("UPDATE stage_file SET state = $6, reason = $7, facts = $8 WHERE "+isStageFile+" AND state = 0", files); err != nil {
			return err
		}
		staged := make(map[string]int64)
		// The parts of a content that is whole now.
		gone, err := w.many("DELETE FROM stage_content WHERE stage_id = $1 AND sha256 = $2 AND state = 0", ended)
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
		added, err := w.many("INSERT INTO stage_content (stage_id, sha256, size, state, node) VALUES ($1, $2, $3, 1, '') ON CONFLICT (stage_id, sha256) DO NOTHING", kept)
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
			sums = append(sums, []any{id, n, ss.db.now().UnixMilli()})
		}
		_, err = w.many("UPDATE stage SET staged = staged + $2, used = $3, changes = changes + 1 WHERE id = $1", sums)
		return err
	})
}

// Own makes a node the owner of an open stage instead of another one. If that is
// no longer the owner, the error is ErrStageMoved.
func (ss Stages) Own(ctx context.Context, id, from, node string) error {
	return ss.db.updateUnsynced(ctx, "take over a stage", func(w *write) error {
		n, err := w.exec("UPDATE stage SET node = $3 WHERE id = $1 AND node IN ($2, $3) AND closed IS NULL", id, from, node)
		if err == nil && n == 0 {
			err = ErrStageMoved
		}
		return err
	})
}

// PutPart records a part of a content, with its number from 0, in the spool of a
// node. Parts of another node are forgotten. It returns all recorded parts. If the
// node is not the owner of the stage, the error is ErrStageMoved.
func (ss Stages) PutPart(ctx context.Context, id, node string, c Content, n, parts int) (got []byte, err error) {
	err = ss.db.updateUnsynced(ctx, "record a part", func(w *write) error {
		got = nil
		if _, err := w.openStage(id); err != nil {
			return err
		}
		var size int64
		var state int
		var at string
		if err := w.row("SELECT node FROM stage WHERE id = $1", []any{id}, &at); err != nil {
			return err
		}
		if at != node {
			return ErrStageMoved
		}
		err := w.row("SELECT size, state, node, parts FROM stage_content WHERE stage_id = $1 AND sha256 = $2", []any{id, c.Ref[:]}, &size, &state, &at, &got)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			got = make([]byte, (parts+7)/8)
			if _, err := w.exec("INSERT INTO stage_content (stage_id, sha256, size, state, node) VALUES ($1, $2, $3, 0, $4)", id, c.Ref[:], c.Size, node); err != nil {
				return err
			}
			if _, err := w.exec("UPDATE stage SET staged = staged + $2 WHERE id = $1", id, c.Size); err != nil {
				return err
			}
		case err != nil:
			return err
		case state != 0:
			got = nil
			return nil // it is whole already
		case at != node || len(got) != (parts+7)/8:
			got = make([]byte, (parts+7)/8)
		}
		got[n/8] |= 1 << (n % 8)
		_, err = w.exec("UPDATE stage_content SET node = $3, parts = $4 WHERE stage_id = $1 AND sha256 = $2", id, c.Ref[:], node, got)
		if err == nil {
			_, err = w.exec("UPDATE stage SET used = $2 WHERE id = $1", id, ss.db.now().UnixMilli())
		}
		return err
	})
	return got, err
}

// Forget forgets contents of a stage that have arrived or begun to, because their
// bytes are not there any more: their files are awaited again.
func (ss Stages) Forget(ctx context.Context, id string, refs []blob.Ref) error {
	return ss.db.updateUnsynced(ctx, "forget contents of a stage", func(w *write) error {
		if _, err := w.openStage(id); err != nil {
			return err
		}
		rows := make([][]any, len(refs))
		for i := range refs {
			rows[i] = []any{id, refs[i][:]}
		}
		if _, err := w.many("UPDATE stage SET staged = staged - coalesce((SELECT size FROM stage_content WHERE stage_id = $1 AND sha256 = $2), 0) WHERE id = $1", rows); err != nil {
			return err
		}
		if _, err := w.many("DELETE FROM stage_content WHERE stage_id = $1 AND sha256 = $2", rows); err != nil {
			return err
		}
		if _, err := w.many("UPDATE stage_file SET state = 0, facts = NULL WHERE stage_id = $1 AND sha256 = $2 AND state IN (1, 2)", rows); err != nil {
			return err
		}
		_, err := w.exec("UPDATE stage SET changes = changes + 1 WHERE id = $1", id)
		return err
	})
}

// AwaitFiles marks files of a stage as awaited.
func (ss Stages) AwaitFiles(ctx context.Context, id string, files []StageKey) error {
	return ss.db.updateUnsynced(ctx, "await files of a stage", func(w *write) error {
		rows := make([][]any, len(files))
		for i, k := range files {
			rows[i] = k.columns(id)
		}
		if _, err := w.many("UPDATE stage_file SET state = 0, facts = NULL WHERE "+isStageFile+" AND state IN (1, 2)", rows); err != nil {
			return err
		}
		_, err := w.exec("UPDATE stage SET changes = changes + 1 WHERE id = $1", id)
		return err
	})
}

// Staged returns the sum of the bytes that all stages keep.
func (ss Stages) Staged(ctx context.Context) (n int64, err error) {
	err = ss.db.points.row(ctx, "SELECT coalesce(sum(staged), 0) FROM stage WHERE staged > 0", nil, &n)
	return n, ss.db.fail("count staged bytes", err)
}

// VisibleObject is an object that is visible in a product.
type VisibleObject struct {
	Stored
	Product string
}

var visibleObjects = eachHash("SELECT "+objectColumns+`, p.name FROM content c JOIN object o ON o.content_id = c.id JOIN seen s ON s.object_id = o.id
	JOIN product p ON p.id = s.product_id WHERE `, "c.sha256", "$1", " ORDER BY o.id, p.id")

// Visible calls each for the objects of contents, once for each product in which
// they are visible.
func (ss Stages) Visible(ctx context.Context, refs []blob.Ref, each func(VisibleObject)) error {
	if len(refs) == 0 {
		return nil
	}
	return ss.db.fail("look up contents", ss.db.scans.each(ctx, true, visibleObjects, []any{hashList(refs)}, func(scan func(...any) error) (bool, error) {
		var o VisibleObject
		if err := scanObject(scan, &o.Stored, &o.Product); err != nil {
			return false, err
		}
		each(o)
		return true, nil
	}))
}

// HasOther reports whether a transaction of a product has an object with the key
// and the kind of o and another content.
func (ss Stages) HasOther(ctx context.Context, product string, o symfile.Object, ref blob.Ref) (is bool, err error) {
	aliases := o.Aliases()
	if len(aliases) == 0 {
		return false, nil
	}
	err = ss.db.points.row(ctx, `SELECT EXISTS (SELECT 1 FROM lookup l JOIN object o ON o.id = l.object_id AND o.kind = $3 JOIN content c ON c.id = o.content_id AND c.sha256 <> $5
		JOIN seen s ON s.object_id = o.id AND s.tx_id > 0 JOIN product p ON p.id = s.product_id AND p.name = $4 WHERE l.id = $1 AND l.name = $2)`,
		[]any{symfile.Fold(aliases[0].ID), symfile.Fold(aliases[0].Name), o.Kind, text(product), ref[:]}, &is)
	return is, ss.db.fail("look for another content", err)
}

// KnownFile says which objects a file has that are not simply the whole file.
type KnownFile struct {
	Content
	Name  string // folded base name
	Facts string // JSON
}

var knownFiles = eachHash("SELECT sha256, name, size, facts FROM stage_known WHERE ", "sha256", "$1", "")

// Known returns the known files among contents.
func (ss Stages) Known(ctx context.Context, refs []blob.Ref) (list []KnownFile, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	err = ss.db.points.each(ctx, true, knownFiles, []any{hashList(refs)}, func(scan func(...any) error) (bool, error) {
		var k KnownFile
		var sum []byte
		if err := scan(&sum, &k.Name, &k.Size, &k.Facts); err != nil {
			return false, err
		}
		err := scanRef(sum, &k.Ref)
		list = append(list, k)
		return true, err
	})
	return list, ss.db.fail("look up files", err)
}

// PutKnown records known files, or that they were pushed again.
func (ss Stages) PutKnown(ctx context.Context, files []KnownFile) error {
	if len(files) == 0 {
		return nil
	}
	now := ss.db.now().UnixMilli()
	rows := make([][]any, len(files))
	for i, f := range files {
		rows[i] = []any{f.Ref[:], f.Name, f.Size, f.Facts, now}
	}
	return ss.db.updateUnsynced(ctx, "record known files", func(w *write) error {
		_, err := w.many(`INSERT INTO stage_known (sha256, name, size, facts, used) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (sha256, name) DO UPDATE SET facts = excluded.facts, used = excluded.used`, rows)
		return err
	})
}

// PutSHA1 records the SHA-1 of a file, in hex.
func (ss Stages) PutSHA1(ctx context.Context, sha1 string, c Content) error {
	return ss.db.updateUnsynced(ctx, "record a SHA-1", func(w *write) error {
		_, err := w.exec(`INSERT INTO stage_sha1 (sha1, sha256, size, used) VALUES ($1, $2, $3, $4)
			ON CONFLICT (sha1) DO UPDATE SET sha256 = excluded.sha256, size = excluded.size, used = excluded.used`, sha1, c.Ref[:], c.Size, ss.db.now().UnixMilli())
		return err
	})
}

// BySHA1 returns the file with a SHA-1, in lower-case hex. An unknown one is
// fs.ErrNotExist.
func (ss Stages) BySHA1(ctx context.Context, sha1 string) (c Content, err error) {
	var sum []byte
	err = ss.db.points.row(ctx, "SELECT sha256, size FROM stage_sha1 WHERE sha1 = $1", []any{text(sha1)}, &sum, &c.Size)
	if errors.Is(err, sql.ErrNoRows) {
		err = fs.ErrNotExist
	}
	if err == nil {
		err = scanRef(sum, &c.Ref)
	}
	return c, ss.db.fail("look up a SHA-1", err)
}

// Lookup returns the objects of all products that answer a lookup.
func (ss Stages) Lookup(ctx context.Context, l symfile.Lookup) ([]Hit, error) {
	return ss.db.Lookup(ctx, Scope{All: true}, l)
}

// SweepKnown forgets the known files that were not pushed since a time.
func (ss Stages) SweepKnown(ctx context.Context, before time.Time) error {
	return ss.db.updateUnsynced(ctx, "forget known files", func(w *write) error {
		for _, text := range []string{"DELETE FROM stage_known WHERE used < $1", "DELETE FROM stage_sha1 WHERE used < $1"} {
			if _, err := w.exec(text, before.UnixMilli()); err != nil {
				return err
			}
		}
		return nil
	})
}

// Same returns the newest transaction with equal labels and manifest that has not
// been removed; 0 if there is none.
func (ss Stages) Same(ctx context.Context, s StageRow, manifest blob.Ref) (number int64, err error) {
	err = ss.db.points.row(ctx, sameTx, []any{manifest[:], s.Product, s.Version, s.Branch, s.Class}, &number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return number, ss.db.fail("look for an equal transaction", err)
}

const sameTx = `SELECT t.id FROM tx t JOIN product p ON p.id = t.product_id WHERE t.manifest = $1 AND p.name = $2 AND t.version = $3 AND t.branch = $4 AND t.class = $5
	AND t.deleted_at IS NULL ORDER BY t.id DESC LIMIT 1`

const productBytes = `SELECT coalesce(sum(c.size), 0) FROM content c WHERE c.id IN
	(SELECT o.content_id FROM seen s JOIN object o ON o.id = s.object_id WHERE s.product_id = (SELECT id FROM product WHERE name = $1) AND s.tx_id > 0)`

// ProductBytes returns the size of the contents of a product's transactions, each
// content once.
func (ss Stages) ProductBytes(ctx context.Context, product string) (n int64, err error) {
	err = ss.db.scans.row(ctx, productBytes, []any{text(product)}, &n)
	return n, ss.db.fail("count the bytes of a product", err)
}

// LabelsOf returns the product and the class of a transaction that has not been
// removed. Otherwise the error is fs.ErrNotExist.
func (ss Stages) LabelsOf(ctx context.Context, number int64) (product, class string, err error) {
	err = ss.db.points.row(ctx, "SELECT p.name, t.class FROM tx t JOIN product p ON p.id = t.product_id WHERE t.id = $1 AND t.id > 0 AND t.deleted_at IS NULL", []any{number}, &product, &class)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("transaction %d: %w", number, fs.ErrNotExist)
	}
	return product, class, ss.db.fail("look up a transaction", err)
}

// SetNeeds is Retention.SetNeeds.
func (ss Stages) SetNeeds(ctx context.Context, number int64, needs []int64) error {
	return ss.db.Retention.SetNeeds(ctx, number, needs)
}

// StageCommit is the commit of a stage, as a part of that of a transaction.
type StageCommit struct {
	ID string
	// Changes are those of the stage whose files the transaction has. If it has
	// others meanwhile, the error is ErrStageClosed.
	Changes int64
	// Collect adds the files to the transaction of the stage, or makes one, and
	// leaves the stage open.
	Collect bool
	// Anew makes a transaction even if there is an equal one. Otherwise the number
	// of that is returned, and Again set.
	Anew, Again bool
	// Result returns what to keep as the result of the commit.
	Result func(number int64, again bool) string
	// Needs are transactions that are kept as long as this one. If one does not exist or was
	// removed, the error is a *NeedError.
	Needs []int64
	// Quota limits the bytes of the product; 0 is none. Above it the error is a
	// *QuotaError.
	Quota int64
}

// beginStage checks a stage that is to be committed. done means that an equal
// transaction exists, and that the stage is committed.
func (c *commit) beginStage(tx *Tx) (number int64, done bool, err error) {
	s := tx.Stage
	s.Again = false
	var changes int64
	var old, closed sql.NullInt64
	err = c.row("SELECT changes, tx_id, closed FROM stage WHERE id = $1", []any{s.ID}, &changes, &old, &closed)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, false, fmt.Errorf("stage %s: %w", s.ID, fs.ErrNotExist)
	case err != nil:
		return 0, false, err
	case closed.Valid || !s.Collect && changes != s.Changes:
		return 0, false, ErrStageClosed
	case s.Collect && old.Valid:
		var live bool
		if err := c.row("SELECT EXISTS (SELECT 1 FROM tx WHERE id = $1 AND deleted_at IS NULL)", []any{old.Int64}, &live); err != nil {
			return 0, false, err
		}
		if live {
			c.extend = old.Int64
			if tx.Entries, err = c.withoutKnown(c.extend, tx.Entries); err != nil || len(tx.Entries) > 0 {
				return 0, false, err
			}
			return c.extend, true, nil
		}
		return 0, false, nil
	case s.Collect || s.Anew || tx.Manifest == blob.Ref{}:
		return 0, false, nil
	}
	err = c.row(sameTx, []any{tx.Manifest[:], text(tx.Product), text(tx.Version), text(tx.Branch), text(tx.Class)}, &number)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	s.Again = true
	if len(s.Needs) > 0 {
		if err := c.putNeeds(number, s.Needs); err != nil {
			return 0, false, err
		}
		if err := c.changed(); err != nil {
			return 0, false, err
		}
	}
	return number, true, c.closeStage(*tx, number)
}

// endStage records the transaction of a stage.
func (c *commit) endStage(tx Tx, number int64) error {
	if q := tx.Stage.Quota; q > 0 {
		var used int64
		if err := c.row(productBytes, []any{text(tx.Product)}, &used); err != nil {
			return err
		}
		if used > q {
			return &QuotaError{used, q}
		}
	}
	if err := c.putNeeds(number, tx.Stage.Needs); err != nil {
		return err
	}
	if tx.Stage.Collect {
		_, err := c.exec("UPDATE stage SET tx_id = $2, used = $3 WHERE id = $1", tx.Stage.ID, number, c.now.UnixMilli())
		return err
	}
	return c.closeStage(tx, number)
}

func (c *commit) closeStage(tx Tx, number int64) error {
	_, err := c.exec("UPDATE stage SET tx_id = $2, closed = $3, manifest = $4, result = $5, staged = 0 WHERE id = $1",
		tx.Stage.ID, number, c.now.UnixMilli(), tx.Manifest[:], text(tx.Stage.Result(number, tx.Stage.Again)))
	return err
}

var filesOfTx = eachHash(`SELECT f.path, c.sha256, o.name, o.kind, o.debug_id, o.hash FROM content c JOIN object o ON o.content_id = c.id
	JOIN tx_file f ON f.object_id = o.id AND f.tx_id = $1 WHERE `, "c.sha256", "$2", "")

// withoutKnown returns the entries that a transaction does not have yet.
func (c *commit) withoutKnown(number int64, entries []Entry) ([]Entry, error) {
	type file struct {
		path, name string
		ref        blob.Ref
		kind       symfile.Kind
		id, hash   string // of files without recognizable format, the ids that clients claim
	}
	has := make(map[file]bool)
	if err := c.each(filesOfTx, []any{number, hashList(distinct(entries))}, func(scan func(...any) error) error {
		var f file
		var sum []byte
		if err := scan(&f.path, &sum, &f.name, &f.kind, &f.id, &f.hash); err != nil {
			return err
		}
		err := scanRef(sum, &f.ref)
		has[f] = true
		return err
	}); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		return has[file{text(e.Path), e.Object.Name, e.Ref, e.Object.Kind, e.Object.DebugID.Breakpad(), e.Object.Hash}]
	}), nil
}

// append adds the files of tx to those of an earlier transaction.
func (c *commit) append(tx Tx) error {
	if err := c.changed(); err != nil {
		return err
	}
	var bytes int64
	for _, e := range tx.Entries {
		bytes += e.Size
	}
	c.number = c.extend
	if err := c.row("UPDATE tx SET files = files + $2, bytes = bytes + $3 WHERE id = $1 RETURNING product_id", []any{c.number, len(tx.Entries), bytes}, &c.product); err != nil {
		return err
	}
	return c.row("SELECT coalesce(max(seq), 0) FROM tx_file WHERE tx_id = $1", []any{c.number}, &c.seq)
}

// End ends a stage that collects: its transaction gets no further files.
func (ss Stages) End(ctx context.Context, id string, unusedSince time.Time) (ended bool, err error) {
	err = ss.db.update(ctx, "end a stage", func(w *write) error {
		ended = false
		var number sql.NullInt64
		err := w.row("DELETE FROM stage WHERE id = $1 AND used <= $2 RETURNING tx_id", []any{id, unusedSince.UnixMilli()}, &number)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		ended = true
		if number.Valid {
			_, err = w.exec("UPDATE tx SET collecting = NULL WHERE id = $1", number.Int64)
		}
		return err
	})
	return ended, err
}

// Delete deletes an open stage. If it is not open, the error is ErrStageClosed.
func (ss Stages) Delete(ctx context.Context, id string) error {
	if err := ss.db.updateUnsynced(ctx, "delete a stage", func(w *write) error {
		if _, err := w.openStage(id); err != nil {
			return err
		}
		_, err := w.exec("DELETE FROM stage WHERE id = $1", id)
		return err
	}); err != nil {
		return err
	}
	return ss.Clear(ctx, id)
}

// Expired returns the open stages that were last used before idle or opened before
// longest, and the committed ones that were closed before longest. Stages that
// collect are returned if they were last used before quiet.
func (ss Stages) Expired(ctx context.Context, idle, longest, quiet time.Time) (list []StageRow, err error) {
	err = ss.db.scans.each(ctx, true, "SELECT "+stageColumns+` FROM stage WHERE CASE WHEN closed IS NOT NULL THEN closed < $2 WHEN collects = 1 THEN used < $3
		ELSE used < $1 OR opened < $2 END ORDER BY id LIMIT 10000`, []any{idle.UnixMilli(), longest.UnixMilli(), quiet.UnixMilli()}, func(scan func(...any) error) (bool, error) {
		s, err := scanStage(scan)
		list = append(list, s)
		return true, err
	})
	return list, ss.db.fail("look for expired stages", err)
}

// Expire deletes a stage unless it was used meanwhile.
func (ss Stages) Expire(ctx context.Context, s StageRow) (gone bool, err error) {
	err = ss.db.updateUnsynced(ctx, "delete a stage", func(w *write) error {
		n, err := w.exec("DELETE FROM stage WHERE id = $1 AND used = $2", s.ID, s.Used.UnixMilli())
		gone = n > 0
		return err
	})
	if err == nil && gone {
		err = ss.Clear(ctx, s.ID)
	}
	return gone, err
}

// clearRows is how many rows one transaction of Clear deletes: other writers wait
// for it.
const clearRows = 5_000

// Clear deletes the files and contents of a stage that is not open.
func (ss Stages) Clear(ctx context.Context, id string) error {
	for _, text := range []string{
		`DELETE FROM stage_file WHERE stage_id = $1 AND (path, sha256, kind, claim) IN
			(SELECT path, sha256, kind, claim FROM stage_file WHERE stage_id = $1 ORDER BY path, sha256, kind, claim LIMIT $2)`,
		"DELETE FROM stage_content WHERE stage_id = $1 AND sha256 IN (SELECT sha256 FROM stage_content WHERE stage_id = $1 ORDER BY sha256 LIMIT $2)",
	} {
		for n := int64(clearRows); n == clearRows; {
			if err := ss.db.updateUnsynced(ctx, "delete the files of a stage", func(w *write) (err error) {
				n, err = w.exec(text, id, clearRows)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// Leftovers deletes the files and contents of stages that are not open, which an
// interrupted Clear has left.
func (ss Stages) Leftovers(ctx context.Context) error {
	for _, table := range []string{"stage_file", "stage_content"} {
		next := "SELECT min(stage_id) FROM stage_file WHERE stage_id > $1"
		if table == "stage_content" {
			next = "SELECT min(stage_id) FROM stage_content WHERE stage_id > $1"
		}
		for id := ""; ; {
			var found sql.NullString
			if err := ss.db.scans.row(ctx, next, []any{id}, &found); err != nil {
				return ss.db.fail("look for files of ended stages", err)
			}
			if !found.Valid {
				break
			}
			id = found.String
			s, err := ss.Get(ctx, id)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err != nil || !s.Closed.IsZero() {
				if err := ss.Clear(ctx, id); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// IDs returns the ids of all open stages.
func (ss Stages) IDs(ctx context.Context) (ids map[string]bool, err error) {
	ids = make(map[string]bool)
	err = ss.db.scans.each(ctx, true, "SELECT id FROM stage WHERE closed IS NULL", nil, func(scan func(...any) error) (bool, error) {
		var id string
		err := scan(&id)
		ids[id] = true
		return true, err
	})
	return ids, ss.db.fail("list stages", err)
}

// KeepUploads extends the leases of the uploads of staged contents to d from now.
func (ss Stages) KeepUploads(ctx context.Context, d time.Duration) error {
	until := ss.db.now().Add(d).UnixMilli()
	return ss.db.updateUnsynced(ctx, "extend uploads", func(w *write) error {
		_, err := w.exec(`UPDATE upload SET lease_until = $1 WHERE done = 1 AND lease_until < $1 AND EXISTS
			(SELECT 1 FROM stage_content k JOIN stage s ON s.id = k.stage_id WHERE k.sha256 = upload.sha256 AND k.state = 1 AND s.closed IS NULL)`, until)
		return err
	})
}

// Taken forgets contents of a stage that a transaction has now. Their files keep
// their state.
func (ss Stages) Taken(ctx context.Context, id string, refs []blob.Ref) error {
	rows := make([][]any, len(refs))
	for i := range refs {
		rows[i] = []any{id, refs[i][:]}
	}
	return ss.db.updateUnsynced(ctx, "forget contents of a stage", func(w *write) error {
		if _, err := w.many("UPDATE stage SET staged = staged - coalesce((SELECT size FROM stage_content WHERE stage_id = $1 AND sha256 = $2), 0) WHERE id = $1", rows); err != nil {
			return err
		}
		_, err := w.many("DELETE FROM stage_content WHERE stage_id = $1 AND sha256 = $2", rows)
		return err
	})
}
