package display

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// formNames are the forms in which files are wanted.
var formNames = map[layout.Form]string{
	layout.FormFile:     "the file itself",
	layout.FormCabinet:  "a cabinet of the file",
	layout.FormPointer:  "a pointer to the file",
	layout.FormSymCache: "a SymCache file",
	layout.FormSection:  "one section of the file",
	layout.FormSource:   "one source file",
	layout.FormAdmin:    "a record of a symbol store",
	layout.FormGSYM:     "a GSYM file",
}

// removedFront begins what a path step says of the front of a path that was removed.
const removedFront = " Removed from its front: "

// AskedAs sets the text of the request as it was written. token says that an access token
// stood in front of its path, which the path step then says too.
func (l *Trace) AskedAs(text string, token bool) {
	l.Asked = text
	if !token {
		return
	}
	const says = "an access token"
	for i := range l.Steps {
		s := &l.Steps[i]
		if s.Step != "path" {
			continue
		}
		if before, removed, ok := strings.Cut(s.Says, removedFront); ok {
			s.Says = before + removedFront + says + " and " + removed
		} else {
			s.Says += removedFront + says + "."
		}
	}
}

func pathStep(q Traced, t *why.Trace) TraceStep {
	s := TraceStep{Step: "path", Mark: MarkOK}
	var removed []string
	if q.Token {
		removed = append(removed, "an access token")
	}
	if t.Request.Prefix != "" {
		removed = append(removed, "the prefix "+term.Printable(t.Request.Prefix))
	}
	for _, try := range t.Tries {
		i := TraceItem{Mark: MarkOK, What: try.Shape, Says: "fits: " + try.Looks, Path: term.Printable(try.Prefix)}
		if try.Why != "" {
			i.Mark, i.Says = MarkInfo, term.Printable(try.Why)
		}
		s.Items = append(s.Items, i)
	}
	switch {
	case t.Verdict == why.VerdictNotPath && len(t.Tries) == 0:
		s.Mark, s.Says = MarkNo, "A path of one part is the server's own, or names nothing."
	case t.Verdict == why.VerdictNotPath:
		s.Mark, s.Says = MarkNo, "The path has none of the forms that debuggers use."
	default:
		s.Says = fmt.Sprintf("The path has the form %s; wanted is %s.", t.Tries[len(t.Tries)-1].Shape, formNames[t.Request.Form])
	}
	if len(removed) > 0 {
		s.Says += removedFront + strings.Join(removed, " and ") + "."
	}
	return s
}

// outcomeTexts say what a lookup has found.
var outcomeTexts = map[answer.LookupOutcome]string{
	answer.Hit:             "found",
	answer.HigherAge:       "a PDB of equal GUID and higher age answers",
	answer.NoHit:           "no such id",
	answer.OtherRole:       "the file is of another kind",
	answer.OtherName:       "a file of another name has the id",
	answer.Ambiguous:       "several files have the id, so it does not answer without the name",
	answer.Damaged:         "the stored bytes are damaged",
	answer.CachedOtherName: "only a downloaded file of another name has the id; upstreams are asked first",
	answer.NoSection:       "the file has no such section",
	answer.NotNamed:        "its debug information does not name the source",
	answer.NoText:          "its debug information names the source, but its text is not here",
	answer.Away:            "it is in the index, but the folder is away",
	answer.Changed:         "it has changed or gone since it was indexed",
}

