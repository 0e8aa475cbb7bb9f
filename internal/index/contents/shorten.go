package contents

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
)

// Rows that programs below record.CompactFormat wrote are made short in the background, some at a time: first those of
// objects, then those of files, also of files in the trash. What they stand for stays the same, and readers read both
// forms. Each write goes on where the last one has ended, of whichever process, and sees the rows as they are then. Rows
// that are written meanwhile are short already.

// ShortenBatch is how many rows one write reads: other writers do not wait long.
const ShortenBatch = 2000

// longRows is the row of the table long_rows.
type longRows struct{ object, lastObject, tx, seq, lastTx int64 }

const selectLong = "SELECT l.object, l.last_object, l.tx, l.seq, l.last_tx, s.format_floor " +
	"FROM long_rows l CROSS JOIN state s WHERE l.one = 1"

// ended reports whether no rows are long any more.
func (l longRows) ended() bool { return l.object > l.lastObject && l.tx > l.lastTx }

// longPart is a part of the rows.
type longPart struct {
	next    longRows
	objects []record.LongObject
	files   []longFile
}

// any reports whether a row of the part can be shorter.
func (p *longPart) any() bool {
	for i := range p.objects {
		if p.objects[i].IsLong() {
			return true
		}
	}
	for _, f := range p.files {
		if f.dir != "" {
			return true
		}
	}
	return false
}

// read reads the next part.
func (l longRows) read(rows record.Rows, batch int) (p longPart, err error) {
	p.next = l
	if l.object <= l.lastObject {
		p.objects, p.next.object, err = record.LongObjects(rows, l.object, l.lastObject, batch)
	} else {
		err = p.readFiles(rows, batch)
	}
	return p, err
}

// ShortenFor makes rows short until there are no long ones left, gives contents the shorter index of CopyHeads and old
// keys the shorter blocks of oldkeys.Rewrite, for about so long.
func ShortenFor(ctx context.Context, db *engine.Database, long time.Duration) error {
	begun := time.Now()
	for _, next := range []func(context.Context, *engine.Database, int) (bool, error){Shorten, CopyHeads, oldkeys.Rewrite} {
		for ended := false; !ended; {
			if time.Since(begun) >= long {
				return nil
			}
			var err error
			if ended, err = next(ctx, db, ShortenBatch); err != nil {
				return err
			}
		}
	}
	return nil
}

// Shorten makes the next rows short, of as many as batch says, and reports whether there are no others. The answers of the
// index stay the same. If the machine crashes, the write may be lost; the next call repeats it.
func Shorten(ctx context.Context, db *engine.Database, batch int) (ended bool, err error) {
	const op = "shorten old rows"
	var at, now longRows
	var floor int64
	if err := db.Scans.Row(ctx, selectLong, nil, &at.object, &at.lastObject, &at.tx, &at.seq, &at.lastTx, &floor); err != nil {
		return false, db.Fail(op, err)
	}
	// With a lower floor a program may come that does not read short rows.
	if floor < record.CompactFormat || at.ended() {
		return true, nil
	}
	// Writers do not wait while the rows come from the disk.
	before, err := at.read(func(text string, args []any, fn func(engine.Scan) error) error {
		return db.Scans.Each(ctx, true, text, args, func(scan engine.Scan) (bool, error) { return true, fn(scan) })
	}, batch)
	if err != nil {
		return false, db.Fail(op, err)
	}
	err = db.UpdateUnsynced(ctx, op, func(w *engine.Write) error {
		if err := w.Row(selectLong, nil, &now.object, &now.lastObject, &now.tx, &now.seq, &now.lastTx, &floor); err != nil || now != at {
			return err // another process has been here
		}
		p := before
		if before.any() {
			if p, err = at.read(w.Each, batch); err != nil {
				return err
			}
			if err := record.ShortenObjects(w, p.objects); err != nil {
				return err
			}
			if err := p.shortenFiles(w); err != nil {
				return err
			}
		}
		now = p.next
		_, err := w.Exec("UPDATE long_rows SET object = $1, tx = $2, seq = $3 WHERE one = 1", now.object, now.tx, now.seq)
		return err
	})
	return now.ended(), err
}

// longFile is the row of a file as it is stored.
type longFile struct {
	tx, seq, object int64
	trash           bool
	dir, rest       string // of a path that may be short; else the folder is empty
}

