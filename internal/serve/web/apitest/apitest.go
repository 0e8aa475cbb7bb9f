// Package apitest compares, in tests, what a server answers with its OpenAPI 3.1
// description.
package apitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Base is the path of the API below the base URL of a server.
const Base = "/-/api/v1"

// Operation is a method of an address in a description.
type Operation struct {
	Method string
	Path   string // a template below Base, such as /tokens/{id}

	at   string // its place in the description, as a JSON pointer
	node map[string]any
}

// Description is an OpenAPI description.
type Description struct {
	// Operations are all of them, sorted by path and method.
	Operations []Operation

	doc      map[string]any
	mu       sync.Mutex
	compiler *jsonschema.Compiler          // guarded by mu
	compiled map[string]*jsonschema.Schema // guarded by mu
}

// place is the URL under which schemas refer to the description.
const place = "https://openapi.invalid/openapi.json"

const (
	schemas = "#/components/schemas/"
	// strict are schemas that refuse members which they do not describe: a server must
	// send none, although clients must accept them.
	strict = "#/components/strict/"
)

// New reads a description in JSON.
func New(text []byte) (*Description, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	d := &Description{doc: node(v), compiler: jsonschema.NewCompiler(), compiled: map[string]*jsonschema.Schema{}}
	all := node(node(d.doc, "components"), "schemas")
	closed := map[string]any{}
	for name, s := range all {
		c := map[string]any{"$ref": schemas + name}
		if node(s)["type"] == "object" && node(s)["properties"] != nil {
			c["unevaluatedProperties"] = false
		}
		closed[name] = c
	}
	for _, part := range []string{"paths", "components"} {
		tighten(d.doc[part], false)
	}
	node(d.doc, "components")["strict"] = closed
	d.compiler.DefaultDraft(jsonschema.Draft2020)
	d.compiler.AssertFormat()
	if err := d.compiler.AddResource(place, d.doc); err != nil {
		return nil, err
	}
	paths := node(d.doc, "paths")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range slices.Sorted(maps.Keys(node(paths, path))) {
			d.Operations = append(d.Operations, Operation{
				Method: strings.ToUpper(method), Path: path,
				at: "#/paths/" + pointer(path) + "/" + method, node: node(paths, path, method),
			})
		}
	}
	return d, nil
}

// node returns a member of nested objects; nil if it is none.
func node(v any, names ...string) map[string]any {
	m, _ := v.(map[string]any)
	for _, n := range names {
		m, _ = m[n].(map[string]any)
	}
	return m
}

// pointer escapes a name for a JSON pointer in a URL.
func pointer(name string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}

// tighten makes schemas refuse members that they do not describe. extended means that
// another schema adds members, and refuses the others.
func tighten(v any, extended bool) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			tighten(x, extended)
		}
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && !extended {
			if name, is := strings.CutPrefix(ref, schemas); is {
				v["$ref"] = strict + name
			}
		}
		for name, x := range v {
			switch name {
			case "schemas": // those of components have strict forms of their own
				for _, s := range node(x) {
					tightenIn(node(s))
				}
			case "allOf":
				tighten(x, true)
			default:
				tighten(x, false)
			}
		}
		if _, ok := v["properties"].(map[string]any); ok && !extended {
			v["unevaluatedProperties"] = false
		}
	}
}

// tightenIn tightens the schemas of the members of a schema.
func tightenIn(schema map[string]any) {
	for name, x := range schema {
		tighten(x, name == "allOf")
	}
}

