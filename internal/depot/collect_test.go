package depot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// deleteFails is a blob store whose deletions fail.
type deleteFails struct{ err error }

func (d deleteFails) Delete(context.Context, blob.Ref) error { return d.err }

func TestDeleteBlobs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		err   error
		inUse int
		want  error
	}{
		{"deleted", nil, 0, nil},
		{"in use", fmt.Errorf("delete blob: %w", blob.ErrInUse), 1, nil},
		{"not permitted", fs.ErrPermission, 0, fs.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			inUse := 0
			if err := content.Deleter(t.Context(), deleteFails{c.err}, func(blob.Ref) { inUse++ })(blob.Ref{}); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if inUse != c.inUse {
				t.Errorf("%d blobs in use, want %d", inUse, c.inUse)
			}
			if err := content.Deleter(t.Context(), deleteFails{c.err}, nil)(blob.Ref{}); !errors.Is(err, c.want) {
				t.Errorf("without a callback: error %v, want %v", err, c.want)
			}
		})
	}
}
