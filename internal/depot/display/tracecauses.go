package display

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/home"
	"github.com/symdepot/symdepot/internal/depot/why"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// cause is a reason why a request finds nothing, and everything that is said of it.
type cause struct {
	word string
	is   func(t *why.Trace) bool
	// text is a part of a sentence, without a capital and a full stop.
	text func(t *why.Trace) string
	// remedy is what to do, and a command for it; the command may be empty.
	remedy func(q Traced, t *why.Trace) (text, command string)
	// upstream is set if nothing that is here says that the file is elsewhere: an upstream
	// that may have it decides alone.
	upstream bool
}

// addBuild is the command that adds a build.
const addBuild = "symdepot add FOLDER-OF-THE-BUILD"

// add is the remedy that somebody adds what is missing. A reader who may not add is told what
// has to be done by those who publish the builds, without a command that the depot would refuse.
func add(what string) func(Traced, *why.Trace) (string, string) {
	return func(q Traced, _ *why.Trace) (text, command string) {
		return byOwner(q, "add "+what), ownerCommand(q, addBuild)
	}
}

// byOwner says what to do to somebody who may add files; others are told to ask for it.
func byOwner(q Traced, act string) string {
	if q.MayAdd {
		return capital(act) + "."
	}
	return "Ask whoever publishes the builds to " + act + "."
}

// ownerCommand is a command for somebody who may add files; others have none.
func ownerCommand(q Traced, command string) string {
	if q.MayAdd {
		return command
	}
	return ""
}

