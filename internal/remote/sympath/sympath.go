// Package sympath reads the symbol path of a debugger, as in _NT_SYMBOL_PATH, and the list of
// servers in DEBUGINFOD_URLS: it explains what a debugger makes of each element, asks the
// places in it whether they answer, and finds out which upstreams follow from it.
package sympath

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/layout"
)

// Element is one part of a symbol path or of a list of debuginfod servers, with
// what it means.
type Element struct {
	Var  string `json:"var,omitempty"` // the variable that it stands in
	Text string `json:"text"`          // as written, secrets masked
	// Kind is a word: chain, cache, folder, share, server, debuginfod, policy,
	// empty, unknown.
	Kind  string `json:"kind"`
	Rule  string `json:"rule"`  // the form that it has
	Means string `json:"means"` // what a debugger makes of it
	// Stores are the places that the element names, in its order.
	Stores   []PathStore `json:"stores,omitempty"`
	Warnings []string    `json:"warnings,omitempty"`
	// Sources are the upstreams that follow from it, in order.
	Sources []upstream.Spec `json:"-"`
}

// PathStore is one place that an element names.
type PathStore struct {
	Kind    string `json:"kind"` // server, bucket, folder, share, default
	Address string `json:"address"`
	Cache   bool   `json:"cache,omitempty"` // debuggers write into it
	Preset  string `json:"preset,omitempty"`
	Self    bool   `json:"self,omitempty"` // an address of this server
}

func (e *Element) warn(format string, args ...any) {
	e.Warnings = append(e.Warnings, fmt.Sprintf(format, args...))
}

const maxChain = 10 // stores, by Microsoft's documentation

// ParseSymbolPath explains each element of a symbol path, as in _NT_SYMBOL_PATH.
// self are the addresses of this server: URLs, or host:port.
func ParseSymbolPath(path string, self []string) []Element {
	var list []Element
	cached := false // by an earlier cache*
	parts, quoted := Split(path)
	if quoted {
		list = append(list, Element{Text: `"`, Kind: "unknown", Rule: `"..."`, Means: "quotes around the whole path",
			Warnings: []string{"the quotes are part of the variable; debuggers read them as part of the first and the last element. " +
				"In cmd, write: set \"_NT_SYMBOL_PATH=...\""}})
	}
	for _, part := range parts {
		e := parseElement(part, self, &cached)
		list = append(list, e)
	}
	return list
}

func parseElement(part Part, self []string, cached *bool) Element {
	text, bare := part.Text, part.Bare
	e := Element{Text: upstream.MaskAddresses(text)}
	if strings.TrimSpace(text) != text {
		e.warn("some debuggers read the blanks around an element as part of it")
	}
	if strings.Contains(text, `"`) {
		e.warn("some debuggers do not remove quotes; paths with blanks do not need quotes here")
	}
	if strings.Count(bare, "%") > 1 && !strings.Contains(bare, "://") {
		e.warn("debuggers do not expand %%VARIABLE%%; let the shell expand it")
	}
	if strings.ContainsAny(bare, "[]<>|") && !strings.Contains(bare, "://[") {
		e.warn("the brackets mark optional parts in documentation; remove them")
	}
	word, rest, starred := strings.Cut(bare, "*")
	switch w := strings.ToLower(word); {
	case bare == "":
		e.Kind, e.Rule, e.Means = "empty", ";;", "an empty element between two semicolons; it has no effect"
	case starred && w == "srv":
		e.Rule = "srv*[cache*...]store"
		e.chain(strings.Split(rest, "*"), self, *cached)
	case starred && w == "symsrv":
		e.Rule = "symsrv*DLL*[cache*...]store"
		dll, stores, ok := strings.Cut(rest, "*")
		switch {
		case !ok:
			e.Kind, e.Means = "unknown", "the long form of srv* without a store"
			e.warn("no store follows the DLL; write symsrv*symsrv.dll*https://server/path")
		case !strings.EqualFold(dll, "symsrv.dll"):
			e.Kind, e.Means = "unknown", "a symbol server with a protocol of its own, which the DLL "+dll+" implements"
			e.warn("only debuggers with that DLL can use the server")
		default:
			e.chain(strings.Split(stores, "*"), self, *cached)
		}
	case starred && w == "cache":
		e.Kind, e.Rule = "cache", "cache*folder"
		dir, more, _ := strings.Cut(rest, "*")
		st := PathStore{Kind: "default", Address: "sym below the debugger's folder", Cache: true}
		if dir != "" {
			st = classify(dir, self)
			st.Cache = true
		} else {
			e.warn("no folder is named; each debugger uses its own default folder")
		}
		e.Stores = []PathStore{st}
		e.Means = "files from the elements to its right are copied to " + st.Address
		if more != "" {
			e.warn("cache* takes one folder; the others are ignored")
		}
		if st.Kind == "server" {
			e.warn("a server cannot be a cache")
		}
		*cached = true
	case starred && w == "debuginfod":
		e.Kind, e.Rule, e.Means = "debuginfod", "DebugInfoD*URL", "a debuginfod server, for ELF files (newer WinDbg)"
		parts := strings.Split(rest, "*")
		e.server(parts[len(parts)-1], layout.Debuginfod.Name(), self)
	case starred:
		e.Kind, e.Rule, e.Means = "unknown", word+"*...", "no debugger knows this kind of element"
		e.warn("the known kinds are srv*, symsrv*, cache* and DebugInfoD*; a folder name cannot contain an asterisk")
	default:
		e.plain(bare, self)
	}
	return e
}

