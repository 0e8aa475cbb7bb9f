package symbolicate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/objtab"
	"github.com/symdepot/symdepot/symfile"
)

const (
	// maxSplit is how many .dwo files of the depot are read for one module. Programs
	// of more units have a package.
	maxSplit = 512
	// packageTries is how many ids of a program's units are tried as the lowest id of
	// its package. The package lacks units whose .dwo file was not found.
	packageTries = 16
	// maxLinks is the number of contents of which the links are kept, and maxLinkText
	// the sum of the names in them, in bytes.
	maxLinks    = 256
	maxLinkText = 16 << 20
)

// findLinked adds the files to which those of a module refer: the debug file that a
// MinGW program names, and for an ELF module the supplementary file of dwz, and the
// package or the .dwo files of split units.
// Those that are not found are named in f.missing.
func (svc *Service) findLinked(ctx context.Context, products []string, f *files) error {
	if err := svc.findByName(ctx, products, f); err != nil {
		return err
	}
	for _, p := range f.list {
		if p.kind != symfile.ELF {
			continue
		}
		l, err := svc.links(ctx, p)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, objfile.ErrBroken), errors.Is(err, objfile.ErrNotSymbolFile):
			continue // reading the module reports it
		case err != nil:
			return err
		case !l.DWARF:
			continue
		}
		if err := svc.findAlternate(ctx, products, f, l); err != nil {
			return err
		}
		return svc.findSplit(ctx, products, f, l)
	}
	return nil
}

// links returns which files a file refers to.
func (svc *Service) links(ctx context.Context, p *piece) (objtab.Links, error) {
	if l, ok := svc.modules.linksOf(p.tag); ok {
		return l, nil
	}
	file, err := svc.open(ctx, p)
	if err != nil {
		return objtab.Links{}, err
	}
	var l objtab.Links
	if in := (objtab.File{Reader: file, Size: p.size}); p.kind == symfile.PE {
		l.Debug, l.CRC, err = objtab.PELink(in)
	} else {
		l, err = objtab.LinksOf(ctx, in)
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return objtab.Links{}, err
	}
	svc.modules.keepLinks(p.tag, l)
	return l, nil
}

// findAlternate finds the supplementary file by its build-id.
func (svc *Service) findAlternate(ctx context.Context, products []string, f *files, l objtab.Links) error {
	if l.AlternateID == "" {
		return nil
	}
	p, err := svc.byBuildID(ctx, products, l.AlternateID)
	if err != nil {
		return err
	}
	if p == nil {
		f.missing, f.alternate = append(f.missing, missingAlternate(l)), l.AlternateID
		return nil
	}
	f.list = append(f.list, p)
	return nil
}

// missingAlternate names the supplementary file of a program.
func missingAlternate(l objtab.Links) string {
	return fmt.Sprintf("the supplementary debug file %s with the build-id %s", symfile.BaseName(l.Alternate), l.AlternateID)
}

// byBuildID returns the debug file with a build-id, or nil.
func (svc *Service) byBuildID(ctx context.Context, products []string, id debugid.BuildID) (*piece, error) {
	h, err := svc.held(ctx, products, string(id), program)
	if h != nil || err != nil {
		return h, err
	}
	p, err := svc.inTree(ctx, products, []string{"buildid", string(id), "debuginfo"})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return p, err
}

// held returns the ELF file with debug information that the index has under an id, or
// nil.
func (svc *Service) held(ctx context.Context, products []string, id string, role symfile.Role) (*piece, error) {
	id = symfile.Fold(id)
	if svc.Depot.NotIndexed(ctx, products, id) {
		return nil, nil
	}
	hits, err := svc.Depot.Lookup(ctx, products, symfile.Lookup{ID: id, Role: role})
	if err != nil {
		return nil, err
	}
	h := best(hits, func(h *record.Hit) bool { return h.Object.Kind == symfile.ELF && h.Object.Role&symfile.Debug != 0 }, "")
	if h == nil {
		return nil, nil
	}
	return pieceOf(h), nil
}

// findSplit finds the package of the split units, or their .dwo files.
func (svc *Service) findSplit(ctx context.Context, products []string, f *files, l objtab.Links) error {
	for _, s := range l.Splits[:min(len(l.Splits), packageTries)] {
		p, err := svc.held(ctx, products, symfile.PackageID(s.ID), symfile.Debug)
		if err != nil {
			return err
		}
		if p != nil {
			f.list = append(f.list, p)
			return nil
		}
	}
	var lacks []string
	for i, s := range l.Splits {
		if i == maxSplit {
			lacks = append(lacks, fmt.Sprintf("%d more", len(l.Splits)-i))
			break
		}
		p, err := svc.held(ctx, products, symfile.SplitID(s.ID), symfile.Debug)
		if err != nil {
			return err
		}
		if p == nil {
			lacks = append(lacks, symfile.BaseName(s.Name))
		} else if !slices.ContainsFunc(f.list, func(o *piece) bool { return o.tag == p.tag }) {
			f.list = append(f.list, p)
		}
	}
	if len(lacks) > 0 {
		f.missing = append(f.missing, missingSplits(lacks))
	}
	return nil
}

// missingSplits names split units that were not found.
func missingSplits(names []string) string {
	const most = 5
	list := "the split debug information of "
	for i, n := range names {
		if i == most {
			return fmt.Sprintf("%s and of %d more units", list, len(names)-i)
		}
		if i > 0 {
			list += ", "
		}
		list += n
	}
	return list + " (.dwo files or a .dwp package)"
}
