//go:build unix

package keyring

import (
	"fmt"
	"os"
)

// onlyOurs fails with ErrReadable if other users have rights to a file or folder.
func onlyOurs(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		mode := "600"
		if info.IsDir() {
			mode = "700"
		}
		return fmt.Errorf("%s: %w, since other users have rights to it: type chmod %s %s, and sign in again", path, ErrReadable, mode, path)
	}
	return nil
}
