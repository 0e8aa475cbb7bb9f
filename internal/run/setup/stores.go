package setup

import (
	"context"
	"fmt"
	"os"

	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore"
)

// OpenStores opens the folders that are served in place. The caller closes them,
// even after an error.
func OpenStores(ctx context.Context, c *config.Config) ([]*tree.Folder, error) {
	roots, err := c.PointerFolders()
	if err != nil {
		return nil, err
	}
	records, err := Records(c)
	if err != nil {
		return nil, fmt.Errorf("admin_files: %w", err)
	}
	if err := CheckPointerFolders(roots); err != nil {
		return nil, err
	}
	var list []*tree.Folder
	for _, s := range c.Stores {
		if info, err := os.Stat(s.Dir); err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		} else if !info.IsDir() {
			return list, fmt.Errorf("--store %s: not a folder", s.Dir)
		}
		lay, err := layout.ParseFolder(s.Layout)
		if err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		}
		f, err := tree.Open(ctx, s.Dir, tree.Options{
			Layout: lay, PointerRoots: roots, AdminFiles: records.Refs, Public: s.Forms == upstream.FormsPublic,
		})
		if err != nil {
			return list, fmt.Errorf("--store %s: %w", s.Dir, err)
		}
		list = append(list, f)
	}
	return list, nil
}

// CheckPointerFolders returns an error if the folder of a pointer root does not
// exist.
func CheckPointerFolders(roots []symstore.PointerRoot) error {
	for _, r := range roots {
		info, err := os.Stat(r.Dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a folder", r.Dir)
		}
		if err != nil {
			return fmt.Errorf("--pointer-root: %w", err)
		}
	}
	return nil
}