// plain is an element without an asterisk.
func (e *Element) plain(text string, self []string) {
	st := classify(text, self)
	switch st.Kind {
	case "server":
		e.Kind, e.Rule, e.Means = "server", "URL", "a symbol server without srv* in front"
		e.warn("Microsoft's debuggers need srv* in front of an address: srv*%s", upstream.MaskAddresses(text))
		e.server(text, "", self)
		return
	case "share":
		e.Kind, e.Rule, e.Means = "share", `\\server\share`, "a folder of another machine, searched by file name"
	default:
		e.Kind, e.Rule, e.Means = "folder", "folder", "a folder that is searched by file name, with its subfolders symbols\\EXT and EXT"
	}
	e.Stores = []PathStore{st}
	e.folder(text)
}

// chain explains a list of stores. A file that is found in one store is copied to
// all stores in front of it.
func (e *Element) chain(stores []string, self []string, cached bool) {
	e.Kind = "chain"
	if len(stores) > maxChain {
		e.warn("the chain has %d stores; debuggers read at most %d", len(stores), maxChain)
	}
	if len(stores) == 1 && stores[0] == "" {
		e.Means = "the default store alone, which has only files that were copied there before"
		e.Stores = []PathStore{{Kind: "default", Address: "sym below the debugger's folder", Cache: true}}
		e.warn("no server is named; write srv*https://server/path")
		return
	}
	last := len(stores) - 1
	for i, text := range stores {
		st := PathStore{Kind: "default", Address: "sym below the debugger's folder"}
		if text != "" {
			st = classify(text, self)
		}
		st.Cache = i < last
		switch {
		case text == "" && i == last:
			e.warn("an empty store at the end means the default store; add a server, or remove the last asterisk")
		case st.Kind == "server" && i < last:
			st.Cache = false
			e.Stores = append(e.Stores, st)
			e.warn("a server must be the last store of a chain; debuggers ignore the stores after %s", st.Address)
			e.source(text, &e.Stores[len(e.Stores)-1], layout.SymStore.Name(), self)
			e.meaning(cached)
			return
		}
		e.Stores = append(e.Stores, st)
	}
	at := &e.Stores[len(e.Stores)-1]
	switch at.Kind {
	case "server":
		e.source(stores[last], at, layout.SymStore.Name(), self)
		if last == 0 && !cached {
			e.warn("no cache is named; files go to the debugger's default store. To name a cache, write srv*C:\\symbols*%s", at.Address)
		}
	case "folder", "share":
		e.folder(stores[last])
	}
	e.meaning(cached)
}

// meaning says in words what a chain is.
func (e *Element) meaning(cached bool) {
	at := e.Stores[len(e.Stores)-1]
	caches := make([]string, 0, len(e.Stores))
	for _, s := range e.Stores[:len(e.Stores)-1] {
		caches = append(caches, s.Address)
	}
	what := map[string]string{
		"server": "the symbol server ", "folder": "the symbol store in ", "share": "the symbol store on ",
		"default": "the default store, ", "unknown": "an unknown kind of address, ",
	}[at.Kind]
	e.Means = what + at.Address
	switch {
	case len(caches) > 0:
		e.Means += "; files from it are copied to " + strings.Join(caches, " and ")
	case at.Kind == "server" && cached:
		e.Means += "; files from it are copied to the cache that is named earlier"
	}
}

