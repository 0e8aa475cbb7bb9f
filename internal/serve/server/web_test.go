package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// TestAPIDispatch: requests for the API are dispatched by method and path before
// a body is refused, with any method, below configured prefixes and tokens. Other
// own addresses, and symbol paths that look like them, are answered as before.
func TestAPIDispatch(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{}, Config{Prefixes: []string{"corp"}})
	const problem, text, html = "application/problem+json", "text/plain; charset=utf-8", "text/html; charset=utf-8"
	for _, tt := range []struct {
		method, path, header string
		status               int
		ctype, word          string
	}{
		{"GET", "/-/api", "", 404, problem, "not-found"},
		{"GET", "/-/api/v1/nothing", "", 404, problem, "not-found"},
		{"POST", "/-/api/v1/nothing", "", 404, problem, "not-found"},
		{"PUT", "/corp/-/api/v1/nothing", "", 404, problem, "not-found"},
		{"DELETE", "/t/" + g.writes + "/-/api/v1/nothing", "", 404, problem, "not-found"},
		{"GET", "/-/api/v1/nothing", "Sec-Fetch-Site: cross-site", 403, problem, "forbidden"},
		{"POST", "/-/api/v1/nothing", "Origin: https://evil.example", 403, problem, "forbidden"},
		{"POST", "/-/api/v1/nothing", "Sec-Fetch-Site: same-site", 403, problem, "forbidden"},
		{"POST", "/-/api/v1/nothing", "Sec-Fetch-Site: same-origin", 404, problem, "not-found"},
		{"GET", "/-/builds", "", 200, html, ""},
		{"GET", "/corp/-/builds", "", 200, html, ""},
		{"POST", "/-/builds", "", 405, html, ""},
		{"GET", "/-/builds/0", "", 404, html, ""},
		{"GET", "/-/builds", "Sec-Fetch-Site: cross-site", 403, html, ""},
		{"POST", "/-/prefs", "Origin: https://evil.example", 403, html, ""},
		{"POST", "/-/prefs", "Sec-Fetch-Site: cross-site", 403, html, ""},
		{"GET", "/-", "", 303, "", ""},
		{"POST", "/a.pdb/000000000000000000000000000000001/a.pdb", "", 405, text, ""},
		{"POST", "/symbols/-/api", "", 405, text, ""},
	} {
		var headers []string
		if tt.header != "" {
			headers = append(headers, tt.header)
		}
		r := ask(g.s, tt.method, tt.path, headers...)
		if r.status != tt.status || r.header.Get("Content-Type") != tt.ctype {
			t.Errorf("%s %s with %q: status %d, type %q, want %d, %q", tt.method, auth.Redact(tt.path), tt.header, r.status, r.header.Get("Content-Type"), tt.status, tt.ctype)
			continue
		}
		if tt.ctype != problem {
			continue
		}
		var p wire.Problem
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || p.Type != wire.ProblemType+tt.word || p.Status != tt.status || p.Title == "" || p.Request == "" {
			t.Errorf("%s %s with %q: %s, %v; want the problem %s", tt.method, auth.Redact(tt.path), tt.header, r.body, err, tt.word)
		}
		if !strings.Contains(g.log.String(), `"request":"`+p.Request+`"`) {
			t.Errorf("%s %s: request %s is not in the log", tt.method, auth.Redact(tt.path), p.Request)
		}
	}
}

// TestAPICredentials: a server that demands credentials asks for them as on every
// other path, with a problem as the body.
func TestAPICredentials(t *testing.T) {
	g := newGuarded(t, demand, Config{})
	want := ask(g.s, "GET", "/metrics").header["Www-Authenticate"]
	for _, header := range []string{"", "Authorization: Bearer nonsense"} {
		r := ask(g.s, "POST", "/-/api/v1/nothing", header)
		if r.status != 401 || !slices.Equal(r.header["Www-Authenticate"], want) || !strings.Contains(r.body, wire.ProblemType+"credentials") {
			t.Errorf("POST with %q: status %d, %q, %s; want 401, %q and the problem credentials", header, r.status, r.header["Www-Authenticate"], r.body, want)
		}
	}
	if r := ask(g.s, "POST", "/-/api/v1/nothing", bearer(g.writes)); r.status != 404 {
		t.Errorf("POST with a token: status %d, want 404", r.status)
	}
}

