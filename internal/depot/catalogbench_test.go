package depot

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// seeding is a large depot without bytes: products with builds, each of the same names.
type seeding struct {
	products, builds, modules int
}

// sized returns a seeding with about that many objects, in a tenth as many names: each
// module is a program and its PDB.
func sized(objects int) seeding {
	return seeding{products: max(objects/5000, 2), builds: 10, modules: min(250, objects/40)}
}

// words make the names of modules.
var words = []string{"audio", "base", "codec", "crash", "editor", "font", "game", "http", "input", "json", "kernel", "logging", "math", "net", "physics", "quest", "render", "script", "texture", "update", "video", "widget", "xml", "zip"}

// module is the name of a module of a product, without its extension.
func (s seeding) module(product, n int) string {
	return fmt.Sprintf("%s_%s%d-%d", words[n%len(words)], words[(n/len(words)+product)%len(words)], product, n)
}

func (s seeding) product(n int) string { return fmt.Sprintf("Product %03d", n) }

func (s seeding) version(build int) string { return fmt.Sprintf("1.%d.%d", build/10, build) }

// guid is the id of a module of a build.
func (s seeding) guid(product, build, n int) debugid.GUID {
	var g debugid.GUID
	binary.BigEndian.PutUint64(g[:], uint64(n+1)*0x9e3779b97f4a7c15+uint64(build)<<20)
	binary.BigEndian.PutUint64(g[8:], uint64(product)*0xff51afd7ed558ccd+uint64(build))
	return g
}

// entries are the files of a build, and two files that all builds share.
func (s seeding) entries(product, build int) (list []record.Entry) {
	add := func(o symfile.Object, size int64, features ...string) {
		o.InfoAge = o.DebugID.Age
		list = append(list, record.Entry{Object: o, Arch: []string{"x86_64", "arm64"}[product%2], Features: features, Ref: blob.Sum(fmt.Appendf(nil, "%s %s %s", o.Name, o.CodeID, o.DebugID)), Size: size,
			Aliases: o.Aliases(), Path: "/build/out/" + o.Name})
	}
	for n := range s.modules {
		id := debugid.ID{GUID: s.guid(product, build, n), Age: 1}
		name := s.module(product, n)
		add(symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: name + ".dll", CodeID: fmt.Sprintf("%08X%x", uint32(build*1000+n), 4096*(n+1)), DebugID: id}, int64(10_000+n*977+build), "unwind")
		if n%50 != 3 {
			add(symfile.Object{Kind: symfile.PDB, Role: symfile.Debug, Name: name + ".pdb", DebugID: id}, int64(50_000+n*4099+build), "debug", "symtab", "private")
		}
	}
	for n := range 2 {
		add(symfile.Object{Kind: symfile.PE, Role: symfile.Executable, Name: fmt.Sprintf("shared%d.dll", n), CodeID: "5F0000001000", DebugID: debugid.ID{GUID: debugid.GUID{1, byte(n)}, Age: 1}}, 12345)
	}
	return list
}

