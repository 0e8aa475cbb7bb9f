package server

import (
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/web"
)

// missing answers 404 to a path that names nothing: with a page for browsers, with
// a text for others.
func (s *access) missing(x *exchange, r *http.Request, p *place, err error) {
	if status, _ := classify(err); status != http.StatusNotFound || !wantsHTML(r) || s.cfg.Pages == nil {
		s.fail(x, err)
		return
	}
	below := ""
	if p.token != "" {
		// Relative, so that the page does not show the token.
		below = "." + strings.Repeat("/..", strings.Count(p.path, "/")-1)
	}
	x.Header()["Vary"] = []string{"Accept"}
	delete(x.Header(), "Content-Disposition") // as in fail
	x.request = web.NewRequestID()
	api := &webAPI{access: s}
	q := api.request(x, r, p)
	defer q.Memory.Free()
	q.Base = s.pageBase(p)
	api.note(x, s.cfg.Pages.Missing(x, q, below))
}
