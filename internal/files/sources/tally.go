package sources

import (
	"fmt"
	"slices"
	"strings"
)

// Tally says what became of the names that a Collector looked for. A Collector without
// folders counts no names as missing: nobody has said where they are.
type Tally struct {
	Sources        int64    `json:"sources"`                   // names for which a file was taken
	SourceNames    int64    `json:"source_names"`              // names for which one was looked for
	MissingSources int64    `json:"missing_sources"`           // names for which none was found
	FirstMissing   []string `json:"missing_first,omitempty"`   // the first of them, those of the system last
	SourceWarnings []string `json:"source_warnings,omitempty"` // folders whose prefix fits no name
}

// maxFirstMissing is the number of names that a Tally lists.
const maxFirstMissing = 5

// Lines describes the tally to a person. There are no lines if no source was taken, and none
// is missing because no folder was named.
func (t Tally) Lines() (list []string) {
	if t.Sources == 0 && t.MissingSources == 0 {
		return nil
	}
	names := "names"
	if t.SourceNames == 1 {
		names = "name"
	}
	list = append(list, fmt.Sprintf("  sources        %d of the %d %s in the debug information", t.Sources, t.SourceNames, names))
	if t.MissingSources > 0 {
		list = append(list, fmt.Sprintf("  not found      %d of the sources:", t.MissingSources))
		for _, n := range t.FirstMissing {
			list = append(list, "    "+n)
		}
		if more := t.MissingSources - int64(len(t.FirstMissing)); more > 0 {
			list = append(list, fmt.Sprintf("    and %d more", more))
		}
	}
	return list
}

// tally counts, after Files.
func (c *Collector) tally(done map[string]bool) {
	names := c.wanted.list()
	c.result = Tally{Sources: int64(len(done)), SourceNames: int64(len(names))}
	if len(c.Roots) == 0 {
		return
	}
	var missing []string
	for _, n := range names {
		if !done[n.Name] && (len(missing) == 0 || missing[len(missing)-1] != n.Name) {
			missing = append(missing, n.Name)
		}
	}
	c.result.MissingSources = int64(len(missing))
	slices.SortStableFunc(missing, func(a, b string) int { return ofSystem(a) - ofSystem(b) })
	c.result.FirstMissing = missing[:min(len(missing), maxFirstMissing)]
	c.result.SourceWarnings = Unmatched(c.Roots, names)
}

// ofSystem is 1 for names of files that compilers and systems bring along, which nobody
// misses first, else 0.
func ofSystem(name string) int {
	p := strings.ToLower(Canonical(name))
	for _, in := range []string{"/usr/", "/rustc/", "/library/", "/applications/"} {
		if strings.HasPrefix(p, in) {
			return 1
		}
	}
	for _, part := range []string{"/program files", "/windows kits/", "/vctools/", "<"} {
		if strings.Contains(p, part) {
			return 1
		}
	}
	return 0
}

// Unmatched returns a warning for each folder with a prefix that no name has.
func Unmatched(roots []Root, names []Name) (warnings []string) {
	if len(names) == 0 {
		return nil
	}
	example := slices.MinFunc(names, func(a, b Name) int { return ofSystem(a.Name) - ofSystem(b.Name) }).Name
	for _, r := range roots {
		if r.Prefix == "" {
			continue
		}
		prefix := relative(r.Prefix)
		if !slices.ContainsFunc(names, func(n Name) bool {
			_, ok := newWantedName(n.Name).cutPrefix(prefix)
			return ok
		}) {
			warnings = append(warnings,
				fmt.Sprintf("--sources %s=%s: no name in the debug information begins with %[2]s; one of them is %s", r.Dir, r.Prefix, example))
		}
	}
	return warnings
}
