package durable

import (
	"path/filepath"
	"testing"
)

func TestSpace(t *testing.T) {
	total, free, err := Space(t.TempDir())
	if err != nil || total <= 0 || free < 0 || free > total {
		t.Errorf("space of a directory: %d of %d bytes free, %v; want a part of the whole", free, total, err)
	}
	if _, _, err := Space(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("space of a missing directory: no error")
	}
}
