package symdepot_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// measuredFile is a source file of a package, without tests.
type measuredFile struct {
	name  string // within the module, with slashes
	lines int
	uses  map[string]bool // other files of the package with what the file uses
}

// measured is what is counted of a package of this module.
type measured struct {
	path  string // within the module
	files []*measuredFile
	// reach has, for each struct with unexported fields, the functions and methods that
	// can use these fields: its methods, those of types that hold one, and functions that
	// take one.
	reach map[string]int
	// knots are the functions with a cyclomatic complexity above maxComplexity.
	knots []string
	// long is the number of lines above maxColumns characters.
	long int
}

const (
	maxComplexity = 25
	maxColumns    = 140
	largePackage  = 2000 // lines, from which on the arrows between files are counted
)

func (r *measured) lines() (n int) {
	for _, f := range r.files {
		n += f.lines
	}
	return n
}

// arrows returns the number of uses between files of the package, and how many of them run
// back up in the best order of the files that is found.
func (r *measured) arrows() (all, back int) {
	order := slices.Clone(r.files)
	cost := func(order []*measuredFile) (back int) {
		above := map[string]bool{}
		for _, f := range order {
			for use := range f.uses {
				if above[use] {
					back++
				}
			}
			above[f.name] = true
		}
		return back
	}
	for _, f := range r.files {
		all += len(f.uses)
	}
	// Files that use much and are used by few stand on top; then each file moves to its best
	// place, until none is better.
	used := map[string]int{}
	for _, f := range r.files {
		for use := range f.uses {
			used[use]++
		}
	}
	slices.SortStableFunc(order, func(a, b *measuredFile) int {
		return cmp.Compare(len(b.uses)-used[b.name], len(a.uses)-used[a.name])
	})
	for better := true; better; {
		better = false
		for _, f := range slices.Clone(order) {
			at := slices.Index(order, f)
			rest := slices.Delete(slices.Clone(order), at, at+1)
			best, least := at, cost(order)
			for to := range len(order) {
				if c := cost(slices.Insert(slices.Clone(rest), to, f)); c < least {
					best, least = to, c
				}
			}
			if best != at {
				order, better = slices.Insert(rest, best, f), true
			}
		}
	}
	return all, cost(order)
}

// circles returns how many of the uses between files are part of a circle.
func (r *measured) circles() (n int) {
	byName := map[string]*measuredFile{}
	for _, f := range r.files {
		byName[f.name] = f
	}
	reaches := func(from, to string) bool {
		seen, queue := map[string]bool{from: true}, []string{from}
		for len(queue) > 0 {
			for use := range byName[queue[0]].uses {
				if use == to {
					return true
				}
				if !seen[use] {
					seen[use], queue = true, append(queue, use)
				}
			}
			queue = queue[1:]
		}
		return false
	}
	for _, f := range r.files {
		for use := range f.uses {
			if reaches(use, f.name) {
				n++
			}
		}
	}
	return n
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	Module                  *struct{ Path string }
}

// listPackages returns the packages of this module, and the export data of everything that
// they import.
func listPackages(t *testing.T) (ours []listed, export map[string]string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,Module", "./...")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, errs.Bytes())
	}
	export = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); err == io.EOF {
			return ours, export
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		export[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Path == module && len(p.GoFiles) > 0 {
			ours = append(ours, p)
		}
	}
}

// readHouse measures all packages of this module, as they are built for this system.
func readHouse(t *testing.T) (house []*measured) {
	t.Helper()
	ours, export := listPackages(t)
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(p string) (io.ReadCloser, error) {
		if export[p] == "" {
			return nil, fmt.Errorf("no export data of %s", p)
		}
		return os.Open(export[p])
	})
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ours {
		rel, err := filepath.Rel(root, p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		r := &measured{path: filepath.ToSlash(rel), reach: map[string]int{}}
		var files []*ast.File
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), text, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
			if ast.IsGenerated(f) {
				continue
			}
			for line := range bytes.Lines(text) {
				if len([]rune(string(bytes.TrimRight(line, "\n")))) > maxColumns {
					r.long++
				}
			}
			r.files = append(r.files, &measuredFile{name: path.Join(r.path, name), lines: bytes.Count(text, []byte("\n")), uses: map[string]bool{}})
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		conf := types.Config{Importer: imports, FakeImportC: true}
		pkg, err := conf.Check(p.ImportPath, fset, files, info)
		if err != nil {
			t.Fatalf("%s: %v", p.ImportPath, err)
		}
		r.readUses(fset, pkg, info, root)
		r.readReach(pkg)
		r.readKnots(fset, files, root)
		house = append(house, r)
	}
	return house
}

// readUses notes which files use what others declare: functions, methods, types, constants
// and variables of the package.
func (r *measured) readUses(fset *token.FileSet, pkg *types.Package, info *types.Info, root string) {
	byName := map[string]*measuredFile{}
	for _, f := range r.files {
		byName[f.name] = f
	}
	fileOf := func(at token.Pos) string {
		rel, err := filepath.Rel(root, fset.Position(at).Filename)
		if err != nil {
			return ""
		}
		return filepath.ToSlash(rel)
	}
	for id, o := range info.Uses {
		if o.Pkg() != pkg {
			continue
		}
		f, isFunc := o.(*types.Func)
		if o.Parent() != pkg.Scope() && (!isFunc || f.Signature().Recv() == nil || types.IsInterface(f.Signature().Recv().Type())) {
			continue
		}
		from, to := fileOf(id.Pos()), fileOf(o.Pos())
		if from != to && byName[from] != nil && byName[to] != nil {
			byName[from].uses[to] = true
		}
	}
}

