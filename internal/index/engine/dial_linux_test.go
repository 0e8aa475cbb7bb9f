package engine

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/symdepot/symdepot/internal/index/pgtest"
)

// A connection to the database fails soon after its host has vanished.
func TestDeadHostIsNoticed(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), pgtest.Shared(t).Database(t), options())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := onServer(db).pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	raw, err := conn.Conn().PgConn().Conn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		unanswered, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		if err != nil || unanswered != int(deadAfter.Milliseconds()) {
			t.Errorf("sent bytes may be unanswered for %d ms, %v; want %v", unanswered, err, deadAfter)
		}
		idle, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
		if err != nil || idle != int(deadAfter.Seconds())/2 {
			t.Errorf("the first probe is sent after %d s, %v; want %v", idle, err, deadAfter/2)
		}
	}); err != nil {
		t.Fatal(err)
	}
}
