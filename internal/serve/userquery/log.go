package userquery

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// Limits of ParseLog.
const (
	// MaxLog is how many bytes of a log are read.
	MaxLog = 64 << 10
	// MaxAsks is how many requests are returned.
	MaxAsks = 200
)

// The forms in which logs name requests.
var (
	inURL     = pattern(`(?i)https?://[^\s"'<>|*;,]+`)
	inRequest = pattern(`(?i)\b(?:HTTPGET:|GET|HEAD)\s+(/[^\s"'?]+)`)
	inDisk    = pattern(`(?i)(?:\b[a-z]:|\\)\\[^*?"<>|\t]+`)
	inFind    = pattern(`(?i)debuginfod[-_]find(?:[-_]| )(debuginfo|executable)\s+([0-9a-f]{16,128})\b`)
	inBuildID = pattern(`(?i)\bbuild[- ]?id(?:\[[a-z0-9/]+\])?\s*[=:]?\s*([0-9a-f]{16,128})\b`)
	inPairID  = pattern(`(?i)(?:^|[\s("\[{,=:])\{?` +
		`([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\}?(?:-?[0-9a-f]{1,8})?|[0-9a-f]{32,64})` +
		`(?:$|[\s)"\]},;:])`)
	inName = pattern(`[^\s"'()\[\]{}<>,;|]+`)
)

// pattern returns a function that compiles an expression when it is first called: what few
// processes need must not make the start of all of them longer.
func pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// Words by which logs say whether a file was found; the first that a line has counts.
var outcomes = []struct {
	word string
	is   Outcome
}{
	{"not found", Missing}, {"not_found", Missing}, {"80190194", Missing}, {"no such file", Missing},
	{"mismatched", Missing}, {"failed", Missing},
	{"cannot find", Missing}, {"could not find", Missing}, {"unable to locate", Missing}, {" 404", Missing},
	{"missing", Missing}, {"symnone", Missing},
	{"http_status_ok", Got}, {"result: 0x00000000", Got}, {" 200 ", Got}, {"passed", Got}, {"from symsrv", Got},
	{"- ok", Got}, {"pdb matched:  true", Got},
}

// ParseLog reads the log of a debugger: what !sym noisy prints in WinDbg, symchk /v,
// the lines of debuginfod's clients and of LLDB, or the access log of a server. It
// returns the requests in it, each once, in the order in which they first occur.
// complete is false if the limits cut the log or the list.
func ParseLog(text string) (list []Ask, complete bool) {
	complete = len(text) <= MaxLog
	if !complete {
		text = text[:MaxLog]
	}
	l := log{at: map[string]int{}, last: -1}
	for line := range strings.Lines(text) {
		l.number++
		l.line(strings.TrimRight(line, "\r\n"))
	}
	return l.list, complete && !l.full
}

// log is the state of ParseLog.
type log struct {
	number int
	list   []Ask
	at     map[string]int // places in list, by request
	last   int            // the place of the request that was named last; -1: none
	full   bool

	// symsrv's BYINDEX names the symbol path, the file and the key in the lines
	// below it.
	index bool
	name  string
	// symchk /v names the parts of an id line by line.
	pdb, guid string
}

func (l *log) line(line string) {
	found := l.named(line)
	lower := strings.ToLower(line)
	for _, o := range outcomes {
		if !strings.Contains(lower, o.word) {
			continue
		}
		if l.last >= 0 &&
			(found || strings.Contains(lower, "result") || strings.Contains(lower, "response") ||
				strings.Contains(lower, "status") || strings.HasPrefix(lower, "not found")) {
			if a := &l.list[l.last]; a.Outcome != Got {
				a.Outcome = o.is
			}
		}
		break
	}
}

// named adds the requests that a line names.
func (l *log) named(line string) bool {
	if l.ofIndex(line) || l.ofSymchk(line) {
		return true
	}
	found := false
	for _, u := range inURL().FindAllString(line, 8) {
		a, err := Parse(strings.TrimRight(u, ".):]'"))
		found = err == nil && l.addBelow(a) || found
	}
	if found {
		return true
	}
	for _, m := range inRequest().FindAllStringSubmatch(line, 4) {
		a, err := ofPath(m[1])
		found = err == nil && l.addBelow(a) || found
	}
	if found {
		return true
	}
	for _, p := range inDisk().FindAllString(line, 4) {
		p, _, _ = strings.Cut(p, " - ")
		if a, ok := onDisk(strings.TrimSpace(p)); ok {
			found = l.add(a) || found
		}
	}
	if found {
		return true
	}
	if m := inFind().FindStringSubmatch(line); m != nil {
		a, ok := buildID(m[2], strings.ToLower(m[1]))
		return ok && l.add(a)
	}
	if m := inBuildID().FindStringSubmatch(line); m != nil {
		a, ok := buildID(m[1], "debuginfo")
		return ok && l.add(a)
	}
	return l.pair(line)
}

