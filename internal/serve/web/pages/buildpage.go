package pages

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/depot/lifecycle"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/symfile"
)

// txPages are the pages about transactions.
type txPages struct {
	acts      *web.Transactions
	depot     web.Depot
	policies  web.Policies
	history   web.History
	catalog   *catalog.Catalog
	computing *web.Gate
	now       func() time.Time
}

func (p txPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "builds", web.Anyone, "Builds/Builds", p.listTx).explainedIn("kept"),
		page(http.MethodGet, "builds/*", web.Anyone, "", p.showTx),
		page(http.MethodGet, "builds/*/remove", web.MayChange, "", p.confirmRemove),
		page(http.MethodPost, "builds/*/*", web.MayChange, "", p.actTx),
	}
}

// txRow is a transaction in a table.
type txRow struct {
	depot.Transaction
	Link                     string
	InProduct, InVersion, By template.HTML // its product and version, and whose it is: links to their pages
}

func (f *frame) txRow(t depot.Transaction) txRow {
	row := txRow{t, f.To("builds", t.Number), productHTML(t.Product), versionHTML(t.Version), f.PersonLink(t.Who)}
	if t.Removed.IsZero() { // the pages are about what is there
		row.InProduct, row.InVersion = f.ProductLink(t.Product), f.VersionLink(t.Product, t.Version)
	}
	return row
}

// txsView is what the list of transactions shows.
type txsView struct {
	Rows                         []txRow
	Product, Version, Who, Since string
	Removed                      bool
	Pages                        pages
}

// listTx answers GET builds.
func (p txPages) listTx(w *reply, r *web.Request, _ []string) error {
	q := r.URL.Query()
	limit, after, err := web.ReadPage(q, "builds")
	if err != nil {
		return err
	}
	lf := depot.ListFilter{Version: q.Get("version"), Who: q.Get("who"), Limit: limit + 1, Removed: q.Get("removed") != ""}
	if text := q.Get("since"); text != "" {
		if lf.Since, err = time.Parse(time.DateOnly, text); err != nil {
			return web.BadParameter("since", "a day is expected, such as 2026-11-23")
		}
	}
	if product := q.Get("product"); product != "" {
		lf.Product = &product
	}
	if after != "" {
		if lf.Before, err = strconv.ParseInt(after, 10, 64); err != nil || lf.Before <= 0 {
			return &web.Problem{Word: "cursor"}
		}
	}
	list, err := p.depot.List(r.Context(), r.Scope(), lf)
	if err != nil {
		return err
	}
	f := w.frame(r, "Builds", nil)
	v := txsView{Product: q.Get("product"), Version: lf.Version, Who: lf.Who, Since: q.Get("since"), Removed: lf.Removed}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = strconv.FormatInt(list[limit-1].Number, 10)
	}
	for _, t := range list {
		v.Rows = append(v.Rows, f.txRow(t))
	}
	v.Pages = f.pager("builds", next)
	f.D = v
	return w.print(r, http.StatusOK, "builds", f)
}

// txView is what the page of a transaction shows.
type txView struct {
	txRow
	Holds      []lifecycle.Hold
	Promotions []lifecycle.Promotion
	Removal    *lifecycle.Removal
	Needs      []txLink
	Build      *wire.PushCIJob
	BuildURL   string // of the build, if it is a web address
	Table      fileTable
	MayChange  bool
	MayAdmin   bool
	Classes    []string // to which it can be promoted
	Bars       bool     // one of them demands a coverage
	Coverage   *wire.BuildCoverage
	Now        time.Time
}

// fileTable is a table of files.
type fileTable struct {
	Caption    string
	Head       []column
	Rows       []fileRow
	Name, Kind string // the filters
	Kinds      filter
	Pages      pages
}

type fileRow struct {
	Name, Link, Kind, Arch, ID, Path, Archive string
	Features                                  []string
	Size                                      int64
}

func (f *frame) fileRow(x depot.TxFile) fileRow {
	return fileRow{
		Name: x.Object.Name, Link: f.To("file", x.Ref.String()), Kind: x.Object.Kind.String(), Arch: x.Arch, ID: display.ObjectID(x.Object),
		Path: x.Path, Archive: x.Archive, Features: badgesOf(x.Object, x.Features), Size: x.Size,
	}
}

