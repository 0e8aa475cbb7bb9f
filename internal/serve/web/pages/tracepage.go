package pages

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/serve/auth"
	"github.com/symdepot/symdepot/internal/serve/userquery"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// tracePages explain why a request finds a file or does not.
type tracePages struct {
	traces *web.Traces
}

func (p tracePages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "trace", web.Anyone, "Tools/Trace", p.tracePage).explainedIn("why"),
		longPage(http.MethodPost, "trace", web.Anyone, p.traceLogPage),
		page(http.MethodPost, "trace/ask", web.SeesAll, "", p.askPage),
	}
}

const (
	// askWait is how long the page waits for upstreams. A download goes on after that.
	askWait = 4 * time.Second
	// maxLogForm is the longest form with a log: each byte may take three.
	maxLogForm = 3*userquery.MaxLog + 1024
)

// traceView is what the page of a trace shows.
type traceView struct {
	Text   string // the request, or empty
	As     string // for whom it is traced; empty: the client itself
	MayAs  bool   // the client may trace for others
	Wrong  string // what is wrong with the text
	MaxLog int
	Trace  *tracedView
	Log    *logView
}

// tracedView is one explained request.
type tracedView struct {
	display.Trace
	Shown  string // "ok", "warn" or "bad"
	Word   string
	Object string // the page of the file that answers, or ""
	// MayAsk is set if the client may have the upstreams asked, and there are some that
	// the file may come from.
	MayAsk bool
	Steps  []stepView
}

// stepView is one step.
type stepView struct {
	display.TraceStep
	Shown, Word string
	Open        bool // the items are shown at once
	Items       []itemView
}

// itemView is a part of a step.
type itemView struct {
	display.TraceItem
	Shown, Word string
	// Addresses, or "".
	Object, Tx, Search, Job string
}

// logView is a list of explained requests.
type logView struct {
	Rows     []logRow
	Missing  int
	Complete bool
}

type logRow struct {
	display.Trace
	Shown, Word, Link string
}

// shownMark returns the class and the word with which a page shows a mark.
func shownMark(mark string) (class, word string) {
	switch mark {
	case display.MarkOK:
		return "ok", "yes"
	case display.MarkNo:
		return "bad", "no"
	case display.MarkWarn:
		return "warn", "note"
	}
	return "dim", ""
}

// traced describes a trace. mayAsk says whether the client may have the upstreams
// asked, all whether it sees all products.
func (f *frame) traced(l *display.Trace, mayAsk, all bool) *tracedView {
	v := &tracedView{Trace: *l}
	v.Shown, v.Word = shownMark(l.Mark())
	if l.SHA256 != "" {
		v.Object = f.To("file", l.SHA256)
	}
	for _, s := range l.Steps {
		step := stepView{TraceStep: s, Open: s.Step != "path" || s.Mark == display.MarkNo}
		step.Shown, step.Word = shownMark(s.Mark)
		for _, i := range s.Items {
			item := f.tracedItem(i)
			if i.Job > 0 && all {
				item.Job = f.To("jobs", i.Job)
			}
			step.Items = append(step.Items, item)
		}
		v.MayAsk = v.MayAsk || mayAsk && s.Step == "sources" && l.Mark() != display.MarkOK
		v.Steps = append(v.Steps, step)
	}
	return v
}

func (f *frame) tracedItem(i display.TraceItem) itemView {
	v := itemView{TraceItem: i}
	v.Shown, v.Word = shownMark(i.Mark)
	if i.SHA256 != "" && i.What != "removed" {
		v.Object = f.To("file", i.SHA256)
	}
	if i.Transaction > 0 {
		v.Tx = f.To("builds", i.Transaction)
	}
	if i.What == "other-id" {
		v.Search = f.Ask("search", "q", i.Name, "sort", "added")
	}
	return v
}

// tracePage answers GET trace.
func (p tracePages) tracePage(w *reply, r *web.Request, _ []string) error {
	q := r.URL.Query()
	t := p.traces
	if text := q.Get("q"); text != "" && q.Get("path") == "" {
		return seeOther(w, r, link(r.Base, "trace", nil, values("path", text, "as", q.Get("as")))) // as the search calls it
	}
	v := traceView{Text: strings.TrimSpace(q.Get("path")), As: q.Get("as"), MayAs: r.Rights.Admin, MaxLog: userquery.MaxLog}
	if v.Text == "" && q.Get("name") != "" {
		v.Text = strings.TrimSpace(q.Get("name") + " " + q.Get("id"))
	}
	if a, err := userquery.Parse(v.Text); err == nil && a.Secret {
		return seeOther(w, r, link(r.Base, "trace", nil, values("path", a.Path(), "as", v.As))) // an address that can be passed on
	}
	v.Text = auth.Redact(v.Text)
	f := w.frame(r, "Trace", nil)
	status := http.StatusOK
	if v.Text != "" || v.As != "" {
		l, err := t.Traced(r, url.Values{"path": {strings.TrimSpace(q.Get("path"))}, "name": {q.Get("name")}, "id": {q.Get("id")}, "as": {v.As}})
		if problem := web.AsProblem(err); problem != nil && problem.Word == "query" {
			v.Wrong, status = problem.Detail, http.StatusBadRequest
		} else if err != nil {
			return err
		} else {
			v.Trace = f.traced(&l, web.MayAskUpstreams(r) && v.As == "", r.Rights.All)
		}
	} else if _, err := t.Viewer(r, ""); err != nil {
		return err
	}
	if q.Get("done") == "asked" {
		f.Notice = "The upstreams were asked. A download that takes longer goes on."
	}
	f.D = v
	return w.print(r, status, "trace", f)
}

// traceLogPage answers POST trace: the form with a log.
func (p tracePages) traceLogPage(w *reply, r *web.Request, _ []string) error {
	form, err := readLongForm(r, maxLogForm)
	if err != nil {
		return err
	}
	f := w.frame(r, "Trace", nil)
	v := traceView{As: form.Get("as"), MayAs: r.Rights.Admin, MaxLog: userquery.MaxLog, Log: &logView{}}
	text := strings.ToValidUTF8(form.Get("log"), "\uFFFD")
	l, err := p.traces.TracedLog(r, v.As, text)
	if problem := web.AsProblem(err); problem != nil && problem.Word == "query" {
		v.Wrong, v.Log = problem.Detail, nil
		f.D = v
		return w.print(r, http.StatusBadRequest, "trace", f)
	}
	if err != nil {
		return err
	}
	v.Log.Complete = l.Complete
	for i := range l.Items {
		row := logRow{Trace: l.Items[i], Link: f.Ask("trace", "path", l.Items[i].Path, "as", v.As)}
		if row.Shown, row.Word = shownMark(row.Mark()); row.Shown != "ok" {
			v.Log.Missing++
		}
		v.Log.Rows = append(v.Log.Rows, row)
	}
	f.D = v
	return w.print(r, http.StatusOK, "trace", f)
}

// askPage answers POST trace/ask, and leads back to the trace.
func (p tracePages) askPage(w *reply, r *web.Request, _ []string) error {
	form, err := readForm(r)
	if err != nil {
		return err
	}
	path := form.Get("path")
	whole := r.Request
	ctx, cancel := context.WithTimeout(r.Context(), askWait)
	defer cancel()
	r.Request = r.WithContext(ctx)
	_, err = p.traces.AskNow(r, url.Values{"path": {path}})
	r.Request = whole
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return seeOther(w, r, link(r.Base, "trace", nil, values("path", path, "done", "asked")))
}
