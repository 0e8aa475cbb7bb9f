package contents

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// ColdTool is the tool by which a cold file is derived from its content.
var ColdTool = record.Tool{Name: "cold", Version: 1}

// ErrColdRefused means that a content must not become cold as it was asked for.
var ErrColdRefused = errors.New("the content cannot become cold")

// Colds keeps the records of cold contents. A cold content is stored as a cold file,
// which is a content derived from it by [ColdTool]: either a key, which needs nothing
// else, or a delta, which needs its base. A base is a key or a plain content, never a
// delta, and is kept as long as a delta needs it.
type Colds struct {
	db     *engine.Database
	placed bool // see Options
}

// NewColds returns the records of cold contents of an index in a database. placed means that
// contents are kept in a bucket.
func NewColds(db *engine.Database, placed bool) Colds { return Colds{db, placed} }

const (
	coldSelect  = "SELECT " + coldColumns + " " + coldRows
	coldColumns = "c.sha256, c.size, f.sha256, f.size, b.sha256, b.size, k.made, k.plain_since"
	coldRows    = `FROM cold k JOIN content c ON c.id = k.content_id
	JOIN derived d ON d.source_id = k.content_id AND d.tool = 'cold' JOIN content f ON f.id = d.content_id
	LEFT JOIN content b ON b.id = k.base_id`
)

// scanCold reads coldColumns, and the columns after them into more.
func scanCold(scan engine.Scan, more ...any) (c record.Cold, err error) {
	var sum, file, base []byte
	var size, plain sql.NullInt64
	var made int64
	if err := scan(append([]any{&sum, &c.Size, &file, &c.File.Size, &base, &size, &made, &plain}, more...)...); err != nil {
		return c, err
	}
	c.Made, c.PlainSince = time.UnixMilli(made).UTC(), engine.FromMillis(plain)
	if base != nil {
		c.Base = &record.Content{Size: size.Int64}
		if err := record.ScanRef(base, &c.Base.Ref); err != nil {
			return c, err
		}
	}
	return c, errors.Join(record.ScanRef(sum, &c.Ref), record.ScanRef(file, &c.File.Ref))
}

// Of returns the record of a cold content. One that is not cold is fs.ErrNotExist.
func (cs Colds) Of(ctx context.Context, ref blob.Ref) (c record.Cold, err error) {
	c, err = scanCold(func(dest ...any) error {
		return cs.db.Points.Row(ctx, coldSelect+" WHERE "+record.IsC, []any{ref[:]}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return c, fs.ErrNotExist
	}
	return c, cs.db.Fail("look up a cold content", err)
}

// coldsAtOnce is how many contents among looks up in one query.
const coldsAtOnce = 50

// among returns the records of those of some contents that are cold.
func (cs Colds) among(ctx context.Context, refs []blob.Ref) (map[blob.Ref]record.Cold, error) {
	if len(refs) > coldsAtOnce {
		var some bool
		if err := cs.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM cold)", nil, &some); err != nil || !some {
			return nil, cs.db.Fail("look up cold contents", err)
		}
	}
	found := make(map[blob.Ref]record.Cold)
	for batch := range slices.Chunk(refs, coldsAtOnce) {
		args := make([]any, coldsAtOnce) // always as many, so that there is one statement
		for i := range args {
			args[i] = batch[min(i, len(batch)-1)][:]
		}
		err := cs.db.Scans.Each(ctx, true, coldAmong, args, func(scan engine.Scan) (bool, error) {
			c, err := scanCold(scan)
			found[c.Ref] = c
			return true, err
		})
		if err != nil {
			return nil, cs.db.Fail("look up cold contents", err)
		}
	}
	return found, nil
}

// coldAmong selects the records of coldsAtOnce contents.
var coldAmong = func() string {
	var hashes, heads []string
	for i := range coldsAtOnce {
		arg := "$" + strconv.Itoa(i+1)
		hashes, heads = append(hashes, arg), append(heads, record.Head(arg))
	}
	in := func(column string, list []string) string { return column + " IN (" + strings.Join(list, ", ") + ")" }
	return coldSelect + " WHERE " + in("c.sha256", hashes) + " AND " + in(record.Head("c.sha256"), heads)
}()

