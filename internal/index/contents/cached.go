package contents

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// CachedFiles is the part of the index for files downloaded from upstreams.
type CachedFiles struct{ contents Contents }

// NewCachedFiles returns the downloaded files among contents.
func NewCachedFiles(contents Contents) CachedFiles { return CachedFiles{contents} }

// CachedFile is a file downloaded from an upstream. Callers see it like an added
// one, until it is evicted.
type CachedFile struct {
	Source string // the upstream's name
	Name   string // as the upstream spells it
	URL    string // its address, without secrets
	Tag    string // the upstream's entity tag, or empty
	Ref    blob.Ref
	Size   int64
	// Signature is the IMA signature of the content in hex, or empty.
	Signature string
	// Fetched is the time of the download; zero means now.
	Fetched time.Time
	// Product is the product for the scope of callers; "" as for a transaction
	// without a product.
	Product string
	// Entries are the objects in the file, each with the file's Ref and Size.
	// Lookups return their Path, Archive and ModTime.
	Entries []record.Entry
	// Also, if not nil, is called in the same write, with the row of the upstream.
	Also func(w *engine.Write, tx int64) error
}

// Put adds a downloaded file, atomically. If the upstream's file is already
// known, Put updates it: it adds the new entries, replaces the product by the given
// one, and counts the download as a use.
//
// check is called as by Commit.
func (cf CachedFiles) Put(ctx context.Context, f CachedFile, check func(ctx context.Context, refs []blob.Ref) error) error {
	const op = "add a downloaded file"
	err := validate(f.Entries)
	switch {
	case err != nil:
	case f.Source == "":
		err = errors.New("a downloaded file without an upstream")
	case slices.ContainsFunc(f.Entries, func(e record.Entry) bool { return e.Ref != f.Ref || e.Size != f.Size }):
		err = errors.New("an object of a downloaded file has a different content")
	}
	if err != nil {
		return cf.contents.db.Fail(op, err)
	}
	if f.Fetched.IsZero() {
		f.Fetched = cf.contents.db.Now()
	}
	return cf.contents.db.Update(ctx, op, func(w *engine.Write) error {
		if check != nil && !cf.contents.Placed {
			if err := check(ctx, []blob.Ref{f.Ref}); err != nil {
				return err
			}
		}
		c := Commit{Write: w, Now: cf.contents.db.Now(), Placed: cf.contents.Placed, unpack: true}
		if err := c.cached(f); err != nil {
			return fmt.Errorf("%s of %s: %w", f.Name, f.Source, err)
		}
		if err := record.NextGeneration(c.Write); err != nil {
			return err
		}
		return c.count()
	})
}

// MadeFile is a file that was made of files which the index does not list: of files in place. Like
// a downloaded one, it can be evicted and made again.
type MadeFile struct {
	// Maker is the source, and names a product which no grant can name: a caller sees the file if
	// and only if the caller sees the files of which it was made.
	Maker string
	Name  string
	Kind  symfile.Kind
	// IDs are the ids under which the file is found again, in the role Other. No path has them.
	IDs  []string
	Ref  blob.Ref
	Size int64
	Made time.Time
}

// PutMade adds a made file as Put adds a downloaded one.
func (cf CachedFiles) PutMade(ctx context.Context, f MadeFile, check func(ctx context.Context, refs []blob.Ref) error) error {
	entry := record.Entry{
		Object: symfile.Object{Kind: f.Kind, Role: symfile.Other, Name: f.Name}, Ref: f.Ref, Size: f.Size, Path: f.Name, ModTime: f.Made,
	}
	for _, id := range f.IDs {
		entry.Aliases = append(entry.Aliases, symfile.Alias{Name: symfile.Fold(f.Name), ID: id, Role: symfile.Other})
	}
	return cf.Put(ctx, CachedFile{
		Source: f.Maker, Product: "\x01" + f.Maker, Name: f.Name, Ref: f.Ref, Size: f.Size, Fetched: f.Made,
		Entries: []record.Entry{entry},
	}, check)
}

