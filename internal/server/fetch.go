package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/limit"
	"github.com/symdepot/symdepot/internal/symbolicate"
	"github.com/symdepot/symdepot/internal/wire"
	"github.com/symdepot/symdepot/layout"
)

// maxHops is how many servers a request may have passed, as elfutils' servers
// limit it by default.
const maxHops = 8

var errLoop = missError{"not found: the request came back to the server that sent it; check the upstreams of the servers that it passed"}

// open looks a request up in the depot and then in the upstreams. Lookups in the
// depot are limited, and further requests wait; a request that waits for an upstream
// does not count.
func (s *symbols) open(x *exchange, r *http.Request, req *layout.Request) (*depot.File, error) {
	if s.cfg.ID != "" && r.Header[wire.Hop] != nil {
		x.Header()[wire.Hop] = []string{s.cfg.ID}
	}
	client := clientKind(r.UserAgent())
	f, err := s.ask(x, r, req)
	if _, pending := errors.AsType[errPending](err); !pending && errors.Is(err, fs.ErrNotExist) && req.Form == layout.FormFile {
		s.depot.CountMissing(req, client)
	}
	return f, err
}

// ask asks the depot, and holds the request while a file is made for it.
func (s *symbols) ask(x *exchange, r *http.Request, req *layout.Request) (*depot.File, error) {
	ctx := r.Context()
	turn := s.turn(x, r, s.making, s.cfg.Symbols.Wait)
	defer turn.End()
	via, loop := s.via(r)
	q := depot.Question{
		Scope: x.caller.scope, Request: *req, Checksum: r.Header.Get("SymbolChecksum"), Via: via, Origin: origin(r), Client: s.limitKey(r), Local: loop,
		Turn: turn,
	}
	if r.URL.RawQuery != "" {
		v := r.URL.Query()
		q.CodeFile, q.CodeID = v.Get("code_file"), v.Get("code_id")
	}
	if r.Method != http.MethodHead {
		q.Hold = turn.Hold
	}
	f, err := s.files.Get(ctx, q)
	switch {
	case err == nil && f.Made:
		s.allow(http.NewResponseController(x.w), 0) // the request may have been held for long
	case err != nil && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, fs.ErrNotExist) && loop && s.depot.Fetches():
		x.Header()[wire.Loop] = []string{"1"}
		return nil, errLoop
	case errors.As(err, new(symbolicate.PendingError)):
		return nil, errPending{s.depot.Symbols.Retry(ctx)}
	case errors.Is(err, symbolicate.ErrBusy):
		return nil, limit.ErrBusy
	case errors.As(err, new(symbolicate.NoWorkerError)):
		return nil, missError{notFoundText + ": " + err.Error()}
	}
	return f, err
}

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
	return append(hops, s.cfg.ID), loop
}

// clientWords are words in User-Agent by which clients are distinguished.
var clientWords = []struct{ word, kind string }{
	{"symsrv", "symsrv"}, {"symbol-server", "symsrv"}, {"symchk", "symsrv"},
	{"dotnet-symbol", "dotnet"}, {"ssqp", "dotnet"}, {"visual studio", "visualstudio"}, {"vsdbg", "visualstudio"},
	{"elfutils", "debuginfod"}, {"debuginfod", "debuginfod"}, {"gdb", "gdb"}, {"lldb", "lldb"}, {"llvm", "llvm"}, {"delve", "delve"},
	{"symbolicator", "sentry"}, {"sentry", "sentry"}, {"samply", "samply"}, {"stackwalk", "breakpad"}, {"breakpad", "breakpad"}, {"tecken", "breakpad"},
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
