package depot

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/symdepot/symdepot/internal/durable"
)

// secretSize is in bytes.
const secretSize = 32

// Secret returns random bytes that stay the same as long as the depot lives, a
// key of that name. They stand in a file that only its owner reads.
func (d *Depot) Secret(name string) ([]byte, error) {
	path := filepath.Join(d.dir, name+".key")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, secretSize)
		_, _ = rand.Read(key) // never fails
		if err := durable.WriteFile(path, key, 0o600); err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		b, err = os.ReadFile(path) // another process may have been faster
	}
	if err == nil && len(b) != secretSize {
		err = fmt.Errorf("%s has %d bytes instead of %d; remove it, and a new one is made", path, len(b), secretSize)
	}
	return b, err
}
