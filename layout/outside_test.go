package layout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ownProtocol lists the files of other packages that may ask whether a layout is
// this one: they speak its protocol, which a server of no other layout speaks.
var ownProtocol = map[string][]string{
	"internal/serve/server/symbol.go":             {"Debuginfod"}, // headers of the protocol
	"internal/remote/upstream/request.go":         {"Debuginfod"}, // headers of the protocol
	"internal/remote/upstream/http.go":            {"Debuginfod", "SymCache"},
	"internal/remote/upstream/store.go":           {"SymCache"},
	"internal/remote/sympath/probe.go":            {"Debuginfod"},   // has no index2.txt to ask for
	"internal/remote/sympath/sympath.go":          {"debuginfod"},   // a word of Microsoft's symbol paths
	"internal/run/mstools/mstools.go":             {"symstore"},     // the name of a program
	"internal/run/command/run.go":                 {"symstore"},     // the name of a command
	"internal/serve/intake/put.go":                {"BreakpadTree"}, // the last segment is the file's own name
	"internal/remote/tree/folder.go":              {"None", "Flat"},
	"internal/depot/importexport/import.go":       {"None"},
	"internal/depot/importexport/importbucket.go": {"None"}, // whether it is to be detected
	"internal/depot/needed/get.go":                {"Flat"},
	"internal/run/config/manual.go":               {"Auto"},
}

// TestLayoutsAreData: no other package switches by layout, compares layouts or
// lists their names, so that a new layout changes this package alone.
func TestLayoutsAreData(t *testing.T) {
	t.Parallel()
	o := &outside{t: t, fset: token.NewFileSet(), names: map[string]bool{}}
	for i := range tables {
		if name := Layout(i).Name(); name != "" && name != "auto" {
			o.names[name] = true
		}
	}
	files := 0
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
		f, err := parser.ParseFile(o.fset, path, nil, 0)
		if err != nil {
			return err
		}
		files++
		o.file = filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator)))
		ast.Inspect(f, o.node)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 200 {
		t.Errorf("%d files looked at, want the whole module", files)
	}
	for file, names := range ownProtocol {
		for _, name := range names {
			if !slices.Contains(o.used, file+" "+name) {
				t.Errorf("ownProtocol allows %s in %s, which does not use it", name, file)
			}
		}
	}
}

// outside looks for decisions by layout in one file after the other.
type outside struct {
	t     *testing.T
	fset  *token.FileSet
	names map[string]bool
	file  string
	used  []string
}

func (o *outside) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CaseClause:
		for _, x := range n.List {
			o.decided(x, "case")
		}
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			o.decided(n.X, n.Op.String())
			o.decided(n.Y, n.Op.String())
		}
	case *ast.CompositeLit:
		list := 0
		for _, x := range n.Elts {
			if kv, ok := x.(*ast.KeyValueExpr); ok {
				x = kv.Key
			}
			if _, word := x.(*ast.BasicLit); !word && o.constant(x) != "" {
				list++
			}
		}
		if list > 1 {
			o.t.Errorf("%s: a list of layouts, want layout.All, Servers or Folders, or a property of the layout", o.fset.Position(n.Pos()))
		}
	case *ast.BasicLit:
		// Help texts and struct tags.
		if n.Kind == token.STRING && o.mentioned(n.Value) > 4 {
			o.t.Errorf("%s: a list of names of layouts, want layout.Names", o.fset.Position(n.Pos()))
		}
	}
	return true
}

// constant is the name of the constant of layout that x is, or is the Name of; or
// the name of a layout that x is as a string; else "".
func (o *outside) constant(x ast.Expr) string {
	if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if s, err := strconv.Unquote(lit.Value); err == nil && o.names[s] {
			return s
		}
		return ""
	}
	if call, ok := x.(*ast.CallExpr); ok {
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Name" {
			x = sel.X
		}
	}
	sel, ok := x.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if id, ok := sel.X.(*ast.Ident); !ok || id.Name != "layout" {
		return ""
	}
	if slices.Contains([]string{"None", "SymStore", "Index2", "SSQP", "BreakpadTree", "Unified", "GDB", "LLDB", "Debuginfod", "SlashSymbols", "Native", "Auto", "SymCache", "Flat"}, sel.Sel.Name) {
		return sel.Sel.Name
	}
	return ""
}

// decided complains about an operand that is a layout, unless it is allowed.
func (o *outside) decided(x ast.Expr, how string) {
	name := o.constant(x)
	if name == "" {
		return
	}
	if slices.Contains(ownProtocol[o.file], name) {
		o.used = append(o.used, o.file+" "+name)
		return
	}
	o.t.Errorf("%s: %s %s, want a property of the layout", o.fset.Position(x.Pos()), how, name)
}

// mentioned counts the layouts that a text names.
func (o *outside) mentioned(text string) int {
	seen := map[string]bool{}
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' && (r < '0' || r > '9') }) {
		if o.names[w] {
			seen[w] = true
		}
	}
	return len(seen)
}