// MarkCold is MarkCold in a database.
func MarkCold[T any](ctx context.Context, db *engine.Database, list []T, of func(*T) (blob.Ref, **record.Cold)) error {
	if len(list) == 0 {
		return nil
	}
	refs := make([]blob.Ref, len(list))
	for i := range list {
		refs[i], _ = of(&list[i])
	}
	found, err := Colds{db: db}.among(ctx, refs)
	if err != nil {
		return err
	}
	for i := range list {
		if c, ok := found[refs[i]]; ok {
			_, at := of(&list[i])
			*at = &c
		}
	}
	return nil
}

// All yields the records of all cold contents. Those that change meanwhile may or may
// not be included.
func (cs Colds) All(ctx context.Context) iter.Seq2[record.Cold, error] {
	return cs.list(ctx, "", nil)
}

// Needing yields the records of the deltas of a base.
func (cs Colds) Needing(ctx context.Context, base blob.Ref) iter.Seq2[record.Cold, error] {
	return cs.list(ctx, " AND "+record.HashIs("b.sha256", "$3"), []any{base[:]})
}

// Wanted yields those of Needing that something refers to: not those in the trash, nor
// those that the next garbage collection takes.
func (cs Colds) Wanted(ctx context.Context, base blob.Ref) iter.Seq2[record.Cold, error] {
	return cs.list(ctx, " AND "+record.HashIs("b.sha256", "$3")+" AND c.unreferenced_since IS NULL", []any{base[:]})
}

// filesOf selects the contents of a transaction, which is live or in the trash, and formsOf
// what was made of them.
const (
	filesOf = `SELECT o.content_id FROM object o JOIN tx_file f ON f.object_id = o.id WHERE f.tx_id = $3
	UNION SELECT o.content_id FROM object o JOIN trash_file f ON f.object_id = o.id WHERE f.tx_id = $3`
	formsOf = "SELECT d.content_id FROM derived d WHERE d.content_id IS NOT NULL AND d.source_id IN (" + filesOf + ")"
)

// Purged yields the records of the deltas that need contents of only one transaction,
// or what was made of these, and that this transaction does not have itself: they must be
// plain before it is purged.
func (cs Colds) Purged(ctx context.Context, number int64) iter.Seq2[record.Cold, error] {
	const own = "(" + filesOf + " UNION " + formsOf + ")"
	return cs.list(ctx, " AND k.base_id IN "+own+" AND k.content_id NOT IN "+own+`
		AND NOT EXISTS (SELECT 1 FROM object o JOIN tx_file f ON f.object_id = o.id WHERE o.content_id = k.base_id AND f.tx_id <> $3)`,
		[]any{number})
}

// Plain yields the records whose plain bytes have been stored too since before a time.
func (cs Colds) Plain(ctx context.Context, before time.Time) iter.Seq2[record.Cold, error] {
	return cs.list(ctx, " AND k.plain_since IS NOT NULL AND k.plain_since <= $3", []any{before.UnixMilli()})
}

// Asked yields the records of contents without plain bytes that were read at least n
// times since a time.
func (cs Colds) Asked(ctx context.Context, n int, since time.Time) iter.Seq2[record.Cold, error] {
	return cs.list(ctx, " AND k.plain_since IS NULL AND k.reads >= $3 AND k.reads_since >= $4", []any{n, since.UnixMilli()})
}

func (cs Colds) list(ctx context.Context, cond string, args []any) iter.Seq2[record.Cold, error] {
	return func(yield func(record.Cold, error) bool) {
		var last int64
		engine.Pages(ctx, cs.db, yield, func(scan engine.Scan) (record.Cold, error) {
			return scanCold(scan, &last)
		}, "SELECT "+coldColumns+", k.content_id "+coldRows+" WHERE k.content_id > $1"+cond+" ORDER BY k.content_id LIMIT $2", func() []any {
			return append([]any{last, engine.PageRows}, args...)
		})
	}
}

