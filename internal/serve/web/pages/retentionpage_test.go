package pages

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/serve/web/webtest"
)

// TestStartingPoints: each starting point is a policy without warnings, and removes what its
// comment says.
func TestStartingPoints(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	s := &retention.State{}
	for i := range 30 { // one a day on main, the oldest first, and a release before them; each of 40 GiB
		branch := "main"
		if i == 0 {
			branch = "release/1.0"
		}
		s.Contents = append(s.Contents, retention.Content{Size: 40 << 30, Stored: 40 << 30})
		s.Transactions = append(s.Transactions, retention.Transaction{
			Number: int64(i + 1), Product: "Game", Branch: branch, Time: now.AddDate(0, 0, 2*i-120), Contents: []uint32{uint32(i)},
		})
	}
	want := map[string]int{"nightly": 9, "forever": 0, "cap": 18}
	for _, start := range startingPoints {
		p, err := retention.Parse(start.Word, []byte(start.Text))
		if err != nil || len(p.Warnings()) > 0 {
			t.Fatalf("the starting point %s: %v, warnings %q; want none", start.Word, err, p.Warnings())
		}
		plan, err := p.Plan(s, now)
		if err != nil {
			t.Fatal(err)
		}
		var removed []int64
		for v := range plan.Removed() {
			removed = append(removed, v.Number)
		}
		if len(removed) != want[start.Word] || slices.Contains(removed, 1) || slices.Contains(removed, 30) {
			t.Errorf("the starting point %s removes %v, want %d builds, not the release 1 and not the newest", start.Word, removed, want[start.Word])
		}
	}
}

// hiddenField returns the value of a hidden field of a page.
func hiddenField(page, name string) string {
	m := regexp.MustCompile(`<input type="hidden" name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		return "none"
	}
	return m[1]
}

// editedText returns the text in the editor of a page.
func editedText(page string) string {
	_, rest, _ := strings.Cut(page, `<textarea id="text"`)
	_, rest, _ = strings.Cut(rest, ">\n")
	text, _, _ := strings.Cut(rest, "</textarea>")
	return html.UnescapeString(text)
}

// TestPolicyEditor: an administrator sees what a policy would remove before it is saved, and
// saves only what was shown; a policy that was set meanwhile is not overwritten.
func TestPolicyEditor(t *testing.T) {
	t.Parallel()
	d := webtest.FilesDepot(t, "pdb/hello-x64.pdb")
	boss := web.Principal{Name: "boss", Rights: auth.Rights{Admitted: true, All: true, Write: true, WriteAll: true, Admin: true}}
	ask := servePages(t, d, &boss)
	number := func() int64 {
		t.Helper()
		p, err := d.Retention.Policy(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return p.Number
	}
	send := func(act, text, before, hash string) (int, string) {
		t.Helper()
		form := url.Values{"act": {act}, "text": {strings.ReplaceAll(text, "\n", "\r\n")}, "before": {before}, "hash": {hash}}
		resp, body := ask("POST", "/-/retention", "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
		return resp.StatusCode, body
	}
	_, page := ask("GET", "/-/retention", "", nil)
	if got := hiddenField(page, "before"); got != "0" || editedText(page) != "" || strings.Contains(page, `value="save"`) {
		t.Fatalf("no policy: the editor replaces policy %s and has the text %q; want 0, no text, and nothing to save:\n%s", got, editedText(page), page)
	}
	for _, start := range startingPoints {
		if _, page := ask("GET", "/-/retention?start="+start.Word, "", nil); editedText(page) != start.Text || !strings.Contains(page, `value="`+start.Word+`"`) {
			t.Errorf("the starting point %s: the editor has %q, want its text", start.Word, editedText(page))
		}
	}

	const good = "retention:\n  classes:\n    - {name: nightly, keep_last: 1, keep_within: 0s}\n  default: nightly\n  min_age: 0s\n  brake: 0%\n"
	status, page := send("preview", strings.Replace(good, "keep_last", "keep_lats", 1), "0", "")
	for _, want := range []string{"<strong>Line 3</strong>", "retention.classes[0].keep_lats", "keep_last", `aria-invalid="true"`, "keep_lats: 1"} {
		if status != http.StatusUnprocessableEntity || !strings.Contains(page, want) {
			t.Errorf("a misspelled key: status %d, the page lacks %q:\n%s", status, want, page)
		}
	}
	if status, _ = send("save", strings.Replace(good, "keep_last", "keep_lats", 1), "0", ""); status != http.StatusUnprocessableEntity || number() != 0 {
		t.Errorf("a misspelled key is saved: status %d, policy %d; want 422 and none", status, number())
	}
	if status, page = send("preview", good, "0", ""); status != http.StatusOK || number() != 0 || editedText(page) != good ||
		!strings.Contains(page, "The policy removes nothing now.") || !strings.Contains(page, `value="save"`) {
		t.Fatalf("preview: status %d, policy %d, text %q; want 200, none, the same text and its plan:\n%s", status, number(), editedText(page), page)
	}
	hash := hiddenField(page, "hash")
	if status, page = send("save", good+"# changed\n", "0", hash); status != http.StatusOK || number() != 0 || !strings.Contains(page, "Nothing was saved") || hiddenField(page, "hash") == hash {
		t.Errorf("a text that was changed after its preview: status %d, policy %d; want 200 and the preview of the new text:\n%s", status, number(), page)
	}
	if status, page = send("save", good, "0", hash); status != http.StatusOK || number() != 1 || !strings.Contains(page, "The policy was saved. Nothing was removed.") {
		t.Fatalf("save: status %d, policy %d; want policy 1, and the page that says so:\n%s", status, number(), page)
	}
	if p, err := d.Retention.Policy(t.Context()); err != nil || p.Text != good || p.By != "boss" {
		t.Errorf("stored is %q by %q, %v; want what was previewed, by boss", p.Text, p.By, err)
	}
	if status, page = send("save", good, "0", hash); status != http.StatusConflict || number() != 1 || !strings.Contains(page, "boss</bdi> set policy 1") || hiddenField(page, "before") != "1" || hiddenField(page, "hash") != "" {
		t.Errorf("a policy that was set meanwhile: status %d, policy %d; want 409, both, and no way to save:\n%s", status, number(), page)
	}
	mine := good + "# mine\n"
	if _, page = send("preview", mine, "0", ""); !strings.Contains(page, `aria-label="The policy in force"><code>`+html.EscapeString(good)) || editedText(page) != mine {
		t.Errorf("a policy that was set meanwhile: the page lacks it, or the text of the client:\n%s", page)
	}

	reader := web.Principal{Name: "anna", Rights: auth.Rights{Admitted: true, All: true}}
	ask = servePages(t, d, &reader)
	if _, page = ask("GET", "/-/retention", "", nil); strings.Contains(page, "<textarea") || !strings.Contains(page, html.EscapeString(good)) || !strings.Contains(page, "symdepot policy set FILE") {
		t.Errorf("a reader: the page has an editor, or lacks the policy or the command that sets it:\n%s", page)
	}
	if status, page = send("preview", good, "1", ""); status != http.StatusForbidden || !strings.Contains(page, "signed in as anna") || !strings.Contains(page, "rights of an administrator") {
		t.Errorf("a reader previews a policy: status %d; want 403, who it is, and the right that is missing:\n%s", status, page)
	}
	if status, _ = send("save", good, fmt.Sprint(number()), hash); status != http.StatusForbidden || number() != 1 {
		t.Errorf("a reader saves a policy: status %d, policy %d; want 403 and policy 1", status, number())
	}
}