// addBelow adds a request whose path may have the base path of a server in front.
func (l *log) addBelow(a Ask) bool {
	for segs := a.Segments; len(segs) >= 2; segs = segs[1:] {
		req, err := layout.Route(segs)
		if err != nil {
			continue
		}
		if len(segs) > 3 {
			// What may be missing without a change of the request is the base path.
			if rest, err := layout.Route(segs[1:]); err == nil && reflect.DeepEqual(rest.Lookups, req.Lookups) {
				continue
			}
		}
		a.Segments = segs[strings.Count(req.Prefix, "/"):]
		return l.add(a)
	}
	return false
}

// ofIndex reads the lines below BYINDEX.
func (l *log) ofIndex(line string) bool {
	if strings.Contains(line, "BYINDEX:") {
		l.index, l.name = true, ""
		return false
	}
	if !l.index {
		return false
	}
	word := strings.TrimSpace(line)
	switch {
	case strings.Contains(word, ":") && !strings.ContainsAny(word, `*\/`):
		l.index = false
	case word == "" || strings.ContainsAny(word, `*\/`): // the symbol path
	case l.name == "":
		l.name = word
	default:
		l.index = false
		a, ok := Pair(l.name, word)
		return ok && l.add(a)
	}
	return false
}

// ofSymchk reads the details of an image that symchk /v lists.
func (l *log) ofSymchk(line string) bool {
	key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "[SYMCHK] "), ":")
	if !ok {
		return false
	}
	value = strings.TrimSpace(value)
	switch strings.TrimSpace(key) {
	case "CV Data":
		l.pdb, l.guid = value, ""
	case "PDB7 Sig":
		l.guid = value
	case "Age":
		if l.pdb == "" || l.guid == "" {
			return false
		}
		age := strings.TrimPrefix(value, "0x")
		a, ok := Pair(l.pdb, cleanID(l.guid)+age)
		l.pdb, l.guid = "", ""
		return ok && l.add(a)
	}
	return false
}

// pair adds the request for a name and an id in one line.
func (l *log) pair(line string) bool {
	line, a, ok := ofDumpbin(line)
	if ok {
		return l.add(a)
	}
	m := inPairID().FindStringSubmatchIndex(line)
	if m == nil {
		return false
	}
	id, before, after := line[m[2]:m[3]], line[:m[2]], line[m[3]:]
	names := inName().FindAllString(before, 64)
	slices.Reverse(names)
	for _, n := range append(names, inName().FindAllString(after, 64)...) {
		base := symfile.BaseName(strings.ReplaceAll(strings.TrimRight(n, ".:"), `\`, "/"))
		if !strings.ContainsAny(strings.TrimRight(n, ".:"), `./\`) || base == "" || isHex(base) || !symfile.ValidName(base) {
			continue
		}
		if a, ok := Pair(base, id); ok {
			return l.add(a)
		}
	}
	return false
}

// add adds a request, or counts it again.
func (l *log) add(a Ask) bool {
	req, err := layout.Route(a.Segments)
	if err != nil || len(req.Lookups) == 0 {
		return false
	}
	if (req.Form == layout.FormCabinet || req.Form == layout.FormPointer) && req.Name != "" {
		// Clients ask for other forms of one file, one after the other.
		if plain, ok := Pair(req.Name, req.Lookups[0].ID); ok {
			a.Segments = plain.Segments
			if req, err = layout.Route(a.Segments); err != nil {
				return false
			}
		}
	}
	key := fmt.Sprint(req.Form, req.Part, req.Lookups)
	if at, ok := l.at[key]; ok {
		l.last = at
		l.list[at].Times++
		return true
	}
	if len(l.list) == MaxAsks {
		l.full = true
		return false
	}
	a.Line, a.Times = l.number, 1
	l.at[key], l.last = len(l.list), len(l.list)
	l.list = append(l.list, a)
	return true
}
