package web

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/auth"
	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/stage"
	"github.com/symdepot/symdepot/internal/wire"
)

// Stages is the part of the depot's stages that pushes use.
type Stages interface {
	Limits(ctx context.Context, c stage.Caller) (stage.Limits, error)
	Open(ctx context.Context, c stage.Caller, spec stage.Spec) (st stage.State, again bool, err error)
	State(ctx context.Context, c stage.Caller, id string) (stage.State, error)
	Check(ctx context.Context, c stage.Caller, id string, list []stage.Entry) ([]stage.Verdict, error)
	Put(ctx context.Context, c stage.Caller, id string, ref blob.Ref, body io.Reader) (had bool, err error)
	PutPart(ctx context.Context, c stage.Caller, id string, ref blob.Ref, total int64, n int, body io.Reader) error
	Parts(ctx context.Context, c stage.Caller, id string, ref blob.Ref) (stage.Parts, error)
	Commit(ctx context.Context, c stage.Caller, id string, ask stage.Commit) (stage.Committed, error)
	Abandon(ctx context.Context, c stage.Caller, id string) error
	Refused(ctx context.Context, c stage.Caller, id string) ([]stage.Refused, error)
}

var _ Stages = (*stage.Stages)(nil)

// Limits of requests.
const (
	maxSpecBody  = 64 << 10
	maxCheckBody = 16 << 20
	// commitTime is how long a commit may take.
	commitTime = 30 * time.Minute
)

// routes are the addresses of the API.
var routes = slices.Concat(
	baseRoutes,
	serverRoutes,
)

var baseRoutes = []route{
	bare(on(http.MethodPost, "v1/token", account(accounts.exchangeToken))),
	on(http.MethodGet, "v1/tokens", account(accounts.listTokens)),
	bare(on(http.MethodPost, "v1/tokens", account(accounts.makeToken))),
	bare(on(http.MethodGet, "v1/tokens/*", account(accounts.showToken))),
	bare(on(http.MethodDelete, "v1/tokens/*", account(accounts.revokeToken))),
	bare(on(http.MethodGet, "v1/me", account(accounts.me))),
	on(http.MethodGet, "v1/signins", account(accounts.listSignIns)),          //nolint:misspell // a word of addresses
	bare(on(http.MethodDelete, "v1/signins/*", account(accounts.endSignIn))), //nolint:misspell // as above
	on(http.MethodGet, "v1/audit", account(accounts.audit)),
	bare(onPart(http.MethodGet, "v1/retention/rules", retentionAPI.showRules)),
	bare(onPart(http.MethodPut, "v1/retention/rules", retentionAPI.setRules)),
	onPart(http.MethodGet, "v1/retention/runs", retentionAPI.listRuns),
	bare(onPart(http.MethodPost, "v1/plans", retentionAPI.makePlan)),
	bare(onPart(http.MethodGet, "v1/plans/*", retentionAPI.showPlan)),
	bare(onPart(http.MethodPost, "v1/plans/*/apply", retentionAPI.applyPlan)),
	onPart(http.MethodGet, "v1/transactions", retentionAPI.listTransactions),
	bare(onPart(http.MethodGet, "v1/transactions/*", retentionAPI.showTransaction)),
	bare(onPart(http.MethodPatch, "v1/transactions/*", retentionAPI.changeTransaction)),
	onPart(http.MethodDelete, "v1/transactions/*", retentionAPI.removeTransaction),
	bare(onPart(http.MethodPost, "v1/transactions/*/undo", retentionAPI.undoRemoval)),
	on(http.MethodGet, "v1/trace", traceOne),
	on(http.MethodPost, "v1/trace/log", traceLog),
	bare(on(http.MethodPost, "v1/trace/ask", traceAsk)),
	on(http.MethodGet, "v1/transactions/*/files", listFiles),
	on(http.MethodGet, "v1/objects", listObjects),
	bare(on(http.MethodGet, "v1/objects/*", showEntry)),
	on(http.MethodGet, "v1/objects/*/holders", listHolders),
	bare(on(http.MethodGet, "v1/objects/*/paths", listPaths)),
	bare(on(http.MethodGet, "v1/objects/*/forms", listForms)),
	on(http.MethodGet, "v1/objects/*/sources", listSources),
	on(http.MethodGet, "v1/misses", listMisses),
	on(http.MethodGet, "v1/products", listProducts),
	on(http.MethodGet, "v1/versions", listVersions),
	on(http.MethodGet, "v1/versions/diff", compareVersions),
	on(http.MethodGet, "v1/versions/files", listVersionFiles),
	onPart(http.MethodGet, "v1/usage", retentionAPI.usage),
	on(http.MethodPost, "v1/identify", (*API).identify),
	on(http.MethodPost, "v1/match", (*API).match),
	bare(onPart(http.MethodGet, "v1/push", pushAPI.pushLimits)),
	bare(onPart(http.MethodPost, "v1/push/stages", pushAPI.openStage)),
	bare(onPart(http.MethodGet, "v1/push/stages/*", pushAPI.stageState)),
	bare(onPart(http.MethodDelete, "v1/push/stages/*", pushAPI.abandonStage)),
	bare(onPart(http.MethodPost, "v1/push/stages/*/check", pushAPI.checkEntries)),
	bare(onPart(http.MethodPost, "v1/push/stages/*/commit", pushAPI.commitStage)),
	bare(onPart(http.MethodPut, "v1/push/stages/*/contents/*", pushAPI.putContent)),
	bare(onPart(http.MethodGet, "v1/push/stages/*/contents/*/parts", pushAPI.listParts)),
	bare(onPart(http.MethodPut, "v1/push/stages/*/contents/*/parts/*", pushAPI.putPart)),
}

