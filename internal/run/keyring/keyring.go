// Package keyring is where secrets of the user of this machine are kept: the store of the
// system, which is the Credential Manager of Windows, the Keychain of macOS or a Secret
// Service, or else files that only this user can read.
package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// Names of stores.
const (
	NameSystem = "system"
	NameFile   = "file"
)

// Variable is the environment variable that names the store of new secrets: NameSystem or
// NameFile. Empty is the system's if it answers, else files.
const Variable = "SYMDEPOT_KEYRING"

// MaxSecret is the longest secret of every store, in bytes. It is that of Windows.
const MaxSecret = 2560

// Errors of stores. Their texts never have a secret.
var (
	// ErrAbsent means that this session has no store of the system.
	ErrAbsent = errors.New("there is no keyring of the system")
	// ErrLocked means that the store is locked, and was not unlocked.
	ErrLocked = errors.New("the keyring is locked")
	// ErrSilent means that the store did not answer in time.
	ErrSilent = errors.New("the keyring does not answer")
	// ErrTooLong means that a secret is longer than MaxSecret.
	ErrTooLong = fmt.Errorf("a keyring keeps secrets of %d bytes at most", MaxSecret)
	// ErrReadable means that others can read the file with a secret, or change its folder.
	ErrReadable = errors.New("others may have read the secret")
)

// Store keeps secrets. Its methods may be called by several goroutines and processes; what
// Set has stored survives a power loss. No method waits for longer than a time limit.
type Store interface {
	// Get returns the secret of a key. The error is fs.ErrNotExist if there is none.
	Get(ctx context.Context, key string) (string, error)
	// Set stores the secret of a key, in place of an older one.
	Set(ctx context.Context, key, secret string) error
	// Delete deletes the secret of a key. The error is fs.ErrNotExist if there is none.
	Delete(ctx context.Context, key string) error
	// Name is NameSystem or NameFile.
	Name() string
}

// Named returns the store of a name. The files of NameFile are in the folder dir. mayAsk says
// that the system may ask the person at the screen to unlock its store.
func Named(name, dir string, mayAsk bool) (Store, error) {
	switch name {
	case NameSystem:
		return System{MayAsk: mayAsk}, nil
	case NameFile:
		return File{Dir: dir}, nil
	}
	return nil, fmt.Errorf("%q is no keyring: expected %s or %s", name, NameSystem, NameFile)
}

// Choose returns the store for a new secret: the named one, which must answer; or, without a
// name, that of the system if it answers, else files. The error without says then why it is
// files. The system may ask the person to unlock its store.
func Choose(ctx context.Context, name, dir string) (s Store, without, err error) {
	if name != "" {
		if s, err = Named(name, dir, true); err == nil {
			err = answers(ctx, s)
		}
		return s, nil, err
	}
	s = System{MayAsk: true}
	if without = answers(ctx, s); without == nil {
		return s, nil, nil
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	s = File{Dir: dir}
	return s, without, answers(ctx, s)
}

// answers asks a store for a secret that it need not have.
func answers(ctx context.Context, s Store) error {
	if _, err := s.Get(ctx, "?"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
