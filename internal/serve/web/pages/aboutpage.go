package pages

import (
	"context"
	"net/http"

	"github.com/symdepot/symdepot/internal/serve/web"
)

// aboutPages are the page about the server.
type aboutPages struct {
	version string
	facts   func(context.Context) web.Facts // nil: nothing is known
}

func (p aboutPages) routes() []pageRoute {
	return []pageRoute{page(http.MethodGet, "about", web.SeesAll, "Operate/About", p.showAbout).explainedIn("doctor")}
}

// aboutView is what the page about the server shows.
type aboutView struct {
	Version string
	Facts   web.Facts
}

// showAbout answers GET about.
func (p aboutPages) showAbout(w *reply, r *web.Request, _ []string) error {
	v := aboutView{Version: p.version}
	if p.facts != nil {
		v.Facts = p.facts(r.Context())
	}
	return w.show(r, http.StatusOK, "about", "About this server", v)
}
