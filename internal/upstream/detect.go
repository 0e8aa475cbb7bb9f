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

// Flat is the arrangement of a folder without any: files beside each other.
const Flat = "flat"

// Layouts are the arrangements of a tree on disk: names of layouts, and Flat.
var Layouts = []string{
	layout.SymStore.Name(), layout.Index2.Name(), layout.SSQP.Name(), layout.BreakpadTree.Name(), layout.Unified.Name(),
	layout.GDB.Name(), layout.LLDB.Name(), layout.Debuginfod.Name(), layout.SlashSymbols.Name(), layout.Native.Name(), Flat,
}

// KnownLayout reports whether a tree on disk can be arranged like that.
func KnownLayout(name string) bool {
	for _, l := range Layouts {
		if l == name {
			return true
		}
	}
	return false
}

const (
	sampleFiles = 400  // files looked at to find out an arrangement
	sampleSteps = 4000 // names read for that
	sampleDepth = 8    // no layout is deeper
	sampleWide  = 12   // files and folders looked at of one folder below the first
)

// Detect finds out how the files in dir are arranged: by the marks of symbol
// stores, else by the paths of some of its files. Flat is also the answer when
// nothing fits.
func Detect(ctx context.Context, dir string) (string, error) {
	for mark, name := range map[string]string{"index2.txt": layout.Index2.Name(), ".build-id": layout.GDB.Name()} {
		if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
			return name, nil
		}
	}
	tiers, err := symstore.Detect(dir)
	if err != nil {
		return "", fmt.Errorf("detect the layout of %s: %w", dir, err)
	}
	for _, mark := range []string{"000Admin", "000admin", "pingme.txt"} {
		if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
			if tiers == symstore.Two {
				return layout.Index2.Name(), nil
			}
			return layout.SymStore.Name(), nil
		}
	}
	s := sampler{ctx: ctx, votes: map[string]int{}}
	if s.root, err = os.OpenRoot(dir); err != nil {
		return "", err
	}
	defer s.root.Close()
	if err := s.walk(".", nil); err != nil {
		return "", fmt.Errorf("detect the layout of %s: %w", dir, err)
	}
	return s.winner(), nil
}

// sampler walks a part of a tree and counts which layouts its paths fit.
type sampler struct {
	ctx          context.Context
	root         *os.Root
	files, steps int
	votes        map[string]int
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
		case "breakpad":
			l = layout.BreakpadTree
		case "slashsymbols":
			l = layout.SlashSymbols
		case "native":
			s.files-- // a source bundle stands in many layouts
			return
		}
		s.votes[l.Name()]++
		return
	}
}

// winner returns the layout of most paths, or native if several are at home.
func (s *sampler) winner() string {
	best, most, sum, native := Flat, 0, 0, 0
	for _, name := range Layouts {
		n := s.votes[name]
		sum += n
		switch name {
		case layout.SymStore.Name(), layout.BreakpadTree.Name(), layout.GDB.Name(), layout.LLDB.Name():
			native += n
		}
		if n > most {
			best, most = name, n
		}
	}
	if most == 0 || most*2 < s.files-sum {
		return Flat // what fits does so by chance
	}
	if most < sum && native > most {
		return layout.Native.Name()
	}
	return best
}
