package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/durable"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/symfile"
)

type getCmd struct {
	upstreamFlags
	Output string   `help:"File to write to; with several, the folder. Default: the files' names, here." short:"o" placeholder:"PATH"`
	Force  bool     `help:"Write over what is there."`
	Jobs   int      `help:"How many to fetch at once." default:"8" short:"j"`
	JSON   bool     `help:"Print one JSON object per file."`
	What   []string `arg:"" name:"what" help:"A name and an id; or a program, library, core file or minidump of this machine; or the path that a debugger asks for."`
}

// Help is the long help text.
func (getCmd) Help() string {
	return `Gets symbol files out of the depot, or from the upstreams if the depot has them not, and writes them to disk.

  symdepot get ntdll.pdb 3BD8C3C3B1544CE9AB8D71A9F3E9A4D31 --upstream microsoft
  symdepot get ./app.exe                    the PDB of a program
  symdepot get ./app --upstream debuginfod  the debug information of a program
  symdepot get crash.dmp -o symbols/        all that a minidump or core file needs
  symdepot get buildid/16e7b8e1/debuginfo

Exit codes: 0 got everything, 1 something exists nowhere, 2 wrong command line, 3 failed, 4 depot damaged, 130 interrupted.`
}

// Run gets what was asked for.
func (c getCmd) Run(a *app) error {
	wants, err := c.wants(a)
	if err != nil {
		return err
	}
	if len(wants.list) == 0 {
		fmt.Fprintln(a.stderr, "symdepot: nothing in there names symbol files")
		return term.ErrNo
	}
	d, done, err := c.open(a, depot.Options{})
	if err != nil {
		return err
	}
	defer done()
	to, err := c.place(wants.list)
	if err != nil {
		return err
	}
	var report fetchReport
	lines := term.NewJSONLines(a.stdout)
	err = fetchAll(a, d, wants.list, c.Jobs, func(o outcome) {
		path := ""
		if o.Result == wantHad || o.Result == wantFetched {
			if path, err = c.write(a, d, o.want, to(o.want)); err != nil {
				o.Result, o.Error = wantFailed, err.Error()
			}
		}
		report.add(o)
		switch {
		case c.JSON:
			_ = lines.Write(struct {
				outcome
				Path string `json:"path,omitempty"`
			}{o, path})
		case path != "":
			fmt.Fprintln(a.stdout, path)
		}
	})
	if err != nil {
		return err
	}
	if !c.JSON {
		for _, m := range report.missing {
			fmt.Fprintf(a.stderr, "symdepot: %s: %s %s %s\n", m.Result, term.Printable(m.Name), m.ID, term.Printable(m.Error))
		}
	}
	switch {
	case report.counts[wantFailed] > 0:
		return fmt.Errorf("%s failed", term.Count(report.counts[wantFailed], "file"))
	case report.counts[wantMissing] > 0:
		return term.ErrNo
	}
	return nil
}

// wants reads the command line: one file of this machine, a path, or a name
// and an id.
func (c getCmd) wants(a *app) (*wantList, error) {
	l := &wantList{}
	if len(c.What) == 2 && !isFile(c.What[1]) {
		w, err := wantOf(c.What[0], c.What[1], "")
		if err != nil {
			return nil, term.UsageError(err.Error())
		}
		l.add(w)
		return l, nil
	}
	for _, what := range c.What {
		if isFile(what) {
			if err := l.local(a, what); err != nil {
				return nil, err
			}
			continue
		}
		w := want{Name: symfile.BaseName(what), path: filepath.ToSlash(what)}
		if _, err := w.request(); err != nil {
			return nil, term.UsageError(fmt.Sprintf("%s is no file here and no path that a debugger asks for; say a name and an id, such as: symdepot get ntdll.pdb 3BD8C3C3B1544CE9AB8D71A9F3E9A4D31", term.Printable(what)))
		}
		l.add(w)
	}
	return l, nil
}

// place says where a file is written to.
func (c getCmd) place(wants []want) (func(want) string, error) {
	fi, err := os.Stat(c.Output)
	dir := err == nil && fi.IsDir() || c.Output == "" || len(wants) > 1 || c.Output != "" && os.IsPathSeparator(c.Output[len(c.Output)-1])
	if !dir {
		return func(want) string { return c.Output }, nil
	}
	if c.Output != "" {
		if err := os.MkdirAll(c.Output, 0o755); err != nil {
			return nil, err
		}
	}
	// A dump wants programs and their debug information under one name and id,
	// and sometimes several programs of one name.
	label := func(w want) string {
		name, err := filepath.Localize(w.Name)
		if err != nil || name == "." {
			name = "symbols-" + w.ID
		}
		if len(wants) > 1 && strings.HasSuffix(w.path, "/debuginfo") {
			name += ".debug"
		}
		return name
	}
	names := map[string]int{}
	for _, w := range wants {
		names[symfile.Fold(label(w))]++
	}
	return func(w want) string {
		name := label(w)
		if names[symfile.Fold(name)] > 1 {
			name += "-" + w.ID
		}
		return filepath.Join(c.Output, name)
	}, nil
}

func (c getCmd) write(a *app, d *depot.Depot, w want, path string) (string, error) {
	if _, err := os.Lstat(path); err == nil && !c.Force {
		return "", fmt.Errorf("%s is there already; --force writes over it, --output names another place", path)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	f, _, err := openWant(a.ctx, d, w)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return path, durable.WriteTo(path, 0o666, func(to io.Writer) error {
		_, err := io.Copy(to, &fileReader{f: f})
		return err
	})
}