// server adds a store that is a server, and an upstream for it.
func (e *Element) server(text, of string, self []string) {
	e.Stores = append(e.Stores, classify(text, self))
	e.source(text, &e.Stores[len(e.Stores)-1], of, self)
}

// source adds an upstream for a server, unless it is this server itself.
func (e *Element) source(text string, st *PathStore, of string, self []string) {
	if st.Kind != "server" {
		e.warn("%s is not an http or https address", st.Address)
		return
	}
	u, err := url.Parse(text)
	if err != nil {
		e.warn("the address cannot be read")
		return
	}
	if u.User != nil || u.RawQuery != "" {
		e.warn("debuggers write the secret in the path to their logs and crash reports")
	}
	if st.Self {
		e.warn("this is the address of this server itself: debuggers may use it, but the server does not use itself as an upstream")
		return
	}
	s, known := upstream.PresetOf(u)
	if !known {
		if s, err = upstream.SpecOf(text); err != nil {
			e.warn("%v", err)
			return
		}
		s.Layout = of
	}
	if u.Scheme == "http" && !isLocal(u.Hostname()) {
		e.warn("plain http: anybody on the network path can change the files")
	}
	st.Preset = s.Preset
	e.Sources = append(e.Sources, s)
}

// folder adds an upstream for a folder, if this machine can reach it.
func (e *Element) folder(text string) {
	share := strings.HasPrefix(text, `\\`) || strings.HasPrefix(text, "//")
	foreign := runtime.GOOS != "windows" && (share || upstream.IsDrive(text))
	switch info, err := os.Stat(text); {
	case foreign:
		e.warn("a path of Windows, which this machine cannot open; it is ignored")
		return
	case !upstream.IsPath(text):
		e.warn("a relative path means a different folder for each program; it is ignored")
		return
	case share:
		// Opening it may send a password to another machine.
	case err != nil:
		e.warn("the folder cannot be opened here: %v", err)
	case !info.IsDir():
		e.warn("it is not a folder")
		return
	}
	if s, err := upstream.SpecOf(text); err == nil {
		e.Sources = append(e.Sources, s)
	}
}

// classify returns the kind of store that text names.
func classify(text string, self []string) PathStore {
	scheme, _, ok := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	st := PathStore{Kind: "folder", Address: upstream.MaskAddresses(text)}
	switch {
	case ok && (scheme == "http" || scheme == "https"):
		st.Kind = "server"
		if u, err := url.Parse(text); err == nil {
			st.Self = isSelf(u, self)
			if p, ok := upstream.PresetOf(u); ok {
				st.Preset = p.Preset
			}
		}
	case ok && scheme != "file":
		st.Kind = "unknown"
	case strings.HasPrefix(text, `\\`) || strings.HasPrefix(text, "//"):
		st.Kind = "share"
	}
	return st
}

// isLocal reports whether a host is this machine, by its name.
func isLocal(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && (a.Unmap().IsLoopback() || a.Unmap().IsUnspecified())
}

// isSelf reports whether an address is one of this server.
func isSelf(u *url.URL, self []string) bool {
	host, port, _ := net.SplitHostPort(upstream.HostPort(u))
	for _, s := range self {
		own, err := url.Parse(s)
		if err != nil || own.Host == "" {
			own = &url.URL{Scheme: "http", Host: s}
		}
		h, p, err := net.SplitHostPort(upstream.HostPort(own))
		if err != nil || p != port {
			continue
		}
		if h == host || isLocal(h) && isLocal(host) || h == "" && isLocal(host) {
			return true
		}
	}
	return false
}