// TestAPIRefusedBody: a client that waits for 100 Continue is not asked to send
// the body of a request that is refused, and short bodies are read, so that the
// connection stays usable.
func TestAPIRefusedBody(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{}, Config{})
	addr := listen(t, g.s)
	c := dial(t, addr)
	c.send("PUT /-/api/v1/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
	if r := c.reply("PUT"); r.status != 404 || r.header.Get("Connection") != "close" {
		t.Errorf("PUT with Expect: status %d, Connection %q, want 404 and close", r.status, r.header.Get("Connection"))
	}
	c = dial(t, addr)
	for range 2 {
		c.send("PUT /-/api/v1/nothing HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n")
		if r := c.reply("PUT"); r.status != 404 || r.header.Get("Connection") != "" {
			t.Errorf("PUT with a short body: status %d, Connection %q, want 404 and an open connection", r.status, r.header.Get("Connection"))
		}
	}
}

// TestAPISlowBody: an upload that comes too slowly is ended with 408, and one
// that stops leaves nothing behind.
func TestAPISlowBody(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{}, Config{MinRate: 1 << 30, WriteTimeout: 2 * time.Second})
	g.s.cfg.API, g.s.cfg.Pages = webOf(g.d, web.Config{})
	addr := listen(t, g.s)
	body := sym(bigID, "slow.pdb", "", 3000)
	ref := blob.Sum(body).String()
	post := func(path, text string) string {
		c := dial(t, addr)
		c.send("POST /-/api/v1/push" + path + " HTTP/1.1\r\nHost: localhost\r\n" + bearer(g.writes) + "\r\nContent-Length: " + itoa(int64(len(text))) + "\r\n\r\n" + text)
		r := c.reply("POST")
		if r.status/100 != 2 {
			t.Fatalf("POST %s: status %d, %s; want 2xx", path, r.status, r.body)
		}
		return r.body
	}
	var st wire.PushState
	if err := json.Unmarshal([]byte(post("/stages", `{"product":"ours"}`)), &st); err != nil {
		t.Fatal(err)
	}
	post("/stages/"+st.ID+"/check", `[{"path":"slow.sym","size":3000,"sha256":"`+ref+`"}]`)
	put := "PUT /-/api/v1/push/stages/" + st.ID + "/contents/" + ref + " HTTP/1.1\r\nHost: localhost\r\n" + bearer(g.writes) + "\r\nContent-Length: 3000\r\n\r\n"
	c := dial(t, addr)
	c.send(put + string(body[:10]))
	if r := c.reply("PUT"); r.status != 408 || !strings.Contains(r.body, wire.ProblemType+"timeout") || r.header.Get("Connection") != "close" {
		t.Errorf("a body that stops: status %d, %s; want 408 and the end of the connection", r.status, r.body)
	}
	c = dial(t, addr)
	c.send(put + string(body))
	if r := c.reply("PUT"); r.status != 201 {
		t.Errorf("the whole body: status %d, %s; want 201", r.status, r.body)
	}
	if r := ask(g.s, "GET", "/slow.pdb/"+bigID+"/slow.sym", bearer(g.ours)); r.status != 404 {
		t.Errorf("the file before the commit: status %d, want 404", r.status)
	}
	post("/stages/"+st.ID+"/commit", `{"files":1}`)
	if r := ask(g.s, "GET", "/slow.pdb/"+bigID+"/slow.sym", bearer(g.ours)); r.status != 200 || r.body != string(body) {
		t.Errorf("the file after the commit: status %d with %d bytes, want 200 with %d", r.status, len(r.body), len(body))
	}
}
