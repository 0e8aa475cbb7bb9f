package api

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
)

// Within returns a transport whose requests this API answers in the same process, for the
// administrator of this machine, who is recorded with the name who. A request that fails for
// another reason than its own, so that a server would answer with the status 500, is an error
// of the transport: there is no log of a server in which it could be found.
func (a *API) Within(who string) http.RoundTripper {
	rights := auth.Rights{Admitted: true, Admin: true, All: true, Write: true, WriteAll: true}
	return within{a, web.Principal{
		Name: who, Read: rights.MayRead, Write: rights.MayWrite, WritesAny: true, Identity: auth.Identity{Name: who}, Rights: rights,
		Says: "The command reads the depot itself, and sees all products.",
	}}
}

type within struct {
	api *API
	who web.Principal
}

// RoundTrip implements http.RoundTripper.
func (t within) RoundTrip(req *http.Request) (*http.Response, error) {
	segs, err := layout.Segments(req.URL.EscapedPath())
	if err != nil {
		return nil, err
	}
	w := &recorder{header: http.Header{}}
	r := &web.Request{
		Request: req, Segments: segs, Principal: t.who, Body: http.NoBody, ID: web.NewRequestID(), Transport: web.Loopback,
		Allow: func(time.Duration) {}, Leave: func() {},
	}
	if req.Body != nil {
		r.Body = req.Body
	}
	if err := t.api.serve(w, r); err != nil {
		p := web.AsProblem(err)
		if p == nil {
			return nil, err
		}
		if err := web.WriteProblem(w, p, r.ID); err != nil {
			return nil, err
		}
	}
	return w.response(req), nil
}

// recorder is an answer in memory.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }

// response is the answer as a client receives it.
func (w *recorder) response(req *http.Request) *http.Response {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		Status: strconv.Itoa(w.status) + " " + http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: req,
	}
}
