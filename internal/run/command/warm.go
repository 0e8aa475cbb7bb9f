package command

import (
	"fmt"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/coldstore"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/depot/display"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/serve/web"
	"github.com/symdepot/symdepot/internal/store/blob"
)

type warmCmd struct {
	All  bool     `help:"All cold files of the depot."`
	JSON bool     `help:"Print one JSON object per file that cannot be restored, and a last one with the sums."`
	What []string `arg:"" optional:"" name:"file" help:"Files: a name, also with * and ?, an id or a SHA-256."`
}

// Run makes files plain.
func (c warmCmd) Run(a *session) error {
	if c.All == (len(c.What) > 0) {
		return term.UsageError("name the files that become plain, or give --all")
	}
	d, err := a.open(depot.Options{MustExist: true})
	if err != nil {
		return err
	}
	defer d.Close()
	out := term.NewJSONLines(a.Stdout)
	s, err := d.Cold.Stats(a.Ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	if c.All {
		total = s.Plain
	}
	bar, ended, read := term.NewProgress(a.Stderr, "restored", total), int64(0), int64(0)
	w := coldstore.Warming{
		Pace: func(n int) error {
			read += int64(n)
			bar.Set(ended + read)
			return nil
		},
		Each: func(row coldstore.ColdContent) error {
			ended, read = ended+row.Size, 0
			bar.Set(ended)
			return nil
		},
		Failed: func(f content.Fault) {
			if c.JSON {
				_ = out.Write(f)
			} else {
				display.Fault(a.Stdout, f)
			}
		},
	}
	sum, err := c.warm(a.Console, d, w)
	bar.Done()
	if err != nil {
		return err
	}
	if c.JSON {
		err = out.Write(sum)
	} else {
		_, err = fmt.Fprintln(a.Stdout, display.WarmedText(sum))
	}
	if err == nil && sum.Failed > 0 {
		err = term.ErrNegative
	}
	return err
}

// warm makes what the command line names plain.
func (c warmCmd) warm(a *console.Console, d *depot.Depot, w coldstore.Warming) (coldstore.Warmed, error) {
	if c.All {
		return d.Cold.WarmAll(a.Ctx, w)
	}
	var refs []blob.Ref
	for _, text := range c.What {
		n, err := apiOf(d, web.Config{}).Find(a.Ctx, text, 0, func(f display.Found) error {
			ref, err := blob.ParseRef(f.SHA256)
			refs = append(refs, ref)
			return err
		})
		if err != nil {
			return coldstore.Warmed{}, err
		}
		if n == 0 {
			return coldstore.Warmed{}, a.Nothing("nothing found: " + term.Printable(text))
		}
	}
	return d.Cold.WarmThese(a.Ctx, refs, w)
}
