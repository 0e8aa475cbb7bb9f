package setup

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/address"
)

// ActAsOwner makes a process of root act as the user who owns the folder of a depot, or the
// nearest folder above if that is missing: what root made there itself, the service of that
// user could not use. It returns the name of that user; empty if nothing changes, because the
// process is not root's, or because root owns the folder. After an error the process must end.
func ActAsOwner(dir string) (user string, err error) {
	if dir == "" || strings.Contains(dir, "://") || !account.IsRoot() {
		return "", nil
	}
	owner, ok := account.OwnerOf(dir)
	if !ok || owner.UID == 0 {
		return "", nil
	}
	if err := owner.Become(); err != nil {
		// The error of the system is not wrapped: what helps stands in the text.
		return "", fmt.Errorf("the folder %s belongs to the user %s: %s\nRun the command as that user: %s",
			dir, owner.User(), err.Error(), owner.Sudo(account.Program()...))
	}
	return owner.User(), nil
}

// LogActs says in the log of a program that runs for long as whom the process acts instead of
// root, unless the person at the command line was told.
func (s *Site) LogActs(log *slog.Logger) {
	if s.actsAs != "" && s.Acts == nil {
		log.Info("root has started symdepot, which acts as the user who owns the depot", "user", s.actsAs)
	}
}

// GiveFolder makes a folder in which a command writes for the depot, such as that of a backup,
// and gives it to the owner of the depot if the command is one of root, before the process acts
// as that user. A folder that holds something, or that is another user's, is left alone.
func (s *Site) GiveFolder(folder string) error {
	where, err := s.where()
	if err != nil || address.IsDatabase(where) || !account.IsRoot() {
		return err
	}
	if owner, ok := account.OwnerOf(where); ok && owner.UID != 0 {
		return owner.Give(folder)
	}
	return nil
}
