// Package account says which user of this machine owns a file, lets a process of root act as
// another user, and says what a process may not use, and which command changes that.
package account

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Account is a user of this machine with a group. Only Unix has accounts.
type Account struct{ UID, GID int }

// DeniedError says that this process may not use a file or a folder. It is an
// [fs.ErrPermission].
type DeniedError struct {
	Root string // the folder of which the path is a part
	Path string // the file or the folder that refuses
	What string // its owner, its group and its mode, and the user of this process
	Cure string // the command line that helps; empty: none is known
}

// Error names the path, its owner and the user of this process.
func (e *DeniedError) Error() string {
	return fmt.Sprintf("%s may not be used: %s", e.Path, e.What)
}

// Of is Error for n files and folders, of which this is the first.
func (e *DeniedError) Of(n int64) string {
	if n < 2 {
		return e.Error()
	}
	return fmt.Sprintf("%s; so it is with %d files and folders", e.Error(), n)
}

// Is makes the error an [fs.ErrPermission].
func (*DeniedError) Is(target error) bool { return target == fs.ErrPermission }

// Inside is Error with the path below the parent of the root, for readers who need not know
// where the root is.
func (e *DeniedError) Inside() string {
	path := filepath.Base(e.Root)
	if rel, err := filepath.Rel(e.Root, e.Path); err == nil {
		path = filepath.ToSlash(filepath.Join(path, rel))
	}
	return fmt.Sprintf("%s may not be used: %s", path, e.What)
}

// Denied says why this process may not use a path below root: it names the first folder on the
// way from root to the path that refuses, or the path itself. The cure gives everything below
// root to the owner of root; to the user of this process if the system's root owns it; and if
// root as a whole is another user's, it runs the command as that user.
func Denied(root, path string) *DeniedError {
	at := "."
	if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
		for _, name := range strings.Split(rel, string(filepath.Separator)) {
			if !Reads(root, at) {
				break
			}
			at = filepath.Join(at, name)
		}
	}
	at = filepath.Join(root, at)
	e := &DeniedError{Root: filepath.Clean(root), Path: at}
	e.What, e.Cure = describe(root, at)
	return e
}

// OwnerOf returns the account that owns a folder. If the folder does not exist, that is the
// account of the nearest folder above that does. ok is false where a system has no accounts,
// or does not tell.
func OwnerOf(dir string) (a Account, ok bool) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		info, serr := os.Stat(dir)
		if serr == nil {
			return ownerOf(info)
		}
		if !os.IsNotExist(serr) || filepath.Dir(dir) == dir {
			break
		}
		dir = filepath.Dir(dir)
	}
	return Account{}, false
}

// Quote writes a word of a command line as a shell takes it.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-+=./:,@%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Sudo returns the command line that runs a program as the account.
func (a Account) Sudo(program ...string) string {
	line := "sudo -u " + Quote(cmp.Or(a.user(), fmt.Sprintf("#%d", a.UID)))
	for _, word := range program {
		line += " " + Quote(word)
	}
	return line
}

// Program returns the command line of this process, with the name of the program alone.
func Program() []string {
	return append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
}

// User returns the name of the user, or the number where there is no name.
func (a Account) User() string { return cmp.Or(a.user(), fmt.Sprint(a.UID)) }

// String returns USER:GROUP, as chown takes it: names, or numbers where there are none.
func (a Account) String() string { return a.User() + ":" + cmp.Or(a.group(), fmt.Sprint(a.GID)) }
