package symdepot_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// torturePart is a line of the table in scripts/torture.
type torturePart struct {
	name, minutes, wrong string
}

// tortureParts returns the parts of make torture.
func tortureParts(t *testing.T) (list []torturePart) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "bash", "scripts/torture", "-parts").Output()
	if err != nil {
		t.Fatalf("scripts/torture -parts: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "|")
		if len(f) != 3 || f[2] == "" {
			t.Fatalf("scripts/torture: the line %q of its table, want NAME|MINUTES|WRONG ANSWER", line)
		}
		list = append(list, torturePart{f[0], f[1], f[2]})
	}
	return list
}

// TestTortureTable: no part of make torture is expected to take more than 40 minutes, and
// all together half a day, so that they fit well into one.
func TestTortureTable(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "bash")
	sum := 0
	for _, p := range tortureParts(t) {
		n, err := strconv.Atoi(p.minutes)
		if err != nil || n < 1 || n > 40 {
			t.Errorf("part %s is expected to take %q minutes, want 1 to 40", p.name, p.minutes)
		}
		sum += n
	}
	if sum == 0 || sum > 12*60 {
		t.Errorf("all parts are expected to take %d minutes, want at most 12 hours", sum)
	}
}

// mutantHead has the fields of the head of a patch in test/mutants, as scripts/mutants
// reads them.
var mutantHead = regexp.MustCompile(`(?s)\AFault: [^\n]{20,}\nRun: ([^\n]+)\nFinds: ([^\n]+)\n\n(diff --git .*)\z`)

// changedFile is a file that a patch changes.
var changedFile = regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`)

// TestMutants: every part of make torture has a mutation of the program that it must find.
// Each is small, changes no test, applies to the sources as they are, and says how it is
// found. make mutants shows that they are.
func TestMutants(t *testing.T) {
	t.Parallel()
	symtest.Tool(t, "bash")
	symtest.Tool(t, "git")
	if out, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--git-dir").CombinedOutput(); err != nil {
		t.Skipf("patches are applied with git: %v: %s", err, out)
	}
	files, err := filepath.Glob("test/mutants/*.patch")
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, f := range files {
		left[filepath.ToSlash(f)] = true
	}
	for _, p := range tortureParts(t) {
		if p.name == "mutants" {
			continue // it runs the others
		}
		name := "test/mutants/" + p.name + ".patch"
		if !left[name] {
			t.Errorf("part %s of scripts/torture has no %s: a fault in the program that it finds", p.name, name)
			continue
		}
		for f := range left {
			// Further faults that the part must find are PART-WHAT.patch.
			if f == name || strings.HasPrefix(f, "test/mutants/"+p.name+"-") {
				delete(left, f)
				checkMutant(t, f)
			}
		}
	}
	for name := range left {
		t.Errorf("%s belongs to no part of scripts/torture", name)
	}
}

func checkMutant(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head := mutantHead.FindStringSubmatch(string(text))
	if head == nil {
		t.Errorf("%s: want the lines Fault:, Run: and Finds:, an empty line, and the patch", name)
		return
	}
	if re, err := regexp.Compile(head[2]); err != nil || re.MatchString("") {
		t.Errorf("%s: Finds: %s: %v, want an expression that does not match everything", name, head[2], err)
	}
	changed := changedFile.FindAllStringSubmatch(head[3], -1)
	for _, f := range changed {
		if strings.HasSuffix(f[1], "_test.go") || strings.HasPrefix(f[1], "test/") || strings.HasPrefix(f[1], "scripts/") || strings.Contains(f[1], "testdata/") {
			t.Errorf("%s changes %s, want changes of the program only", name, f[1])
		}
	}
	if n := len(regexp.MustCompile(`(?m)^[-+][^-+]`).FindAllString(head[3], -1)); len(changed) == 0 || n == 0 || n > 20 {
		t.Errorf("%s changes %d lines of %d files, want a few", name, n, len(changed))
	}
	if out, err := exec.CommandContext(t.Context(), "git", "apply", "--check", "--whitespace=nowarn", name).CombinedOutput(); err != nil {
		t.Errorf("%s does not apply any more: make the fault anew in the sources as they are, and write it with git diff:\n%s", name, out)
	}
}
