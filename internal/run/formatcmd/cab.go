// Package formatcmd is the commands that read and write files of other programs, without a depot.
package formatcmd

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/symdepot/symdepot/cab"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/console"
)

// Cab is the command symdepot cab.
type Cab struct {
	Create  CabCreate  `cmd:"" help:"Write a cabinet."`
	List    CabList    `cmd:"" help:"List the files in a cabinet."`
	Extract CabExtract `cmd:"" help:"Extract files from a cabinet."`
}

// CabCreate writes a cabinet.
type CabCreate struct {
	Method string   `help:"text:cab_create_method" enum:"mszip,lzx,none" default:"mszip"`
	Out    string   `arg:"" name:"cabinet" help:"The cabinet to write; an existing file is replaced."`
	Files  []string `arg:"" name:"file" help:"Files to put in, under their base names."`
}

// cabMethods are the methods of compression by their names on the command line.
var cabMethods = map[string]cab.Method{"mszip": cab.MSZIP, "lzx": cab.LZX, "none": cab.None}

// Run writes a cabinet.
func (c CabCreate) Run(a *console.Console) error {
	size, err := cab.CreateFile(a.Ctx, c.Out, c.Files, cab.WriteOptions{Method: cabMethods[c.Method], Workers: runtime.GOMAXPROCS(0)})
	if errors.Is(err, cab.ErrNotFile) {
		return term.UsageError(err.Error())
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(a.Stdout, "%s: %s, %s\n", term.Printable(c.Out), term.Count(int64(len(c.Files)), "file"), term.Size(size))
	return nil
}

// CabList lists the files in a cabinet.
type CabList struct {
	JSON bool   `help:"Print one JSON object per file."`
	File string `arg:"" name:"cabinet" help:"A cabinet: .cab, .pd_, .dl_, .ex_ …"`
}

// Run lists a cabinet.
func (c CabList) Run(a *console.Console) error {
	r, closer, err := cab.OpenFile(c.File)
	if err != nil {
		return err
	}
	defer closer.Close()
	out, t := term.NewJSONLines(a.Stdout), term.NewTable(a.Stdout, "SIZE", "MODIFIED", "METHOD", "NAME")
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

// CabExtract extracts files from a cabinet.
type CabExtract struct {
	Dir     string   `help:"Folder to extract into." short:"C" default:"." placeholder:"DIR"`
	File    string   `arg:"" name:"cabinet" help:"A cabinet."`
	Members []string `arg:"" optional:"" name:"member" help:"Only these, in any letter case."`
}

// Run extracts a cabinet.
func (c CabExtract) Run(a *console.Console) error {
	r, closer, err := cab.OpenFile(c.File)
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return err
	}
	dir, err := os.OpenRoot(c.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	missing, err := r.Extract(a.Ctx, dir, c.Members, func(path string) { fmt.Fprintln(a.Stdout, term.Printable(path)) })
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if len(missing) == 0 {
		return nil
	}
	for _, m := range missing {
		fmt.Fprintf(a.Stderr, "symdepot: not in %s: %s\n", c.File, term.Printable(m))
	}
	return term.ErrNegative
}
