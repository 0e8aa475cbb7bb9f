// Package removals is the part of an index for what is removed and when: holds, classes,
// policies, plans and runs, removals, the trash, and usage day by day.
package removals

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
)

// Retention is the part of the index for retention: what it has to know of
// transactions and contents, what protects transactions, the policy, and the runs
// that have applied it. The trash has methods of its own, see Trash.
type Retention struct{ db *engine.Database }

// NewRetention returns the retention of an index in a database.
func NewRetention(db *engine.Database) Retention { return Retention{db} }

// RetainedState is what a plan is computed from. All parts are of one read
// transaction.
type RetainedState struct {
	// Generation is that of the index: as long as it is the same, Transactions and
	// Derived are.
	Generation int64
	// Transactions are the live transactions and those in the trash.
	Transactions []RetainedTx
	// Contents are all contents. Transactions and Derived refer to them by position.
	Contents []RetainedContent
	// Derived are pairs of a content and one that was made from it.
	Derived [][2]uint32
}

// RetainedTx is a live transaction, or one in the trash.
type RetainedTx struct {
	record.Transaction
	Holds []Hold
	Needs []int64
	// Contents are positions in RetainedState.Contents, ascending, each once.
	Contents []uint32
}

// RetainedContent is a content.
type RetainedContent struct {
	ID   int64
	Size int64
	// ReadDay is the day of the last read, in days since 1970 UTC; 0: never.
	ReadDay int64
	// Pinned means that the cache needs the content, Pushed that an open stage does. What
	// a stage has collected is in its transaction, which holds it.
	Pinned, Pushed bool
	// Cold means that its plain bytes are not stored.
	Cold bool
}

// queryRows runs a constant statement and calls fn for each row.
type queryRows func(text string, args []any, fn func(scan engine.Scan) error) error

// queriesOf returns the queryRows of a snapshot.
func queriesOf(ctx context.Context, r engine.Reader) queryRows {
	return func(text string, args []any, fn func(scan engine.Scan) error) error {
		return r.Each(ctx, true, text, args, func(scan engine.Scan) (bool, error) { return true, fn(scan) })
	}
}

// State returns what a plan is computed from, with the transactions that are in
// the trash at a time.
func (rs Retention) State(ctx context.Context, now time.Time) (s *RetainedState, err error) {
	err = rs.db.Snapshot(ctx, func(r engine.Reader) (err error) {
		s, err = readState(queriesOf(ctx, r), now)
		return err
	})
	return s, rs.db.Fail("read the builds", err)
}

// The statements of readState. Files are read by object, with the numbers of all
// transactions that have it in one row: most objects are shared by many.
var (
	liveFiles = engine.Dialects(
		"SELECT o.content_id, group_concat(f.tx_id) FROM tx_file f JOIN object o ON o.id = f.object_id WHERE f.tx_id > 0 GROUP BY f.object_id",
		"SELECT o.content_id, string_agg(f.tx_id::text, ',') FROM tx_file f JOIN object o ON o.id = f.object_id WHERE f.tx_id > 0 GROUP BY o.id")
	trashFiles = engine.Dialects(
		"SELECT o.content_id, group_concat(f.tx_id) FROM trash_file f JOIN object o ON o.id = f.object_id GROUP BY f.object_id",
		"SELECT o.content_id, string_agg(f.tx_id::text, ',') FROM trash_file f JOIN object o ON o.id = f.object_id GROUP BY o.id")
)

// stagePins are the contents that an open stage relies on.
var stagePins = `SELECT DISTINCT c.id, c.sha256
	FROM stage s JOIN stage_file f ON f.stage_id = s.id AND f.state IN (1, 2) JOIN content c ON ` + record.HashIs("c.sha256", "f.sha256") + `
	WHERE s.closed IS NULL`

