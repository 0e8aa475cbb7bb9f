package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// repository is the address of the sources: that of the module.
const repository = "https://github.com/symdepot/symdepot"

// pages lists the files and folders that a user of the program may be led to, from the
// top of the repository. Archives and packages have them in the same places, so that the
// links between them are right.
var pages = []string{
	"README.md", "CHANGELOG.md", "ARCHITECTURE.md", "BENCHMARKS.md", "SECURITY.md", "docs", "ci",
	"packaging/compose", "packaging/monitoring", "testdata/README.md",
}

// pageLink is the begin of a link to another file in a page.
var pageLink = regexp.MustCompile(`\]\([^()\s#:]+`)

// writeBook copies the documentation into a folder. Links to files that stay in the
// repository, such as CONTRIBUTING.md, lead there.
func writeBook(to string) error {
	for _, top := range pages {
		err := filepath.WalkDir(filepath.FromSlash(top), func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || filepath.Ext(name) == ".go" { // docs has a package
				return err
			}
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if filepath.Ext(name) == ".md" {
				b = []byte(published(string(b), path.Dir(filepath.ToSlash(name))))
			}
			out := filepath.Join(to, name)
			if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
				return err
			}
			return os.WriteFile(out, b, 0o644)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// published returns the text of a page in a folder of the repository as it is published.
func published(text, folder string) string {
	return pageLink.ReplaceAllStringFunc(text, func(link string) string {
		target := path.Join(folder, strings.TrimPrefix(link, "]("))
		if slices.ContainsFunc(pages, func(top string) bool { return target == top || strings.HasPrefix(target, top+"/") }) {
			return link
		}
		return "](" + repository + "/blob/main/" + target
	})
}
