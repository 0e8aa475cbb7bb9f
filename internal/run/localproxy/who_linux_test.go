package localproxy

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// TestKernelAddress reads addresses as a kernel of a little-endian machine prints them.
func TestKernelAddress(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("needs a little-endian processor, such as x86-64 (the samples are of one)")
	}
	for text, want := range map[string]string{
		"0100007F:1F90":                         "127.0.0.1:8080",
		"0000000000000000FFFF00000100007F:0050": "127.0.0.1:80",
		"00000000000000000000000001000000:0050": "[::1]:80",
		"B80D0120000000000000000001000000:FFFF": "[2001:db8::1]:65535",
	} {
		if got, err := parseKernelAddress(text); err != nil || got != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "0100007F", "0100007F:", "0100007F:10000", "01007F:0050", "0100007F0000:0050", "x:y"} {
		if got, err := parseKernelAddress(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// TestOwnerInTable: the socket is found by both of its addresses.
func TestOwnerInTable(t *testing.T) {
	table := filepath.Join(t.TempDir(), "tcp")
	const text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		"   0: 0100007F:1F90 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0 20 4 30 10 -1\n" +
		"   1: 0100007F:9C40 0100007F:1F91 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1\n" +
		"   2: 0100007F:9C40 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1\nshort\n"
	if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("needs a little-endian processor, such as x86-64 (the samples are of one)")
	}
	from, to := netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:8080")
	if uid, ok := ownerIn(table, from, to); !ok || uid != 1000 {
		t.Errorf("owner %d, %v; want 1000", uid, ok)
	}
	if uid, ok := ownerIn(table, from, netip.MustParseAddrPort("127.0.0.1:1")); ok {
		t.Errorf("owner %d of a socket that is not there", uid)
	}
	if _, ok := ownerIn(table+"6", from, to); ok {
		t.Error("an owner of no table")
	}
}
