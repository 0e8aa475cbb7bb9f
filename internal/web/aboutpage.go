package web

import "net/http"

// CheckState is the result of a check of the server.
type CheckState string

// The states.
const (
	CheckOK      CheckState = "ok"
	CheckUnknown CheckState = "unknown" // not looked at, or not wholly
	CheckWarn    CheckState = "warn"
	CheckBad     CheckState = "bad"
)

// Check says in a sentence how a part of the server is.
type Check struct {
	Name  string
	State CheckState
	Text  string
}

// Facts describe a running server.
type Facts struct {
	Settings string // the effective configuration without secrets, for people
	Checks   []Check
}

// aboutPages is the page about the server.
var aboutPages = []pageRoute{
	page(http.MethodGet, "about", seesAll, "About", (*Pages).showAbout),
}

// aboutView is what the page about the server shows.
type aboutView struct {
	Version string
	Facts   Facts
}

// showAbout answers GET about.
func (p *Pages) showAbout(w *reply, r *Request, _ []string) error {
	v := aboutView{Version: p.api.cfg.Version}
	if p.api.cfg.Facts != nil {
		v.Facts = p.api.cfg.Facts(r.Context())
	}
	return p.show(w, r, http.StatusOK, "about", "About this server", v)
}
