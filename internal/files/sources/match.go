package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/symfile"
)

// How says how a file was found for a name.
type How uint8

// The ways, the best first.
const (
	Exact     How = iota + 1 // the paths are equal
	Rewritten                // after the prefix of the name was replaced
	Suffix                   // no other file has as many equal last segments
)

// String returns the way as a word.
func (h How) String() string {
	switch h {
	case Exact:
		return "exact"
	case Rewritten:
		return "rewritten"
	case Suffix:
		return "suffix"
	}
	return "none"
}

// Rewrite replaces the prefix Old of names, which must end at a segment, by New: the path
// below which the files of a tree are. An empty New means the root of the tree.
type Rewrite struct{ Old, New string }

// Found is a file for a name.
type Found struct {
	Name    int    // index of the name
	Path    string // of the file, as it was given
	How     How
	Verdict Verdict // Unverified until the sum was compared
}

// Refusal is a name for which files were found, but none is certain enough.
type Refusal struct {
	Name   int
	Reason string   // for people
	Paths  []string // the files, at most 8
}

// Matcher finds out which files belong to the names of an object.
type Matcher struct {
	names    []Name
	wanted   []wanted
	rewrites []Rewrite
	bases    map[string][]int // by folded base name
}

// wanted is a name for comparisons.
type wanted struct {
	path string // canonical, without the leading slash
	fold bool   // letter case does not matter: a path of Windows
}

