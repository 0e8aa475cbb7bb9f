package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

const (
	sampleFiles = 400  // files looked at to find out an arrangement
	sampleSteps = 4000 // names read for that
	sampleDepth = 8    // no layout is deeper
	sampleWide  = 12   // files and folders looked at of one folder below the first
)

// Detect detects the layout of the files in dir: by the marks of symbol stores,
// else by the paths of some of its files. Flat is also the answer when no layout
// fits.
func Detect(ctx context.Context, dir string) (layout.Layout, error) {
	var none layout.Layout
	for mark, lay := range map[string]layout.Layout{"index2.txt": layout.Index2, ".build-id": layout.GDB} {
		if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
			return lay, nil
		}
	}
	tiers, err := symstore.Detect(dir)
	if err != nil {
		return none, fmt.Errorf("detect the layout of %s: %w", dir, err)
	}
	for _, mark := range []string{"000Admin", "000admin", "pingme.txt"} {
		if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
			if tiers == symstore.Two {
				return layout.Index2, nil
			}
			return layout.SymStore, nil
		}
	}
	s := sampler{ctx: ctx, votes: map[layout.Layout]int{}}
	if s.root, err = os.OpenRoot(dir); err != nil {
		return none, err
	}
	defer s.root.Close()
	if err := s.walk(".", nil); err != nil {
		return none, fmt.Errorf("detect the layout of %s: %w", dir, err)
	}
	return s.winner(), nil
}

// sampler walks a part of a tree and counts which layouts its paths fit.
type sampler struct {
	ctx          context.Context
	root         *os.Root
	files, steps int
	votes        map[layout.Layout]int
}

func (s *sampler) walk(dir string, parts []string) error {
	d, err := s.root.Open(dir)
	if err != nil {
		if dir == "." {
			return err
		}
		return nil // one folder that cannot be read decides nothing
	}
	defer d.Close()
	for seen := 0; s.steps < sampleSteps && s.files < sampleFiles && (dir == "." || seen < sampleWide); {
		entries, err := d.ReadDir(64)
		if errors.Is(err, io.EOF) || len(entries) == 0 {
			return nil
		}
		for _, e := range entries {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			if s.steps++; s.files >= sampleFiles || s.steps >= sampleSteps {
				return nil
			}
			at := append(parts[:len(parts):len(parts)], e.Name())
			if e.IsDir() && len(at) < sampleDepth {
				seen++
				if err := s.walk(path.Join(at...), at); err != nil {
					return err
				}
			} else if e.Type()&fs.ModeType == 0 || e.Type()&fs.ModeSymlink != 0 {
				seen++
				s.files++
				s.vote(strings.Join(at, "/"))
			}
			if dir != "." && seen >= sampleWide {
				return nil
			}
		}
	}
	return nil
}

// vote counts a path for the most telling layout that it fits.
func (s *sampler) vote(p string) {
	for _, l := range []layout.Layout{layout.LLDB, layout.Unified, layout.GDB, layout.Debuginfod, layout.SymStore, layout.Index2, layout.BreakpadTree} {
		r, err := l.Parse(p)
		if err != nil {
			continue
		}
		switch r.Layout {
		case layout.BreakpadTree:
			l = layout.BreakpadTree
		case layout.SlashSymbols:
			l = layout.SlashSymbols
		case layout.Native:
			s.files-- // a source bundle stands in many layouts
			return
		}
		s.votes[l]++
		return
	}
}

// winner returns the layout of most paths, or native if several are at home.
func (s *sampler) winner() layout.Layout {
	best, most, sum, native := layout.Flat, 0, 0, 0
	for _, l := range layout.Folders() {
		n := s.votes[l]
		sum += n
		switch l {
		case layout.SymStore, layout.BreakpadTree, layout.GDB, layout.LLDB:
			native += n
		}
		if n > most {
			best, most = l, n
		}
	}
	if most == 0 || most*2 < s.files-sum {
		return layout.Flat // what fits does so by chance
	}
	if most < sum && native > most {
		return layout.Native
	}
	return best
}
