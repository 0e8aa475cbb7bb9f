package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// pages lists the files and folders that a reader of the documentation may be led to,
// from the top of the repository. Archives and packages have them in the same places,
// so that the links between them are right.
var pages = []string{
	"README.md", "CHANGELOG.md", "ARCHITECTURE.md", "BENCHMARKS.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "ci",
	"packaging/README.md", "packaging/compose", "packaging/linux", "packaging/macos", "packaging/monitoring",
	"testdata/README.md",
}

// book returns the files of the documentation, sorted by name.
func book() ([]entry, error) {
	var list []entry
	for _, top := range pages {
		err := filepath.WalkDir(filepath.FromSlash(top), func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				list = append(list, entry{filepath.ToSlash(name), name, 0o644})
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, byName)
	return list, nil
}

// copyBook copies the documentation into a folder.
func copyBook(to string) error {
	list, err := book()
	if err != nil {
		return err
	}
	for _, e := range list {
		b, err := os.ReadFile(e.path)
		if err != nil {
			return err
		}
		name := filepath.Join(to, filepath.FromSlash(e.name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