func lookupStep(t *why.Trace) *TraceStep {
	if len(t.Lookups) == 0 {
		return nil
	}
	s := &TraceStep{Step: "lookups", Mark: MarkNo, Says: "The depot has no file for them."}
	for _, l := range t.Lookups {
		i := TraceItem{Mark: MarkNo, What: string(l.Outcome), Name: term.Printable(l.Name), ID: l.ID}
		target := "id " + l.ID
		if l.Name != "" {
			target = term.Printable(l.Name) + " with " + target
		}
		if roles := roleNames(l.Role); roles != "" {
			target += " as " + roles
		}
		i.Says = target + ": " + outcomeTexts[l.Outcome]
		switch l.Outcome {
		case answer.Hit, answer.HigherAge:
			i.Mark, s.Mark, s.Says = MarkOK, MarkOK, "The depot has a file for them."
		case answer.NoHit:
		default:
			i.Mark = MarkWarn
		}
		s.Items = append(s.Items, i)
		for n, h := range l.Hits {
			if n == 3 {
				break
			}
			o := objectItem(h, "object")
			o.Mark = i.Mark
			s.Items = append(s.Items, o)
		}
	}
	return s
}

// roleNames lists roles for people.
func roleNames(r symfile.Role) string {
	var list []string
	for _, n := range []struct {
		role symfile.Role
		name string
	}{
		{symfile.Executable | symfile.Relocatable, "program"}, {symfile.Debug | symfile.Companion, "debug information"},
		{symfile.Symbols, "Breakpad file"}, {symfile.Sources, "source bundle"}, {symfile.CodeInfo, "code id"},
		{symfile.Compressed, "MSFZ container"}, {symfile.SymCacheFile, "SymCache file"}, {symfile.Other, "other file"},
	} {
		if r&n.role != 0 {
			list = append(list, n.name)
		}
	}
	return strings.Join(list, " or ")
}

func objectItem(h answer.LookupHit, what string) TraceItem {
	o := newObject(h.Object, h.Arch, h.Size, h.Features)
	i := TraceItem{
		Mark: MarkInfo, What: what, Name: term.Printable(h.Object.Name), ID: o.ID(), Kind: o.Kind,
		Transaction: h.Number, Upstream: term.Printable(h.Source),
	}
	if h.Ref != (blob.Ref{}) {
		i.SHA256 = h.Ref.String()
	}
	i.Says = fmt.Sprintf("%s %s %s, %s", i.Name, o.Kind, i.ID, term.Size(h.Size))
	switch {
	case h.Source != "":
		i.Says += ", downloaded from " + i.Upstream
	case i.SHA256 == "":
		i.Says += ", in the served folder " + term.Printable(strings.SplitN(h.Path, "/", 2)[0])
	case h.Number > 0:
		i.Says += fmt.Sprintf(", build %d of %s", h.Number, day(h.Added))
	}
	return i
}

