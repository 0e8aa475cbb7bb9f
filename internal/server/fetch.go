package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/layout"
)

// HopHeader carries the ids of the servers that a request has passed, the
// first one first, with commas between them. A server that finds its own
// answers 404: two that ask each other would else wait for each other. In an
// answer to another server of ours it has the own id.
const HopHeader = "X-Symdepot-Hop"

// loopHeader marks that 404, so that nobody remembers it.
const loopHeader = "X-Symdepot-Loop"

// maxHops is how many servers a request may have passed. elfutils' servers use
// the same number.
const maxHops = 8

var (
	errNotQuick = errors.New("other servers have to be asked")
	errLoop     = absentError{"not found: the request came back to the server that sent it; look at the upstreams of the servers on its way"}
)

// open looks a request up, in the depot and then elsewhere. Requests that find
// the depot busy wait; those that wait for other servers keep nobody waiting.
func (s *Server) open(x *exchange, r *http.Request, req *layout.Request) (*depot.File, error) {
	if s.cfg.ID != "" && r.Header[HopHeader] != nil {
		x.Header()[HopHeader] = []string{s.cfg.ID}
	}
	f, err := s.openOwn(x, r, req)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if s.symbols.Fetches() {
		via, loop := s.via(r)
		if x.quick {
			if loop || !s.symbols.Missed(depot.Question{Scope: x.who.scope, Request: *req}) {
				return nil, errNotQuick
			}
			x.notSoon = true // another answer may come without a change in the depot
			if req.Form == layout.FormFile {
				x.wanted = req
			}
			return nil, err
		}
		if loop {
			x.Header()[loopHeader] = []string{"1"}
			return nil, errLoop
		}
		f, err = s.symbols.Fetch(r.Context(), depot.Question{
			Scope: x.who.scope, Request: *req, Client: clientKind(r.UserAgent()), Checksum: r.Header.Get("SymbolChecksum"), Via: via,
		})
		if err != nil && r.Context().Err() != nil {
			return nil, context.Cause(r.Context())
		}
	}
	if errors.Is(err, fs.ErrNotExist) && req.Form == layout.FormFile {
		x.wanted = req
		if !x.quick {
			s.symbols.CountMissing(req, clientKind(r.UserAgent()))
		}
	}
	return f, err
}

func (s *Server) openOwn(x *exchange, r *http.Request, req *layout.Request) (*depot.File, error) {
	if err := s.lookups.enter(r.Context(), x.start.Add(s.cfg.Wait)); err != nil {
		return nil, err
	}
	defer s.lookups.leave()
	f, err := s.symbols.Open(r.Context(), x.who.scope, *req)
	if err != nil && r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	return f, err
}

// via returns the servers that a request has passed, this one last, and
// whether it has been here before or has come too far.
func (s *Server) via(r *http.Request) (hops []string, loop bool) {
	for _, v := range r.Header[http.CanonicalHeaderKey(HopHeader)] {
		for id := range strings.SplitSeq(v, ",") {
			if id = strings.TrimSpace(id); id != "" {
				hops = append(hops, id)
				loop = loop || id == s.cfg.ID || len(hops) >= maxHops
			}
		}
	}
	// Servers of other makes pass on this header alone; ours put their ids there.
	for _, v := range r.Header["X-Forwarded-For"] {
		loop = loop || strings.Count(v, ",")+1 >= maxHops || s.cfg.ID != "" && strings.Contains(v, s.cfg.ID)
	}
	if s.cfg.ID != "" && strings.Contains(r.UserAgent(), s.cfg.ID) {
		loop = true
	}
	return append(hops, s.cfg.ID), loop
}

// clientWords are words in the User-Agent of the clients that are told apart.
var clientWords = []struct{ word, kind string }{
	{"symsrv", "symsrv"}, {"symbol-server", "symsrv"}, {"symchk", "symsrv"},
	{"dotnet-symbol", "dotnet"}, {"ssqp", "dotnet"}, {"visual studio", "visualstudio"}, {"vsdbg", "visualstudio"},
	{"elfutils", "debuginfod"}, {"debuginfod", "debuginfod"}, {"gdb", "gdb"}, {"lldb", "lldb"}, {"llvm", "llvm"}, {"delve", "delve"},
	{"symbolicator", "sentry"}, {"sentry", "sentry"}, {"samply", "samply"}, {"stackwalk", "breakpad"}, {"breakpad", "breakpad"}, {"tecken", "breakpad"},
	{"windows performance", "wpa"}, {"wpa", "wpa"}, {"symcache", "wpa"}, {"radare", "radare2"}, {"ghidra", "ghidra"}, {"ida", "ida"},
	{"symdepot", "symdepot"}, {"python", "python"}, {"curl", "curl"}, {"wget", "wget"}, {"mozilla", "browser"},
}

// clientKind names a client in a word, for counts; there are few.
func clientKind(agent string) string {
	if agent == "" {
		return "none"
	}
	if len(agent) > 128 {
		agent = agent[:128]
	}
	agent = strings.ToLower(agent)
	for _, c := range clientWords {
		if strings.Contains(agent, c.word) {
			return c.kind
		}
	}
	return "other"
}
