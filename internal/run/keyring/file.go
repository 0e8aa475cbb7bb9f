package keyring

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// File keeps each secret in a file of its own, which only the user can read. Dir is their
// folder; Set makes it.
type File struct{ Dir string }

// Name is NameFile.
func (File) Name() string { return NameFile }

// Path returns the path of the file with the secret of a key.
func (f File) Path(key string) string {
	sum := sha256.Sum256([]byte(key))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(key[:min(len(key), 60)]))
	return filepath.Join(f.Dir, readable+"-"+hex.EncodeToString(sum[:8]))
}

// Get reads a file, unless others can read it too: the error then is ErrReadable.
func (f File) Get(_ context.Context, key string) (string, error) {
	name := f.Path(key)
	for _, path := range []string{f.Dir, name} {
		if err := onlyOurs(path); err != nil {
			return "", err
		}
	}
	b, err := durable.ReadFile(name)
	if err != nil {
		return "", err
	}
	if len(b) > MaxSecret {
		return "", fmt.Errorf("%s: %w; remove the file and sign in again", name, ErrTooLong)
	}
	return string(b), nil
}

// Set writes a file.
func (f File) Set(_ context.Context, key, secret string) error {
	if len(secret) > MaxSecret {
		return ErrTooLong
	}
	if err := durable.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	if err := onlyOurs(f.Dir); err != nil {
		return err
	}
	return durable.WriteFile(f.Path(key), []byte(secret), 0o600)
}

// Delete removes a file.
func (f File) Delete(_ context.Context, key string) error {
	return durable.Remove(f.Path(key))
}
