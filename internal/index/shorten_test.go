package index

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/oldkeys"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/removals"
	"github.com/symdepot/symdepot/internal/index/schema"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// upgradeRows has an index whose rows were written by writePlain be as after the steps that permit short rows.
func upgradeRows(ctx context.Context, db *DB) error {
	text, err := schema.Files.ReadFile("sqlite/0010_longrows.sql") // this part is the same for PostgreSQL
	if err != nil {
		return err
	}
	at := strings.Index(string(text), "INSERT INTO long_rows")
	return db.base.Update(ctx, "test", func(w *engine.Write) error {
		if _, err := w.Exec("UPDATE state SET format_floor = $1", record.CompactFormat); err != nil {
			return err
		}
		return w.Script("DELETE FROM long_rows; " + string(text[at:]))
	})
}

// shortenAll makes all rows short, so many at a time.
func shortenAll(t testing.TB, db *DB, batch int) {
	t.Helper()
	for ended := false; !ended; {
		var err error
		if ended, err = contents.Shorten(t.Context(), db.base, batch); err != nil {
			t.Fatal(err)
		}
	}
}

// rowsThatMayBeShort returns the rows that can be long or short.
func rowsThatMayBeShort(t testing.TB, db *DB) string {
	t.Helper()
	var b strings.Builder
	for _, c := range copied {
		if !slices.Contains([]string{"object", "tx_file", "tx_dir", "trash_file"}, c.name) {
			continue
		}
		lines, err := engine.Column(t.Context(), db.base.Scans, "SELECT CONCAT_WS('|', "+strings.ReplaceAll(c.columns, "ident", "hex(ident)")+
			") FROM "+c.name+" ORDER BY "+c.key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n%s\n", c.name, strings.Join(lines, "\n"))
	}
	return b.String()
}

// TestShortenAsWritten: rows that were made short are as rows that were written short.
func TestShortenAsWritten(t *testing.T) { onEngines(t, testShortenAsWritten) }

func testShortenAsWritten(t *testing.T) {
	short, long := openTest(t, Options{}), openTest(t, Options{})
	writePlain(t, long)
	for from := range 8 {
		var entries []record.Entry
		for n := range 300 {
			if n%8 >= from {
				entries = append(entries, compactEntry((n*7+from)%300))
			}
		}
		for _, db := range []*DB{short, long} {
			commitTest(t, db, "A", entries...)
		}
	}
	for _, db := range []*DB{short, long} {
		for _, n := range []int64{2, 5} {
			if _, err := db.Trash.Remove(t.Context(), removals.Removal{Number: n, Until: time.Now().Add(time.Hour)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := rowsThatMayBeShort(t, short)
	if rowsThatMayBeShort(t, long) == want {
		t.Fatal("the rows are short from the beginning")
	}
	shortenAll(t, long, contents.ShortenBatch)
	if rowsThatMayBeShort(t, long) == want {
		t.Fatal("rows are made short although programs may come that do not read them")
	}
	if err := upgradeRows(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	shortenAll(t, long, contents.ShortenBatch)
	if diff := gocmp.Diff(strings.Split(want, "\n"), strings.Split(rowsThatMayBeShort(t, long), "\n")); diff != "" {
		t.Errorf("rows made short (+), written short (-): %s", diff)
	}
	clean(t, long)
	// Once more from the beginning: nothing changes.
	if err := upgradeRows(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	shortenAll(t, long, 50)
	if rowsThatMayBeShort(t, long) != want {
		t.Error("short rows changed when they were looked at again")
	}
	// Then it is over: nothing is written any more.
	reader := reopen(t, long, Options{ReadOnly: true})
	if err := ShortenRows(t.Context(), reader, time.Minute); err != nil {
		t.Errorf("with short rows only: %v, want nothing to be written", err)
	}
}

// shortenTwins are two indexes with the same contents. The rows of one become short meanwhile, by two processes.
type shortenTwins struct {
	t           *rapid.T
	outer       *testing.T
	clock       *clock
	long, plain *DB
	other       *DB // another process with the index of long
	upgraded    bool
	heads       bool // contents are copied, and old keys rewritten
	numbers     []int64
}

var (
	twinProducts  = []string{"A", "B"}
	twinDifferent = 120
)

func (m *shortenTwins) both(do func(db *DB) (any, error)) any {
	a, err1 := do(m.long)
	b, err2 := do(m.plain)
	if (err1 == nil) != (err2 == nil) || err1 != nil && !errors.As(err1, new(*removals.NotInTrashError)) && !errors.Is(err1, fs.ErrNotExist) {
		m.t.Fatalf("with rows that become short: %v, without: %v", err1, err2)
	}
	if diff := gocmp.Diff(b, a, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(record.Stored{}), cmpopts.EquateComparable(blob.Ref{})); diff != "" {
		m.t.Fatalf("with rows that become short (+): %s", diff)
	}
	return a
}

func (m *shortenTwins) number() int64 {
	if len(m.numbers) == 0 {
		m.t.Skip("no build")
	}
	return rapid.SampledFrom(m.numbers).Draw(m.t, "number")
}

func (m *shortenTwins) Add(*rapid.T) { m.add(1) }

// add commits a build of at least some files.
func (m *shortenTwins) add(least int) {
	from, by := rapid.IntRange(0, twinDifferent-1).Draw(m.t, "from"), rapid.SampledFrom([]int{1, 3, 7}).Draw(m.t, "by")
	changed := rapid.IntRange(0, 60).Draw(m.t, "changed") // which another version of the program identifies otherwise
	folders := rapid.IntRange(0, 2).Draw(m.t, "folders")  // of all files; 0: many
	var entries []record.Entry
	for i := range rapid.IntRange(least, 50).Draw(m.t, "files") {
		e := compactEntry((from + i*by) % twinDifferent)
		if folders > 0 {
			e.Path = fmt.Sprintf("/builds/%d/bin/%s", i%folders, e.Object.Name)
		}
		if i == changed {
			e.Object.Version, e.Object.CodeName, e.Features = 7, "code", []string{"symtab"}
		}
		entries = append(entries, e)
	}
	product := rapid.SampledFrom(twinProducts).Draw(m.t, "product")
	m.clock.hours(1)
	m.numbers = append(m.numbers, m.both(func(db *DB) (any, error) {
		return db.Commit(m.t.Context(), record.Tx{Kind: "add", Product: product, Version: "1", Entries: entries}, nil)
	}).(int64))
}

func (m *shortenTwins) Remove(*rapid.T) {
	n := m.number()
	var until time.Time
	if rapid.Bool().Draw(m.t, "trash") {
		until = m.clock.t.Add(5 * time.Hour)
	}
	m.both(func(db *DB) (any, error) {
		_, err := db.Trash.Remove(m.t.Context(), removals.Removal{Number: n, At: m.clock.t, Until: until})
		return err == nil, nil
	})
}

func (m *shortenTwins) Undo(*rapid.T) {
	n := m.number()
	m.both(func(db *DB) (any, error) { _, err := db.Trash.Undo(m.t.Context(), n); return nil, err })
}

func (m *shortenTwins) Empty(*rapid.T) {
	m.clock.hours(rapid.IntRange(0, 3).Draw(m.t, "hours"))
	m.both(func(db *DB) (any, error) {
		n, err := db.Trash.Empty(m.t.Context(), m.clock.t)
		if err != nil {
			return n, err
		}
		return db.DropContents(m.t.Context(), unreferenced(m.outer, db, m.clock.t), m.clock.t, func(blob.Ref) error { return nil })
	})
}

func (m *shortenTwins) Pack(*rapid.T) { packAll(m.outer, m.long) }

func (m *shortenTwins) Upgrade(*rapid.T) {
	if m.upgraded {
		m.t.Skip("it is upgraded")
	}
	m.upgraded = true
	m.fail(upgradeRows(m.t.Context(), m.long))
}

func (m *shortenTwins) Shorten(*rapid.T) {
	for range rapid.IntRange(1, 4).Draw(m.t, "parts") {
		db := m.long
		if rapid.Bool().Draw(m.t, "other") {
			db = m.other
		}
		next := contents.Shorten
		if m.heads {
			next = rapid.SampledFrom([]func(context.Context, *engine.Database, int) (bool, error){contents.CopyHeads, oldkeys.Rewrite}).Draw(m.t, "step")
		}
		_, err := next(m.t.Context(), db.base, rapid.SampledFrom([]int{1, 9, 40, 300}).Draw(m.t, "batch"))
		m.fail(err)
	}
}

// ShortenAgain is as Shorten.
func (m *shortenTwins) ShortenAgain(r *rapid.T) { m.Shorten(r) }

// Copy goes on with copies.
func (m *shortenTwins) Copy(*rapid.T) {
	if rapid.IntRange(0, 3).Draw(m.t, "seldom") > 0 {
		m.t.Skip("a copy takes long")
	}
	for _, twin := range []**DB{&m.long, &m.plain} {
		to := openTest(m.outer, m.clock.options())
		if !m.heads && (twin == &m.plain || !m.upgraded) {
			writePlain(m.outer, to)
		}
		m.fail((*twin).Copy(m.t.Context(), to, func() error { return nil }))
		*twin = to
	}
	m.other = reopen(m.outer, m.long, m.clock.options())
}

// Check compares little after each step.
func (m *shortenTwins) Check(*rapid.T) {
	for _, n := range m.numbers[max(0, len(m.numbers)-3):] {
		m.both(func(db *DB) (any, error) {
			var files []record.TxFile
			_, err := db.Show(m.t.Context(), n, func(f record.TxFile) error { files = append(files, f); return nil })
			return files, err
		})
	}
	m.both(func(db *DB) (any, error) {
		s, err := db.Stats(m.t.Context())
		return s.Lookups + s.Objects + s.Transactions, err
	})
}

func (m *shortenTwins) fail(err error) {
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *shortenTwins) compare() {
	compareCompact(m.outer, m.both, twinProducts, m.numbers, twinDifferent)
	for _, db := range []*DB{m.long, m.plain} {
		if problems, err := db.Check(m.t.Context()); err != nil || len(problems) > 0 {
			m.t.Fatalf("the check finds %q, %v", problems, err)
		}
	}
}

// TestShortenTwins does any sequence of operations with two indexes, of which one makes its rows short: all answers are
// the same before, meanwhile, and afterwards.
func TestShortenTwins(t *testing.T) {
	symtest.Sequential(t)
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue && os.Getenv("SYMDEPOT_TORTURE") == "" {
		if err := f.Value.Set("4"); err != nil {
			t.Fatal(err)
		}
	}
	onEngineOfDay(t, 1, testShortenTwins)
}

func testShortenTwins(t *testing.T) {
	few := os.Getenv("SYMDEPOT_TORTURE") == "" && strings.HasSuffix(t.Name(), "/postgres")
	n := 0
	rapid.Check(t, func(r *rapid.T) {
		if n++; few && n > 2 {
			return // a sequence takes seconds there, and torture has a hundred
		}
		c := newClock()
		m := &shortenTwins{t: r, outer: t, clock: c, long: openTest(t, c.options()), plain: openTest(t, c.options())}
		m.other = reopen(t, m.long, c.options())
		writePlain(t, m.long)
		writePlain(t, m.plain)
		for range 4 {
			m.add(30)
		}
		r.Repeat(rapid.StateMachineActions(m))
		if !m.upgraded {
			m.fail(upgradeRows(r.Context(), m.long))
		}
		batch := rapid.SampledFrom([]int{12, 30, 100}).Draw(r, "batch") // the last one is more than the files of a build
		for part := range rapid.IntRange(1, 20).Draw(r, "parts") {
			_, err := contents.Shorten(r.Context(), []*DB{m.long, m.other}[part%2].base, batch)
			m.fail(err)
		}
		m.compare()
		shortenAll(t, m.long, batch)
		var long int64
		if m.fail(m.long.base.Points.Row(r.Context(), "SELECT count(*) FROM object WHERE arch = 'x86_64' OR features = 'debug'", nil, &long)); long > 0 {
			r.Fatalf("%d objects are long at the end, want none", long)
		}
		for _, n := range m.numbers { // what was removed comes back
			m.both(func(db *DB) (any, error) { _, err := db.Trash.Undo(r.Context(), n); return nil, err })
		}
		m.compare()
	})
}

// TestReadWhileShortened: readers find everything at each moment at which rows become short, by several processes, and while
// builds come and go.
func TestReadWhileShortened(t *testing.T) { onEngines(t, testReadWhileShortened) }

func testReadWhileShortened(t *testing.T) {
	ctx := t.Context()
	db := openTest(t, Options{})
	writePlain(t, db)
	var entries []record.Entry
	for n := range 40 {
		entries = append(entries, hugeEntry(2*n))
	}
	const builds = 20
	for range builds {
		commitTest(t, db, "P", entries...)
	}
	show := func(db *DB, number int64) (files []record.TxFile, err error) {
		_, err = db.Show(ctx, number, func(f record.TxFile) error { files = append(files, f); return nil })
		return files, err
	}
	want, err := show(db, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := upgradeRows(ctx, db); err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	var reads atomic.Int64
	for r := range 2 {
		readers.Go(func() {
			for i := r; !stop.Load(); i++ {
				e := entries[i%len(entries)]
				hits := lookupEntry(t, db, all, e)
				if len(hits) != 1 || hits[0].Path != e.Path || hits[0].Arch != e.Arch || hits[0].Object != e.Object {
					t.Errorf("%s: %+v", e.Path, hits)
					return
				}
				if e.Object.BuildID != "" {
					if list, _, err := db.ELFPaths(ctx, all, PathQuery{Path: e.Path}, 0); err != nil || len(list) != 1 {
						t.Errorf("%s: %+v, %v, want one path", e.Path, list, err)
						return
					}
				}
				if files, err := show(db, int64(1+i%2)); err != nil || !slices.EqualFunc(files, want, func(a, b record.TxFile) bool {
					return a.Path == b.Path && a.Object == b.Object
				}) {
					t.Errorf("the files of a build are %+v, %v, want %+v", files, err, want)
					return
				}
				reads.Add(1)
			}
		})
	}
	for r := range 3 {
		p := db
		if r > 0 {
			p = reopen(t, db, Options{})
		}
		writers.Go(func() {
			if r == 2 {
				for n := int64(3); n < builds; n++ {
					_, err := p.Trash.Remove(ctx, removals.Removal{Number: n, Until: time.Now().Add(time.Hour)})
					if err == nil && n%2 == 0 {
						_, err = p.Trash.Undo(ctx, n)
					}
					if err == nil {
						_, err = p.Commit(ctx, record.Tx{Kind: "add", Product: "P", Entries: entries}, nil)
					}
					if err != nil {
						t.Error(err)
					}
				}
				return
			}
			for ended := false; !ended; {
				var err error
				if ended, err = contents.Shorten(ctx, p.base, 7); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	for n := int64(3); n < builds; n += 2 {
		if _, err := db.Trash.Undo(ctx, n); err != nil {
			t.Error(err)
		}
	}
	for n := range int64(builds) {
		if files, err := show(db, 1+n); err != nil || len(files) != len(want) || files[7].Path != want[7].Path {
			t.Errorf("the files of build %d are %+v, %v", 1+n, files, err)
		}
	}
	clean(t, db)
	var long int64
	if err := db.base.Points.Row(ctx, "SELECT (SELECT count(*) FROM tx_file WHERE dir IS NULL) + (SELECT count(*) FROM object WHERE ident IS NULL)",
		nil, &long); err != nil || long > 0 {
		t.Errorf("%d rows are long, %v, want none", long, err)
	}
	t.Logf("%d reads", reads.Load())
}

// childShorten makes rows short, a few at a time, and prints a line for each part.
func childShorten(path string, batch int) error {
	ctx := context.Background()
	db, err := Open(ctx, path, Options{})
	if err != nil {
		return err
	}
	for ended := false; !ended; {
		if ended, err = contents.Shorten(ctx, db.base, batch); err != nil {
			return err
		}
		fmt.Println(ended)
	}
	return db.Close()
}

// TestKillShorten kills processes that make rows short at random points: the answers stay the same, and another process
// goes on where they have ended.
func TestKillShorten(t *testing.T) {
	t.Parallel()
	kills := 5
	if testing.Short() {
		kills = 4
	}
	path := filepath.Join(t.TempDir(), "index.db")
	db, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	writePlain(t, db)
	for n := range 10 {
		var entries []record.Entry
		for i := range 100 {
			entries = append(entries, compactEntry((n*31+i)%300))
		}
		commitTest(t, db, "P", entries...)
	}
	answers := func() (text string) {
		for n := range 10 {
			if _, err := db.Show(t.Context(), int64(n+1), func(f record.TxFile) error {
				text += fmt.Sprintf("%d %q %+v %s %q\n", n, f.Path, f.Object, f.Arch, f.Features)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 300 {
			a := compactEntry(n).Aliases[0]
			hits, err := db.Lookup(t.Context(), all, symfile.Lookup{Name: a.Name, ID: a.ID, Role: symfile.AnyRole})
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(hits, func(a, b record.Hit) int { return cmp.Compare(a.Row(), b.Row()) })
			for _, h := range hits {
				text += fmt.Sprintf("%d %q %+v %s %q\n", n, h.Path, h.Object, h.Arch, h.Features)
			}
		}
		return text
	}
	want := answers()
	if err := upgradeRows(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 9), 10))
	position := func() (object, tx int64) {
		if err := db.base.Points.Row(t.Context(), "SELECT object, tx FROM long_rows", nil, &object, &tx); err != nil {
			t.Fatal(err)
		}
		return object, tx
	}
	var object, tx int64
	for range kills {
		c := child(t.Context(), "shorten", path, 5+rnd.IntN(10))
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		for range 1 + rnd.IntN(12) {
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
		clean(t, db)
		if got := answers(); got != want {
			t.Fatalf("answers after a kill: %s", gocmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		}
		nextObject, nextTx := position()
		if nextObject < object || nextTx < tx || nextObject == 1 {
			t.Errorf("after a kill at object %d and build %d the position is object %d and build %d", object, tx, nextObject, nextTx)
		}
		object, tx = nextObject, nextTx
	}
	shortenAll(t, db, 50)
	if got := answers(); got != want {
		t.Errorf("answers at the end: %s", gocmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
	}
	clean(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestShortenOddRows: rows with columns that no program would write stand for the same when they were looked at.
func TestShortenOddRows(t *testing.T) { onEngines(t, testShortenOddRows) }

func testShortenOddRows(t *testing.T) {
	db := openTest(t, Options{})
	writePlain(t, db)
	var entries []record.Entry
	for n := range 400 {
		e := pdbAge(n, fmt.Sprintf("f%d.pdb", n), byte(n), uint32(n))
		e.Ref, e.Size = ref(n/4), 1000
		entries = append(entries, e)
	}
	commitTest(t, db, "", entries...)
	const sum, other = "0123456789abcdef0123456789abcdef01234567", "00112233445566778899aabbccddeeff00112233"
	guid, swapped := strings.ToUpper(sum[:32]), "67452301AB89EFCD0123456789ABCDEF"
	rnd := rand.New(rand.NewPCG(symtest.Seed(t, 11), 12))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	if err := db.base.Update(t.Context(), "test", func(w *engine.Write) error {
		for id := range 400 {
			fold := fmt.Sprintf("f%d.pdb", id)
			name := pick(fold, fold, strings.ToUpper(fold[:1])+fold[1:], strings.ToUpper(fold), "other of "+fold)
			if _, err := w.Exec(`UPDATE object SET name = $2, name_fold = $3, code_id = $4, debug_id = $5, build_id = $6, arch = $7, features = $8
				WHERE id = $1`, id+1, name, pick(fold, fold, "x"+fold), pick("", "=", sum, sum[:32], strings.ToUpper(sum), other, "x", "ü"),
				pick("", guid+"0", guid+"1", guid+"9", guid+"A", guid+"00", swapped+"0", swapped+"1", strings.ToLower(guid)+"1", guid, "x", "<",
					guid[:31]+"g0"), pick("", sum, sum[:32], sum[:16], sum[:33], strings.ToUpper(sum), "=", "x", other),
				pick("", "A", " A", "  A", "x86_64", " x86_64", "Z", "ü"), pick("", "debug symtab", "debug  symtab", " debug symtab", "A", "debug", " B", "ü")); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	stand := func() []string {
		t.Helper()
		lines, err := engine.Column(t.Context(), db.base.Scans, "SELECT o.id || '|' || "+record.NameColumn+" || '|' || "+record.CodeIDColumn+
			" || '|' || "+record.DebugIDColumn+" || '|' || "+record.BuildIDColumn+" || '|' || "+record.ArchColumn+" || '|' || "+
			record.FeaturesColumn+" FROM object o ORDER BY o.id", 1000)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	want := stand()
	if err := upgradeRows(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	shortenAll(t, db, 30)
	if diff := gocmp.Diff(want, stand()); diff != "" {
		t.Errorf("rows stand for (+): %s", diff)
	}
	var short int64
	if err := db.base.Points.Row(t.Context(), "SELECT count(*) FROM object WHERE ident IS NOT NULL", nil, &short); err != nil || short < 20 {
		t.Errorf("%d rows have short ids, %v, want more", short, err)
	}
}
