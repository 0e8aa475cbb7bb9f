//go:build unix

package localproxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// removeSocket removes a socket, and nothing else.
func removeSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is there already, and is not a socket", path)
	}
	return os.Remove(path)
}

// listenPrivate makes a socket with mode 0600. The mask holds for the whole process, which makes
// no other files at this moment: it is starting.
func listenPrivate(ctx context.Context, path string) (net.Listener, error) {
	mask := unix.Umask(0o177)
	defer unix.Umask(mask)
	var c net.ListenConfig
	return c.Listen(ctx, "unix", path)
}
