package index

import (
	"bufio"
	"crypto/sha3"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/symfile"
)

// hugeTx is the number of files in a transaction of the huge index.
const hugeTx = 5000

// hugeEntry is object n/2 of the huge index: as figureEntry, with hashes that SQL can make too. Odd numbers are absent.
func hugeEntry(n int) record.Entry {
	i := n/2 + 1
	if n%2 == 1 {
		i += 1 << 40
	}
	k := sha3.Sum256(fmt.Appendf(nil, "k%d", i))
	var g debugid.GUID
	copy(g[:], k[:])
	o := symfile.Object{Role: symfile.Debug, Name: fmt.Sprintf("Module%d.pdb", i%100000), Kind: symfile.PDB, DebugID: debugid.ID{GUID: g, Age: 1}, InfoAge: 2}
	if i%2 == 0 {
		id := debugid.BuildID(fmt.Sprintf("%x", k[:20]))
		o = symfile.Object{Role: symfile.Debug | symfile.Executable, Name: fmt.Sprintf("libmodule%d.so", i%100000), Kind: symfile.ELF,
			BuildID: id, CodeID: string(id), DebugID: id.DebugID(true)}
	}
	return record.Entry{Object: o, Arch: "x86_64", Features: []string{"debug", "symtab"}, Ref: sha3.Sum256(fmt.Appendf(nil, "c%d", i)), Size: int64(1000 + i),
		Aliases: o.Aliases(), Path: fmt.Sprintf("/builds/product/%d/bin/%s", (i-1)/hugeTx+1, o.Name)}
}

func childHuge(path string, arg int) error {
	figure = hugeEntry
	return childFigures(path, arg)
}

// hugeRows is a script for the SQLite shell that inserts the rows of the objects from one on up to another, without
// their keys.
func hugeRows(from, to int) string {
	series := fmt.Sprintf("generate_series(%d, %d)", from, to)
	entries := [2]record.Entry{hugeEntry(2), hugeEntry(0)}
	// pick takes a text or a number of the object: even objects are ELF files, odd ones PDBs.
	pick := func(of func(o symfile.Object, c record.Compact) any) string {
		var v [2]any
		for i, e := range entries {
			v[i] = of(e.Object, record.Short(e.Object, e.Arch, e.Features))
			if text, is := v[i].(string); is {
				v[i] = "'" + text + "'"
			}
		}
		return fmt.Sprintf("CASE value %% 2 WHEN 0 THEN %v ELSE %v END", v[0], v[1])
	}
	columns := strings.Join([]string{"value", "value",
		pick(func(o symfile.Object, _ record.Compact) any { return record.ShortName(o.Name, symfile.Fold(o.Name)) }),
		pick(func(o symfile.Object, _ record.Compact) any { return int(o.Kind) }),
		"CASE value % 2 WHEN 0 THEN 'libmodule' || (value % 100000) || '.so' ELSE 'module' || (value % 100000) || '.pdb' END",
		pick(func(o symfile.Object, _ record.Compact) any { return int(o.Role) }), "''",
		pick(func(_ symfile.Object, c record.Compact) any { return c.CodeID }),
		pick(func(_ symfile.Object, c record.Compact) any { return c.DebugID }),
		pick(func(o symfile.Object, _ record.Compact) any { return int(o.InfoAge) }),
		pick(func(_ symfile.Object, c record.Compact) any { return c.BuildID }), "0", "0", "0", "''",
		pick(func(_ symfile.Object, c record.Compact) any { return c.Arch }),
		pick(func(_ symfile.Object, c record.Compact) any { return c.Features }), "0",
		"substr(sha3('k' || value, 256), 1, " + pick(func(_ symfile.Object, c record.Compact) any { return len(c.Ident) }) + ")"}, ", ")
	return fmt.Sprintf(`INSERT INTO content (id, sha256, size, added) SELECT value, sha3('c' || value, 256), 1000 + value, 1700000000 FROM %[1]s;
INSERT INTO object (id, content_id, name, kind, name_fold, role, code_name, code_id, debug_id, info_age, build_id, of_kind, flags,
  version, hash, arch, features, debug_size, ident) SELECT %[2]s FROM %[1]s;
INSERT INTO tx_file (object_id, tx_id, seq, path, archive, mtime, by_path, dir)
SELECT value, (value - 1) / %[3]d + 1, (value - 1) %% %[3]d + 1, '', '', NULL, CASE value %% 2 WHEN 0 THEN 1 ELSE 0 END, 1 FROM %[1]s;
INSERT INTO seen (object_id, product_id, tx_id) SELECT value, 1, (value - 1) / %[3]d + 1 FROM %[1]s;
`, series, columns, hugeTx)
}

