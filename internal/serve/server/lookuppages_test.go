package server

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// lookupWorld is a server with pages whose jobs are done. The product "ours" has a PDB and a
// program with its source; a token reads it, and another one reads "theirs".
type lookupWorld struct {
	server       *Server
	reader       string // the header of who reads ours
	other        string // and of who reads theirs
	pdb, program held
}

func newLookupWorld(t *testing.T) *lookupWorld {
	t.Helper()
	d := openDepot(t, depot.Options{})
	w := &lookupWorld{}
	for name, h := range map[string]*held{"pdb/hello-x64.pdb": &w.pdb, "elf/embedded": &w.program} {
		b, err := os.ReadFile(filepath.Join("../../../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		*h = addAs(t, d, "ours", filepath.Base(name), b)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Work(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	store := &tokenStore{rows: map[[32]byte]auth.TokenRow{}}
	w.reader, w.other = bearer(store.add(t, "reader", []string{"ours"}, "read")), bearer(store.add(t, "other", []string{"theirs"}, "read"))
	gate, err := auth.New(auth.Config{Policy: demand, Now: time.Now}, store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	a, p := webOf(d, web.Config{Tracing: web.Tracing{Gate: gate}, Makes: true, Version: "v1"})
	w.server = newServer(t, Config{Depot: d, Gate: gate, API: a, Pages: p, Symbols: SymbolsConfig{Wait: time.Minute}})
	return w
}

// page is the address of the page of a file.
func (h held) page() string { return "/-/file/" + blob.Sum(h.body).String() }

// sourceName is the name of a source file that the first file with sources names.
func (w *lookupWorld) sourceName(t *testing.T) string {
	t.Helper()
	got := ask(w.server, "GET", "/-/api/v1/files/"+strings.TrimPrefix(w.program.page(), "/-/file/")+"/sources", w.reader)
	m := regexp.MustCompile(`"name":"([^"]+prog\.c)","state":"embedded"`).FindStringSubmatch(got.body)
	if m == nil {
		t.Fatalf("the sources are %d %s, want prog.c, embedded", got.status, got.body)
	}
	return m[1]
}

// TestSourcePage: the page of a source file has its lines, and Raw its bytes.
func TestSourcePage(t *testing.T) {
	t.Parallel()
	w := newLookupWorld(t)
	name := w.sourceName(t)
	to := w.program.page() + "/source?path=" + url.QueryEscape(name)
	id := string(w.program.obj.BuildID)
	want := ask(w.server, "GET", "/buildid/"+id+"/source"+name, w.reader)
	if want.status != 200 || !strings.Contains(want.body, "\n") {
		t.Fatalf("a debugger gets %d, %q; want the text", want.status, want.body)
	}
	got := ask(w.server, "GET", to, w.reader, browser)
	for n := range strings.Count(want.body, "\n") {
		if part := fmt.Sprintf(`<span id="L%d"><a href="#L%d">%d</a>`, n+1, n+1, n+1); !strings.Contains(got.body, part) {
			t.Errorf("GET %s: %d without %q:\n%s", to, got.status, part, got.body)
		}
	}
	if csp := got.header.Get("Content-Security-Policy"); got.status != 200 || !strings.HasPrefix(csp, "default-src 'none'; style-src 'self'") {
		t.Errorf("GET %s: %d with the policy %q, want 200 and that of every page", to, got.status, csp)
	}
	raw := ask(w.server, "GET", to+"&raw=1", w.reader)
	if raw.status != 200 || raw.body != want.body || raw.header.Get("Content-Type") != "text/plain; charset=utf-8" ||
		raw.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(raw.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("raw: %d, %v with %q; want the same bytes as plain text that is not sniffed", raw.status, raw.header, raw.body)
	}
	list := ask(w.server, "GET", w.program.page()+"/sources", w.reader, browser)
	if !strings.Contains(list.body, `href="`+strings.ReplaceAll(to, "&", "&amp;")+`"`) {
		t.Errorf("the list of the sources has no link to %s:\n%s", to, list.body)
	}
}

// TestLookUpPages: functions by their names, addresses of a file, and a stack.
func TestLookUpPages(t *testing.T) {
	t.Parallel()
	w := newLookupWorld(t)
	got := ask(w.server, "GET", w.pdb.page()+"/functions?q=SUM", w.reader, browser)
	if got.status != 200 || !strings.Contains(got.body, "sum(Pair*)") || !strings.Contains(got.body, "<code>0x1000</code>") || !strings.Contains(got.body, "hello.c</bdi>:3") {
		t.Errorf("functions: %d, want sum(Pair*) at 0x1000 of hello.c, line 3:\n%s", got.status, got.body)
	}
	if strings.Contains(got.body, "entry()") {
		t.Errorf("functions with sum in their names: the page has entry() too:\n%s", got.body)
	}
	api := ask(w.server, "GET", "/-/api/v1/files/"+strings.TrimPrefix(w.pdb.page(), "/-/file/")+"/functions?q=sum&limit=1", w.reader)
	if api.status != 200 || !strings.Contains(api.body, `"name":"sum(Pair*)","address":"0x1000"`) || !strings.Contains(api.body, `"line":3`) {
		t.Errorf("the API: %d %s, want sum(Pair*) at 0x1000, line 3", api.status, api.body)
	}
	send := func(pairs ...string) reply {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return askBody(w.server, "POST", "/-/symbolicate", v.Encode(), w.reader, browser, "Content-Type: application/x-www-form-urlencoded")
	}
	for _, c := range []struct {
		name string
		form []string
		want []string
	}{
		{"addresses", []string{"name", "hello-x64.pdb", "id", w.pdb.obj.DebugID.Breakpad(), "addresses", "0x1000, 1010"}, []string{"2 of 2 lines with functions", "sum(Pair*)", "hello.c:3"}},
		{"by name alone", []string{"name", "hello-x64.pdb", "addresses", "0x1000"}, []string{"1 of 1 line with functions", "sum(Pair*)"}},
		{"a stack", []string{"stack", "words\r\n0  hello-x64 + 0x1000\r\n1  none + 0x10"}, []string{"1 of 3 lines with functions", "sum(Pair*)", `<span class="mark bad">no file</span>`, "words"}},
		{"with a source", []string{"stack", "#0 0x1 (embedded+0x0) (BuildId: " + string(w.program.obj.BuildID) + ")"}, []string{"0 of 1 line"}},
		{"no address", []string{"name", "x", "addresses", "what"}, []string{"is not an address; want hex digits"}},
		{"nothing", []string{"stack", " "}, []string{"paste a stack, or give a file"}},
		{"too much", []string{"stack", strings.Repeat("a+0x10\n", 1001)}, []string{"more than 1000 addresses"}},
		{"elements", []string{"stack", "<script>alert(1)</script> hello-x64+0x1000"}, []string{"&lt;script&gt;alert(1)&lt;/script&gt;"}},
	} {
		got := send(c.form...)
		for _, want := range c.want {
			if !strings.Contains(strings.ReplaceAll(got.body, "<wbr>", ""), want) {
				t.Errorf("%s: %d without %q:\n%.6000s", c.name, got.status, want, got.body)
			}
		}
	}
}

// TestLookUpRights: who may not see a file gets what is answered for one that is not there.
func TestLookUpRights(t *testing.T) {
	t.Parallel()
	w := newLookupWorld(t)
	name := w.sourceName(t)
	none := "/-/file/" + strings.Repeat("0", 64)
	request := regexp.MustCompile(`request(":"| <code>)[0-9a-z]{12}`)
	same := func(method, path, body, missing, missingBody string, who ...string) {
		t.Helper()
		who = append(who, browser, "Content-Type: application/x-www-form-urlencoded")
		a, b := askBody(w.server, method, path, body, who...), askBody(w.server, method, missing, missingBody, who...)
		a.body = strings.NewReplacer(strings.TrimPrefix(w.program.page(), "/-/file/"), "X", strings.TrimPrefix(w.pdb.page(), "/-/file/"), "X", "embedded", "NAME").Replace(a.body)
		b.body = strings.NewReplacer(strings.Repeat("0", 64), "X", "nothing1", "NAME", "embedded", "NAME").Replace(b.body)
		if a.status != b.status || request.ReplaceAllString(a.body, "") != request.ReplaceAllString(b.body, "") {
			t.Errorf("%s %s: %d, and %d for what is not there, want the same\n%s\n%s", method, path, a.status, b.status, differ(a.body, b.body), differ(b.body, a.body))
		}
		if strings.Contains(a.body, "sum(Pair*)") || a.status == 200 && method == "GET" {
			t.Errorf("%s %s: %d, and the answer shows a function or a source", method, path, a.status)
		}
	}
	for _, who := range [][]string{{w.other}, nil} {
		source := "/source?path=" + url.QueryEscape(name)
		same("GET", w.program.page()+source, "", none+source, "", who...)
		same("GET", w.program.page()+source+"&raw=1", "", none+source+"&raw=1", "", who...)
		same("GET", w.pdb.page()+"/functions?q=sum", "", none+"/functions?q=sum", "", who...)
		same("GET", "/-/api/v1/files/"+strings.TrimPrefix(w.pdb.page(), "/-/file/")+"/functions", "", "/-/api/v1/files/"+strings.Repeat("0", 64)+"/functions", "", who...)
		for _, form := range []string{"name=NAME&addresses=1000", "stack=NAME%2B0x1000", "name=NAME&id=" + string(w.program.obj.BuildID) + "&addresses=0"} {
			same("POST", "/-/symbolicate", strings.ReplaceAll(form, "NAME", "embedded"), "/-/symbolicate", strings.ReplaceAll(form, "NAME", "nothing1"), who...)
		}
	}
	if got := ask(w.server, "GET", w.program.page()+"/source?path=%2Fetc%2Fpasswd", w.reader, browser); got.status != 404 {
		t.Errorf("a file that the debug information does not name: %d, want 404", got.status)
	}
}
