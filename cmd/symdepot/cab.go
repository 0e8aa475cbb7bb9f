package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/term"
)

type cabCmd struct {
	Create  cabCreateCmd  `cmd:"" help:"Write a cabinet."`
	List    cabListCmd    `cmd:"" help:"List the files in a cabinet."`
	Extract cabExtractCmd `cmd:"" help:"Extract files from a cabinet."`
}

type cabCreateCmd struct {
	Method string   `help:"${cab_create_method}" enum:"mszip,lzx,none" default:"mszip"`
	Out    string   `arg:"" name:"cabinet" help:"The cabinet to write; an existing file is replaced."`
	Files  []string `arg:"" name:"file" help:"Files to put in, under their base names."`
}

// Help is the long help text.
func (cabCreateCmd) Help() string {
	return `A cabinet of a single file is the form that symbol stores use for foo.pd_. The cabinet is read back and compared before it
appears under its name.

  symdepot cab create foo.pd_ foo.pdb
  symdepot cab create --method lzx all.cab *.pdb

A cabinet can hold neither a file of more than 65,535 blocks of 32 KiB (2,147,450,880 bytes) nor 2 GiB in all: larger input
is refused.

Exit codes: 0 written, 2 wrong command line, 3 failed or too large (nothing was written).`
}

// Run writes a cabinet.
func (c cabCreateCmd) Run(a *console) (err error) {
	opt := cab.WriteOptions{Method: map[string]cab.Method{"mszip": cab.MSZIP, "lzx": cab.LZX, "none": cab.None}[c.Method], Workers: runtime.GOMAXPROCS(0)}
	var sources []cab.Source
	for _, path := range c.Files {
		src, err := cabSource(path)
		if err != nil {
			return err
		}
		sources = append(sources, src)
	}
	out, err := os.CreateTemp(filepath.Dir(c.Out), ".symdepot-cab-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, out.Close(), os.Remove(out.Name()))
		}
	}()
	size, _, err := cab.CreateChecked(a.ctx, out, sources, opt)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Out, err)
	}
	if err := errors.Join(out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), c.Out); err != nil {
		return err
	}
	fmt.Fprintf(a.stdout, "%s: %s, %s\n", term.Printable(c.Out), term.Count(int64(len(sources)), "file"), term.Size(size))
	return nil
}

// cabSource describes a file to put into the cabinet.
func cabSource(path string) (cab.Source, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return cab.Source{}, err
	}
	if !fi.Mode().IsRegular() {
		return cab.Source{}, term.UsageError(path + " is not a file")
	}
	return cab.Source{Name: filepath.Base(path), Size: fi.Size(), Modified: fi.ModTime(), Attributes: cab.AttrArchive,
		Open: func() (io.ReadCloser, error) { return os.Open(path) }}, nil
}

type cabListCmd struct {
	JSON bool   `help:"Print one JSON object per file."`
	File string `arg:"" name:"cabinet" help:"A cabinet: .cab, .pd_, .dl_, .ex_ …"`
}

// Help is the long help text.
func (cabListCmd) Help() string {
	return `Prints the name, the size and the time of each file.

  symdepot cab list symbols.cab

Exit codes: 0 listed, 2 wrong command line, 3 no cabinet, or a damaged one.`
}

// openCab opens a cabinet on disk.
func openCab(path string) (*cab.Reader, io.Closer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil {
		var r *cab.Reader
		if r, err = cab.Open(f, fi.Size(), cab.Options{}); err == nil {
			return r, f, nil
		}
	}
	_ = f.Close()
	return nil, nil, fmt.Errorf("%s: %w", path, err)
}

// Run lists a cabinet.
func (c cabListCmd) Run(a *console) error {
	r, closer, err := openCab(c.File)
	if err != nil {
		return err
	}
	defer closer.Close()
	out, t := term.NewJSONLines(a.stdout), term.NewTable(a.stdout, "SIZE", "MODIFIED", "METHOD", "NAME")
	for _, f := range r.Files() {
		method := "in another cabinet of the set"
		if f.Folder >= 0 {
			method = r.Folders()[f.Folder].Compression.String()
		}
		if c.JSON {
			err := out.Write(struct {
				Name     string `json:"name"`
				Size     int64  `json:"size"`
				Modified string `json:"modified,omitempty"`
				Method   string `json:"method"`
			}{f.Name, f.Size, cabTime(f), method})
			if err != nil {
				return err
			}
			continue
		}
		t.Row(term.Size(f.Size), cabTime(f), method, f.Name)
	}
	if c.JSON {
		return nil
	}
	return t.Flush()
}

// cabTime prints the wall clock that a cabinet stores; it knows no zone.
func cabTime(f *cab.File) string {
	if f.Modified.IsZero() {
		return ""
	}
	return f.Modified.Format("2006-01-02T15:04:05")
}

type cabExtractCmd struct {
	Dir     string   `help:"Folder to extract into." short:"C" default:"." placeholder:"DIR"`
	File    string   `arg:"" name:"cabinet" help:"A cabinet."`
	Members []string `arg:"" optional:"" name:"member" help:"Only these, in any letter case."`
}

// Help is the long help text.
func (cabExtractCmd) Help() string {
	return `Files appear complete or not at all, and never outside the folder.

  symdepot cab extract -C out foo.pd_
  symdepot cab extract symbols.cab foo.pdb

Exit codes: 0 extracted, 1 a member is not in it, 2 wrong command line, 3 damaged or failed.`
}

// Run extracts a cabinet.
func (c cabExtractCmd) Run(a *console) error {
	r, closer, err := openCab(c.File)
	if err != nil {
		return err
	}
	defer closer.Close()
	want := map[string]bool{}
	for _, m := range c.Members {
		want[strings.ToLower(filepath.ToSlash(m))] = true
	}
	root, err := openRoot(c.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = r.Walk(func(f *cab.File, content io.Reader) error {
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		path, ok := f.Path()
		if len(c.Members) > 0 {
			key := strings.ToLower(strings.ReplaceAll(f.Name, `\`, "/"))
			if !want[key] {
				return nil
			}
			delete(want, key)
		}
		if !ok {
			return fmt.Errorf("%q would leave the output folder; extraction stopped", f.Name)
		}
		if err := extractOne(root, path, f, content); err != nil {
			return err
		}
		fmt.Fprintln(a.stdout, term.Printable(path))
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if len(want) > 0 {
		for m := range want {
			fmt.Fprintf(a.stderr, "symdepot: not in %s: %s\n", c.File, term.Printable(m))
		}
		return term.ErrNegative
	}
	return nil
}

// openRoot makes a folder if need be and opens it.
func openRoot(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return os.OpenRoot(dir)
}

// extractOne writes a file under a temporary name and renames it when it is
// whole.
func extractOne(root *os.Root, path string, f *cab.File, content io.Reader) error {
	if err := root.MkdirAll(filepath.FromSlash(parent(path)), 0o755); err != nil {
		return err
	}
	name := filepath.FromSlash(path)
	temp := name + ".symdepot-part"
	w, err := root.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	err = errors.Join(err, w.Close())
	if err == nil && !f.Modified.IsZero() {
		err = root.Chtimes(temp, f.Modified, f.Modified)
	}
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	return nil
}

// parent is the folder part of a slash path, "." if there is none.
func parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		return path[:i]
	}
	return "."
}
