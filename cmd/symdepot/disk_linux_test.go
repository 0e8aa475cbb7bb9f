package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullDisk fills a small file system: the transaction fails as a whole, the
// error names the remedy, and the depot is unchanged.
func TestFullDisk(t *testing.T) {
	small := t.TempDir()
	if err := syscall.Mount("none", small, "tmpfs", 0, "size=6m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, 0) })
	depot := filepath.Join(small, "depot")
	src := t.TempDir()
	symFiles(t, filepath.Join(src, "first"), 1, 10, 1000)
	if code, _, errs := symdepot(t, depot, "add", filepath.Join(src, "first")); code != 0 {
		t.Fatalf(`symdepot("add"): %v, %v; want 0`, errs, code)
	}
	_, before, _ := symdepot(t, depot, "list", "--json")
	symFiles(t, filepath.Join(src, "big"), 2, 60, 200_000)
	code, _, errs := symdepot(t, depot, "add", filepath.Join(src, "big"))
	if code != exitFailed || !strings.Contains(errs, "disk is full") || !strings.Contains(errs, "symdepot gc") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, after, _ := symdepot(t, depot, "list", "--json"); after != before {
		t.Errorf("the depot changed: %s", after)
	}
	if code, out, errs := symdepot(t, depot, "verify"); code != 0 {
		t.Errorf("verify: exit %d: %s%s", code, out, errs)
	}
	// What was written before the end is gone again: a small add fits.
	symFiles(t, filepath.Join(src, "small"), 3, 5, 1000)
	if code, _, errs := symdepot(t, depot, "add", filepath.Join(src, "small")); code != 0 {
		t.Errorf("after the failure: %s", errs)
	}
}
