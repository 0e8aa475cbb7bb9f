package report

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Trace explains in JSON why a request finds a file or does not.
type Trace struct {
	Asked   string `json:"asked"`   // as it was written, without secrets
	Path    string `json:"path"`    // of the request, escaped
	Verdict string `json:"verdict"` // found, redirect, made, sources, absent, not-path or unavailable
	Cause   string `json:"cause,omitempty"`
	// Status is that of the answer now; 0 if it depends on the upstreams.
	Status  int    `json:"status"`
	Says    string `json:"says"` // the result in one sentence
	Remedy  string `json:"remedy,omitempty"`
	Command string `json:"command,omitempty"`
	// Headers are those fields of the answer that clients act on.
	Headers map[string]string `json:"headers,omitempty"`
	SHA256  string            `json:"sha256,omitempty"` // of the file that answers
	Steps   []TraceStep       `json:"steps"`
	// Line and Times are where a log names the request, and how often; Log is what
	// it says of it: missing, found or nothing.
	Line  int    `json:"line,omitempty"`
	Times int    `json:"times,omitempty"`
	Log   string `json:"log,omitempty"`
}

// The marks of steps and their items.
const (
	MarkOK   = "ok"
	MarkNo   = "no"
	MarkWarn = "warn"
	MarkInfo = "info"
)

// TraceStep is one step of a lookup.
type TraceStep struct {
	Step  string      `json:"step"` // path, you, lookups, near, folders, memory, sources, cold, forms or answer
	Mark  string      `json:"mark"` // ok, no, warn or info
	Says  string      `json:"says"`
	Items []TraceItem `json:"items"`
}

// TraceItem is a part of a step. Members that do not apply are missing.
type TraceItem struct {
	Mark        string    `json:"mark"`
	What        string    `json:"what"` // one word
	Says        string    `json:"says"`
	Name        string    `json:"name,omitempty"`
	ID          string    `json:"id,omitempty"`
	Kind        string    `json:"kind,omitempty"`
	SHA256      string    `json:"sha256,omitempty"`
	Transaction int64     `json:"transaction,omitempty"`
	Product     string    `json:"product,omitempty"`
	Upstream    string    `json:"upstream,omitempty"`
	Path        string    `json:"path,omitempty"`
	Job         int64     `json:"job,omitempty"`
	Since       time.Time `json:"since,omitzero"`
	Until       time.Time `json:"until,omitzero"`
}

// TraceLog explains in JSON the requests in a log, those that fail first.
type TraceLog struct {
	Items    []Trace `json:"items"`
	Complete bool    `json:"complete"` // false: the log or the list was cut
}

// Traced is a request that was traced.
type Traced struct {
	Asked string // as it was written, without secrets
	Path  string // escaped
	Token bool   // a token was removed from it
	Who   string // who asks, and what they see, in one sentence
}

// The causes of requests that find nothing.
const (
	causeUnavailable = "unavailable"
	causeNotPath     = "not-path"
	causeRemoved     = "removed"
	causeOtherAge    = "other-age"
	causeAgeless     = "no-age"
	causePortable    = "portable"
	causeHidden      = "other-product"
	causeOtherRole   = "other-role"
	causeOtherName   = "other-name"
	causeAmbiguous   = "ambiguous"
	causeDamaged     = "damaged"
	causeNoSection   = "no-section"
	causeNotNamed    = "not-named"
	causeNoText      = "no-text"
	causeAway        = "away"
	causeChanged     = "changed"
	causeFailed      = "failed"
	causeNoWorker    = "no-worker"
	causeForm        = "form"
	causeKnown       = "remembered"
	causeExcluded    = "excluded"
	causePaused      = "paused"
	causeOtherID     = "other-id"
	causeUnknown     = "unknown"
)