// causes are the reasons, those first that people can act on. The first one that is true
// is said, and the last one is always true.
var causes = []cause{
	{
		word: "denied", is: func(t *why.Trace) bool { return content.IsDenied(t.Err) }, text: deniedText, remedy: deniedRemedy,
	}, {
		word: "unavailable", is: verdict(why.VerdictFails), text: failure,
		remedy: do("Try again in a few seconds; if that does not help, read the server's log.", "symdepot verify"),
	}, {
		word: "not-path", is: verdict(why.VerdictNotPath), text: says("this is not the path of a symbol file"),
		remedy: do("Compare the path with those that debuggers ask for: the command prints them for a file.", "symdepot identify FILE"),
	}, {
		word: "failed", is: form(why.FormFailed), text: says("the file could not be made, and is not tried again yet"),
		remedy: do("Look at the failed job, and run it again when its cause is gone.", "symdepot jobs --state failed"),
	}, {
		word: "no-worker", is: form(why.FormNoWorker), text: says("only a worker could make the file, and none is connected"),
		remedy: do("Run a worker on a machine with enough memory.", "symdepot work --server URL --token-file FILE --symbols"),
	}, {
		word: causeForm, is: heldInOtherForm, text: formText, remedy: formRemedy,
	}, {
		word: "damaged", is: outcome(answer.Damaged), text: says("the stored bytes are damaged and are not served"),
		remedy: do("Check the depot, and add the file again.", "symdepot verify"),
	}, {
		word: "no-section", is: outcome(answer.NoSection),
		text:   func(t *why.Trace) string { return "the file is here, but has no section " + quotedPart(t) },
		remedy: do("Ask for the whole file.", "symdepot identify FILE"),
	},
	noText(outcome(answer.NoText)),
	notNamed(outcome(answer.NotNamed)),
	{
		word: "away", is: near(answer.Away),
		text: func(t *why.Trace) string {
			f, p := nearIn(t, answer.Away)
			return fmt.Sprintf("it is in the index of %s as %s, but that folder is away", watchedName(f), term.Printable(p.Path))
		},
		remedy: do("Mount the folder, or move it back: it is looked for every few seconds.", ""),
	},
	noText(near(answer.NoText)),
	notNamed(near(answer.NotNamed)),
	{
		word: "changed", is: near(answer.Changed),
		text: func(t *why.Trace) string {
			f, p := nearIn(t, answer.Changed)
			return fmt.Sprintf("it was in %s in %s, which has changed or gone since it was indexed", watchedName(f), term.Printable(p.Path))
		},
		remedy: do("Ask again when the folder has been scanned; the log says if the file was left out.", "symdepot disk"),
	}, {
		word: "removed", is: func(t *why.Trace) bool { return len(t.Removed) > 0 },
		text: func(t *why.Trace) string {
			r := NewRemovedFile("", t.Removed[0])
			return fmt.Sprintf("it was here, in build %d, which was %s", r.Transaction, term.Printable(tombstone(r)))
		},
		remedy: removedRemedy,
	}, {
		word: "portable", is: func(t *why.Trace) bool { return len(t.Portable) > 0 },
		text: func(t *why.Trace) string {
			return fmt.Sprintf("%s is a portable PDB, of which there is no %s", term.Printable(t.Portable[0].Object.Name), functionsForm(t))
		},
		remedy: func(_ Traced, t *why.Trace) (text, command string) {
			return "Get the portable PDB itself; symdepot symbolicate -e reads it, with positions in IL.", get(ownPath(t.Portable[0]))
		},
	}, {
		word: "no-age", is: func(t *why.Trace) bool { return len(t.OtherAges) > 0 && t.Ageless },
		text: says("the GUID is here, but the request lacks the age, which is part of the id"),
		remedy: func(_ Traced, t *why.Trace) (text, command string) {
			return "Ask with the age: the depot has the file under this path.", get(ownPath(t.OtherAges[0]))
		},
	}, {
		word: "other-age", is: func(t *why.Trace) bool { return len(t.OtherAges) > 0 }, text: agesText,
		remedy: add("the PDB of exactly the build that runs"),
	}, {
		word: "other-role", is: either(outcome(answer.OtherRole), near(answer.OtherRole)), text: roleText,
		remedy: add("the other file of the build: the debugger asks for a different one than the depot has"),
	}, {
		word: "ambiguous", is: outcome(answer.Ambiguous), text: says("no file has that name, and several files have that id"),
		remedy: findByID,
	}, {
		word: "other-name", is: outcome(answer.OtherName),
		text: func(t *why.Trace) string {
			return "a file of another name has that id: " + hitText(firstHit(t, answer.OtherName))
		},
		remedy: findByID,
	}, {
		word: "other-product", is: func(t *why.Trace) bool { return len(t.Hidden) > 0 },
		text: says("the file is here, but in products that this caller does not see"),
		remedy: func(_ Traced, t *why.Trace) (text, command string) {
			return "Give the caller the right to read the product.", "symdepot token new --name NAME --scope read --product " + word(firstProduct(t))
		},
	}, {
		word: "other-id", is: func(t *why.Trace) bool { return len(t.Namesakes) > 0 },
		text: func(t *why.Trace) string {
			return fmt.Sprintf("the depot holds %s of other builds, none with this id", term.Printable(t.Request.Name))
		},
		remedy: func(q Traced, t *why.Trace) (text, command string) {
			const act = "add the build that has this id; the command lists the builds that are here"
			return byOwner(q, act), "symdepot find " + word(t.Request.Name)
		},
	}, {
		word: "paused", upstream: true,
		is:     unasked("paused"),
		text:   says("the depot lacks the file, and upstreams that may have it are not asked now, because they failed"),
		remedy: do("Ask again when the pause has ended; the server's log says why the upstream failed.", ""),
	}, {
		word: "remembered", upstream: true,
		is:     unasked("remembered"),
		text:   says("the depot lacks the file, and remembers that the upstreams lack it too"),
		remedy: do("If an upstream has got the file since, forget what is remembered.", "symdepot cache forget"),
	}, {
		word: "excluded", upstream: true,
		is:   unasked("excluded"),
		text: says("the depot lacks the file, and no upstream is asked for it"),
		remedy: do("The step sources says why: an upstream cannot have this kind of file, or its patterns in the configuration exclude the name.",
			"symdepot config check"),
	}, {
		word: "unknown", upstream: true, is: func(*why.Trace) bool { return true }, text: nothingText,
		remedy: add("the build that has this file"),
	},
}

// causeForm is the cause of requests for another form of a file than is here.
const causeForm = "form"

// causeOf returns why a request finds nothing.
func causeOf(t *why.Trace) *cause {
	return &causes[slices.IndexFunc(causes, func(c cause) bool { return c.is(t) })]
}

// noText is the cause of requests for a source file of which the depot has no text.
func noText(is func(*why.Trace) bool) cause {
	return cause{
		word: "no-text", is: is, text: says("the debug information names this source, but its text is not here"),
		remedy: func(q Traced, _ *why.Trace) (text, command string) {
			return byOwner(q, "add the build again with its sources"), ownerCommand(q, "symdepot add --sources DIR FOLDER-OF-THE-BUILD")
		},
	}
}

