package pages

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/depot/catalog"
	"github.com/symdepot/symdepot/internal/depot/stacks"
	"github.com/symdepot/symdepot/internal/derive/stacktext"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// symbolicationPages look addresses and functions up.
type symbolicationPages struct {
	catalog       *catalog.Catalog
	symbolication *web.Symbolication
}

func (p symbolicationPages) routes() []pageRoute {
	return []pageRoute{
		page(http.MethodGet, "symbolicate", web.Anyone, "Tools/Symbolicate", p.askForStack).explainedIn("symbolication"),
		longPage(http.MethodPost, "symbolicate", web.Anyone, p.fillStack),
		longPage(http.MethodGet, "file/*/functions", web.Anyone, p.listFunctions),
	}
}

const (
	// maxStackForm is the longest form with a stack: each byte may take three.
	maxStackForm = 3*stacktext.MaxBytes + web.FormLimit
	// shownFunctions is how many functions a page lists.
	shownFunctions = 100
	// choiceField begins the names of the fields with the chosen builds of modules.
	choiceField = "build:"
)

// symbolicateView is what the page for addresses and stacks shows.
type symbolicateView struct {
	Off                        bool
	Name, ID, Addresses, Stack string
	Wrong                      string // what is wrong with them
	Modules                    []stackModule
	Asks                       bool // a build must be chosen
	Unplaced                   int
	Lines                      []stackLine
	Found                      int    // lines with functions
	Text                       string // all lines with their functions
}

// stackModule is a module of a stack.
type stackModule struct {
	Name, Mark, Says string
	Link             string // the page of its file, or else the trace; may be ""
	Field            string // of the chosen build
	Builds           []stackBuild
}

type stackBuild struct {
	Value, Label string
	Chosen       bool
}

// stackLine is a line with the functions at its address.
type stackLine struct {
	Text   string
	Frames []stackFrame
}

type stackFrame struct {
	stacks.Frame
	Link      string // the functions of its file, or ""
	SourceRow string // the line of its source file, or ""
}

// askForStack answers GET symbolicate.
func (p symbolicationPages) askForStack(w *reply, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	q := r.URL.Query()
	return w.show(r, http.StatusOK, "symbolicate", "Symbolicate", symbolicateView{
		Off: p.symbolication.Off(), Name: web.Clip(q.Get("name")), ID: web.Clip(q.Get("id")), Addresses: web.Clip(q.Get("addresses")),
	})
}

// fillStack answers POST symbolicate: a form with a stack, or with addresses of a file.
func (p symbolicationPages) fillStack(w *reply, r *web.Request, _ []string) error {
	if err := r.MayRead(); err != nil {
		return err
	}
	form, err := readLongForm(r, maxStackForm)
	if err != nil {
		return err
	}
	v := symbolicateView{
		Off: p.symbolication.Off(), Name: form.Get("name"), ID: form.Get("id"), Addresses: form.Get("addresses"), Stack: form.Get("stack"),
	}
	f := w.frame(r, "Symbolicate", nil)
	text, err := web.ReadStack(v.Stack, v.Name, v.ID, v.Addresses)
	if problem := web.AsProblem(err); problem != nil {
		v.Wrong = problem.Detail
		f.D = v
		return w.print(r, problem.Status(), "symbolicate", f)
	}
	if err != nil {
		return err
	}
	a, err := p.symbolication.Fill(r, text, chosenBuilds(form))
	if err != nil {
		return err
	}
	v.fill(f, &a, form)
	f.D = v
	return w.print(r, http.StatusOK, "symbolicate", f)
}

// chosenBuilds returns the content that the form names for each module.
func chosenBuilds(form url.Values) map[string]blob.Ref {
	chosen := map[string]blob.Ref{}
	for field := range form {
		name, ok := strings.CutPrefix(field, choiceField)
		if ref, err := blob.ParseRef(form.Get(field)); ok && err == nil {
			chosen[name] = ref
		}
	}
	return chosen
}

