package index

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/stages"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// beforeHeads are the steps up to the last one at which contents have an index of whole hashes.
func beforeHeads(t testing.TB) []engine.Migration {
	if strings.Contains(t.Name(), "/postgres") {
		return postgresMigrations[:oldkeys.BitsFormat-1]
	}
	return migrations[:oldkeys.BitsFormat-1]
}

// headsOf returns the table of the index of beginnings, and whether anything of the copying is left.
func headsOf(t testing.TB, db *DB) (table string, old bool) {
	t.Helper()
	if err := db.base.Scans.Row(t.Context(), `SELECT coalesce((SELECT tbl_name FROM sqlite_schema WHERE name = 'content_by_head'), ''),
		EXISTS (SELECT 1 FROM sqlite_schema WHERE name IN ('content_old', 'content_copied', 'content_copy')
		OR type = 'trigger' AND name LIKE 'copy!_%' ESCAPE '!')`, nil, &table, &old); err != nil {
		t.Fatal(err)
	}
	return table, old
}

// finishHeads copies all contents and rewrites all old keys.
func finishHeads(t testing.TB, batch int, dbs ...*DB) {
	t.Helper()
	for _, next := range []func(context.Context, *engine.Database, int) (bool, error){contents.CopyHeads, oldkeys.Rewrite} {
		for i, ended := 0, false; !ended; i++ {
			var err error
			if ended, err = next(t.Context(), dbs[i%len(dbs)].base, batch); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// wantHeads checks that nothing of the old form is left.
func wantHeads(t testing.TB, db *DB) {
	t.Helper()
	if !db.base.Shared() {
		if table, old := headsOf(t, db); table != "content" || old {
			t.Errorf("the index of beginnings is of table %q, and there are other tables: %v; want content and none", table, old)
		}
	}
	var blocks int64
	first := "substr(body, 1, 1) = unhex('01')"
	if db.base.Shared() {
		first = "get_byte(body, 0) = 1"
	}
	if err := db.base.Scans.Row(t.Context(), "SELECT count(*) FROM old_key WHERE "+first, nil, &blocks); err != nil || blocks > 0 {
		t.Errorf("%d blocks have version 1, %v; want none", blocks, err)
	}
}

// TestHeadsTwins does any sequence of operations with two indexes, of which one was made by the version before: its contents
// are copied and its old keys rewritten meanwhile, by two processes. All answers are the same.
func TestHeadsTwins(t *testing.T) {
	symtest.Sequential(t)
	onEngineOfDay(t, 0, testHeadsTwins)
}

func testHeadsTwins(t *testing.T) {
	most := 3
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		most = 50
	}
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		if n++; n > most {
			return
		}
		c := newClock()
		where := address(t)
		opt := c.options()
		opt.steps = beforeHeads(t)
		old, err := Open(r.Context(), where, opt)
		if err != nil {
			r.Fatal(err)
		}
		addresses.Store(old, where)
		m := &shortenTwins{t: r, outer: t, clock: c, long: old, plain: openTest(t, c.options()), upgraded: true, heads: true}
		for range 4 {
			m.add(30)
		}
		packAll(t, old)
		m.fail(old.Close())
		if m.long, err = Open(r.Context(), where, c.options()); err != nil {
			r.Fatal(err)
		}
		addresses.Store(m.long, where)
		long := m.long
		t.Cleanup(func() { addresses.Delete(long); _ = long.Close() })
		m.other = reopen(t, m.long, c.options())
		r.Repeat(rapid.StateMachineActions(m))
		finishHeads(t, rapid.SampledFrom([]int{7, 30, 2000}).Draw(r, "batch"), m.long, m.other)
		wantHeads(t, m.long)
		for _, n := range m.numbers { // what was removed comes back
			m.both(func(db *DB) (any, error) { _, err := db.Trash.Undo(r.Context(), n); return nil, err })
		}
		m.compare()
	})
}

// TestFreshHeads: a new index has the short form from the beginning.
func TestFreshHeads(t *testing.T) {
	t.Parallel()
	wantHeads(t, openTest(t, Options{}))
}

