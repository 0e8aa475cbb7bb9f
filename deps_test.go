package symdepot_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/symdepot/symdepot"

// mayImport is policy: which rooms of this module each room may import
// directly. Change it knowingly; a room that is not listed may import nothing
// of ours and may not exist.
var mayImport = map[string][]string{
	"debugid":            {"internal/clip"},
	"internal/clip":      {},
	"internal/span":      {"internal/glob"},
	"internal/durable":   {},
	"internal/body":      {},
	"internal/limit":     {},
	"symfile":            {"debugid"},
	"internal/term":      {},
	"internal/glob":      {},
	"internal/ctxio":     {},
	"symcache":           {"internal/clip", "debugid"},
	"dump":               {"debugid"},
	"layout":             {"internal/clip", "debugid", "symfile", "symcache"},
	"pdb":                {"debugid", "functab", "demangle"},
	"ppdb":               {"debugid"},
	"breakpad":           {"debugid", "functab"},
	"functab":            {"internal/clip", "debugid"},
	"gsym":               {"functab"},
	"demangle":           {},
	"unwind":             {"debugid", "functab"},
	"dwarf":              {"functab", "internal/paged"},
	"cab":                {"cab/mszip", "cab/lzx", "internal/ctxio"},
	"cab/mszip":          {},
	"cab/lzx":            {},
	"internal/mstools":   {"layout", "symfile", "objfile", "dump", "symstore", "internal/durable", "internal/retention", "internal/scan", "internal/term", "internal/upstream", "internal/glob", "internal/ctxio", "internal/sympath", "internal/unpack"},
	"objfile":            {"dwarf", "internal/clip", "internal/paged", "internal/xz", "debugid", "symfile", "pdb", "ppdb", "breakpad", "symcache"},
	"symstore":           {"internal/clip", "debugid", "symfile", "layout", "objfile", "pdb", "cab", "internal/durable", "internal/ctxio", "symstore/internal/dircache", "symstore/internal/lockfile"},
	"internal/blob":      {"internal/durable"},
	"internal/cold":      {},
	"internal/sparse":    {},
	"internal/srclink":   {"internal/clip", "internal/glob", "pdb", "ppdb", "symfile", "internal/durable", "internal/sources", "internal/term"},
	"internal/scan":      {"internal/clip", "objfile", "symfile", "cab", "internal/durable", "internal/xz"},
	"internal/xz":        {},
	"internal/paged":     {},
	"objtab":             {"debugid", "demangle", "dwarf", "functab", "objfile", "symfile", "unwind"},
	"internal/sources":   {"debugid", "dwarf", "internal/scan", "objfile", "objtab", "pdb", "ppdb", "symfile"},
	"internal/retention": {"internal/glob", "internal/term"},
	"internal/transcode": {"debugid", "objfile", "breakpad", "pdb", "ppdb", "cab", "symcache", "internal/ctxio", "internal/term", "internal/wire"},
	"internal/bucket":    {"internal/wire"},
	"internal/auth":      {"internal/binding", "internal/durable", "internal/glob", "internal/oidc", "internal/wire"},
	"internal/oidc":      {"internal/clip", "internal/glob"},
	"internal/binding":   {},
	"internal/unpack":    {"cab", "objfile", "internal/ctxio"},
	// upstream and tree implement the interface of sources, and do not know each other.
	"internal/upstream": {"internal/span", "internal/clip", "debugid", "symfile", "layout", "objfile", "cab", "symstore", "symcache", "internal/bucket", "internal/fetch", "internal/glob", "internal/sspi", "internal/unpack", "internal/wire"},
	"internal/tree":     {"debugid", "symfile", "layout", "objfile", "pdb", "symstore", "internal/fetch", "internal/unpack", "internal/unpackcache"},
	"internal/watch":    {"internal/ctxio", "debugid", "internal/bucket", "internal/glob", "internal/index", "internal/scan", "internal/sources", "layout", "objfile", "objtab", "symfile", "internal/unpackcache"},
	"internal/sympath":  {"layout", "internal/bucket", "internal/fetch", "internal/tree", "internal/upstream", "internal/wire"},
	"internal/fetch":    {"internal/span", "layout", "objfile", "symfile", "internal/blob"},
	"internal/depot":    {"symstore", "internal/span", "internal/watch", "internal/sources", "debugid", "symfile", "layout", "objfile", "internal/blob", "internal/bucket", "internal/fetch", "internal/index", "internal/jobs", "internal/peer", "internal/stage", "internal/srclink", "internal/symbolicate", "internal/symcachework", "internal/transcode", "internal/tree", "internal/upstream", "internal/durable", "internal/vault", "internal/unpackcache", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/content", "internal/depot/lifecycle", "internal/depot/why", "internal/depot/backup", "internal/depot/home", "internal/depot/migrate", "internal/depot/catalog", "internal/depot/check", "internal/depot/sourcefiles"},
	// cold and cooling know no store; coldstore reads the records of the index.
	// stage knows the depot as an interface.
	"internal/stage":          {"debugid", "symfile", "objfile", "internal/blob", "internal/durable", "internal/index"},
	"internal/vault":          {"internal/ctxio", "internal/blob", "internal/bucket", "internal/index"},
	"internal/peer":           {"internal/fetch"},
	"internal/wire":           {},
	"internal/sspi":           {"internal/binding"},
	"internal/server":         {"internal/server/metrics", "internal/body", "internal/limit", "internal/span", "internal/clip", "debugid", "symfile", "layout", "symcache", "internal/depot", "internal/depot/answer", "internal/depot/content", "internal/fetch", "internal/auth", "internal/intake", "internal/jobs", "internal/report", "internal/stage", "internal/symbolicate", "internal/term", "internal/web", "internal/wire", "internal/web/api", "internal/web/pages", "internal/depot/home", "internal/depot/catalog", "internal/depot/sourcefiles"},
	"internal/server/metrics": {"internal/depot", "internal/depot/coldstore", "internal/depot/lifecycle", "internal/jobs", "internal/limit", "internal/depot/check"},
	"internal/config":         {"internal/glob", "symfile", "layout", "symcache", "symstore", "internal/term", "internal/bucket", "internal/auth", "internal/sympath", "internal/upstream", "internal/oidc", "internal/srclink", "internal/transcode", "internal/address", "internal/manual"},
	"internal/manual":         {},
	"internal/daemon":         {},
	"internal/doctor":         {"internal/auth", "internal/bucket", "internal/client", "internal/config", "internal/daemon", "internal/depot", "internal/sympath", "internal/term", "internal/upstream", "internal/wire", "internal/address", "internal/setup", "internal/depot/home", "internal/depot/check"},
	"internal/dsym":           {"debugid", "internal/depot", "internal/durable", "internal/want"},
	// Linked on Windows only.
	"internal/winservice": {"internal/daemon"},
	"internal/want":       {"debugid", "dump", "symfile", "layout", "objfile", "internal/depot", "internal/depot/answer", "internal/durable", "internal/fetch", "internal/scan", "internal/term"},
	"internal/report":     {"internal/auth", "internal/oidc", "internal/wire", "internal/clip", "internal/importexport", "internal/sources", "internal/srclink", "dump", "layout", "objfile", "symfile", "internal/depot", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/content", "internal/depot/lifecycle", "internal/depot/why", "internal/retention", "internal/scan", "internal/term", "internal/want", "internal/depot/home", "internal/depot/catalog", "internal/depot/check", "internal/depot/sourcefiles"},
	"internal/bundle":     {"symfile", "layout", "internal/ctxio", "internal/depot", "internal/depot/answer", "internal/term", "internal/want"},
	// symcachework knows the depot as an interface.
	"internal/symcachework": {"internal/ctxio", "debugid", "symfile", "layout", "objfile", "symcache", "internal/blob", "internal/durable", "internal/fetch", "internal/index", "internal/jobs", "internal/transcode", "internal/wire", "internal/worker"},
	// symbolicate knows the depot as an interface.
	"internal/symbolicate": {"breakpad", "debugid", "functab", "gsym", "demangle", "dwarf", "objtab", "pdb", "ppdb", "unwind", "internal/ctxio", "internal/durable", "internal/blob", "internal/index", "internal/jobs", "internal/term", "internal/wire", "layout", "objfile", "symfile", "internal/worker"},
	// jobs knows its kinds as an interface, and declares the storage that it needs.
	"internal/jobs": {"internal/span", "internal/blob", "internal/index", "internal/term", "internal/wire"},
	// web is mounted by the server, which authenticates its requests.
	"internal/web": {"internal/body", "dump", "layout", "objfile", "symfile", "internal/term", "internal/auth", "internal/blob", "internal/depot", "internal/depot/answer", "internal/depot/lifecycle", "internal/depot/why", "internal/intake", "internal/jobs", "internal/report", "internal/retention", "internal/sparse", "internal/srclink", "internal/stage", "internal/want", "internal/wire", "internal/userquery", "internal/depot/catalog", "internal/depot/sourcefiles"},

	// intake drives stages through an interface; the server mounts it.
	"internal/intake": {"internal/body", "internal/clip", "internal/durable", "debugid", "symfile", "layout", "objfile", "ppdb", "internal/scan", "internal/stage", "internal/unpack"},

	// The index and its rooms.
	"internal/index":            {"internal/blob", "internal/fusefilter", "internal/glob", "internal/index/catalog", "internal/index/contents", "internal/index/engine", "internal/index/lifecycle", "internal/index/misses", "internal/index/nodes", "internal/index/places", "internal/index/queue", "internal/index/record", "internal/index/schema", "internal/index/stages", "internal/index/tokens", "internal/index/watched", "symfile"},
	"internal/index/catalog":    {"internal/blob", "internal/index/contents", "internal/index/engine", "internal/index/lifecycle", "internal/index/queue", "internal/index/record", "symfile"},
	"internal/index/contents":   {"internal/blob", "internal/glob", "internal/index/engine", "internal/index/record", "symfile"},
	"internal/index/engine":     {"internal/address", "internal/ctxio", "internal/durable"},
	"internal/index/enginetest": {"internal/index/engine", "internal/index/pgtest", "internal/index/schema"},
	"internal/index/lifecycle":  {"internal/blob", "internal/glob", "internal/index/contents", "internal/index/engine", "internal/index/record", "symfile"},
	"internal/index/misses":     {"internal/glob", "internal/index/engine", "internal/index/record", "symfile"},
	"internal/index/nodes":      {"internal/index/engine"},
	"internal/index/places":     {"internal/blob", "internal/index/engine", "internal/index/record"},
	"internal/index/queue":      {"internal/blob", "internal/index/engine", "internal/index/record"},
	"internal/index/record":     {"debugid", "internal/blob", "internal/index/engine", "symfile"},
	"internal/index/schema":     {},
	"internal/index/stages":     {"internal/blob", "internal/index/contents", "internal/index/engine", "internal/index/lifecycle", "internal/index/record", "symfile"},
	"internal/index/tokens":     {"internal/index/engine", "internal/index/record"},
	"internal/index/watched":    {"internal/durable", "internal/index/engine", "internal/index/record"},

	// Commands wire everything; test rooms help tests only.
	"internal/command":                 nil,
	"internal/command/commandtest":     nil,
	"cmd/symdepot":                     {"internal/command"},
	"cab/internal/blocktest":           {},
	"internal/auth/kdctest":            {"internal/symtest"},
	"internal/blob/blobtest":           {"internal/blob"},
	"internal/index/pgtest":            {"internal/symtest"},
	"internal/bucket/buckettest":       {"internal/bucket", "internal/symtest"},
	"internal/client":                  {"dump", "internal/auth", "internal/ctxio", "internal/sources", "internal/blob", "internal/scan", "internal/sparse", "internal/term", "internal/wire", "objfile", "symfile", "internal/endpoint", "internal/depot", "internal/depot/lifecycle", "internal/jobs", "internal/report", "internal/retention", "internal/depot/catalog"},
	"internal/oidc/oidctest":           {},
	"internal/index/indextest":         {"internal/index"},
	"internal/transcode/transcodetest": {"debugid", "pdb"},
	"internal/sparse/sparsetest":       {"pdb"},
	"internal/unpack/unpacktest":       {"cab"},
	"internal/web/apitest":             {},
	"internal/symtest":                 {},
	"packaging":                        {},
	"packaging/internal/oci":           {},
	"packaging/release":                {"packaging/internal/oci"},
	"internal/proxytest":               {},
	"test/bench":                       {},
	"test/cluster":                     {},
	"test/symcache":                    {},
	"test/uploads":                     {},
	"internal/fusefilter":              {},
	"internal/importexport":            {"internal/sources", "debugid", "symfile", "layout", "objfile", "symstore", "internal/blob", "internal/bucket", "internal/ctxio", "internal/depot", "internal/depot/answer", "internal/durable", "internal/scan", "internal/term", "internal/transcode", "internal/tree", "internal/unpack"},
	"internal/unpackcache":             {},
	"internal/userquery":               {"debugid", "symfile", "layout", "objfile", "internal/auth", "internal/clip", "internal/durable", "internal/term", "internal/want"},
	"internal/endpoint":                {"internal/wire"},
	"internal/web/api":                 {"internal/web", "layout", "internal/userquery", "symfile", "internal/auth", "internal/blob", "internal/depot", "internal/depot/lifecycle", "internal/jobs", "internal/report", "internal/retention", "internal/sparse", "internal/stage", "internal/want", "internal/wire", "internal/depot/catalog"},
	"internal/web/pages":               {"internal/web", "debugid", "layout", "internal/userquery", "symfile", "internal/auth", "internal/blob", "internal/depot", "internal/depot/lifecycle", "internal/depot/why", "internal/intake", "internal/jobs", "internal/report", "internal/sparse", "internal/srclink", "internal/stage", "internal/term", "internal/want", "internal/wire", "internal/depot/catalog"},
	"internal/web/webtest":             {"internal/web", "internal/auth", "internal/depot"},
	"internal/worker":                  {"internal/blob", "internal/ctxio", "internal/endpoint", "internal/wire"},
	"internal/depot/answer":            {"debugid", "internal/blob", "internal/fetch", "internal/index", "internal/limit", "internal/symbolicate", "internal/tree", "internal/watch", "layout", "objfile", "symcache", "symfile"},
	"internal/depot/coldstore":         {"internal/blob", "internal/cold", "internal/ctxio", "internal/depot/content", "internal/durable", "internal/index", "internal/unpackcache", "internal/transcode", "internal/vault", "symfile"},
	"internal/depot/content":           {"internal/blob", "internal/index"},
	"internal/depot/lifecycle":         {"internal/blob", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/content", "internal/index", "internal/retention", "symfile"},
	"internal/depot/why":               {"debugid", "internal/blob", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/content", "internal/depot/lifecycle", "internal/fetch", "internal/index", "internal/symbolicate", "internal/symcachework", "internal/transcode", "layout", "symcache", "symfile"},
	"internal/address":                 {},
	"symstore/internal/dircache":       {"internal/durable"},
	"symstore/internal/lockfile":       {"internal/durable"},
	"internal/app":                     {"internal/address", "internal/auth", "internal/config", "internal/daemon", "internal/depot", "internal/depot/content", "internal/doctor", "internal/index", "internal/intake", "internal/report", "internal/server", "internal/setup", "internal/span", "internal/term", "internal/upstream", "internal/web", "internal/web/api", "internal/web/pages"},
	"internal/setup":                   {"internal/address", "internal/auth", "internal/bucket", "internal/config", "internal/depot", "internal/depot/coldstore", "internal/durable", "internal/fetch", "internal/index", "internal/span", "internal/srclink", "internal/stage", "internal/symbolicate", "internal/term", "internal/transcode", "internal/tree", "internal/upstream", "internal/watch", "layout", "symstore", "internal/depot/backup", "internal/depot/home", "internal/depot/sourcefiles"},
	"internal/depot/backup":            {"internal/blob", "internal/depot/coldstore", "internal/depot/content", "internal/depot/home", "internal/durable", "internal/index"},
	"internal/depot/catalog":           {"internal/blob", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/home", "internal/depot/lifecycle", "internal/index", "internal/retention", "internal/symbolicate", "internal/symcachework", "internal/transcode", "layout", "symfile"},
	"internal/depot/check":             {"internal/blob", "internal/ctxio", "internal/depot/coldstore", "internal/depot/content", "internal/depot/home", "internal/durable", "internal/index", "internal/vault"},
	"internal/depot/home":              {"internal/blob", "internal/bucket", "internal/durable", "internal/index", "internal/vault"},
	"internal/depot/migrate":           {"internal/depot/home", "internal/index"},
	"internal/depot/sourcefiles":       {"debugid", "internal/blob", "internal/depot/answer", "internal/depot/content", "internal/index", "internal/sources", "internal/srclink", "layout", "objtab", "symfile"},
}

// soleImporter names the one room that may link a heavy module.
var soleImporter = map[string]string{
	"modernc.org/sqlite":                  "internal/index/engine",
	"github.com/jackc/pgx/v5":             "internal/index/engine",
	"github.com/prometheus/client_golang": "internal/server/metrics",
	"github.com/mikelolasagasti/xz":       "internal/xz",
	"github.com/ianlancetaylor/demangle":  "demangle",
	"github.com/minio/minio-go/v7":        "internal/bucket",
	"github.com/jcmturner/gokrb5/v8":      "internal/auth",
	"github.com/go-jose/go-jose/v4":       "internal/oidc",
	"github.com/alecthomas/kong":          "internal/command",
	"google.golang.org/protobuf":          "internal/intake",
	// Only tests validate JSON.
	"github.com/santhosh-tekuri/jsonschema/v6": "internal/web/apitest",
}

// pure rooms are importable by anyone: no network, no database, no cgo.
var pure = []string{"debugid", "symfile", "layout", "pdb", "ppdb", "breakpad", "objfile", "symstore", "cab", "symcache", "dump", "functab", "gsym", "demangle", "unwind", "dwarf", "objtab"}

type pkg struct {
	ImportPath string
	Imports    []string
	Deps       []string
	CgoFiles   []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps,CgoFiles", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func TestImports(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range packages(t) {
		room := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		seen[room] = true
		if room == "" {
			continue // this test's own folder
		}
		allowed, listed := mayImport[room]
		if !listed {
			t.Errorf("room %s is not in the table; name what it may import", room)
			continue
		}
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo; the binary must cross-compile", room)
		}
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok && allowed != nil && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s; the arrows allow %v", room, ours, allowed)
			}
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok && strings.HasSuffix(ours, "test") && !strings.HasSuffix(room, "test") {
				t.Errorf("%s imports %s outside of its tests; rooms that help tests are for tests only", room, ours)
			}
			for mod, sole := range soleImporter {
				if (imp == mod || strings.HasPrefix(imp, mod+"/")) && room != sole {
					t.Errorf("%s imports %s; only %s may", room, imp, sole)
				}
			}
		}
		if slices.Contains(pure, strings.SplitN(room, "/", 2)[0]) {
			for _, d := range p.Deps {
				if d == "net" || d == "net/http" || d == "database/sql" || d == "os/exec" {
					t.Errorf("%s is public and reaches %s", room, d)
				}
			}
		}
	}
	for room := range mayImport {
		if !seen[room] {
			t.Errorf("the table names %s, which does not exist", room)
		}
	}
}

// TestServerLinks: what reads a key or examines an installation links no server.
func TestServerLinks(t *testing.T) {
	for _, p := range packages(t) {
		room := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains([]string{"internal/config", "internal/setup", "internal/doctor"}, room) {
			continue
		}
		for _, d := range p.Deps {
			if ours := strings.TrimPrefix(d, module+"/"); slices.Contains([]string{"internal/server", "internal/web", "internal/app"}, ours) {
				t.Errorf("%s links %s", room, ours)
			}
			if ours := strings.TrimPrefix(d, module+"/"); room == "internal/config" && slices.Contains([]string{"internal/depot", "internal/index"}, ours) {
				t.Errorf("%s links %s: it only reads, checks and reports keys", room, ours)
			}
		}
	}
}

// TestSQLiteLibc guards the pair of versions that must not drift apart: the
// driver is generated for exactly one libc.
func TestSQLiteLibc(t *testing.T) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "modernc.org/sqlite").Output()
	if err != nil {
		t.Fatal(err)
	}
	gomod, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(gomod), "modernc.org/libc ")
	if !ok {
		t.Fatal("the driver's go.mod does not name modernc.org/libc")
	}
	want := strings.Fields(rest)[0]
	have, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "modernc.org/libc").Output()
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(have)) != want {
		t.Errorf("modernc.org/libc is %s, but modernc.org/sqlite was made for %s", strings.TrimSpace(string(have)), want)
	}
}

// TestCommandLines: the command only wires: flags, printing, exit codes. What decides belongs
// into a package below.
func TestCommandLines(t *testing.T) {
	const most = 6000
	files, err := filepath.Glob("internal/command/*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "cmd/symdepot/main.go")
	sum := 0
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += strings.Count(string(b), "\n")
	}
	if sum > most {
		t.Errorf("the commands have %d lines, want %d at most", sum, most)
	}
}
