package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/intake"
)

// kinds are the words of problems (RFC 9457), each with its status and its
// title. The type of a problem is wire.ProblemType and the word.
var kinds = map[string]struct {
	status int
	title  string
}{
	"query":        {http.StatusBadRequest, "the request is not valid"},
	"cursor":       {http.StatusBadRequest, "the cursor does not belong to these filters"},
	"credentials":  {http.StatusUnauthorized, "this needs credentials"},
	"forbidden":    {http.StatusForbidden, "the credentials do not allow this"},
	"not-found":    {http.StatusNotFound, "not found"},
	"method":       {http.StatusMethodNotAllowed, "this address does not support the method"},
	"timeout":      {http.StatusRequestTimeout, "the body arrived too slowly"},
	"conflict":     {http.StatusConflict, "the request does not fit the state on the server"},
	"plan-changed": {http.StatusConflict, "the plan has changed"},
	"no-policy":    {http.StatusConflict, "no retention policy is set"},
	"brake":        {http.StatusConflict, "the brake holds the plan"},
	"below-bar":    {http.StatusConflict, "the coverage of the build is less than the class demands"},
	"held":         {http.StatusConflict, "the build is held"},
	"not-in-trash": {http.StatusConflict, "the build is not in the trash"},
	"changed":      {http.StatusPreconditionFailed, "the resource was changed meanwhile"},
	"too-large":    {http.StatusRequestEntityTooLarge, "the request is larger than a limit of the server"},
	"coding":       {http.StatusUnsupportedMediaType, "the content coding is not supported"},
	"digest":       {http.StatusUnprocessableEntity, "the bytes do not have the stated hash"},
	"not-symbol":   {http.StatusUnprocessableEntity, "the file is refused"},
	"rate":         {http.StatusTooManyRequests, "too many requests"},
	"internal":     {http.StatusInternalServerError, "internal error; see the server's log"},
	"busy":         {http.StatusServiceUnavailable, "the server is busy, try again in a few seconds"},
	"quota":        {http.StatusInsufficientStorage, "the quota of the product is used up"},
	"no-space":     {http.StatusInsufficientStorage, "the server has too little free space"},
}

// Problem is an error in the form that the client receives.
type Problem struct {
	Word    string            // a key of kinds
	Detail  string            // what is wrong in this case; may be empty
	Fields  map[string]string // members of the request that are wrong, with the reason
	Missing []string          // the contents that a commit lacks
	Allow   string            // the methods of the address, for the word method
	Next    string            // what to do next, for pages; may be empty
}

// BadMember is the problem of a request of which the member name is wrong. detail says what
// is wrong, reason what is expected of the member.
func BadMember(detail, name, reason string) *Problem {
	return &Problem{Word: "query", Detail: detail, Fields: map[string]string{name: reason}}
}

// BadParameter is BadMember for a parameter of the query.
func BadParameter(name, reason string) *Problem {
	return BadMember("a parameter is not valid", name, reason)
}

func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return kinds[p.Word].title
}

// Title says what is wrong in every case of the problem's word.
func (p *Problem) Title() string { return kinds[p.Word].title }

// Words returns the words of all problems.
func Words() []string { return slices.Sorted(maps.Keys(kinds)) }

// Status returns the status code of the problem.
func (p *Problem) Status() int { return kinds[p.Word].status }

// WriteProblem answers with a problem. request is the number of the request in
// the log.
func WriteProblem(w http.ResponseWriter, p *Problem, request string) error {
	kind := kinds[p.Word]
	detail := p.Detail
	if p.Word == "credentials" {
		detail = cmp.Or(detail, kind.title) + "; " + intake.SendToken
	}
	b, err := json.Marshal(wire.Problem{
		Type: wire.ProblemType + p.Word, Title: kind.title, Status: kind.status, Detail: detail,
		Request: request, Fields: p.Fields, Missing: p.Missing,
	})
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	h.Set("Cache-Control", "no-store")
	switch {
	case p.Word == "method":
		h.Set("Allow", p.Allow)
	case p.Word == "coding":
		h.Set("Accept-Encoding", strings.Join(Codings, ", "))
	case kind.status == http.StatusServiceUnavailable || kind.status == http.StatusTooManyRequests:
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(kind.status)
	_, err = w.Write(append(b, '\n'))
	return err
}

// AsProblem returns the problem that an error is, or nil.
func AsProblem(err error) *Problem {
	p, _ := errors.AsType[*Problem](err)
	return p
}