func newWantedName(name string) wanted {
	c := relative(name)
	return wanted{c, isDrive(firstSegment(c)) || strings.Contains(name, `\`)}
}

// maxTied is the number of files that a Refusal names, and of which sums are compared.
const maxTied = 8

// NewMatcher returns a Matcher for the names of an object. The first rewrite that applies
// to a name counts.
func NewMatcher(names []Name, rewrites ...Rewrite) *Matcher {
	m := &Matcher{names: names, wanted: make([]wanted, len(names)), bases: map[string][]int{}}
	for _, r := range rewrites {
		m.rewrites = append(m.rewrites, Rewrite{relative(r.Old), relative(r.New)})
	}
	for i, n := range names {
		m.wanted[i] = newWantedName(n.Name)
		base := symfile.Fold(symfile.BaseName(m.wanted[i].path))
		m.bases[base] = append(m.bases[base], i)
	}
	return m
}

// relative is the canonical path without the leading slash.
func relative(path string) string { return strings.TrimPrefix(Canonical(path), "/") }

// Wants reports whether a file with this base name may belong to a name. Files for which
// it is false need not be given to Match.
func (m *Matcher) Wants(base string) bool {
	_, ok := m.bases[symfile.Fold(base)]
	return ok
}

// Match finds the files for names: the one with an equal path, or with the path that a
// rewrite makes, or else the one with most equal last segments. The last one must have two
// equal segments, or consist of them; of two files that are equally good, and of two
// different names for which one file is equally good, none is taken. Paths are those of
// files in a tree or an archive, with slashes or backslashes. The results are in the order
// of the names; names without a file are in none of them.
func (m *Matcher) Match(paths iter.Seq[string]) ([]Found, []Refusal) {
	best := m.candidates(paths)
	m.ambiguous(best)
	var found []Found
	var refused []Refusal
	for i, c := range best {
		switch {
		case c == nil:
		case len(c.rivals) > 0:
			other := m.names[c.rivals[0]].Name
			refused = append(refused, Refusal{i, "the file may as well be that of " + other, c.given()})
		case c.count == 1:
			found = append(found, Found{Name: i, Path: c.paths[0].given, How: c.how})
		default:
			refused = append(refused, Refusal{i, fmt.Sprintf("%d files match equally well", c.count), c.given()})
		}
	}
	return found, refused
}

// candidate is what was found for a name.
type candidate struct {
	how    How
	score  int        // equal segments
	paths  []treePath // at most maxTied
	count  int        // of these paths, including those that were not kept
	rivals []int      // other names for which the path is as good
}

func (c *candidate) given() (list []string) {
	for _, p := range c.paths {
		list = append(list, p.given)
	}
	return list
}

// treePath is a file: its path as it was given, and its key.
type treePath struct{ given, key string }

// reversed is the key of a relative canonical path: its segments from the last to the
// first, each with a slash behind. Paths with equal last segments have equal beginnings of
// their keys.
func reversed(path string) string {
	var key strings.Builder
	key.Grow(len(path) + 1)
	for path != "" {
		i := strings.LastIndexByte(path, '/')
		key.WriteString(path[i+1:])
		key.WriteByte('/')
		path = path[:max(i, 0)]
	}
	return key.String()
}

// pathIndex is all files, sorted by their keys.
type pathIndex []treePath

// newPathIndex sorts files. Of several spellings of a path the first is kept.
func newPathIndex(list []treePath) pathIndex {
	sorting.Stable(list, func(a, b treePath) int { return strings.Compare(a.key, b.key) })
	return slices.CompactFunc(list, func(a, b treePath) bool { return a.key == b.key })
}

// fold is the index without letter case.
func (x pathIndex) fold() pathIndex {
	list := slices.Clone(x)
	for i := range list {
		list[i].key = symfile.Fold(list[i].key)
	}
	sorting.Stable(list, func(a, b treePath) int { return strings.Compare(a.key, b.key) })
	return list
}

// from returns the number of the first file whose key is not less.
func (x pathIndex) from(key string) int {
	i, _ := slices.BinarySearchFunc(x, key, func(p treePath, key string) int { return strings.Compare(p.key, key) })
	return i
}

// with returns the files whose keys are equal, or begin so.
func (x pathIndex) with(key string, begin bool) pathIndex {
	i := x.from(key)
	if begin {
		return x[i:x.from(key[:len(key)-1]+"0")] // the character after the slash
	}
	n := i
	for n < len(x) && x[n].key == key {
		n++
	}
	return x[i:n]
}

// longest returns the longest beginning of a key that is that of a file's key too, and
// the number of its segments.
func (x pathIndex) longest(key string) (string, int) {
	best := 0
	at := x.from(key)
	for _, i := range []int{at - 1, at} {
		if i < 0 || i >= len(x) {
			continue
		}
		n, segment := 0, 0
		for n < len(key) && n < len(x[i].key) && key[n] == x[i].key[n] {
			if n++; key[n-1] == '/' {
				segment = n
			}
		}
		best = max(best, segment)
	}
	return key[:best], strings.Count(key[:best], "/")
}

// candidates finds the best paths of each name.
func (m *Matcher) candidates(paths iter.Seq[string]) []*candidate {
	var list []treePath
	for given := range paths {
		if path := relative(given); m.Wants(symfile.BaseName(path)) {
			list = append(list, treePath{given, reversed(path)})
		}
	}
	exact := newPathIndex(list)
	var folded pathIndex
	if slices.ContainsFunc(m.wanted, func(w wanted) bool { return w.fold }) {
		folded = exact.fold()
	}
	best := make([]*candidate, len(m.names))
	for i, w := range m.wanted {
		if w.fold {
			best[i] = m.find(w, folded)
			continue
		}
		best[i] = m.find(w, exact)
	}
	return best
}

// find finds the best files for a name; nil if there is none.
func (m *Matcher) find(w wanted, x pathIndex) *candidate {
	found := func(how How, score int, list pathIndex) *candidate {
		if len(list) == 0 {
			return nil
		}
		return &candidate{how: how, score: score, paths: slices.Clone(list[:min(len(list), maxTied)]), count: len(list)}
	}
	key := w.key(w.path)
	if c := found(Exact, 0, x.with(key, false)); c != nil {
		return c
	}
	for _, r := range m.rewrites {
		rest, ok := w.cutPrefix(r.Old)
		if !ok {
			continue
		}
		if c := found(Rewritten, 0, x.with(w.key(strings.TrimPrefix(r.New+"/"+rest, "/")), false)); c != nil {
			return c
		}
		break
	}
	// Two equal segments are needed, or a path that has one only.
	common, n := x.longest(key)
	if n == 0 {
		return nil
	}
	return found(Suffix, n, x.with(common, n >= 2))
}

// key is the key of a path in the index for this name.
func (w wanted) key(path string) string {
	if w.fold {
		path = symfile.Fold(path)
	}
	return reversed(path)
}

func (w wanted) same(a, b string) bool { return a == b || w.fold && strings.EqualFold(a, b) }

// cutPrefix removes a prefix that ends at a segment.
func (w wanted) cutPrefix(old string) (string, bool) {
	if old == "" {
		return w.path, true
	}
	if len(w.path) <= len(old) || w.path[len(old)] != '/' || !w.same(w.path[:len(old)], old) {
		return "", false
	}
	return w.path[len(old)+1:], true
}

// ambiguous finds files that are the best of several names by their suffix. The one with
// most equal segments keeps it. Names that are the same but for a missing beginning share
// it.
func (m *Matcher) ambiguous(best []*candidate) {
	users := map[string][]int{}
	for i, c := range best {
		if c != nil && c.count == 1 {
			users[c.paths[0].given] = append(users[c.paths[0].given], i)
		}
	}
	for _, list := range users {
		slices.SortStableFunc(list, func(i, j int) int {
			return cmp.Or(cmp.Compare(best[i].how, best[j].how), cmp.Compare(best[j].score, best[i].score))
		})
		first := list[0]
		top, tie := best[first], -1
		for _, i := range list[1:] {
			c := best[i]
			if c.how != Suffix || m.alike(i, first) {
				continue
			}
			c.rivals = append(c.rivals, first)
			if top.how == Suffix && c.score == top.score {
				tie = i
			}
		}
		if tie < 0 {
			continue
		}
		for _, i := range list {
			if c := best[i]; len(c.rivals) == 0 && c.score == top.score {
				c.rivals = append(c.rivals, tie)
			}
		}
	}
}

// alike reports whether one name is the end of the other.
func (m *Matcher) alike(i, j int) bool {
	a, b := m.wanted[i], m.wanted[j]
	if len(a.path) < len(b.path) {
		a, b = b, a
	}
	fold := wanted{fold: a.fold || b.fold}
	return strings.HasPrefix(fold.key(a.path), fold.key(b.path))
}

// Resolve matches files to names and compares their contents with the sums of the names. A
// file that a sum contradicts is refused; of several files that match equally well, the
// one that a sum proves is taken. open opens a file by its path; one with an error that
// wraps ErrTooLarge or fs.ErrNotExist is refused. The error is another one of open or of
// reading, or that of ctx.
func (m *Matcher) Resolve(
	ctx context.Context, paths iter.Seq[string], open func(path string) (io.ReadCloser, error),
) ([]Found, []Refusal, error) {
	found, refused := m.Match(paths)
	kept := found[:0]
	for _, f := range found {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		v, err := m.verify(f.Name, f.Path, open)
		switch {
		case refusable(err):
			refused = append(refused, Refusal{f.Name, err.Error(), []string{f.Path}})
			continue
		case err != nil:
			return nil, nil, err
		case v == Contradicted:
			refused = append(refused, Refusal{f.Name, "its " + m.names[f.Name].Alg + " is not that in the debug information", []string{f.Path}})
			continue
		}
		f.Verdict = v
		kept = append(kept, f)
	}
	rest := refused[:0]
	for _, r := range refused {
		f, err := m.prove(ctx, r, open)
		if err != nil {
			return nil, nil, err
		}
		if f == nil {
			rest = append(rest, r)
			continue
		}
		kept = append(kept, *f)
	}
	sorting.By(kept, func(a, b Found) int { return cmp.Compare(a.Name, b.Name) })
	sorting.By(rest, func(a, b Refusal) int { return cmp.Compare(a.Name, b.Name) })
	return kept, rest, nil
}

func refusable(err error) bool { return errors.Is(err, ErrTooLarge) || errors.Is(err, fs.ErrNotExist) }

// prove takes the file of a refusal that the sum of the name proves, if there is one.
func (m *Matcher) prove(ctx context.Context, r Refusal, open func(path string) (io.ReadCloser, error)) (*Found, error) {
	if m.names[r.Name].Alg == "" {
		return nil, nil
	}
	for _, path := range r.Paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		v, err := m.verify(r.Name, path, open)
		if err != nil && !refusable(err) {
			return nil, err
		}
		if err == nil && v == Verified {
			return &Found{Name: r.Name, Path: path, How: Suffix, Verdict: v}, nil
		}
	}
	return nil, nil
}

// verify compares a file with the sum of a name.
func (m *Matcher) verify(name int, path string, open func(path string) (io.ReadCloser, error)) (v Verdict, err error) {
	n := m.names[name]
	if n.Alg == "" {
		return Unverified, nil
	}
	r, err := open(path)
	if err != nil {
		return Unverified, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	check := n.Check()
	if _, err := io.Copy(check, limit(r, MaxFile)); err != nil {
		return Unverified, err
	}
	return check.Verdict(), nil
}
