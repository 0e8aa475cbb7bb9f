package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/symdepot/symdepot/layout"
)

// maxFile is the largest configuration file, in bytes.
const maxFile = 1 << 20

// readSmall reads a regular file of limited size.
func readSmall(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	}
	if err == nil && info.Size() > limit {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("the file has %d bytes; at most %d are expected", info.Size(), limit)}
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// splitStore splits DIR[,layout=L]. If the whole text is the path of a folder,
// it is not split.
func splitStore(text string) (dir, name string, err error) {
	i := strings.LastIndex(text, ",layout=")
	if i < 0 || isDir(text) {
		return text, "", nil
	}
	dir, name = text[:i], text[i+len(",layout="):]
	_, err = layout.ParseFolder(name)
	return dir, name, err
}
