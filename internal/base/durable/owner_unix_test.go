//go:build unix

package durable

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReplaceFileOwner: root leaves a user's file to the user.
func TestReplaceFileOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, who writes files of other users")
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 65534, 65533); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(name, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 65534 || st.Gid != 65533 || info.Mode().Perm() != 0o600 {
		t.Errorf("it belongs to %d:%d with mode %v, want 65534:65533 and 0600", st.Uid, st.Gid, info.Mode())
	}
}
