package api

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/userquery"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// traceAPI answers requests for explanations of requests.
type traceAPI struct{ *web.Traces }

func (a traceAPI) routes() []route {
	return []route{
		on(http.MethodGet, "v1/trace", a.one),
		on(http.MethodPost, "v1/trace/log", a.logged),
		bare(on(http.MethodPost, "v1/trace/ask", a.ask)),
	}
}

// one answers GET trace.
func (a traceAPI) one(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r, "path", "name", "id", "as"); err != nil {
		return err
	}
	p := r.URL.Query()
	l, err := a.Traced(r, p)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, l)
}

// logged answers POST trace/log: the body is a log as a text.
func (a traceAPI) logged(w http.ResponseWriter, r *web.Request, _ []string) error {
	if err := web.OnlyParameters(r, "as"); err != nil {
		return err
	}
	text, err := readText(r, userquery.MaxLog)
	if err != nil {
		return err
	}
	l, err := a.TracedLog(r, r.URL.Query().Get("as"), text)
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, l)
}

// readText reads a body that is a text of at most limit bytes.
func readText(r *web.Request, limit int64) (string, error) {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != web.Identity {
		return "", &web.Problem{Word: "coding", Detail: "a text is accepted only without a content coding"}
	}
	b, err := r.ReadAll(limit, "body")
	if err != nil {
		return "", err
	}
	r.Allow(web.TraceTime)
	return strings.ToValidUTF8(string(b), "\uFFFD"), nil
}

// ask answers POST trace/ask: the upstreams are asked once, and then the request
// is explained.
func (a traceAPI) ask(w http.ResponseWriter, r *web.Request, _ []string) error {
	var q wire.TraceAsk
	if err := web.ReadJSON(r, web.MaxSpecBody, &q); err != nil {
		return err
	}
	l, err := a.AskNow(r, url.Values{"path": {q.Path}, "name": {q.Name}, "id": {q.ID}})
	if err != nil {
		return err
	}
	return web.WriteJSON(w, http.StatusOK, l)
}
