package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
)

// maxProblems limits the rows that Check reports per kind of fault.
const maxProblems = 20

// faults are the checks of Check: each query returns the ids of the faulty rows.
var faults = []struct{ what, query string }{
	{"object %s has no content", "SELECT o.id FROM object o LEFT JOIN content c ON c.id = o.content_id WHERE c.id IS NULL"},
	{"key %s belongs to no object", "SELECT l.id || ' of ' || l.name FROM lookup l LEFT JOIN object o ON o.id = l.object_id " +
		"WHERE o.id IS NULL"},
	{"a file of build %s has no object", "SELECT f.tx_id FROM tx_file f LEFT JOIN object o ON o.id = f.object_id WHERE o.id IS NULL"},
	{"there are files of build %s, which does not exist or was removed",
		"SELECT DISTINCT f.tx_id FROM tx_file f LEFT JOIN tx t ON t.id = f.tx_id WHERE t.id IS NULL OR t.deleted_at IS NOT NULL"},
	{"the files of build %s differ in number or size from its counters", `SELECT t.id FROM tx t
		LEFT JOIN (SELECT f.tx_id, count(*) AS files, sum(c.size) AS bytes
		FROM tx_file f JOIN object o ON o.id = f.object_id JOIN content c ON c.id = o.content_id GROUP BY f.tx_id) n ON n.tx_id = t.id
		WHERE t.id > 0 AND t.deleted_at IS NULL AND (n.files IS NULL OR n.files <> t.files OR n.bytes <> t.bytes)`},
	{"object %s is not visible through the newest build that holds it", `SELECT f.object_id FROM tx_file f JOIN tx t ON t.id = f.tx_id
		LEFT JOIN seen s ON s.object_id = f.object_id AND s.product_id = t.product_id
		GROUP BY f.object_id, t.product_id HAVING max(s.tx_id) IS NULL OR max(s.tx_id) <> max(f.tx_id)`},
	{"object %s is visible without a build", `SELECT s.object_id FROM seen s WHERE NOT EXISTS
		(SELECT 1 FROM tx_file f JOIN tx t ON t.id = f.tx_id
			WHERE f.object_id = s.object_id AND f.tx_id = s.tx_id AND t.product_id = s.product_id)`},
	{"content %s has the hash of another one", "SELECT c.id FROM content c WHERE EXISTS (SELECT 1 FROM content o WHERE o.id < c.id AND " +
		record.HashIs("o.sha256", "c.sha256") + ")"},
	{"content %s is marked as unreferenced but has references",
		"SELECT c.id FROM content c WHERE c.unreferenced_since IS NOT NULL AND " + contents.Referenced},
	{"content %s has no references but is not marked as unreferenced",
		"SELECT c.id FROM content c WHERE c.unreferenced_since IS NULL AND NOT " + contents.Referenced},
	{"the build numbers do not end with the last assigned number %s",
		"SELECT last_tx FROM state WHERE last_tx <> (SELECT coalesce(max(id), 0) FROM tx WHERE id > 0) " +
			"OR last_tx <> (SELECT count(*) FROM tx WHERE id > 0)"},
	{"the counters are wrong: %s",
		`SELECT 'contents ' || contents || ', bytes ' || bytes || ', objects ' || objects || ', keys ' || lookups FROM state
		WHERE contents <> (SELECT count(*) FROM content) OR bytes <> (SELECT coalesce(sum(size), 0) FROM content)
		OR objects <> (SELECT count(*) FROM object)
		OR lookups <> (SELECT count(*) FROM lookup) + (SELECT coalesce(sum(keys), 0) FROM old_key)`},
	{"a packed key is of object %s, which is newer than those that may have some",
		"SELECT last_object FROM old_keys WHERE last_object > (SELECT last_object FROM state)"},
	{"the cached files of upstream %s differ in number or size from its counters", `SELECT t.source FROM tx t
		LEFT JOIN (SELECT c.tx_id, count(*) AS files, sum(k.size) AS bytes FROM cached c JOIN content k ON k.id = c.content_id
		GROUP BY c.tx_id) n ON n.tx_id = t.id
		WHERE t.id < 0 AND (coalesce(n.files, 0) <> t.files OR coalesce(n.bytes, 0) <> t.bytes)`},
	{"the number of build %s does not fit its upstream",
		"SELECT id FROM tx WHERE (id < 0) <> (source IS NOT NULL) OR id = 0 OR (id < 0 AND deleted_at IS NOT NULL)"},
	{"the cached content %s has no object", `SELECT c.content_id FROM cached c WHERE NOT EXISTS
		(SELECT 1 FROM object o JOIN tx_file f ON f.object_id = o.id WHERE o.content_id = c.content_id AND f.tx_id = c.tx_id)`},
	{"object %s is visible through an upstream without a cached file of its content", `SELECT f.object_id FROM tx_file f
		JOIN object o ON o.id = f.object_id
		WHERE f.tx_id < 0 AND (f.mtime IS NULL OR NOT EXISTS (SELECT 1 FROM cached c WHERE c.content_id = o.content_id AND c.tx_id = f.tx_id))`},
	{"object %s has a higher number than the last assigned one",
		"SELECT max(id) FROM object HAVING max(id) > (SELECT last_object FROM state)"},
	{"a row counter is wrong: %s", `SELECT name || ' ' || n FROM tally
		WHERE n <> CASE name WHEN 'miss' THEN (SELECT count(*) FROM miss) WHEN 'wanted' THEN (SELECT count(*) FROM wanted) END`},
	{"job %s has an invalid state, or one that does not fit its times", `SELECT id FROM job WHERE state NOT BETWEEN 1 AND 5
		OR (state = 2) <> (lease_until IS NOT NULL) OR (state > 2) <> (finished IS NOT NULL) OR state = 2 AND (token = '' OR started IS NULL)`},
	{"token %s has an invalid list of scopes or products",
		engine.Dialects("SELECT id FROM token WHERE NOT json_valid(scopes) OR products IS NOT NULL AND NOT json_valid(products)",
			"SELECT id FROM token WHERE jsonb_typeof(scopes::jsonb) <> 'array' OR jsonb_typeof(products::jsonb) NOT IN ('array', 'null')")},
	{"access token %s belongs to no login",
		"SELECT id FROM token t WHERE kind = 'access' AND NOT EXISTS (SELECT 1 FROM login l WHERE l.id = t.parent)"},
	{"cold content %s has no cold file", "SELECT k.content_id FROM cold k " +
		"WHERE NOT EXISTS (SELECT 1 FROM derived d WHERE d.source_id = k.content_id AND d.tool = 'cold' AND d.content_id IS NOT NULL)"},
	{"content %s has a cold file and is not cold",
		"SELECT d.source_id FROM derived d WHERE d.tool = 'cold' AND NOT EXISTS (SELECT 1 FROM cold k WHERE k.content_id = d.source_id)"},
	{"the base of the cold content %s needs a base itself",
		"SELECT k.content_id FROM cold k JOIN cold b ON b.content_id = k.base_id WHERE b.base_id IS NOT NULL"},
	{"there are files in the trash of build %s, which was not removed",
		"SELECT DISTINCT f.tx_id FROM trash_file f LEFT JOIN tx t ON t.id = f.tx_id WHERE t.deleted_at IS NULL"},
	{"the files of build %s in the trash differ in number from its counter", `SELECT t.id FROM tx t
		WHERE t.trash_until IS NOT NULL AND EXISTS (SELECT 1 FROM trash_file f WHERE f.tx_id = t.id)
		AND t.files <> (SELECT count(*) FROM trash_file f WHERE f.tx_id = t.id)`},
	{"the folder of a file of build %s is not there", `SELECT f.tx_id FROM (SELECT tx_id, seq, dir FROM tx_file UNION ALL
		SELECT tx_id, seq, dir FROM trash_file) AS f WHERE f.dir IS NOT NULL AND NOT EXISTS
		(SELECT 1 FROM tx_dir d WHERE d.tx_id = f.tx_id AND d.no = f.dir AND f.seq BETWEEN d.first AND d.last)`},
	{"there are folders of build %s, which has no files", `SELECT DISTINCT d.tx_id FROM tx_dir d
		WHERE NOT EXISTS (SELECT 1 FROM tx_file f WHERE f.tx_id = d.tx_id) AND NOT EXISTS (SELECT 1 FROM trash_file f WHERE f.tx_id = d.tx_id)`},
	{"object %s has a short id and not what it stands for", `SELECT id FROM object WHERE CASE WHEN ident IS NULL
		THEN build_id = '=' OR length(debug_id) = 1 ELSE length(ident) < 16 END`},
	{"place %s is doomed and in use", "SELECT d.place FROM doomed d JOIN content c ON c.place = d.place " +
		"UNION ALL SELECT d.place FROM doomed d JOIN upload u ON u.place = d.place"},
	{"place %s is the upload of a stored content", "SELECT u.place FROM upload u JOIN content c ON c.place = u.place"},
	{"there are %s rows of counters instead of one", "SELECT count(*) FROM state HAVING count(*) <> 1"},
}

