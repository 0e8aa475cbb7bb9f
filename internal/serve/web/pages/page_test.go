package pages

import (
	"html"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// hostile are names that somebody may give.
var hostile = []string{"", "..", "a/b", `"><script>alert(1)</script>`, "a\u202Egpj.exe", "a\x00b", "\xff", "%2F", "a b", "javascript:alert(1)", strings.Repeat("x", 300)}

// TestLinks: all that the link builder makes is claimed, and the query survives.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "/corp"} {
		for _, name := range hostile {
			for _, l := range []string{
				link(base, "product", nil, values("p=", name)), link(base, "search", nil, values("q", name)), link(base, "builds", []string{"17"}, values("name", name)),
			} {
				u, err := url.Parse(l)
				if err != nil {
					t.Fatalf("link %q: %v", l, err)
				}
				segs, err := layout.Segments(strings.TrimPrefix(u.EscapedPath(), base))
				if err != nil || !web.Claims(segs) {
					t.Errorf("link %q: segments %q, %v, want an address that is claimed", l, segs, err)
				}
				q := u.Query()
				if got := q.Get("p") + q.Get("q") + q.Get("name"); got != name {
					t.Errorf("link %q: the name is %q, want %q", l, got, name)
				}
			}
		}
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	const looks = "sd_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGhIjKlM"
	for next, want := range map[string]string{
		"/-/builds/17": "/-/builds/17", "/": "/", "/-/search?q=a%2Fb": "/-/search?q=a%2Fb",
		// What a program chose at random looks like a token and is none.
		"/corp/-/oauth/authorize?code_challenge=x" + looks: "/corp/-/oauth/authorize?code_challenge=x" + looks,
		"/-/search?q=" + looks:                             "/home", "/t/" + looks + "/-/oauth/authorize?": "/home",
		"": "/home", "//evil": "/home", `/\evil`: "/home", "https://evil": "/home", "evil": "/home", "javascript:alert(1)": "/home", "/a\nb": "/home", "///evil": "/home", "/\t/evil": "/home",
	} {
		if got := local(next, "/home"); got != want {
			t.Errorf("local(%q) is %q, want %q", next, got, want)
		}
	}
}

// TestPageNames: names and ids are shown whole, and cannot become elements.
func TestPageNames(t *testing.T) {
	t.Parallel()
	tags := regexp.MustCompile(`<[^>]*>`)
	for _, name := range hostile {
		got := string(nameHTML(name))
		if strings.Contains(got, "<script") || strings.ContainsRune(got, '\u202E') || strings.ContainsRune(got, 0) {
			t.Errorf("the name %q is shown as %q, want it without elements and hidden characters", name, got)
		}
		if rest := tags.ReplaceAllString(got, ""); strings.ContainsAny(rest, "<>") {
			t.Errorf("the name %q is shown as %q, want it escaped", name, got)
		}
	}
	if got := string(nameHTML("a\u202Egpj.exe")); !strings.Contains(got, "U+202E") {
		t.Errorf("a hidden character is shown as %q, want U+202E", got)
	}
	id := "4FD6D1A0C4E94B2E8B0A5D0C7F1E22331"
	if got := string(idHTML(id)); html.UnescapeString(tags.ReplaceAllString(got, "")) != id || strings.Count(got, "<wbr>") != 4 {
		t.Errorf("the id is %q, want all of %s with four places to wrap", got, id)
	}
	for _, id := range []string{"{F9EFE0B6-AE75-0039-4C4C-44205044422E}", "66a2935d4d44e9456f509ace413c6f83"} {
		if got := string(idHTML(id)); !strings.HasPrefix(got, `<span class="id">`) || tags.ReplaceAllString(got, "") != id {
			t.Errorf("the id is %q, want all of %s in the type of ids", got, id)
		}
	}
	if got := whenHTML(time.Time{}); got != "–" {
		t.Errorf("no time is %q, want –", got)
	}
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", 12345678: "12,345,678"} {
		if got := web.Number(n); got != want {
			t.Errorf("number(%d) is %q, want %q", n, got, want)
		}
	}
}