// stateTexts say what the states of modules mean, each with its mark.
var stateTexts = map[stacks.State][2]string{
	stacks.Found:    {"ok", "found"},
	stacks.Choose:   {"warn", "several builds have a file of this name: choose one"},
	stacks.Missing:  {"bad", "no file"},
	stacks.Pending:  {"warn", "its functions are being read: ask again in a few seconds"},
	stacks.Unusable: {"bad", "its functions cannot be read"},
}

// fill sets what the answer says.
func (v *symbolicateView) fill(f *frame, a *stacks.Answer, form url.Values) {
	v.Unplaced, v.Text = a.Unplaced, a.Text()
	for i := range a.Modules {
		m := &a.Modules[i]
		says := stateTexts[m.State]
		row := stackModule{Name: m.Name, Mark: says[0], Says: says[1], Field: choiceField + m.Name}
		switch {
		case m.File != nil:
			row.Link = f.To("file", m.File.Ref.String())
		case m.State == stacks.Missing && m.ID != "":
			row.Link = f.Ask("trace", "name", m.Name, "id", m.ID)
		}
		for _, b := range m.Builds {
			label := b.Name + " · " + b.Added.UTC().Format("2006-01-02 15:04") + " · " + b.ID
			if b.Product != "" {
				label = b.Product + " · " + label
			}
			row.Builds = append(row.Builds, stackBuild{b.Ref.String(), plainName(label), form.Get(row.Field) == b.Ref.String()})
		}
		v.Asks = v.Asks || m.State == stacks.Choose
		v.Modules = append(v.Modules, row)
	}
	for _, l := range a.Lines {
		row := stackLine{Text: l.Text}
		if len(l.Frames) > 0 {
			v.Found++
		}
		for _, frame := range l.Frames {
			s := stackFrame{Frame: frame}
			if file := a.Modules[l.Module].File; file != nil {
				s.Link = link(f.Base, "file", []string{file.Ref.String(), "functions"}, values("q", frame.Function))
				if frame.Source != "" {
					s.SourceRow = sourceLine(f.Base, file.Ref, frame.File, frame.Line)
				}
			}
			row.Frames = append(row.Frames, s)
		}
		v.Lines = append(v.Lines, row)
	}
}

// sourceLine is the address of a line of a source file that a content names.
func sourceLine(base string, ref blob.Ref, path string, line uint32) string {
	at := link(base, "file", []string{ref.String(), "source"}, values("path", path))
	if line > 0 {
		at += "#L" + strconv.FormatUint(uint64(line), 10)
	}
	return at
}

// functionsView is what the page of the functions of a file shows.
type functionsView struct {
	Name, Object string // of the file, and the address of its page
	Text         string // that their names contain
	Rows         []web.Function
	Pages        pages
	Wait         string // the functions are not there yet
}

// listFunctions answers GET file/SHA256/functions.
func (p symbolicationPages) listFunctions(w *reply, r *web.Request, args []string) error {
	q := r.URL.Query()
	_, after, err := web.ReadPage(q, "functions")
	if err != nil {
		return err
	}
	ref, o, err := visible(p.catalog, r, args[0])
	if err != nil {
		return err
	}
	f := w.frame(r, "Functions of "+plainName(o.Object.Name), nil)
	v := functionsView{Name: o.Object.Name, Object: f.To("file", ref.String()), Text: q.Get("q")}
	list, next, err := p.symbolication.Functions(r, args[0], v.Text, shownFunctions, after)
	status := http.StatusOK
	switch problem := web.AsProblem(err); {
	case err == nil:
	case problem == nil:
		return err
	case problem.Word == "busy":
		v.Wait, status = problem.Detail, problem.Status()
		w.Header().Set("Retry-After", "5")
	case problem.Word != "not-found": // a file that can be seen has none
		return err
	}
	v.Rows, v.Pages = list, f.pager("functions", next)
	f.D = v
	return w.print(r, status, "functions", f)
}
