package api

import (
	"bufio"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/blocks"
	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// pushAPI answers pushes.
type pushAPI struct {
	stages  web.Stages
	bases   web.Bases
	uploads *web.Uploads
}

func (a pushAPI) routes() []route {
	return []route{
		bare(on(http.MethodGet, "v1/push", a.pushLimits)),
		bare(on(http.MethodPost, "v1/push/stages", a.openStage)),
		bare(on(http.MethodGet, "v1/push/stages/*", a.stageState)),
		bare(on(http.MethodDelete, "v1/push/stages/*", a.abandonStage)),
		bare(on(http.MethodPost, "v1/push/stages/*/check", a.checkEntries)),
		bare(on(http.MethodGet, "v1/push/stages/*/blocks/*", a.listBlocks)),
		bare(on(http.MethodPost, "v1/push/stages/*/commit", a.commitStage)),
		bare(on(http.MethodPut, "v1/push/stages/*/contents", a.putContents)),
		bare(on(http.MethodPut, "v1/push/stages/*/contents/*", a.putContent)),
		bare(on(http.MethodGet, "v1/push/stages/*/contents/*/parts", a.listParts)),
		bare(on(http.MethodPut, "v1/push/stages/*/contents/*/parts/*", a.putPart)),
	}
}

func (a pushAPI) pushLimits(w http.ResponseWriter, r *web.Request, _ []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	l, err := a.stages.Limits(r.Context(), c)
	if err != nil {
		return web.RefusalProblem(err)
	}
	out := wire.PushLimits{
		Version: 1, MaxFile: l.MaxFile, MaxFiles: l.MaxFiles, MaxBytes: l.MaxBytes, CheckBatch: l.CheckBatch,
		Part: l.Part, WholeBelow: l.WholeBelow,
		Encodings: web.Codings, Blocks: blocks.Method, BareParts: true, Several: stage.MaxSeveral, SeveralBytes: stage.MaxSeveralBytes,
		Idle: int64(l.Idle / time.Second), Longest: int64(l.Longest / time.Second),
	}
	for _, q := range l.Used {
		out.Quotas = append(out.Quotas, wire.PushQuota{Product: q.Product, Bytes: q.Bytes, Used: q.Used})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}

func (a pushAPI) openStage(w http.ResponseWriter, r *web.Request, _ []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	var q wire.PushSpec
	if err := web.ReadJSON(r, web.MaxSpecBody, &q); err != nil {
		return err
	}
	spec := stage.Spec{
		Labels: stage.Labels{Product: q.Product, Version: q.Version, Branch: q.Branch, Class: q.Class, Comment: q.Comment},
		Key:    q.Key, Join: q.Join,
	}
	if b := q.CIJob; b != nil {
		spec.Build = stage.Build{CI: b.CI, URL: b.URL, Commit: b.Commit, Run: b.Run, Attempt: b.Attempt}
	}
	if err := web.FileUnder(&spec, r, c); err != nil {
		return err
	}
	st, again, err := a.stages.Open(r.Context(), c, spec)
	if err != nil {
		return web.RefusalProblem(err)
	}
	status := http.StatusCreated
	if again {
		status = http.StatusOK
	}
	w.Header().Set("Location", r.URL.EscapedPath()+"/"+st.ID)
	return web.WriteJSON(w, status, stateOf(st))
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

func (a pushAPI) stageState(w http.ResponseWriter, r *web.Request, args []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	st, err := a.stages.State(r.Context(), c, args[0])
	if err != nil {
		return web.RefusalProblem(err)
	}
	return web.WriteJSON(w, http.StatusOK, stateOf(st))
}

func (a pushAPI) abandonStage(w http.ResponseWriter, r *web.Request, args []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	if err := a.stages.Abandon(r.Context(), c, args[0]); err != nil {
		return web.RefusalProblem(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a pushAPI) checkEntries(w http.ResponseWriter, r *web.Request, args []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	var list []wire.PushEntry
	if err := web.ReadJSON(r, web.MaxCheckBody, &list); err != nil {
		return err
	}
	entries := make([]stage.Entry, len(list))
	for i, e := range list {
		ref, err := parseRef(e.SHA256)
		if err != nil || e.Size < 0 {
			return web.BadMember("an entry has no valid sha256 or size", strconv.Itoa(i), strconv.Quote(web.Clip(e.Path)))
		}
		entries[i] = stage.Entry{Path: e.Path, Size: e.Size, Ref: ref, As: e.As, ID: e.ID, ModTime: e.MTime}
	}
	verdicts, err := a.stages.Check(r.Context(), c, args[0], entries)
	if err != nil {
		return web.RefusalProblem(err)
	}
	return web.WriteJSON(w, http.StatusOK, verdictsOf(verdicts))
}

func verdictsOf(list []stage.Verdict) []wire.PushVerdict {
	out := make([]wire.PushVerdict, len(list))
	for i, v := range list {
		out[i] = wire.PushVerdict{Answer: v.Answer, Reason: v.Reason}
		if v.Base != (blob.Ref{}) {
			out[i].Base = v.Base.String()
		}
	}
	return out
}

// parseRef reads a SHA-256 in lower-case hex, as in a path.
func parseRef(s string) (blob.Ref, error) {
	ref, err := blob.ParseRef(s)
	if err != nil || hex.EncodeToString(ref[:]) != s {
		return ref, &web.Problem{Word: "query", Detail: "expected a SHA-256 of 64 lower-case hex digits"}
	}
	return ref, nil
}

// content prepares an upload of a content.
func (a pushAPI) content(r *web.Request, args []string) (c stage.Caller, ref blob.Ref, u *web.Upload, err error) {
	if c, err = r.Pusher(); err != nil {
		return
	}
	if ref, err = parseRef(args[1]); err != nil {
		return
	}
	repr, ok, err := web.DigestOf(r.Header, "Repr-Digest")
	if err == nil && ok && repr != ref {
		err = &web.Problem{Word: "digest", Detail: "Repr-Digest is not the SHA-256 of the address"}
	}
	if err != nil {
		return
	}
	u, err = a.uploads.Open(r)
	return
}

// plain returns the bytes of an upload of the content ref, which may be a recipe. The caller closes them.
func (a pushAPI) plain(r *web.Request, c stage.Caller, id string, ref blob.Ref, u *web.Upload) (io.ReadCloser, error) {
	text := r.Header.Get(wire.UploadBase)
	if text == "" {
		return io.NopCloser(u), nil
	}
	base, err := parseRef(text)
	if err != nil {
		return nil, err
	}
	body, err := a.bases.FromRecipe(r.Context(), c, id, ref, base, u)
	if err != nil {
		return nil, web.RefusalProblem(err)
	}
	return body, nil
}

func (a pushAPI) listBlocks(w http.ResponseWriter, r *web.Request, args []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	ref, err := parseRef(args[1])
	if err != nil {
		return err
	}
	list, err := a.bases.Blocks(r.Context(), c, args[0], ref)
	if err != nil {
		return web.RefusalProblem(err)
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, err = w.Write(list)
	return err
}

func (a pushAPI) putContent(w http.ResponseWriter, r *web.Request, args []string) error {
	c, ref, u, err := a.content(r, args)
	if err != nil {
		return err
	}
	defer u.Close()
	body, err := a.plain(r, c, args[0], ref, u)
	if err != nil {
		return err
	}
	defer body.Close()
	had, err := a.stages.Put(r.Context(), c, args[0], ref, body)
	if failed := u.Failure(); failed != nil && err != nil {
		return failed
	}
	if err != nil {
		return web.RefusalProblem(err)
	}
	web.Finish(w, r) // a content that had arrived is not read
	status := http.StatusCreated
	if had {
		status = http.StatusOK
	}
	return web.WriteJSON(w, status, struct{}{})
}

func (a pushAPI) putContents(w http.ResponseWriter, r *web.Request, args []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	u, err := a.uploads.Open(r)
	if err != nil {
		return err
	}
	defer u.Close()
	verdicts, err := a.receiveContents(r, c, args[0], u)
	if failed := u.Failure(); failed != nil && err != nil {
		return failed
	}
	if err != nil {
		return web.RefusalProblem(err)
	}
	web.Finish(w, r)
	return web.WriteJSON(w, http.StatusOK, verdictsOf(verdicts))
}

// receiveContents reads a body of several contents.
func (a pushAPI) receiveContents(r *web.Request, c stage.Caller, id string, u io.Reader) ([]stage.Verdict, error) {
	body := bufio.NewReader(u)
	announced, err := wire.ReadContents(body, stage.MaxSeveral)
	if errors.Is(err, wire.ErrContents) {
		err = &web.Problem{Word: "query", Detail: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	list := make([]stage.Entry, len(announced))
	for i, k := range announced {
		ref, err := parseRef(k.SHA256)
		if err != nil {
			return nil, err
		}
		list[i] = stage.Entry{Ref: ref, Size: k.Size}
	}
	return a.stages.PutSeveral(r.Context(), c, id, list, body)
}

func (a pushAPI) putPart(w http.ResponseWriter, r *web.Request, args []string) error {
	c, ref, u, err := a.content(r, args)
	if err != nil {
		return err
	}
	defer u.Close()
	n, err := strconv.ParseUint(args[2], 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != args[2] {
		return &web.Problem{Word: "query", Detail: "the address has no valid number of a part"}
	}
	total, err := strconv.ParseInt(r.Header.Get(wire.UploadLength), 10, 64)
	if err != nil || total < 0 {
		return &web.Problem{Word: "query", Detail: "the header field " + wire.UploadLength + " is missing or no number of bytes"}
	}
	body, err := a.plain(r, c, args[0], ref, u)
	if err != nil {
		return err
	}
	defer body.Close()
	err = a.stages.PutPart(r.Context(), c, args[0], ref, total, int(n), body)
	if failed := u.Failure(); failed != nil && err != nil {
		return failed
	}
	if err != nil {
		return web.RefusalProblem(err)
	}
	web.Finish(w, r) // a part that had arrived is not read
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a pushAPI) listParts(w http.ResponseWriter, r *web.Request, args []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	ref, err := parseRef(args[1])
	if err != nil {
		return err
	}
	p, err := a.stages.Parts(r.Context(), c, args[0], ref)
	if err != nil {
		return web.RefusalProblem(err)
	}
	return web.WriteJSON(w, http.StatusOK, wire.PushParts{Part: p.Part, Length: p.Length, Got: p.Got})
}

func (a pushAPI) commitStage(w http.ResponseWriter, r *web.Request, args []string) error {
	c, err := r.Pusher()
	if err != nil {
		return err
	}
	var q wire.PushCommit
	if err := web.ReadJSON(r, web.MaxSpecBody, &q); err != nil {
		return err
	}
	if q.Manifest != "" {
		if _, err := parseRef(q.Manifest); err != nil {
			return web.BadMember("the manifest is not valid", "manifest", "expected 64 lower-case hex digits")
		}
	}
	r.Allow(web.CommitTime)
	done, err := a.stages.Commit(r.Context(), c, args[0], stage.Commit{
		Files: q.Files, Manifest: q.Manifest, Partial: q.Partial, Anew: q.Anew, Needs: q.Needs,
	})
	r.Allow(0)
	if err != nil {
		return web.RefusalProblem(err)
	}
	out := wire.PushCommitted{
		Transaction: done.Transaction, Again: done.Again, Files: done.Files, KnownBytes: done.KnownBytes,
		NewBytes: done.NewBytes, OtherBytes: done.Other,
	}
	for _, f := range done.Flags {
		out.Flags = append(out.Flags, wire.PushFlag{Path: f.Path, Note: f.Note})
	}
	for _, f := range done.Refused {
		out.Refused = append(out.Refused, wire.PushRefused{Path: f.Path, Reason: f.Reason})
	}
	return web.WriteJSON(w, http.StatusOK, out)
}
