// Package api is the JSON API below /-/api: one type of handlers for each subject, with its
// addresses. Within answers commands in the same process.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/web"
)

// API answers the requests below /-/api. Its methods may be called by many goroutines.
type API struct {
	// Origin knows which pages are those of this server.
	Origin *web.Origin

	table []route
	log   *slog.Logger
}

// New returns the API of what New returned.
func New(a *web.Acts) *API {
	return &API{Origin: a.Origin, log: a.Log, table: slices.Concat(
		tokenAPI{a.Accounts, a.Gate, a.Log}.routes(),
		signInAPI{a.Accounts, a.Log}.routes(),
		retentionAPI{a.Retention, a.Retention, a.Transactions, a.Computing, a.Log}.routes(),
		usageAPI{a.Retention, a.Stages, a.InPlace, a.Computing, a.Now}.routes(),
		transactionAPI{a.Transactions, a.Depot, a.Retention}.routes(),
		traceAPI{a.Traces}.routes(),
		catalogAPI{a.Catalog, a.InPlace, a.Transactions, a.SourceLists, a.Symbolication, a.Computing, a.FoundInPlace}.routes(),
		missesAPI{a.Missing, a.Log}.routes(),
		arrivalsAPI{a.Arrivals}.routes(),
		identifyAPI{a.Examiner}.routes(),
		stackAPI{a.Examiner, a.Symbolication}.routes(),
		crashesAPI{a.Crashes}.routes(),
		coverageAPI{a.Coverage}.routes(),
		pushAPI{a.Stages, a.Bases, a.Uploads}.routes(),
		serverAPI{a.Version, a.Now, a.Jobs, a.JobActs, a.Upstreams, a.UpstreamActs, a.Events, a.Log}.routes(),
	)}
}

// Off returns an API without addresses, of a server that has none.
func Off(log *slog.Logger) *API { return &API{Origin: web.NewOrigin("", log), log: log} }

// find returns the route of a request. If the address has no such method,
// allow lists those that it has.
func (a *API) find(method string, segs []string) (rt *route, args []string, allow []string) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range a.table {
		at, ok := web.MatchPath(a.table[i].path, segs)
		if !ok {
			continue
		}
		if a.table[i].method == method {
			return &a.table[i], at, nil
		}
		if allow = append(allow, a.table[i].method); a.table[i].method == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	return nil, nil, allow
}

// Serve answers a request. The error is for the log: the client has been
// answered unless the connection is broken.
func (a *API) Serve(w http.ResponseWriter, r *web.Request) error {
	r.NoteEnd()
	err := a.serve(w, r)
	if err == nil || errors.Is(err, web.ErrCut) {
		return err
	}
	return a.Refuse(w, r, err)
}

func (a *API) serve(w http.ResponseWriter, r *web.Request) error {
	if err := a.Origin.Check(r.Request); err != nil {
		return err
	}
	rt, args, allow := a.find(r.Method, r.Segments[2:])
	switch {
	case rt == nil && len(allow) == 0:
		return &web.Problem{Word: "not-found"}
	case rt == nil:
		slices.Sort(allow)
		return &web.Problem{Word: "method", Allow: strings.Join(allow, ", ")}
	}
	return rt.answer(w, r, args)
}

// Refuse answers with the problem that an error is. It returns an error for the
// log, or nil if the client can do something about the problem.
func (a *API) Refuse(w http.ResponseWriter, r *web.Request, err error) error {
	p, logged, gone := r.Judge(err, a.log)
	if gone {
		return context.Canceled
	}
	web.Finish(w, r)
	if p.Word == "credentials" {
		w.Header()["Www-Authenticate"] = r.Challenges
	}
	return errors.Join(logged, web.WriteProblem(w, p, r.ID))
}
