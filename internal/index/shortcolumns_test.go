package index

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// rawColumn finds a column of an object o that may be stored short, and what follows it.
var rawColumn = regexp.MustCompile(`\bo\.(name|code_id|debug_id|build_id|arch|features)\b(.{0,28})`)

// asStored are the uses of such a column that hold for short forms too.
var asStored = []string{" <> ''", " = ''", " = k.short", " IN (k.name, k.short)"}

// TestShortColumns: queries outside record, which expands them, read the columns that may be stored short
// through its expressions (compact.go), and never as they are.
func TestShortColumns(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			filepath.Dir(path) == "record" {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		for n, line := range strings.Split(string(text), "\n") {
			code, _, _ := strings.Cut(line, "//")
			for _, m := range rawColumn.FindAllStringSubmatch(code, -1) {
				if !strings.ContainsAny(code, "\"`") && !strings.Contains(code, "SELECT") && !strings.Contains(code, "WHERE") {
					continue // a field of a Go value
				}
				stored := false
				for _, use := range asStored {
					stored = stored || strings.HasPrefix(m[2], use)
				}
				if !stored {
					t.Errorf("%s:%d reads o.%s as it is stored; use the expression of record: %s", path, n+1, m[1], strings.TrimSpace(line))
				}
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files were read, %v; want those of the index", files, err)
	}
}
