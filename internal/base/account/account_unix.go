//go:build unix

package account

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// reading is set if this process acts as another user and has kept the right to read every
// file.
var reading atomic.Bool

func ownerOf(info fs.FileInfo) (Account, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Account{}, false
	}
	return Account{int(st.Uid), int(st.Gid)}, true
}

// user returns the name of the user; empty: it has none.
func (a Account) user() string {
	u, err := user.LookupId(strconv.Itoa(a.UID))
	if err != nil {
		return ""
	}
	return u.Username
}

// group returns the name of the group; empty: it has none.
func (a Account) group() string {
	g, err := user.LookupGroupId(strconv.Itoa(a.GID))
	if err != nil {
		return ""
	}
	return g.Name
}

// IsRoot reports whether this process may do what it likes with every file.
func IsRoot() bool { return os.Geteuid() == 0 }

// Become makes this process, which is one of root, act as the account from now on: what it
// makes belongs to the account. It cannot be undone. On Linux the process may still read every
// file and listen on every port, because root has named these. After an error the process must
// end.
func (a Account) Become() error {
	groups := []int{a.GID}
	if u, err := user.LookupId(strconv.Itoa(a.UID)); err == nil {
		if primary, err := strconv.Atoi(u.Gid); err == nil && a.GID == 0 {
			a.GID, groups[0] = primary, primary // the folder was given to a user alone
		}
		list, _ := u.GroupIds() // a user whose groups are not known has the one above
		for _, id := range list {
			if n, err := strconv.Atoi(id); err == nil && n != a.GID {
				groups = append(groups, n)
			}
		}
	}
	restore := keepRights()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"setgroups", func() error { return syscall.Setgroups(groups) }},
		{"setgid", func() error { return syscall.Setgid(a.GID) }},
		{"setuid", func() error { return syscall.Setuid(a.UID) }},
		{"capset", restore},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("this process may not act as the user %s: %s: %w", a.User(), step.name, err)
		}
	}
	return nil
}

// Give makes a folder and gives it to the account. One that exists is given only if it is empty
// and belongs to the user of this process, who is root.
func (a Account) Give(folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(folder, 0o700)
	if errors.Is(err, fs.ErrExist) {
		var list []os.DirEntry
		info, lerr := os.Lstat(folder)
		if lerr == nil && info.IsDir() {
			list, lerr = os.ReadDir(folder)
		}
		if of, ok := ownerOf(info); lerr != nil || !info.IsDir() || !ok || of.UID != os.Geteuid() || len(list) > 0 {
			return lerr
		}
		err = nil
	}
	if err == nil {
		err = os.Lchown(folder, a.UID, a.GID)
	}
	return err
}

// Reads reports whether the user of this process may read a file, or list and enter a folder,
// that name says relative to a folder. The folders above that one do not count, nor does what
// [Account.Become] has kept of root, nor a file that does not exist.
func Reads(folder, name string) bool { return may(folder, name, unix.R_OK) }

// Uses is [Reads] for a file or a folder that is written to as well.
func Uses(folder, name string) bool { return may(folder, name, unix.R_OK|unix.W_OK) }

func may(folder, name string, mode uint32) bool {
	dir, err := os.Open(folder)
	if err != nil {
		return !errors.Is(err, fs.ErrPermission)
	}
	defer func() { _ = dir.Close() }() // opened for reading
	var st unix.Stat_t
	if unix.Fstatat(int(dir.Fd()), name, &st, 0) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		mode |= unix.X_OK
	}
	err = unix.Faccessat(int(dir.Fd()), name, mode, 0) // of the real user, who has no rights of root
	return !errors.Is(err, fs.ErrPermission)
}

// Reading reports whether this process may read what its user may not.
func Reading() bool { return reading.Load() }

func describe(root, path string) (what, cure string) {
	me := Account{os.Geteuid(), os.Getegid()}
	what = "this program runs as " + me.User()
	owner, known := OwnerOf(root)
	var of Account
	if info, err := os.Stat(path); err == nil {
		var told bool
		if of, told = ownerOf(info); told {
			what = fmt.Sprintf("it belongs to %s with the mode %04o, and %s", of, info.Mode().Perm(), what)
		}
	}
	sudo := "sudo "
	if me.UID == 0 {
		sudo = ""
	}
	switch {
	case !known:
		return what, ""
	case owner.UID == 0:
		owner = me // root made the folder for a service
	case path == root && owner.UID != me.UID:
		return what, owner.Sudo(Program()...)
	case of.UID == owner.UID:
		return what, fmt.Sprintf("%schmod -R u+rwX %s", sudo, Quote(root))
	}
	return what, fmt.Sprintf("%schown -R %s %s", sudo, owner, Quote(root))
}

// OwnedAlone reports whether a file or folder belongs to the user of this process, and no other user
// may write to it. One that does not exist is no other user's.
func OwnedAlone(path string) bool {
	info, err := os.Lstat(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	owner, ok := ownerOf(info)
	return ok && owner.UID == os.Geteuid() && info.Mode().Perm()&0o022 == 0 && info.Mode()&fs.ModeSymlink == 0
}