// pusher returns the caller of a push, which needs the right to write.
func (a *API) pusher(r *Request) (stage.Caller, error) {
	switch {
	case r.Anonymous && !r.WritesAny:
		if len(r.Challenges) == 0 {
			return stage.Caller{}, &Problem{Word: "forbidden", Detail: "this server accepts no pushes, because no credentials are configured"}
		}
		return stage.Caller{}, &Problem{Word: "credentials", Detail: "a push needs a token with the scope write"}
	case !r.WritesAny:
		return stage.Caller{}, &Problem{Word: "forbidden", Detail: "a push needs the right to write to its product"}
	case a.cfg.Stages == nil:
		return stage.Caller{}, &Problem{Word: "not-found", Detail: "this server accepts no pushes"}
	}
	return stage.Caller{
		ID: r.Identity.Maker(), Name: r.Name, Read: r.Read, Write: r.Principal.Write, Again: r.StillWrites, Class: r.Identity.Uploads.Class,
	}, nil
}

// refusals are the words of the kinds of refusals.
var refusals = map[stage.Kind]string{
	stage.NotFound: "not-found", stage.Invalid: "query", stage.TooLarge: "too-large", stage.Quota: "quota", stage.TooMany: "rate", stage.Busy: "busy",
	stage.NoSpace: "no-space", stage.Conflict: "conflict", stage.WrongHash: "digest", stage.Forbidden: "forbidden", stage.NotSymbol: "not-symbol",
	stage.Lost: "internal",
}

// refused returns the problem that a refusal of a stage is.
func refused(err error) error {
	ref, ok := errors.AsType[*stage.Refusal](err)
	if !ok {
		return err
	}
	word, known := refusals[ref.Kind]
	if !known {
		word = "query"
	}
	p := &Problem{Word: word, Detail: ref.Text}
	for _, m := range ref.Missing {
		p.Missing = append(p.Missing, m.String())
	}
	return p
}

func (a pushAPI) pushLimits(w http.ResponseWriter, r *Request, _ []string) error {
	c, err := a.pusher(r)
	if err != nil {
		return err
	}
	l, err := a.cfg.Stages.Limits(r.Context(), c)
	if err != nil {
		return refused(err)
	}
	out := wire.PushLimits{
		Version: 1, MaxFile: l.MaxFile, MaxFiles: l.MaxFiles, MaxBytes: l.MaxBytes, CheckBatch: l.CheckBatch, Part: l.Part, WholeBelow: l.WholeBelow,
		Encodings: codings, Idle: int64(l.Idle / time.Second), Longest: int64(l.Longest / time.Second),
	}
	for _, q := range l.Used {
		out.Quotas = append(out.Quotas, wire.PushQuota{Product: q.Product, Bytes: q.Bytes, Used: q.Used})
	}
	return writeJSON(w, http.StatusOK, out)
}

