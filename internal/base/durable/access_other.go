//go:build !unix

package durable

import "os"

// MayWrite reports whether this user may make files in a directory. It makes none. Here
// only the existence of the directory is known without a try.
func MayWrite(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}
