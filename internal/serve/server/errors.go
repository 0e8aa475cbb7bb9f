package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"

	"github.com/symdepot/symdepot/internal/base/limit"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/layout"
)

// Errors of this package that have a status of their own.
var (
	errMethod  = errors.New("this path supports only GET and HEAD")
	errBody    = errors.New("a request for this path must not have a body")
	errHost    = errors.New("the Host header is not a name of this server")
	errStopped = errors.New("not ready")
)

// tooLargeError says that a file is larger than its client wants it.
type tooLargeError struct{ max int64 }

func (e tooLargeError) Error() string { return fmt.Sprintf("File too large, max size=%d", e.max) }

// statusGone is logged when the client disconnected before the answer; it is
// never sent.
const statusGone = 499

// The text of most misses, and the body that has it.
const (
	notFoundText = "not found"
	notFoundLine = notFoundText + "\n"
)

// classes maps errors to statuses; the first match decides. Clients stop using
// a server for a session, or an id for minutes, after any status but 404 for a
// file that is merely missing. So a miss is always 404, and overload is never
// 429.
var classes = []struct {
	is     error
	status int
	text   string // body; "" means the error's own text
}{
	// These come first, so that an unknown answer is never a miss.
	{content.ErrUnavailable, http.StatusServiceUnavailable, "the file cannot be read now, try again in a few seconds"},
	{home.ErrNoDatabase, http.StatusServiceUnavailable, "the index cannot be read now, try again in a few seconds"},
	{fs.ErrNotExist, http.StatusNotFound, notFoundText},
	{layout.ErrNoPath, http.StatusNotFound, notFoundText},
	{errHost, http.StatusNotFound,
		"not found: this server does not answer to this host name; names can be added under hosts in its configuration"},
	{errCrossSite, http.StatusForbidden, ""},
	{errMethod, http.StatusMethodNotAllowed, ""},
	{errBody, http.StatusRequestEntityTooLarge, ""},
	{limit.ErrBusy, http.StatusServiceUnavailable, "busy, try again in a few seconds"},
	{errStopped, http.StatusServiceUnavailable, ""},
	{context.Canceled, statusGone, "the client went away"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "this took too long, try again in a few seconds"},
}

// classify returns the status and the body's text for an error.
func classify(err error) (status int, text string) {
	if err == fs.ErrNotExist { // most answers
		return http.StatusNotFound, notFoundText
	}
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
	return http.StatusInternalServerError, "internal error; see the server's log"
}

// missError is fs.ErrNotExist with a text that helps a person.
type missError struct{ text string }

func (e missError) Error() string   { return e.text }
func (missError) Is(err error) bool { return err == fs.ErrNotExist }
