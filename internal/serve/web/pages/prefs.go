package pages

import (
	"net/http"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/serve/web"
)

// prefsCookie keeps how somebody likes the pages: words with a dot in between.
const prefsCookie = "sd-prefs"

// themes are the values of a preference; "" is the system's.
var themes = []string{"", "light", "dark"}

// prefsOf returns the preferences of a client.
func prefsOf(r *web.Request) (theme string, dense, keys bool) {
	dense, keys = true, true
	c, err := r.Cookie(prefsCookie)
	if err != nil {
		return theme, dense, keys
	}
	for word := range strings.SplitSeq(c.Value, ".") {
		switch word {
		case "light", "dark":
			theme = word
		case "roomy":
			dense = false
		case "nokeys":
			keys = false
		}
	}
	return theme, dense, keys
}

// prefPages are the pages of preferences.
type prefPages struct{}

func (p prefPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "prefs", web.Anyone, "Account/Preferences", p.showPrefs).explainedIn("web"),
		page(http.MethodPost, "prefs", web.Anyone, "", p.setPrefs),
	}
}

// prefsView is what the page of preferences shows.
type prefsView struct {
	Themes []string
	Back   string
}

// showPrefs answers GET prefs.
func (p prefPages) showPrefs(w *reply, r *web.Request, _ []string) error {
	return w.show(r, http.StatusOK, "prefs", "Preferences", prefsView{themes, local(r.URL.Query().Get("next"), r.Base+"/")})
}

// setPrefs answers POST prefs.
func (p prefPages) setPrefs(w *reply, r *web.Request, _ []string) error {
	form, err := readForm(r)
	if err != nil {
		return err
	}
	var words []string
	for _, t := range themes[1:] {
		if form.Get("theme") == t {
			words = append(words, t)
		}
	}
	if form.Get("rows") == "roomy" {
		words = append(words, "roomy")
	}
	if form.Get("keys") == "" {
		words = append(words, "nokeys")
	}
	c := &http.Cookie{
		Name: prefsCookie, Value: strings.Join(words, "."), Path: "/", MaxAge: int(365 * 24 * time.Hour / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
	if c.Value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
	return seeOther(w, r, local(form.Get("next"), r.Base+"/"))
}
