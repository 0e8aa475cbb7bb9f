//go:build unix

package daemon

import (
	"context"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

// firstPassed is the number of the first passed socket.
const firstPassed = 3

// passed returns the socket that systemd has passed, or nil. The variables are
// removed, so that programs that this one starts do not take them for theirs.
func passed() (net.Listener, error) {
	n, err := countPassed(os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getpid())
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		_ = os.Unsetenv(name)
	}
	if err != nil || n == 0 {
		return nil, err
	}
	syscall.CloseOnExec(firstPassed)
	f := os.NewFile(firstPassed, "socket "+strconv.Itoa(firstPassed))
	defer f.Close() // the listener has a copy
	return net.FileListener(f)
}

// Notify tells the service manager the state of this process, such as "READY=1".
// Without a manager that wants to know, it does nothing.
func Notify(state string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	// Go turns a first @ into the zero byte of abstract sockets.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

// Reloads notes SIGHUP from now on, which would end the process before. The function
// that it returns calls f for each, until ctx ends.
func Reloads() func(ctx context.Context, f func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	return func(ctx context.Context, f func()) {
		defer signal.Stop(hangup)
		for {
			select {
			case <-ctx.Done():
				return
			case <-hangup:
				f()
			}
		}
	}
}