// notNamed is the cause of requests for a source file that a module does not have.
func notNamed(is func(*why.Trace) bool) cause {
	return cause{
		word: "not-named", is: is,
		text: func(t *why.Trace) string {
			return "the debug information of this module does not name the file " + quotedPart(t) + ", so it is never sent"
		},
		remedy: do("Compare the path with the names in the debug information: "+
			"on a server, the page of the file leads to the list of its sources.", ""),
	}
}

// verdict is true of requests with a verdict.
func verdict(v why.Verdict) func(*why.Trace) bool {
	return func(t *why.Trace) bool { return t.Verdict == v }
}

// outcome is true if a lookup had the outcome.
func outcome(o answer.LookupOutcome) func(*why.Trace) bool {
	return func(t *why.Trace) bool { return hasOutcome(t, o) }
}

// near is true if a watched folder has something of the outcome.
func near(o answer.LookupOutcome) func(*why.Trace) bool {
	return func(t *why.Trace) bool { _, p := nearIn(t, o); return p != nil }
}

// form is true if a form of the file is in the state.
func form(s why.FormState) func(*why.Trace) bool {
	return func(t *why.Trace) bool {
		return slices.ContainsFunc(t.Forms, func(f why.TracedForm) bool { return f.State == s })
	}
}

// unasked is true if one of the upstreams is not asked for the reason.
func unasked(reason string) func(*why.Trace) bool {
	return func(t *why.Trace) bool {
		for i := range t.Sources {
			u, why := &t.Sources[i], ""
			switch {
			case u.Excluded != "":
				why = "excluded"
			case u.Miss != nil:
				why = "remembered"
			case u.Open:
				why = "paused"
			}
			if why == reason {
				return true
			}
		}
		return false
	}
}

func either(a, b func(*why.Trace) bool) func(*why.Trace) bool {
	return func(t *why.Trace) bool { return a(t) || b(t) }
}

// heldInOtherForm is true if the file is here, but not what the request makes of it.
func heldInOtherForm(t *why.Trace) bool {
	f := t.Request.Form
	return hasOutcome(t, answer.Hit) || hasOutcome(t, answer.HigherAge) || f == layout.FormPointer || f == layout.FormAdmin
}

func hasOutcome(t *why.Trace, o answer.LookupOutcome) bool {
	return slices.ContainsFunc(t.Lookups, func(l answer.TracedLookup) bool { return l.Outcome == o })
}

// says returns a text that is the same for all requests, do a remedy of that kind.
func says(text string) func(*why.Trace) string { return func(*why.Trace) string { return text } }

func do(text, command string) func(Traced, *why.Trace) (string, string) {
	return func(Traced, *why.Trace) (string, string) { return text, command }
}

// get is the command that gets a path.
func get(path string) string { return "symdepot get " + word(path) }

func formRemedy(q Traced, t *why.Trace) (text, command string) {
	if t.NoMaker {
		return "Configure a transcoder, or run a worker with one: neither is here.",
			"symdepot work --server URL --token-file FILE --transcoder NAME=COMMAND"
	}
	return "Ask for the file itself.", get(plainPath(q, t))
}

func removedRemedy(q Traced, t *why.Trace) (text, command string) {
	if r := t.Removed[0].Removal; r.Until.After(q.Now) {
		act := "restore the build; that is possible until " + r.Until.UTC().Format("2006-01-02 15:04")
		return byOwner(q, act), ownerCommand(q, fmt.Sprintf("symdepot undo %d", r.Number))
	}
	return "The build cannot be restored. " + byOwner(q, "add the build again"), ownerCommand(q, addBuild)
}

func findByID(_ Traced, t *why.Trace) (text, command string) {
	return "Find the file by its id, and ask for it under its own name.", "symdepot find " + word(firstID(t))
}

func roleText(t *why.Trace) string {
	what := hitText(firstHit(t, answer.OtherRole))
	if f, p := nearIn(t, answer.OtherRole); p != nil && firstHit(t, answer.OtherRole) == nil {
		what = fmt.Sprintf("%s (%s) in %s", term.Printable(p.Object.Name), p.Object.Kind, watchedName(f))
	}
	return "a file with this id is here, but it is of another kind: " + what
}

func nothingText(t *why.Trace) string {
	if name := term.Printable(t.Request.Name); name != "" {
		return "nothing of the name " + name + " and nothing of this id is here"
	}
	return "nothing of this id is here"
}

