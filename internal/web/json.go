package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/body"
)

// answerTime is how long the answer to a request with JSON may take to begin.
const answerTime = 5 * time.Minute

// readSpec decodes a body that may be missing: v is unchanged then.
func readSpec(r *Request, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return readJSON(r, maxSpecBody, v)
}

// readJSON decodes a body of at most limit bytes. Unknown members are refused:
// a misspelled one would be ignored otherwise.
func readJSON(r *Request, limit int64, v any) error {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != identity {
		return &Problem{Word: "coding", Detail: "JSON is accepted only without a content coding"}
	}
	b, err := r.readAll(limit, "body")
	if err != nil {
		return err
	}
	r.Allow(answerTime)
	return decodeJSON(b, v)
}

// readAll reads the body, which is what, of at most limit bytes.
func (r *Request) readAll(limit int64, what string) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLong(limit, what)
	}
	b, err := r.Memory.Read(r.Context(), r.Body, limit)
	if errors.Is(err, body.ErrLong) {
		return nil, tooLong(limit, what)
	}
	return b, err
}

func tooLong(limit int64, what string) *Problem {
	return &Problem{Word: "too-large", Detail: "the " + what + " is longer than " + strconv.FormatInt(limit, 10) + " bytes"}
}

// decodeJSON decodes one JSON value without unknown members.
func decodeJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return &Problem{Word: "query", Detail: "a member of the body has the wrong type", Fields: map[string]string{wrong.Field: "is a " + wrong.Value}}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return &Problem{Word: "query", Detail: "the body is not whole JSON"}
		}
		return &Problem{Word: "query", Detail: "the body is not valid: " + err.Error()}
	}
	if d.More() {
		return &Problem{Word: "query", Detail: "the body has more than one JSON value"}
	}
	if _, err := d.Token(); err != io.EOF {
		return &Problem{Word: "query", Detail: "the body has more than one JSON value"}
	}
	return nil
}

// writeJSON answers with JSON.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(b)+1))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, err = w.Write(append(b, '\n'))
	return writeError{err}.orNil()
}

// writeError is a failure of the connection after the answer has begun.
type writeError struct{ error }

func (e writeError) Unwrap() error { return e.error }

func (e writeError) orNil() error {
	if e.error == nil {
		return nil
	}
	return e
}
