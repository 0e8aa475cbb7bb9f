package symdepot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// maySleep are the test files that may wait for time to pass, with the reasons.
var maySleep = map[string]string{
	"test/bench/pagesbench_test.go":                "a load of fixed requests per second is made of time",
	"internal/run/command/commandtest/upstream.go": "a slow upstream, and a load of fixed requests per second, are made of time",
	"internal/serve/server/conns_test.go":          "a network with a delay is made of time",
	"internal/base/symtest/await.go":               "the only place that polls: other processes report no events",
}

// helperRooms are packages of which all files are code of tests.
var helperRooms = []string{"internal/base/symtest", "internal/run/command/commandtest"}

// sleeps are the calls that wait for time to pass.
var sleeps = []string{"Sleep", "After", "Tick"}

// testCode is the test code of one package.
type testCode struct {
	fset  *token.FileSet
	files []*ast.File
	// starters are the functions that run a function that they get in a bubble of
	// testing/synctest.
	starters map[string]bool
	// inBubble are the functions that only bubbles call.
	inBubble map[string]bool
}

// TestNoSleeping: tests wait for events. They do not sleep, outside of the
// bubbles of testing/synctest, where sleeping takes no time. A limit on the wait
// for an event is a case with time.After of a select.
func TestNoSleeping(t *testing.T) {
	t.Parallel()
	packages := map[string]*testCode{}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (strings.HasPrefix(e.Name(), ".") || e.Name() == "testdata"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, "_test.go") && (!slices.Contains(helperRooms, path.Dir(name)) || path.Ext(name) != ".go"):
			return nil
		}
		p := packages[path.Dir(name)]
		if p == nil {
			p = &testCode{fset: token.NewFileSet(), starters: map[string]bool{}, inBubble: map[string]bool{}}
			packages[path.Dir(name)] = p
		}
		file, err := parser.ParseFile(p.fset, name, nil, parser.SkipObjectResolution)
		p.files = append(p.files, file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, p := range packages {
		p.findStarters()
		p.findBubbles()
		p.functions(func(fn *ast.FuncDecl) {
			p.inspect(fn.Body, p.inBubble[fn.Name.Name], false, func(bubble, inSelect bool, n ast.Node) {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok || bubble || inSelect {
					return
				}
				if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "time" || !slices.Contains(sleeps, sel.Sel.Name) {
					return
				}
				at := p.fset.Position(n.Pos())
				if maySleep[filepath.ToSlash(at.Filename)] == "" {
					t.Errorf("%s: %s waits with time.%s; want an event, testing/synctest, or symtest.Await for another process", at, fn.Name.Name, sel.Sel.Name)
				}
				used[filepath.ToSlash(at.Filename)] = true
			})
		})
	}
	for name := range maySleep {
		if !used[name] {
			t.Errorf("%s does not sleep any more: delete it from maySleep", name)
		}
	}
}

// functions calls visit for the functions of the package.
func (p *testCode) functions(visit func(fn *ast.FuncDecl)) {
	for _, f := range p.files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				visit(fn)
			}
		}
	}
}

// findStarters finds the functions that pass a parameter to synctest.Test.
func (p *testCode) findStarters() {
	p.functions(func(fn *ast.FuncDecl) {
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !p.startsBubble(call) {
				return true
			}
			for _, a := range call.Args[1:] {
				id, ok := a.(*ast.Ident)
				for _, param := range fn.Type.Params.List {
					p.starters[fn.Name.Name] = p.starters[fn.Name.Name] || ok && slices.ContainsFunc(param.Names, func(n *ast.Ident) bool { return n.Name == id.Name })
				}
			}
			return true
		})
	})
}

// startsBubble reports whether a call runs its last argument in a bubble.
func (p *testCode) startsBubble(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return p.starters[f.Name]
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return ok && x.Name == "synctest" && f.Sel.Name == "Test"
	}
	return false
}

// findBubbles finds the functions that are called by bubbles, or by functions
// that only bubbles call, and by nothing else. Other packages may call exported
// ones.
func (p *testCode) findBubbles() {
	for {
		called, outside := map[string]bool{}, map[string]bool{}
		p.functions(func(fn *ast.FuncDecl) {
			p.inspect(fn.Body, p.inBubble[fn.Name.Name], false, func(bubble, _ bool, n ast.Node) {
				if id, ok := n.(*ast.Ident); ok {
					called[id.Name] = called[id.Name] || bubble
					outside[id.Name] = outside[id.Name] || !bubble
				}
			})
		})
		found := false
		for name := range called {
			if called[name] && !outside[name] && !p.inBubble[name] && !ast.IsExported(name) {
				p.inBubble[name], found = true, true
			}
		}
		if !found {
			return
		}
	}
}

// inspect visits the nodes below root. bubble reports whether a node runs in a
// bubble, inSelect whether it is the channel of one of several cases of a select.
func (p *testCode) inspect(root ast.Node, bubble, inSelect bool, visit func(bubble, inSelect bool, n ast.Node)) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch x := n.(type) {
		case nil:
			return true
		case *ast.CallExpr:
			if last := len(x.Args) - 1; last >= 0 && !bubble && p.startsBubble(x) {
				p.inspect(x.Args[last], true, false, visit)
				return false
			}
		case *ast.SelectStmt:
			for _, c := range x.Body.List {
				c := c.(*ast.CommClause)
				if c.Comm != nil {
					p.inspect(c.Comm, bubble, len(x.Body.List) > 1, visit)
				}
				for _, s := range c.Body {
					p.inspect(s, bubble, inSelect, visit)
				}
			}
			return false
		}
		visit(bubble, inSelect, n)
		return true
	})
}