func readState(each queryRows, now time.Time) (*RetainedState, error) {
	s := &RetainedState{}
	if err := each("SELECT generation FROM state WHERE one = 1", nil,
		func(scan engine.Scan) error { return scan(&s.Generation) }); err != nil {
		return nil, err
	}
	if err := s.readContents(each); err != nil {
		return nil, err
	}
	if err := s.readTransactions(each, now); err != nil {
		return nil, err
	}
	at := make(map[int64]int, len(s.Transactions))
	for i := range s.Transactions {
		at[s.Transactions[i].Number] = i
	}
	for i, text := range []string{liveFiles, trashFiles} {
		if err := each(text, nil, func(scan engine.Scan) error {
			var content int64
			var numbers string
			if err := scan(&content, &numbers); err != nil {
				return err
			}
			c, ok := s.Position(content)
			if !ok {
				return fmt.Errorf("%w: an object has no content", engine.ErrCorrupt)
			}
			for text := range strings.SplitSeq(numbers, ",") {
				number, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return err
				}
				if j, ok := at[number]; ok && s.Transactions[j].Removed.IsZero() == (i == 0) {
					s.Transactions[j].Contents = append(s.Transactions[j].Contents, c)
				}
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	for i := range s.Transactions {
		t := &s.Transactions[i]
		slices.Sort(t.Contents)
		t.Contents = slices.Clip(slices.Compact(t.Contents))
	}
	// A base is kept as long as a content that needs it, just as what was made from one. A file
	// that was added, and is what was made of its base too, does not lead back to itself.
	return s, each(`SELECT d.source_id, d.content_id FROM derived d WHERE d.content_id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM cold k WHERE k.content_id = d.content_id AND k.base_id = d.source_id)
		UNION ALL SELECT content_id, base_id FROM cold WHERE base_id IS NOT NULL`, nil, func(scan engine.Scan) error {
		var source, result int64
		if err := scan(&source, &result); err != nil {
			return err
		}
		from, ok := s.Position(source)
		to, ok2 := s.Position(result)
		if ok && ok2 {
			s.Derived = append(s.Derived, [2]uint32{from, to})
		}
		return nil
	})
}

// Position returns the position of a content by its id.
func (s *RetainedState) Position(id int64) (uint32, bool) {
	i, ok := slices.BinarySearchFunc(s.Contents, id, func(c RetainedContent, id int64) int {
		switch {
		case c.ID < id:
			return -1
		case c.ID > id:
			return 1
		}
		return 0
	})
	return uint32(i), ok
}

func (s *RetainedState) readContents(each queryRows) error {
	if err := each(`SELECT c.id, c.size, r.day, CASE WHEN k.content_id IS NOT NULL AND k.plain_since IS NULL THEN 1 ELSE 0 END
		FROM content c LEFT JOIN content_read r ON r.content_id = c.id LEFT JOIN cold k ON k.content_id = c.id
		ORDER BY c.id`, nil, func(scan engine.Scan) error {
		var c RetainedContent
		var day sql.NullInt64
		var cold int64
		err := scan(&c.ID, &c.Size, &day, &cold)
		c.ReadDay, c.Cold = day.Int64, cold != 0
		s.Contents = append(s.Contents, c)
		return err
	}); err != nil {
		return err
	}
	for text, is := range map[string]func(*RetainedContent){
		"SELECT DISTINCT content_id, NULL FROM cached": func(c *RetainedContent) { c.Pinned = true },
		stagePins + " AND s.collects = 0":              func(c *RetainedContent) { c.Pushed = true },
	} {
		if err := each(text, nil, func(scan engine.Scan) error {
			var id int64
			var unused []byte
			if err := scan(&id, &unused); err != nil {
				return err
			}
			if i, ok := s.Position(id); ok {
				is(&s.Contents[i])
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

func (s *RetainedState) readTransactions(each queryRows, now time.Time) error {
	holds, needs := make(map[int64][]Hold), make(map[int64][]int64)
	if err := each(HoldSelect+" ORDER BY tx_id, placed, name", nil, func(scan engine.Scan) error {
		h, err := ScanHold(scan)
		holds[h.Number] = append(holds[h.Number], h)
		return err
	}); err != nil {
		return err
	}
	if err := each("SELECT tx_id, needs FROM tx_needs ORDER BY tx_id, needs", nil, func(scan engine.Scan) error {
		var tx, other int64
		err := scan(&tx, &other)
		needs[tx] = append(needs[tx], other)
		return err
	}); err != nil {
		return err
	}
	return each(record.TxSelect+" WHERE t.id > 0 AND (t.deleted_at IS NULL OR t.trash_until > $1) ORDER BY t.id", []any{now.UnixMilli()},
		func(scan engine.Scan) error {
			t, err := record.ScanTx(scan)
			s.Transactions = append(s.Transactions, RetainedTx{Transaction: t, Holds: holds[t.Number], Needs: needs[t.Number]})
			return err
		})
}

// Kinds calls each for the objects of all contents: with the id of the content and
// the kind of the object.
func (rs Retention) Kinds(ctx context.Context, each func(content, kind int64)) error {
	return rs.db.Fail("read the kinds", rs.db.Scans.Each(ctx, true, "SELECT content_id, kind FROM object", nil,
		func(scan engine.Scan) (bool, error) {
			var content, kind int64
			err := scan(&content, &kind)
			each(content, kind)
			return true, err
		}))
}

// Hold protects a transaction from removal.
type Hold struct {
	Number int64  // of the transaction
	Name   string // tells the holds on one transaction apart
	Who    string
	Reason string
	Placed time.Time // zero means now
	// Until is the last day on which the hold is in force, in UTC; zero: it does not
	// end.
	Until time.Time
}

// HoldSelect is a query of holds, for ScanHold.
const HoldSelect = "SELECT tx_id, name, who, reason, placed, ends FROM hold"

// ScanHold reads a row of HoldSelect.
func ScanHold(scan engine.Scan) (h Hold, err error) {
	var placed int64
	var ends sql.NullInt64
	if err := scan(&h.Number, &h.Name, &h.Who, &h.Reason, &placed, &ends); err != nil {
		return h, err
	}
	h.Placed = time.UnixMilli(placed).UTC()
	if ends.Valid {
		h.Until = record.TimeOfDay(ends.Int64)
	}
	return h, nil
}

// active reports whether the hold is in force. Its last day still counts.
func (h Hold) active(now time.Time) bool {
	return h.Until.IsZero() || record.DayOf(now) <= record.DayOf(h.Until)
}

// ErrHeld means that a hold protects a transaction from removal.
type ErrHeld struct{ Hold }

// Refusal marks the error as no fault of the index.
func (e *ErrHeld) Refusal() {}

func (e *ErrHeld) Error() string {
	text := fmt.Sprintf("build %d is held", e.Number)
	if e.Who != "" {
		text += " by " + e.Who
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return fmt.Sprintf("%s; an administrator can release it with symdepot unhold %d", text, e.Number)
}

// heldBy returns an *ErrHeld if a hold on a transaction is in force.
func heldBy(w *engine.Write, number int64, now time.Time) error {
	var found *Hold
	if err := w.Each(HoldSelect+" WHERE tx_id = $1 ORDER BY placed, name", []any{number}, func(scan engine.Scan) error {
		h, err := ScanHold(scan)
		if err == nil && found == nil && h.active(now) {
			found = &h
		}
		return err
	}); err != nil || found == nil {
		return err
	}
	return &ErrHeld{*found}
}

// liveTx returns a transaction that has not been removed.
func liveTx(w *engine.Write, number int64) (record.Transaction, error) {
	t, err := txOf(w, number)
	if err == nil && !t.Removed.IsZero() {
		return t, fmt.Errorf("build %d was removed on %s: %w", number, t.Removed.Format(time.DateTime), fs.ErrNotExist)
	}
	return t, err
}

// txOf returns a transaction, removed or not.
func txOf(w *engine.Write, number int64) (record.Transaction, error) {
	t, err := record.ScanTx(func(dest ...any) error {
		return w.Row(record.TxSelect+" WHERE t.id = $1 AND t.id > 0", []any{number}, dest...)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("build %d: %w", number, fs.ErrNotExist)
	}
	return t, err
}

// Hold places a hold on a live transaction. One of the same name is replaced. If
// there is no such transaction, the error is fs.ErrNotExist.
func (rs Retention) Hold(ctx context.Context, h Hold) error {
	now := rs.db.Now()
	if h.Placed.IsZero() {
		h.Placed = now
	}
	return rs.db.Update(ctx, "hold", func(w *engine.Write) error {
		if _, err := liveTx(w, h.Number); err != nil {
			return err
		}
		var ends any
		if !h.Until.IsZero() {
			ends = record.DayOf(h.Until)
		}
		if _, err := w.Exec(`INSERT INTO hold (tx_id, name, who, reason, placed, ends) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (tx_id, name) DO UPDATE SET who = excluded.who, reason = excluded.reason, placed = excluded.placed, ends = excluded.ends`,
			h.Number, engine.Text(h.Name), engine.Text(h.Who), engine.Text(h.Reason), h.Placed.UnixMilli(), ends); err != nil {
			return err
		}
		return record.NextGeneration(w)
	})
}

// Unhold deletes the hold of a name, or with an empty name all holds, on a
// transaction, and returns the deleted ones.
func (rs Retention) Unhold(ctx context.Context, number int64, name string) (list []Hold, err error) {
	err = rs.db.Update(ctx, "release a hold", func(w *engine.Write) error {
		list = nil
		if _, err := txOf(w, number); err != nil {
			return err
		}
		if err := w.Each(HoldSelect+" WHERE tx_id = $1 AND ($2 = '' OR name = $2) ORDER BY placed, name", []any{number, engine.Text(name)},
			func(scan engine.Scan) error {
				h, err := ScanHold(scan)
				list = append(list, h)
				return err
			}); err != nil || len(list) == 0 {
			return err
		}
		for _, h := range list {
			if _, err := w.Exec("DELETE FROM hold WHERE tx_id = $1 AND name = $2", h.Number, h.Name); err != nil {
				return err
			}
		}
		return record.NextGeneration(w)
	})
	return list, err
}

// Holds returns the holds on a transaction, ended ones included; 0 means those on
// all transactions.
func (rs Retention) Holds(ctx context.Context, number int64) (list []Hold, err error) {
	err = rs.db.Scans.Each(ctx, true, HoldSelect+" WHERE $1 = 0 OR tx_id = $1 ORDER BY tx_id, placed, name", []any{number},
		func(scan engine.Scan) (bool, error) {
			h, err := ScanHold(scan)
			list = append(list, h)
			return true, err
		})
	return list, rs.db.Fail("list holds", err)
}

// Promotion is a change of a transaction's class.
type Promotion struct {
	Number   int64
	At       time.Time
	Who      string
	From, To string // classes; empty for none
}

// Promote changes the class of a live transaction and returns the change. If there
// is no such transaction, the error is fs.ErrNotExist.
func (rs Retention) Promote(ctx context.Context, number int64, class, who string,
	also func(w *engine.Write, number int64) error) (p Promotion, err error) {
	now := rs.db.Now()
	err = rs.db.Update(ctx, "promote", func(w *engine.Write) error {
		t, err := liveTx(w, number)
		if err != nil {
			return err
		}
		p = Promotion{number, now.UTC().Truncate(time.Millisecond), who, t.Class, class}
		if _, err := w.Exec("UPDATE tx SET class = $2 WHERE id = $1", number, engine.Text(class)); err != nil {
			return err
		}
		if _, err := w.Exec("INSERT INTO promotion (tx_id, at, who, from_class, to_class) VALUES ($1, $2, $3, $4, $5)",
			number, now.UnixMilli(), engine.Text(who), engine.Text(t.Class), engine.Text(class)); err != nil {
			return err
		}
		if also != nil {
			if err := also(w, number); err != nil {
				return err
			}
		}
		return record.NextGeneration(w)
	})
	return p, err
}

// SetComment replaces the comment of a live transaction and returns it. If there is
// no such transaction, the error is fs.ErrNotExist.
func (rs Retention) SetComment(ctx context.Context, number int64, comment string) (t record.Transaction, err error) {
	err = rs.db.Update(ctx, "change a comment", func(w *engine.Write) error {
		var err error
		if t, err = liveTx(w, number); err != nil {
			return err
		}
		t.Comment = comment
		_, err = w.Exec("UPDATE tx SET comment = $2 WHERE id = $1", number, engine.Text(comment))
		return err
	})
	return t, err
}

// SetLabel sets a label of a live transaction. If there is no such transaction, the error is
// fs.ErrNotExist.
func (rs Retention) SetLabel(ctx context.Context, number int64, name, text string) error {
	return rs.db.Update(ctx, "set a label", func(w *engine.Write) error {
		t, err := liveTx(w, number)
		if err != nil {
			return err
		}
		labels := maps.Clone(t.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		labels[name] = text
		b, err := json.Marshal(labels)
		if err != nil {
			return err
		}
		_, err = w.Exec("UPDATE tx SET labels = $2 WHERE id = $1", number, engine.Text(string(b)))
		return err
	})
}

// Promotions returns the changes of a transaction's class, oldest first.
func (rs Retention) Promotions(ctx context.Context, number int64) (list []Promotion, err error) {
	err = rs.db.Scans.Each(ctx, true, "SELECT tx_id, at, who, from_class, to_class FROM promotion WHERE tx_id = $1 ORDER BY no",
		[]any{number}, func(scan engine.Scan) (bool, error) {
			var p Promotion
			var at int64
			err := scan(&p.Number, &at, &p.Who, &p.From, &p.To)
			p.At = time.UnixMilli(at).UTC()
			list = append(list, p)
			return true, err
		})
	return list, rs.db.Fail("list promotions", err)
}

// SetNeeds records that a live transaction needs others, besides those that it
// needs already. Unknown and removed ones are fs.ErrNotExist.
func (rs Retention) SetNeeds(ctx context.Context, number int64, needs []int64) error {
	return rs.db.Update(ctx, "record needed builds", func(w *engine.Write) error {
		if _, err := liveTx(w, number); err != nil {
			return err
		}
		if err := PutNeeds(w, number, needs); err != nil {
			return err
		}
		return record.NextGeneration(w)
	})
}

// NeedError means that a needed transaction does not exist or was removed. It is
// an fs.ErrNotExist.
type NeedError struct {
	Number int64
	err    error
}

func (e *NeedError) Error() string { return e.err.Error() }

func (e *NeedError) Unwrap() error { return e.err }

// PutNeeds records that a transaction needs others.
func PutNeeds(w *engine.Write, number int64, needs []int64) error {
	for _, n := range needs {
		if _, err := liveTx(w, n); errors.Is(err, fs.ErrNotExist) {
			return &NeedError{n, err}
		} else if err != nil {
			return err
		}
		if _, err := w.Exec("INSERT INTO tx_needs (tx_id, needs) VALUES ($1, $2) ON CONFLICT (tx_id, needs) DO NOTHING", number, n); err != nil {
			return err
		}
	}
	return nil
}

// Needs returns the numbers of the transactions that a transaction needs.
func (rs Retention) Needs(ctx context.Context, number int64) (list []int64, err error) {
	err = rs.db.Scans.Each(ctx, true, "SELECT needs FROM tx_needs WHERE tx_id = $1 ORDER BY needs", []any{number},
		func(scan engine.Scan) (bool, error) {
			var n int64
			err := scan(&n)
			list = append(list, n)
			return true, err
		})
	return list, rs.db.Fail("list needed builds", err)
}

// readDays is the number of contents whose reads one write transaction records.
const readDays = engine.BatchRows

// Touch records that contents were read on the day of a time: with a derived
// content also those that it was made from. It does not change the generation.
func (rs Retention) Touch(ctx context.Context, refs [][]byte, at time.Time) error {
	day := record.DayOf(at)
	later := "UPDATE SET day = " + engine.Larger("content_read.day", "excluded.day")
	for batch := range slices.Chunk(refs, readDays) {
		if err := rs.db.UpdateUnsynced(ctx, "record reads", func(w *engine.Write) error {
			rows := make([][]any, len(batch))
			for i := range batch {
				rows[i] = []any{batch[i], day}
			}
			if _, err := w.Many("INSERT INTO content_read (content_id, day) SELECT id, CAST($2 AS bigint) FROM content "+
				"WHERE "+record.IsContent+" ON CONFLICT (content_id) DO "+later, rows); err != nil {
				return err
			}
			_, err := w.Many(`INSERT INTO content_read (content_id, day) SELECT DISTINCT d.source_id, CAST($2 AS bigint)
				FROM content c JOIN derived d ON d.content_id = c.id
				WHERE `+record.IsC+" ON CONFLICT (content_id) DO "+later, rows)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
