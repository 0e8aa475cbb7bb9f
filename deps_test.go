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

// groups are the groups of packages, from the top down. A package imports those of its own group
// and of those below. The formats are the packages at the root of the module.
var groups = []string{"cmd", "run", "serve", "depot", "derive", "remote", "files", "index", "formats", "store", "base"}

// groupOf returns the place of a package's group in groups; -1 for tests and packaging, which
// import what they like.
func groupOf(name string) int {
	first, rest, _ := strings.Cut(name, "/")
	switch first {
	case "test", "packaging":
		return -1
	case "cmd":
		return 0
	case "internal":
		first, _, _ = strings.Cut(rest, "/")
		return slices.Index(groups, first)
	}
	return slices.Index(groups, "formats")
}

// mayImport is policy: which packages of this module each package may import
// directly. Change it knowingly; a package that is not listed may import nothing
// of ours and may not exist.
var mayImport = map[string][]string{

	"cmd/symdepot": {"internal/run/command", "internal/run/console"},

	"internal/run/app":    {"internal/base/address", "internal/base/span", "internal/base/term", "internal/base/wire", "internal/depot", "internal/depot/content", "internal/depot/display", "internal/remote/upstream", "internal/run/config", "internal/run/daemon", "internal/run/doctor", "internal/run/setup", "internal/serve/auth", "internal/serve/intake", "internal/serve/oidc", "internal/serve/server", "internal/serve/web", "internal/serve/web/api", "internal/serve/web/pages"},
	"internal/run/client": {"dump", "internal/base/account", "internal/base/blocks", "internal/base/ctxio", "internal/base/durable", "internal/base/endpoint", "internal/base/filestamp", "internal/base/sorting", "internal/base/term", "internal/base/wire", "internal/depot", "internal/depot/catalog", "internal/depot/display", "internal/depot/lifecycle", "internal/depot/retention", "internal/derive/jobs", "internal/files/scan", "internal/files/sources", "internal/files/sparse", "internal/serve/auth", "internal/store/blob", "objfile", "symfile"},
	// Commands wire everything; test packages help tests only.
	"internal/run/command":             nil,
	"internal/run/command/commandtest": nil,
	"internal/run/console":             {"internal/base/term", "internal/depot", "internal/run/setup", "internal/run/version"},
	"internal/run/pathcmd":             {"internal/base/term", "internal/remote/sympath", "internal/run/config", "internal/run/console"},
	"internal/run/checkcmd":            {"internal/base/durable", "internal/base/term", "internal/base/wire", "internal/depot", "internal/depot/display", "internal/files/sbom", "internal/run/client", "internal/run/console", "internal/run/setup", "internal/run/shipment", "internal/serve/web", "internal/serve/web/api"},
	"internal/run/shipment":            {"internal/base/glob", "internal/base/sorting", "internal/base/term", "internal/base/wire", "internal/depot/importexport", "internal/depot/needed", "internal/files/sbom", "internal/files/scan", "internal/files/signature", "objfile", "symfile"},
	"internal/run/formatcmd":           {"cab", "internal/base/term", "internal/derive/symbolicate", "internal/files/sources", "internal/files/srclink", "internal/run/console", "public"},
	"internal/run/config":              {"internal/base/address", "internal/base/glob", "internal/base/term", "internal/derive/transcode", "internal/files/srclink", "internal/remote/sympath", "internal/remote/upstream", "internal/run/manual", "internal/serve/auth", "internal/serve/oidc", "internal/store/bucket", "layout", "symcache", "symfile", "symstore"},
	"internal/run/daemon":              {"internal/base/wire"},
	"internal/run/doctor":              {"internal/base/account", "internal/base/address", "internal/base/term", "internal/base/wire", "internal/depot", "internal/depot/check", "internal/depot/home", "internal/remote/sympath", "internal/remote/upstream", "internal/run/client", "internal/run/config", "internal/run/daemon", "internal/run/setup", "internal/serve/auth", "internal/store/bucket"},
	"internal/run/clientsetup":         {"internal/base/durable", "internal/base/term"},
	"internal/run/localproxy":          {"internal/base/durable"},
	"internal/run/keyring":             {"internal/base/durable"},
	"internal/run/login":               {"internal/base/durable", "internal/base/endpoint", "internal/base/glob", "internal/base/sorting", "internal/base/term", "internal/base/wire", "internal/run/keyring"},
	"internal/run/logincmd":            {"internal/base/endpoint", "internal/base/glob", "internal/base/term", "internal/remote/upstream", "internal/run/client", "internal/run/clientsetup", "internal/run/console", "internal/run/credential", "internal/run/keyring", "internal/run/localproxy", "internal/run/login"},
	"internal/run/manual":              {},
	"internal/run/version":             {},
	"internal/run/mstools":             {"dump", "internal/base/ctxio", "internal/base/durable", "internal/base/glob", "internal/base/sorting", "internal/base/term", "internal/depot/retention", "internal/files/scan", "internal/files/unpack", "internal/remote/sympath", "internal/remote/upstream", "layout", "objfile", "symfile", "symstore"},
	"internal/run/setup":               {"internal/base/account", "internal/base/address", "internal/base/durable", "internal/base/span", "internal/base/term", "internal/depot", "internal/depot/backup", "internal/depot/cache", "internal/depot/coldstore", "internal/depot/home", "internal/depot/nodes", "internal/depot/sourcefiles", "internal/depot/stage", "internal/depot/storerecords", "internal/derive/arrivals", "internal/derive/symbolicate", "internal/derive/transcode", "internal/files/srclink", "internal/index/engine", "internal/index/tokens", "internal/remote/fetch", "internal/remote/tree", "internal/remote/upstream", "internal/remote/watch", "internal/run/config", "internal/serve/auth", "internal/store/bucket", "layout", "symstore"},
	// Linked on Windows only.
	"internal/run/winservice": {"internal/run/daemon"},
	// The credential helper; debuggertest plays the other side in tests.
	"internal/run/credential":              {"internal/base/glob", "internal/base/term"},
	"internal/run/credential/debuggertest": {},

	"internal/serve/auth":         {"internal/base/binding", "internal/base/durable", "internal/base/glob", "internal/base/sorting", "internal/base/wire", "internal/serve/oidc"},
	"internal/serve/auth/kdctest": {"internal/base/symtest"},
	// intake drives stages through an interface; the server mounts it.
	"internal/serve/book":           {"docs", "internal/base/sorting"},
	"internal/serve/intake":         {"debugid", "internal/base/body", "internal/base/durable", "internal/base/truncate", "internal/depot/stage", "internal/files/scan", "internal/files/unpack", "layout", "objfile", "ppdb", "symfile"},
	"internal/serve/oauth":          {"internal/base/wire", "internal/serve/auth", "internal/serve/web"},
	"internal/serve/oidc":           {"internal/base/glob", "internal/base/truncate"},
	"internal/serve/oidc/oidctest":  {},
	"internal/serve/server":         {"dump", "internal/base/account", "internal/base/body", "internal/base/ctxio", "internal/base/limit", "internal/base/sorting", "internal/base/span", "internal/base/term", "internal/base/truncate", "internal/base/wire", "internal/depot", "internal/depot/answer", "internal/depot/audience", "internal/depot/catalog", "internal/depot/content", "internal/depot/display", "internal/depot/dumps", "internal/depot/home", "internal/depot/sourcefiles", "internal/depot/stage", "internal/derive/crash", "internal/derive/jobs", "internal/derive/symbolicate", "internal/remote/fetch", "internal/serve/auth", "internal/serve/intake", "internal/serve/oauth", "internal/serve/server/metrics", "internal/serve/web", "internal/serve/web/api", "internal/serve/web/pages", "layout", "symcache", "symfile"},
	"internal/serve/server/metrics": {"internal/base/limit", "internal/depot", "internal/depot/check", "internal/depot/coldstore", "internal/depot/inplace", "internal/depot/lifecycle", "internal/depot/nodes", "internal/derive/jobs"},
	"internal/serve/userquery":      {"debugid", "internal/base/durable", "internal/base/term", "internal/base/truncate", "internal/depot/needed", "internal/serve/auth", "layout", "objfile", "symfile"},
	// web is mounted by the server, which authenticates its requests.
	"internal/serve/web":         {"dump", "internal/base/body", "internal/base/sorting", "internal/base/term", "internal/base/wire", "internal/depot", "internal/depot/answer", "internal/depot/catalog", "internal/depot/coverage", "internal/depot/display", "internal/depot/dumps", "internal/depot/inplace", "internal/depot/lifecycle", "internal/depot/needed", "internal/depot/retention", "internal/depot/sourcefiles", "internal/depot/stacks", "internal/depot/stage", "internal/depot/why", "internal/derive/arrivals", "internal/derive/crash", "internal/derive/jobs", "internal/derive/stacktext", "internal/derive/symbolicate", "internal/files/sparse", "internal/files/srclink", "internal/serve/auth", "internal/serve/intake", "internal/serve/userquery", "internal/store/blob", "layout", "objfile", "symfile"},
	"internal/serve/web/api":     {"internal/base/blocks", "internal/base/wire", "internal/depot", "internal/depot/catalog", "internal/depot/display", "internal/depot/inplace", "internal/depot/lifecycle", "internal/depot/retention", "internal/depot/stage", "internal/derive/arrivals", "internal/derive/jobs", "internal/files/sparse", "internal/serve/auth", "internal/serve/userquery", "internal/serve/web", "internal/store/blob", "layout", "symfile"},
	"internal/serve/web/apitest": {},
	"internal/serve/web/pages":   {"debugid", "internal/base/sorting", "internal/base/term", "internal/base/wire", "internal/depot", "internal/depot/catalog", "internal/depot/display", "internal/depot/inplace", "internal/depot/lifecycle", "internal/depot/needed", "internal/depot/retention", "internal/depot/stacks", "internal/depot/stage", "internal/depot/why", "internal/derive/crash", "internal/derive/jobs", "internal/derive/stacktext", "internal/files/sparse", "internal/serve/auth", "internal/serve/book", "internal/serve/intake", "internal/serve/oauth", "internal/serve/userquery", "internal/serve/web", "internal/store/blob", "layout", "public", "symfile"},
	"internal/serve/web/webtest": {"internal/depot", "internal/serve/auth", "internal/serve/web"},

	"internal/depot":        {"debugid", "internal/base/durable", "internal/base/span", "internal/depot/answer", "internal/depot/audience", "internal/depot/backup", "internal/depot/bucketstore", "internal/depot/cache", "internal/depot/catalog", "internal/depot/check", "internal/depot/coldstore", "internal/depot/dumps", "internal/depot/content", "internal/depot/forms", "internal/depot/home", "internal/depot/inplace", "internal/depot/lifecycle", "internal/depot/lookup", "internal/depot/migrate", "internal/depot/nodes", "internal/depot/retention", "internal/depot/search", "internal/depot/sourcefiles", "internal/depot/stage", "internal/depot/storerecords", "internal/depot/why", "internal/derive/arrivals", "internal/derive/jobs", "internal/derive/publicform", "internal/derive/symbolicate", "internal/derive/symcachework", "internal/files/sources", "internal/files/srclink", "internal/index", "internal/index/contents", "internal/index/engine", "internal/index/misses", "internal/index/queue", "internal/index/record", "internal/index/tokens", "internal/remote/fetch", "internal/remote/tree", "internal/remote/watch", "internal/store/blob", "internal/store/bucket", "layout", "objfile", "symfile"},
	"internal/depot/answer": {"debugid", "internal/base/limit", "internal/derive/symbolicate", "internal/index/record", "internal/remote/fetch", "internal/remote/tree", "internal/remote/watch", "internal/store/blob", "layout", "objfile", "symcache", "symfile"},
	// The one door to public forms; only the server and who writes trees for people outside pass it.
	"internal/depot/audience":     {"internal/depot/answer", "internal/depot/forms", "internal/depot/inplace", "internal/depot/lookup", "internal/derive/publicform", "internal/derive/symbolicate", "internal/index/record", "internal/store/blob", "layout", "symfile"},
	"internal/depot/dumps":        {"internal/depot/coldstore", "internal/depot/content", "internal/index", "internal/index/contents", "internal/index/record", "internal/store/blob"},
	"internal/depot/backup":       {"internal/base/durable", "internal/depot/coldstore", "internal/depot/content", "internal/depot/home", "internal/index", "internal/index/contents", "internal/index/engine", "internal/index/record", "internal/store/blob"},
	"internal/depot/bucketstore":  {"internal/base/ctxio", "internal/base/sorting", "internal/index/places", "internal/index/record", "internal/store/blob", "internal/store/bucket"},
	"internal/depot/bundle":       {"internal/base/ctxio", "internal/base/term", "internal/depot", "internal/depot/answer", "internal/depot/needed", "layout", "symfile"},
	"internal/depot/cache":        {"internal/depot/content", "internal/index", "internal/index/contents", "internal/index/misses", "internal/store/blob"},
	"internal/depot/catalog":      {"internal/base/sorting", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/home", "internal/depot/lifecycle", "internal/depot/retention", "internal/derive/publicform", "internal/derive/symbolicate", "internal/derive/symcachework", "internal/derive/transcode", "internal/index", "internal/index/lists", "internal/index/misses", "internal/index/queue", "internal/index/record", "internal/store/blob", "layout", "symfile"},
	"internal/depot/check":        {"internal/base/account", "internal/base/ctxio", "internal/base/durable", "internal/depot/bucketstore", "internal/depot/coldstore", "internal/depot/content", "internal/depot/home", "internal/index/engine", "internal/index/places", "internal/index/record", "internal/store/blob"},
	"internal/depot/coldstore":    {"internal/base/ctxio", "internal/base/durable", "internal/depot/bucketstore", "internal/depot/content", "internal/derive/transcode", "internal/files/unpackcache", "internal/index", "internal/index/contents", "internal/index/record", "internal/store/blob", "internal/store/cold", "symfile"},
	"internal/depot/content":      {"internal/base/account", "internal/index", "internal/index/contents", "internal/index/engine", "internal/index/record", "internal/store/blob"},
	"internal/depot/crashes":      {"internal/base/durable", "internal/base/wire", "internal/depot", "internal/derive/crash"},
	"internal/depot/display":      {"dump", "internal/base/account", "internal/base/sorting", "internal/base/term", "internal/base/truncate", "internal/base/wire", "internal/depot", "internal/depot/answer", "internal/depot/catalog", "internal/depot/check", "internal/depot/coldstore", "internal/depot/content", "internal/depot/home", "internal/depot/importexport", "internal/depot/inplace", "internal/depot/lifecycle", "internal/depot/needed", "internal/depot/retention", "internal/depot/sourcefiles", "internal/depot/why", "internal/files/scan", "internal/files/sources", "internal/files/srclink", "internal/store/blob", "layout", "objfile", "symfile"},
	"internal/depot/coverage":     {"debugid", "internal/base/wire", "internal/depot", "internal/depot/answer", "internal/depot/content", "internal/depot/needed", "internal/depot/sourcefiles", "internal/store/blob", "layout", "symfile"},
	"internal/depot/dsym":         {"debugid", "internal/base/durable", "internal/depot", "internal/depot/needed"},
	"internal/depot/forms":        {"internal/depot/answer", "internal/depot/content", "internal/derive/transcode", "internal/index", "internal/index/record", "internal/remote/fetch", "internal/store/blob", "symfile"},
	"internal/depot/home":         {"internal/base/account", "internal/base/durable", "internal/depot/bucketstore", "internal/index", "internal/index/engine", "internal/index/places", "internal/index/tokens", "internal/store/blob", "internal/store/bucket"},
	"internal/depot/importexport": {"debugid", "internal/base/ctxio", "internal/base/durable", "internal/base/term", "internal/depot", "internal/depot/answer", "internal/derive/transcode", "internal/files/scan", "internal/files/sources", "internal/files/unpack", "internal/remote/tree", "internal/store/blob", "internal/store/bucket", "layout", "objfile", "public", "symfile", "symstore"},
	"internal/depot/inplace":      {"internal/base/memo", "internal/depot/answer", "internal/depot/catalog", "internal/depot/content", "internal/files/unpackcache", "internal/index/record", "internal/remote/fetch", "internal/remote/tree", "internal/remote/watch", "internal/store/blob", "layout", "objfile", "symfile"},
	"internal/depot/lifecycle":    {"internal/base/sorting", "internal/base/wire", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/content", "internal/depot/retention", "internal/index", "internal/index/engine", "internal/index/record", "internal/index/removals", "internal/store/blob", "symfile"},
	"internal/depot/lookup":       {"debugid", "internal/depot/answer", "internal/depot/cache", "internal/depot/content", "internal/depot/forms", "internal/index", "internal/index/engine", "internal/index/record", "internal/store/blob", "layout", "objfile", "symfile"},
	"internal/depot/migrate":      {"internal/depot/home", "internal/index", "internal/index/engine", "internal/index/record"},
	"internal/depot/needed":       {"debugid", "dump", "internal/base/durable", "internal/base/term", "internal/depot", "internal/depot/answer", "internal/files/scan", "internal/remote/fetch", "layout", "objfile", "symfile"},
	"internal/depot/nodes":        {"internal/base/sorting", "internal/depot/bucketstore", "internal/depot/coldstore", "internal/depot/home", "internal/depot/inplace", "internal/depot/stage", "internal/derive/jobs", "internal/index", "internal/index/engine", "internal/remote/fetch", "internal/remote/peer", "internal/remote/upstream", "internal/store/blob"},
	"internal/depot/retention":    {"internal/base/glob", "internal/base/sorting", "internal/base/term"},
	"internal/depot/search":       {"internal/base/span", "internal/depot/answer", "internal/depot/inplace", "internal/depot/lookup", "internal/depot/sourcefiles", "internal/depot/storerecords", "internal/derive/symbolicate", "internal/remote/fetch", "layout", "symfile"},
	"internal/depot/sourcefiles":  {"debugid", "internal/base/glob", "internal/base/memo", "internal/depot/answer", "internal/depot/content", "internal/files/sources", "internal/files/srclink", "internal/index", "internal/index/record", "internal/store/blob", "layout", "objtab", "symfile"},
	// cold and cooling know no store; coldstore reads the records of the index.
	// stage knows the depot as an interface.
	"internal/depot/stage":        {"debugid", "internal/base/blocks", "internal/base/durable", "internal/base/memo", "internal/base/sorting", "internal/index", "internal/index/engine", "internal/index/record", "internal/index/removals", "internal/index/stages", "internal/store/blob", "objfile", "symfile"},
	"internal/depot/storerecords": {"internal/base/sorting", "internal/depot/answer", "internal/depot/content", "internal/depot/lookup", "internal/index", "internal/index/record", "layout", "symfile", "symstore"},
	"internal/depot/stacks":       {"internal/base/sorting", "internal/depot/answer", "internal/depot/catalog", "internal/derive/stacktext", "internal/derive/symbolicate", "internal/index/record", "internal/store/blob", "layout", "symfile"},
	"internal/depot/why":          {"debugid", "internal/base/sorting", "internal/depot/answer", "internal/depot/coldstore", "internal/depot/content", "internal/depot/lifecycle", "internal/derive/symbolicate", "internal/derive/symcachework", "internal/derive/transcode", "internal/index", "internal/index/record", "internal/remote/fetch", "internal/store/blob", "layout", "symcache", "symfile"},

	// States of stored contents, and homes with contents, for tests.
	"internal/depot/depottest":     {"internal/base/symtest", "internal/depot", "internal/depot/answer", "internal/depot/cache", "internal/depot/check", "internal/depot/coldstore", "internal/depot/content", "internal/depot/lifecycle", "internal/depot/nodes", "internal/index", "internal/index/pgtest", "internal/remote/fetch", "internal/store/blob", "internal/store/bucket", "internal/store/bucket/buckettest", "layout", "objfile", "symfile"},
	"internal/depot/home/hometest": {"internal/base/symtest", "internal/depot/coldstore", "internal/depot/content", "internal/depot/home", "internal/index/record", "internal/store/blob", "objfile"},

	// jobs knows its kinds as an interface, and declares the storage that it needs.
	// crash walks dumps in child processes, and asks for the rules of modules through symbolicate.
	"internal/derive/crash":     {"applecrash", "debugid", "dump", "functab", "internal/base/limit", "internal/base/proctree", "internal/base/sorting", "internal/base/term", "internal/base/wire", "internal/derive/symbolicate", "stackwalk", "symfile"},
	"internal/derive/jobs":      {"internal/base/span", "internal/base/term", "internal/base/wire", "internal/index/queue", "internal/store/blob"},
	"internal/derive/stacktext": {"debugid", "symfile"},
	// publicform gives what package public writes to audience, and nobody else.
	"internal/derive/arrivals":   {"internal/derive/jobs", "internal/index", "internal/index/contents", "internal/index/engine", "internal/index/queue", "internal/index/record", "internal/index/wishes", "symfile"},
	"internal/derive/publicform": {"internal/base/ctxio", "internal/base/memo", "internal/base/term", "internal/derive/jobs", "internal/derive/symbolicate", "internal/index", "internal/index/contents", "internal/index/engine", "internal/index/queue", "internal/index/record", "internal/store/blob", "layout", "public", "symfile"},
	// symbolicate knows the depot as an interface.
	"internal/derive/symbolicate": {"breakpad", "debugid", "demangle", "dwarf", "functab", "gsym", "internal/base/ctxio", "internal/base/durable", "internal/base/term", "internal/base/wire", "internal/derive/jobs", "internal/derive/worker", "internal/index", "internal/index/contents", "internal/index/queue", "internal/index/record", "internal/store/blob", "layout", "objfile", "objtab", "pdb", "ppdb", "readytorun", "symfile", "unwind"},
	// symcachework knows the depot as an interface.
	"internal/derive/symcachework":            {"debugid", "internal/base/ctxio", "internal/base/durable", "internal/base/memo", "internal/base/sorting", "internal/base/wire", "internal/derive/jobs", "internal/derive/transcode", "internal/derive/worker", "internal/index", "internal/index/contents", "internal/index/queue", "internal/index/record", "internal/remote/fetch", "internal/store/blob", "layout", "objfile", "symcache", "symfile"},
	"internal/derive/transcode":               {"cab", "debugid", "internal/base/ctxio", "internal/base/durable", "internal/base/proctree", "internal/base/sorting", "internal/base/term", "internal/base/wire", "pdb", "symcache"},
	"internal/derive/transcode/transcodetest": {"debugid", "pdb"},
	"internal/derive/worker":                  {"internal/base/ctxio", "internal/base/endpoint", "internal/base/wire", "internal/store/blob"},

	"internal/remote/fetch":     {"internal/base/memo", "internal/base/sorting", "internal/base/span", "internal/store/blob", "layout", "objfile", "symfile"},
	"internal/remote/peer":      {"internal/base/sorting", "internal/remote/fetch"},
	"internal/remote/proxytest": {},
	"internal/remote/sympath":   {"internal/base/wire", "internal/remote/fetch", "internal/remote/tree", "internal/remote/upstream", "internal/store/bucket", "layout"},
	"internal/remote/tree":      {"debugid", "internal/base/glob", "internal/base/sorting", "internal/files/unpack", "internal/files/unpackcache", "internal/remote/fetch", "layout", "objfile", "pdb", "symfile", "symstore"},
	// upstream and tree implement the interface of sources, and do not know each other.
	"internal/remote/upstream": {"cab", "debugid", "internal/base/glob", "internal/base/memo", "internal/base/span", "internal/base/sspi", "internal/base/truncate", "internal/base/wire", "internal/files/unpack", "internal/remote/fetch", "internal/store/bucket", "layout", "objfile", "symcache", "symfile", "symstore"},
	"internal/remote/watch":    {"debugid", "internal/base/ctxio", "internal/base/glob", "internal/base/sorting", "internal/base/zstdpoint", "internal/files/scan", "internal/files/sources", "internal/files/unpackcache", "internal/index/watched", "internal/store/bucket", "layout", "objfile", "objtab", "symfile"},

	"internal/files/sbom":              {},
	"internal/files/hfsplus":           {},
	"internal/files/msi":               {"internal/base/sorting"},
	"internal/files/udif":              {"internal/base/sorting", "internal/base/xz"},
	"internal/files/udif/udiftest":     {},
	"internal/files/scan":              {"cab", "internal/base/durable", "internal/base/filestamp", "internal/base/sorting", "internal/base/truncate", "internal/base/xz", "internal/base/zstdpoint", "internal/files/hfsplus", "internal/files/msi", "internal/files/udif", "objfile", "symfile"},
	"internal/files/signature":         {},
	"internal/files/sources":           {"debugid", "dwarf", "internal/base/sorting", "internal/files/scan", "objfile", "objtab", "pdb", "ppdb", "symfile"},
	"internal/files/sparse":            {},
	"internal/files/sparse/sparsetest": {"pdb"},
	"internal/files/srclink":           {"internal/base/durable", "internal/base/glob", "internal/base/sorting", "internal/base/term", "internal/base/truncate", "internal/files/sources", "pdb", "ppdb", "symfile"},
	"internal/files/unpack":            {"cab", "internal/base/ctxio", "objfile"},
	"internal/files/unpack/unpacktest": {"cab"},
	"internal/files/unpackcache":       {},

	// The index and its packages. Who opens an index imports index, who handles rows the package
	// that declares them: record for transactions, entries and contents, contents for cached and
	// cold files, queue for jobs and failures, and so on; engine for the errors of a database.
	"internal/index":            {"internal/base/fusefilter", "internal/base/glob", "internal/base/sorting", "internal/index/contents", "internal/index/engine", "internal/index/lists", "internal/index/misses", "internal/index/nodes", "internal/index/oldkeys", "internal/index/places", "internal/index/queue", "internal/index/record", "internal/index/removals", "internal/index/schema", "internal/index/stages", "internal/index/tokens", "internal/index/wishes", "internal/store/blob", "symfile"},
	"internal/index/contents":   {"internal/base/glob", "internal/base/sorting", "internal/index/engine", "internal/index/oldkeys", "internal/index/record", "internal/store/blob", "symfile"},
	"internal/index/engine":     {"internal/base/address", "internal/base/ctxio", "internal/base/durable", "internal/base/sorting"},
	"internal/index/enginetest": {"internal/index/engine", "internal/index/pgtest", "internal/index/schema"},
	"internal/index/indextest":  {"internal/index"},
	"internal/index/lists":      {"internal/base/sorting", "internal/index/contents", "internal/index/engine", "internal/index/oldkeys", "internal/index/queue", "internal/index/record", "internal/index/removals", "internal/store/blob", "symfile"},
	"internal/index/wishes":     {"internal/index/engine", "internal/index/oldkeys", "internal/index/record", "symfile"},
	"internal/index/misses":     {"internal/base/glob", "internal/index/engine", "internal/index/record", "symfile"},
	"internal/index/nodes":      {"internal/index/engine"},
	"internal/index/oldkeys":    {"internal/index/engine", "internal/index/record", "symfile"},
	"internal/index/pgtest":     {"internal/base/symtest"},
	"internal/index/places":     {"internal/index/engine", "internal/index/record", "internal/store/blob"},
	"internal/index/queue":      {"internal/base/sorting", "internal/index/engine", "internal/index/record", "internal/store/blob"},
	"internal/index/record":     {"debugid", "internal/index/engine", "internal/store/blob", "symfile"},
	"internal/index/removals":   {"internal/base/glob", "internal/base/sorting", "internal/index/contents", "internal/index/engine", "internal/index/oldkeys", "internal/index/record", "internal/store/blob", "symfile"},
	"internal/index/schema":     {},
	"internal/index/stages":     {"internal/index/contents", "internal/index/engine", "internal/index/oldkeys", "internal/index/record", "internal/index/removals", "internal/store/blob", "symfile"},
	"internal/index/tokens":     {"internal/index/engine", "internal/index/record"},
	"internal/index/watched":    {"internal/base/durable", "internal/index/engine", "internal/index/record"},

	"breakpad":                   {"debugid", "functab"},
	"cab":                        {"cab/lzx", "cab/mszip", "internal/base/ctxio"},
	"cab/internal/blocktest":     {},
	"cab/lzx":                    {},
	"cab/mszip":                  {},
	"debugid":                    {"internal/base/truncate"},
	"demangle":                   {},
	"docs":                       {},
	"applecrash":                 {"debugid"},
	"dump":                       {"debugid"},
	"dwarf":                      {"functab", "internal/base/pagecache"},
	"functab":                    {"debugid"},
	"gsym":                       {"functab"},
	"layout":                     {"debugid", "internal/base/sorting", "internal/base/truncate", "symcache", "symfile"},
	"objfile":                    {"breakpad", "debugid", "dwarf", "internal/base/pagecache", "internal/base/truncate", "internal/base/xz", "pdb", "ppdb", "symcache", "symfile"},
	"objtab":                     {"debugid", "dwarf", "functab", "internal/base/sorting", "objfile", "symfile", "unwind"},
	"pdb":                        {"debugid", "demangle", "functab", "internal/base/glob", "internal/base/sharedtext", "internal/base/sorting"},
	"metadata":                   {},
	"ppdb":                       {"debugid", "metadata"},
	"public":                     {"breakpad", "demangle", "gsym", "internal/base/durable", "internal/base/glob", "internal/base/sharedtext", "internal/base/sorting", "objfile", "pdb", "symfile"},
	"readytorun":                 {"metadata"},
	"stackwalk":                  {"functab"},
	"symcache":                   {"debugid", "internal/base/sorting", "internal/base/truncate"},
	"symfile":                    {"debugid"},
	"symstore":                   {"cab", "debugid", "internal/base/ctxio", "internal/base/durable", "internal/base/sorting", "internal/base/truncate", "layout", "objfile", "pdb", "symfile", "symstore/internal/dircache", "symstore/internal/lockfile"},
	"symstore/internal/dircache": {"internal/base/durable"},
	"symstore/internal/lockfile": {"internal/base/durable"},
	"unwind":                     {"debugid", "functab"},

	"internal/store/blob":              {"internal/base/account", "internal/base/durable", "internal/base/filestamp", "internal/base/sorting"},
	"internal/store/blob/blobtest":     {"internal/store/blob"},
	"internal/store/bucket":            {"internal/base/glob", "internal/base/wire"},
	"internal/store/bucket/buckettest": {"internal/base/symtest", "internal/store/bucket"},
	"internal/store/cold":              {"internal/store/deflate", "internal/store/typehash", "internal/store/zstdseq"},
	"internal/store/deflate":           {},
	"internal/store/typehash":          {},
	"internal/store/zstdseq":           {},

	"internal/base/account":    {},
	"internal/base/address":    {},
	"internal/base/binding":    {},
	"internal/base/blocks":     {},
	"internal/base/body":       {},
	"internal/base/ctxio":      {},
	"internal/base/durable":    {},
	"internal/base/endpoint":   {"internal/base/wire"},
	"internal/base/fusefilter": {},
	"internal/base/glob":       {},
	"internal/base/filestamp":  {},
	"internal/base/limit":      {},
	"internal/base/memo":       {},
	"internal/base/pagecache":  {},
	"internal/base/proctree":   {},
	"internal/base/sharedtext": {},
	"internal/base/sorting":    {},
	"internal/base/span":       {"internal/base/glob"},
	"internal/base/sspi":       {"internal/base/binding"},
	"internal/base/symtest":    {},
	"internal/base/term":       {},
	"internal/base/truncate":   {},
	"internal/base/wire":       {},
	"internal/base/xz":         {},
	"internal/base/zstdpoint":  {},

	"packaging":              {},
	"packaging/internal/oci": {},
	"packaging/release":      {"internal/run/version", "packaging/internal/oci"},
	"test/bench":             {},
	"test/cluster":           {},
	"test/symcache":          {},
	"test/uploads":           {},
}

// soleImporter names the one package that may link a heavy module.
var soleImporter = map[string]string{
	"modernc.org/sqlite":                  "internal/index/engine",
	"github.com/jackc/pgx/v5":             "internal/index/engine",
	"github.com/prometheus/client_golang": "internal/serve/server/metrics",
	"github.com/mikelolasagasti/xz":       "internal/base/xz",
	"github.com/ianlancetaylor/demangle":  "demangle",
	"github.com/minio/minio-go/v7":        "internal/store/bucket",
	"github.com/jcmturner/gokrb5/v8":      "internal/serve/auth",
	"github.com/go-jose/go-jose/v4":       "internal/serve/oidc",
	"github.com/alecthomas/kong":          "internal/run/command",
	"github.com/zalando/go-keyring":       "internal/run/keyring",
	"google.golang.org/protobuf":          "internal/serve/intake",
	"github.com/yuin/goldmark":            "internal/serve/book",
	// Only tests validate JSON.
	"github.com/santhosh-tekuri/jsonschema/v6": "internal/serve/web/apitest",
}

// pure packages are importable by anyone: no network, no database, no cgo.
var pure = []string{"debugid", "symfile", "layout", "pdb", "ppdb", "breakpad", "objfile", "symstore", "cab", "symcache", "applecrash", "dump", "functab", "gsym", "demangle", "unwind", "dwarf", "objtab", "public"}

type pkg struct {
	ImportPath string
	Doc        string // the first sentence of the package's comment
	GoFiles    []string
	Imports    []string
	Deps       []string
	CgoFiles   []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports,Deps,CgoFiles", "./...").Output()
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
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		seen[name] = true
		if name == "" {
			continue // the map of the packages: doc.go
		}
		if p.Doc == "" && len(p.GoFiles) > 0 {
			t.Errorf("package %s has no comment that says what it is for", name)
		}
		allowed, listed := mayImport[name]
		if !listed {
			t.Errorf("package %s is not in the table; name what it may import", name)
			continue
		}
		if len(p.CgoFiles) > 0 {
			t.Errorf("%s uses cgo; the binary must cross-compile", name)
		}
		for _, imp := range p.Imports {
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok && groupOf(name) > groupOf(ours) {
				t.Errorf("%s imports %s, which stands in a group above: %v", name, ours, groups)
			}
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok && allowed != nil && !slices.Contains(allowed, ours) {
				t.Errorf("%s imports %s; the arrows allow %v", name, ours, allowed)
			}
			if ours, ok := strings.CutPrefix(imp, module+"/"); ok && strings.HasSuffix(ours, "test") && !strings.HasSuffix(name, "test") {
				t.Errorf("%s imports %s outside of its tests; packages that help tests are for tests only", name, ours)
			}
			for mod, sole := range soleImporter {
				if (imp == mod || strings.HasPrefix(imp, mod+"/")) && name != sole {
					t.Errorf("%s imports %s; only %s may", name, imp, sole)
				}
			}
		}
		if slices.Contains(pure, strings.SplitN(name, "/", 2)[0]) {
			for _, d := range p.Deps {
				if d == "net" || d == "net/http" || d == "database/sql" || d == "os/exec" {
					t.Errorf("%s is public and reaches %s", name, d)
				}
			}
		}
	}
	for name := range mayImport {
		if !seen[name] {
			t.Errorf("the table names %s, which does not exist", name)
		}
	}
}

// TestServerLinks: what reads a key or examines an installation links no server.
func TestServerLinks(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains([]string{"internal/run/config", "internal/run/setup", "internal/run/doctor"}, name) {
			continue
		}
		for _, d := range p.Deps {
			if ours := strings.TrimPrefix(d, module+"/"); slices.Contains([]string{"internal/serve/server", "internal/serve/web", "internal/run/app"}, ours) {
				t.Errorf("%s links %s", name, ours)
			}
			if ours := strings.TrimPrefix(d, module+"/"); name == "internal/run/config" && slices.Contains([]string{"internal/depot", "internal/index"}, ours) {
				t.Errorf("%s links %s: it only reads, checks and reports keys", name, ours)
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
	files, err := filepath.Glob("internal/run/command/*.go")
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
