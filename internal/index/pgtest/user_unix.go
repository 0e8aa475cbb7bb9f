//go:build unix

package pgtest

import (
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// credential is the user that the server runs as; nil is the user of the test.
type credential struct{ uid, gid uint32 }

func credentialOf(u *user.User) (*credential, error) {
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &credential{uint32(uid), uint32(gid)}, err
}

func (c *credential) own(dir string) error { return os.Chown(dir, int(c.uid), int(c.gid)) }

func (c *credential) apply(cmd *exec.Cmd) {
	if c != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.uid, Gid: c.gid}}
	}
}
