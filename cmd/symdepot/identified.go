package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/dump"
	"github.com/symdepot/symdepot/internal/client"
	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/objfile"
)

// identified prints what files are.
type identified struct {
	json  bool
	out   term.JSONLines
	t     *term.Table
	named []string // the paths of the command line
	paths string   // the paths under which debuggers request these files
	found int      // objects and dumps
}

// row prints an object.
func (p *identified) row(id *report.Identified, more ...string) {
	p.t.Row(append([]string{id.Kind, id.Arch, id.ID(), term.Size(id.Size), strings.Join(id.Features, ","), strings.Join(id.Answers, ","), id.Path}, more...)...)
	for _, line := range id.Lines() {
		p.t.Row("", "", "", "", "", "", "  "+line)
	}
	if slices.Contains(p.named, id.Path) {
		p.paths += id.PathText()
	}
}

// local identifies a file on this machine.
func (p *identified) local(opt objfile.Options) func(context.Context, *scan.File) error {
	return func(ctx context.Context, f *scan.File) error {
		list, err := report.Identify(ctx, f, opt)
		if err != nil {
			return &fileError{err}
		}
		for i := range list {
			p.found++
			if !p.json {
				p.row(&list[i])
			} else if err := p.out.Write(list[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

// mayBeSent refuses files that are neither symbol files nor dumps: nothing of them is
// sent to a server.
func mayBeSent(head []byte, name string) error {
	if dump.Detect(head) != "" {
		return nil
	}
	return objfile.Detect(head, name)
}

// remote asks a server about a file.
func (c identifyCmd) remote(a *app, p *identified) (func(context.Context, *scan.File) error, error) {
	if c.As != "" {
		return nil, term.UsageError("--as does not go with --server")
	}
	server, err := client.NewPusher(c.Server, c.TokenFile, os.Getenv, upstream.NewDialer(upstream.DialerOptions{}).ClientFor)
	if err != nil {
		return nil, err
	}
	server.RetryAndTell(time.Minute, a.stderr)
	return func(ctx context.Context, f *scan.File) error {
		content, err := f.Open(ctx)
		if err != nil {
			return &fileError{err}
		}
		defer f.Discard()
		defer content.Close()
		var answer report.FileAnswer
		if err := server.Identify(ctx, f.Name, content, content.Size(), &answer); client.ProblemWord(err) == "not-symbol" {
			return &fileError{fmt.Errorf("%w: %s", objfile.ErrNotSymbolFile, client.ProblemText(err))}
		} else if err != nil {
			return err
		}
		return c.print(a.console, p, f.Path, &answer)
	}, nil
}

// print prints the answer of a server.
func (c identifyCmd) print(a *console, p *identified, path string, answer *report.FileAnswer) error {
	for i := range answer.Objects {
		p.found++
		o := &answer.Objects[i]
		if o.Path = path; !c.JSON {
			p.row(&o.Identified, o.HeldText())
		} else if err := p.out.Write(o); err != nil {
			return err
		}
	}
	if answer.Dump == nil {
		return nil
	}
	p.found++
	if c.JSON {
		answer.Name = path
		return p.out.Write(answer)
	}
	if err := p.t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: %s\n", term.Printable(path), answer.Dump.Kind)
	return answer.Dump.Table(a.stdout)
}