// Put records that a content is cold: in a cold file, which the store has, as a delta
// to base, or as a key if base is nil. Its plain bytes count as stored until Strip. A
// content that is a base becomes a key only. If the content or the base has changed
// meanwhile so that this must not be, the error is ErrColdRefused. check is called while
// no process can collect garbage; its error ends Put.
func (cs Colds) Put(ctx context.Context, content blob.Ref, file record.Content, base *blob.Ref, check func() error) error {
	return cs.db.Update(ctx, "record a cold content", func(w *engine.Write) error {
		now := cs.db.Now()
		var id int64
		err := w.Row(`SELECT c.id FROM content c WHERE `+record.IsC+` AND c.unreferenced_since IS NULL
			AND NOT EXISTS (SELECT 1 FROM cold k WHERE k.content_id = c.id)`, []any{content[:]}, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("content %s: %w: it is cold already, or nothing refers to it", content, ErrColdRefused)
		}
		if err != nil {
			return err
		}
		var onto any
		if base != nil {
			if onto, err = baseOf(w, id, content, *base); err != nil {
				return err
			}
		}
		c := Commit{Write: w, Now: now, Placed: cs.placed}
		made, err := c.content(file)
		if err != nil {
			return err
		}
		old, err := w.IDs("SELECT content_id FROM derived "+
			"WHERE source_id = $1 AND tool = $2 AND content_id IS NOT NULL AND content_id <> $3", id, ColdTool.Name, made)
		if err != nil {
			return err
		}
		if _, err := w.Exec(`INSERT INTO derived (source_id, tool, tool_version, content_id, added) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (source_id, tool, tool_version) DO UPDATE SET content_id = excluded.content_id, added = excluded.added`,
			id, ColdTool.Name, ColdTool.Version, made, now.UnixMilli()); err != nil {
			return err
		}
		if _, err := w.Exec("INSERT INTO cold (content_id, base_id, made, plain_since) VALUES ($1, $2, $3, $3)",
			id, onto, now.UnixMilli()); err != nil {
			return err
		}
		if err := releaseUnused(w, now, old...); err != nil {
			return err
		}
		if !cs.placed { // in a bucket the place is the proof
			if err := check(); err != nil {
				return err
			}
		}
		return c.count()
	})
}

// baseOf returns the id of a content that can be the base of another one.
func baseOf(w *engine.Write, id int64, content, base blob.Ref) (onto int64, err error) {
	err = w.Row(`SELECT b.id FROM content b WHERE `+record.HashIs("b.sha256", "$1")+` AND b.unreferenced_since IS NULL AND b.id <> $2
		AND NOT EXISTS (SELECT 1 FROM cold k WHERE k.content_id = b.id AND k.base_id IS NOT NULL)
		AND NOT EXISTS (SELECT 1 FROM cold k WHERE k.base_id = $2)`, []any{base[:], id}, &onto)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("content %s: %w: its base %s is gone or is a delta, or the content is a base itself", content, ErrColdRefused, base)
	}
	return onto, err
}

