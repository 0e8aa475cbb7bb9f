package logincmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"

	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/localproxy"
	"github.com/symdepot/symdepot/internal/run/login"
)

// Proxy is what a proxy needs that uses a login of the user: it serves the files of one server, to
// this user alone.
type Proxy struct {
	Server string // the base URL of the server
	Listen string // the address, "host:port"
	socket string // the path of a Unix socket, in place of the address
	stderr io.Writer
	all    *login.Logins

	mu   sync.Mutex
	said string // the error of the last request, which was printed; guarded by mu
}

// NewProxy returns the proxy of the login for a server. It listens on an address of this machine;
// empty: the one that is noted for the server. A socket replaces the address.
func NewProxy(ctx context.Context, stderr io.Writer, server, listen, socket string) (*Proxy, error) {
	all, err := logins(stderr, "")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Listen: listen, stderr: stderr, all: all}
	if p.Server, err = login.Canonical(server); err != nil {
		return nil, term.UsageError(err.Error())
	}
	if socket != "" && listen != "" {
		return nil, term.UsageError("give --listen or --socket, not both")
	}
	if host, _, err := net.SplitHostPort(listen); listen != "" && (err != nil || !glob.IsLoopback(host)) {
		return nil, term.UsageError("--listen: the proxy of a login listens on this machine only, such as on 127.0.0.1:8080")
	}
	if socket != "" {
		if p.socket, err = filepath.Abs(socket); err != nil {
			return nil, err
		}
	}
	if _, err := p.token(ctx, login.Options{Interactive: term.IsTerminal(stderr)}); err != nil && !errors.Is(err, login.ErrAway) {
		if errors.Is(err, login.ErrNone) {
			err = fmt.Errorf("%w: sign in first with symdepot login %s", err, p.Server)
		}
		return nil, meaning(err)
	}
	if p.Listen == "" && socket == "" {
		p.Listen, err = localproxy.Address(ctx, all.Dir, p.Server)
	}
	return p, err
}

func (p *Proxy) token(ctx context.Context, opt login.Options) (string, error) {
	got, err := p.all.Access(ctx, p.Server, opt)
	return got.Token, err
}

// Tokens returns the access token for a request to the server; see upstream.Tokens.
func (p *Proxy) Tokens(ctx context.Context, refused string) (string, error) {
	token, err := p.token(ctx, login.Options{PassOverCache: refused != "", Refused: refused})
	text := ""
	if err != nil && ctx.Err() == nil {
		text = err.Error()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text != "" && text != p.said { // clients get 404: the user sees here why
		fmt.Fprintln(p.stderr, "symdepot: the login cannot be used:", text)
	}
	p.said = text
	return token, err
}

// Open opens the listener. It refuses other users of the machine.
func (p *Proxy) Open(ctx context.Context) (net.Listener, error) {
	var ln net.Listener
	var err error
	if p.socket != "" {
		ln, err = localproxy.ListenSocket(ctx, p.socket)
	} else {
		ln, err = (&net.ListenConfig{}).Listen(ctx, "tcp", p.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: if that is no proxy of yours, another program may answer your debuggers there; "+
			"--listen 127.0.0.1:0 picks a free port", err)
	}
	return localproxy.OnlyUser(ln, func(from net.Addr) {
		fmt.Fprintf(p.stderr, "symdepot: refused a connection of another user (%s)\n", from)
	}), nil
}

// Text is what the proxy says when it listens at a base URL.
func (p *Proxy) Text(base string) string {
	if p.socket != "" {
		return fmt.Sprintf("Upstream: %s, with the login of this user.\nsymdepot listens on the socket %s; "+
			"for example: curl --unix-socket %[2]s http://localhost/\n", p.Server, term.ShellWord(p.socket))
	}
	who := "It answers this user only."
	if !localproxy.Tells {
		who = "This system does not say who connects: every user of this machine can use it; --socket keeps others out."
	}
	return fmt.Sprintf("Upstream: %s, with the login of this user.\nsymdepot serves its symbols at %s\n%s\n\n"+
		"    export DEBUGINFOD_URLS=%[2]s\n    set _NT_SYMBOL_PATH=srv*C:\\symbols*%[2]s\n", p.Server, base, who)
}
