package home

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/index/engine"
)

// SecretSize is in bytes.
const SecretSize = 32

// Secret returns the random key of that name, which is created at the first call
// and never changes. Its file is readable by those who may write to the depot.
func (h *Home) Secret(name string) ([]byte, error) {
	if engine.IsURL(h.Name) {
		return h.DB.Secret(context.Background(), name, SecretSize)
	}
	path := filepath.Join(h.Dir, name+".key")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, SecretSize)
		_, _ = rand.Read(key) // never fails
		if err := durable.WriteFile(path, key, 0o600); err != nil {
			return nil, fmt.Errorf("create a key: %w", err)
		}
		if err := SharingOf(h.Dir, "").File(path); err != nil {
			return nil, fmt.Errorf("create a key: %w", err)
		}
		b, err = os.ReadFile(path) // another process may have been faster
	}
	if err == nil && len(b) != SecretSize {
		err = fmt.Errorf("%s has %d bytes instead of %d; remove it; the next start creates a new one", path, len(b), SecretSize)
	}
	return b, err
}
