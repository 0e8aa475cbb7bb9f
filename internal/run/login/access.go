package login

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/oauth2"

	"github.com/symdepot/symdepot/internal/run/keyring"
)

// Options say what a caller needs of an access token. The zero value takes the token that is
// kept, and asks nobody.
type Options struct {
	// Interactive lets the system ask the person at the screen to unlock the keyring. It begins
	// no sign-in.
	Interactive bool
	// PassOverCache says that the server has refused the token: it is refreshed, unless another
	// process has done that since.
	PassOverCache bool
	// Refused, with PassOverCache, is the token that the server has refused; empty: the kept one.
	Refused string
}

// Access is an access token of a login.
type Access struct {
	Token  string
	Ends   time.Time // zero: not known
	Person string
}

// Access returns an access token for a server: the kept one if it is valid for a minute at
// least, else a new one. All processes of the user refresh a login one at a time, and a new
// token is kept before it is returned. The error is ErrNone without a login, ErrSignIn if the
// person must sign in again, and ErrAway if the server does not answer; or that of the keyring.
func (s *Logins) Access(ctx context.Context, server string, opt Options) (Access, error) {
	l, err := s.Find(server)
	if err != nil {
		return Access{}, err
	}
	if l.KeptIn == KeptInFile {
		return l.fromFile(opt)
	}
	store, err := s.store(l, opt.Interactive)
	if err != nil {
		return Access{}, err
	}
	k, err := get(ctx, store, l.Server)
	if err != nil {
		return Access{}, again(l.Server, err)
	}
	if opt.PassOverCache && opt.Refused == "" {
		opt.Refused = k.Access
	}
	if k.serves(opt) {
		return l.access(k), nil
	}
	return s.refreshed(ctx, l.Server, opt)
}

// serves reports whether the access token that is kept will do.
func (k secrets) serves(opt Options) bool {
	return time.Until(k.AccessEnds) >= LeastLife && !(opt.PassOverCache && k.Access == opt.Refused)
}

func (l Login) access(k secrets) Access { return Access{k.Access, k.AccessEnds, l.Person} }

// fromFile reads the token of a login whose token is in a file.
func (l Login) fromFile(opt Options) (Access, error) {
	token, err := readToken(l.TokenFile)
	if err != nil {
		return Access{}, err
	}
	if opt.PassOverCache && (opt.Refused == "" || token == opt.Refused) {
		return Access{}, fmt.Errorf("%s: %w: it does not accept the token in %s: put a new one there", l.Server, ErrSignIn, l.TokenFile)
	}
	return Access{token, l.Ends, l.Person}, nil
}

// again adds the next step to an error, where that is a new sign-in: there is no secret, or not a
// login; the server does not accept it; or this session does not have the keyring.
func again(server string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s: %w: the keyring no longer has it", server, ErrSignIn)
	}
	switch {
	case errors.Is(err, ErrSignIn):
		return fmt.Errorf("%w; sign in again with `symdepot login %s`", err, server)
	case errors.Is(err, keyring.ErrAbsent):
		return fmt.Errorf("the login for %s is in the keyring of the system: %w; for a login in a file, use `%s=%s symdepot login %s`",
			server, err, keyring.Variable, keyring.NameFile, server)
	}
	return err
}

// refreshed refreshes a login, unless another process does that first.
func (s *Logins) refreshed(ctx context.Context, server string, opt Options) (Access, error) {
	unlock, err := s.lock(ctx, server)
	if err != nil {
		return Access{}, err
	}
	defer unlock()
	l, err := s.Find(server)
	if err != nil {
		return Access{}, err // it was ended meanwhile
	}
	if l.KeptIn == KeptInFile {
		return l.fromFile(opt)
	}
	store, err := s.store(l, opt.Interactive)
	if err != nil {
		return Access{}, err
	}
	k, err := get(ctx, store, server)
	if err != nil {
		return Access{}, again(server, err)
	}
	if k.serves(opt) {
		return l.access(k), nil
	}
	m, err := s.discover(ctx, server)
	if err != nil {
		if errors.Is(err, ErrNoSignIn) {
			err = fmt.Errorf("%w: %w", ErrAway, err) // which says nothing of the login
		}
		return Access{}, err
	}
	token, err := m.config().TokenSource(s.with(ctx, server), &oauth2.Token{RefreshToken: k.Refresh}).Token()
	if err != nil {
		if err = refusal(ctx, server, ErrSignIn, err); errors.Is(err, ErrSignIn) {
			err = errors.Join(again(server, err), s.ended(ctx, l, store))
		}
		return Access{}, err
	}
	return s.keep(ctx, l, store, token)
}

