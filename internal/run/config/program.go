package config

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/derive/transcode"
	"github.com/symdepot/symdepot/symcache"
)

// ProgramSyntax describes the syntax of ParseProgram.
const ProgramSyntax = "A transcoder is " +
	"NAME[,wine][,version=X.Y.Z][,time=D][,memory=SIZE][,output=SIZE][,dir=DIR][,prefix=DIR][,age=any]=COMMAND." + `
COMMAND is a program with its arguments, separated by spaces. Double or single quotes enclose an argument with spaces; no other
character is special, and no shell runs the command. {pdb} is replaced by the path of the PDB, {out} by the output folder
(also in _NT_SYMCACHE_PATH), {empty} by an empty folder. {pdb} must be an argument of its own or the end of one,
never part of a text that a shell reads (sh -c "...", powershell -Command "..."); batch files (.bat, .cmd) are rejected. A
test run at the start detects the program's version; with version=, a different version is an error.`

// ParseProgram parses a transcoder in the syntax of --transcoder and the key
// transcoding.programs; see ProgramSyntax.
func ParseProgram(v string) (transcode.Program, error) {
	var p transcode.Program
	bad := func(format string, args ...any) (transcode.Program, error) {
		return p, fmt.Errorf("%s: %w; NAME[,OPTION...]=COMMAND is expected", v, fmt.Errorf(format, args...))
	}
	i := strings.IndexAny(v, ",=")
	if i <= 0 {
		return bad("the name or the command is missing")
	}
	p.Name = strings.TrimSpace(v[:i])
	rest := v[i:]
	for strings.HasPrefix(rest, ",") {
		word := rest[1:]
		end := strings.IndexAny(word, ",=")
		if end < 0 {
			return bad("the command is missing")
		}
		key := strings.TrimSpace(word[:end])
		rest = word[end:]
		if key == "wine" {
			p.Wine = true
			continue
		}
		if rest[0] == ',' {
			return bad("option %q needs a value", key)
		}
		value := rest[1:]
		if end = strings.IndexAny(value, ",="); end < 0 {
			return bad("the command is missing")
		}
		rest = value[end:]
		if err := programOption(&p, key, strings.TrimSpace(value[:end])); err != nil {
			return bad("%v", err)
		}
	}
	var err error
	if p.Command, err = splitCommand(rest[1:]); err != nil {
		return bad("%v", err)
	}
	if len(p.Command) == 0 || p.Name == "" {
		return bad("the name or the command is missing")
	}
	if !strings.Contains(strings.Join(p.Command[1:], " "), "{pdb}") {
		return bad("the command has no argument with {pdb}")
	}
	for _, a := range p.Command[1:] {
		if before, after, ok := strings.Cut(a, "{pdb}"); ok && (after != "" || strings.ContainsAny(before, " \t")) {
			return bad("{pdb} must be an argument of its own or the end of one, not a part of %q", a)
		}
	}
	return p, nil
}

// programOption sets one option.
func programOption(p *transcode.Program, key, value string) (err error) {
	switch key {
	case "version":
		_, err = symcache.ParseVersion(value)
		p.Version = strings.TrimPrefix(value, "v")
	case "time":
		var d term.Duration
		if err = d.UnmarshalText([]byte(value)); err == nil && d == 0 {
			err = errors.New("time=0 is not allowed")
		}
		p.Limits.Time = time.Duration(d)
	case "memory":
		p.Limits.Memory, err = limit(key, value)
	case "output":
		p.Limits.Output, err = limit(key, value)
	case "dir":
		p.Dir = value
	case "prefix":
		p.WinePrefix = value
	case "age":
		if value != "any" {
			err = fmt.Errorf("age=any is expected, not age=%s", value)
		}
		p.AnyAge = true
	default:
		err = fmt.Errorf("unknown option %q; known are wine, version, time, memory, output, dir, prefix, age", key)
	}
	return err
}

// limit parses a size other than zero.
func limit(key, value string) (int64, error) {
	var s term.ByteSize
	err := s.UnmarshalText([]byte(value))
	if err == nil && s == 0 {
		err = fmt.Errorf("%s=0 is not allowed", key)
	}
	return int64(s), err
}

// splitCommand splits a command at spaces. Quotes enclose words with spaces; a
// backslash has no special meaning, because Windows paths contain it.
func splitCommand(s string) (words []string, err error) {
	var word strings.Builder
	quote, some := rune(0), false
	for _, r := range s {
		switch {
		case r == 0:
			return nil, fmt.Errorf("the command contains a NUL")
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, some = r, true
		case r == ' ' || r == '\t' || r == '\n' || r == '\r':
			if some {
				words = append(words, word.String())
				word.Reset()
				some = false
			}
		default:
			word.WriteRune(r)
			some = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quote %c is not closed", quote)
	}
	if some {
		words = append(words, word.String())
	}
	return words, nil
}

// Programs returns the transcoders of this machine.
func (c *Config) Programs() ([]transcode.Program, error) {
	var list []transcode.Program
	for _, text := range c.Transcoding.Programs {
		p, err := ParseProgram(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}
