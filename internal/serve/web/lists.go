package web

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/symfile"
)

// WrongParameter is the problem of a parameter.
func WrongParameter(name, why string) error {
	return BadParameter(name, why)
}

// TimeOf reads a parameter that is a time or a day; the zero time if it is missing.
func TimeOf(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, WrongParameter(name, "a time is expected, such as 2026-12-31T10:00:00Z or 2026-12-31")
}

// KindOf reads the parameter kind.
func KindOf(q url.Values) (symfile.Kind, error) {
	word := q.Get("kind")
	k := symfile.ParseKind(word)
	if word != "" && k == symfile.KindUnknown {
		return k, WrongParameter("kind", "a kind of symbol file is expected, such as pe, pdb, elf or macho")
	}
	return k, nil
}

// WordOf reads a parameter that is one of several words, or missing.
func WordOf(q url.Values, name string, words ...string) (string, error) {
	word := q.Get(name)
	if word != "" && !slices.Contains(words, word) {
		return "", WrongParameter(name, "one of these is expected: "+strings.Join(words, ", "))
	}
	return word, nil
}

// Describe describes the items of a list.
func Describe[T, U any](list []T, describe func(T) U) []U {
	out := make([]U, len(list))
	for i, x := range list {
		out[i] = describe(x)
	}
	return out
}

// WriteList answers with a part of a list. next is the sort key of its last item, "" if
// there are no more.
func WriteList[T any](w http.ResponseWriter, r *Request, name string, items []T, next string) error {
	return WriteListRead(w, r, name, items, next, "")
}

// WriteListRead is writeList that also says how a text was read.
func WriteListRead[T any](w http.ResponseWriter, r *Request, name string, items []T, next string, as catalog.ReadAs) error {
	out := struct {
		ReadAs catalog.ReadAs `json:"read_as,omitempty"`
		Items  []T            `json:"items"`
		Next   string         `json:"next,omitempty"`
	}{ReadAs: as, Items: items}
	if out.Items == nil {
		out.Items = []T{}
	}
	out.Next = LinkNext(w, r, name, next)
	return WriteJSON(w, http.StatusOK, out)
}

// ListProblem returns the problem that an error of a list is. after is the place that the
// client has sent.
func ListProblem(err error, after string) error {
	switch {
	case errors.Is(err, catalog.ErrShortPattern):
		return WrongParameter("q", catalog.ErrShortPattern.Error())
	case errors.Is(err, catalog.ErrTooDifferent):
		return &Problem{Word: "query", Detail: catalog.ErrTooDifferent.Error()}
	case errors.Is(err, fs.ErrInvalid) && after != "":
		return &Problem{Word: "cursor"}
	case errors.Is(err, fs.ErrInvalid):
		return &Problem{Word: "query", Detail: err.Error()}
	}
	return err
}

// ProductOf reads the parameter product; nil if it is missing. An empty one is that of
// transactions without a product.
func ProductOf(q url.Values) *string {
	if !q.Has("product") {
		return nil
	}
	product := q.Get("product")
	return &product
}

// NoContent is the answer for a content that does not exist, or that the client may not
// see.
func NoContent(text string) error {
	return &Problem{Word: "not-found", Detail: "there is no file with the SHA-256 " + Clip(text)}
}

// FilesAsked reads the parameters of a list of files.
func FilesAsked(q url.Values, limit int, after string) (f catalog.FileQuery, err error) {
	f = catalog.FileQuery{Name: q.Get("name"), After: after, Limit: limit}
	if f.Kind, err = KindOf(q); err != nil {
		return f, err
	}
	sort, err := WordOf(q, "sort", string(catalog.SortAdded), string(catalog.SortName), string(catalog.SortSize))
	f.Sort = catalog.ObjectSort(sort)
	return f, err
}

// NeedProduct reads the parameter product, which must be there.
func NeedProduct(q url.Values) (string, error) {
	if p := ProductOf(q); p != nil {
		return *p, nil
	}
	return "", WrongParameter("product", "a product is expected; an empty one is that of builds without a product")
}

const (
	// MaxTokenBody limits the body of a request for a token, in bytes.
	MaxTokenBody = 64 << 10
	// ListRows is how many items a list has without a limit.
	ListRows = 100
	// MaxListRows is the largest limit of a list.
	MaxListRows = 1000
)

// LinkNext names the next part of a list in the header, and returns its cursor. last is the
// sort key of the last item of this part; "" if there are no more.
func LinkNext(w http.ResponseWriter, r *Request, list, last string) string {
	if last == "" {
		return ""
	}
	q := r.URL.Query()
	next := Cursor(list, q, last)
	w.Header().Set("Link", `<`+r.URL.EscapedPath()+`?`+WithValues(q, "cursor", next).Encode()+`>; rel="next"`)
	return next
}

// filterHash identifies the filters of a list: all parameters but limit and cursor.
func filterHash(list string, q url.Values) []byte {
	f := url.Values{}
	for k, v := range q {
		if k != "limit" && k != "cursor" {
			f[k] = v
		}
	}
	sum := sha256.Sum256([]byte(list + "?" + f.Encode()))
	return sum[:6]
}

// Cursor returns the position in a list after the item with the sort key last.
func Cursor(list string, q url.Values, last string) string {
	return base64.RawURLEncoding.EncodeToString(append(filterHash(list, q), last...))
}

// ReadPage reads the parameters limit and cursor of a list. after is the sort key of
// the last item that the client has; "" before the first.
func ReadPage(q url.Values, list string) (limit int, after string, err error) {
	limit = ListRows
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > MaxListRows {
			return 0, "", BadMember("the limit is not valid", "limit", "a number from 1 to "+strconv.Itoa(MaxListRows)+" is expected")
		}
	}
	text := q.Get("cursor")
	if text == "" {
		return limit, "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if h := filterHash(list, q); err != nil || len(b) < len(h) || string(b[:len(h)]) != string(h) {
		return 0, "", &Problem{Word: "cursor"}
	} else {
		return limit, string(b[len(h):]), nil
	}
}

// OnlyParameters refuses query parameters with other names: a misspelled one would be ignored
// otherwise.
func OnlyParameters(r *Request, names ...string) error {
next:
	for name := range r.URL.Query() {
		for _, n := range names {
			if n == name {
				continue next
			}
		}
		return BadMember("the query has an unknown parameter", Clip(name), "is unknown")
	}
	return nil
}

// Forms of a whole list.
const (
	FormCSV    = "csv"
	FormNDJSON = "ndjson"
)

// Clip shortens a text of a request for a message.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "�") }

// WithValues returns a copy of a query with other values; an empty value removes the name.
func WithValues(q url.Values, pairs ...string) url.Values {
	v := url.Values{}
	for name, list := range q {
		v[name] = list
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if v.Del(pairs[i]); pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}
