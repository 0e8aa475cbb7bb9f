package intake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/symdepot/symdepot/internal/base/body"
	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
)

// statusOf returns the status of an error, and its text for the client.
func (x *exchange) statusOf(err error) (int, string) {
	var f *failure
	var r *stage.Refusal
	var wrong *wrongClaim
	switch {
	case errors.As(err, &f):
		return f.status, f.text
	case errors.As(err, &wrong):
		return x.t.face.wrong, wrong.text
	case errors.As(err, &r):
		return x.t.face.refused(r.Kind), r.Text
	case errors.Is(err, body.ErrShare):
		return http.StatusServiceUnavailable, body.ErrShare.Error() // clients repeat it rather than 429
	case errors.Is(err, body.ErrBusy):
		return http.StatusServiceUnavailable, body.ErrBusy.Error()
	case errors.Is(err, errSlow), errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "the body arrives too slowly"
	case errors.Is(err, syscall.ENOSPC):
		return http.StatusInsufficientStorage, "the server's disk is full"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "the request was cut off; send it again"
	case errors.Is(err, errCut):
		return http.StatusBadRequest, "the request's body is cut short or damaged"
	}
	return http.StatusInternalServerError, "internal error"
}

func (f *face) refused(k stage.Kind) int {
	switch k {
	case stage.NotFound:
		return http.StatusNotFound
	case stage.TooLarge:
		return http.StatusRequestEntityTooLarge
	case stage.Quota:
		return f.quota
	case stage.Busy, stage.TooMany: // clients repeat 503 rather than 429
		return http.StatusServiceUnavailable
	case stage.NoSpace:
		return http.StatusInsufficientStorage
	case stage.Conflict:
		return http.StatusConflict
	case stage.WrongHash:
		return f.wrong
	case stage.Forbidden:
		return http.StatusForbidden
	case stage.NotSymbol:
		return f.unfit
	case stage.Lost:
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// fail answers a request that failed.
func (x *exchange) fail(err error) {
	status, text := x.statusOf(err)
	args := []any{
		"protocol", x.t.face.name, "status", status, "error", truncate.Text(err.Error()),
		"who", x.who.Name, "remote", x.r.RemoteAddr,
	}
	if status == http.StatusInternalServerError {
		x.log.Error("an upload failed", args...)
	} else {
		x.log.Info("an upload was refused", args...)
	}
	x.drain()
	h := x.w.Header()
	switch status {
	case http.StatusUnauthorized:
		h["Www-Authenticate"] = x.in.Challenge
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		h.Set("Retry-After", "5")
	}
	x.t.face.write(x, status, text)
}

// maxDrain is how much of a refused body is read: clients that send without
// listening report a broken connection otherwise, and not the answer.
const maxDrain = 1 << 20

// drain reads what is left of a refused body, unless the client waits for
// 100-continue, which it must not get.
func (x *exchange) drain() {
	p, _ := x.body.(*paced)
	if p == nil || !p.begun && strings.EqualFold(x.r.Header.Get("Expect"), "100-continue") {
		x.w.Header().Set("Connection", "close")
		return
	}
	_ = http.NewResponseController(x.w).SetReadDeadline(time.Now().Add(10 * time.Second)) // writers in tests have no deadlines
	n, err := io.CopyN(io.Discard, x.r.Body, maxDrain)
	if n == maxDrain || err != nil && !errors.Is(err, io.EOF) {
		x.w.Header().Set("Connection", "close")
	}
}

// json answers with JSON. Neither & nor < are escaped: some clients look for a
// text in it.
func (x *exchange) json(status int, v any) error {
	x.w.Header().Set("Content-Type", "application/json")
	x.w.WriteHeader(status)
	e := json.NewEncoder(x.w)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // the client may have left
	return nil
}

// text answers with a line of text.
func (x *exchange) text(status int, text string) error {
	x.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	x.w.WriteHeader(status)
	_, _ = io.WriteString(x.w, text+"\n") // the client may have left
	return nil
}

// jsonFailure returns a function that writes {"member": "text"}.
func jsonFailure(member string) func(x *exchange, status int, text string) {
	return func(x *exchange, status int, text string) { _ = x.json(status, map[string]string{member: text}) }
}

func textFailure(x *exchange, status int, text string) { _ = x.text(status, text) }

// readJSON decodes a body of at most max bytes.
func (x *exchange) readJSON(max int64, v any) error {
	b, err := x.readAll(max)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &failure{http.StatusBadRequest, "malformed JSON request body"}
	}
	return nil
}

// readAll reads a body of at most max bytes into memory.
func (x *exchange) readAll(max int64) ([]byte, error) {
	if x.r.ContentLength > max {
		return nil, &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", max)}
	}
	r, err := x.decoded(x.body, x.r.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := x.in.Memory.Read(x.r.Context(), r, max)
	if errors.Is(err, body.ErrLong) {
		return nil, &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", max)}
	}
	return b, err
}
