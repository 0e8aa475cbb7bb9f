package blob_test

import (
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/internal/store/blob/blobtest"
)

func TestDisk(t *testing.T) {
	t.Parallel() // waits for the disk, mostly
	blobtest.Run(t, func(t *testing.T) blob.Store { return openDisk(t, t.TempDir()) })
}

func openDisk(t testing.TB, dir string) *blob.Disk {
	t.Helper()
	d, err := blob.OpenDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestRef(t *testing.T) {
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	ref := blob.Sum(nil)
	if ref.String() != empty {
		t.Errorf("the empty content is %s, want %s", ref, empty)
	}
	for _, s := range []string{empty, strings.ToUpper(empty)} {
		if got, err := blob.ParseRef(s); err != nil || got != ref {
			t.Errorf("parse %s: %s, %v; want %v", s, got, err, ref)
		}
	}
	for _, s := range []string{"", "e3", empty[1:], empty + "00", "x" + empty[1:], "../" + empty[3:]} {
		if got, err := blob.ParseRef(s); err == nil || got != (blob.Ref{}) {
			t.Errorf("parse %q: %s, %v; want an error", s, got, err)
		}
	}
}