// cached writes the rows of a downloaded file.
func (c *Commit) cached(f CachedFile) error {
	product, err := productID(c.Write, f.Product)
	if err != nil {
		return err
	}
	tx, err := c.upstreamTx(engine.Text(f.Source), product)
	if err != nil {
		return err
	}
	content, err := c.content(record.Content{Ref: f.Ref, Size: f.Size})
	if err != nil {
		return err
	}
	stored, err := c.storeObjects(f.Entries, map[blob.Ref]int64{f.Ref: content})
	if err != nil {
		return err
	}
	if f.Signature != "" {
		if err := c.storeSignatures(addSignatures, map[int64]string{content: engine.Text(f.Signature)}); err != nil {
			return err
		}
	}
	objects := make([]int64, len(stored))
	var old []int64 // objects that were there before
	for i, o := range stored {
		objects[i] = o.id
		if o.known {
			old = append(old, o.id)
		}
	}
	if err := c.lateOnes(old, product); err != nil {
		return err
	}
	if err := c.cachedEntries(f, objects, tx, product); err != nil {
		return err
	}
	args := []any{content, tx, engine.Text(f.Name), engine.Text(f.URL), engine.Text(f.Tag), f.Fetched.UnixMilli()}
	n, err := c.Exec("UPDATE cached SET name = $3, url = $4, tag = $5, fetched = $6, used = "+engine.Larger("used", "$6")+" "+
		"WHERE content_id = $1 AND tx_id = $2", args...)
	if err == nil && n == 0 {
		if _, err = c.Exec("INSERT INTO cached (content_id, tx_id, name, url, tag, fetched, used) VALUES ($1, $2, $3, $4, $5, $6, $6)",
			args...); err == nil {
			_, err = c.Exec("UPDATE tx SET files = files + 1, bytes = bytes + $2 WHERE id = $1", tx, f.Size)
		}
	}
	if err != nil {
		return err
	}
	// The upstream may have had a different product before.
	others, err := c.IDs("SELECT c.tx_id FROM cached c JOIN tx t ON t.id = c.tx_id "+
		"WHERE c.content_id = $1 AND t.source = $2 AND t.id <> $3", content, engine.Text(f.Source), tx)
	if err != nil {
		return err
	}
	rows := make([]cachedRow, len(others))
	for i, o := range others {
		rows[i] = cachedRow{content, f.Size, o}
	}
	if err := deleteCached(c.Write, rows, c.Now); err != nil || f.Also == nil {
		return err
	}
	return f.Also(c.Write, tx)
}

// lateOnes notes those of the objects that the product does not have. A filter reads
// the keys of new objects and of new transactions, and these are neither.
func (c *Commit) lateOnes(objects []int64, product int64) error {
	list, err := c.ReadNumbers(notSeen, engine.Numbers(objects), product)
	c.Late = append(c.Late, list...)
	return err
}

var notSeen = engine.Over("id number",
	"SELECT k.id FROM {k} WHERE NOT EXISTS (SELECT 1 FROM seen WHERE object_id = k.id AND product_id = $2)")

// cachedEntries writes the files of the objects of a downloaded file, and makes the
// objects visible. If several entries are one object, the last one describes it.
func (c *Commit) cachedEntries(f CachedFile, objects []int64, tx, product int64) error {
	var files, missing [][]any
	var visible []int64
	last := make(map[int64]int, len(objects))
	for i, o := range objects {
		last[o] = i
	}
	for i, e := range f.Entries {
		if last[objects[i]] == i {
			files = append(files, []any{objects[i], tx, engine.Text(e.Path), engine.Text(e.Archive),
				f.Fetched.UnixMilli(), engine.Millis(e.ModTime)})
			visible = append(visible, objects[i])
		}
	}
	changed, err := c.Many("UPDATE tx_file SET path = $3, archive = $4, mtime = $5, own_mtime = $6 WHERE object_id = $1 AND tx_id = $2", files)
	if err != nil {
		return err
	}
	for i, n := range changed {
		if n == 0 {
			missing = append(missing, files[i])
		}
	}
	// The path at an upstream is not searched for: by_path is 0.
	if _, err := c.Many(`INSERT INTO tx_file (tx_id, seq, object_id, path, archive, mtime, by_path, own_mtime)
		SELECT $2, coalesce(max(seq), 0) + 1, $1, $3, $4, $5, 0, $6 FROM tx_file WHERE tx_id = $2`, missing); err != nil {
		return err
	}
	_, err = c.ExecOver(makeVisible, engine.Numbers(visible), product, tx)
	return err
}

