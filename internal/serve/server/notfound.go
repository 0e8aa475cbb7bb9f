package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
)

// missing answers 404 to a path that names nothing: with a page for browsers, with
// a text for others.
func (s *service) missing(x *exchange, r *http.Request, p *place, err error) {
	if status, _ := classify(err); status != http.StatusNotFound || !wantsHTML(r) {
		s.fail(x, err)
		return
	}
	home := p.base + "/"
	if p.token != "" {
		// Relative, so that the page does not show the token.
		home = "./" + strings.Repeat("../", strings.Count(p.path, "/")-1)
	}
	x.Header()["Vary"] = []string{"Accept"}
	delete(x.Header(), "Content-Disposition") // as in fail
	s.html(x, http.StatusNotFound, notFoundTemplate, struct {
		Home  string
		Style template.CSS
	}{home, template.CSS(pageStyle)})
}

// html answers with a page.
func (s *service) html(x *exchange, status int, t *template.Template, data any) {
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		s.fail(x, err)
		return
	}
	h := x.Header()
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	h["Content-Security-Policy"] = pagePolicy
	h["Referrer-Policy"] = []string{"no-referrer"}
	h["Cache-Control"] = noStore
	h["Content-Length"] = []string{itoa(int64(b.Len()))}
	x.WriteHeader(status)
	_, x.err = x.Write(b.Bytes())
}

//go:embed page/notfound.html
var notFoundHTML string

//go:embed page/style.css
var pageStyle string

var (
	notFoundTemplate = template.Must(template.New("notfound").Parse(notFoundHTML))
	// pagePolicy allows only the inline style sheet, images of this server, and
	// the search form.
	pagePolicy = func() []string {
		sum := sha256.Sum256([]byte(pageStyle))
		return []string{"default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
			"'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"}
	}()
)
