package scan

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/symfile"
)

// Labels name the files below some roots. A label is a relative path with slashes. It does
// not depend on the folder of the build: the same build has the same labels elsewhere.
type Labels struct{ roots []labelled }

// labelled is a root, and how the labels of its files begin.
type labelled struct{ path, label string }

// NewLabels chooses how the labels of the files below each root begin: as the root was
// given, but relative. Two roots of one name get different ones.
func NewLabels(roots []string) Labels {
	var out []labelled
	taken := map[string]bool{}
	for _, path := range roots {
		clean := filepath.Clean(path)
		label := filepath.ToSlash(clean)
		if !filepath.IsLocal(clean) {
			label = filepath.Base(clean)
			if abs, err := filepath.Abs(clean); err == nil {
				label = filepath.Base(abs)
			}
			if label == string(filepath.Separator) {
				label = "."
			}
		}
		plain := label
		for n := 2; taken[label] && !slices.ContainsFunc(out, func(r labelled) bool { return r.path == clean }); n++ {
			label = "~" + strconv.Itoa(n) + "/" + plain // the name of a file stays
		}
		taken[label] = true
		out = append(out, labelled{clean, label})
	}
	return Labels{out}
}

// Of returns the label of a file of a walk over the roots, by the path and the name that a
// File has.
func (l Labels) Of(path, name string) string {
	path = strings.TrimSuffix(path, symfile.BaseName(path)) + name
	best, label := -1, ""
	for _, root := range l.roots {
		rest, ok := strings.CutPrefix(path, root.path)
		switch {
		case root.path == ".":
			rest, ok = path, !filepath.IsAbs(path)
		case ok && rest != "" && !os.IsPathSeparator(root.path[len(root.path)-1]) &&
			!os.IsPathSeparator(rest[0]) && !strings.HasPrefix(rest, Separator):
			// A compressed file is a root: its name lacks the suffix now.
			ok = false
		}
		if ok && len(root.path) > best {
			best, label = len(root.path), strings.TrimPrefix(root.label+"/"+strings.TrimLeft(filepath.ToSlash(rest), "/"), "./")
			if strings.HasPrefix(rest, Separator) {
				label = root.label + rest
			}
			label = strings.TrimSuffix(label, "/")
		}
	}
	if best < 0 {
		label = name
	}
	return Label(label)
}

// maxLabel is the length of the longest label, in bytes.
const maxLabel = 1024

// Label makes a label of a path: relative, with slashes and without "..", control
// characters and backslashes, which members of archives may have. Of a long path
// the end remains.
func Label(path string) string {
	path = strings.Map(func(c rune) rune {
		switch {
		case c == '\\':
			return '/'
		case c < 0x20 || c == 0x7f:
			return '_'
		}
		return c
	}, strings.ToValidUTF8(path, "_"))
	segs := slices.DeleteFunc(strings.Split(path, "/"), func(s string) bool { return s == "" || s == "." || s == ".." })
	for len(segs) > 1 && len(strings.Join(segs, "/")) > maxLabel {
		segs = segs[1:]
	}
	return strings.Join(segs, "/")
}