// LooksLikeURLs reports whether a text is a list of debuginfod servers rather than
// a symbol path.
func LooksLikeURLs(s string) bool {
	if strings.ContainsAny(s, `*;\`) {
		return false
	}
	low := strings.ToLower(s)
	several := len(strings.Fields(s)) > 1
	return strings.HasPrefix(low, "ima:") || strings.Contains(low, "://") && (several || strings.Contains(low, "debuginfod"))
}

// ParseDebuginfodURLs explains each element of a list of servers, as in
// DEBUGINFOD_URLS.
func ParseDebuginfodURLs(urls string, self []string) []Element {
	var list []Element
	seen := map[string]bool{}
	for text := range strings.FieldsSeq(urls) {
		e := Element{Text: upstream.MaskAddresses(text), Kind: "debuginfod", Rule: "URL"}
		if policy, ok := strings.CutPrefix(strings.ToLower(text), "ima:"); ok {
			e.Kind, e.Rule = "policy", "ima:enforcing | ima:ignore"
			switch policy {
			case "enforcing":
				e.Means = "clients accept only files with a valid RPM signature from the servers to its right"
				e.warn("symdepot does not check RPM signatures; it checks the ids of the files")
			case "ignore":
				e.Means = "clients do not check signatures of the servers to its right, which is the default"
			default:
				e.Means = "an unknown policy"
				e.warn("the known policies are ima:enforcing and ima:ignore")
			}
			list = append(list, e)
			continue
		}
		address := text
		if !strings.Contains(text, "://") {
			address = "http://" + text
			e.warn("an address without a scheme means http: anybody on the network path can change the files")
		}
		e.Means = "a debuginfod server; clients ask all servers of the list at the same time and use the first answer"
		if trimmed := strings.TrimRight(address, "/"); strings.HasSuffix(trimmed, "/buildid") {
			e.warn("clients append /buildid themselves; remove it from the list")
			address = strings.TrimSuffix(trimmed, "/buildid")
		}
		key := strings.TrimRight(address, "/")
		if seen[key] {
			e.warn("the server is listed twice; it is asked once")
			list = append(list, e)
			continue
		}
		seen[key] = true
		if strings.HasPrefix(address, "file://") {
			e.Rule, e.Means = "file://", "a folder with the layout of a debuginfod server"
			if s, err := upstream.SpecOf(address); err != nil {
				e.warn("%v", err)
			} else {
				s.Layout = layout.Debuginfod.Name()
				e.Stores = []PathStore{{Kind: "folder", Address: s.URL}}
				e.Sources = []upstream.Spec{s}
			}
		} else {
			e.server(address, layout.Debuginfod.Name(), self)
		}
		list = append(list, e)
	}
	return list
}

// FromEnv reads the variables of debuggers: _NT_ALT_SYMBOL_PATH, _NT_SYMBOL_PATH
// and DEBUGINFOD_URLS with their companions. It omits this server itself and
// repeated upstreams. Elements to the left have lower ranks, since debuggers ask one
// after the other, but all debuginfod servers at the same time.
func FromEnv(getenv func(string) string, self []string) ([]upstream.Spec, []Element) {
	var elements []Element
	var specs []upstream.Spec
	seen := map[string]bool{}
	names := map[string]bool{}
	take := func(s upstream.Spec, rank int) {
		key := s.Type + " " + strings.ToLower(strings.TrimRight(s.URL, "/"))
		if seen[key] {
			return
		}
		seen[key] = true
		for n := 2; names[s.Name]; n++ {
			s.Name = strings.TrimSuffix(s.Name, "#"+strconv.Itoa(n-1)) + "#" + strconv.Itoa(n)
		}
		names[s.Name] = true
		s.Guard.Rank = rank
		specs = append(specs, s)
	}
	rank := 0
	for _, v := range []string{"_NT_ALT_SYMBOL_PATH", "_NT_SYMBOL_PATH"} {
		text := getenv(v)
		if text == "" {
			continue
		}
		for _, e := range ParseSymbolPath(text, self) {
			e.Var = v
			elements = append(elements, e)
			for _, s := range e.Sources {
				take(s, rank)
			}
			if len(e.Sources) > 0 {
				rank++
			}
		}
	}
	most, _ := strconv.ParseInt(getenv("DEBUGINFOD_MAXSIZE"), 10, 64)
	for _, e := range ParseDebuginfodURLs(getenv("DEBUGINFOD_URLS"), self) {
		e.Var = "DEBUGINFOD_URLS"
		elements = append(elements, e)
		for _, s := range e.Sources {
			if s.Type == upstream.TypeHTTP {
				s.Credentials.HeadersFile = getenv("DEBUGINFOD_HEADERS_FILE")
			}
			s.Guard.MaxBytes = max(most, 0)
			take(s, 0)
		}
	}
	return specs, elements
}