// TestOldNodesKeepBlocks: while a program of the format before may still come, old keys are written as it reads them.
func TestOldNodesKeepBlocks(t *testing.T) { onEngines(t, testOldNodesKeepBlocks) }

func testOldNodesKeepBlocks(t *testing.T) {
	where := address(t)
	db := openVersion(t, where, beforeHeads(t))
	var entries []record.Entry
	for n := range 100 {
		entries = append(entries, compactEntry(n))
	}
	commitTest(t, db, "", entries...)
	beginPacking(t, db)
	packAll(t, db)
	if ended, err := oldkeys.Rewrite(t.Context(), db.base, 0); err != nil || !ended {
		t.Errorf("ended %v, %v", ended, err)
	}
	var versions int64
	text := "SELECT count(DISTINCT substr(body, 1, 1)) FROM old_key WHERE substr(body, 1, 1) = unhex('01')"
	if db.base.Shared() {
		text = "SELECT count(DISTINCT get_byte(body, 0)) FROM old_key WHERE get_byte(body, 0) = 1"
	}
	if err := db.base.Scans.Row(t.Context(), text, nil, &versions); err != nil || versions != 1 {
		t.Errorf("%d versions of blocks, %v; want version 1", versions, err)
	}
	clean(t, db)
	newer := openVersion(t, where, nil)
	finishHeads(t, 10, newer)
	wantHeads(t, newer)
	clean(t, newer)
}

// childHeads copies contents and rewrites old keys, a few at a time, and prints a line for each part.
func childHeads(path string, batch int) error {
	ctx := context.Background()
	db, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	for _, next := range []func(context.Context, *engine.Database, int) (bool, error){contents.CopyHeads, oldkeys.Rewrite} {
		for ended := false; !ended; {
			if ended, err = next(ctx, db.base, batch); err != nil {
				return err
			}
			fmt.Println(ended)
		}
	}
	return db.Close()
}

