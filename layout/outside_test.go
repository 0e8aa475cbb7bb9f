package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayoutsAreData: no other package chooses by layout in a switch, so that a
// new layout changes this package alone. A comparison with one layout is a rule
// of that layout's protocol and allowed.
func TestLayoutsAreData(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, n := range []string{"SymStore", "Index2", "SSQP", "BreakpadTree", "Unified", "GDB", "LLDB", "Debuginfod", "SlashSymbols", "Native"} {
		names[n] = true
	}
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if n := e.Name(); n != ".." && (strings.HasPrefix(n, ".") || n == "testdata" || n == "layout") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CaseClause)
			if !ok {
				return true
			}
			for _, x := range c.List {
				if call, ok := x.(*ast.CallExpr); ok {
					x = call.Fun
					if sel, ok := x.(*ast.SelectorExpr); ok && sel.Sel.Name == "Name" {
						x = sel.X
					}
				}
				sel, ok := x.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "layout" && names[sel.Sel.Name] {
					t.Errorf("%s: case layout.%s: let it be a property of the layout", fset.Position(c.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
