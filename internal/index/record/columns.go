package record

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// ScanRef reads the hash of a content. The error is engine.ErrCorrupt if it is none.
func ScanRef(b []byte, r *blob.Ref) error {
	if len(b) != len(r) {
		return fmt.Errorf("%w: a content hash has %d bytes", engine.ErrCorrupt, len(b))
	}
	copy(r[:], b)
	return nil
}

// LastObject is the highest id that an object has ever had, in a query of state.
var LastObject = engine.Larger("last_object", "(SELECT coalesce(max(id), 0) FROM object)")

// TxSelect is a query of transactions, for ScanTx.
const TxSelect = `SELECT t.id, t.kind, p.name, t.version, t.comment, t.who, t.host, t.tool, t.time, t.files, t.bytes,
 t.origin_store, t.origin_number, t.origin_time, t.deleted_at, t.branch, t.class, t.build, t.labels, t.arrived, t.collecting, t.trash_until
 FROM tx t JOIN product p ON p.id = t.product_id`

// ScanTx reads a row of TxSelect.
func ScanTx(scan engine.Scan) (Transaction, error) {
	var t Transaction
	var at int64
	var store, number, build, labels sql.NullString
	var otime, removed, arrived, collecting, trash sql.NullInt64
	err := scan(&t.Number, &t.Kind, &t.Product, &t.Version, &t.Comment, &t.Who, &t.Host, &t.Tool, &at, &t.Files, &t.Bytes,
		&store, &number, &otime, &removed, &t.Branch, &t.Class, &build, &labels, &arrived, &collecting, &trash)
	t.Arrived, t.Collecting, t.TrashUntil = engine.FromMillis(arrived), collecting.Int64 == 1, engine.FromMillis(trash)
	if json.Valid([]byte(build.String)) {
		t.Build = json.RawMessage(build.String)
	}
	if labels.Valid {
		_ = json.Unmarshal([]byte(labels.String), &t.Labels) // for people
	}
	t.Time, t.Removed = time.UnixMilli(at).UTC(), engine.FromMillis(removed)
	if store.Valid {
		t.Origin = &Origin{store.String, number.String, engine.FromMillis(otime)}
	}
	return t, err
}

// ShowTx returns a transaction, removed or not.
func ShowTx(ctx context.Context, db *engine.Database, number int64) (t Transaction, err error) {
	err = db.Scans.Each(ctx, true, TxSelect+" WHERE t.id = $1 AND t.id > 0", []any{number}, func(scan engine.Scan) (more bool, err error) {
		t, err = ScanTx(scan)
		return false, err
	})
	if err == nil && t.Number == 0 {
		err = fmt.Errorf("build %d: %w", number, fs.ErrNotExist)
	}
	return t, db.Fail("show", err)
}

// FileColumns are the columns that scanStored reads after objectColumns, of file
// f and transaction t.
const FileColumns = `f.tx_id, CASE WHEN f.tx_id < 0 THEN f.mtime ELSE t.time END, CASE WHEN f.tx_id < 0 THEN f.own_mtime ELSE f.mtime END,
 ` + PathColumn + `, f.archive, coalesce(t.source, ''), ` + onlyTry

// ClassTry is the class of transactions of try builds: their objects are answers only if
// no other transaction has one.
const ClassTry = "try"

// onlyTry reports whether all transactions that hold the object are of the class try.
const onlyTry = `(t.class = '` + ClassTry + `' AND NOT EXISTS (SELECT 1 FROM tx_file other JOIN tx holder ON holder.id = other.tx_id
 WHERE other.object_id = f.object_id AND holder.id > 0 AND holder.class <> '` + ClassTry + `'))`

// ScanStored reads objectColumns and fileColumns into s, and the columns after
// them into more.
func ScanStored(scan engine.Scan, s *Stored, more ...any) error {
	var added int64
	var own sql.NullInt64
	if err := ScanObject(scan, s, append([]any{&s.Number, &added, &own, &s.Path, &s.Archive, &s.Source, &s.Try}, more...)...); err != nil {
		return err
	}
	s.Added, s.ModTime = time.UnixMilli(added).UTC(), engine.FromMillis(own)
	s.Number = max(s.Number, 0)
	return nil
}

// Flags in the object table. Never renumber them.
const (
	flagNoDBI = 1 << iota
	flagCompanion
	flagMain
)

// ObjectColumns are the columns that ScanObject reads, of object o and content
// c.
const ObjectColumns = `o.id, o.content_id, o.kind, o.role, ` + NameColumn + `, o.code_name, o.code_id, o.debug_id, o.info_age, o.build_id,
 o.of_kind, o.flags, o.version, o.hash, o.arch, o.features, o.debug_size, o.ident, c.sha256, c.size`

// ScanObject reads objectColumns into s, and the columns after them into more.
func ScanObject(scan engine.Scan, s *Stored, more ...any) error {
	o := &s.Object
	var c Compact
	var flags int
	ref := []byte(nil)
	dest := [21]any{&s.id, &s.contentID, &o.Kind, &o.Role, &o.Name, &o.CodeName, &c.CodeID, &c.DebugID, &o.InfoAge, &c.BuildID,
		&o.Of, &flags, &o.Version, &o.Hash, &c.Arch, &c.Features, &s.DebugSize, &c.Ident, &ref, &s.Size}
	if err := scan(append(dest[:20:20], more...)...); err != nil {
		return err
	}
	if err := c.expand(s); err != nil {
		return err
	}
	o.NoDBI, o.DebugCompanion, o.Main = flags&flagNoDBI != 0, flags&flagCompanion != 0, flags&flagMain != 0
	return ScanRef(ref, &s.Ref)
}

// ObjectFlags returns what an object lacks or has as the bits of a row.
func ObjectFlags(o symfile.Object) int {
	f := 0
	if o.NoDBI {
		f |= flagNoDBI
	}
	if o.DebugCompanion {
		f |= flagCompanion
	}
	if o.Main {
		f |= flagMain
	}
	return f
}

// StoredContents selects the contents whose bytes are stored as they are: all but cold
// ones, whose cold files are contents themselves.
const StoredContents = `SELECT c.id, c.sha256, c.size FROM content c WHERE c.id > $1
	AND NOT EXISTS (SELECT 1 FROM cold k WHERE k.content_id = c.id AND k.plain_since IS NULL) ORDER BY c.id LIMIT $2`

// secondsEnd is a value of content.added: smaller ones are seconds since 1970, others are milliseconds.
const secondsEnd = "100000000000"

// AddedColumn is the time in milliseconds at which content c was first added. From a floor on it is stored in seconds.
const AddedColumn = "CASE WHEN c.added < " + secondsEnd + " THEN c.added * 1000 ELSE c.added END"

// AddedSeconds is what is stored of a time in milliseconds.
func AddedSeconds(millis string) string {
	return "CASE WHEN " + millis + " < " + secondsEnd + " THEN " + millis + " ELSE " + millis + " / 1000 END"
}

// AddedNow is what is stored of a time in milliseconds in the index of a write.
func AddedNow(millis string) string {
	return "CASE WHEN (SELECT format_floor FROM state WHERE one = 1) < " + strconv.Itoa(SecondsFormat) + " THEN " +
		millis + " ELSE " + millis + " / 1000 END"
}

// SecondsFormat is the floor of an index from which on content.added is in seconds.
const SecondsFormat = 11

// MaxRows limits the rows that one lookup reads; keys of newer objects are read first.
const MaxRows = 256