// seed fills a depot, unless it was filled before.
func (s seeding) seed(t *testing.T, d *Depot) {
	t.Helper()
	stats, err := d.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	for i := int(stats.Transactions); i < s.products*s.builds; i++ {
		product, build := i%s.products, i/s.products
		tx := record.Tx{Kind: "add", Product: s.product(product), Version: s.version(build), Who: "ci", Host: "build7", Tool: "symdepot", Class: []string{"nightly", "release"}[build%2], Entries: s.entries(product, build)}
		if _, err := d.db.Commit(t.Context(), tx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if stats, err = d.Stats(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d objects in %d builds of %d products, made in %v", stats.Objects, stats.Transactions, len(stats.Products), time.Since(start).Round(time.Second))
}

// openPages returns a depot that the seeding has filled: in a temporary folder, in the
// folder SYMDEPOT_BENCH_DEPOT, which stays for the next run, or, if that is "postgres",
// in a database.
func openPages(t *testing.T, s seeding) *Depot {
	t.Helper()
	where := os.Getenv("SYMDEPOT_BENCH_DEPOT")
	if where != "postgres" {
		if where == "" {
			where = filepath.Join(t.TempDir(), "depot")
		}
		d, err := Open(t.Context(), where, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		s.seed(t, d)
		return d
	}
	pg := pgtest.Shared(t)
	where = pg.Database(t)
	db, err := index.Open(t.Context(), where, index.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	h := &home.Home{Dir: t.TempDir(), DB: db, Now: time.Now} // no contents are needed
	d := &Depot{home: h, dir: h.Dir, db: db, now: time.Now, log: slog.New(slog.DiscardHandler)}
	d.Retention = lifecycle.NewRetention(lifecycle.Home{DB: db, Block: 1}, d.log, d.now)
	d.Catalog = catalog.New(db, d.Retention.Policy, catalog.NewPages(h.Secret, d.log), d.log)
	s.seed(t, d)
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	pg.In(t, strings.TrimPrefix(u.Path, "/"), "VACUUM ANALYZE") // as a server does by itself
	return d
}

// TestPages measures what pages ask the depot. SYMDEPOT_BENCH=pages does it with a
// million objects, whose limits count. SYMDEPOT_BENCH_OBJECTS is the number of objects;
// see openPages for SYMDEPOT_BENCH_DEPOT.
func TestPages(t *testing.T) {
	objects, rounds, counts := 2_000, 3, false
	if os.Getenv("SYMDEPOT_BENCH") == "pages" {
		objects, rounds, counts = 1_000_000, 200, true
	}
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_BENCH_OBJECTS")); err == nil {
		objects, counts = n, false
	}
	s := sized(objects)
	d := openPages(t, s)
	for _, q := range s.questions(d) {
		times := make([]time.Duration, 0, rounds)
		random := rand.New(rand.NewPCG(1, 2))
		for i := range rounds + rounds/10 {
			start := time.Now()
			n, err := q.ask(t.Context(), random.IntN(s.products), random.IntN(s.builds), random.IntN(s.modules))
			if err != nil {
				t.Fatalf("%s: %v", q.what, err)
			}
			if n == 0 && !q.empty {
				t.Fatalf("%s: no rows, want some", q.what)
			}
			if i >= rounds/10 { // the first ones fill caches
				times = append(times, time.Since(start))
			}
		}
		slices.Sort(times)
		p50, p99 := times[len(times)/2], times[len(times)*99/100]
		t.Logf("%-34s p50 %7.2f ms  p99 %7.2f ms", q.what, p50.Seconds()*1e3, p99.Seconds()*1e3)
		if counts && p99 > q.limit {
			t.Errorf("%s: p99 %v, want at most %v", q.what, p99, q.limit)
		}
	}
}

// question is what a page asks, about a module of a build of a product; it returns the
// number of rows.
type question struct {
	what  string
	limit time.Duration
	empty bool // there may be none
	ask   func(ctx context.Context, product, build, n int) (int, error)
}

func (s seeding) questions(d *Depot) []question {
	const short, list, inner = 25 * time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond
	c := d.Catalog
	objects := func(ctx context.Context, scope answer.Scope, q catalog.ObjectQuery) (int, error) {
		p, err := c.Objects(ctx, scope, q)
		return len(p.Objects), err
	}
	search := func(what string, limit time.Duration, q func(product, build, n int) catalog.ObjectQuery) question {
		return question{what, limit, false, func(ctx context.Context, product, build, n int) (int, error) {
			return objects(ctx, answer.Scope{}, q(product, build, n))
		}}
	}
	scoped := func(what string, limit time.Duration, q func(product, build, n int) catalog.ObjectQuery) question {
		return question{what + ", a reader of 3 products", limit, true, func(ctx context.Context, product, build, n int) (int, error) {
			return objects(ctx, answer.Scope{Products: []string{s.product(product), s.product((product + 1) % s.products), s.product((product + 2) % s.products)}}, q(product, build, n))
		}}
	}
	all := []question{
		search("by id", short, func(product, build, n int) catalog.ObjectQuery {
			return catalog.ObjectQuery{Text: debugid.ID{GUID: s.guid(product, build, n), Age: 1}.Breakpad()}
		}),
		search("by name", list, func(product, _, n int) catalog.ObjectQuery {
			return catalog.ObjectQuery{Text: s.module(product, n) + ".dll"}
		}),
		search("prefix", list, func(_, _, n int) catalog.ObjectQuery { return catalog.ObjectQuery{Text: words[n%len(words)] + "*"} }),
		search("inner wildcard, common", inner, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{Text: "*render*"} }),
		search("inner wildcard, rare", inner, func(product, _, n int) catalog.ObjectQuery {
			return catalog.ObjectQuery{Text: fmt.Sprintf("*%d-%d.dl?", product, n)}
		}),
		search("inner wildcard, newest", inner, func(int, int, int) catalog.ObjectQuery {
			return catalog.ObjectQuery{Text: "*render*", Sort: catalog.SortAdded}
		}),
		{"inner wildcard, none", inner, true, func(ctx context.Context, _, _, n int) (int, error) {
			return objects(ctx, answer.Scope{}, catalog.ObjectQuery{Text: fmt.Sprintf("*nothing%d*", n)})
		}},
		search("all by name", list, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{} }),
		search("all, newest", list, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{Sort: catalog.SortAdded} }),
		search("all, largest", list, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{Sort: catalog.SortSize} }),
		search("PDBs of a product", list, func(product, _, _ int) catalog.ObjectQuery {
			name := s.product(product)
			return catalog.ObjectQuery{Product: &name, Kind: symfile.PDB}
		}),
		search("largest of a product", list, func(product, _, _ int) catalog.ObjectQuery {
			name := s.product(product)
			return catalog.ObjectQuery{Product: &name, Sort: catalog.SortSize}
		}),
		scoped("by name", list, func(product, _, n int) catalog.ObjectQuery {
			return catalog.ObjectQuery{Text: s.module(product, n) + ".pdb"}
		}),
		scoped("all by name", list, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{} }),
		scoped("all, newest", list, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{Sort: catalog.SortAdded} }),
		scoped("all, largest", list, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{Sort: catalog.SortSize} }),
		scoped("inner wildcard", inner, func(int, int, int) catalog.ObjectQuery { return catalog.ObjectQuery{Text: "*render*"} }),
		{"a kind that there is not", list, true, func(ctx context.Context, _, _, _ int) (int, error) {
			return objects(ctx, answer.Scope{}, catalog.ObjectQuery{Kind: symfile.ELF})
		}},
		{"second page of all by name", list, false, func(ctx context.Context, _, _, _ int) (int, error) {
			p, err := c.Objects(ctx, answer.Scope{}, catalog.ObjectQuery{})
			if err != nil {
				return 0, err
			}
			return objects(ctx, answer.Scope{}, catalog.ObjectQuery{After: p.Next})
		}},
	}
	return append(all, s.entryQuestions(d)...)
}