// NewTrace describes a trace.
func NewTrace(q Traced, t *depot.Trace) Trace {
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
	if l.Mark() != MarkOK {
		l.Cause = cause(t)
	}
	l.Says = says(t, l.Cause)
	l.Remedy, l.Command = remedy(q, t, l.Cause)
	if t.NoMaker && t.Verdict == depot.VerdictAbsent && l.Cause != causeForm {
		l.Remedy += " SymCache files are made by a transcoder: none is configured here, and no worker with one is connected."
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

// cause returns the word for the reason why a request finds nothing: the one that
// people can act on first.
func cause(t *depot.Trace) string {
	outcome := func(o depot.LookupOutcome) bool {
		return slices.ContainsFunc(t.Lookups, func(l depot.TracedLookup) bool { return l.Outcome == o })
	}
	near := func(o depot.LookupOutcome) bool { _, p := nearIn(t, o); return p != nil }
	form := func(s depot.FormState) bool {
		return slices.ContainsFunc(t.Forms, func(f depot.TracedForm) bool { return f.State == s })
	}
	held := outcome(depot.Hit) || outcome(depot.HigherAge)
	switch {
	case t.Verdict == depot.VerdictFails:
		return causeUnavailable
	case t.Verdict == depot.VerdictNotPath:
		return causeNotPath
	case form(depot.FormFailed):
		return causeFailed
	case form(depot.FormNoWorker):
		return causeNoWorker
	case held || t.Request.Form == layout.FormPointer || t.Request.Form == layout.FormAdmin:
		return causeForm
	case outcome(depot.Damaged):
		return causeDamaged
	case outcome(depot.NoSection):
		return causeNoSection
	case outcome(depot.NoText):
		return causeNoText
	case outcome(depot.NotNamed):
		return causeNotNamed
	case near(depot.Away):
		return causeAway
	case near(depot.NoText):
		return causeNoText
	case near(depot.NotNamed):
		return causeNotNamed
	case near(depot.Changed):
		return causeChanged
	case len(t.Removed) > 0:
		return causeRemoved
	case len(t.Portable) > 0:
		return causePortable
	case len(t.OtherAges) > 0 && t.Ageless:
		return causeAgeless
	case len(t.OtherAges) > 0:
		return causeOtherAge
	case outcome(depot.OtherRole), near(depot.OtherRole):
		return causeOtherRole
	case outcome(depot.Ambiguous):
		return causeAmbiguous
	case outcome(depot.OtherName):
		return causeOtherName
	case len(t.Hidden) > 0:
		return causeHidden
	case len(t.Namesakes) > 0:
		return causeOtherID
	}
	remembered, excluded, paused := 0, 0, 0
	for _, s := range t.Sources {
		switch {
		case s.Excluded != "":
			excluded++
		case s.Miss != nil:
			remembered++
		case s.Open:
			paused++
		}
	}
	switch {
	case paused > 0:
		return causePaused
	case remembered > 0:
		return causeKnown
	case excluded > 0:
		return causeExcluded
	}
	return causeUnknown
}

// says returns the result in one sentence.
func says(t *depot.Trace, cause string) string {
	switch t.Verdict {
	case depot.VerdictFound:
		return "Found, " + strconv.Itoa(t.Status) + ": " + fileText(t.File) + "."
	case depot.VerdictRedirect:
		return "Found, 302: the client is sent to " + term.Printable(t.Redirect) + ", the path with the debug id."
	case depot.VerdictMakes:
		return "Found, 200, after a wait: the file is made when it is asked for."
	case depot.VerdictSources:
		names := askedNames(t)
		switch {
		case t.Status == 200:
			return "Found, 200: a request would ask " + strings.Join(names, ", ") + " first."
		case cause == causeUnknown || cause == causeKnown || cause == causeExcluded || cause == causePaused:
			return "Not here yet: a request would ask " + strings.Join(names, ", ") + "."
		}
		return "Not here: " + causeText(t, cause) + ". A request would ask " + strings.Join(names, ", ") + "."
	case depot.VerdictFails:
		return fmt.Sprintf("No answer, %d: %s.", t.Status, failure(t))
	}
	return "Not found, 404: " + causeText(t, cause) + "."
}

func failure(t *depot.Trace) string {
	switch {
	case errors.Is(t.Err, depot.ErrNoDatabase):
		return "the index cannot be read now"
	case errors.Is(t.Err, depot.ErrUnavailable):
		return "the stored files cannot be read now"
	}
	return "the depot cannot answer; its log says why"
}

// fileText describes the file that answers.
func fileText(f *depot.TracedFile) string {
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
		text += ", transaction " + strconv.FormatInt(f.Number, 10) + " of " + day(f.Added)
	}
	if f.Substitute {
		text += "; it has the id, but another name"
	}
	return text
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

func askedNames(t *depot.Trace) (names []string) {
	for i := range t.Sources {
		if s := &t.Sources[i]; s.Asked() {
			names = append(names, term.Printable(s.Name))
		}
	}
	return names
}

// causeText says why a request finds nothing.
func causeText(t *depot.Trace, cause string) string {
	name := term.Printable(t.Request.Name)
	switch cause {
	case causeNotPath:
		return "this is not the path of a symbol file"
	case causeFailed:
		return "the file could not be made, and is not tried again yet"
	case causeNoWorker:
		return "only a worker could make the file, and none is connected"
	case causeForm:
		return formText(t)
	case causeDamaged:
		return "the stored bytes are damaged and are not served"
	case causeNoSection:
		return "the file is here, but has no section " + strconv.Quote(term.Printable(t.Request.Part))
	case causeNotNamed:
		return "the debug information of this module does not name the file " + strconv.Quote(term.Printable(t.Request.Part)) + ", so it is never sent"
	case causeNoText:
		return "the debug information names this source, but its text is not held"
	case causeRemoved:
		r := NewRemovedFile("", t.Removed[0])
		return fmt.Sprintf("it was here, in transaction %d, which was %s", r.Transaction, term.Printable(tombstone(r)))
	case causeOtherAge:
		return agesText(t)
	case causeAgeless:
		return "the GUID is here, but the request lacks the age, which is part of the id"
	case causePortable:
		return fmt.Sprintf("%s is a portable PDB, of which there is no %s", term.Printable(t.Portable[0].Object.Name), functionsForm(t))
	case causeAway:
		f, p := nearIn(t, depot.Away)
		return fmt.Sprintf("it is in the index of %s as %s, but that folder is away", watchedName(f), term.Printable(p.Path))
	case causeChanged:
		f, p := nearIn(t, depot.Changed)
		return fmt.Sprintf("it was in %s in %s, which has changed or gone since it was indexed", watchedName(f), term.Printable(p.Path))
	case causeOtherRole:
		what := hitText(firstHit(t, depot.OtherRole))
		if f, p := nearIn(t, depot.OtherRole); p != nil && firstHit(t, depot.OtherRole) == nil {
			what = fmt.Sprintf("%s (%s) in %s", term.Printable(p.Object.Name), p.Object.Kind, watchedName(f))
		}
		return "a file with this id is here, but it is of another kind: " + what
	case causeAmbiguous:
		return "no file has that name, and several files have that id"
	case causeOtherName:
		return "a file of another name has that id: " + hitText(firstHit(t, depot.OtherName))
	case causeHidden:
		return "the file is here, but in products that this caller does not see"
	case causeOtherID:
		return fmt.Sprintf("the depot holds %s of other builds, none with this id", name)
	case causeKnown:
		return "the depot lacks the file, and remembers that the upstreams lack it too"
	case causeExcluded:
		return "the depot lacks the file, and no upstream is asked for it"
	case causePaused:
		return "the depot lacks the file, and upstreams that may have it are not asked now, because they failed"
	}
	if name != "" {
		return "nothing of the name " + name + " and nothing of this id is here"
	}
	return "nothing of this id is here"
}

// nearIn returns what comes near in a watched folder with an outcome; nil: nothing.
func nearIn(t *depot.Trace, o depot.LookupOutcome) (*depot.TracedFolder, *depot.TracedPlace) {
	for i := range t.Folders {
		f := &t.Folders[i]
		for n := range f.Places {
			if f.Places[n].Outcome == o {
				return f, &f.Places[n]
			}
		}
	}
	return nil, nil
}

// watchedName names a watched folder for people: nobody needs to know where it is.
func watchedName(f *depot.TracedFolder) string {
	if f.Other {
		return "watched folders of another server"
	}
	return "watched folder " + term.Printable(symfile.BaseName(f.Dir))
}

// tombstone says when, by whom and why a file was removed.
func tombstone(r RemovedFile) string {
	r.Until = time.Time{}
	return r.Why()
}

func formText(t *depot.Trace) string {
	switch t.Request.Form {
	case layout.FormPointer:
		return "pointers are answered only with --admin-files=//SERVER/SHARE, and only to files of the depot; clients ask for the file itself first"
	case layout.FormAdmin:
		return "records of a symbol store are answered only with --admin-files, and only of files that are here"
	case layout.FormCabinet:
		return "the file is here, but no cabinet of it; clients ask for the file itself next"
	case layout.FormGSYM:
		return "the file is here, but no GSYM file is made of it"
	case layout.FormSymCache:
		return "the PDB is here, but nothing makes this version of a SymCache file of it"
	}
	return "the file is here, but cannot be read"
}

func agesText(t *depot.Trace) string {
	h := t.OtherAges[0]
	asked, _ := askedAge(&t.Request)
	if h.Object.Kind == symfile.PortablePDB {
		return fmt.Sprintf("you ask for age %d, the depot holds a portable PDB of the same GUID, which has the age %s", asked, symfile.PortableAge)
	}
	text := fmt.Sprintf("you ask for age %d, the depot holds age %d of the same GUID", asked, h.Object.DebugID.Age)
	if h.Object.Kind == symfile.PDB {
		text += ": the PDB was linked again"
	}
	return text
}

// askedAge returns the age that a request asks for.
func askedAge(r *layout.Request) (uint32, bool) {
	if r.Age != nil {
		return r.Age.Age, true
	}
	for _, l := range r.Lookups {
		if len(l.ID) > 32 {
			if n, err := strconv.ParseUint(l.ID[32:], 16, 32); err == nil {
				return uint32(n), true
			}
		}
	}
	return 0, false
}

// functionsForm names the form of a module's functions that a request asks for.
func functionsForm(t *depot.Trace) string {
	if t.Request.Form == layout.FormGSYM {
		return "GSYM file"
	}
	return "Breakpad file (.sym)"
}

// ownPath is the path under which debuggers ask for an object.
func ownPath(h depot.LookupHit) string {
	if paths := layout.SymStore.Paths(h.Object); len(paths) > 0 {
		return paths[0]
	}
	return h.Object.Name
}

func firstHit(t *depot.Trace, o depot.LookupOutcome) *depot.LookupHit {
	for _, l := range t.Lookups {
		if l.Outcome == o && len(l.Hits) > 0 {
			return &l.Hits[0]
		}
	}
	return nil
}

func hitText(h *depot.LookupHit) string {
	if h == nil {
		return "?"
	}
	return fmt.Sprintf("%s (%s)", term.Printable(h.Object.Name), h.Object.Kind)
}

// remedy returns what to do, and a command for it.
func remedy(q Traced, t *depot.Trace, cause string) (text, command string) {
	file := "FOLDER-OF-THE-BUILD"
	switch t.Verdict {
	case depot.VerdictMakes:
		return "Ask for it: the request waits until it is made.", "symdepot get " + word(strings.TrimPrefix(q.Path, "/"))
	case depot.VerdictFound, depot.VerdictRedirect:
		return "If the debugger still does not find it, it asks another server or a stale local copy: empty its local store and compare the URLs in its log.", "symdepot get " + word(strings.TrimPrefix(q.Path, "/"))
	case depot.VerdictSources:
		return "Ask for it: the download is kept here.", "symdepot get " + word(strings.TrimPrefix(q.Path, "/"))
	}
	switch cause {
	case causeUnavailable:
		return "Try again in a few seconds; if that does not help, read the server's log.", "symdepot verify"
	case causeNotPath:
		return "Compare the path with those that debuggers ask for: the command prints them for a file.", "symdepot identify FILE"
	case causeFailed:
		return "Look at the failed job, and run it again when its cause is gone.", "symdepot jobs --state failed"
	case causeNoWorker:
		return "Run a worker on a machine with enough memory.", "symdepot work --server URL --token-file FILE --symbols"
	case causeForm:
		if t.NoMaker {
			return "Configure a transcoder, or run a worker with one: neither is here.", "symdepot work --server URL --token-file FILE --transcoder NAME=COMMAND"
		}
		return "Ask for the file itself.", "symdepot get " + word(plainPath(q, t))
	case causeDamaged:
		return "Check the depot, and add the file again.", "symdepot verify"
	case causeNoSection:
		return "Ask for the whole file.", "symdepot identify FILE"
	case causeNotNamed:
		return "Compare the path with the names in the debug information: on a server, the page of the file leads to the list of its sources.", ""
	case causeAway:
		return "Mount the folder, or move it back: it is looked for every few seconds.", ""
	case causeChanged:
		return "Ask again when the folder has been scanned; the log says if the file was left out.", "symdepot usage"
	case causeNoText:
		return "Add the build again with its sources.", "symdepot add --sources DIR " + file
	case causeRemoved:
		if r := t.Removed[0].Removal; !r.Until.IsZero() {
			return fmt.Sprintf("Restore the transaction; that is possible until %s.", r.Until.UTC().Format("2006-01-02 15:04")), fmt.Sprintf("symdepot undo %d", r.Number)
		}
		return "The transaction cannot be restored: add the build again.", "symdepot add " + file
	case causeOtherAge:
		return "Add the PDB of exactly the build that runs.", "symdepot add " + file
	case causeAgeless:
		return "Ask with the age: the depot has the file under this path.", "symdepot get " + word(ownPath(t.OtherAges[0]))
	case causePortable:
		return "Get the portable PDB itself; symdepot symbolicate -e reads it, with positions in IL.", "symdepot get " + word(ownPath(t.Portable[0]))
	case causeOtherRole:
		return "Add the other file of the build: the debugger asks for a different one than the depot has.", "symdepot add " + file
	case causeAmbiguous, causeOtherName:
		return "Find the file by its id, and ask for it under its own name.", "symdepot find " + word(firstID(t))
	case causeHidden:
		return "Give the caller the right to read the product.", "symdepot token new --name NAME --scope read --product " + word(firstProduct(t))
	case causeOtherID:
		return "Add the build that has this id; the command lists the builds that are here.", "symdepot find " + word(t.Request.Name)
	case causeKnown:
		return "If an upstream has got the file since, forget what is remembered.", "symdepot cache forget"
	case causeExcluded:
		return "The step sources says why: an upstream cannot have this kind of file, or its patterns in the configuration exclude the name.", "symdepot config check"
	case causePaused:
		return "Ask again when the pause has ended; the server's log says why the upstream failed.", ""
	}
	return "Add the build that has this file.", "symdepot add " + file
}

func firstID(t *depot.Trace) string {
	if len(t.Request.Lookups) > 0 {
		return t.Request.Lookups[0].ID
	}
	return ""
}

func firstProduct(t *depot.Trace) string {
	if len(t.Hidden[0].Products) > 0 {
		return t.Hidden[0].Products[0]
	}
	return ""
}

// plainPath is the path of the file itself, for a request for a form of it.
func plainPath(q Traced, t *depot.Trace) string {
	if t.Request.Name == "" || len(t.Request.Lookups) == 0 {
		return strings.TrimPrefix(q.Path, "/")
	}
	return t.Request.Name + "/" + t.Request.Lookups[0].ID + "/" + t.Request.Name
}

// word quotes a text for a shell. Texts come from clients.
func word(s string) string {
	s = term.Printable(s)
	plain := s != "" && s[0] != '-'
	for i := range len(s) {
		c := s[i]
		if ('a' > c || c > 'z') && ('A' > c || c > 'Z') && ('0' > c || c > '9') && strings.IndexByte("-._/+:@%", c) < 0 {
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// formNames are the forms in which files are wanted.
var formNames = map[layout.Form]string{
	layout.FormFile: "the file itself", layout.FormCabinet: "a cabinet of the file", layout.FormPointer: "a pointer to the file", layout.FormSymCache: "a SymCache file",
	layout.FormSection: "one section of the file", layout.FormSource: "one source file", layout.FormAdmin: "a record of a symbol store", layout.FormGSYM: "a GSYM file",
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

func pathStep(q Traced, t *depot.Trace) TraceStep {
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
	case t.Verdict == depot.VerdictNotPath && len(t.Tries) == 0:
		s.Mark, s.Says = MarkNo, "A path of one part is the server's own, or names nothing."
	case t.Verdict == depot.VerdictNotPath:
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
var outcomeTexts = map[depot.LookupOutcome]string{
	depot.Hit: "found", depot.HigherAge: "a PDB of equal GUID and higher age answers", depot.NoHit: "no such id",
	depot.OtherRole: "the file is of another kind", depot.OtherName: "a file of another name has the id", depot.Ambiguous: "several files have the id, so it does not answer without the name",
	depot.Damaged: "the stored bytes are damaged", depot.CachedOtherName: "only a downloaded file of another name has the id; upstreams are asked first", depot.NoSection: "the file has no such section",
	depot.NotNamed: "its debug information does not name the source", depot.NoText: "its debug information names the source, but no text is held",
	depot.Away: "it is in the index, but the folder is away", depot.Changed: "it has changed or gone since it was indexed",
}

func lookupStep(t *depot.Trace) *TraceStep {
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
		case depot.Hit, depot.HigherAge:
			i.Mark, s.Mark, s.Says = MarkOK, MarkOK, "The depot has a file for them."
		case depot.NoHit:
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
		{symfile.Executable | symfile.Relocatable, "program"}, {symfile.Debug | symfile.Companion, "debug information"}, {symfile.Symbols, "Breakpad file"}, {symfile.Sources, "source bundle"},
		{symfile.CodeInfo, "code id"}, {symfile.Compressed, "MSFZ container"}, {symfile.SymCacheFile, "SymCache file"}, {symfile.Other, "other file"},
	} {
		if r&n.role != 0 {
			list = append(list, n.name)
		}
	}
	return strings.Join(list, " or ")
}

func objectItem(h depot.LookupHit, what string) TraceItem {
	o := newObject(h.Object, h.Arch, h.Size, h.Features)
	i := TraceItem{Mark: MarkInfo, What: what, Name: term.Printable(h.Object.Name), ID: o.ID(), Kind: o.Kind, SHA256: h.Ref.String(), Transaction: h.Number, Upstream: term.Printable(h.Source)}
	i.Says = fmt.Sprintf("%s %s %s, %s", i.Name, o.Kind, i.ID, term.Size(h.Size))
	switch {
	case h.Source != "":
		i.Says += ", downloaded from " + i.Upstream
	case h.Number > 0:
		i.Says += fmt.Sprintf(", transaction %d of %s", h.Number, day(h.Added))
	}
	return i
}

func nearStep(t *depot.Trace) *TraceStep {
	s := &TraceStep{Step: "near", Mark: MarkWarn}
	var says []string
	for _, f := range t.Removed {
		r := NewRemovedFile("", f)
		s.Items = append(s.Items, TraceItem{
			Mark: MarkWarn, What: "removed", Says: fmt.Sprintf("%s %s: transaction %d was %s", term.Printable(r.Name), term.Printable(r.ID), r.Transaction, term.Printable(tombstone(r))),
			Name: term.Printable(r.Name), ID: r.ID, Kind: r.Kind, SHA256: r.SHA256, Transaction: r.Transaction, Product: term.Printable(r.Product), Since: r.Removed, Until: r.Until,
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
	case t.Verdict == depot.VerdictAbsent && !slices.ContainsFunc(t.Folders, func(f depot.TracedFolder) bool {
		return slices.ContainsFunc(f.Places, func(p depot.TracedPlace) bool { return p.Outcome != "" })
	}):
		s.Mark, s.Says = MarkInfo, "Nothing here has the name or the id."
	default:
		return nil
	}
	return s
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func folderStep(t *depot.Trace) *TraceStep {
	if len(t.Folders) == 0 {
		return nil
	}
	s := &TraceStep{Step: "folders", Mark: MarkNo, Says: "The served folders do not have it."}
	if !slices.ContainsFunc(t.Folders, func(f depot.TracedFolder) bool { return !f.Watched }) {
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
				i.Mark, i.What, i.Says = MarkWarn, "refused", term.Printable(name+": "+p.Path+": the file is there, but is not the one that is asked for, or cannot be read")
			}
			s.Items = append(s.Items, i)
		}
	}
	return s
}

func memoryStep(t *depot.Trace) *TraceStep {
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

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 UTC") }

func sourceStep(t *depot.Trace) *TraceStep {
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
		}
		s.Items = append(s.Items, l)
	}
	return s
}

func formStep(t *depot.Trace) *TraceStep {
	if len(t.Forms) == 0 {
		return nil
	}
	s := &TraceStep{Step: "forms", Mark: MarkInfo, Says: "Forms of the file:"}
	for _, f := range t.Forms {
		i := TraceItem{Mark: MarkInfo, What: string(f.State), Name: f.Name, Job: f.Job, Until: f.Until}
		text := map[depot.FormState]string{
			depot.FormHeld: "is here", depot.FormPossible: "can be made", depot.FormBeingMade: fmt.Sprintf("job %d makes it", f.Job), depot.FormFailed: "could not be made",
			depot.FormUseless: "was tried and is not worth keeping", depot.FormNever: "is not made here", depot.FormNoWorker: "needs a worker",
		}[f.State]
		switch f.State {
		case depot.FormHeld:
			i.Mark = MarkOK
			if f.Size > 0 {
				text += ", " + term.Size(f.Size)
			}
		case depot.FormFailed, depot.FormNoWorker:
			i.Mark = MarkNo
		}
		if f.From != "" && f.State != depot.FormHeld {
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

// Mark is the mark of the whole trace.
func (l *Trace) Mark() string {
	switch depot.Verdict(l.Verdict) {
	case depot.VerdictFound, depot.VerdictRedirect, depot.VerdictMakes:
		return MarkOK
	case depot.VerdictSources:
		return MarkWarn
	}
	return MarkNo
}

// Found reports whether a request gets the file.
func (l *Trace) Found() bool { return l.Mark() == MarkOK || l.Status == 200 }

// worst orders verdicts: those that need somebody first.
var worst = map[string]int{"unavailable": 0, "absent": 1, "not-path": 2, "sources": 3, "made": 4, "redirect": 5, "found": 6}

// SortTraces sorts the traces of a log: those that fail first, and of equal ones those
// that are named most often.
func SortTraces(list []Trace) {
	slices.SortStableFunc(list, func(a, b Trace) int {
		if c := worst[a.Verdict] - worst[b.Verdict]; c != 0 {
			return c
		}
		return b.Times - a.Times
	})
}

// marks are the marks for terminals.
var marks = map[string]string{MarkOK: "+", MarkNo: "x", MarkWarn: "!", MarkInfo: " "}

// Print writes the trace as text: the result first, then the steps, then what to do.
func (l *Trace) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n  %s %s\n", term.Printable(l.Asked), marks[l.Mark()], l.Says)
	for _, s := range l.Steps {
		fmt.Fprintf(&b, "\n  %s %-8s %s\n", marks[s.Mark], s.Step, s.Says)
		for _, i := range s.Items {
			text := i.Says
			if s.Step == "path" {
				text = fmt.Sprintf("%-15s %s", i.What, i.Says)
			}
			fmt.Fprintf(&b, "      %s %s\n", marks[i.Mark], text)
		}
	}
	if l.Remedy != "" {
		fmt.Fprintf(&b, "\n  %s\n", l.Remedy)
	}
	if l.Command != "" {
		fmt.Fprintf(&b, "    %s\n", l.Command)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// PrintTraces writes one trace with all its steps, or a list of several with what to
// do about those that find nothing.
func PrintTraces(w io.Writer, list []Trace) error {
	if len(list) == 1 {
		return list[0].Print(w)
	}
	var b strings.Builder
	for i := range list {
		l := &list[i]
		fmt.Fprintf(&b, "%s %s\n    %s\n", marks[l.Mark()], term.Printable(l.Asked), l.Says)
		if l.Mark() == MarkOK {
			continue
		}
		if l.Remedy != "" {
			fmt.Fprintf(&b, "    %s\n", l.Remedy)
		}
		if l.Command != "" {
			fmt.Fprintf(&b, "      %s\n", l.Command)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
