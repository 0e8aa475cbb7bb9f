package shipment

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/symfile"
)

// RulesName is the name of the file with rules in the current folder, which is that of the repository in CI.
const RulesName = ".symdepot-check"

// Limits of a file with rules.
const (
	maxRulesBytes = 1 << 20
	maxRules      = 10_000
	maxRulePart   = 500 // bytes of a pattern; a reason may be longer
)

// Rule says that files need no symbols, because they are made by others.
type Rule struct {
	Pattern string
	Reason  string
	// Where says who made the rule: a flag, or a line of a file.
	Where string

	used bool
}

// Rules say which files need no symbols, and which sources need not be found. The zero value has none.
type Rules struct {
	Allow []Rule
	// Sources are patterns of the names of sources that do not count.
	Sources []string
	// OwnSigners are patterns of the names of those who sign files that need symbols; empty: signatures do not count.
	// Files that only others have signed need none.
	OwnSigners []string
}

// toolchain are patterns of the sources that come with compilers and systems, and are in nobody's
// repository.
var toolchain = []string{
	"/usr/include/*", "/usr/lib/*", "/usr/local/include/*", "/usr/src/debug/*", "/usr/local/go/src/*", "/rustc/*",
	"*/windows kits/*", "*/vc/tools/msvc/*", "*/vc/tools/llvm/*", "?:/a/_work/*/s/src/vctools/*", "?:/dd/*", "minkernel/*", "onecore/*",
	"*/xcode.app/contents/developer/*", "/library/developer/commandlinetools/*", "*/toolchains/llvm/prebuilt/*",
	"*/sysdeps/*", "*/csu/*.c", "<*>",
}

// SourcePatterns are the patterns of the sources that do not count.
func (r *Rules) SourcePatterns() []string {
	return append(append([]string{}, toolchain...), r.Sources...)
}

// AllowFlag adds a pattern of the command line.
func (r *Rules) AllowFlag(pattern string) error {
	if pattern == "" || len(pattern) > maxRulePart {
		return term.UsageError(fmt.Sprintf("--allow: a pattern of 1 to %d bytes is expected", maxRulePart))
	}
	r.Allow = append(r.Allow, Rule{Pattern: pattern, Reason: "--allow " + pattern, Where: "--allow"})
	return nil
}

// ReadRules reads the file with rules of a name; if that is empty, RulesName of the current folder, which may be
// missing.
func (r *Rules) ReadRules(name string) error {
	asked := name != ""
	if !asked {
		name = RulesName
	}
	f, err := os.Open(name)
	if !asked && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > maxRulesBytes {
		return term.UsageError(fmt.Sprintf("%s: a file with rules has at most %d bytes", name, maxRulesBytes))
	}
	text, err := term.ReadText(f)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.Parse(name, text)
}

// Parse adds the rules of a text. Each line has a word, a pattern, and for the word allow a reason:
//
//	allow third_party/*.dll Microsoft publishes their symbols
//	allow "lib with blanks*.so" of the vendor X
//	source /opt/sdk/* headers of the SDK
//
// Empty lines and those that begin with # are comments. name is that of the file, for errors, which are
// term.UsageError.
func (r *Rules) Parse(name, text string) error {
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, maxRulesBytes)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		where := fmt.Sprintf("%s:%d", term.Printable(name), n)
		word, rest, _ := strings.Cut(line, " ")
		pattern, reason, err := patternOf(strings.TrimSpace(rest))
		switch {
		case word != "allow" && word != "source":
			return term.UsageError(fmt.Sprintf("%s: %q is not a rule; a line begins with allow or source", where, term.Printable(word)))
		case err != nil:
			return term.UsageError(where + ": " + err.Error())
		case word == "allow" && reason == "":
			return term.UsageError(where + ": the reason is missing: say behind the pattern why these files need no symbols")
		case len(r.Allow)+len(r.Sources) >= maxRules:
			return term.UsageError(fmt.Sprintf("%s: there are more than %d rules", where, maxRules))
		case word == "allow":
			r.Allow = append(r.Allow, Rule{Pattern: pattern, Reason: reason, Where: where})
		default:
			r.Sources = append(r.Sources, pattern)
		}
	}
	return lines.Err()
}

// patternOf cuts the pattern off a text, which may stand in quotation marks.
func patternOf(text string) (pattern, rest string, err error) {
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		if pattern, rest, ok = strings.Cut(quoted, `"`); !ok {
			return "", "", errors.New("a quotation mark is missing")
		}
	} else {
		pattern, rest, _ = strings.Cut(text, " ")
	}
	if pattern == "" || len(pattern) > maxRulePart {
		return "", "", fmt.Errorf("a pattern of 1 to %d bytes is expected", maxRulePart)
	}
	return pattern, strings.TrimSpace(rest), nil
}

// allows returns the first rule for a path, and notes that it was used; nil: there is none. A pattern without a
// slash means the name of a file in any folder, any other one the end of the path. Letter case does not count.
func (r *Rules) allows(path string) *Rule {
	path = symfile.Fold(strings.ReplaceAll(path, `\`, "/"))
	name := symfile.BaseName(path)
	for i := range r.Allow {
		rule := &r.Allow[i]
		p := symfile.Fold(strings.ReplaceAll(rule.Pattern, `\`, "/"))
		if !strings.Contains(p, "/") && glob.Match(p, name) || glob.Match(p, path) || glob.Match("*/"+strings.TrimPrefix(p, "/"), path) {
			rule.used = true
			return rule
		}
	}
	return nil
}

// signedByOthers returns who has signed a file, if signatures count and nobody of OwnSigners has signed it; empty: that is
// not so. Letter case does not count.
func (r *Rules) signedByOthers(f *File) string {
	if len(r.OwnSigners) == 0 || len(f.Signers) == 0 {
		return ""
	}
	for _, s := range f.Signers {
		for _, name := range []string{s.Name, s.Organization, s.Team} {
			if name != "" && slices.ContainsFunc(r.OwnSigners, func(p string) bool { return glob.Match(symfile.Fold(p), symfile.Fold(name)) }) {
				return ""
			}
		}
	}
	return f.Signers[0].String()
}

// Unused returns the rules that no file needed.
func (r *Rules) Unused() (list []Rule) {
	for _, rule := range r.Allow {
		if !rule.used {
			list = append(list, rule)
		}
	}
	return list
}
