// Package login is what a machine has after symdepot login: the logins of its user at servers,
// their access tokens, and how they are begun, refreshed and ended.
//
// A folder has the list of logins, without secrets, and the locks by which one process at a
// time refreshes a login. The secrets are in a keyring.
package login

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/run/keyring"
)

// Errors of logins that callers tell apart. Their texts never have a secret.
var (
	// ErrNone means that the user has no login for a server.
	ErrNone = errors.New("there is no login for this server")
	// ErrSignIn means that only the person can go on, by signing in again.
	ErrSignIn = errors.New("the login has ended")
	// ErrAway means that the server does not answer now. The login stays.
	ErrAway = errors.New("the server cannot be reached")
	// ErrNoSignIn means that a server lets no program sign in.
	ErrNoSignIn = errors.New("the server has no sign-in for programs")
	// ErrDenied means that the person, or the server, has refused the sign-in.
	ErrDenied = errors.New("the sign-in was refused")
	// ErrNobody means that nobody has signed in within the time for it.
	ErrNobody = errors.New("nobody has signed in in time")
)

// KeptInFile is where the token of a login is that began with a file: in that file.
const KeptInFile = "token file"

// Times of logins.
const (
	requestTime = 30 * time.Second // for one request to a server
	lockTime    = time.Minute      // for another process that refreshes the same login
	maxAnswer   = 64 << 10         // bytes of an answer of a server
)

// LeastLife is how long an access token must still be valid to be used.
const LeastLife = time.Minute

// Login is a login of this user at one server. It has no secret.
type Login struct {
	Server string `json:"server"`             // its base URL, as Canonical spells it
	Person string `json:"person,omitempty"`   // as whom the server knows the user
	ID     string `json:"login_id,omitempty"` // that of the server's list of sign-ins
	// KeptIn is the keyring with the secret: keyring.NameSystem, keyring.NameFile or KeptInFile.
	KeptIn    string    `json:"kept_in"`
	TokenFile string    `json:"token_file,omitempty"` // of KeptInFile
	Created   time.Time `json:"created"`
	Ends      time.Time `json:"ends,omitzero"` // unless the login is used before; zero: not known
	// Ended says that the server no longer accepts the login: the user must sign in again.
	Ended bool `json:"ended,omitempty"`
}

// Logins are the logins of the user of this machine. Dir and HTTP are required. All methods may
// be called by several goroutines and processes.
type Logins struct {
	// Dir is the folder with the list and the locks; DefaultDir is that of the user.
	Dir string
	// HTTP returns a client for one server, with a transport of its own.
	HTTP func(server string) *http.Client
	// Keyring names the keyring of new logins: keyring.NameSystem, keyring.NameFile; empty: the
	// system's if it answers, else files.
	Keyring string
	// Note is told, when a login begins, where its secret is kept if that is not the keyring
	// of the system; nil: nobody.
	Note func(text string)
	// Refreshed is told of each new access token, after it is kept; nil: nobody.
	Refreshed func(ctx context.Context, server, token string)
	// Machine is the name of this machine, for the server's lists; empty is its host name.
	Machine string
}

// DefaultDir returns the folder of the logins of the user: symdepot in the configuration folder.
func DefaultDir() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no folder for logins: %w", err)
	}
	return filepath.Join(dir, "symdepot"), nil
}

// listPath is the path of the list of logins.
func (s *Logins) listPath() string { return filepath.Join(s.Dir, "logins.json") }

// secretsDir is the folder of the locks, and of the keyring that is files.
func (s *Logins) secretsDir() string { return filepath.Join(s.Dir, "logins") }

// store returns the keyring of a login.
func (s *Logins) store(l Login, mayAsk bool) (keyring.Store, error) {
	store, err := keyring.Named(l.KeptIn, s.secretsDir(), mayAsk)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.listPath(), err)
	}
	return store, nil
}

