package tree

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
	sampleFiles = 400  // files looked at to detect a layout
	sampleSteps = 4000 // names read for that
	sampleDepth = 8    // no layout is deeper
	sampleWide  = 12   // files and folders looked at of one folder below the first
)

// Detect detects the layout of the files in dir: by the marks of symbol stores,
// else by the paths of some of its files. Flat is also the answer when no layout
// fits.
func Detect(ctx context.Context, dir string) (layout.Layout, error) {
	for _, mark := range layout.Marks() {
		if _, err := os.Stat(filepath.Join(dir, mark.Name)); err == nil {
			return mark.Layout, nil
		}
	}
	tiers, err := symstore.Detect(dir)
	if err != nil {
		return layout.None, fmt.Errorf("detect the layout of %s: %w", dir, err)
	}
	for _, mark := range []string{"000Admin", "000admin", "pingme.txt", "pingback.txt"} {
		if _, err := os.Stat(filepath.Join(dir, mark)); err == nil {
			if tiers == symstore.Two {
				return layout.Index2, nil
			}
			return layout.SymStore, nil
		}
	}
	s := sampler{ctx: ctx}
	if s.root, err = os.OpenRoot(dir); err != nil {
		return layout.None, err
	}
	defer s.root.Close()
	if err := s.walk(".", nil); err != nil {
		return layout.None, fmt.Errorf("detect the layout of %s: %w", dir, err)
	}
	return s.sample.Layout(), nil
}

// sampler walks a part of a tree and counts which layouts its paths fit.
type sampler struct {
	ctx    context.Context
	root   *os.Root
	steps  int
	sample layout.Sample
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
	for seen := 0; s.steps < sampleSteps && s.sample.Files() < sampleFiles && (dir == "." || seen < sampleWide); {
		entries, err := d.ReadDir(64)
		if errors.Is(err, io.EOF) || len(entries) == 0 {
			return nil
		}
		for _, e := range entries {
			if err := s.ctx.Err(); err != nil {
				return err
			}
			if s.steps++; s.sample.Files() >= sampleFiles || s.steps >= sampleSteps {
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
				s.sample.Add(strings.Join(at, "/"))
			}
			if dir != "." && seen >= sampleWide {
				return nil
			}
		}
	}
	return nil
}
