package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/transcode"
	"github.com/symdepot/symdepot/symcache"
)

const transcoderHelp = `A transcoder is NAME[,wine][,version=X.Y.Z][,time=D][,memory=SIZE][,output=SIZE][,dir=DIR][,prefix=DIR][,age=any]=COMMAND.
COMMAND is a program with its arguments, separated by blanks; quotes "" or '' hold one together, and nothing else means
anything: no shell sees it. {pdb} stands for the PDB, {out} for the folder of the output, which is also in
_NT_SYMCACHE_PATH, {empty} for an empty folder. {pdb} must be an argument of its own or the end of one, never part of a
text that a shell reads (sh -c "…", powershell -Command "…"); batch files (.bat, .cmd) are refused. Its version is found
out by a try on start; version= makes another one an error.`

// parseTranscoder reads a value of --transcoder.
func parseTranscoder(v string) (transcode.Program, error) {
	var p transcode.Program
	bad := func(format string, args ...any) (transcode.Program, error) {
		return p, term.UsageError(fmt.Sprintf("--transcoder %s: %s; want NAME[,OPTION…]=COMMAND", v, fmt.Sprintf(format, args...)))
	}
	i := strings.IndexAny(v, ",=")
	if i <= 0 {
		return bad("there is no name or no command")
	}
	p.Name = strings.TrimSpace(v[:i])
	rest := v[i:]
	for strings.HasPrefix(rest, ",") {
		word := rest[1:]
		end := strings.IndexAny(word, ",=")
		if end < 0 {
			return bad("there is no command")
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
			return bad("there is no command")
		}
		rest = value[end:]
		if err := transcoderOption(&p, key, strings.TrimSpace(value[:end])); err != nil {
			return bad("%v", err)
		}
	}
	var err error
	if p.Command, err = splitCommand(rest[1:]); err != nil {
		return bad("%v", err)
	}
	if len(p.Command) == 0 || p.Name == "" {
		return bad("there is no name or no command")
	}
	if !strings.Contains(strings.Join(p.Command[1:], " "), "{pdb}") {
		return bad("the command does not say where {pdb} goes")
	}
	return p, nil
}

// transcoderOption sets one option.
func transcoderOption(p *transcode.Program, key, value string) (err error) {
	switch key {
	case "version":
		_, err = symcache.ParseVersion(value)
		p.Version = strings.TrimPrefix(value, "v")
	case "time":
		p.Limits.Time, err = time.ParseDuration(value)
		if err == nil && p.Limits.Time <= 0 {
			err = fmt.Errorf("time=%s is no time", value)
		}
	case "memory":
		p.Limits.Memory, err = sizeOf(value)
	case "output":
		p.Limits.Output, err = sizeOf(value)
	case "dir":
		p.Dir = value
	case "prefix":
		p.WinePrefix = value
	case "age":
		if value != "any" {
			err = fmt.Errorf("age=%s is not age=any", value)
		}
		p.AnyAge = true
	default:
		err = fmt.Errorf("there is no option %q", key)
	}
	return err
}

// sizeOf reads a number of bytes, such as 512MiB or 8G.
func sizeOf(v string) (int64, error) {
	digits := strings.TrimRight(strings.ToUpper(v), "IB")
	shift := 0
	if digits != "" {
		if i := strings.IndexByte("KMGT", digits[len(digits)-1]); i >= 0 {
			shift, digits = 10*(i+1), digits[:len(digits)-1]
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n <= 0 || n > 1<<62>>shift {
		return 0, fmt.Errorf("%q is no size such as 512MiB or 8GiB", v)
	}
	return n << shift, nil
}

// splitCommand splits a command at blanks. Quotes hold words together; a
// backslash is a backslash, as paths on Windows need.
func splitCommand(s string) (words []string, err error) {
	var word strings.Builder
	quote, some := rune(0), false
	for _, r := range s {
		switch {
		case r == 0:
			return nil, fmt.Errorf("the command has a NUL in it")
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
		return nil, fmt.Errorf("a quote %c is not closed", quote)
	}
	if some {
		words = append(words, word.String())
	}
	return words, nil
}
