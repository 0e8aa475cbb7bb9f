package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"
)

// AnswerTime is how long the answer to a request with JSON may take to begin.
const AnswerTime = 5 * time.Minute

// ReadSpec decodes a body that may be missing: v is unchanged then.
func ReadSpec(r *Request, v any) error {
	if r.ContentLength == 0 {
		return nil
	}
	return ReadJSON(r, MaxSpecBody, v)
}

// ReadJSON decodes a body of at most limit bytes. Unknown members are refused:
// a misspelled one would be ignored otherwise.
func ReadJSON(r *Request, limit int64, v any) error {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != Identity {
		return &Problem{Word: "coding", Detail: "JSON is accepted only without a content coding"}
	}
	b, err := r.ReadAll(limit, "body")
	if err != nil {
		return err
	}
	r.Allow(AnswerTime)
	return decodeJSON(b, v)
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
			return BadMember("a member of the body has the wrong type", wrong.Field, "is a "+wrong.Value)
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

// WriteJSON answers with JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
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
	return NotSent(err)
}

// NotSent marks an error as a failure of the connection after the answer has begun; nil
// stays nil.
func NotSent(err error) error {
	if err == nil {
		return nil
	}
	return notSent{err}
}

type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }
