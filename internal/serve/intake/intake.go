// Package intake accepts uploads from clients that were written for other
// servers: sentry-cli, Mozilla Tecken's clients, Breakpad's sym_upload, NuGet
// clients, Pyroscope's clients, bugsnag-cli, and any program that sends a file
// with PUT.
//
// Each protocol has a file of its own. All of them drive a stage (package stage):
// a protocol whose upload has an end makes one transaction of it, a protocol that
// sends single files collects the files of one principal and one set of labels
// into a transaction. Names and ids in requests are claims, which are compared
// with those in the bytes. No protocol answers with success to a file that is
// not kept.
package intake

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Handler answers the requests of all intakes.
type Handler struct {
	*service
	*unfinished
}

// None returns a handler that claims no request.
func None() *Handler { return &Handler{service: &service{}} }

// New returns a handler. The caller must call Close.
func New(cfg Config) (*Handler, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxRequests <= 0 {
		cfg.MaxRequests = 64
	}
	if cfg.MaxSpool <= 0 {
		cfg.MaxSpool = 64 << 30
	}
	if cfg.MinRate <= 0 {
		cfg.MinRate = 8 << 10
	}
	if cfg.AssembleWait <= 0 {
		cfg.AssembleWait = 50 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("the folder for uploads: %w", err)
	}
	h := &Handler{
		&service{cfg: cfg, stages: cfg.Stages, log: cfg.Log, now: cfg.Now, slots: make(chan struct{}, cfg.MaxRequests)},
		&unfinished{},
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.removeLeftovers()
	h.alone = newAlone(filepath.Join(cfg.Dir, aliveFile), pyroscopeIdle, cfg.Shared, cfg.Now)
	var err error
	if h.sentry, err = newSentryState(h.service); err != nil {
		h.cancel()
		return nil, err
	}
	h.breakpad = newRecent(1000, breakpadIdle, cfg.Now, func(u *breakpadUpload) { u.close() })
	h.packages = newRecent[map[string]assembly](1000, 15*time.Minute, cfg.Now, nil)
	h.pending = newRecent[string](10_000, pyroscopeIdle, cfg.Now, nil)
	h.arrived = newRecent[bool](10_000, pyroscopeIdle, cfg.Now, nil)
	h.work.Go(h.expireRegularly)
	return h, nil
}

// expireRegularly removes unfinished uploads that clients have abandoned.
func (h *Handler) expireRegularly() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
			h.Expire()
		}
	}
}

// removeLeftovers removes the bodies of a process that has ended. Another one may
// have the same folder, so they must be older than any request.
func (h *service) removeLeftovers() {
	for _, pattern := range []string{spoolPattern, factsPattern} {
		for _, name := range filesOf(h, pattern) {
			if info, err := os.Stat(name); err == nil && h.now().Sub(info.ModTime()) > chunkIdle {
				_ = os.Remove(name) // another process may be faster
			}
		}
	}
}

// Expire removes what clients have abandoned for too long: bodies, chunks and
// open uploads. The handler calls it every minute.
func (h *Handler) Expire() {
	expireTecken(h.service)
	h.breakpad.expire()
	h.packages.expire()
	h.pending.expire()
	h.arrived.expire()
	h.sentry.expire()
	h.removeLeftovers()
	h.alone.touch()
}

// Close ends the work in the background and closes the folder of chunks. No request
// may be in progress. Uploads of several requests that are not finished go on with
// the next handler of the folder.
func (h *Handler) Close() error {
	h.cancel()
	h.work.Wait()
	h.breakpad.drop = func(u *breakpadUpload) { u.leave() }
	h.breakpad.clear()
	if err := h.sentry.root.Close(); err != nil {
		return fmt.Errorf("the folder for chunks: %w", err)
	}
	return nil
}

// ServeIntake answers a request that Claims names.
func (h *Handler) ServeIntake(w http.ResponseWriter, r *http.Request, in Request) {
	t, ok := find(r.Method, in.Segs)
	if !ok {
		http.NotFound(w, r)
		return
	}
	x := &exchange{service: h.service, unfinished: h.unfinished, w: w, r: r, in: &in, t: &t}
	w.Header().Set("Cache-Control", "no-store")
	x.body = newPaced(x)
	if err := x.serve(); err != nil {
		x.fail(err)
	}
}

func (x *exchange) serve() error {
	if x.t.access != accessOwnKey {
		if err := x.authenticate(); err != nil {
			return err
		}
	}
	select {
	case x.slots <- struct{}{}:
		defer func() { <-x.slots }()
	default:
		return &failure{http.StatusServiceUnavailable, "too many uploads at the same time; try again later"}
	}
	return x.t.serve(x)
}

// authenticate finds out who sends the request, before its body is read.
func (x *exchange) authenticate() error {
	denied := x.in.Denied
	x.who = x.in.Who
	if secret := x.secret(); secret != "" {
		if err := x.useToken(secret); err != nil {
			return err
		}
		denied = nil
	}
	if x.t.access == accessOpen {
		return nil
	}
	if denied != nil {
		return x.deny(denied)
	}
	if x.who.Writer {
		return nil
	}
	return x.notWriter()
}

// useToken uses the principal of a token.
func (x *exchange) useToken(secret string) error {
	if x.in.Token == nil {
		return x.deny(&Denied{http.StatusUnauthorized, "invalid credentials: the token is wrong, revoked or expired"})
	}
	who, denied := x.in.Token(x.r.Context(), secret)
	if denied != nil {
		return x.deny(denied)
	}
	x.who = who
	return nil
}

func (x *exchange) deny(d *Denied) error {
	status := d.Status
	if status == http.StatusUnauthorized {
		status = x.t.face.badCredential
		if !x.carriesCredential() {
			status = x.t.face.noCredential
		}
	}
	text := d.Text
	if d.Status == http.StatusUnauthorized {
		text += "; " + SendToken
	}
	return &failure{status, text}
}

// secret returns the token in places that only some protocols have.
func (x *exchange) secret() string {
	if key := x.r.Header.Get("X-Nuget-Apikey"); key != "" && x.t.face == nugetFace {
		return key
	}
	q := x.r.URL.Query()
	for _, name := range []string{"key", "api_key"} {
		if key := q.Get(name); key != "" {
			return key
		}
	}
	return ""
}

func (x *exchange) carriesCredential() bool {
	for _, name := range []string{"Authorization", "X-Symdepot-Token", "Auth-Token"} {
		if x.r.Header.Get(name) != "" {
			return true
		}
	}
	return x.secret() != ""
}
