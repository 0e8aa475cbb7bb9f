//go:build !unix

package keyring

import "os"

// onlyOurs checks that a file or folder exists: what is in the configuration folder of a user
// of Windows inherits rights that no other user has.
func onlyOurs(path string) error {
	_, err := os.Stat(path)
	return err
}
