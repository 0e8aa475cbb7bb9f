//go:build !unix

package account

import (
	"errors"
	"fmt"
	"io/fs"
	"os/user"
)

func ownerOf(fs.FileInfo) (Account, bool) { return Account{}, false }

func (Account) user() string { return "" }

func (Account) group() string { return "" }

// IsRoot reports whether this process may do what it likes with every file. Here an
// administrator need not be asked: new files inherit the rights of their folder, whoever makes
// them.
func IsRoot() bool { return false }

// Become makes this process act as the account. No process can here.
func (Account) Become() error { return errors.ErrUnsupported }

// Give makes a folder that belongs to the account. No folder does here.
func (Account) Give(string) error { return errors.ErrUnsupported }

// Reads reports whether the user of this process may read a file below a folder. Here only a try
// tells.
func Reads(_, _ string) bool { return true }

// Uses reports whether the user of this process may read and write a file below a folder. Here
// only a try tells.
func Uses(_, _ string) bool { return true }

// Reading reports whether this process may read what its user may not.
func Reading() bool { return false }

func describe(root, _ string) (what, cure string) {
	me := "another user"
	if u, err := user.Current(); err == nil {
		me = u.Username
	}
	return "its rights do not permit it, and this program runs as " + me, fmt.Sprintf(`icacls "%s" /reset /t`, root)
}

// OwnedAlone is false: the owners of files are not known.
func OwnedAlone(string) bool { return false }