// SourceTx returns the row, with a negative id, that represents a source of files, such as a watched folder, and a
// product. Files of the source itself need not be in the index.
func SourceTx(w *engine.Write, source, product string, now time.Time) (id int64, err error) {
	number, err := productID(w, product)
	if err != nil {
		return 0, err
	}
	return (&Commit{Write: w, Now: now}).upstreamTx(engine.Text(source), number)
}

// upstreamTx returns the row, with a negative id, that represents an upstream and
// a product.
func (c *Commit) upstreamTx(source string, product int64) (id int64, err error) {
	err = c.Row("SELECT id FROM tx WHERE source = $1 AND product_id = $2", []any{source, product}, &id)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	err = c.Row(`INSERT INTO tx (id, kind, product_id, version, comment, who, host, tool, time, files, bytes, source)
		SELECT CASE WHEN min(id) < 0 THEN min(id) ELSE 0 END - 1, 'cache', $2, '', '', '', '', '', $3, 0, 0, $1 FROM tx RETURNING id`,
		[]any{source, product, c.Now.UnixMilli()}, &id)
	return id, err
}

// cachedRow is a cached file: a content, its size, and the row of its upstream.
type cachedRow struct{ content, size, tx int64 }

var (
	cachedObjects = engine.Over("content_id number, tx_id number", `SELECT DISTINCT f.object_id, f.tx_id FROM {k} CROSS JOIN object o
		CROSS JOIN tx_file f
		WHERE o.content_id = k.content_id AND f.object_id = o.id AND f.tx_id = k.tx_id`)
	dropFiles = engine.Over("object_id number, tx_id number",
		"DELETE FROM tx_file WHERE (object_id, tx_id) IN (SELECT k.object_id, k.tx_id FROM {k})")
	dropCached = engine.Over("content_id number, tx_id number",
		"DELETE FROM cached WHERE (content_id, tx_id) IN (SELECT k.content_id, k.tx_id FROM {k})")
)

// deleteCached removes downloaded files and hides their objects that nothing else makes
// visible.
func deleteCached(w *engine.Write, files []cachedRow, now time.Time) error {
	rows := make([][]any, len(files))
	type sum struct{ n, bytes int64 }
	sums := make(map[int64]sum)
	for i, f := range files {
		rows[i] = []any{f.content, f.tx}
		t := sums[f.tx]
		sums[f.tx] = sum{t.n + 1, t.bytes + f.size}
	}
	var objects [][]any
	if err := w.EachOver(cachedObjects, rows, nil, func(scan engine.Scan) error {
		var object, tx int64
		err := scan(&object, &tx)
		objects = append(objects, []any{object, tx})
		return err
	}); err != nil {
		return err
	}
	if _, err := w.ExecOver(dropFiles, objects); err != nil {
		return err
	}
	if err := updateVisibility(w, objects, now); err != nil {
		return err
	}
	if _, err := w.ExecOver(dropCached, rows); err != nil {
		return err
	}
	var fewer [][]any
	for tx, t := range sums {
		fewer = append(fewer, []any{tx, t.n, t.bytes})
	}
	_, err := w.Many("UPDATE tx SET files = files - $2, bytes = bytes - $3 WHERE id = $1", fewer)
	return err
}