// TestKillHeads kills processes that upgrade an index of the version before at random points: all is found, and another
// process goes on where they have ended.
func TestKillHeads(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "index.db")
	db, err := Open(t.Context(), path, Options{steps: beforeHeads(t)})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		var entries []record.Entry
		for i := range 100 {
			entries = append(entries, compactEntry((n*31+i)%300))
		}
		commitTest(t, db, "P", entries...)
	}
	packAll(t, db)
	answers := func(db *DB) (text string) {
		for n := range 300 {
			a := compactEntry(n).Aliases[0]
			hits, err := db.Lookup(t.Context(), all, symfile.Lookup{Name: a.Name, ID: a.ID, Role: symfile.AnyRole})
			if err != nil {
				t.Fatal(err)
			}
			has, err := db.HasContent(t.Context(), ref(n/3))
			if err != nil {
				t.Fatal(err)
			}
			text += fmt.Sprintf("%d %d %v\n", n, len(hits), has)
		}
		return text
	}
	want := answers(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 11), 12))
	for kill := range 12 {
		c := child(t.Context(), "heads", path, 3+rnd.IntN(10))
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for range rnd.IntN(9) {
			if _, err := lines.ReadString('\n'); err != nil {
				break // it has ended
			}
		}
		_ = c.Process.Kill() // unless it has ended
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				break
			}
		}
		_ = c.Wait()
		if kill%3 > 0 {
			continue
		}
		if db, err = Open(t.Context(), path, Options{}); err != nil {
			t.Fatal(err)
		}
		clean(t, db)
		if got := answers(db); got != want {
			t.Fatalf("after a kill: %s, want %s", got, want)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if db, err = Open(t.Context(), path, Options{}); err != nil {
		t.Fatal(err)
	}
	finishHeads(t, 50, db)
	wantHeads(t, db)
	clean(t, db)
	if got := answers(db); got != want {
		t.Errorf("at the end: %s, want %s", got, want)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAddedSeconds: the time of a content is kept to the second, and that of older programs to the millisecond.
func TestAddedSeconds(t *testing.T) { onEngines(t, testAddedSeconds) }

func testAddedSeconds(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, int(7*time.Millisecond), time.UTC)
	for _, old := range []bool{true, false} {
		opt, want := Options{Now: func() time.Time { return at }}, at.Truncate(time.Second)
		if old {
			opt.steps, want = beforeHeads(t), at
		}
		where := address(t)
		db, err := Open(t.Context(), where, opt)
		if err != nil {
			t.Fatal(err)
		}
		e := pdb(1)
		commitTest(t, db, "", e)
		for _, upgraded := range []bool{false, true} {
			list, err := db.Colds.Series(t.Context(), symfile.Fold(e.Object.Name), "")
			if err != nil || len(list) != 1 || !list[0].Added.Equal(want) {
				t.Errorf("old %v, upgraded %v: %+v, %v, want %v", old, upgraded, list, err, want)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if upgraded {
				break
			}
			if db, err = Open(t.Context(), where, Options{}); err != nil {
				t.Fatal(err)
			}
			finishHeads(t, 10, db)
			if old && !db.base.Shared() { // it was copied
				want = at.Truncate(time.Second)
			}
		}
	}
}

// rawHash finds a condition for a column of hashes.
var rawHash = regexp.MustCompile(`\b(\w+\.)?sha256 (=|IN|>=|<=|>|<) `)

// otherHashes are what a line has that asks for the hashes of another table than content.
var otherHashes = regexp.MustCompile(`\b(upload|doomed|stage_\w+|u\.sha256)\b|isStageFile|filesWhere|excluded.sha256|crypto/sha256|f\.sha256 =`)

// TestHashConditions: queries of contents by their hashes have the conditions of record.HashIs or those like it, which the
// index of beginnings needs.
func TestHashConditions(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == filepath.Join("record", "lists.go") {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		for n, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			if rawHash.MatchString(code) && !otherHashes.MatchString(code) && !strings.Contains(code, "record.Head(") && !known(code) {
				t.Errorf("%s:%d asks for a hash without its beginning: %s", path, n+1, strings.TrimSpace(line))
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files were read, %v; want those of the index", files, err)
	}
}

// planned is a reader that notes the queries for contents by their hashes.
type planned struct {
	engine.Reader
	texts map[string]bool
}

func (p planned) note(text string) {
	if strings.Contains(text, "sha256, 1, 5)") {
		p.texts[text] = true
	}
}

func (p planned) Row(ctx context.Context, text string, args []any, dest ...any) error {
	p.note(text)
	return p.Reader.Row(ctx, text, args, dest...)
}

func (p planned) Each(ctx context.Context, constant bool, text string, args []any, fn func(engine.Scan) (bool, error)) error {
	p.note(text)
	return p.Reader.Each(ctx, constant, text, args, fn)
}

// TestHashPlans: SQLite finds contents by the index of beginnings wherever they are asked for by their hashes.
func TestHashPlans(t *testing.T) {
	db := openTest(t, Options{})
	e := pdb(1)
	commitTest(t, db, "", e, pdb(2))
	p := planned{db.base.Points, make(map[string]bool)}
	db.base.Points, db.base.Scans = p, planned{db.base.Scans, p.texts}
	ctx, ref, scope := t.Context(), e.Ref, record.Scope{Products: []string{"", "B"}}
	do := func(v any, err error) {
		t.Helper()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	do(db.HasContent(ctx, ref))
	do(db.Holders(ctx, ref))
	do(db.ContentProducts(ctx, ref))
	do(db.Derived(ctx, ref, record.Tool{Name: "x", Version: 1}))
	do(db.Colds.Of(ctx, ref))
	do(db.Colds.NewestOfAnother(ctx, ref, "x"))
	for _, list := range []iter.Seq2[record.Cold, error]{db.Colds.All(ctx), db.Colds.Needing(ctx, ref), db.Colds.Wanted(ctx, ref)} {
		for range list {
		}
	}
	for range db.Places.Named(ctx, blob.Ref{}, ref) {
	}
	list := []blob.Ref{ref}
	do(nil, MarkCold(ctx, db, list, func(*blob.Ref) (blob.Ref, **record.Cold) { return ref, new(*record.Cold) }))
	do(db.Damages.Of(ctx, ref))
	do(db.Damages.Among(ctx, list))
	do(db.Places.Known(ctx, record.Upload{Content: record.Content{Ref: ref}, Place: "x"}))
	_, _, err := db.Places.Of(ctx, ref)
	do(nil, err)
	for _, s := range []record.Scope{all, scope} {
		do(db.Sources.Holding(ctx, s, ref))
		do(db.Find(ctx, s, record.Query{Ref: &ref}, 10))
		do(db.Find(ctx, s, record.Query{RefPrefix: ref.String()[:12]}, 10))
		l, err := db.Lists.Listing(ctx, s)
		do(nil, err)
		_, _, err = l.OfContent(ctx, ref, 10)
		do(nil, err)
		do(l.Downloads(ctx, ref))
		_, _, err = l.Forms(ctx, ref)
		do(nil, err)
		for _, f := range []lists.ObjectFilter{{Query: record.Query{Ref: &ref}, Limit: 9},
			{Query: record.Query{RefPrefix: ref.String()[:12]}, Limit: 9}} {
			_, _, err := db.Lists.Objects(ctx, s, f)
			do(nil, err)
		}
	}
	do(nil, db.Stages.Visible(ctx, list, func(stages.VisibleObject) {}))
	if len(p.texts) < 20 {
		t.Errorf("%d queries ask for hashes, want 20 at least: %q", len(p.texts), slices.Sorted(maps.Keys(p.texts)))
	}
	hashed := " WHERE " + record.IsContent
	rows := "(SELECT unhex(value ->> 0) AS sha256 FROM json_each($1)) AS k"
	for _, write := range []string{
		"UPDATE content SET damage = $2" + hashed, "DELETE FROM derived WHERE source_id = (SELECT id FROM content" + hashed + ")",
		"INSERT INTO content_read (content_id, day) SELECT id, 1 FROM content" + hashed + " ON CONFLICT (content_id) DO UPDATE SET day = 2",
		"SELECT c.id FROM " + rows + " CROSS JOIN content c WHERE " + record.HashIs("c.sha256", "k.sha256"),
		"INSERT INTO content (sha256, size, added) SELECT k.sha256, 1, 1 FROM " + rows + " WHERE NOT EXISTS (SELECT 1 FROM content c WHERE " +
			record.HashIs("c.sha256", "k.sha256") + ") RETURNING id",
		"SELECT c.id FROM stage_file f JOIN content c ON " + record.HashIs("c.sha256", "f.sha256"),
	} {
		p.texts[write] = true
	}
	raw := rawFile(t, db)
	defer raw.Close()
	for text := range p.texts {
		args := 0
		for args < 60 && strings.Contains(text, fmt.Sprint("$", args+1)) {
			args++
		}
		rows, err := raw.Query("EXPLAIN QUERY PLAN "+text, make([]any, args)...)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var plan []string
		for rows.Next() {
			var a, b, c int64
			var detail string
			if err := rows.Scan(&a, &b, &c, &detail); err != nil {
				t.Fatal(err)
			}
			plan = append(plan, detail)
		}
		_ = rows.Close()
		if !slices.ContainsFunc(plan, func(step string) bool { return strings.Contains(step, "INDEX content_by_head (<expr>") }) {
			t.Errorf("%s:\n%q, want the index content_by_head", text, plan)
		}
		if slices.ContainsFunc(plan, func(step string) bool {
			return strings.HasPrefix(step, "SCAN ") && step != "SCAN CONSTANT ROW" && !strings.HasPrefix(step, "SCAN json_each") &&
				!strings.HasPrefix(step, "SCAN f USING COVERING INDEX stage_file_content")
		}) {
			t.Errorf("%s:\n%q reads all rows of a table", text, plan)
		}
	}
}

// known reports whether a condition for a hash needs no index: the content is found in another way.
func known(code string) bool {
	return slices.ContainsFunc([]string{"c.sha256 = w.s", "c.sha256 = $3", "NOT ($3 AND sha256 = $1)", "WHERE stage_id = $1"},
		func(s string) bool { return strings.Contains(code, s) })
}
