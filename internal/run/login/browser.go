package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/symdepot/symdepot/internal/base/term"
)

// browserTime is how long a person has to sign in at a browser.
const browserTime = 5 * time.Minute

// callbackPath is where the browser comes back to, on a port of this machine.
const callbackPath = "/callback"

// newState returns a random text that the browser must bring back.
func newState() string { return oauth2.GenerateVerifier() }

// Browser signs a person in with a browser of this machine (RFC 8252). open is given the
// address that the person must open; it opens or prints it, and returns at once.
func (s *Logins) Browser(ctx context.Context, server string, open func(address string)) (l Login, err error) {
	b, err := s.begin(ctx, server)
	if err != nil {
		return l, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return l, fmt.Errorf("no port for the answer of the browser: %w; use symdepot login --device", err)
	}
	conf := b.meta.config()
	conf.RedirectURL = "http://" + listener.Addr().String() + callbackPath
	back := &callback{
		host: listener.Addr().String(), state: newState(), issuer: b.meta.Issuer, needsIssuer: b.meta.Iss,
		came: make(chan answer, 1), result: make(chan error, 1),
	}
	web := &http.Server{Handler: back, ReadHeaderTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10}
	go func() { _ = web.Serve(listener) }() // until Shutdown
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = web.Shutdown(ending) // the page has been sent, or the browser is too slow
		_ = web.Close()
	}()
	verifier := oauth2.GenerateVerifier()
	open(conf.AuthCodeURL(back.state, oauth2.S256ChallengeOption(verifier), s.device()))

	timer := time.NewTimer(browserTime)
	defer timer.Stop()
	select {
	case a := <-back.came:
		if err = a.err; err == nil {
			var token *oauth2.Token
			if token, err = conf.Exchange(s.with(ctx, b.server), a.code, oauth2.VerifierOption(verifier)); err != nil {
				err = refusal(ctx, b.server, ErrDenied, err)
			} else {
				l, err = s.finish(ctx, b, token)
			}
		}
		back.result <- err
		return l, err
	case <-timer.C:
		return l, fmt.Errorf("%s: %w: within %v; run the command again", b.server, ErrNobody, browserTime)
	case <-ctx.Done():
		return l, context.Cause(ctx)
	}
}

// answer is what a browser has brought back: the code, or why there is none.
type answer struct {
	code string
	err  error
}

// callback is the page to which the server sends the browser. It takes one answer, which has
// the state of this sign-in, and then tells the person how the sign-in went.
type callback struct {
	host, state, issuer string
	needsIssuer         bool
	came                chan answer // of one place: the answer
	result              chan error  // how the sign-in went
}

// pageText is the page; its values are a title and a sentence, as HTML.
const pageText = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">` +
	`<title>%s</title><body style="font-family:sans-serif;max-width:40em;margin:4em auto;padding:0 1em"><h1>%[1]s</h1><p>%s</p></body></html>`

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	say := func(status int, title, text string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, fmt.Sprintf(pageText, html.EscapeString(title), html.EscapeString(text))) // for the person only
	}
	q := r.URL.Query()
	switch {
	case r.Host != c.host || r.URL.Path != callbackPath:
		say(http.StatusNotFound, "Not found", "There is nothing at this address.")
		return
	case r.Method != http.MethodGet:
		say(http.StatusMethodNotAllowed, "Not allowed", "This address is for the answer of a sign-in.")
		return
	case subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(c.state)) != 1:
		say(http.StatusBadRequest, "Not this sign-in",
			"The answer belongs to another sign-in. Run symdepot login again, and use the address that it prints.")
		return
	}
	select {
	case c.came <- c.read(q):
	default:
		say(http.StatusGone, "Already answered", "This sign-in has its answer already.")
		return
	}
	select {
	case err := <-c.result:
		if err != nil {
			say(http.StatusOK, "Not signed in", term.Printable(err.Error()))
			return
		}
		say(http.StatusOK, "Signed in", "You can close this page and go back to the program.")
	case <-r.Context().Done():
	}
}

// read reads the answer of a server.
func (c *callback) read(q url.Values) answer {
	for _, values := range q {
		if len(values) > 1 {
			return answer{err: fmt.Errorf("%w: the browser's answer has a parameter twice", ErrDenied)}
		}
	}
	iss, named := q.Get("iss"), q.Has("iss")
	switch {
	case named && iss != c.issuer, !named && c.needsIssuer:
		return answer{err: fmt.Errorf("%w: the browser's answer is that of another server, %q", ErrDenied, iss)}
	case q.Has("error"):
		return answer{err: fmt.Errorf("%w: the server says %s", ErrDenied, said(q.Get("error"), q.Get("error_description")))}
	case q.Get("code") == "":
		return answer{err: errors.Join(ErrDenied, errors.New("the browser's answer has no code"))}
	}
	return answer{code: q.Get("code")}
}
