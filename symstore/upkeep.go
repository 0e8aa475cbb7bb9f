package symstore

import (
	"bytes"
	"encoding/json"
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
	d, err := s.root.Open(dir)
	if err != nil {
		return nil, ignoreNotExist(wrapError(err))
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, wrapError(err)
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

// Converting returns the tiers that an interrupted conversion leads to. The next
// writer completes it. ok is false if there is no such conversion.
func (s *Store) Converting() (to Tiers, ok bool, err error) {
	data, err := s.readText(convertFile)
	if data == nil || err != nil {
		return Flat, false, err
	}
	var c conversion
	if err := json.Unmarshal(bytes.TrimSpace(data), &c); err != nil || c.To != One && c.To != Two {
		return Flat, false, ErrDamaged
	}
	return c.To, true, nil
}
