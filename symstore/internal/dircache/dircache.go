// Package dircache does many small file operations below one folder without walking from
// that folder to each file. It never leaves the folder, whatever the links in it say.
package dircache

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// New returns a cache of folders below root, which must stay open as long as the cache.
func New(root *os.Root) *Cache { return &Cache{root: root} }

// ReadSmall reads a file of up to limit bytes, and one byte more of a longer
// one.
func ReadSmall(root *os.Root, name string, limit int) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit)+1))
}

// ReadNames lists a folder.
func ReadNames(root *os.Root, name string) ([]string, error) {
	d, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// mkdir makes a folder. An existing one is no error.
func mkdir(root *os.Root, name string) error {
	err := root.Mkdir(name, 0o777)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
