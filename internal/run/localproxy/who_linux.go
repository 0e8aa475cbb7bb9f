package localproxy

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Tells reports whether this system says whose a connection to a port is.
const Tells = true

// whoIs says whose a connection is: of a Unix socket by its credentials, of TCP by the owner of
// the socket at the other end, which is on this machine too.
func whoIs(c net.Conn) peer {
	switch c := c.(type) {
	case *net.UnixConn:
		return whoIsAtSocket(c)
	case *net.TCPConn:
		local, ok1 := addrPort(c.LocalAddr())
		remote, ok2 := addrPort(c.RemoteAddr())
		if !ok1 || !ok2 {
			return peerUnknown
		}
		for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			uid, ok := ownerIn(table, remote, local)
			switch {
			case ok && uid == os.Getuid():
				return peerSame
			case ok:
				return peerOther
			}
		}
	}
	return peerUnknown
}

func whoIsAtSocket(c *net.UnixConn) peer {
	raw, err := c.SyscallConn()
	if err != nil {
		return peerUnknown
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil || credErr != nil {
		return peerUnknown
	}
	if int(cred.Uid) == os.Getuid() {
		return peerSame
	}
	return peerOther
}

func addrPort(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	p := tcp.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port()), true
}

// ownerIn finds the socket from one address to another in a table of the kernel, and returns the
// user that owns it.
func ownerIn(table string, from, to netip.AddrPort) (uid int, ok bool) {
	f, err := os.Open(table)
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		fields := strings.Fields(sc.Text())
		if len(fields) < 8 {
			continue
		}
		local, err := parseKernelAddress(fields[1])
		if err != nil || local != from {
			continue
		}
		remote, err := parseKernelAddress(fields[2])
		if err != nil || remote != to {
			continue
		}
		if uid, err := strconv.Atoi(fields[7]); err == nil {
			return uid, true
		}
	}
	return 0, false
}

// parseKernelAddress reads an address as the kernel prints it: words of four bytes in the order
// of this machine, and the port, in hexadecimal digits.
func parseKernelAddress(text string) (netip.AddrPort, error) {
	host, port, ok := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil || !ok || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address", text)
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address", text)
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), nil
}
