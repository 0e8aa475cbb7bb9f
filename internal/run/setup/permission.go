package setup

import (
	"context"
	"fmt"

	"github.com/symdepot/symdepot/internal/base/address"
	"github.com/symdepot/symdepot/internal/depot/home"
)

// Permission is the next step after a file or folder was refused: what of the depot this user
// may not use, if that is it.
func (s *Site) Permission() string {
	dir := s.Opened()
	if dir != "" && !address.IsDatabase(dir) {
		why, n := home.Denied(context.Background(), dir)
		switch {
		case why == nil:
		case why.Path == why.Root:
			return fmt.Sprintf("This user may not use the depot %s. Run the command as its owner, name a group of users with depot.group, "+
				"or name another depot with --depot.\n%v\nType: %s", dir, why, why.Cure)
		default:
			return fmt.Sprintf("%s.\nType: %s", why.Of(n), why.Cure)
		}
	}
	if who := s.ActsAs(); who != "" {
		return fmt.Sprintf("The command acts as the user %s, who owns the depot. Name a folder in which that user may write.", who)
	}
	return "Check the owner and the permissions of the file."
}
