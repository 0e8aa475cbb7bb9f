package userquery

import (
	"context"
	"io"
	"os"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/needed"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// Arguments reads the arguments of a command: a name and an id, local files, paths and
// URLs, or - for the log of a debugger on in. complete is false if the limits of
// ParseLog have cut the log. Texts that are no request are a TextError.
func Arguments(ctx context.Context, args []string, in io.Reader) (list []Ask, complete bool, err error) {
	if len(args) == 1 && args[0] == "-" {
		text, err := term.ReadText(io.LimitReader(in, 2*MaxLog+2)) // UTF-16 has two bytes for most characters
		if err != nil {
			return nil, false, err
		}
		list, complete = ParseLog(text)
		return list, complete, nil
	}
	if len(args) >= 2 && !isFile(args[1]) {
		// A shell splits {GUID}, AGE.
		if a, ok := Pair(args[0], strings.Join(args[1:], " ")); ok {
			return []Ask{a}, true, nil
		}
	}
	for _, arg := range args {
		if isFile(arg) {
			more, err := File(ctx, arg)
			if err != nil {
				return nil, false, err
			}
			list = append(list, more...)
			continue
		}
		a, err := Parse(arg)
		if err != nil {
			return nil, false, err
		}
		list = append(list, a)
	}
	return list, true, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// File returns the requests that debuggers make for a local file: for its debug
// information or, for a dump, for that of its modules; and for the file itself.
func File(ctx context.Context, path string) ([]Ask, error) {
	var l needed.List
	if err := l.Local(ctx, path); err != nil {
		return nil, err
	}
	var list []Ask
	for _, w := range l.Wants {
		list = append(list, Ask{Text: w.Path, Segments: strings.Split(w.Path, "/"), Read: ReadPath})
	}
	f, err := durable.OpenShared(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	objs, err := objfile.Identify(f, info.Size(), symfile.BaseName(path), objfile.Options{})
	if err != nil {
		return list, nil // a dump, or nothing that a debugger asks for
	}
	for _, o := range objs {
		p := layout.Path(o.Object)
		if own := layout.Debuginfod.Paths(o.Object); len(own) > 0 {
			p = own[0] // as debuggers ask for it
		}
		if p != "" {
			list = append(list, Ask{Text: p, Segments: strings.Split(p, "/"), Read: ReadPath})
		}
	}
	return list, nil
}
