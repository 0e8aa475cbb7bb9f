package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/symdepot/symdepot/internal/report"
	"github.com/symdepot/symdepot/internal/scan"
	"github.com/symdepot/symdepot/internal/sources"
	"github.com/symdepot/symdepot/internal/term"
	"github.com/symdepot/symdepot/objfile"
)

// fileError is an error about one file, after which identify goes on.
type fileError struct{ error }

func (e *fileError) Unwrap() error { return e.error }

// sourceColumns are the columns of identify --sources.
var sourceColumns = []string{"ID", "CHECKSUM", "TEXT", "SOURCE FILE", "PATH"}

// errNoSources means that a symbol file names no source files.
var errNoSources = fmt.Errorf("%w: it names no source files", objfile.ErrNotSymbolFile)

// sources lists the source files that a file names.
func (p *identified) sources(a *console, opt objfile.Options) func(context.Context, *scan.File) error {
	return func(ctx context.Context, f *scan.File) error {
		defer f.Discard()
		content, err := f.Open(ctx)
		if err != nil {
			return &fileError{err}
		}
		defer content.Close()
		objects, err := objfile.Identify(content, content.Size(), f.Name, opt)
		if err != nil {
			return &fileError{err}
		}
		named := 0
		for _, o := range objects {
			if o.Deflated != 0 {
				continue
			}
			list, err := sources.List(ctx, io.NewSectionReader(content, o.Offset, o.Size), o.Size, o.Object, sources.Options{})
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return &fileError{err}
			}
			if list.Incomplete != "" {
				a.warn([]string{term.Printable(f.Path + ": some names are missing: " + list.Incomplete)})
			}
			for _, n := range list.Names {
				named++
				if err := p.source(f.Path, o, n); err != nil {
					return err
				}
			}
		}
		if p.found += named; named == 0 {
			return &fileError{errNoSources}
		}
		return nil
	}
}

// source prints a source file that an object names.
func (p *identified) source(path string, o objfile.Object, n sources.Name) error {
	id := report.ID(o.Kind.String(), o.CodeID, o.DebugID.Breakpad(), string(o.BuildID))
	if p.json {
		return p.out.Write(struct {
			Path     string `json:"path"`
			Kind     string `json:"kind"`
			ID       string `json:"id"`
			Name     string `json:"name"`
			Checksum string `json:"checksum,omitempty"` // its algorithm
			Sum      string `json:"sum,omitempty"`
			Embedded bool   `json:"embedded"`
		}{path, o.Kind.String(), id, n.Name, n.Alg, hex.EncodeToString(n.Sum), n.Embedded != nil})
	}
	sum, text := "", ""
	if n.Alg != "" {
		sum = n.Alg
	}
	if n.Embedded != nil {
		text = "embedded"
	}
	p.t.Row(id, sum, text, n.Name, path)
	return nil
}

// faultRow is the row of a file that is no symbol file, or cannot be read.
func (c identifyCmd) faultRow(reason, path string) []string {
	if c.Sources {
		return []string{"-", "", "", reason, path}
	}
	return []string{"-", "", "", "", reason, "", path}
}