// filesFrom selects the files of a table from number $2 of transaction $1 on up to transaction $3, at most $4.
func filesFrom(table, trash string) string {
	return "SELECT * FROM (SELECT tx_id, seq, object_id, path, by_path, dir, " + trash + " AS trash FROM " + table +
		" WHERE (tx_id, seq) >= ($1, $2) AND tx_id <= $3 ORDER BY tx_id, seq LIMIT $4) AS " + table + "s"
}

var (
	longFiles = `SELECT f.tx_id, f.seq, f.object_id, f.trash, f.path, f.by_path, f.dir IS NOT NULL, ` + record.NameColumn + " FROM (" +
		filesFrom("tx_file", "0") + " UNION ALL " + filesFrom("trash_file", "1") + `) AS f
		LEFT JOIN object o ON o.id = f.object_id ORDER BY f.tx_id, f.seq LIMIT $4`
	lastDirs     = engine.Over("tx_id number", "SELECT d.tx_id, max(d.no) FROM {k} JOIN tx_dir d ON d.tx_id = k.tx_id GROUP BY d.tx_id")
	shortenFiles = engine.Over("tx_id number, seq number, object_id number, path text, dir number", `UPDATE tx_file
		SET path = k.path, dir = k.dir FROM {k} WHERE tx_file.object_id = k.object_id AND tx_file.tx_id = k.tx_id AND tx_file.seq = k.seq`)
	shortenTrash = engine.Over("tx_id number, seq number, object_id number, path text, dir number", `UPDATE trash_file
		SET path = k.path, dir = k.dir FROM {k} WHERE trash_file.tx_id = k.tx_id AND trash_file.seq = k.seq`)
)

// readFiles reads the next files. The last transaction is left to the next part unless it is the only one.
func (p *longPart) readFiles(rows record.Rows, batch int) error {
	l := p.next
	if err := rows(longFiles, []any{l.tx, l.seq, l.lastTx, batch}, func(scan engine.Scan) error {
		var f longFile
		var path string
		var name sql.NullString
		var by int
		var trash int64
		var short bool
		if err := scan(&f.tx, &f.seq, &f.object, &trash, &path, &by, &short, &name); err != nil {
			return err
		}
		f.trash = trash == 1
		// An older version may have freed an object in the trash. PostgreSQL has paths with this character in another form.
		if !short && name.Valid && !strings.Contains(path, "\x01") {
			f.dir, f.rest = pathInDir(path, name.String, by)
		}
		p.files = append(p.files, f)
		return nil
	}); err != nil {
		return err
	}
	n := len(p.files)
	if n < batch {
		p.next.tx, p.next.seq = l.lastTx+1, 0
		return nil
	}
	last := p.files[n-1]
	p.next.tx, p.next.seq = last.tx, last.seq+1
	if p.files[0].tx != last.tx {
		p.next.seq = 0
		for p.files[n-1].tx == last.tx {
			n--
		}
		p.files = p.files[:n]
	}
	return nil
}

// shortenFiles makes the rows of the files short.
func (p *longPart) shortenFiles(w *engine.Write) error {
	var transactions []int64
	by := make(map[int64][]longFile)
	for _, f := range p.files {
		if by[f.tx] == nil {
			transactions = append(transactions, f.tx)
		}
		by[f.tx] = append(by[f.tx], f)
	}
	last := make(map[int64]int64)
	if err := w.EachOver(lastDirs, engine.Numbers(transactions), nil, func(scan engine.Scan) error {
		var tx, no int64
		err := scan(&tx, &no)
		last[tx] = no
		return err
	}); err != nil {
		return err
	}
	var rows, files, trash [][]any
	for _, tx := range transactions {
		some := by[tx]
		dirs := make([]string, len(some))
		for i, f := range some {
			dirs[i] = f.dir
		}
		list, of := numberDirs(dirs)
		for n, d := range list {
			rows = append(rows, []any{tx, last[tx] + int64(n) + 1, d.path, some[d.first].seq, some[d.last].seq})
		}
		for i, n := range of {
			if n < 0 {
				continue
			}
			f := some[i]
			row := []any{f.tx, f.seq, f.object, f.rest, last[tx] + int64(n) + 1}
			if f.trash {
				trash = append(trash, row)
			} else {
				files = append(files, row)
			}
		}
	}
	if _, err := w.ExecOver(putDirs, rows); err != nil {
		return err
	}
	if _, err := w.ExecOver(shortenFiles, files); err != nil {
		return err
	}
	_, err := w.ExecOver(shortenTrash, trash)
	return err
}