// TestTimes: a time is told in UTC, and by its distance from now up to 30 days.
func TestTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 9, 30, 0, 0, time.UTC)
	for at, want := range map[string]string{
		"2026-11-28T09:30:00Z": "just now", "2026-11-28T09:29:01Z": "just now", "2026-11-28T09:30:40Z": "just now",
		"2026-11-28T09:29:00Z": "1 min ago", "2026-11-28T08:30:01Z": "59 min ago", "2026-11-28T08:30:00Z": "1 h ago",
		"2026-11-27T09:30:01Z": "23 h ago", "2026-11-27T09:30:00Z": "yesterday", "2026-11-27T00:00:00Z": "yesterday",
		"2026-11-26T23:59:59Z": "2 d ago", "2026-10-29T00:00:00Z": "30 d ago", "2026-10-28T23:59:59Z": "",
		"2026-11-28T09:31:01Z": "", "2027-01-01T00:00:00Z": "", "2026-11-28T10:00:00+02:00": "1 h ago",
	} {
		moment, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		text := moment.UTC().Format("2006-01-02 15:04")
		if want != "" {
			text = "<span>" + text + "</span> <small>" + want + "</small>"
		}
		whole := `<time datetime="` + moment.UTC().Format(time.RFC3339) + `">` + text + "</time>"
		if got := string(timeHTML(moment, now)); got != whole {
			t.Errorf("%s is shown as %s, want %s", at, got, whole)
		}
	}
}

// TestBadges: a program says so, and every badge that is explained has a text.
func TestBadges(t *testing.T) {
	t.Parallel()
	code := symfile.Object{Role: symfile.Executable | symfile.Debug}
	if got, want := strings.Join(badgesOf(code, []string{"debug", "symtab", "unwind", "no-sections"}), ","), "program,lines,symbols,unwind,no sections"; got != want {
		t.Errorf("the badges are %s, want %s", got, want)
	}
	if got, want := strings.Join(badgesOf(symfile.Object{Role: symfile.Debug}, []string{"debug", "sources", "private"}), ","), "lines,sources"; got != want {
		t.Errorf("the badges of a PDB are %s, want %s", got, want)
	}
	for _, f := range append(objfile.Features{Debug: true, Symtab: true, Unwind: true, Sources: true, NoSections: true, Unknown: true}.Words(), legend...) {
		if featureText[f] == "" {
			t.Errorf("the feature %s has no text", f)
		}
	}
}

// TestAssetBudgets: the style sheet and the script stay small.
func TestAssetBudgets(t *testing.T) {
	t.Parallel()
	for name, b := range assets {
		if len(b) > 18<<10 {
			t.Errorf("%s has %d bytes, want at most 18 KiB", name, len(b))
		}
	}
}

// FuzzLocal: what leads back to this server never leads to another.
func FuzzLocal(f *testing.F) {
	for _, s := range []string{"/", "//x", `/\x`, "/-/builds?next=//x", "https://x/"} {
		f.Add(s)
	}
	base, err := url.Parse("https://sym.example/-/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next string) {
		u, err := url.Parse(local(next, "/"))
		if err != nil {
			t.Fatalf("local(%q): %v", next, err)
		}
		if got := base.ResolveReference(u); got.Host != base.Host || got.Scheme != base.Scheme {
			t.Errorf("local(%q) leads to %s, want %s", next, got, base.Host)
		}
	})
}

// TestUpstreamStates: the page of upstreams says that one answers only if it did.
func TestUpstreamStates(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		u           depot.UpstreamStatus
		state, mark string
	}{
		{depot.UpstreamStatus{}, "not asked yet", "dim"},
		{depot.UpstreamStatus{Requests: 1}, "no answer yet", "dim"}, // it cannot have the file, so nothing was sent
		{depot.UpstreamStatus{Requests: 1, Misses: 1}, "answers", "ok"},
		{depot.UpstreamStatus{Requests: 2, Hits: 2}, "answers", "ok"},
		{depot.UpstreamStatus{Requests: 2, Hits: 1, Errors: 1, Failures: 1}, "1 failure in a row", "warn"},
		{depot.UpstreamStatus{Requests: 9, Errors: 9, Failures: 9, Open: true}, "not asked: circuit breaker is open", "bad"},
	} {
		if got := web.NewUpstreamRow(c.u); got.State != c.state || got.Mark != c.mark {
			t.Errorf("%+v: %q with the mark %q, want %q with %q", c.u, got.State, got.Mark, c.state, c.mark)
		}
	}
}

