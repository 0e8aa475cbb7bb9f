package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// TestPublishConnection: a form is asked for only from those who may publish; one that comes
// too slowly is ended with 408 and leaves nothing, and a whole one is published.
func TestPublishConnection(t *testing.T) {
	g := newGuarded(t, auth.PolicyConfig{}, Config{MinRate: 1 << 30, WriteTimeout: 2 * time.Second})
	dir := g.d.Stages().UploadDir()
	forms, err := intake.New(intake.Config{Stages: g.d.Stages(), Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = forms.Close() })
	g.s.cfg.API, g.s.cfg.Pages = webOf(g.d, web.Config{Forms: forms})
	addr := listen(t, g.s)
	count := func() int {
		list, err := g.d.List(t.Context(), answer.Scope{}, depot.ListFilter{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	before := count()
	body := "--b\r\nContent-Disposition: form-data; name=\"product\"\r\n\r\nours\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"form.sym\"\r\n\r\n" + string(sym(bigID, "form.pdb", "", 3000)) + "\r\n--b--\r\n"
	head := func(token string, more ...string) string {
		return "POST /-/publish HTTP/1.1\r\nHost: localhost\r\n" + bearer(token) + "\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: " + itoa(int64(len(body))) + "\r\n" + strings.Join(more, "\r\n") + "\r\n"
	}

	c := dial(t, addr)
	c.send(head(g.ours, "Expect: 100-continue", ""))
	if r := c.reply("POST"); r.status != 403 || r.header.Get("Connection") != "close" {
		t.Errorf("a form of a reader who waits for 100 Continue: status %d, Connection %q; want 403 at once", r.status, r.header.Get("Connection"))
	}
	c = dial(t, addr)
	c.send(head(g.writes) + body[:len(body)-500])
	if r := c.reply("POST"); r.status != 408 || !strings.Contains(r.body, "too slowly") {
		t.Errorf("a form that stops: status %d, %s; want 408", r.status, r.body)
	}
	if got := count(); got != before {
		t.Errorf("after a form that stopped there are %d builds, want %d", got, before)
	}
	for _, dir := range []string{dir, filepath.Join(filepath.Dir(dir), "staged")} {
		_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() && e.Name() != "alive" {
				t.Errorf("after a form that stopped the file %s is left, want none", path)
			}
			return nil
		})
	}
	c = dial(t, addr)
	c.send(head(g.writes) + body)
	if r := c.reply("POST"); r.status != 303 || !strings.HasPrefix(r.header.Get("Location"), "/-/builds/") {
		t.Errorf("a whole form: status %d, Location %q; want 303 to the page of the build", r.status, r.header.Get("Location"))
	}
	if got := count(); got != before+1 {
		t.Errorf("after a whole form there are %d builds, want %d", got, before+1)
	}
}
