// Package localproxy is the address at which the proxy of a user listens for one server: a port
// that stays the same, and that answers no other user of the machine.
package localproxy

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// Ports are chosen among these: systems give out the ports above by themselves.
const (
	firstPort = 20000
	ports     = 10000
	lockTime  = 10 * time.Second
)

// Address returns the address for a server's proxy, "127.0.0.1:PORT". The port is chosen once,
// among those that are free then, and noted in own, the folder of this program's configuration:
// debuggers that were set up with it find the proxy after each restart.
func Address(ctx context.Context, own, server string) (string, error) {
	name := filepath.Join(own, "proxies.json")
	if addr, err := noted(name, server); addr != "" || err != nil {
		return addr, err
	}
	if err := durable.MkdirAll(own, 0o700); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := durable.AwaitLock(ctx, name+".lock")
	if err != nil {
		return "", fmt.Errorf("%s.lock: %w", name, err)
	}
	defer func() { _ = lock.Close() }()
	list, err := read(name)
	if err != nil {
		return "", err
	}
	if port := list[server]; port > 0 {
		return address(port), nil
	}
	taken := map[int]bool{}
	for _, port := range list {
		taken[port] = true
	}
	h := sha256.Sum256([]byte(own + "\n" + server))
	for i := range uint32(ports) {
		port := firstPort + int((binary.BigEndian.Uint32(h[:])+i)%ports)
		if taken[port] || !isFree(ctx, port) {
			continue
		}
		list[server] = port
		b, err := json.MarshalIndent(list, "", "  ")
		if err != nil {
			return "", err
		}
		return address(port), durable.WriteFile(name, append(b, '\n'), 0o600)
	}
	return "", fmt.Errorf("no port from %d to %d is free; choose another with --listen 127.0.0.1:PORT", firstPort, firstPort+ports-1)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// noted returns the address of a server's proxy that was noted; empty: none.
func noted(name, server string) (string, error) {
	list, err := read(name)
	if port := list[server]; err == nil && port > 0 {
		return address(port), nil
	}
	return "", err
}

// read returns the noted ports by the address of the server.
func read(name string) (map[string]int, error) {
	list := map[string]int{}
	b, err := durable.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s is damaged: %w; remove it, and set the debuggers up again with symdepot login URL --configure", name, err)
	}
	if list == nil { // the text is "null"
		list = map[string]int{}
	}
	return list, nil
}

func isFree(ctx context.Context, port int) bool {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address(port))
	return err == nil && ln.Close() == nil
}
