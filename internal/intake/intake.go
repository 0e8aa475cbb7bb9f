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
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/body"
	"github.com/symdepot/symdepot/internal/clip"
	"github.com/symdepot/symdepot/internal/stage"
)

// Stages is the part of package stage that the intakes use. It is safe for concurrent
// use.
type Stages interface {
	Limits(ctx context.Context, c stage.Caller) (stage.Limits, error)
	Open(ctx context.Context, c stage.Caller, spec stage.Spec) (st stage.State, again bool, err error)
	Enter(ctx context.Context, c stage.Caller, id string, e stage.Entry) (r stage.Receipt, entered bool, err error)
	PutClaimed(ctx context.Context, c stage.Caller, id string, e stage.Entry, body io.Reader, check func(stage.Arrived) error) (stage.Arrived, error)
	Refuse(ctx context.Context, c stage.Caller, id string, e stage.Entry, reason string) error
	Staged(ctx context.Context, c stage.Caller, id, sha1 string) (r stage.Receipt, held bool, err error)
	Find(ctx context.Context, c stage.Caller, q stage.Query) ([]stage.Found, error)
	Commit(ctx context.Context, c stage.Caller, id string, ask stage.Commit) (stage.Committed, error)
	Abandon(ctx context.Context, c stage.Caller, id string) error
}

var _ Stages = (*stage.Stages)(nil)

