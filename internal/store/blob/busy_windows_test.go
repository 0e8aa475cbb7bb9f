package blob

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// TestDeleteWhileOpen deletes a blob that another program holds open: it stays
// intact, and the next deletion removes it.
func TestDeleteWhileOpen(t *testing.T) {
	d := newDisk(t)
	content := []byte("content")
	ref := Sum(content)
	if err := d.Put(t.Context(), ref, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(d.Path(ref)) // without FILE_SHARE_DELETE
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), ref); !errors.Is(err, ErrInUse) {
		t.Errorf("delete of a blob that is held open: error %v, want %v", err, ErrInUse)
	}
	if got, err := os.ReadFile(d.Path(ref)); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the blob that is held open: %q, %v; want %q", got, err, content)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.Path(ref)); !os.IsNotExist(err) {
		t.Errorf("after the second deletion: %v, want not found", err)
	}
	// The server's own readers do not stop a deletion.
	if err := d.Put(t.Context(), ref, int64(len(content)), bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	r, err := d.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), ref); err != nil {
		t.Errorf("delete of a blob that is being read: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.Path(ref)); !os.IsNotExist(err) {
		t.Errorf("after the last reader: %v, want not found", err)
	}
}
