package apitest

import (
	"net/http"
	"strings"
	"testing"
)

const tiny = `{
"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
"paths": {
	"/things": {
		"get": {
			"parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}, {"$ref": "#/components/parameters/cursor"}],
			"responses": {"200": {"description": "", "headers": {"Link": {"schema": {"type": "string"}}}, "content": {
				"application/json": {"schema": {"type": "object", "required": ["items"], "properties": {"items": {"type": "array", "items": {"$ref": "#/components/schemas/Big"}}, "next": {"type": "string"}}}},
				"application/x-ndjson": {"schema": {"anyOf": [{"$ref": "#/components/schemas/Big"}, {"$ref": "#/components/schemas/End"}]}}}}}},
		"post": {"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Small"}}}}, "responses": {"204": {"description": ""}}}},
	"/things/{id}": {"get": {"responses": {"200": {"description": "", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Small"}}}}}}}},
"components": {
	"parameters": {"cursor": {"name": "cursor", "in": "query", "schema": {"type": "string"}}},
	"schemas": {
		"Small": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "at": {"type": "string", "format": "date-time"}}},
		"Big": {"type": "object", "allOf": [{"$ref": "#/components/schemas/Small"}], "required": ["size"], "properties": {"size": {"type": "integer"}, "part": {"$ref": "#/components/schemas/Small"}}},
		"End": {"type": "object", "required": ["end"], "properties": {"end": {"const": true}}},
		"Problem": {"type": "object", "required": ["status"], "properties": {"status": {"type": "integer"}}}}}}`

// TestCheck: what the description allows is accepted, and every deviation is found.
func TestCheck(t *testing.T) {
	t.Parallel()
	d, err := New([]byte(tiny))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Compile(); err != nil {
		t.Fatal(err)
	}
	const (
		js, lines, problem = "application/json", "application/x-ndjson", "application/problem+json"
		thing              = `{"name":"a","size":1}`
	)
	for what, c := range map[string]struct {
		method, target, request string
		status                  int
		media, link, body       string
		finds                   string // in the error; empty: there is none
	}{
		"a list":                       {"GET", "/things?q=x", "", 200, js, "", `{"items":[` + thing + `]}`, ""},
		"a prefix, HEAD":               {"HEAD", "/things", "", 200, js, "", "", ""},
		"one thing":                    {"GET", "/things/7", "", 200, js, "", `{"name":"a","at":"2026-11-23T08:00:00Z"}`, ""},
		"a page with a next one":       {"GET", "/things", "", 200, js, `</x?cursor=c%3D>; rel="next"`, `{"items":[],"next":"c="}`, ""},
		"an error":                     {"GET", "/things", "", 404, problem, "", `{"status":404}`, ""},
		"lines":                        {"GET", "/things", "", 200, lines, "", thing + "\n{\"end\":true}\n", ""},
		"a body":                       {"POST", "/things", `{"name":"a"}`, 204, "", "", "", ""},
		"a member too many":            {"GET", "/things", "", 200, js, "", `{"items":[],"count":0}`, "count"},
		"one in an item":               {"GET", "/things", "", 200, js, "", `{"items":[{"name":"a","size":1,"x":0}]}`, "/items/0/x"},
		"one in a part of an item":     {"GET", "/things", "", 200, js, "", `{"items":[{"name":"a","size":1,"part":{"name":"b","x":0}}]}`, "/items/0/part/x"},
		"a member too few":             {"GET", "/things", "", 200, js, "", `{"items":[{"size":1}]}`, "name"},
		"a wrong type":                 {"GET", "/things", "", 200, js, "", `{"items":[{"name":"a","size":"1"}]}`, "/items/0/size"},
		"a wrong time":                 {"GET", "/things/7", "", 200, js, "", `{"name":"a","at":"today"}`, "/at"},
		"an unknown status":            {"GET", "/things", "", 201, js, "", `{"items":[]}`, "status 201"},
		"an unknown address":           {"GET", "/others", "", 200, js, "", `{}`, "no such operation"},
		"an unknown method":            {"PUT", "/things", "", 200, js, "", `{}`, "the path is known: true"},
		"an unknown media type":        {"GET", "/things", "", 200, "text/html", "", "", "text/html"},
		"an unknown parameter":         {"GET", "/things?x=1", "", 200, js, "", `{"items":[]}`, "parameter x"},
		"an unknown member of a body":  {"POST", "/things", `{"name":"a","x":0}`, 204, "", "", "", "has accepted a body"},
		"a body in place of none":      {"POST", "/things", "", 204, js, "", "{}", "no content"},
		"no link to the next page":     {"GET", "/things", "", 200, js, "", `{"items":[],"next":"c"}`, "next is c"},
		"a link of the last page":      {"GET", "/things", "", 200, js, `</x?cursor=c>; rel="next"`, `{"items":[]}`, "the last page"},
		"a link that is not described": {"GET", "/things/7", "", 200, js, "x", `{"name":"a"}`, "header field Link"},
		"lines without an end":         {"GET", "/things", "", 200, lines, "", thing + "\n", "last line"},
		"a wrong line":                 {"GET", "/things", "", 200, lines, "", "{}\n{\"end\":true}\n", "line 1"},
		"an error that is a text":      {"GET", "/things", "", 404, "text/plain", "", "no", "text/plain"},
		"an error with two statuses":   {"GET", "/things", "", 404, problem, "", `{"status":400}`, "400 in the body"},
	} {
		x := Exchange{Method: c.method, Target: "/corp" + Base + c.target, Request: []byte(c.request), Status: c.status, Header: http.Header{}, Body: []byte(c.body)}
		if c.media != "" {
			x.Header.Set("Content-Type", c.media)
		}
		if c.link != "" {
			x.Header.Set("Link", c.link)
		}
		err := d.Check(x)
		if (err == nil) != (c.finds == "") || err != nil && !strings.Contains(err.Error(), c.finds) {
			t.Errorf("%s: %v, want an error with %q", what, err, c.finds)
		}
	}
	if err := d.Check(Exchange{Target: "/a.pdb/1/a.pdb"}); err != nil {
		t.Errorf("a symbol path: %v, want no error", err)
	}
}
