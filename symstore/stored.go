package symstore

import (
	"errors"
	"io/fs"
	"path"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// StoredFile is one file in the folder of a key: the stored file, its cabinet or its
// pointer. A refs.ptr is not one.
type StoredFile struct {
	Path string // relative to the root of the store, with slashes
	Info fs.FileInfo
	// Pointer means that it is the file.ptr.
	Pointer bool
}

// StoredFiles returns the files of a key without opening them, so that their access
// times do not change. It returns none for a key that the store does not have.
func (s *Store) StoredFiles(name, key string) ([]StoredFile, error) {
	dir, spelled, ok := s.locate(name, key)
	if !ok {
		return nil, nil
	}
	entries, err := s.readDir(dir)
	if err != nil {
		return nil, ignoreNotExist(wrapError(err))
	}
	var list []StoredFile
	for _, e := range entries {
		leaf := symfile.Fold(e.Name())
		if leaf != symfile.Fold(spelled) && leaf != symfile.Fold(layout.CabinetName(spelled)) && leaf != pointerLeaf {
			continue
		}
		info, err := s.root.Lstat(path.Join(dir, e.Name()))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted meanwhile
			}
			return list, wrapError(err)
		}
		list = append(list, StoredFile{Path: path.Join(dir, e.Name()), Info: info, Pointer: leaf == pointerLeaf})
	}
	return list, nil
}
