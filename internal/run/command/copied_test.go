package command

import (
	"testing"

	"github.com/symdepot/symdepot/internal/depot/backup"
)

// TestCopiedContents: contents that are lost are not counted as backed up or restored.
func TestCopiedContents(t *testing.T) {
	for want, b := range map[string]backup.Result{
		"10 contents":      {Contents: 10},
		"9 of 10 contents": {Contents: 10, Faults: 1},
	} {
		if got := copiedContents(b); got != want {
			t.Errorf("%+v: %q, want %q", b, got, want)
		}
	}
}
