package keyring

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	native "github.com/zalando/go-keyring"
)

// Time limits of one call of the system's store. A person needs time to unlock it.
const (
	silentTime = 2 * time.Second
	askingTime = time.Minute
)

// service names this program in the store of the system.
const service = "symdepot"

// System is the store of the system: the Credential Manager of Windows, the Keychain of macOS,
// or the Secret Service of a session. The zero value asks nobody.
type System struct {
	// MayAsk lets the system ask the person at the screen to unlock the store.
	MayAsk bool
	// limit is the time limit of a call; zero is that of MayAsk.
	limit time.Duration
}

// Name is NameSystem.
func (System) Name() string { return NameSystem }

// Get returns a secret.
func (s System) Get(ctx context.Context, key string) (secret string, err error) {
	return s.call(ctx, "read from", func() (string, error) { return native.Get(service, key) })
}

// Set stores a secret.
func (s System) Set(ctx context.Context, key, secret string) error {
	if len(secret) > MaxSecret {
		return ErrTooLong
	}
	_, err := s.call(ctx, "write to", func() (string, error) { return "", native.Set(service, key, secret) })
	return err
}

// Delete deletes a secret.
func (s System) Delete(ctx context.Context, key string) error {
	_, err := s.call(ctx, "delete from", func() (string, error) { return "", native.Delete(service, key) })
	return err
}

// call calls the store, within the time limit. A call that takes longer is left alone: it
// holds no lock of this program.
func (s System) call(ctx context.Context, what string, do func() (string, error)) (string, error) {
	limit := s.limit
	switch {
	case limit != 0:
	case s.MayAsk:
		limit = askingTime
	default:
		limit = silentTime
	}
	type answer struct {
		secret string
		err    error
	}
	done := make(chan answer, 1)
	go func() {
		if err := available(s.MayAsk); err != nil {
			done <- answer{"", err}
			return
		}
		secret, err := do()
		done <- answer{secret, meaning(what, err)}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.secret, a.err
	case <-timer.C:
		return "", fmt.Errorf("%s: %w within %v; unlock it, or set %s=%s and sign in again", systemName(), ErrSilent, limit, Variable, NameFile)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// meaning gives an error of the store its meaning. The errors of the module have no secret.
func meaning(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, native.ErrNotFound):
		return fs.ErrNotExist
	case errors.Is(err, native.ErrSetDataTooBig):
		return ErrTooLong
	case errors.Is(err, native.ErrUnsupportedPlatform):
		return fmt.Errorf("%w on %s", ErrAbsent, runtime.GOOS)
	case isLocked():
		return locked()
	}
	// The cause is not wrapped: that of a missing program would be taken for a missing secret.
	return fmt.Errorf("cannot %s %s: %s", what, systemName(), err.Error())
}

// locked says that the store is locked.
func locked() error {
	return fmt.Errorf("%s: %w; unlock it, or set %s=%s and sign in again", systemName(), ErrLocked, Variable, NameFile)
}

// systemName names the store of this system for people.
func systemName() string {
	switch runtime.GOOS {
	case "windows":
		return "the Credential Manager of Windows"
	case "darwin":
		return "the Keychain of macOS"
	}
	return "the Secret Service of this session"
}