// Check reads the whole index in one snapshot and describes its faults: those
// that the database's own check finds, broken foreign keys, and rows that
// contradict each other. The error is nil unless the check could not be carried
// out.
func (db *DB) Check(ctx context.Context) ([]string, error) {
	problems, err := db.check(ctx)
	if errors.Is(db.base.Classify(err), engine.ErrCorrupt) {
		return append(problems, err.Error()), nil
	}
	return problems, db.base.Fail("check", err)
}

func (db *DB) check(ctx context.Context) (problems []string, err error) {
	err = db.base.Snapshot(ctx, func(r engine.Reader) error {
		problems, err = db.base.Integrity(ctx, r)
		if err != nil {
			return err
		}
		add := func(format string, v ...any) { problems = append(problems, fmt.Sprintf(format, v...)) }
		for _, f := range faults {
			rows, err := engine.Column(ctx, r, f.query, maxProblems+1)
			if err != nil {
				return err
			}
			for i, row := range rows {
				if i == maxProblems {
					add("and more of the same kind")
					break
				}
				add(f.what, row)
			}
		}
		return checkKeys(ctx, r, add)
	})
	return problems, err
}

// checkKeys checks that each object has a key, as a row or packed, and that each packed key is of an object from
// which it is found.
func checkKeys(ctx context.Context, r engine.Reader, add func(format string, v ...any)) error {
	var with []uint64 // a bit for each object that has a packed key: there may be very many
	has := func(id int64) bool { return id>>6 < int64(len(with)) && with[id>>6]>>(id&63)&1 == 1 }
	var last oldkeys.Key
	faults := 0
	fault := func(format string, v ...any) {
		if faults++; faults <= maxProblems {
			add(format, v...)
		} else if faults == maxProblems+1 {
			add("and more of the same kind")
		}
	}
	for first, more := "", true; more; {
		more = false
		var keys []oldkeys.Key
		if err := r.Each(ctx, true, oldkeys.Page, []any{first}, func(scan engine.Scan) (bool, error) {
			name, some, err := oldkeys.ScanPage(scan)
			first, more, keys = name, true, append(keys, some...)
			return true, err
		}); oldkeys.IsDamaged(err) {
			fault("%v", err)
			return nil
		} else if err != nil {
			return err
		}
		ids := make([]int64, len(keys))
		for i, k := range keys {
			ids[i] = k.Object
		}
		objects := make(map[int64]oldkeys.Object, len(ids))
		for _, cond := range oldkeys.Among("o.id", ids) {
			if err := r.Each(ctx, false, "SELECT "+oldkeys.ObjectColumns+" FROM object o WHERE "+cond, nil, func(scan engine.Scan) (bool, error) {
				o, err := oldkeys.ScanObject(scan)
				objects[o.ID] = o
				return true, err
			}); err != nil {
				return err
			}
		}
		for _, k := range keys {
			o, is := objects[k.Object]
			switch {
			case k.ID < last.ID:
				fault("packed key %s is not in its place", k.ID)
			case !is:
				fault("packed key %s belongs to no object", k.ID)
			case !o.Finds(k.ID):
				fault("packed key %s of object %d does not follow from it", k.ID, o.ID)
			}
			last = k
			for is && o.ID>>6 >= int64(len(with)) {
				with = append(with, 0)
			}
			if is {
				with[o.ID>>6] |= 1 << (o.ID & 63)
			}
		}
	}
	faults = 0
	return r.Each(ctx, false, "SELECT o.id FROM object o WHERE NOT EXISTS (SELECT 1 FROM lookup l WHERE l.object_id = o.id)", nil,
		func(scan engine.Scan) (bool, error) {
			var id int64
			err := scan(&id)
			if !has(id) {
				fault("object %d has no key", id)
			}
			return true, err
		})
}