// listed is the file with the list of logins.
type listed struct {
	Logins []Login `json:"logins"`
}

// List returns the logins of the user, sorted by server.
func (s *Logins) List() ([]Login, error) {
	b, err := durable.ReadFile(s.listPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list listed
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fmt.Errorf("%s is no list of logins: %w; remove it and sign in again", s.listPath(), err)
	}
	sorting.By(list.Logins, func(a, b Login) int { return cmp.Compare(a.Server, b.Server) })
	return list.Logins, nil
}

// Find returns the login for a server. The error is ErrNone if there is none.
func (s *Logins) Find(server string) (Login, error) {
	server, err := Canonical(server)
	if err != nil {
		return Login{}, err
	}
	list, err := s.List()
	if err != nil {
		return Login{}, err
	}
	if i := slices.IndexFunc(list, func(l Login) bool { return l.Server == server }); i >= 0 {
		return list[i], nil
	}
	return Login{}, fmt.Errorf("%s: %w; begin one with `symdepot login %s`", server, ErrNone, server)
}

// Covering returns the login whose server has the address: the same scheme, host and port, and
// a base path that the path of the address begins with. Of several, it is that with the longest
// base path. The error is ErrNone if there is none.
func (s *Logins) Covering(address string) (best Login, err error) {
	list, err := s.List()
	if err != nil {
		return best, err
	}
	for _, l := range list {
		if Covers(l.Server, address) && len(l.Server) > len(best.Server) {
			best = l
		}
	}
	if best.Server == "" {
		return best, ErrNone
	}
	return best, nil
}

// put writes a login into the list, in place of an older one for its server.
func (s *Logins) put(ctx context.Context, l Login) error {
	return s.change(ctx, func(list []Login) []Login {
		return append(slices.DeleteFunc(list, func(old Login) bool { return old.Server == l.Server }), l)
	})
}

// drop removes the login for a server from the list.
func (s *Logins) drop(ctx context.Context, server string) error {
	return s.change(ctx, func(list []Login) []Login {
		return slices.DeleteFunc(list, func(l Login) bool { return l.Server == server })
	})
}

// change changes the list, while no other process does.
func (s *Logins) change(ctx context.Context, by func([]Login) []Login) error {
	unlock, err := s.lock(ctx, "list")
	if err != nil {
		return err
	}
	defer unlock()
	list, err := s.List()
	if err != nil {
		return err
	}
	b, err := json.MarshalIndent(listed{by(list)}, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(s.listPath(), append(b, '\n'), 0o600)
}

// lock waits until no other process of the user works on a login, or on the list.
func (s *Logins) lock(ctx context.Context, what string) (unlock func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, _, err = s.turn(waiting, what)
	if errors.Is(err, durable.ErrLocked) && ctx.Err() == nil {
		return nil, fmt.Errorf("%w for more than %v; end it, and try again", err, lockTime)
	}
	return unlock, err
}

// Turn waits until no other process of the user signs in to a server; waited says that one did.
// done gives the turn to the next. A person then is asked by one process at a time.
func (s *Logins) Turn(ctx context.Context, server string) (done func(), waited bool, err error) {
	if server, err = Canonical(server); err != nil {
		return nil, false, err
	}
	return s.turn(ctx, "sign-in "+server)
}

// turn locks the file of a thing.
func (s *Logins) turn(ctx context.Context, what string) (unlock func(), waited bool, err error) {
	if err := durable.MkdirAll(s.secretsDir(), 0o700); err != nil {
		return nil, false, err
	}
	name := keyring.File{Dir: s.secretsDir()}.Path(what) + ".lock"
	f, err := durable.LockFile(name)
	if waited = errors.Is(err, durable.ErrLocked); waited {
		f, err = durable.AwaitLock(ctx, name)
	}
	if err != nil {
		return nil, waited, fmt.Errorf("%s: %w", name, err)
	}
	return func() { _ = f.Close() }, waited, nil
}
