package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// sharedDir is the mode of the folders of a depot that a group shares: new
// files in them belong to the group.
const sharedDir = 0o770 | fs.ModeSetgid

// Sharing says with whom a depot's files and folders are shared.
type Sharing struct {
	group string // the group to give new files to, by name
	// shared is set if the group of the folder that contains a new file may read
	// and write the file too.
	shared bool
}

// SharingOf returns the sharing of the depot in dir. Without a group's name, the
// folder decides: it is shared if its group may write there and new files
// belong to this group.
func SharingOf(dir, group string) Sharing {
	info, err := os.Stat(dir)
	return Sharing{group, group != "" || err == nil && runtime.GOOS != "windows" && info.Mode()&(fs.ModeSetgid|0o020) == fs.ModeSetgid|0o020}
}

// MakeFolders makes the folders of a new depot and its empty index, with the
// modes that all later files follow. Without a group's name, a folder that
// exists keeps its mode.
func (s Sharing) MakeFolders(dir string) error {
	if err := durable.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	for _, d := range []string{dir, filepath.Join(dir, "blobs")} {
		if err := s.makeFolder(d); err != nil {
			return err
		}
	}
	index := filepath.Join(dir, "index.db")
	f, err := os.OpenFile(index, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), s.File(index))
}

func (s Sharing) makeFolder(dir string) error {
	if _, err := os.Stat(dir); err == nil && s.group == "" {
		return nil
	}
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return s.share(dir, sharedDir)
}

// File applies the sharing to a new file.
func (s Sharing) File(name string) error { return s.share(name, 0o660) }

// share gives a file or folder to the group, with the mode given.
func (s Sharing) share(name string, mode fs.FileMode) error {
	if !s.shared {
		return nil
	}
	if s.group == "" {
		return os.Chmod(name, mode)
	}
	group := s.group
	if runtime.GOOS == "windows" {
		return fmt.Errorf("depot.group %s: Windows has no group modes; set the access rights of the depot's folder instead", group)
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return fmt.Errorf("depot.group: %w", err)
	}
	gid, err := strconv.Atoi(g.Gid)
	if err != nil {
		return fmt.Errorf("depot.group %s: %w", group, err)
	}
	if err := os.Chown(name, -1, gid); err != nil {
		return fmt.Errorf("depot.group %s: %w", group, err)
	}
	return os.Chmod(name, mode)
}

// WideModes names the users who may read the depot in a folder but could not read a
// new one; "" if there are none.
func WideModes(dir string) string {
	if runtime.GOOS == "windows" {
		return ""
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm()&0o005 == 0 {
		return ""
	}
	for _, name := range []string{"blobs", "index.db"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err == nil && info.Mode().Perm()&0o004 != 0 {
			return fmt.Sprintf("every user of this machine may read the depot: %s has the mode %04o; to change that: chmod -R o-rwx %s",
				name, info.Mode().Perm(), dir)
		}
	}
	return ""
}
