package symdepot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// mostMethods is how many methods a type may have, with those promoted from
// embedded types of this module. A type with more holds several kinds of state:
// give each a type of its own.
const mostMethods = 60

// typeName is a named type of this module.
type typeName struct{ dir, name string }

// typeSet is what the source files say of all types.
type typeSet struct {
	methods  map[typeName]map[string]bool
	embedded map[typeName][]typeName // struct fields without a name, and targets of aliases
}

// TestMethods counts the methods of all types. Files for all systems count, each
// method once.
func TestMethods(t *testing.T) {
	t.Parallel()
	set := typeSet{map[typeName]map[string]bool{}, map[typeName][]typeName{}}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err == nil {
			set.read(path.Dir(filepath.ToSlash(name)), file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(set.methods) < 100 {
		t.Fatalf("%d types with methods were found, want hundreds: the test does not see the source files", len(set.methods))
	}
	for name := range set.methods {
		if n := len(set.all(name, 0)); n > mostMethods {
			t.Errorf("%s.%s has %d methods, want at most %d", name.dir, name.name, n, mostMethods)
		}
	}
}

// read adds the declarations of a file.
func (s typeSet) read(dir string, file *ast.File) {
	imports := map[string]string{} // folders of this module by the names of their packages
	for _, i := range file.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		if ours, ok := strings.CutPrefix(p, module+"/"); ok {
			name := path.Base(ours)
			if i.Name != nil {
				name = i.Name.Name
			}
			imports[name] = ours
		}
	}
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv != nil {
				if to, ok := named(dir, imports, d.Recv.List[0].Type); ok {
					if s.methods[to] == nil {
						s.methods[to] = map[string]bool{}
					}
					s.methods[to][d.Name.Name] = true
				}
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if ts, ok := spec.(*ast.TypeSpec); ok {
					s.readType(typeName{dir, ts.Name.Name}, imports, ts)
				}
			}
		}
	}
}

func (s typeSet) readType(name typeName, imports map[string]string, ts *ast.TypeSpec) {
	if ts.Assign.IsValid() {
		if to, ok := named(name.dir, imports, ts.Type); ok {
			s.embedded[name] = append(s.embedded[name], to)
		}
		return
	}
	st, ok := ts.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, f := range st.Fields.List {
		if to, ok := named(name.dir, imports, f.Type); ok && len(f.Names) == 0 {
			s.embedded[name] = append(s.embedded[name], to)
			if s.methods[name] == nil {
				s.methods[name] = map[string]bool{}
			}
		}
	}
}

// all returns the methods of a type with the promoted ones.
func (s typeSet) all(name typeName, depth int) map[string]bool {
	list := maps.Clone(s.methods[name])
	if list == nil {
		list = map[string]bool{}
	}
	if depth < 10 {
		for _, e := range s.embedded[name] {
			maps.Copy(list, s.all(e, depth+1))
		}
	}
	return list
}

// named resolves the name of a type of this module, or of a pointer to one.
func named(dir string, imports map[string]string, e ast.Expr) (typeName, bool) {
	switch e := e.(type) {
	case *ast.Ident:
		return typeName{dir, e.Name}, true
	case *ast.StarExpr:
		return named(dir, imports, e.X)
	case *ast.ParenExpr:
		return named(dir, imports, e.X)
	case *ast.IndexExpr:
		return named(dir, imports, e.X)
	case *ast.IndexListExpr:
		return named(dir, imports, e.X)
	case *ast.SelectorExpr:
		if p, ok := e.X.(*ast.Ident); ok {
			to, ours := imports[p.Name]
			return typeName{to, e.Sel.Name}, ours
		}
	}
	return typeName{}, false
}
