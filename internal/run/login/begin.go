package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/keyring"
)

// start is a sign-in that begins: the server, what it says of itself, and the keyring for the
// secret.
type start struct {
	server string
	meta   metadata
	store  keyring.Store
}

// begin prepares a sign-in. All that can fail without the person fails here.
func (s *Logins) begin(ctx context.Context, server string) (b start, err error) {
	if b.server, err = Canonical(server); err != nil {
		return b, err
	}
	if b.meta, err = s.discover(ctx, b.server); err != nil {
		return b, err
	}
	store, without, err := keyring.Choose(ctx, s.Keyring, s.secretsDir())
	if err != nil {
		return b, err
	}
	if without != nil && s.Note != nil {
		s.Note(fmt.Sprintf("the login is kept in a file that only you can read, below %s: %v", s.secretsDir(), without))
	}
	b.store = store
	return b, nil
}

// finish stores what a server has answered to a sign-in. A login that there was before ends.
func (s *Logins) finish(ctx context.Context, b start, token *oauth2.Token) (Login, error) {
	l := Login{Server: b.server, KeptIn: b.store.Name(), Created: time.Now().UTC().Truncate(time.Second)}
	k, err := l.read(token)
	if err == nil {
		err = s.replace(ctx, l, func() error { return put(ctx, b.store, l.Server, k) })
	}
	if err == nil {
		s.tell(ctx, l.Server, k.Access)
	}
	if err != nil && token.RefreshToken != "" { // nothing of it is stored, so nobody can use it
		err = errors.Join(err, s.revoke(ctx, b.server, token.RefreshToken))
	}
	return l, err
}

// replace puts a login in the place of an older one for its server, which ends. store stores
// its secret.
func (s *Logins) replace(ctx context.Context, l Login, store func() error) error {
	unlock, err := s.lock(ctx, l.Server)
	if err != nil {
		return err
	}
	defer unlock()
	old, oldErr := s.Find(l.Server)
	var before secrets
	if oldErr == nil && old.KeptIn != KeptInFile {
		if kept, err := s.store(old, false); err == nil {
			before, _ = get(ctx, kept, old.Server) // an old login that cannot be read ends by itself
			if old.KeptIn != l.KeptIn {
				_ = kept.Delete(ctx, old.Server)
			}
		}
	}
	if err := store(); err != nil {
		return err
	}
	if err := s.put(ctx, l); err != nil {
		return err
	}
	if before.Refresh != "" {
		_ = s.revoke(ctx, l.Server, before.Refresh) // it ends by itself where this fails
	}
	return nil
}

// put stores the secrets of a login.
func put(ctx context.Context, store keyring.Store, server string, k secrets) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return store.Set(ctx, server, string(b))
}

// get reads the secrets of a login. The error is fs.ErrNotExist if there are none.
func get(ctx context.Context, store keyring.Store, server string) (k secrets, err error) {
	text, err := store.Get(ctx, server)
	if err != nil {
		return k, err
	}
	if json.Unmarshal([]byte(text), &k) != nil || !isPlain(k.Access) || !isPlain(k.Refresh) {
		return secrets{}, fmt.Errorf("%s: %w: the keyring (%s) has something else than a login", server, ErrSignIn, store.Name())
	}
	return k, nil
}

// TokenFile begins a login whose token is in a file, as of a CI job. The file is read anew at
// each use.
func (s *Logins) TokenFile(ctx context.Context, server, file string) (l Login, err error) {
	if l.Server, err = Canonical(server); err != nil {
		return l, err
	}
	if l.TokenFile, err = filepath.Abs(file); err != nil {
		return l, err
	}
	l.KeptIn, l.Created = KeptInFile, time.Now().UTC().Truncate(time.Second)
	token, err := readToken(l.TokenFile)
	if err != nil {
		return l, err
	}
	who, err := s.me(ctx, l.Server, token)
	if err != nil {
		return l, err
	}
	l.Person, l.Ends = who.Name, who.Until
	return l, s.replace(ctx, l, func() error { return nil })
}

// readToken reads the token in a file.
func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAnswer))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(b))
	if !isPlain(token) {
		return "", fmt.Errorf("%s has no token: one line with a token is expected", file)
	}
	return token, nil
}

// me asks a server whose a token is.
func (s *Logins) me(ctx context.Context, server, token string) (who wire.Me, err error) {
	status, body, err := s.send(ctx, server, http.MethodGet, server+wire.MePath, nil, token)
	switch {
	case err != nil:
		return who, err
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return who, fmt.Errorf("%s: %w: the server does not know the token, or it was revoked or has expired", server, ErrDenied)
	case status != http.StatusOK || json.Unmarshal(body, &who) != nil:
		return who, fmt.Errorf("%s: %w: its answer is not that of a symdepot server (status %d)", server, ErrNoSignIn, status)
	case who.Anonymous:
		return who, fmt.Errorf("%s: %w: the server takes no account of the token", server, ErrDenied)
	}
	return who, nil
}