// Touch records the last uses of downloaded files. It ignores other contents and
// times that are not later than the recorded ones. The generation does not
// change.
func (cf CachedFiles) Touch(ctx context.Context, used map[blob.Ref]time.Time) error {
	refs := make([]blob.Ref, 0, len(used))
	for r := range used {
		refs = append(refs, r)
	}
	for batch := range slices.Chunk(refs, engine.BatchRows) {
		if err := cf.contents.db.UpdateUnsynced(ctx, "record last uses", func(w *engine.Write) error {
			rows := make([][]any, len(batch))
			for i, r := range batch {
				rows[i] = []any{r[:], used[r].UnixMilli()}
			}
			_, err := w.Many("UPDATE cached SET used = $2 "+
				"WHERE content_id = (SELECT id FROM content WHERE "+record.IsContent+") AND used < $2", rows)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// CachedStats sums up the cached files of one upstream.
type CachedStats struct {
	Source string    `json:"upstream"`
	Files  int64     `json:"files"`
	Bytes  int64     `json:"bytes"`  // sum of the files' sizes, without derived contents
	Oldest time.Time `json:"oldest"` // last use of the least recently used file
}

// Stats returns the number and size of the cached files by upstream. It is
// cheap.
func (cf CachedFiles) Stats(ctx context.Context) ([]CachedStats, error) {
	list := []CachedStats{}
	err := cf.contents.db.Scans.Each(ctx, true, `SELECT source, sum(files), sum(bytes), min(oldest) FROM
		(SELECT t.source, t.files, t.bytes, (SELECT min(c.used) FROM cached c WHERE c.tx_id = t.id) AS oldest FROM tx t
			WHERE t.id < 0 AND t.files > 0) AS s
		GROUP BY source ORDER BY source`, nil, func(scan engine.Scan) (bool, error) {
		var s CachedStats
		var oldest sql.NullInt64
		err := scan(&s.Source, &s.Files, &s.Bytes, &oldest)
		s.Oldest = engine.FromMillis(oldest)
		list = append(list, s)
		return true, err
	})
	return list, cf.contents.db.Fail("count cached files", err)
}

// CacheFilter selects cached files; the zero value selects all.
type CacheFilter struct {
	Source string // only from this upstream
	// UnusedSince, if not zero, excludes files used after it.
	UnusedSince time.Time
	// Name is a folded file name; * matches any text, ? one character.
	Name string
	// ID is a folded id, in any spelling that finds an object of the file.
	ID string
}

// Cached is a cached file.
type Cached struct {
	Source, Product string
	Name, URL, Tag  string
	Ref             blob.Ref
	Size            int64
	Fetched, Used   time.Time
}

// Evictable yields the cached files, least recently used first. A content from
// several upstreams is yielded once per upstream. Files that are used,
// downloaded or evicted meanwhile may or may not be included.
func (cf CachedFiles) Evictable(ctx context.Context, f CacheFilter) iter.Seq2[Cached, error] {
	until := int64(1) << 62
	if !f.UnusedSince.IsZero() {
		until = f.UnusedSince.UnixMilli()
	}
	query := `SELECT c.content_id, c.tx_id, c.used, c.fetched, t.source, p.name, c.name, c.url, c.tag, k.sha256, k.size
		FROM cached c JOIN tx t ON t.id = c.tx_id JOIN product p ON p.id = t.product_id JOIN content k ON k.id = c.content_id
		WHERE c.used <= $1 AND (c.used, c.content_id, c.tx_id) > ($2, $3, $4)`
	more := []any{}
	and := func(cond, arg string) {
		more = append(more, arg)
		query += " AND " + strings.ReplaceAll(cond, "?", "$"+strconv.Itoa(5+len(more)))
	}
	if f.Source != "" {
		and("c.tx_id IN (SELECT id FROM tx WHERE source = ?)", f.Source)
	}
	if f.ID != "" {
		and("c.content_id IN (SELECT o.content_id FROM lookup l JOIN object o ON o.id = l.object_id WHERE l.id = ?)", f.ID)
	}
	query += " ORDER BY c.used, c.content_id, c.tx_id LIMIT $5"
	return func(yield func(Cached, error) bool) {
		used, content, tx := int64(-1)<<62, int64(0), int64(0)
		engine.Pages(ctx, cf.contents.db, func(c Cached, err error) bool {
			if err == nil && f.Name != "" && !glob.Match(f.Name, symfile.Fold(c.Name)) {
				return true
			}
			return yield(c, err)
		}, func(scan engine.Scan) (Cached, error) {
			var c Cached
			var ref []byte
			var fetched int64
			if err := scan(&content, &tx, &used, &fetched, &c.Source, &c.Product, &c.Name, &c.URL, &c.Tag, &ref, &c.Size); err != nil {
				return c, err
			}
			c.Used, c.Fetched = time.UnixMilli(used).UTC(), time.UnixMilli(fetched).UTC()
			return c, record.ScanRef(ref, &c.Ref)
		}, query, func() []any { return append([]any{until, used, content, tx, engine.PageRows}, more...) })
	}
}

// Evict removes the cached files with these contents, of all upstreams. Objects
// that no transaction holds are hidden immediately. A content without remaining
// references is removed with its rows and derived contents; deleteBlob is called
// for each of these, as by DropContents. Other contents are unaffected. Evict
// returns the number of removed files and the sum of their sizes, counted as in
// CachedStats.
//
// After a lookup, the bytes of a content may be missing when they are opened.
// Callers must then repeat the lookup.
func (cf CachedFiles) Evict(ctx context.Context, refs []blob.Ref, deleteBlob func(blob.Ref) error) (n int, bytes int64, err error) {
	return cf.evict(ctx, refs, "", deleteBlob)
}

// Drop evicts the files that the filter selects. With a Source it keeps files of
// other upstreams with the same content.
func (cf CachedFiles) Drop(ctx context.Context, f CacheFilter, deleteBlob func(blob.Ref) error) (n int, bytes int64, err error) {
	for {
		var refs []blob.Ref
		for c, err := range cf.Evictable(ctx, f) {
			if err != nil {
				return n, bytes, err
			}
			if refs = append(refs, c.Ref); len(refs) == engine.PageRows {
				break
			}
		}
		files, size, err := cf.evict(ctx, refs, f.Source, deleteBlob)
		n, bytes = n+files, bytes+size
		if err != nil || files == 0 {
			return n, bytes, err
		}
	}
}

func (cf CachedFiles) evict(ctx context.Context, refs []blob.Ref, source string, deleteBlob func(blob.Ref) error) (n int,
	bytes int64, err error) {
	for batch := range slices.Chunk(refs, cf.contents.dropBatch()) {
		var gone []dropped
		var files int
		var size int64
		err := cf.contents.db.Update(ctx, "evict", func(w *engine.Write) error {
			files, size = 0, 0
			now := cf.contents.db.Now()
			d := drop{Write: w, before: now.UnixMilli(), now: now}
			if files, size, err = d.evict(batch, engine.Text(source)); err != nil {
				return err
			}
			gone = d.gone
			if files == 0 {
				return nil
			}
			if err := record.NextGeneration(d.Write); err != nil {
				return err
			}
			return record.AddCounts(d.Write, -int64(len(d.gone)), -d.bytes, -d.objects, -d.lookups)
		})
		if err != nil {
			return n, bytes, err
		}
		n, bytes = n+files, bytes+size
		if err := cf.contents.deleteDropped(ctx, gone, deleteBlob); err != nil {
			return n, bytes, err
		}
	}
	return n, bytes, nil
}

var cachedWith = engine.Over("sha256 hash", `SELECT o.sha256, c.content_id, o.size, c.tx_id
	FROM content o JOIN cached c ON c.content_id = o.id JOIN tx t ON t.id = c.tx_id WHERE
	o.sha256 IN (SELECT k.sha256 FROM {k}) AND `+record.Head("o.sha256")+" IN (SELECT "+record.Head("k.sha256")+` FROM {k})
	AND ($2 = '' OR t.source = $2)`)

// evict removes the cached files with some contents, and drops those of the contents to
// which nothing else refers.
func (d *drop) evict(refs []blob.Ref, source string) (files int, bytes int64, err error) {
	var rows []cachedRow
	evicted := make(map[blob.Ref]bool)
	if err := d.EachOver(cachedWith, record.HashRows(refs), []any{source}, func(scan engine.Scan) error {
		var r cachedRow
		var sum []byte
		var ref blob.Ref
		if err := scan(&sum, &r.content, &r.size, &r.tx); err != nil {
			return err
		}
		err := record.ScanRef(sum, &ref)
		rows, evicted[ref] = append(rows, r), true
		bytes += r.size
		return err
	}); err != nil || len(rows) == 0 {
		return 0, 0, err
	}
	if err := deleteCached(d.Write, rows, d.now); err != nil {
		return 0, 0, err
	}
	_, err = d.contents(slices.DeleteFunc(slices.Clone(refs), func(r blob.Ref) bool { return !evicted[r] }))
	return len(rows), bytes, err
}