// Compile compiles all schemas.
func (d *Description) Compile() error {
	var failed []error
	for name := range node(d.doc, "components", "schemas") {
		_, err := d.schema(strict + name)
		failed = append(failed, err)
	}
	for _, op := range d.Operations {
		for status := range node(op.node, "responses") {
			for media := range node(op.node, "responses", status, "content") {
				_, err := d.schema(op.at + "/responses/" + status + "/content/" + pointer(media) + "/schema")
				failed = append(failed, err)
			}
		}
		for media := range node(op.node, "requestBody", "content") {
			_, err := d.schema(op.at + "/requestBody/content/" + pointer(media) + "/schema")
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// schema returns the schema at a place of the description.
func (d *Description) schema(at string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.compiled[at]; s != nil {
		return s, nil
	}
	s, err := d.compiler.Compile(place + at)
	if err == nil {
		d.compiled[at] = s
	}
	return s, err
}

// validate checks a JSON text.
func (d *Description) validate(at string, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	s, err := d.schema(at)
	if err != nil {
		return err
	}
	return s.Validate(v)
}

// find returns the operation for a path below Base, and whether the path has others.
func (d *Description) find(method, path string) (op *Operation, known bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	segs := strings.Split(path, "/")
	for i := range d.Operations {
		o := &d.Operations[i]
		if !fits(strings.Split(o.Path, "/"), segs) {
			continue
		}
		known = true
		if o.Method == method {
			return o, true
		}
	}
	return nil, known
}

// PathOf returns the template of the path of an operation, or "".
func (d *Description) PathOf(method, target string) string {
	path, _, _ := strings.Cut(target, "?")
	if op, _ := d.find(method, path); op != nil {
		return op.Path
	}
	return ""
}

// fits reports whether the segments of a path are those of a template.
func fits(template, segs []string) bool {
	return slices.EqualFunc(template, segs, func(t, s string) bool { return t == s || strings.HasPrefix(t, "{") })
}

// Exchange is a request with its answer.
type Exchange struct {
	Method  string
	Target  string // the path of a URL with its query
	Request []byte // the body, if it is JSON; nil: unknown
	Status  int
	Header  http.Header
	Body    []byte // nil: unknown
}

// Check returns an error if the description does not allow the answer, or does not know
// what the request has sent although the server has accepted it.
func (d *Description) Check(x Exchange) error {
	_, below, ours := strings.Cut(x.Target, Base)
	if !ours {
		return nil
	}
	path, query, _ := strings.Cut(below, "?")
	op, known := d.find(x.Method, path)
	media, _, _ := mime.ParseMediaType(x.Header.Get("Content-Type"))
	switch {
	case x.Status >= 400:
		return d.problem(x, media)
	case op == nil:
		return fmt.Errorf("status %d, but the description has no such operation (the path is known: %v)", x.Status, known)
	}
	answer := node(op.node, "responses", fmt.Sprint(x.Status))
	if answer == nil {
		return fmt.Errorf("the description does not have the status %d", x.Status)
	}
	if err := d.request(op, query, x.Request); err != nil {
		return err
	}
	if err := answerHeader(answer, x.Header); err != nil {
		return err
	}
	content := node(answer, "content")
	switch {
	case content == nil && (media != "" || len(x.Body) > 0):
		return fmt.Errorf("the answer has the type %q and %d bytes, the description has no content", media, len(x.Body))
	case content == nil:
		return nil
	case content[media] == nil:
		return fmt.Errorf("the type of the answer is %q, the description has %q", media, slices.Sorted(maps.Keys(content)))
	case x.Body == nil || x.Method == http.MethodHead:
		return nil
	}
	return d.body(op.at+"/responses/"+fmt.Sprint(x.Status)+"/content/"+pointer(media)+"/schema", media, x)
}

// body checks the body of an answer against the schema at a place.
func (d *Description) body(at, media string, x Exchange) error {
	switch media {
	case "application/json":
		if err := d.validate(at, x.Body); err != nil {
			return err
		}
		return linked(x)
	case "application/x-ndjson":
		lines := bytes.SplitAfter(x.Body, []byte("\n"))
		for i, line := range lines[:len(lines)-1] {
			if err := d.validate(at, line); err != nil {
				return fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		if !bytes.HasSuffix(x.Body, []byte("{\"end\":true}\n")) {
			return errors.New("the last line does not say that the list ended")
		}
	}
	return nil
}

// answerHeader checks the header fields of which only some answers have one.
func answerHeader(answer map[string]any, h http.Header) error {
	for _, name := range []string{"Link", "Location", "Etag"} {
		if h.Get(name) == "" {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(node(answer, "headers"))), func(n string) bool { return strings.EqualFold(n, name) }) {
			return fmt.Errorf("the description does not have the header field %s", name)
		}
	}
	return nil
}

// linked checks that the header names the next page of a list as the body does.
func linked(x Exchange) error {
	var page struct{ Next string }
	_ = json.Unmarshal(x.Body, &page) // some answers are no objects
	link := x.Header.Get("Link")
	switch {
	case page.Next == "" && link != "":
		return fmt.Errorf("the last page has the link %s", link)
	case page.Next != "" && (!strings.HasSuffix(link, `>; rel="next"`) || !strings.Contains(link, "cursor="+url.QueryEscape(page.Next))):
		return fmt.Errorf("next is %s, and Link %q", page.Next, link)
	}
	return nil
}

// problem checks an error.
func (d *Description) problem(x Exchange, media string) error {
	if media != "application/problem+json" {
		return fmt.Errorf("the type of an error is %q, want application/problem+json", media)
	}
	if x.Body == nil || x.Method == http.MethodHead {
		return nil
	}
	if err := d.validate(strict+"Problem", x.Body); err != nil {
		return err
	}
	var p struct{ Status int }
	if err := json.Unmarshal(x.Body, &p); err != nil || p.Status != x.Status {
		return fmt.Errorf("the status is %d, and %d in the body", x.Status, p.Status)
	}
	return nil
}

// Parameters returns the names of the parameters of an operation at a place: query, path or
// header.
func (d *Description) Parameters(op *Operation, in string) (names []string) {
	list, _ := op.node["parameters"].([]any)
	for _, p := range list {
		m := node(p)
		if ref, ok := m["$ref"].(string); ok {
			m = node(d.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
		if name, _ := m["name"].(string); m["in"] == in {
			names = append(names, name)
		}
	}
	return names
}

// request checks a request that the server has accepted.
func (d *Description) request(op *Operation, query string, body []byte) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	known := d.Parameters(op, "query")
	for name := range q {
		if !slices.Contains(known, name) {
			return fmt.Errorf("the server has accepted the parameter %s, which the description does not have", name)
		}
	}
	const media = "application/json"
	if len(body) == 0 || node(op.node, "requestBody", "content", media) == nil {
		return nil
	}
	if err := d.validate(op.at+"/requestBody/content/"+pointer(media)+"/schema", body); err != nil {
		return fmt.Errorf("the server has accepted a body: %w", err)
	}
	return nil
}

// maxBody is the length of the longest body that is checked.
const maxBody = 64 << 20

// Watch returns a transport that sends requests by next, and fails the test if the
// description does not allow an answer.
func (d *Description) Watch(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return watcher{d, t, next}
}

type watcher struct {
	d    *Description
	t    testing.TB
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w watcher) RoundTrip(r *http.Request) (*http.Response, error) {
	x := Exchange{Method: r.Method, Target: r.URL.RequestURI()}
	if r.GetBody != nil {
		b, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		x.Request, err = io.ReadAll(io.LimitReader(b, maxBody))
		if err != nil {
			return nil, err
		}
	}
	resp, err := w.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	x.Status, x.Header = resp.StatusCode, resp.Header
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "text/event-stream" {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), failed{err}, resp.Body), resp.Body}
		if err != nil {
			return resp, nil //nolint:nilerr // the test reads what has arrived, and then the error
		}
		x.Body = body
	}
	if err := w.d.Check(x); err != nil {
		w.t.Errorf("%s %s: the answer is not as described: %v\n%.2000s", x.Method, x.Target, err, x.Body)
	}
	return resp, nil
}

// failed is a reader that fails with an error; without one it is at its end.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) {
	if f.err == nil {
		return 0, io.EOF
	}
	return 0, f.err
}
