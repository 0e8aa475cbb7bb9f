package localproxy

import (
	"encoding/binary"
	"net"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Tells reports whether this system says whose a connection to a port is.
const Tells = true

var getExtendedTCPTable = windows.NewLazySystemDLL("iphlpapi.dll").NewProc("GetExtendedTcpTable")

const (
	tableOwnerPIDConnections = 4       // TCP_TABLE_OWNER_PID_CONNECTIONS
	mostTable                = 8 << 20 // bytes
)

// row is MIB_TCPROW_OWNER_PID. Addresses and ports are in network order.
type row struct {
	State                 uint32
	LocalAddr, LocalPort  [4]byte
	RemoteAddr, RemotePrt [4]byte
	PID                   uint32
}

// whoIs says whose a connection is: of the process that has the other end, which is on this
// machine too.
func whoIs(c net.Conn) peer {
	local, ok1 := c.LocalAddr().(*net.TCPAddr)
	remote, ok2 := c.RemoteAddr().(*net.TCPAddr)
	if !ok1 || !ok2 {
		return peerUnknown
	}
	for _, r := range connections() {
		if net.IP(r.LocalAddr[:]).Equal(remote.IP) && net.IP(r.RemoteAddr[:]).Equal(local.IP) &&
			int(binary.BigEndian.Uint16(r.LocalPort[:])) == remote.Port && int(binary.BigEndian.Uint16(r.RemotePrt[:])) == local.Port {
			return whoRuns(r.PID)
		}
	}
	return peerUnknown
}

// connections are the connections over IPv4 of this machine.
func connections() []row {
	size := uint32(64 << 10)
	for range 8 { // the table may grow between two calls
		buf := make([]uint32, size/4)
		status, _, _ := getExtendedTCPTable.Call(uintptr(unsafe.Pointer(&buf[0])), uintptr(unsafe.Pointer(&size)), 0,
			windows.AF_INET, tableOwnerPIDConnections, 0)
		switch windows.Errno(status) {
		case windows.ERROR_SUCCESS:
			n := min(int(buf[0]), (len(buf)*4-4)/int(unsafe.Sizeof(row{})))
			return unsafe.Slice((*row)(unsafe.Pointer(&buf[1])), n)
		case windows.ERROR_INSUFFICIENT_BUFFER:
			if size = (size + 4<<10) &^ 3; size > mostTable {
				return nil
			}
		default:
			return nil
		}
	}
	return nil
}

// whoRuns says whose a process is. A process that this user may not ask belongs to another one.
func whoRuns(pid uint32) peer {
	p, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, pid)
	if err != nil {
		return peerOther
	}
	defer func() { _ = windows.CloseHandle(p) }()
	var token windows.Token
	if err := windows.OpenProcessToken(p, windows.TOKEN_QUERY, &token); err != nil {
		return peerOther
	}
	defer func() { _ = token.Close() }()
	theirs, err1 := token.GetTokenUser()
	own, err2 := windows.GetCurrentProcessToken().GetTokenUser()
	switch {
	case err1 != nil || err2 != nil:
		return peerUnknown
	case theirs.User.Sid.Equals(own.User.Sid):
		return peerSame
	}
	return peerOther
}