// Config configures a Handler.
type Config struct {
	// Stages receives the files.
	Stages Stages
	// Dir is a folder of this server for bodies and chunks that wait. New makes it.
	Dir string
	// Log receives refusals and failures; nil discards them.
	Log *slog.Logger
	// MaxRequests limits the uploads that are read at once: 64.
	MaxRequests int
	// MaxSpool limits the bytes of all waiting bodies and chunks: 64 GiB.
	MaxSpool int64
	// MinRate is the slowest body that is not cut off, in bytes per second: 8 KiB.
	MinRate int64
	// AssembleWait is how long sentry-cli's assemble request waits for the files
	// to be stored before it answers that this goes on: 50 s.
	AssembleWait time.Duration
	// Still reports whether the credentials that Who.Credential names still count and may
	// add files to a product. Uploads of several requests ask it at each use. Nil: they
	// always do.
	Still func(ctx context.Context, credential, product string) error
	// Shared: other servers may have the same stages, so that the requests of one
	// upload may reach several servers.
	Shared bool
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Who is the principal of a request.
type Who struct {
	stage.Caller
	// Credential is a text by which Config.Still knows the credentials later.
	Credential string
	// Anonymous: the request has no valid credentials.
	Anonymous bool
	// Writer: the principal may write at least one product.
	Writer bool
	// Defaults are the labels of the credentials. They take precedence over those
	// that a protocol has.
	Defaults stage.Labels
	// Build is the CI job that the credentials were made for; the zero value: unknown.
	Build stage.Build
}

// Denied is the reason why the usual credentials of a request are not accepted.
type Denied struct {
	Status int    // 401, 403 or 503
	Text   string // discloses nothing to an attacker
}

// Request is a request with the facts that the server has found out about it.
type Request struct {
	// Segs is the decoded path without a token and a configured prefix, Base that
	// part of the escaped path, such as "/t/TOKEN", without a final slash.
	Segs []string
	Base string
	// Origin is the scheme and host of this server as the client wrote them.
	Origin string
	Who    Who
	// Memory counts what is read of the body into memory; nil: it is not counted.
	Memory *body.Account
	// Denied is not nil if the usual credentials were rejected.
	Denied *Denied
	// Challenge are the values of WWW-Authenticate in a 401 response.
	Challenge []string
	// Token authenticates a token that the request has where only this protocol
	// has one. Nil: no tokens.
	Token func(ctx context.Context, secret string) (Who, *Denied)
}

// Handler answers the requests of all intakes.
type Handler struct {
	cfg     Config
	stages  Stages
	log     *slog.Logger
	now     func() time.Time
	slots   chan struct{}
	spooled atomic.Int64 // bytes of waiting bodies and chunks

	ctx    context.Context // of background work
	cancel context.CancelFunc
	work   sync.WaitGroup

	sentry   *sentryState
	breakpad *recent[*breakpadUpload]
	packages *recent[map[string]assembly]
	pending  *recent[string] // Pyroscope: file names by the id of the principal and build-id
	arrived  *recent[bool]   // Pyroscope: stored build-ids by principal
	alone    *alone
}

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
	h := &Handler{cfg: cfg, stages: cfg.Stages, log: cfg.Log, now: cfg.Now, slots: make(chan struct{}, cfg.MaxRequests)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.removeLeftovers()
	h.alone = newAlone(filepath.Join(cfg.Dir, aliveFile), pyroscopeIdle, cfg.Shared, cfg.Now)
	var err error
	if h.sentry, err = newSentryState(h); err != nil {
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
func (h *Handler) removeLeftovers() {
	for _, pattern := range []string{spoolPattern, factsPattern} {
		for _, name := range filesOf(h, pattern) {
			if info, err := os.Stat(name); err == nil && h.now().Sub(info.ModTime()) > chunkIdle {
				_ = os.Remove(name) // another process may be faster
			}
		}
	}
}

// filesOf returns the files of the handler's folder whose names match a pattern.
func filesOf(h *Handler, pattern string) (paths []string) {
	list, err := os.ReadDir(h.cfg.Dir)
	if err != nil {
		return nil // New has made it
	}
	for _, e := range list {
		if ok, err := filepath.Match(pattern, e.Name()); ok && err == nil {
			paths = append(paths, filepath.Join(h.cfg.Dir, e.Name()))
		}
	}
	return paths
}

// Expire removes what clients have abandoned for too long: bodies, chunks and
// open uploads. The handler calls it every minute.
func (h *Handler) Expire() {
	expireTecken(h)
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

// exchange is one request and its response.
type exchange struct {
	*Handler
	w     http.ResponseWriter
	r     *http.Request
	in    *Request
	t     *target
	who   Who
	body  io.Reader // paced; the first read sends 100-continue
	limit int64     // of a file; 0 before take
}

// ServeIntake answers a request that Claims names.
func (h *Handler) ServeIntake(w http.ResponseWriter, r *http.Request, in Request) {
	t, ok := find(r.Method, in.Segs)
	if !ok {
		http.NotFound(w, r)
		return
	}
	x := &exchange{Handler: h, w: w, r: r, in: &in, t: &t}
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
		return x.deny(&Denied{http.StatusUnauthorized, "invalid credentials"})
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
	return &failure{status, d.Text}
}

func (x *exchange) notWriter() error {
	if x.who.Anonymous {
		return &failure{x.t.face.noCredential, "an upload needs a token with the scope write; make one with: symdepot token new --scope write"}
	}
	return &failure{http.StatusForbidden, x.who.Name + " may not write"}
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

// base is the URL below which the intakes have their paths: with the token and the
// product and version in the path of the request.
func (x *exchange) base() string { return x.in.Origin + x.in.Base + x.t.prefix }

// labels returns the labels of an upload. A label comes from the credentials, the
// path or query, or the protocol's fields, in this order; a product in the path or
// query comes first, because the rights decide about it anyway.
func (x *exchange) labels(fields stage.Labels) (stage.Labels, error) {
	q, d := x.r.URL.Query(), x.who.Defaults
	l := stage.Labels{
		Product: first(x.t.product, q.Get("product"), d.Product, fields.Product),
		Version: first(d.Version, x.t.version, q.Get("version"), fields.Version),
		Branch:  first(d.Branch, q.Get("branch"), fields.Branch),
		Class:   first(d.Class, q.Get("class"), fields.Class),
		Comment: first(d.Comment, q.Get("comment"), fields.Comment),
	}
	for _, p := range []struct{ what, s string }{{"product", l.Product}, {"version", l.Version}, {"branch", l.Branch}, {"class", l.Class}, {"comment", l.Comment}} {
		if err := checkLabel(p.s); err != nil {
			return l, &failure{http.StatusBadRequest, "the " + p.what + " " + err.Error()}
		}
	}
	if !x.who.Write(l.Product) {
		if x.who.Anonymous {
			return l, x.notWriter()
		}
		return l, &failure{http.StatusForbidden, fmt.Sprintf("%s may not write the product %q", x.who.Name, l.Product)}
	}
	return l, nil
}

// mayWrite refuses an upload before its body is read, if the product is known
// from the URL or the credentials.
func (x *exchange) mayWrite() error {
	if first(x.t.product, x.r.URL.Query().Get("product"), x.who.Defaults.Product) == "" {
		return nil
	}
	_, err := x.labels(stage.Labels{})
	return err
}

// take refuses requests that can be refused before the body is read, and returns the
// limits for files.
func (x *exchange) take() error {
	if err := x.mayWrite(); err != nil {
		return err
	}
	limits, err := x.stages.Limits(x.r.Context(), x.who.Caller)
	if err != nil {
		return err
	}
	if x.limit = limits.MaxFile; x.r.ContentLength > x.limit {
		return tooLarge(x.limit)
	}
	return nil
}

func tooLarge(limit int64) error {
	return &failure{http.StatusRequestEntityTooLarge, fmt.Sprintf("the file is larger than %d bytes", limit)}
}

func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}

const maxLabel = 256 // bytes

func checkLabel(s string) error {
	switch {
	case len(s) > maxLabel:
		return fmt.Errorf("has %d bytes; the limit is %d", len(s), maxLabel)
	case !clip.Printable(s):
		return errors.New("contains characters that cannot be printed")
	}
	return nil
}

// enter puts a content that the depot has into a stage, so that it does not go
// with the build that brought it first. ok is false if the client must send it.
func (h *Handler) enter(ctx context.Context, c stage.Caller, id, path string, f stage.Found) (r stage.Receipt, ok bool, err error) {
	return h.stages.Enter(ctx, c, id, stage.Entry{Path: path, Size: f.Size, Ref: f.Ref})
}

// collect opens the stage that collects the files of protocols without an end.
func (x *exchange) collect(l stage.Labels) (id string, err error) {
	st, _, err := x.stages.Open(x.r.Context(), x.who.Caller, stage.Spec{Labels: l, Build: x.who.Build, Collect: true})
	return st.ID, err
}

// upload is an open stage with the files that it has accepted in one request.
type upload struct {
	stages   Stages
	caller   stage.Caller
	stage    string
	accepted []stage.Receipt
	header   http.Header // of the answer; nil: the answer says what the commit says
}

// put is PutClaimed of the stage.
func (u *upload) put(ctx context.Context, e stage.Entry, body io.Reader, check func(stage.Arrived) error) (stage.Arrived, error) {
	a, err := u.stages.PutClaimed(ctx, u.caller, u.stage, e, body, check)
	if err == nil {
		u.accepted = append(u.accepted, a.Receipt)
		if u.header != nil {
			tellOther(u.header, &a)
		}
	}
	return a, err
}

// transaction stores files in a stage of its own and commits it, or nothing. The commit
// confirms each accepted file.
func (x *exchange) transaction(l stage.Labels, fill func(u *upload) error) (stage.Committed, error) {
	st, _, err := x.stages.Open(x.r.Context(), x.who.Caller, stage.Spec{Labels: l, Build: x.who.Build})
	if err != nil {
		return stage.Committed{}, err
	}
	u := &upload{stages: x.stages, caller: x.who.Caller, stage: st.ID, header: x.w.Header()}
	if err := fill(u); err != nil {
		x.abandon(u.caller, u.stage)
		return stage.Committed{}, err
	}
	done, err := x.stages.Commit(x.r.Context(), u.caller, u.stage, stage.Commit{Accepted: u.accepted})
	if err != nil {
		x.abandon(u.caller, u.stage)
	}
	return done, err
}

// abandon frees a stage. The request may be over.
func (h *Handler) abandon(c stage.Caller, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.stages.Abandon(ctx, owner(c), id); err != nil {
		h.log.Warn("an upload that failed could not be abandoned; it expires", "stage", id, "error", err)
	}
}

// trimSlash cuts the final slash of a URL.
func trimSlash(s string) string { return strings.TrimSuffix(s, "/") }
