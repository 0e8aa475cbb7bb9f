package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/symdepot/symdepot/layout"
)

// Errors of this package that have a status of their own.
var (
	errBusy    = errors.New("too many requests are being answered")
	errMethod  = errors.New("only GET and HEAD are answered here")
	errBody    = errors.New("a request for symbols has no body")
	errHost    = errors.New("not a name of this server")
	errStopped = errors.New("not ready")
)

// tooLargeError says that a file is larger than its client wants it.
type tooLargeError struct{ max int64 }

func (e tooLargeError) Error() string { return fmt.Sprintf("File too large, max size=%d", e.max) }

// statusGone is logged when the client went away before there was an answer;
// nobody sees it on the wire.
const statusGone = 499

// classes is the one table from error to status; the first class that an
// error is decides. Clients drop a server for a session, or hide an id for
// minutes, when they see anything but 404 for what is merely absent, so only
// that is 404, and overload is never 429.
var classes = []struct {
	is     error
	status int
	text   string // body; "" means the error's own text
}{
	{fs.ErrNotExist, http.StatusNotFound, "not found"},
	{layout.ErrNoPath, http.StatusNotFound, "not found"},
	{errHost, http.StatusNotFound, "not found: this server answers on this address only to localhost and to the host names it was configured with"},
	{errMethod, http.StatusMethodNotAllowed, ""},
	{errBody, http.StatusRequestEntityTooLarge, ""},
	{errBusy, http.StatusServiceUnavailable, "busy, try again in a few seconds"},
	{errStopped, http.StatusServiceUnavailable, ""},
	{context.Canceled, statusGone, "the client went away"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "this took too long, try again in a few seconds"},
}

// classify returns the status and the body's text for an error.
func classify(err error) (status int, text string) {
	if e, ok := errors.AsType[tooLargeError](err); ok {
		return http.StatusNotAcceptable, e.Error()
	}
	for _, c := range classes {
		if errors.Is(err, c.is) {
			if c.text == "" {
				return c.status, c.is.Error()
			}
			return c.status, c.text
		}
	}
	return http.StatusInternalServerError, "internal error; the server's log says more"
}

// absentError is an absence with a text that helps a person.
type absentError struct{ text string }

func (e absentError) Error() string   { return e.text }
func (absentError) Is(err error) bool { return err == fs.ErrNotExist }
