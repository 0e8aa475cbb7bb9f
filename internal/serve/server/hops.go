package server

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
)

// maxHops is how many servers a request may have passed, as elfutils' servers
// limit it by default.
const maxHops = 8

// via returns the servers that a request has passed, this one last, and
// whether it was here before or has passed too many.
func (s *service) via(r *http.Request) (hops []string, loop bool) {
	for _, v := range r.Header[wire.Hop] {
		for id := range strings.SplitSeq(v, ",") {
			if id = strings.TrimSpace(id); id != "" {
				hops = append(hops, id)
				loop = loop || id == s.cfg.ID || len(hops) >= maxHops
			}
		}
	}
	// Other implementations pass on only this field; symdepot adds its ids there.
	for _, v := range r.Header["X-Forwarded-For"] {
		others := 0 // ids of symdepot servers are counted above
		for entry := range strings.SplitSeq(v, ",") {
			if !slices.Contains(hops, strings.TrimSpace(entry)) {
				others++
			}
		}
		loop = loop || others >= maxHops || s.cfg.ID != "" && strings.Contains(v, s.cfg.ID)
	}
	if s.cfg.ID != "" && strings.Contains(r.UserAgent(), s.cfg.ID) {
		loop = true
	}
	if len(hops) == 0 {
		return s.ownHop, loop
	}
	return append(hops, s.cfg.ID), loop
}

// origin returns what debuginfod upstreams learn about a client, as from elfutils'
// servers: its User-Agent, and X-Forwarded-For with its address appended.
func origin(r *http.Request) fetch.Origin {
	o := fetch.Origin{Agent: r.UserAgent()}
	if len(o.Agent) > maxAgent {
		o.Agent = ""
	}
	for _, v := range r.Header["X-Forwarded-For"] {
		for s := range strings.SplitSeq(v, ",") {
			if s = strings.TrimSpace(s); s != "" && len(o.Forwarded) < maxHops {
				o.Forwarded = append(o.Forwarded, s)
			}
		}
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		o.Forwarded = append(o.Forwarded, host)
	}
	return o
}

// maxAgent is how many bytes of a client's User-Agent debuginfod upstreams
// receive.
const maxAgent = 256

// clientWords are words in User-Agent by which clients are distinguished.
var clientWords = []struct{ word, kind string }{
	{"symsrv", "symsrv"}, {"symbol-server", "symsrv"}, {"symchk", "symsrv"},
	{"dotnet-symbol", "dotnet"}, {"ssqp", "dotnet"}, {"visual studio", "visualstudio"}, {"vsdbg", "visualstudio"},
	{"elfutils", "debuginfod"}, {"debuginfod", "debuginfod"}, {"gdb", "gdb"}, {"lldb", "lldb"}, {"llvm", "llvm"}, {"delve", "delve"},
	{"symbolicator", "sentry"}, {"sentry", "sentry"}, {"samply", "samply"}, {"stackwalk", "breakpad"},
	{"breakpad", "breakpad"}, {"tecken", "breakpad"},
	{"windows performance", "wpa"}, {"wpa", "wpa"}, {"symcache", "wpa"}, {"radare", "radare2"}, {"ghidra", "ghidra"}, {"ida", "ida"},
	{"symdepot", "symdepot"}, {"python", "python"}, {"curl", "curl"}, {"wget", "wget"}, {"mozilla", "browser"},
}

// lastAgent is the User-Agent that clientKind saw last.
var lastAgent atomic.Pointer[struct{ agent, kind string }]

// clientKind names a client in one of few words, for counts. Most requests in
// succession come from the same kind of client.
func clientKind(agent string) string {
	if agent == "" {
		return "none"
	}
	if len(agent) > 128 {
		agent = agent[:128]
	}
	if last := lastAgent.Load(); last != nil && last.agent == agent {
		return last.kind
	}
	kind, lower := "other", strings.ToLower(agent)
	for _, c := range clientWords {
		if strings.Contains(lower, c.word) {
			kind = c.kind
			break
		}
	}
	lastAgent.Store(&struct{ agent, kind string }{strings.Clone(agent), kind})
	return kind
}