func (a pushAPI) openStage(w http.ResponseWriter, r *Request, _ []string) error {
	c, err := a.pusher(r)
	if err != nil {
		return err
	}
	var q wire.PushSpec
	if err := readJSON(r, maxSpecBody, &q); err != nil {
		return err
	}
	spec := stage.Spec{
		Labels: stage.Labels{Product: q.Product, Version: q.Version, Branch: q.Branch, Class: q.Class, Comment: q.Comment},
		Key:    q.Key, Join: q.Join,
	}
	if b := q.Build; b != nil {
		spec.Build = stage.Build{CI: b.CI, URL: b.URL, Commit: b.Commit, Run: b.Run, Attempt: b.Attempt}
	}
	if err := fileUnder(&spec, r, c); err != nil {
		return err
	}
	st, again, err := a.cfg.Stages.Open(r.Context(), c, spec)
	if err != nil {
		return refused(err)
	}
	status := http.StatusCreated
	if again {
		status = http.StatusOK
	}
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+st.ID)
	return writeJSON(w, status, stateOf(st))
}

// fileUnder adds the labels of the credentials to those of a push, and refuses a product to
// which they may not add.
func fileUnder(spec *stage.Spec, r *Request, c stage.Caller) error {
	if err := applyToken(spec, &r.Identity.Uploads, r.Rights.SoleProduct()); err != nil {
		return err
	}
	if !c.Write(spec.Product) {
		return &Problem{Word: "forbidden", Detail: "they have no right to write to the product " + strconv.Quote(spec.Product)}
	}
	return nil
}

// applyToken adds the labels of uploads in a token. Its version, branch and class are
// those of all uploads: a nightly build does not become a release by a flag.
func applyToken(spec *stage.Spec, u *auth.Uploads, sole string) error {
	spec.Product = cmp.Or(spec.Product, u.Product, sole)
	for _, l := range []struct {
		what string
		to   *string
		is   string
	}{{"version", &spec.Version, u.Version}, {"branch", &spec.Branch, u.Branch}, {"class", &spec.Class, u.Class}} {
		switch {
		case l.is == "":
		case *l.to == "":
			*l.to = l.is
		case *l.to != l.is:
			return &Problem{Word: "forbidden", Detail: "the token is for the " + l.what + " " + strconv.Quote(l.is) + " only", Fields: map[string]string{l.what: "must be " + strconv.Quote(l.is) + " or empty"}}
		}
	}
	if b := u.Build; b != nil {
		spec.Build = stage.Build{CI: b.CI, URL: b.URL, Commit: b.Commit, Run: b.Run, Attempt: b.Attempt, Verified: true}
	}
	return nil
}

func stateOf(st stage.State) wire.PushState {
	out := wire.PushState{
		ID: st.ID, State: st.Phase, Product: st.Product, Version: st.Version, Branch: st.Branch, Class: st.Class, Comment: st.Comment,
		Expires: st.Expires.UTC(), Files: st.Files, Bytes: st.Bytes, Have: st.Have, Got: st.Got, Refused: st.Refused, Transaction: st.Transaction,
	}
	for _, m := range st.Missing {
		out.Missing = append(out.Missing, m.String())
	}
	return out
}

func (a pushAPI) stageState(w http.ResponseWriter, r *Request, args []string) error {
	c, err := a.pusher(r)
	if err != nil {
		return err
	}
	st, err := a.cfg.Stages.State(r.Context(), c, args[0])
	if err != nil {
		return refused(err)
	}
	return writeJSON(w, http.StatusOK, stateOf(st))
}

func (a pushAPI) abandonStage(w http.ResponseWriter, r *Request, args []string) error {
	c, err := a.pusher(r)
	if err != nil {
		return err
	}
	if err := a.cfg.Stages.Abandon(r.Context(), c, args[0]); err != nil {
		return refused(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a pushAPI) checkEntries(w http.ResponseWriter, r *Request, args []string) error {
	c, err := a.pusher(r)
	if err != nil {
		return err
	}
	var list []wire.PushEntry
	if err := readJSON(r, maxCheckBody, &list); err != nil {
		return err
	}
	entries := make([]stage.Entry, len(list))
	for i, e := range list {
		ref, err := parseRef(e.SHA256)
		if err != nil || e.Size < 0 {
			return &Problem{Word: "query", Detail: "an entry has no valid sha256 or size", Fields: map[string]string{strconv.Itoa(i): strconv.Quote(clip(e.Path))}}
		}
		entries[i] = stage.Entry{Path: e.Path, Size: e.Size, Ref: ref, As: e.As, ID: e.ID, ModTime: e.MTime}
	}
	verdicts, err := a.cfg.Stages.Check(r.Context(), c, args[0], entries)
	if err != nil {
		return refused(err)
	}
	out := make([]wire.PushVerdict, len(verdicts))
	for i, v := range verdicts {
		out[i] = wire.PushVerdict{Answer: v.Answer, Reason: v.Reason}
	}
	return writeJSON(w, http.StatusOK, out)
}

// clip shortens a text of a request for a message.
func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), 200)], "�") }

