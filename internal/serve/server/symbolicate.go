package server

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/audience"
	"github.com/symdepot/symdepot/internal/derive/crash"
	"github.com/symdepot/symdepot/internal/derive/symbolicate"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// symbolication answers requests of the symbolication APIs: /symbolicate/v5 and v4
// of Eliot and samply, /source/v1 of samply, and /symbolicate of Symbolicator.
type symbolication struct {
	*access
	making limit.Semaphore // requests that are held
	works  limit.Semaphore // requests that are answered
	sends  *limit.Senders
	bodies *body.Memory
	dumps  *crash.Pool
}

// maxSymbolications is how many requests for symbolication are answered at once.
// Further ones wait.
const maxSymbolications = 8

func newSymbolication(a *access) *symbolication {
	s := &symbolication{
		access: a, making: limit.NewSemaphore(max(1, a.cfg.MaxConns/heldShare)), works: limit.NewSemaphore(maxSymbolications),
		sends: limit.NewSenders(slowBody, body.Part), bodies: a.newBodies(),
		dumps: crash.NewPool(crash.Options{}),
	}
	context.AfterFunc(s.waits, func() { _ = s.dumps.Close() }) // the server stops
	return s
}

func symbolicateAPI(segs []string) (name string, ok bool) {
	switch {
	case len(segs) == 1:
		switch segs[0] {
		case "symbolicate":
			return "symbolicator", true
		case "minidump", "applecrashreport":
			return segs[0], true
		}
	case len(segs) == 2 && segs[0] == "symbolicate" && (segs[1] == "v4" || segs[1] == "v5"):
		return segs[1], true
	case len(segs) == 2 && segs[0] == "source" && segs[1] == "v1":
		return "source", true
	case len(segs) == 2 && segs[0] == "requests":
		return "requests", true
	}
	return "", false
}

// title is the body of an error of the symbolication APIs.
type title struct {
	Title string `json:"title"`
}

// sourceError is the answer of /source/v1 that samply's clients expect if there is no
// source.
type sourceError struct {
	Error string `json:"error"`
}

// serve answers a request.
func (s *symbolication) serve(x *exchange, r *http.Request, p *place) {
	x.protocol = protocolSymbolicate
	h := x.Header()
	h["Cache-Control"] = noStore
	s.allowOrigin(h, r)
	if r.Method != http.MethodPost {
		h.Set("Allow", "POST, OPTIONS")
		s.refuse(x, http.StatusMethodNotAllowed, "use POST with a JSON body")
		return
	}
	if r.ContentLength > symbolicate.MaxBody {
		s.refuse(x, http.StatusRequestEntityTooLarge, errLongBody.Error())
		return
	}
	from, allow := s.longBody(x, r)
	rc := http.NewResponseController(x.w)
	memory := s.account(s.bodies, x, r)
	defer memory.Free()
	text, err := memory.Read(r.Context(), from, symbolicate.MaxBody)
	if err != nil {
		s.refuseBody(x, r, err)
		return
	}
	allow(s.cfg.Symbols.Wait)
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Symbols.Wait+s.cfg.WriteTimeout/2)
	defer cancel()
	work := limit.NewShare(s.works, s.sends)
	defer work.End()
	if err := work.Enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		s.fail(x, err)
		return
	}
	answer, err := s.answer(ctx, x, r, p.name, text, work)
	if bad, ok := errors.AsType[symbolicate.RequestError](err); ok {
		s.refuse(x, http.StatusBadRequest, bad.Title)
		return
	}
	if p.name == "source" && errors.Is(err, fs.ErrNotExist) {
		x.result = resultMiss
		s.json(x, http.StatusOK, sourceError{"the source is not known"})
		return
	}
	if err != nil {
		if r.Context().Err() != nil {
			err = context.Cause(r.Context())
		}
		s.fail(x, err)
		return
	}
	x.result = resultHit
	s.jsonBy(x, http.StatusOK, answer, func(text []byte) (int, error) {
		return s.sends.Send(text, x.Write, func() { s.allow(rc, body.Part) }, func() { _ = rc.SetWriteDeadline(time.Now()) })
	})
}

// refuseBody answers a request whose body was not read.
func (s *symbolication) refuseBody(x *exchange, r *http.Request, err error) {
	switch {
	case errors.Is(err, body.ErrLong):
		s.refuse(x, http.StatusRequestEntityTooLarge, errLongBody.Error())
	case errors.Is(err, body.ErrShare):
		x.Header().Set("Retry-After", "5")
		s.refuse(x, http.StatusTooManyRequests, err.Error())
	case errors.Is(err, body.ErrBusy):
		x.Header().Set("Connection", "close") // the rest of the body is not read
		s.fail(x, limit.ErrBusy)
	case r.Context().Err() != nil:
		s.fail(x, context.Cause(r.Context()))
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.err = err
		s.refuse(x, http.StatusRequestTimeout, "the body arrived too slowly")
	default:
		x.err = err
		s.refuse(x, http.StatusBadRequest, "the body of the request cannot be read")
	}
}

// refuse answers with an error in the form of the APIs.
func (s *symbolication) refuse(x *exchange, status int, text string) {
	x.Header().Set("Connection", "close") // the rest of a body is not read
	s.json(x, status, title{text})
}

