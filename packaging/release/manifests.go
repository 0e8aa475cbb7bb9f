package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// sumOf is a place for the checksum of a file, which is named by its end.
var sumOf = regexp.MustCompile(`@SHA256 ([^@]+)@`)

// manifests writes the manifests of package managers with the version and the
// checksums. The address of the downloads stays a placeholder, and so do checksums
// of platforms that were not built.
func (r *release) manifests() error {
	from := filepath.Join("packaging", "manifests")
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = regexp.MustCompile(`@VERSION@`).ReplaceAll(text, []byte(r.version.short))
		var failed error
		text = sumOf.ReplaceAllFunc(text, func(place []byte) []byte {
			sum, err := sha256Of(r.file(string(sumOf.FindSubmatch(place)[1])))
			switch {
			case os.IsNotExist(err):
				return place
			case err != nil:
				failed = fmt.Errorf("%s: %w", name, err)
			}
			return []byte(sum)
		})
		if failed != nil {
			return failed
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		to := filepath.Join(r.out, "manifests", rel)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
}
