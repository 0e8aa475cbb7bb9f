package pages

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/serve/intake"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// publishPages are the pages by which people add files.
type publishPages struct {
	stages   web.Stages
	forms    *intake.Handler // nil: there is no page for it
	catalog  *catalog.Catalog
	policies web.Policies
}

func (p publishPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "publish", web.MayPush, "Builds/Publish", p.askToPublish).explainedIn("web"),
		longPage(http.MethodPost, "publish", web.MayPush, p.publishForm),
		longPage(http.MethodPost, "publish/decide", web.MayPush, p.decidePublish),
	}
}

// publishView is what the page for publishing shows.
type publishView struct {
	Stage    *stage.State // files that have arrived, some of which were refused; or nil
	Refused  []stage.Refused
	LeftOut  string
	Decide   string // the address of the form that commits or abandons the stage
	Products []string
	// Any: every product can be written; Products are then those that there are.
	Any bool
	// The labels to begin with; those of the credentials cannot be changed.
	Product, Version, Branch, Class                string
	FixedProduct, FixedVersion, FixedBranch, Fixed bool
	Classes                                        []string
	Limits                                         stage.Limits
	MaxFile, MaxBytes                              string
}

// publisher returns the caller of a form, who may push, if the server takes forms.
func publisher(r *web.Request, forms *intake.Handler) (stage.Caller, error) {
	c, err := r.Pusher()
	if err == nil && forms == nil {
		err = &web.Problem{Word: "not-found", Detail: "this server takes no files from forms"}
	}
	return c, err
}

// askToPublish answers GET publish: the form, or with a stage in the query its refused
// files.
func (p publishPages) askToPublish(w *reply, r *web.Request, _ []string) error {
	c, err := publisher(r, p.forms)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	id := q.Get("stage")
	if id == "" {
		return p.showPublish(w, r, c, http.StatusOK, nil)
	}
	st, err := p.stages.State(r.Context(), c, id)
	if err != nil {
		return web.RefusalProblem(err)
	}
	if st.Phase == stage.PhaseCommitted {
		return acted(w, r, strconv.FormatInt(st.Transaction, 10), "published")
	}
	f := w.frame(r, "Publish files", nil)
	v := publishView{Stage: &st, Decide: f.To("publish", "decide")}
	if v.Refused, err = p.stages.Refused(r.Context(), c, id); err != nil {
		return web.RefusalProblem(err)
	}
	if left, err := strconv.ParseUint(q.Get("left"), 10, 31); err == nil {
		v.LeftOut = leftOut(int64(left))
	}
	f.D = v
	return w.print(r, http.StatusOK, "publish", f)
}

// leftOut says how many members of archives were left out.
func leftOut(n int64) string {
	if n == 1 {
		return "One file in the archives is no symbol file and was left out."
	}
	return term.Count(n, "file") + " in the archives are no symbol files and were left out."
}

// showPublish shows the form, after the files that were refused last time.
func (p publishPages) showPublish(w *reply, r *web.Request, c stage.Caller, status int, wrong []stage.Refused) error {
	limits, err := p.stages.Limits(r.Context(), c)
	if err != nil {
		return web.RefusalProblem(err)
	}
	u, q := &r.Identity.Uploads, r.URL.Query()
	v := publishView{
		Refused: wrong, Limits: limits, MaxFile: strconv.FormatInt(limits.MaxFile, 10), MaxBytes: strconv.FormatInt(limits.MaxBytes, 10),
		Product: q.Get("p"), Version: q.Get("v"), Branch: u.Branch, Class: u.Class, FixedVersion: u.Version != "",
		FixedBranch: u.Branch != "", Fixed: u.Class != "",
	}
	if v.Product == "" {
		v.Product = u.Product
	}
	if v.FixedVersion {
		v.Version = u.Version
	}
	if v.Any = r.Rights.WriteAll; v.Any {
		known, _, err := p.catalog.Products(r.Context(), r.Scope(), "newest", "", maxOffered)
		if err != nil {
			return err
		}
		for _, x := range known {
			v.Products = append(v.Products, x.Name)
		}
	} else {
		v.Products = r.Rights.WriteProducts
		if v.FixedProduct = len(v.Products) == 1; v.FixedProduct {
			v.Product = v.Products[0]
		}
	}
	v.Products = slices.DeleteFunc(slices.Clone(v.Products), func(s string) bool { return v.Any && s == "" })
	if v.Classes, err = classes(r.Context(), p.policies); err != nil {
		return err
	}
	f := w.frame(r, "Publish files", v)
	if n, err := strconv.ParseUint(q.Get("build"), 10, 63); err == nil {
		f.Notice = "The files were published as build " + strconv.FormatUint(n, 10) + "."
	} else {
		f.Notice = notices[q.Get("done")]
	}
	return w.print(r, status, "publish", f)
}

// maxOffered is how many products are offered to those who may write all.
const maxOffered = 200