// fileQuery reads the parameters of a list of files.
func fileQuery(r *web.Request, list string, sort catalog.ObjectSort) (q catalog.FileQuery, err error) {
	v := r.URL.Query()
	q = catalog.FileQuery{Name: symfile.Fold(v.Get("name")), Sort: catalog.ObjectSort(v.Get("sort"))}
	if q.Sort == "" {
		q.Sort = sort
	}
	if k := v.Get("kind"); k != "" {
		if q.Kind = symfile.ParseKind(k); q.Kind == symfile.KindUnknown {
			return q, web.BadParameter("kind", "expected is one of "+strings.Join(kindWords, ", "))
		}
	}
	if q.Name != "" && !strings.ContainsAny(q.Name, "*?") {
		q.Name = "*" + q.Name + "*"
	}
	q.Limit, q.After, err = web.ReadPage(v, list)
	return q, err
}

// files makes the table of a page of files.
func (f *frame) files(caption, list string, q catalog.FileQuery, page catalog.FilePage) fileTable {
	t := fileTable{Caption: plainName(caption), Name: f.query.Get("name"), Kind: f.query.Get("kind"), Pages: f.pager(list, page.Next)}
	t.Kinds = choices("Kind", "kind", t.Kind, kindWords...)
	t.Head = f.columns(string(q.Sort), "size", "Name|name", "Kind", "Arch", "Id", "Has", "Size|size|num", "Path")
	for _, x := range page.Files {
		t.Rows = append(t.Rows, f.fileRow(x))
	}
	return t
}