func nearStep(t *why.Trace) *TraceStep {
	s := &TraceStep{Step: "near", Mark: MarkWarn}
	var says []string
	for _, f := range t.Removed {
		r := NewRemovedFile("", f)
		name := term.Printable(r.Name)
		says := fmt.Sprintf("%s %s: build %d was %s", name, term.Printable(r.ID), r.Transaction, term.Printable(tombstone(r)))
		s.Items = append(s.Items, TraceItem{
			Mark: MarkWarn, What: "removed", Says: says, Name: name, ID: r.ID, Kind: r.Kind, SHA256: r.SHA256,
			Transaction: r.Transaction, Product: term.Printable(r.Product), Since: r.Removed, Until: r.Until,
		})
	}
	if len(t.Removed) > 0 {
		says = append(says, "it was here and was removed")
	}
	for _, h := range t.OtherAges {
		i := objectItem(h, "other-age")
		i.Mark = MarkWarn
		s.Items = append(s.Items, i)
	}
	switch {
	case len(t.OtherAges) > 0 && t.Ageless:
		says = append(says, "the GUID is here with an age")
	case len(t.OtherAges) > 0:
		says = append(says, "other ages of the GUID are here")
	}
	for _, h := range t.Portable {
		s.Items = append(s.Items, objectItem(h, "portable"))
	}
	if len(t.Portable) > 0 {
		says = append(says, "the portable PDB is here")
	}
	for _, h := range t.Hidden {
		i := objectItem(h.LookupHit, "other-product")
		i.Mark, i.Product = MarkWarn, term.Printable(strings.Join(h.Products, ", "))
		i.Says += ", of the product " + strconv.Quote(i.Product)
		s.Items = append(s.Items, i)
	}
	if len(t.Hidden) > 0 {
		says = append(says, "other products have it")
	}
	for _, h := range t.Namesakes {
		s.Items = append(s.Items, objectItem(h, "other-id"))
	}
	if len(t.Namesakes) > 0 {
		says = append(says, "other builds of the name are here")
	}
	switch {
	case len(says) > 0:
		s.Says = capital(strings.Join(says, "; ")) + "."
	case t.Verdict == why.VerdictAbsent && !slices.ContainsFunc(t.Folders, func(f answer.TracedFolder) bool {
		return slices.ContainsFunc(f.Places, func(p answer.TracedPlace) bool { return p.Outcome != "" })
	}):
		s.Mark, s.Says = MarkInfo, "Nothing here has the name or the id."
	default:
		return nil
	}
	return s
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func folderStep(t *why.Trace) *TraceStep {
	if len(t.Folders) == 0 {
		return nil
	}
	s := &TraceStep{Step: "folders", Mark: MarkNo, Says: "The served folders do not have it."}
	if !slices.ContainsFunc(t.Folders, func(f answer.TracedFolder) bool { return !f.Watched }) {
		s.Says = "The watched folders do not have it."
	}
	for _, f := range t.Folders {
		name := f.Layout.Name()
		if f.Watched {
			name = watchedName(&f)
			if len(f.Places) == 0 {
				s.Items = append(s.Items, TraceItem{Mark: MarkNo, What: "absent", Says: term.Printable(name + ": no such file")})
			}
		}
		for n, p := range f.Places {
			if n == 20 {
				s.Items = append(s.Items, TraceItem{Mark: MarkInfo, What: "more", Says: fmt.Sprintf("and %d more places", len(f.Places)-n)})
				break
			}
			if p.Path == "" {
				s.Items = append(s.Items, TraceItem{Mark: MarkWarn, What: "away", Says: term.Printable(name + ": no answer; the log says why")})
				continue
			}
			i := TraceItem{Mark: MarkNo, What: "absent", Path: term.Printable(p.Path), Says: term.Printable(name + ": " + p.Path + ": no such file")}
			switch {
			case p.Outcome != "":
				i.Mark, i.What, i.Says = MarkWarn, string(p.Outcome), term.Printable(name+": "+p.Path+": "+outcomeTexts[p.Outcome])
			case p.Why == nil:
				i.Mark, i.What, i.Says = MarkOK, "found", term.Printable(name+": "+p.Path+": found")
				s.Mark, s.Says = MarkOK, "A served folder has it."
				if f.Watched {
					s.Says = "A watched folder has it."
				}
			case !errors.Is(p.Why, fs.ErrNotExist):
				i.Mark, i.What = MarkWarn, "refused"
				i.Says = term.Printable(name + ": " + p.Path + ": the file is there, but is not the one that is asked for, or cannot be read")
			}
			s.Items = append(s.Items, i)
		}
	}
	return s
}

func memoryStep(t *why.Trace) *TraceStep {
	s := &TraceStep{Step: "memory", Mark: MarkWarn, Says: "Remembered of upstreams:"}
	for _, u := range t.Sources {
		name := term.Printable(u.Name)
		if m := u.Miss; m != nil {
			s.Items = append(s.Items, TraceItem{
				Mark: MarkWarn, What: m.Class.String(), Upstream: name, Since: m.Since.UTC(), Until: m.Until.UTC(),
				Says: fmt.Sprintf("%s: %s since %s, asked again after %s", name, m.Class, stamp(m.Since), stamp(m.Until)),
			})
		}
	}
	if t.Known {
		s.Says = "Nobody is asked before " + stamp(t.KnownUntil) + ": it is remembered that the upstreams lack the file."
	} else if len(s.Items) == 0 {
		return nil
	}
	return s
}

func sourceStep(t *why.Trace) *TraceStep {
	if len(t.Sources) == 0 {
		return nil
	}
	s := &TraceStep{Step: "sources", Mark: MarkNo, Says: "No upstream would be asked."}
	for i := range t.Sources {
		u := &t.Sources[i]
		name := term.Printable(u.Name)
		l := TraceItem{Mark: MarkOK, What: "asked", Upstream: name, Says: fmt.Sprintf("%s, rank %d: would be asked", name, u.Rank)}
		switch {
		case u.Excluded != "":
			l.Mark, l.What, l.Says = MarkInfo, "excluded", fmt.Sprintf("%s: is not asked: %s", name, term.Printable(u.Excluded))
		case u.Miss != nil || t.Known:
			l.Mark, l.What, l.Says = MarkInfo, "remembered", name+": is not asked again yet"
		case u.Open:
			l.Mark, l.What, l.Until = MarkWarn, "paused", u.Until.UTC()
			l.Says = fmt.Sprintf("%s: is not asked before %s: it failed too often or asked for a pause", name, stamp(u.Until))
		default:
			s.Mark, s.Says = MarkInfo, "Upstreams would be asked, the lowest rank first."
			if u.Unauthorized != "" {
				l.Mark = MarkWarn
				l.Says = fmt.Sprintf("%s, rank %d: would be asked; its last answer was: %s", name, u.Rank, term.Printable(u.Unauthorized))
			}
		}
		s.Items = append(s.Items, l)
	}
	return s
}

// coldStep says that the file that answers is restored when it is read.
func coldStep(t *why.Trace) *TraceStep {
	if t.File == nil || t.File.Cold == nil {
		return nil
	}
	c := NewColdFile(t.File.Cold)
	s := &TraceStep{
		Step: "cold", Mark: MarkInfo,
		Says: "The file is cold: it is restored from a cold file, and kept for the next reads. No other form of it is made meanwhile.",
	}
	stored := fmt.Sprintf("stored as %s of %s", term.Size(c.Bytes), term.Size(t.File.Size))
	s.Items = append(s.Items, TraceItem{Mark: MarkInfo, What: "stored", Says: stored})
	if c.Base != "" {
		s.Items = append(s.Items, TraceItem{Mark: MarkInfo, What: "base", Says: "differences from " + c.Base})
	}
	return s
}

// formStates say how far a form is.
var formStates = map[why.FormState]string{
	why.FormHeld:     "is here",
	why.FormPossible: "can be made",
	why.FormFailed:   "could not be made",
	why.FormUseless:  "was tried and is not worth keeping",
	why.FormNever:    "is not made here",
	why.FormNoWorker: "needs a worker",
}

func formStep(t *why.Trace) *TraceStep {
	if len(t.Forms) == 0 {
		return nil
	}
	s := &TraceStep{Step: "forms", Mark: MarkInfo, Says: "Forms of the file:"}
	for _, f := range t.Forms {
		i := TraceItem{Mark: MarkInfo, What: string(f.State), Name: f.Name, Job: f.Job, Until: f.Until}
		text := formStates[f.State]
		switch f.State {
		case why.FormBeingMade:
			text = fmt.Sprintf("job %d makes it", f.Job)
		case why.FormHeld:
			i.Mark = MarkOK
			if f.Size > 0 {
				text += ", " + term.Size(f.Size)
			}
		case why.FormFailed, why.FormNoWorker:
			i.Mark = MarkNo
		}
		if f.From != "" && f.State != why.FormHeld {
			text += ", of " + term.Printable(f.From)
		}
		if f.Detail != "" {
			text += ": " + term.Printable(f.Detail)
		}
		if !f.Until.IsZero() {
			text += ", until " + stamp(f.Until)
		}
		i.Says = f.Name + ": " + text
		s.Items = append(s.Items, i)
	}
	return s
}