// parseRef reads a SHA-256 in lower-case hex, as in a path.
func parseRef(s string) (blob.Ref, error) {
	ref, err := blob.ParseRef(s)
	if err != nil || hex.EncodeToString(ref[:]) != s {
		return ref, &Problem{Word: "query", Detail: "expected a SHA-256 of 64 lower-case hex digits"}
	}
	return ref, nil
}

// content prepares an upload of a content.
func (a *API) content(r *Request, args []string, part bool) (c stage.Caller, ref blob.Ref, u *upload, err error) {
	if c, err = a.pusher(r); err != nil {
		return
	}
	if ref, err = parseRef(args[1]); err != nil {
		return
	}
	repr, ok, err := digestOf(r.Header, "Repr-Digest")
	if err == nil && ok && repr != ref {
		err = &Problem{Word: "digest", Detail: "Repr-Digest is not the SHA-256 of the address"}
	}
	if err != nil {
		return
	}
	u, err = a.newUpload(r, part)
	return
}

func (a pushAPI) putContent(w http.ResponseWriter, r *Request, args []string) error {
	c, ref, u, err := a.content(r, args, false)
	if err != nil {
		return err
	}
	defer u.Close()
	had, err := a.cfg.Stages.Put(r.Context(), c, args[0], ref, u)
	if failed := u.failure(); failed != nil && err != nil {
		return failed
	}
	if err != nil {
		return refused(err)
	}
	finish(w, r) // a content that had arrived is not read
	status := http.StatusCreated
	if had {
		status = http.StatusOK
	}
	return writeJSON(w, status, struct{}{})
}

func (a pushAPI) putPart(w http.ResponseWriter, r *Request, args []string) error {
	c, ref, u, err := a.content(r, args, true)
	if err != nil {
		return err
	}
	defer u.Close()
	n, err := strconv.ParseUint(args[2], 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != args[2] {
		return &Problem{Word: "query", Detail: "the address has no valid number of a part"}
	}
	total, err := strconv.ParseInt(r.Header.Get(wire.UploadLength), 10, 64)
	if err != nil || total < 0 {
		return &Problem{Word: "query", Detail: "the header field " + wire.UploadLength + " is missing or no number of bytes"}
	}
	err = a.cfg.Stages.PutPart(r.Context(), c, args[0], ref, total, int(n), u)
	if failed := u.failure(); failed != nil && err != nil {
		return failed
	}
	if err != nil {
		return refused(err)
	}
	finish(w, r) // a part that had arrived is not read
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a pushAPI) listParts(w http.ResponseWriter, r *Request, args []string) error {
	c, err := a.pusher(r)
	if err != nil {
		return err
	}
	ref, err := parseRef(args[1])
	if err != nil {
		return err
	}
	p, err := a.cfg.Stages.Parts(r.Context(), c, args[0], ref)
	if err != nil {
		return refused(err)
	}
	return writeJSON(w, http.StatusOK, wire.PushParts{Part: p.Part, Length: p.Length, Got: p.Got})
}

func (a pushAPI) commitStage(w http.ResponseWriter, r *Request, args []string) error {
	c, err := a.pusher(r)
	if err != nil {
		return err
	}
	var q wire.PushCommit
	if err := readJSON(r, maxSpecBody, &q); err != nil {
		return err
	}
	if q.Manifest != "" {
		if _, err := parseRef(q.Manifest); err != nil {
			return &Problem{Word: "query", Detail: "the manifest is not valid", Fields: map[string]string{"manifest": "expected 64 lower-case hex digits"}}
		}
	}
	r.Allow(commitTime)
	done, err := a.cfg.Stages.Commit(r.Context(), c, args[0], stage.Commit{Files: q.Files, Manifest: q.Manifest, Partial: q.Partial, Anew: q.Anew, Needs: q.Needs})
	r.Allow(0)
	if err != nil {
		return refused(err)
	}
	out := wire.PushCommitted{Transaction: done.Transaction, Again: done.Again, Files: done.Files, KnownBytes: done.KnownBytes, NewBytes: done.NewBytes, OtherBytes: done.Other}
	for _, f := range done.Flags {
		out.Flags = append(out.Flags, wire.PushFlag{Path: f.Path, Note: f.Note})
	}
	for _, f := range done.Refused {
		out.Refused = append(out.Refused, wire.PushRefused{Path: f.Path, Reason: f.Reason})
	}
	return writeJSON(w, http.StatusOK, out)
}