func (s seeding) entryQuestions(d *Depot) []question {
	const short, list = 25 * time.Millisecond, 50 * time.Millisecond
	c := d.Catalog
	entry := func(pick func(product, build, n int) blob.Ref) func(ctx context.Context, product, build, n int) (int, error) {
		return func(ctx context.Context, product, build, n int) (int, error) {
			e, err := c.Entry(ctx, answer.Scope{}, pick(product, build, n))
			if err != nil {
				return 0, err
			}
			return len(e.Objects[0].Holders), nil
		}
	}
	return []question{
		{"object", short, false, entry(func(product, build, n int) blob.Ref { return s.entries(product, build)[n].Ref })},
		{"object of all builds", short, false, entry(func(product, build, _ int) blob.Ref {
			e := s.entries(product, build)
			return e[len(e)-1].Ref
		})},
		{"tx", short, false, func(ctx context.Context, product, build, _ int) (int, error) {
			t, err := d.Transaction(ctx, int64(build*s.products+product+1))
			return int(t.Files), err
		}},
		{"files of a tx", short, false, func(ctx context.Context, product, build, _ int) (int, error) {
			p, err := c.Files(ctx, answer.Scope{}, int64(build*s.products+product+1), catalog.FileQuery{})
			return len(p.Files), err
		}},
		{"files of a tx by name", short, false, func(ctx context.Context, product, build, _ int) (int, error) {
			p, err := c.Files(ctx, answer.Scope{}, int64(build*s.products+product+1), catalog.FileQuery{Sort: catalog.SortName})
			return len(p.Files), err
		}},
		{"builds", list, false, func(ctx context.Context, _, _, _ int) (int, error) {
			l, err := d.List(ctx, answer.Scope{}, ListFilter{Limit: 101})
			return len(l), err
		}},
		{"builds of a product", list, false, func(ctx context.Context, product, _, _ int) (int, error) {
			l, err := d.List(ctx, answer.Scope{}, ListFilter{Limit: 101, Product: new(s.product(product))})
			return len(l), err
		}},
		{"products", list, false, func(ctx context.Context, _, _, _ int) (int, error) {
			l, _, err := c.Products(ctx, answer.Scope{}, "newest", "", 0)
			return len(l), err
		}},
		{"versions", list, false, func(ctx context.Context, product, _, _ int) (int, error) {
			l, _, err := c.Versions(ctx, answer.Scope{}, s.product(product), catalog.VersionQuery{Sort: "newest"})
			return len(l), err
		}},
		{"files of a version", list, false, func(ctx context.Context, product, build, _ int) (int, error) {
			p, err := c.VersionFiles(ctx, answer.Scope{}, s.product(product), s.version(build), catalog.FileQuery{})
			return len(p.Files), err
		}},
		{"without a PDB", list, false, func(ctx context.Context, product, build, _ int) (int, error) {
			l, _, err := c.WithoutPDB(ctx, answer.Scope{}, s.product(product), s.version(build), 20)
			return len(l), err
		}},
		{"two versions compared", list, false, func(ctx context.Context, product, build, _ int) (int, error) {
			l, _, err := c.Compare(ctx, answer.Scope{}, s.product(product), s.version(build), s.version((build+1)%s.builds), "", 0)
			return len(l), err
		}},
	}
}
