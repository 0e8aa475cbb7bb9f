package display

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/symfile"
)

// NewTrace describes a trace.
func NewTrace(q Traced, t *why.Trace) Trace {
	l := Trace{Asked: q.Asked, Path: q.Path, Verdict: string(t.Verdict), Status: t.Status}
	for name, values := range t.Headers {
		if l.Headers == nil {
			l.Headers = map[string]string{}
		}
		l.Headers[name] = strings.Join(values, ", ")
	}
	if f := t.File; f != nil && !f.Served && f.Size >= 0 {
		l.SHA256 = f.Ref.String()
	}
	if l.Mark() == MarkOK {
		l.Says = foundText(t)
		l.Remedy, l.Command = foundRemedy(t.Verdict), get(strings.TrimPrefix(q.Path, "/"))
	} else {
		c := causeOf(t)
		l.Cause, l.Says = c.word, missText(t, c)
		l.Remedy, l.Command = c.remedy(q, t)
		switch {
		case t.Verdict == why.VerdictSources:
			l.Remedy, l.Command = "Ask for it: the download is kept here.", get(strings.TrimPrefix(q.Path, "/"))
		case t.Verdict == why.VerdictAbsent && t.NoMaker && c.word != causeForm:
			l.Remedy += " SymCache files are made by a transcoder: none is configured here, and no worker with one is connected."
		}
		if q.Public {
			l.Remedy += " A trace looks for whole files; public forms are not traced: ask for the file itself."
		}
	}
	l.Steps = append(l.Steps, pathStep(q, t))
	if q.Who != "" {
		l.Steps = append(l.Steps, TraceStep{"you", MarkInfo, q.Who, nil})
	}
	for _, s := range []*TraceStep{lookupStep(t), nearStep(t), folderStep(t), memoryStep(t), sourceStep(t), coldStep(t), formStep(t)} {
		if s != nil {
			l.Steps = append(l.Steps, *s)
		}
	}
	l.Steps = append(l.Steps, answerStep(&l))
	for i := range l.Steps {
		if l.Steps[i].Items == nil {
			l.Steps[i].Items = []TraceItem{} // a list for programs
		}
	}
	return l
}

// foundText says in one sentence what answers the request.
func foundText(t *why.Trace) string {
	switch t.Verdict {
	case why.VerdictRedirect:
		return "Found, 302: the client is sent to " + term.Printable(t.Redirect) + ", the path with the debug id."
	case why.VerdictMakes:
		return "Found, 200, after a wait: the file is made when it is asked for."
	}
	return "Found, " + strconv.Itoa(t.Status) + ": " + fileText(t.File) + "."
}

// foundRemedy says what to do about a request that finds a file.
func foundRemedy(v why.Verdict) string {
	if v == why.VerdictMakes {
		return "Ask for it: the request waits until it is made."
	}
	return "If the debugger still does not find it, it asks another server or a stale local copy: " +
		"empty its local store and compare the URLs in its log."
}

// missText says in one sentence why nothing that is here answers the request.
func missText(t *why.Trace, c *cause) string {
	switch t.Verdict {
	case why.VerdictSources:
		names := strings.Join(askedNames(t), ", ")
		switch {
		case t.Status == 200:
			return "Found, 200: a request would ask " + names + " first."
		case c.upstream:
			return "Not here yet: a request would ask " + names + "."
		}
		return "Not here: " + c.text(t) + ". A request would ask " + names + "."
	case why.VerdictFails:
		return fmt.Sprintf("No answer, %d: %s.", t.Status, c.text(t))
	}
	return "Not found, 404: " + c.text(t) + "."
}

// fileText describes the file that answers.
func fileText(f *why.TracedFile) string {
	text := term.Printable(f.Object.Name)
	if f.Size >= 0 {
		text += ", " + term.Size(f.Size)
	}
	switch {
	case f.Made:
		text += ", made of other files of its module"
	case f.InPlace && f.Folder == "":
		text += ", in place, in a watched folder of another server"
	case f.InPlace:
		text += ", in place, in the watched folder " + term.Printable(symfile.BaseName(f.Folder))
	case f.Served:
		text += ", in a served folder"
		if f.Folder != "" {
			text += ", " + term.Printable(symfile.BaseName(f.Folder))
		}
	case f.Upstream != "":
		text += ", downloaded from " + term.Printable(f.Upstream) + " on " + day(f.Added)
	case f.Number > 0:
		text += ", build " + strconv.FormatInt(f.Number, 10) + " of " + day(f.Added)
	}
	if f.Substitute {
		text += "; it has the id, but another name"
	}
	return text
}

func askedNames(t *why.Trace) (names []string) {
	for i := range t.Sources {
		if s := &t.Sources[i]; s.Asked() {
			names = append(names, term.Printable(s.Name))
		}
	}
	return names
}

// answerStep is the last step: the status, and the header fields that matter.
func answerStep(l *Trace) TraceStep {
	s := TraceStep{Step: "answer", Mark: l.Mark()}
	if s.Says = strconv.Itoa(l.Status) + "."; l.Status == 0 {
		s.Says = "200 or 404: the upstreams decide."
	}
	for _, name := range slices.Sorted(maps.Keys(l.Headers)) {
		s.Items = append(s.Items, TraceItem{Mark: MarkInfo, What: "header", Name: name, Says: term.Printable(name + ": " + l.Headers[name])})
	}
	return s
}