// asker is what lookups must know of the client of a request. It outlives the request.
type asker struct {
	ask     depot.SymbolsAsk
	public  audience.Scope
	outside bool // the client wants the public forms
}

func (s *symbolication) asker(x *exchange, r *http.Request) asker {
	via, loop := s.via(r)
	return asker{
		depot.SymbolsAsk{Products: x.caller.scope.Products, Client: s.limitKey(r), Via: via, Local: loop}, x.caller.public, asksForPublic(r),
	}
}

// asking returns what symbolication must know of a client, whose request has work. The caller
// calls end.
func (s *symbolication) asking(ctx context.Context, x *exchange, r *http.Request, work *limit.Share) (ask depot.SymbolsAsk, end func()) {
	return s.holding(ctx, s.asker(x, r).ask, work)
}

// holding is asking of a client that is known. ctx ends with the request, or with the work that is done for it later.
func (s *symbolication) holding(ctx context.Context, ask depot.SymbolsAsk, work *limit.Share) (_ depot.SymbolsAsk, end func()) {
	// One limit for all modules of the request.
	hold, cancel := context.WithTimeout(ctx, s.cfg.Symbols.Wait)
	stop := context.AfterFunc(s.waits, cancel) // the server stops
	end = func() {
		stop()
		cancel()
	}
	if s.making.Try() {
		free := end
		end = func() {
			free()
			s.making.Leave()
		}
		ask.Hold = func(ctx context.Context, wait func(context.Context) error) (bool, error) {
			switch err := work.Wait(ctx, s.cfg.Wait, func() error { return wait(hold) }); {
			case err == limit.ErrBusy && hold.Err() == nil:
				return false, symbolicate.ErrBusy // the file is there, and other requests are answered first
			case err != nil && hold.Err() == nil:
				return false, err
			}
			return hold.Err() != nil, ctx.Err()
		}
	}
	return ask, end
}

// forPage waits for the turn of a request for a page or of the JSON API: it counts like one of
// the symbolication APIs.
func (s *symbolication) forPage(ctx context.Context, x *exchange, r *http.Request) (ask depot.SymbolsAsk, end func(), err error) {
	work := limit.NewShare(s.works, s.sends)
	if err := work.Enter(ctx, x.start.Add(s.cfg.Wait)); err != nil {
		if errors.Is(err, limit.ErrBusy) {
			err = &web.Problem{Word: "busy", Detail: "too many others look addresses up"}
		}
		return ask, nil, err
	}
	ask, free := s.asking(ctx, x, r, work)
	return ask, func() {
		free()
		work.End()
	}, nil
}

// orPublic opens modules that a client may not read by their public forms.
type orPublic struct{ whole, public crash.Source }

// Unwind implements symbolicate.Unwinder.
func (s orPublic) Unwind(ctx context.Context, q symbolicate.ModuleQuery) (*symbolicate.Unwind, error) {
	u, err := s.whole.Unwind(ctx, q)
	if !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	if u, err := s.public.Unwind(ctx, q); !errors.Is(err, fs.ErrNotExist) {
		return u, err
	}
	return nil, err
}

// Module implements symbolicate.Source.
func (s orPublic) Module(ctx context.Context, q symbolicate.ModuleQuery) (*symbolicate.Module, error) {
	m, err := s.whole.Module(ctx, q)
	if !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	if m, err := s.public.Module(ctx, q); !errors.Is(err, fs.ErrNotExist) {
		return m, err
	}
	return nil, err
}

// source returns what opens modules for a client.
func (s *symbolication) source(x *exchange, r *http.Request, ask depot.SymbolsAsk) crash.Source {
	return s.sourceOf(asker{ask, x.caller.public, asksForPublic(r)})
}

// sourceOf is source for a client that is known.
func (s *symbolication) sourceOf(a asker) crash.Source {
	src, outside := s.depot.Symbols.Source(a.ask), s.depot.PublicSource(a.public, a.ask)
	switch {
	case a.outside:
		return outside
	case !a.public.IsEmpty():
		return orPublic{src, outside}
	}
	return src
}

// answer answers a request of one API.
func (s *symbolication) answer(ctx context.Context, x *exchange, r *http.Request, api string, body []byte, work *limit.Share) (any, error) {
	ask, end := s.asking(ctx, x, r, work)
	defer end()
	src := s.source(x, r, ask)
	texts := s.depot.Symbols.Texts(ask)
	if api == "source" {
		q, err := symbolicate.ParseSource(body)
		if err != nil {
			return nil, err
		}
		return symbolicate.SourceText(ctx, src, texts, q)
	}
	if api == "symbolicator" {
		q, err := symbolicate.ParseNative(body)
		if err != nil {
			return nil, err
		}
		return symbolicate.Native(ctx, src, texts, q)
	}
	jobs, err := symbolicate.ParseV5(body)
	if err != nil {
		return nil, err
	}
	if api == "v5" {
		return symbolicate.V5Written(ctx, src, jobs)
	}
	if len(jobs) != 1 {
		return nil, symbolicate.RequestError{Title: "version 4 takes one job"}
	}
	return symbolicate.V4(ctx, src, jobs[0])
}