// hugeLater are the indexes and triggers that are made when all rows are there.
var hugeLater = []string{"object_name", "content_by_head", "content_by_size", "tx_file_order", "tx_file_path", "seen_product", "list_object", "list_seen", "unlist_object"}

// buildHuge makes an index of old keys in a file.
func buildHuge(t *testing.T, shell, path string, objects int) {
	t.Helper()
	start := time.Now()
	step := func(what string) { t.Logf("%6.0f s: %s", time.Since(start).Seconds(), what) }
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	later := ""
	drop := ""
	for _, name := range hugeLater {
		var kind, text string
		if err := db.base.Scans.Row(t.Context(), "SELECT type, sql FROM sqlite_schema WHERE name = $1", []any{name}, &kind, &text); err != nil {
			t.Fatal(err)
		}
		drop += "DROP " + kind + " " + name + ";\n"
		later += text + ";\n"
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	script, err := os.CreateTemp(filepath.Dir(path), "huge-*.sql")
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(script.Name())
	w := bufio.NewWriter(script)
	_, _ = fmt.Fprintf(w, "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -1500000; PRAGMA threads = 2;\nBEGIN;\n%s", drop)
	transactions := (objects + hugeTx - 1) / hugeTx
	_, _ = fmt.Fprintf(w, `INSERT INTO product (id, name) VALUES (1, 'product');
INSERT INTO tx (id, kind, product_id, version, comment, who, host, tool, time, files, bytes, arrived)
SELECT value, 'add', 1, value, '', 'ci', '', '', 1700000000000 + value, %d, 0, 1700000000000 + value FROM generate_series(1, %d);
INSERT INTO tx_dir (tx_id, no, path, first, last)
SELECT value, 1, '/builds/product/' || value || '/bin/', 1, %d FROM generate_series(1, %d);
`, hugeTx, transactions, hugeTx, transactions)
	const part = 1_000_000
	for from := 1; from <= objects; from += part {
		_, _ = io.WriteString(w, hugeRows(from, min(objects, from+part-1)))
	}
	_, _ = fmt.Fprintf(w, `%s INSERT INTO listed_name (product_id, name) SELECT p, name FROM (SELECT DISTINCT name_fold AS name FROM object) CROSS JOIN (SELECT 0 AS p UNION ALL SELECT 1);
UPDATE tx SET files = (SELECT count(*) FROM tx_file f WHERE f.tx_id = tx.id), bytes = (SELECT sum(c.size) FROM tx_file f JOIN content c ON c.id = f.object_id WHERE f.tx_id = tx.id);
UPDATE state SET last_tx = %d, generation = generation + 1, contents = %d, bytes = (SELECT sum(size) FROM content), objects = %d, last_object = %d;
COMMIT; PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = WAL;
`, later, transactions, objects, objects, objects)
	if err := errors.Join(w.Flush(), script.Close()); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), shell, "-bail", path)
	c.Env = append(os.Environ(), "SQLITE_TMPDIR="+filepath.Dir(path))
	if c.Stdin, err = os.Open(script.Name()); err != nil {
		t.Fatal(err)
	}
	var keys int64
	var wg sync.WaitGroup
	dir := t.TempDir()
	wg.Go(func() {
		n, err := spoolHuge(dir, objects)
		if err != nil {
			t.Error(err)
		}
		keys = n
		step("keys made")
	})
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	step("rows written")
	wg.Wait()
	if db, err = Open(t.Context(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := packHuge(t, db, dir); err != nil {
		t.Fatal(err)
	}
	if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
		_, err := w.Exec("UPDATE state SET lookups = $1", keys)
		if err == nil {
			_, err = w.Exec("UPDATE old_keys SET last_object = $1, begins = 0", objects)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	step(fmt.Sprintf("%d keys packed", keys))
	for n := 0; n < 2*objects; n += max(2, objects/50*2) {
		e := hugeEntry(n)
		hits, err := db.Lookup(t.Context(), all, symfile.Lookup{ID: e.Aliases[0].ID, Role: symfile.AnyRole})
		if err != nil || len(hits) != 1 {
			t.Fatalf("object %d: %d hits, %v", n/2, len(hits), err)
		}
		if h := hits[0]; h.Object != e.Object || h.Arch != e.Arch || !slices.Equal(h.Features, e.Features) || h.Ref != e.Ref || h.Path != e.Path {
			t.Fatalf("object %d is %+v, want %+v", n/2, h, e)
		}
	}
}

const hugeParts = 256

// spoolHuge writes the keys of all objects into files by the first two digits of their ids.
func spoolHuge(dir string, objects int) (keys int64, err error) {
	var files [hugeParts]*bufio.Writer
	for i := range files {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		files[i] = bufio.NewWriterSize(f, 64<<10)
	}
	var b []byte
	for i := range objects {
		for _, a := range hugeEntry(2 * i).Aliases {
			part, err := strconv.ParseUint(a.ID[:2], 16, 8)
			if err != nil {
				return 0, err
			}
			b = append(append(b[:0], byte(len(a.ID)), byte(a.Role)), a.ID...)
			b = binary.LittleEndian.AppendUint32(b, uint32(i+1))
			if _, err := files[part].Write(b); err != nil {
				return 0, err
			}
			keys++
		}
	}
	for _, w := range files {
		err = errors.Join(err, w.Flush())
	}
	return keys, err
}

// packHuge packs the keys of the files.
func packHuge(t *testing.T, db *DB, dir string) error {
	for i := range hugeParts {
		raw, err := os.ReadFile(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		_ = os.Remove(filepath.Join(dir, strconv.Itoa(i)))
		var keys []oldkeys.Key
		for len(raw) > 0 {
			n := int(raw[0])
			keys = append(keys, oldkeys.Key{ID: string(raw[2 : 2+n]), Own: true, Role: int64(raw[1]), Object: int64(binary.LittleEndian.Uint32(raw[2+n:]))})
			raw = raw[6+n:]
		}
		slices.SortFunc(keys, oldkeys.Compare)
		for some := range slices.Chunk(oldkeys.Blocks(keys, oldkeys.BitsFormat), engine.BatchRows) {
			rows := make([][]any, len(some))
			for i, b := range some {
				rows[i] = []any{b.First, b.Keys, b.Body}
			}
			if err := db.base.UpdateUnsynced(t.Context(), "test", func(w *engine.Write) error {
				_, err := w.Many("INSERT INTO old_key (first, keys, body) VALUES ($1, $2, $3)", rows)
				return err
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestBenchHuge measures an index of a hundred million keys, all old. SYMDEPOT_INDEX_KEYS sets another number, and
// SYMDEPOT_INDEX_FILE keeps the index in a file: where that is there already, it is measured and not built.
func TestBenchHuge(t *testing.T) {
	if os.Getenv("SYMDEPOT_BENCH") != "huge" {
		t.Skip("needs SYMDEPOT_BENCH=huge and 40 GB below TMPDIR: run scripts/bench huge")
	}
	shell := symtest.Tool(t, "sqlite3")
	keys := 100_000_000
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_INDEX_KEYS")); err == nil {
		keys = n
	}
	path := os.Getenv("SYMDEPOT_INDEX_FILE")
	if path == "" {
		path = filepath.Join(t.TempDir(), "index.db")
	}
	if _, err := os.Stat(path); err != nil {
		start := time.Now()
		buildHuge(t, shell, path, keys/2)
		t.Logf("built in %v", time.Since(start).Round(time.Second))
	}
	for _, what := range []string{"first process", "next process"} {
		c := child(t.Context(), "huge", path, keys/2)
		c.Env = append(c.Env, "SYMDEPOT_INDEX_LOOKUPS=200000", "SYMDEPOT_INDEX_FILTER=1")
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		var f figures
		if err := json.Unmarshal(out, &f); err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(path) // with the filter, which the first process stores
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d keys, %d MiB (%.1f bytes a key): open %v, lookup p50 %v p99 %v max %v, %d/s, resident %d MiB (peak %d), filter after %v, resident then %d MiB (peak %d)",
			what, f.Keys, fi.Size()>>20, float64(fi.Size())/float64(f.Keys), f.Open, f.P50, f.P99, f.Max, f.PerSecond, f.RSSAfter>>10, f.RSSMax>>10,
			f.Filter, f.RSSFilter>>10, f.RSSFilterMax>>10)
	}
}