// showTx answers GET builds/N.
func (p txPages) showTx(w *reply, r *web.Request, args []string) error {
	t, err := p.acts.Find(r, args[0])
	if err != nil {
		return err
	}
	q, err := fileQuery(r, "files", catalog.SortName)
	if err != nil {
		return err
	}
	ctx, k := r.Context(), p.history
	f := w.frame(r, "Build "+args[0], nil)
	cover := lifecycle.CoverageOf(t.Labels)
	t.Labels = lifecycle.OtherLabels(t.Labels)
	v := txView{txRow: f.txRow(t), Now: p.now(), Coverage: cover}
	if v.Holds, err = k.Holds(ctx, t.Number); err != nil {
		return err
	}
	if v.Promotions, err = k.Promotions(ctx, t.Number); err != nil {
		return err
	}
	if !t.Removed.IsZero() {
		switch x, err := k.Why(ctx, t.Number); {
		case err == nil:
			v.Removal = &x
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
	needs, err := k.Needs(ctx, t.Number)
	if err != nil {
		return err
	}
	for _, n := range p.acts.Visible(r, needs) {
		v.Needs = append(v.Needs, txLink{n, f.To("builds", n)})
	}
	if len(t.Build) > 0 {
		b := new(wire.PushCIJob)
		if json.Unmarshal(t.Build, b) == nil {
			v.Build = b
			if strings.HasPrefix(b.URL, "https://") || strings.HasPrefix(b.URL, "http://") {
				v.BuildURL = b.URL
			}
		}
	}
	page, err := p.catalog.Files(ctx, r.Scope(), t.Number, q)
	if err != nil {
		return badQuery(err)
	}
	v.Table = f.files("Files of build "+args[0], "files", q, page)
	if _, err := p.acts.Writable(r, args[0]); err == nil {
		v.MayChange, v.MayAdmin = true, r.Rights.Admin
		if v.Classes, err = classes(r.Context(), p.policies); err != nil {
			return err
		}
		if v.Bars, err = demandsCoverage(r.Context(), p.policies); err != nil {
			return err
		}
		v.Classes = slices.DeleteFunc(v.Classes, func(class string) bool { return class == t.Class })
	}
	f.Notice = notices[r.URL.Query().Get("done")]
	if left, err := strconv.ParseUint(r.URL.Query().Get("left"), 10, 31); err == nil && f.Notice != "" {
		f.Notice += " " + leftOut(int64(left))
	}
	f.D = v
	return w.print(r, http.StatusOK, "build", f)
}

// notices are what acts say after they are done, by a word in the query.
var notices = map[string]string{
	"published": "The files were published.", "abandoned": "Nothing was published: the files were dropped.",
	"again":    "This build has the same labels and files already: nothing was added.",
	"promoted": "The build was promoted.", "held": "The build is on hold.",
	"released": "The hold was removed.", "restored": "The build was restored.",
	"removed": "The build was removed.", "purged": "The build was purged.",
	"commented": "The comment was changed.", "revoked": "It was revoked.",
	"applied": "The plan was applied.", "policy": "The policy was saved. Nothing was removed.",
	"cancelled": "The job was cancelled.", "retried": "The job is tried again.",
	"forget": "The misses of the upstream were forgotten.", "ended": "The sign-in was ended.",
	"probe":  "The upstream was asked, and answered.",
	"failed": "The upstream was asked, and did not answer: see its last error.",
	"reset":  "The circuit breaker was closed.",
	"let":    "The program may log in. You can close this page.",
	"denied": "The program may not log in. You can close this page.",
}

// classes lists the classes of the retention policy.
func classes(ctx context.Context, of web.Policies) ([]string, error) {
	policy, err := of.Policy(ctx)
	if err != nil || policy.Policy == nil {
		return nil, err
	}
	var list []string
	for _, c := range policy.Policy.Classes {
		list = append(list, c.Name)
	}
	return list, nil
}

// demandsCoverage reports whether a class of the retention policy demands a coverage.
func demandsCoverage(ctx context.Context, of web.Policies) (bool, error) {
	policy, err := of.Policy(ctx)
	if err != nil || policy.Policy == nil {
		return false, err
	}
	return slices.ContainsFunc(policy.Policy.Classes, func(c retention.Class) bool { return c.Coverage > 0 }), nil
}

// actTx answers POST builds/N/WORD: an act on a transaction.
func (p txPages) actTx(w *reply, r *web.Request, args []string) error {
	t, err := p.acts.Writable(r, args[0])
	if err != nil {
		return err
	}
	form, err := readForm(r)
	if err != nil {
		return err
	}
	var done string
	var q wire.TransactionChange
	switch args[1] {
	case "promote":
		done, q.Class, q.Force = "promoted", form.Get("class"), form.Get("force") != ""
	case "hold":
		done, q.Hold = "held", &wire.HoldSpec{Reason: form.Get("reason"), Until: form.Get("until")}
	case "release":
		name := form.Get("name")
		done, q.Unhold = "released", &name
	case "comment":
		text := strings.ReplaceAll(form.Get("comment"), "\r\n", "\n")
		done, q.Comment = "commented", &text
	case "restore":
		if _, err := p.acts.Undo(r, t); err != nil {
			return web.RetentionProblem(err)
		}
		return acted(w, r, args[0], "restored")
	case "remove":
		if form.Get("plan") == "" {
			return &web.Problem{Word: "query", Detail: "the plan of the removal is missing"}
		}
		if _, err := p.acts.Remove(r, t, form.Get("plan")); err != nil {
			return err
		}
		return acted(w, r, args[0], "removed")
	default:
		return &web.Problem{Word: "not-found"}
	}
	if _, err := p.acts.Change(r, t, &q); err != nil {
		return err
	}
	return acted(w, r, args[0], done)
}

// acted leads back to the page of a transaction, which says what was done.
func acted(w *reply, r *web.Request, number, done string) error {
	return seeOther(w, r, link(r.Base, "builds", []string{number}, values("done", done)))
}

// confirmView is what the page shows before a transaction is removed.
type confirmView struct {
	txRow
	Plan    display.RemovePlan
	Trash   time.Duration // for which it can be restored
	Holders []txLink
}

// confirmRemove answers GET builds/N/remove: what a removal would free.
func (p txPages) confirmRemove(w *reply, r *web.Request, args []string) error {
	t, err := p.acts.Writable(r, args[0])
	if err != nil {
		return err
	}
	done, err := p.computing.Enter(r)
	if err != nil {
		return err
	}
	defer done()
	plan, err := p.acts.RemovePlan(r, t)
	if err != nil {
		return web.RetentionProblem(err)
	}
	done()
	f := w.frame(r, "Remove build "+args[0], nil)
	v := confirmView{txRow: f.txRow(t), Plan: plan, Trash: time.Duration(plan.Trash) * time.Second}
	for _, n := range plan.Holders {
		v.Holders = append(v.Holders, txLink{n, f.To("builds", n)})
	}
	f.D = v
	return w.print(r, http.StatusOK, "remove", f)
}
