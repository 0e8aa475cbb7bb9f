package symdepot_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayConnect are the files, besides tests, that may open connections by
// themselves. All others use the Dialer of internal/remote/upstream, which knows
// --no-egress and the rules for addresses.
var mayConnect = []string{
	"internal/remote/upstream/dialer.go",
	"internal/run/localproxy/guard.go",                 // a Unix socket of this machine
	"internal/store/bucket/buckettest/line.go",         // tests only
	"internal/store/bucket/buckettest/peers.go",        // tests only
	"internal/run/command/commandtest/cluster.go",      // tests only
	"internal/run/command/commandtest/curl_windows.go", // tests only
	"internal/run/command/commandtest/pushdepot.go",    // tests only
	"internal/run/command/commandtest/requests.go",     // tests only
	"internal/run/command/commandtest/upstream.go",     // tests only
	"internal/remote/proxytest/proxytest.go",           // tests only
	"test/uploads/pyroscope/main.go",                   // tests only
}

// TestEgressThroughDialer: every way out to the network goes through the Dialer.
func TestEgressThroughDialer(t *testing.T) {
	opens := map[string][]string{
		"http": {"Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "ProxyFromEnvironment"},
		"net":  {"Dial", "DialTimeout", "Dialer", "DialTCP", "DialUDP", "DialIP"},
		"tls":  {"Dial", "DialWithDialer", "Dialer"},
	}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains(mayConnect, filepath.ToSlash(path)):
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			// A pointer to a transport, as in a field's type, opens nothing.
			if star, ok := n.(*ast.StarExpr); ok {
				if _, ok := star.X.(*ast.SelectorExpr); ok {
					return false
				}
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(opens[x.Name], sel.Sel.Name) {
				t.Errorf("%s: %s.%s opens connections outside of the Dialer", fset.Position(n.Pos()), x.Name, sel.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