// readReach counts what can use the unexported fields of each struct.
func (r *measured) readReach(pkg *types.Package) {
	isOf := func(t types.Type, s *types.Named) bool {
		if p, ok := types.Unalias(t).(*types.Pointer); ok {
			t = p.Elem()
		}
		n, ok := types.Unalias(t).(*types.Named)
		return ok && n.Obj() == s.Obj()
	}
	scope := pkg.Scope()
	var named []*types.Named
	var funcs []*types.Func
	for _, name := range scope.Names() {
		switch o := scope.Lookup(name).(type) {
		case *types.TypeName:
			if n, ok := o.Type().(*types.Named); ok && !o.IsAlias() {
				named = append(named, n)
			}
		case *types.Func:
			funcs = append(funcs, o)
		}
	}
	takes := func(f *types.Func, s *types.Named) bool {
		for p := range f.Signature().Params().Variables() {
			if isOf(p.Type(), s) {
				return true
			}
		}
		return false
	}
	holds := func(n, s *types.Named) bool {
		st, ok := n.Underlying().(*types.Struct)
		if !ok {
			return isOf(n.Underlying(), s)
		}
		for f := range st.Fields() {
			if isOf(f.Type(), s) {
				return true
			}
		}
		return false
	}
	for _, s := range named {
		st, ok := s.Underlying().(*types.Struct)
		hidden := false
		for i := 0; ok && i < st.NumFields(); i++ {
			hidden = hidden || !st.Field(i).Exported()
		}
		if !hidden {
			continue
		}
		n := 0
		for _, other := range named {
			whole := other.Obj() == s.Obj() || holds(other, s)
			for m := range other.Methods() {
				if whole || takes(m, s) {
					n++
				}
			}
		}
		for _, f := range funcs {
			if takes(f, s) {
				n++
			}
		}
		r.reach[s.Obj().Name()] = n
	}
}

// readKnots finds the functions that branch most: one, and one for each if, for, case,
// && and || (McCabe).
func (r *measured) readKnots(fset *token.FileSet, files []*ast.File, root string) {
	for _, file := range files {
		if ast.IsGenerated(file) {
			continue
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			n := 1
			ast.Inspect(fn.Body, func(x ast.Node) bool {
				switch x := x.(type) {
				case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
					n++
				case *ast.CaseClause:
					if x.List != nil {
						n++
					}
				case *ast.CommClause:
					if x.Comm != nil {
						n++
					}
				case *ast.BinaryExpr:
					if x.Op == token.LAND || x.Op == token.LOR {
						n++
					}
				}
				return true
			})
			if n > maxComplexity {
				at := fset.Position(fn.Pos())
				rel, _ := filepath.Rel(root, at.Filename)
				r.knots = append(r.knots, fmt.Sprintf("%s:%d %s %d", filepath.ToSlash(rel), at.Line, fn.Name.Name, n))
			}
		}
	}
}

// TestHouse prints the figures of the house: make house. They fall; what is below a limit
// stays below.
func TestHouse(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("compiles all packages: run it without -short")
	}
	house := readHouse(t)
	lines, cmd, long := 0, 0, 0
	groups := map[string]bool{}
	var knots []string
	// What helps tests is not counted.
	house = slices.DeleteFunc(house, func(r *measured) bool { return strings.HasSuffix(r.path, "test") || strings.HasPrefix(r.path, "test/") })
	for _, r := range house {
		lines, long = lines+r.lines(), long+r.long
		knots = append(knots, r.knots...)
		if strings.HasPrefix(r.path, "cmd/") || r.path == "internal/run/command" {
			cmd += r.lines()
		}
		if below, ok := strings.CutPrefix(r.path, "internal/"); ok {
			group, _, _ := strings.Cut(below, "/")
			groups[group] = true
		}
	}
	t.Logf("%d lines without tests; cmd %d; %d folders in internal", lines, cmd, len(groups))
	t.Logf("%d lines above %d characters", long, maxColumns)
	if long > 0 {
		t.Errorf("%d lines are longer than %d characters; want none", long, maxColumns)
	}
	slices.SortFunc(house, func(a, b *measured) int { return cmp.Compare(b.lines(), a.lines()) })
	for _, r := range house {
		if r.lines() > largePackage {
			all, back := r.arrows()
			t.Logf("%-24s %6d lines, %4d arrows between %d files: %2d %% run back up in the best order, %2d %% are part of a circle",
				r.path, r.lines(), all, len(r.files), 100*back/max(all, 1), 100*r.circles()/max(all, 1))
		}
	}
	type struc struct {
		name string
		n    int
	}
	var reach []struc
	for _, r := range house {
		for name, n := range r.reach {
			reach = append(reach, struc{r.path + "." + name, n})
		}
	}
	slices.SortFunc(reach, func(a, b struc) int { return cmp.Or(cmp.Compare(b.n, a.n), strings.Compare(a.name, b.name)) })
	for _, s := range reach[:min(20, len(reach))] {
		t.Logf("%-40s %d functions reach its fields", s.name, s.n)
	}
	t.Logf("%d functions with a complexity above %d:", len(knots), maxComplexity)
	for _, k := range knots {
		t.Log("  " + k)
	}
}