// TestHealth: an upstream that fails is not in order, also before its breaker opens.
func TestHealth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list []depot.UpstreamStatus
		want string
		bad  bool
	}{
		{nil, "", false},
		{[]depot.UpstreamStatus{{}}, "1 upstream in order", false},
		{[]depot.UpstreamStatus{{Hits: 1}, {Failures: 1}}, "1 of 2 upstreams answer", true},
		{[]depot.UpstreamStatus{{Hits: 1}, {Open: true}}, "1 of 2 upstreams answer", true},
	} {
		if text, bad := health(c.list, nil); text != c.want || bad != c.bad {
			t.Errorf("%+v: %q, bad %v; want %q, %v", c.list, text, bad, c.want, c.bad)
		}
	}
}

// TestNavPage: pages that are not in the navigation mark the one that leads to them.
func TestNavPage(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{"product": "products", "version": "products", "file": "search", "builds": "builds", "identify": "identify"} {
		if got := navPage(page); got != want {
			t.Errorf("%s belongs to %q, want %q", page, got, want)
		}
	}
}

// TestNavGroups: each page of the navigation is in a group, and a group has at most six pages.
// The group of the client has the form that ends a sign-in, too.
func TestNavGroups(t *testing.T) {
	t.Parallel()
	size := map[string]int{accountGroup: 1}
	for _, rt := range New(web.New(web.Config{})).table {
		group, label, _ := strings.Cut(rt.nav, "/")
		if rt.nav != "" && (!slices.Contains(navGroups, group) || label == "" || rt.method != http.MethodGet || len(rt.path) != 1) {
			t.Errorf("%s %v stands in the navigation as %q, want a page with a label in one of the groups %q", rt.method, rt.path, rt.nav, navGroups)
		}
		size[group]++
	}
	for _, group := range navGroups {
		if n := size[group]; n < 2 || n > 6 {
			t.Errorf("the group %s has %d pages, want 2 to 6", group, n)
		}
	}
}

// TestNounLinks: names become links that lead to the thing of exactly this name, and plain
// names where the address of the page contains a token.
func TestNounLinks(t *testing.T) {
	t.Parallel()
	address := regexp.MustCompile(`^<a href="([^"<>]*)">`)
	for _, name := range hostile {
		f := &frame{Base: "/corp"}
		for what, c := range map[string]struct {
			got template.HTML
			key string
		}{
			"product": {f.ProductLink(name), "p"}, "version": {f.VersionLink("P", name), "v"},
			"person": {f.PersonLink(name), "who"}, "builds": {f.BuildsLink(name), "product"}, "file": {f.FileLink(name, ""), "q"},
		} {
			m := address.FindStringSubmatch(string(c.got))
			if m == nil {
				if name != "" || what == "product" || what == "version" {
					t.Errorf("the %s %q is %q, want a link", what, name, c.got)
				}
				continue
			}
			u, err := url.Parse(html.UnescapeString(m[1]))
			if err != nil || !strings.HasPrefix(u.Path, "/corp/-/") || u.Query().Get(c.key) != name {
				t.Errorf("the %s %q links to %q, %v; want a page that is asked for the name", what, name, m[1], err)
			}
		}
		f.Below = "."
		if got := string(f.ProductLink(name) + f.VersionLink("P", name) + f.PersonLink(name) + f.FileLink(name, "")); strings.Contains(got, "<a ") {
			t.Errorf("below a token the names %q are %q, want no links", name, got)
		}
	}
	if got := string((&frame{}).FileLink("a.pdb", "AB1")); !strings.Contains(got, "q=a.pdb%2FAB1") || !strings.Contains(got, ">a.pdb<") {
		t.Errorf("a file with an id is %q, want its name, which leads to name and id", got)
	}
}

// TestMoreBuilds: a row of a file names three builds, and how many others there are.
func TestMoreBuilds(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "", 1: "", 3: "", 4: "and 1 more", 99: "and 96 more", catalog.ListedTransactions: "and more"} {
		row := (&frame{}).objectRow(depot.Found{Transactions: make([]int64, n), Product: "P", Version: "1"})
		if row.More != want || len(row.Transactions) != min(n, maxShown) || (row.Newest == "") != (n == 0) {
			t.Errorf("of %d builds the row has %d and %q, and of the newest %q; want three at most and %q", n, len(row.Transactions), row.More, row.Newest, want)
		}
	}
}

// TestKeptText: the page of a plan has words for every reason to keep a transaction.
func TestKeptText(t *testing.T) {
	t.Parallel()
	for _, r := range []retention.Reason{retention.Held, retention.NoRule, retention.Young, retention.Last, retention.Within, retention.Used, retention.Needed} {
		if text := keptText(r.String()); text == r.String() {
			t.Errorf("the reason %q is shown as it is, want words", r)
		}
	}
}