// quotedPart is the section or the source file that a request names.
func quotedPart(t *why.Trace) string { return strconv.Quote(term.Printable(t.Request.Part)) }

func failure(t *why.Trace) string {
	switch {
	case errors.Is(t.Err, home.ErrNoDatabase):
		return "the index cannot be read now"
	case errors.Is(t.Err, content.ErrUnavailable):
		return "the stored files cannot be read now"
	}
	return "the depot cannot answer; its log says why"
}

// deniedText says what refuses, without the place of the depot, which not everybody who
// asks need know.
func deniedText(t *why.Trace) string {
	e, _ := errors.AsType[*account.DeniedError](t.Err)
	return "the file is stored, but the program may not read it: " + e.Inside()
}

func deniedRemedy(_ Traced, t *why.Trace) (text, command string) {
	e, _ := errors.AsType[*account.DeniedError](t.Err)
	return "Give the files of the depot back to their owner, on the machine of the depot; symdepot doctor tells of all.", e.Cure
}

// nearIn returns what comes near in a watched folder with an outcome; nil: nothing.
func nearIn(t *why.Trace, o answer.LookupOutcome) (*answer.TracedFolder, *answer.TracedPlace) {
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

func formText(t *why.Trace) string {
	switch t.Request.Form {
	case layout.FormPointer:
		return "pointers are answered only with --admin-files=//SERVER/SHARE, and only to files of the depot; " +
			"clients ask for the file itself first"
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

func agesText(t *why.Trace) string {
	n, _ := askedAge(&t.Request)
	asked := ageText(n)
	first := t.OtherAges[0].Object.Kind
	if first == symfile.PortablePDB {
		return fmt.Sprintf("you ask for age %s, the depot holds a portable PDB of the same GUID, which has the age %s",
			asked, symfile.PortableAge)
	}
	var ages []string
	for _, h := range t.OtherAges {
		age := ageText(h.Object.DebugID.Age)
		if h.Object.Kind != symfile.PortablePDB && !slices.Contains(ages, age) {
			ages = append(ages, age)
		}
	}
	held := "age " + ages[0]
	if last := len(ages) - 1; last > 0 {
		held = "ages " + strings.Join(ages[:last], ", ") + " and " + ages[last]
	}
	text := fmt.Sprintf("you ask for age %s, the depot holds %s of the same GUID", asked, held)
	if first == symfile.PDB {
		text += ": the PDB was linked again"
	}
	return text
}

// ageText prints an age as people read it, and as paths spell it where the two differ.
func ageText(age uint32) string {
	if age < 10 {
		return strconv.FormatUint(uint64(age), 10)
	}
	return fmt.Sprintf("%d (path: …%x)", age, age)
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
func functionsForm(t *why.Trace) string {
	if t.Request.Form == layout.FormGSYM {
		return "GSYM file"
	}
	return "Breakpad file (.sym)"
}

// ownPath is the path under which debuggers ask for an object.
func ownPath(h answer.LookupHit) string {
	if paths := layout.SymStore.Paths(h.Object); len(paths) > 0 {
		return paths[0]
	}
	return h.Object.Name
}

func firstHit(t *why.Trace, o answer.LookupOutcome) *answer.LookupHit {
	for _, l := range t.Lookups {
		if l.Outcome == o && len(l.Hits) > 0 {
			return &l.Hits[0]
		}
	}
	return nil
}

func hitText(h *answer.LookupHit) string {
	if h == nil {
		return "?"
	}
	return fmt.Sprintf("%s (%s)", term.Printable(h.Object.Name), h.Object.Kind)
}

func firstID(t *why.Trace) string {
	if len(t.Request.Lookups) > 0 {
		return t.Request.Lookups[0].ID
	}
	return ""
}

func firstProduct(t *why.Trace) string {
	if len(t.Hidden[0].Products) > 0 {
		return t.Hidden[0].Products[0]
	}
	return ""
}

// plainPath is the path of the file itself, for a request for a form of it.
func plainPath(q Traced, t *why.Trace) string {
	if t.Request.Name == "" || len(t.Request.Lookups) == 0 {
		return strings.TrimPrefix(q.Path, "/")
	}
	return t.Request.Name + "/" + t.Request.Lookups[0].ID + "/" + t.Request.Name
}