// nextSteps say what to do about a refusal, by the word of the problem.
var nextSteps = map[string]string{
	"quota": "Nothing was published. " +
		"Remove builds that nobody needs, or ask an administrator to raise the quota of the product (push.quotas).",
	"too-large": "Nothing was published. " +
		"Send fewer files at once, or ask an administrator to raise the limit of a file (push.max_file).",
	"no-space":  "Nothing was published. An administrator must free space, for instance with symdepot gc.",
	"busy":      "Nothing was published. Send the files again in a minute.",
	"timeout":   "Nothing was published. symdepot push continues after an interruption.",
	"forbidden": "Nothing was published.", "query": "Nothing was published.", "conflict": "Nothing was published.",
	"rate": "Nothing was published.",
}

// unpublished adds the next step to a problem of publishing.
func unpublished(err error) error {
	if p := web.AsProblem(web.RefusalProblem(err)); p != nil {
		out := *p
		out.Next = nextSteps[p.Word]
		return &out
	}
	return err
}

// publish answers POST publish: a form with files becomes a transaction, or nothing does.
func (p publishPages) publishForm(w *reply, r *web.Request, _ []string) error {
	c, err := publisher(r, p.forms)
	if err != nil {
		return err
	}
	kind, param, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" || param["boundary"] == "" {
		return &web.Problem{Word: "query", Detail: "a form with files is expected"}
	}
	limits, err := p.stages.Limits(r.Context(), c)
	if err != nil {
		return web.RefusalProblem(err)
	}
	if r.ContentLength > limits.MaxBytes+web.FormLimit {
		return unpublished(&web.Problem{
			Word:   "too-large",
			Detail: "the files have " + term.Size(r.ContentLength) + ", and the limit is " + term.Size(limits.MaxBytes),
		})
	}
	t, err := p.forms.TakeForm(r.Context(), intake.Form{
		Caller: c, Body: r.Body, Boundary: param["boundary"], Memory: r.Memory, Received: func() { r.Allow(web.CommitTime) },
		Spec: func(fields url.Values) (stage.Spec, error) {
			text := func(name string) string { return strings.TrimSpace(fields.Get(name)) }
			spec := stage.Spec{Labels: stage.Labels{
				Product: text("product"), Version: text("version"), Branch: text("branch"), Class: text("class"),
				Comment: strings.ReplaceAll(text("comment"), "\r\n", "\n"),
			}}
			return spec, web.FileUnder(&spec, r, c)
		},
	})
	if err != nil {
		return unpublished(err)
	}
	left := ""
	if t.LeftOut > 0 {
		left = strconv.Itoa(t.LeftOut)
	}
	switch {
	case t.Kept == 0:
		wrong, err := p.stages.Refused(r.Context(), c, t.Stage)
		if err == nil {
			err = p.stages.Abandon(r.Context(), c, t.Stage)
		}
		if err != nil {
			return web.RefusalProblem(err)
		}
		return p.showPublish(w, r, c, http.StatusUnprocessableEntity, wrong)
	case t.Refused > 0:
		return seeOther(w, r, link(r.Base, "publish", nil, values("stage", t.Stage, "left", left)))
	}
	if err := p.commitForm(w, r, c, t.Stage, left, t.Accepted); err != nil {
		// The request may be over. What cannot be abandoned expires.
		_ = p.stages.Abandon(context.WithoutCancel(r.Context()), c, t.Stage)
		return err
	}
	return nil
}

// commitForm makes the transaction of a stage, without its refused files, and confirms the
// accepted ones.
func (p publishPages) commitForm(w *reply, r *web.Request, c stage.Caller, id, left string, accepted []stage.Receipt) error {
	st, err := p.stages.State(r.Context(), c, id)
	if err != nil {
		return web.RefusalProblem(err)
	}
	r.Allow(web.CommitTime)
	done, err := p.stages.Commit(r.Context(), c, id, stage.Commit{Partial: true, Accepted: accepted})
	r.Allow(0)
	if err != nil {
		return unpublished(err)
	}
	word := "published"
	if done.Again {
		word = "again"
	}
	number := strconv.FormatInt(done.Transaction, 10)
	if !c.Read(st.Product) { // its page would not be found
		return seeOther(w, r, link(r.Base, "publish", nil, values("build", number)))
	}
	return seeOther(w, r, link(r.Base, "builds", []string{number}, values("done", word, "left", left)))
}

// decide answers POST publish/decide: the files of a stage that were not refused are
// published, or none is.
func (p publishPages) decidePublish(w *reply, r *web.Request, _ []string) error {
	c, err := publisher(r, p.forms)
	if err != nil {
		return err
	}
	form, err := readForm(r)
	if err != nil {
		return err
	}
	switch id := form.Get("stage"); form.Get("act") {
	case "publish":
		return p.commitForm(w, r, c, id, "", nil)
	case "abandon":
		if err := p.stages.Abandon(r.Context(), c, id); err != nil {
			return web.RefusalProblem(err)
		}
		return seeOther(w, r, link(r.Base, "publish", nil, values("done", "abandoned")))
	}
	return &web.Problem{Word: "query", Detail: "the form is not one of the page for publishing"}
}
