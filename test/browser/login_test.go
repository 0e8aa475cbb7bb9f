package browser

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// waiting is a program that waits for the answer of a browser, at a loopback address.
func waiting(t *testing.T, address string) (at string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Skipf("no listener at %s: %v", address, err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<!doctype html><title>back</title>Go back to the terminal.")
	}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return "http://" + l.Addr().String() + "/back"
}

// press presses a button of the answer, and waits for the next page.
func (p *tab) press(answer string) {
	p.t.Helper()
	eval[bool](p, `(()=>{window.leaving=true;document.querySelector('button[value=`+answer+`]').click();return true})()`)
	p.until(`!window.leaving && document.readyState==="complete"`)
}

// TestLogin: a program opens the browser, the person signs in and allows it, and Chromium
// brings the code to the program, whose address the policy of that page alone permits. The
// pages have no violation of WCAG A or AA, and do not scroll sideways at 320 pixels.
func TestLogin(t *testing.T) {
	t.Parallel()
	s, admin := closed(t)
	p := newTab(t)
	ask := func(back string) string {
		return s.url + "/-/oauth/authorize?" + url.Values{
			"response_type": {"code"}, "client_id": {"symdepot"}, "redirect_uri": {back}, "code_challenge": {strings.Repeat("a", 43)}, "code_challenge_method": {"S256"}, "state": {"xyz"},
			"device_name": {`"><script>alert(1)</script>` + strings.Repeat("long", 18)},
		}.Encode()
	}
	fits := func(word string) {
		t.Helper()
		p.quiet(word)
		p.screen("account-" + word)
		p.accessible(word)
		p.fits(word)
	}
	back := waiting(t, "127.0.0.1:0")
	p.open(ask(back))
	if at := p.at(); !strings.HasPrefix(at, s.url+"/-/login?next=") {
		t.Fatalf("the browser is at %s, want the page for signing in", at)
	}
	p.fill("main form", map[string]string{"password": admin})
	if at := p.at(); at != ask(back) {
		t.Fatalf("after signing in the browser is at %s, want %s", at, ask(back))
	}
	fits("authorize")
	for _, back := range []string{back, waiting(t, "[::1]:0")} {
		for answer, want := range map[string]string{"allow": "code", "deny": "error"} {
			p.open(ask(back))
			p.press(answer)
			u, err := url.Parse(p.at())
			if err != nil || u.Scheme+"://"+u.Host+u.Path != back || u.Query().Get(want) == "" || u.Query().Get("state") != "xyz" || eval[string](p, `document.title`) != "back" {
				t.Errorf("%s: the browser is at %s, want %s with the parameter %s", answer, p.at(), back, want)
			}
		}
	}
	// The code of a program at another machine.
	resp, err := http.PostForm(s.url+"/-/oauth/device_authorization", url.Values{"client_id": {"symdepot"}, "device_name": {"far"}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var d struct {
		UserCode string `json:"user_code"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&d); err != nil || d.UserCode == "" {
		t.Fatalf("no code: %v", err)
	}
	p.open(s.url + "/-/device")
	fits("device")
	p.fill("main form", map[string]string{"code": strings.ToLower(d.UserCode)})
	fits("device-allow")
	p.press("allow")
	if at := p.at(); at != s.url+"/-/device?done=let" {
		t.Errorf("after the answer the browser is at %s", at)
	}
	fits("device-done")
	p.open(s.url + "/-/device?code=BBBBBBBB")
	p.screen("account-device-wrong")
	p.accessible("device-wrong")
	p.fits("device-wrong")
	p.told() // the status 404 of a wrong code
}