// Strip records that the plain bytes of cold contents are not stored any more, for
// those of refs that have had them since before a time, and returns their number. A
// place in a bucket is doomed. Otherwise deleteBlob is called for each of them while
// the write lock is held and the record still says so. A crash in between leaves bytes
// that Leftover finds.
func (cs Colds) Strip(ctx context.Context, refs []blob.Ref, before time.Time, deleteBlob func(blob.Ref) error) (n int, err error) {
	for batch := range slices.Chunk(refs, 32) {
		var done []blob.Ref
		err := cs.db.Update(ctx, "delete the plain bytes of cold contents", func(w *engine.Write) error {
			done = nil
			now := cs.db.Now().UnixMilli()
			for _, ref := range batch {
				k, err := w.Exec("UPDATE cold SET plain_since = NULL "+
					"WHERE content_id = (SELECT id FROM content WHERE "+record.IsContent+") AND plain_since <= $2", ref[:], before.UnixMilli())
				if err != nil {
					return err
				}
				if k == 0 {
					continue
				}
				if _, err := w.Exec("INSERT INTO doomed (place, sha256, size, since) SELECT place, sha256, size, $2 FROM content "+
					"WHERE "+record.IsContent+" AND place IS NOT NULL", ref[:], now); err != nil {
					return err
				}
				if _, err := w.Exec("UPDATE content SET place = NULL WHERE "+record.IsContent+" AND place IS NOT NULL", ref[:]); err != nil {
					return err
				}
				done = append(done, ref)
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n += len(done)
		if cs.placed {
			continue
		}
		for _, ref := range done {
			if _, err := cs.Leftover(ctx, ref, deleteBlob); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Settle corrects times that are ahead of the clock, because it was set back: they become
// now. Made stays, and is how others know that PlainSince was changed.
func (cs Colds) Settle(ctx context.Context) error {
	now := cs.db.Now().UnixMilli()
	var ahead bool
	err := cs.db.Points.Row(ctx, "SELECT EXISTS (SELECT 1 FROM cold WHERE plain_since > $1)", []any{now}, &ahead)
	if err != nil || !ahead {
		return cs.db.Fail("look for times that are ahead", err)
	}
	return cs.db.Update(ctx, "correct times that are ahead", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE cold SET plain_since = $1 WHERE plain_since > $1", now)
		return err
	})
}

// Leftover calls deleteBlob, while the write lock is held, if the record of a cold
// content says that its plain bytes are not stored. It reports whether it did.
func (cs Colds) Leftover(ctx context.Context, ref blob.Ref, deleteBlob func(blob.Ref) error) (is bool, err error) {
	err = cs.db.Update(ctx, "lock", func(w *engine.Write) error {
		err := w.Row("SELECT EXISTS (SELECT 1 FROM cold k JOIN content c ON c.id = k.content_id "+
			"WHERE "+record.IsC+" AND k.plain_since IS NULL)", []any{ref[:]}, &is)
		if err != nil || !is {
			return err
		}
		return deleteBlob(ref)
	})
	return is, err
}

// Warm ends the record of a cold content, whose plain bytes are stored again: on disk,
// or as a finished upload in a bucket. Its cold file, and its base if no other delta
// needs it, lose a reference. One that is not cold is no error. check is called while
// nobody can delete the plain bytes, if they are on disk; its error ends Warm.
func (cs Colds) Warm(ctx context.Context, content record.Content, check func() error) error {
	return cs.db.Update(ctx, "warm a cold content", func(w *engine.Write) error {
		c := Commit{Write: w, Now: cs.db.Now(), Placed: cs.placed}
		var id int64
		err := w.Row("SELECT k.content_id FROM cold k JOIN content c ON c.id = k.content_id WHERE "+record.IsC, []any{content.Ref[:]}, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if c.Placed {
			if err := c.takePlaces([]record.Content{content}, map[blob.Ref]int64{content.Ref: id}, nil); err != nil {
				return err
			}
			var place sql.NullString
			if err := w.Row("SELECT place FROM content WHERE id = $1", []any{id}, &place); err != nil {
				return err
			}
			if !place.Valid {
				return fmt.Errorf("content %s: %w", content.Ref, record.ErrNotUploaded)
			}
		} else if err := check(); err != nil {
			return err
		}
		files, err := w.IDs("SELECT content_id FROM derived WHERE source_id = $1 AND tool = $2 AND content_id IS NOT NULL", id, ColdTool.Name)
		if err != nil {
			return err
		}
		if _, err := w.Exec("DELETE FROM derived WHERE source_id = $1 AND tool = $2", id, ColdTool.Name); err != nil {
			return err
		}
		if err := forgetColds(w, c.Now, id); err != nil {
			return err
		}
		return releaseUnused(w, c.Now, files...)
	})
}

var dropColds = engine.Over("id number", "DELETE FROM cold WHERE content_id IN (SELECT k.id FROM {k}) RETURNING coalesce(base_id, 0)")

// forgetColds deletes the records of those of the contents that are cold, and releases their
// bases.
func forgetColds(w *engine.Write, now time.Time, contents ...int64) error {
	bases, err := w.ReadNumbers(dropColds, engine.Numbers(contents))
	if err != nil {
		return err
	}
	return releaseUnused(w, now, bases...)
}

// Read counts reads of cold contents. It does not change the generation.
func (cs Colds) Read(ctx context.Context, reads map[blob.Ref]int, window time.Duration) error {
	if len(reads) == 0 {
		return nil
	}
	now := cs.db.Now()
	return cs.db.UpdateUnsynced(ctx, "count reads of cold contents", func(w *engine.Write) error {
		rows := make([][]any, 0, len(reads))
		for ref, n := range reads {
			rows = append(rows, []any{ref[:], n, now.UnixMilli(), now.Add(-window).UnixMilli()})
		}
		_, err := w.Many(`UPDATE cold SET reads = CASE WHEN reads_since < $4
			OR reads_since > $3 THEN 0 ELSE reads END + $2, reads_since = CASE WHEN reads_since < $4 OR reads_since > $3 THEN $3 ELSE reads_since END
			WHERE content_id = (SELECT id FROM content WHERE `+record.IsContent+")", rows)
		return err
	})
}

// ColdStats are the sums of all cold contents.
type ColdStats struct {
	Contents int64 `json:"contents"`
	Plain    int64 `json:"plain_bytes"` // as clients get them
	Keys     int64 `json:"keys"`
	KeyBytes int64 `json:"key_bytes"` // of the keys' files
	Deltas   int64 `json:"deltas"`
	Bytes    int64 `json:"bytes"` // of all cold files
	// Both are the contents whose plain bytes are still, or again, stored too, and
	// BothBytes are these plain bytes.
	Both      int64 `json:"both"`
	BothBytes int64 `json:"both_bytes"`
	// Pinned are the bases that only deltas need, and PinnedBytes is what they take.
	Pinned      int64 `json:"pinned"`
	PinnedBytes int64 `json:"pinned_bytes"`
}

// pinnedBases selects the bases that nothing but deltas refers to, neither a file nor what it
// was made of, with the bytes that they take: those of the cold file, or the plain ones.
const pinnedBases = `SELECT c.id, c.sha256, c.size, coalesce((SELECT f.size FROM derived d JOIN content f ON f.id = d.content_id
	WHERE d.source_id = c.id AND d.tool = 'cold'), 0) AS file,
	(SELECT count(*) FROM cold n WHERE n.base_id = c.id) AS deltas
	FROM content c WHERE c.id IN (SELECT base_id FROM cold WHERE base_id IS NOT NULL)
	AND NOT EXISTS (SELECT 1 FROM object o JOIN seen s ON s.object_id = o.id WHERE o.content_id = c.id)
	AND NOT EXISTS (SELECT 1 FROM derived m JOIN object o ON o.content_id = m.source_id JOIN seen s ON s.object_id = o.id
		WHERE m.content_id = c.id)`

// Stats returns the sums.
func (cs Colds) Stats(ctx context.Context) (s ColdStats, err error) {
	err = cs.db.Snapshot(ctx, func(r engine.Reader) error {
		if err := r.Row(ctx,
			`SELECT count(*), coalesce(CAST(sum(c.size) AS bigint), 0), count(*) - count(k.base_id),
			coalesce(CAST(sum(CASE WHEN k.base_id IS NULL THEN f.size ELSE 0 END) AS bigint), 0),
			count(k.base_id), coalesce(CAST(sum(f.size) AS bigint), 0), count(k.plain_since),
			coalesce(CAST(sum(CASE WHEN k.plain_since IS NULL THEN 0 ELSE c.size END) AS bigint), 0)
			FROM cold k JOIN content c ON c.id = k.content_id JOIN derived d ON d.source_id = k.content_id AND d.tool = 'cold'
			JOIN content f ON f.id = d.content_id`, nil,
			&s.Contents, &s.Plain, &s.Keys, &s.KeyBytes, &s.Deltas, &s.Bytes, &s.Both, &s.BothBytes); err != nil {
			return err
		}
		return r.Row(ctx, "SELECT count(*), coalesce(CAST(sum(CASE WHEN p.file > 0 THEN p.file ELSE p.size END) AS bigint), 0) "+
			"FROM ("+pinnedBases+") AS p", nil, &s.Pinned, &s.PinnedBytes)
	})
	return s, cs.db.Fail("sum up cold contents", err)
}

// Pinned is a base that only deltas refer to.
type Pinned struct {
	record.Content
	File   int64 // bytes of its cold file; 0 if it is plain
	Deltas int64
}

// Pinned returns the bases that only deltas refer to and that at most that many deltas
// need.
func (cs Colds) Pinned(ctx context.Context, deltas int) (list []Pinned, err error) {
	err = cs.db.Scans.Each(ctx, true, "SELECT p.sha256, p.size, p.file, p.deltas FROM ("+pinnedBases+") AS p WHERE p.deltas <= $1 "+
		"ORDER BY p.id", []any{deltas}, func(scan engine.Scan) (bool, error) {
		var p Pinned
		var sum []byte
		if err := scan(&sum, &p.Size, &p.File, &p.Deltas); err != nil {
			return false, err
		}
		list = append(list, p)
		return true, record.ScanRef(sum, &list[len(list)-1].Ref)
	})
	return list, cs.db.Fail("list bases", err)
}

// CoolCandidate is a content in a series: the contents of one name, kind and
// architecture in one product.
type CoolCandidate struct {
	record.Content
	Object  int64 // orders the contents as they were added first
	Product string
	Kind    symfile.Kind
	Arch    string
	Tx      int64     // the newest transaction that holds it in the product
	Added   time.Time // when it was first added
	Read    time.Time // the last day on which it was read; zero: never
	// Cold is set for a cold content; Base is not zero for a delta, File is the size of
	// the cold file and Made when it was made. Deltas is how many deltas need it.
	Cold   bool
	Base   blob.Ref
	File   int64
	Made   time.Time
	Deltas int64
}

// Names returns the next folded names of objects, in order.
func (cs Colds) Names(ctx context.Context, after string, limit int) (list []string, err error) {
	err = cs.db.Scans.Each(ctx, true, "SELECT name FROM listed_name WHERE product_id = 0 AND name > $1 ORDER BY name LIMIT $2",
		[]any{after, limit}, func(scan engine.Scan) (bool, error) {
			var s string
			err := scan(&s)
			list = append(list, s)
			return true, err
		})
	return list, cs.db.Fail("list names", err)
}

// Series returns the added contents with a folded name, by product, kind and
// architecture, in the order in which they were first added. With a tool, they are the
// contents that the tool made of these.
func (cs Colds) Series(ctx context.Context, name, tool string) (list []CoolCandidate, err error) {
	of, args := "JOIN content c ON c.id = o.content_id", []any{name}
	if tool != "" {
		of = "JOIN derived m ON m.source_id = o.content_id AND m.tool = $2 JOIN content c ON c.id = m.content_id"
		args = append(args, tool)
	}
	err = cs.db.Scans.Each(ctx, true,
		`SELECT p.name, o.kind, `+record.ArchColumn+` AS arch, c.id, c.sha256, c.size, `+record.AddedColumn+`, coalesce(r.day, -1), max(s.tx_id),
		k.made, b.sha256, coalesce(f.size, 0), (SELECT count(*) FROM cold n WHERE n.base_id = c.id)
		FROM object o JOIN seen s ON s.object_id = o.id AND s.tx_id > 0 JOIN product p ON p.id = s.product_id
		`+of+`
		LEFT JOIN content_read r ON r.content_id = c.id LEFT JOIN cold k ON k.content_id = c.id LEFT JOIN content b ON b.id = k.base_id
		LEFT JOIN derived d ON d.source_id = c.id AND d.tool = 'cold' LEFT JOIN content f ON f.id = d.content_id
		WHERE o.name_fold = $1
		GROUP BY p.name, o.kind, `+record.ArchColumn+`, c.id, c.sha256, c.size, c.added, r.day, k.made, b.sha256, f.size
			ORDER BY p.name, o.kind, arch, c.id`, args, func(scan engine.Scan) (bool, error) {
			var c CoolCandidate
			var sum, base []byte
			var added, day int64
			var made sql.NullInt64
			if err := scan(&c.Product, &c.Kind, &c.Arch, &c.Object, &sum, &c.Size, &added, &day, &c.Tx, &made, &base, &c.File,
				&c.Deltas); err != nil {
				return false, err
			}
			c.Added, c.Cold, c.Made = time.UnixMilli(added).UTC(), made.Valid, engine.FromMillis(made)
			if day >= 0 {
				c.Read = record.TimeOfDay(day)
			}
			if base != nil {
				if err := record.ScanRef(base, &c.Base); err != nil {
					return false, err
				}
			}
			err := record.ScanRef(sum, &c.Ref)
			list = append(list, c)
			return true, err
		})
	return list, cs.db.Fail("list contents of a name", err)
}

// NewestOfAnother reports whether a content is the newest one of a series of another
// name than the given folded one.
func (cs Colds) NewestOfAnother(ctx context.Context, ref blob.Ref, name string) (is bool, err error) {
	err = cs.db.Points.Row(ctx, `SELECT EXISTS (SELECT 1 FROM content c JOIN object o ON o.content_id = c.id AND o.name_fold <> $2
		JOIN seen s ON s.object_id = o.id AND s.tx_id > 0
		WHERE `+record.IsC+` AND NOT EXISTS (SELECT 1 FROM object n
		JOIN seen m ON m.object_id = n.id AND m.product_id = s.product_id AND m.tx_id > 0
			WHERE n.name_fold = o.name_fold AND n.kind = o.kind AND `+record.ArchColumnOf("n")+" = "+record.ArchColumn+`
			AND (m.tx_id > s.tx_id OR m.tx_id = s.tx_id AND n.content_id > o.content_id)))`, []any{ref[:], engine.Text(name)}, &is)
	return is, cs.db.Fail("look up the other names of a content", err)
}

// DropVariants forgets the contents that tools made from a content: they lose a
// reference. It is for compressed variants of a content that became cold.
func (cs Colds) DropVariants(ctx context.Context, ref blob.Ref, tools []string) error {
	return cs.db.Update(ctx, "forget compressed variants", func(w *engine.Write) error {
		now := cs.db.Now()
		for _, tool := range tools {
			made, err := w.IDs(`SELECT content_id FROM derived
				WHERE source_id = (SELECT id FROM content WHERE `+record.IsContent+") AND tool = $2 AND content_id IS NOT NULL", ref[:], tool)
			if err != nil {
				return err
			}
			if _, err := w.Exec("DELETE FROM derived WHERE source_id = (SELECT id FROM content WHERE "+record.IsContent+") AND tool = $2",
				ref[:], tool); err != nil {
				return err
			}
			if err := releaseUnused(w, now, made...); err != nil {
				return err
			}
		}
		return nil
	})
}

// Cooling is the progress of cooling.
type Cooling struct {
	Paused   bool      `json:"paused"`
	Owner    string    `json:"-"`
	Updated  time.Time `json:"updated,omitzero"`
	Position string    `json:"-"`                 // the name that was last looked at
	Started  time.Time `json:"started,omitzero"`  // of the present pass; zero between two passes
	Finished time.Time `json:"finished,omitzero"` // of the last one
	// Contents were made cold in the present pass, or in the last one; Before and After
	// are their bytes.
	Contents int64 `json:"contents"`
	Before   int64 `json:"before"`
	After    int64 `json:"after"`
}

// Progress returns the progress of cooling, in whichever process.
func (cs Colds) Progress(ctx context.Context) (c Cooling, err error) {
	var updated, paused int64
	var started, finished sql.NullInt64
	err = cs.db.Scans.Row(ctx, "SELECT paused, owner, updated, position, started, finished, contents, before, after FROM cooling "+
		"WHERE one = 1", nil,
		&paused, &c.Owner, &updated, &c.Position, &started, &finished, &c.Contents, &c.Before, &c.After)
	if c.Paused = paused != 0; updated != 0 {
		c.Updated = time.UnixMilli(updated).UTC()
	}
	c.Started, c.Finished = engine.FromMillis(started), engine.FromMillis(finished)
	return c, cs.db.Fail("read the progress of cooling", err)
}

// SetProgress writes the progress, except Paused.
func (cs Colds) SetProgress(ctx context.Context, c Cooling) error {
	return cs.db.UpdateUnsynced(ctx, "write the progress of cooling", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE cooling "+
			"SET owner = $1, updated = $2, position = $3, started = $4, finished = $5, contents = $6, before = $7, after = $8 WHERE one = 1",
			engine.Text(c.Owner), c.Updated.UnixMilli(), engine.Text(c.Position), engine.Millis(c.Started), engine.Millis(c.Finished),
			c.Contents, c.Before, c.After)
		return err
	})
}

// Pause stops cooling by all servers, or lets it go on.
func (cs Colds) Pause(ctx context.Context, paused bool) error {
	n := 0
	if paused {
		n = 1
	}
	return cs.db.Update(ctx, "pause cooling", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE cooling SET paused = $1 WHERE one = 1", n)
		return err
	})
}
