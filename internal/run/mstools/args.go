package mstools

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// The tools of Microsoft's debugger package take options that begin with a slash
// or a dash, in any letter case. Each tool has its own syntax. This file parses
// them; each command defines its options.

// slashKind is the kind of value of an option.
type slashKind uint8

const (
	slashBool     slashKind = iota // nothing
	slashValue                     // the next argument, whatever it is
	slashEach                      // the same; may be repeated
	slashList                      // the next argument and all others up to the next option
	slashMaybe                     // the next argument unless it is an option
	slashWord                      // the next argument if it is in words
	slashAttached                  // a value in the same argument only: -size=N
)

// slashFlag is one option. Its name is in lower case, without the first
// character: "f" for /f and -f, ":msg" for -:MSG, "-json" for --json.
type slashFlag struct {
	name    string
	kind    slashKind
	words   []string // of slashWord, in lower case
	letters string   // letters that may follow the name directly, as in /se
	also    []string // wrong names that people try, for hints only
}

// slashArgs is a parsed command line.
type slashArgs struct {
	values map[string][]string // by name; an option without a value has none
	rest   []string            // arguments that belong to no option
}

func (s *slashArgs) has(name string) bool { _, ok := s.values[name]; return ok }

// get returns the value of an option, or an empty string.
func (s *slashArgs) get(name string) string {
	if v := s.values[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// slashSyntax describes the command line of one command.
type slashSyntax struct {
	flags []slashFlag
	// rest allows arguments that belong to no option.
	rest bool
}

// parse parses a command line.
func (x slashSyntax) parse(args []string) (*slashArgs, error) {
	out := &slashArgs{values: map[string][]string{}}
	for i := 0; i < len(args); {
		arg := args[i]
		i++
		f, attached, ok := x.option(arg)
		if !ok {
			if looksLikeOption(arg) {
				return nil, x.unknown(arg)
			}
			if !x.rest {
				return nil, x.unexpected(arg, args[:i-1])
			}
			out.rest = append(out.rest, arg)
			continue
		}
		values, taken, err := x.valuesOf(f, attached, arg, args[i:])
		if err != nil {
			return nil, err
		}
		i += taken
		have, twice := out.values[f.name]
		switch {
		case f.kind == slashList || f.kind == slashEach:
			values = append(have, values...)
		case twice && !slices.Equal(have, values):
			return nil, term.UsageError(arg + " is given twice")
		}
		out.values[f.name] = values
		if f.letters != "" {
			out.values[f.name+"+"] = []string{lettersOf(f, arg)}
		}
	}
	return out, nil
}

// valuesOf returns the values of an option: the attached one, or the arguments
// after it. taken is the number of these arguments.
func (x slashSyntax) valuesOf(f slashFlag, attached *string, arg string, next []string) (values []string, taken int, err error) {
	if attached != nil {
		values = []string{*attached}
		if f.kind == slashWord && !slices.Contains(f.words, strings.ToLower(*attached)) {
			return nil, 0, notOneOf(arg, f.words)
		}
		if f.kind == slashList {
			return append(values, x.upToOption(next)...), len(x.upToOption(next)), nil
		}
		return values, 0, nil
	}
	switch f.kind {
	case slashValue, slashEach, slashList:
		if len(next) == 0 {
			return nil, 0, term.UsageError(arg + " needs a value after it")
		}
		values = next[:1:1]
		if f.kind == slashList {
			values = append(values, x.upToOption(next[1:])...)
		}
	case slashMaybe:
		if len(next) > 0 && len(x.upToOption(next[:1])) == 1 {
			values = next[:1]
		}
	case slashWord:
		if len(next) > 0 && slices.Contains(f.words, strings.ToLower(next[0])) {
			values = next[:1]
		} else if len(next) > 0 && len(x.upToOption(next[:1])) == 1 {
			return nil, 0, notOneOf(arg+" "+next[0], f.words)
		}
	}
	return values, len(values), nil
}

func notOneOf(arg string, words []string) error {
	return term.UsageError(fmt.Sprintf("%s must be followed by one of %s", arg, strings.ToUpper(strings.Join(words, ", "))))
}

// upToOption returns the arguments before the first one that is an option or
// looks like one.
func (x slashSyntax) upToOption(args []string) []string {
	for i, arg := range args {
		if _, _, ok := x.option(arg); ok || looksLikeOption(arg) {
			return args[:i]
		}
	}
	return args
}

// option finds the option that an argument begins with. A value may follow : or
// =. It may also follow directly if it cannot be a part of the name: /f@list,
// /sC:\store, /s\\server\share.
func (x slashSyntax) option(arg string) (f slashFlag, attached *string, ok bool) {
	if len(arg) < 2 || arg[0] != '/' && arg[0] != '-' {
		return f, nil, false
	}
	body := arg[1:]
	if f, ok = x.flag(body); ok {
		return f, nil, true
	}
	from := 1 // the colon of -:MSG belongs to the name
	if i := strings.IndexAny(body[from:], ":="); i >= 0 {
		word, value := body[:from+i], body[from+i+1:]
		if f, ok = x.flag(word); ok && f.kind != slashBool {
			return f, &value, true
		}
	}
	if i := strings.IndexAny(body, `@\`); i > 0 {
		value := body[i:]
		if f, ok = x.flag(body[:i]); ok && (f.kind == slashValue || f.kind == slashList) {
			return f, &value, true
		}
	}
	if i := strings.IndexByte(body, ':'); i > 1 && i+1 < len(body) && (body[i+1] == '\\' || body[i+1] == '/') {
		value := body[i-1:]
		if f, ok = x.flag(body[:i-1]); ok && (f.kind == slashValue || f.kind == slashList) {
			return f, &value, true
		}
	}
	return slashFlag{}, nil, false
}

// flag finds an option by its name in any letter case.
func (x slashSyntax) flag(word string) (slashFlag, bool) {
	word = strings.ToLower(word)
	for _, f := range x.flags {
		if f.name == word {
			return f, true
		}
	}
	for _, f := range x.flags {
		if f.letters != "" && strings.HasPrefix(word, f.name) && strings.Trim(word[len(f.name):], f.letters) == "" {
			return f, true
		}
	}
	return slashFlag{}, false
}

func lettersOf(f slashFlag, arg string) string {
	rest := strings.ToLower(arg[1:])[len(f.name):]
	return rest[:len(rest)-len(strings.TrimLeft(rest, f.letters))]
}

// looksLikeOption reports whether an unknown argument was meant as an option:
// it begins like one and is not a path. A path of Unix has a second slash, or
// exists.
func looksLikeOption(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' && arg[0] != '/' {
		return false
	}
	if arg[0] == '/' && strings.ContainsAny(arg[1:], `/\.*?`) {
		return false
	}
	_, err := os.Lstat(arg)
	return err != nil
}

func (x slashSyntax) unknown(arg string) error {
	text := "unknown option " + arg
	if near := x.nearest(strings.ToLower(strings.TrimLeft(arg, "/-:"))); near != "" {
		text += "; did you mean " + near + "?"
	}
	return term.UsageError(text)
}

// nearest returns the option whose name is most similar to a wrong name.
func (x slashSyntax) nearest(word string) string {
	word, _, _ = strings.Cut(word, "=")
	best, found := 3, ""
	for _, f := range x.flags {
		if slices.Contains(f.also, word) {
			return f.spelled()
		}
		bare := strings.TrimLeft(f.name, ":-")
		if d := term.Distance(word, bare, best); len(bare) >= 3 && d < best {
			best, found = d, f.spelled()
		}
	}
	return found
}

// spelled returns the option in the spelling of the help texts.
func (f slashFlag) spelled() string {
	switch f.name[0] {
	case ':':
		return "-" + strings.ToUpper(f.name)
	case '-':
		return "-" + f.name
	}
	return "/" + f.name
}

// unexpected returns the error for an argument that belongs to no option.
func (x slashSyntax) unexpected(arg string, before []string) error {
	text := fmt.Sprintf("%q belongs to no option", arg)
	if len(before) > 0 {
		if f, _, ok := x.option(before[len(before)-1]); ok && f.kind == slashBool {
			return term.UsageError(text + ": " + before[len(before)-1] + " takes no value")
		}
	}
	return term.UsageError(text + "; a value with blanks needs quotes around it")
}
