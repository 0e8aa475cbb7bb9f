package client

import (
	"cmp"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/endpoint"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
)

// answerError is an answer with a status other than 2xx.
type answerError struct {
	wire.Problem
	after time.Duration // of Retry-After
	here  bool          // a depot of this process answers: nobody needs to be told that a server did
}

func (e *answerError) Error() string {
	if e.here {
		return e.says()
	}
	s := cmp.Or(e.Detail, e.Title, "no reason given")
	if e.Detail != "" && e.Title != "" {
		s = e.Title + ": " + e.Detail
	}
	s = "the server answers " + strconv.Itoa(e.Status) + ": " + endpoint.Printable(s)
	for name, why := range e.Fields {
		s += "; " + endpoint.Printable(name) + " " + endpoint.Printable(why)
	}
	if e.Request != "" {
		s += " (request " + endpoint.Printable(e.Request) + ")"
	}
	return s
}

// says is the error of a depot of this process.
func (e *answerError) says() string {
	s := cmp.Or(e.Detail, e.Title)
	for _, name := range slices.Sorted(maps.Keys(e.Fields)) {
		s += "; " + name + ": " + e.Fields[name]
	}
	return s
}

// is reports whether the problem has this word.
func (e *answerError) is(word string) bool { return e.Type == wire.ProblemType+word }

// Unwrap returns the class of the error.
func (e *answerError) Unwrap() error {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return ErrCredentials
	case http.StatusRequestEntityTooLarge, http.StatusInsufficientStorage:
		return ErrTooLarge
	case http.StatusConflict:
		return errConflict
	}
	if e.transient() {
		return ErrUnreachable
	}
	return endpoint.ErrRefused
}

// transient reports whether the request may succeed later.
func (e *answerError) transient() bool {
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// ProblemWord returns the word of the problem that a server has answered with, such
// as wire.ProblemHeld; empty for other errors.
func ProblemWord(err error) string {
	e, ok := errors.AsType[*answerError](err)
	if !ok {
		return ""
	}
	word, _ := strings.CutPrefix(e.Type, wire.ProblemType)
	return word
}

// ProblemText returns what is wrong according to the server, without status and
// title; the whole text for other errors.
func ProblemText(err error) string {
	if e, ok := errors.AsType[*answerError](err); ok && e.Detail != "" {
		return endpoint.Printable(e.Detail)
	}
	return err.Error()
}

// errNotInTrash means that a transaction cannot be restored.
var errNotInTrash = errors.New("the build is not in the trash")

// errBelowBar means that a transaction has less coverage than a class demands.
var errBelowBar = errors.New("the coverage of the build is less than the class demands")

// meanings is the table of what the words of problems mean: the errors that the depot itself
// returns. What a word means that stands for a missing thing depends on the request.
var meanings = map[string]error{
	wire.ProblemNoPolicy:    lifecycle.ErrNoPolicy,
	wire.ProblemBrake:       retention.ErrBrake,
	wire.ProblemPlanChanged: retention.ErrStale,
	wire.ProblemChanged:     lifecycle.ErrPolicyChanged,
	wire.ProblemBelowBar:    errBelowBar,
	wire.ProblemNotInTrash:  errNotInTrash,
}

// meantError is the answer of an API with the meaning that it has here.
type meantError struct {
	text    string
	meaning error
	cause   error
}

func (e *meantError) Error() string   { return e.text }
func (e *meantError) Unwrap() []error { return []error{e.meaning, e.cause} }

// meant gives an error its meaning. missing is that of a thing that is not found; nil: none.
func meant(err, missing error) error {
	word := ProblemWord(err)
	meaning := meanings[word]
	if word == wire.ProblemNotFound {
		meaning = missing
	}
	if meaning == nil {
		return err
	}
	text := ProblemText(err)
	if e, ok := errors.AsType[*answerError](err); ok && e.here && word == wire.ProblemPlanChanged && !strings.Contains(text, meaning.Error()) {
		text = meaning.Error() + ": " + text // as the error of the depot begins
	}
	return &meantError{text, meaning, err}
}

// IsNo reports whether an error is an answer, and no failure: there is no policy or no such
// plan, the brake holds the plan, a transaction is not in the trash, or has too little coverage for a class.
func IsNo(err error) bool {
	_, outside := errors.AsType[*lifecycle.NotInTrashError](err)
	for _, no := range []error{errNotInTrash, errBelowBar, lifecycle.ErrNoPolicy, lifecycle.ErrNoPlan, retention.ErrBrake} {
		outside = outside || errors.Is(err, no)
	}
	return outside
}