// keep stores what a refresh has brought. The old refresh token is of no use any more, so a
// keyring that was locked meanwhile is replaced by a file.
func (s *Logins) keep(ctx context.Context, l Login, store keyring.Store, token *oauth2.Token) (Access, error) {
	k, err := l.read(token)
	if err != nil {
		return Access{}, err
	}
	ctx = context.WithoutCancel(ctx) // a token that was rotated and not kept would end the login
	if err := put(ctx, store, l.Server, k); err != nil {
		file := keyring.File{Dir: s.secretsDir()}
		if l.KeptIn == keyring.NameFile || put(ctx, file, l.Server, k) != nil {
			return Access{}, errors.Join(err, s.revoke(ctx, l.Server, k.Refresh))
		}
		l.KeptIn = keyring.NameFile
		if s.Note != nil {
			s.Note(fmt.Sprintf("the login is now kept in %s, since %v", file.Path(l.Server), err))
		}
	}
	if err := s.put(ctx, l); err != nil {
		return l.access(k), err
	}
	s.tell(ctx, l.Server, k.Access)
	return l.access(k), nil
}

// tell tells of a new access token.
func (s *Logins) tell(ctx context.Context, server, token string) {
	if s.Refreshed != nil {
		s.Refreshed(ctx, server, token)
	}
}

// ended notes that the server no longer accepts a login: its secret goes, and the list says so.
func (s *Logins) ended(ctx context.Context, l Login, store keyring.Store) error {
	err := store.Delete(ctx, l.Server)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	l.Ended, l.Ends = true, time.Time{}
	return errors.Join(err, s.put(ctx, l))
}

// Forget drops the access token that is kept for a server, if it is this token or if token is
// empty, so that the next Access refreshes.
func (s *Logins) Forget(ctx context.Context, server, token string) error {
	l, err := s.Find(server)
	if err != nil || l.KeptIn == KeptInFile {
		return err
	}
	unlock, err := s.lock(ctx, l.Server)
	if err != nil {
		return err
	}
	defer unlock()
	store, err := s.store(l, false)
	if err != nil {
		return err
	}
	k, err := get(ctx, store, l.Server)
	if err != nil {
		return again(l.Server, err)
	}
	if token != "" && token != k.Access {
		return nil
	}
	k.AccessEnds = time.Time{}
	return put(ctx, store, l.Server, k)
}

// Out ends the login for a server: at the server, and on this machine even if the server does
// not answer. told is why the server could not be told; nil: it was, or need not be.
func (s *Logins) Out(ctx context.Context, server string) (l Login, told, err error) {
	if l, err = s.Find(server); err != nil {
		return l, nil, err
	}
	unlock, err := s.lock(ctx, l.Server)
	if err != nil {
		return l, nil, err
	}
	defer unlock()
	if l.KeptIn != KeptInFile {
		store, err := s.store(l, true)
		if err != nil {
			return l, nil, err
		}
		k, err := get(ctx, store, l.Server)
		switch {
		case err == nil:
			told = s.revoke(ctx, l.Server, k.Refresh)
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrSignIn):
			return l, nil, err // the keyring does not give the secret away: it would stay there
		}
		if err := store.Delete(ctx, l.Server); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return l, told, err
		}
	}
	return l, told, s.drop(ctx, l.Server)
}
