package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/run/daemon"
)

// Server is what a running server on this machine says of itself.
type Server struct {
	URL       string
	Running   bool
	Version   string // empty: it does not say to these credentials
	Upstreams []Upstream
	Metrics   []byte
}

// Upstream is the state of an upstream in a running server.
type Upstream struct {
	Name string `json:"name"`
	Open bool   `json:"open"`
	Why  string `json:"why"`
}

// localDialer connects to this machine. no_egress does not concern it.
var localDialer = upstream.NewDialer(upstream.DialerOptions{})

// serverTime limits the questions to the running server.
const serverTime = 5 * time.Second

// maxAnswer is the most that is read of an answer.
const maxAnswer = 16 << 20

// server asks the running server, if there is one.
func (e *examiner) server(ctx context.Context) {
	base, err := daemon.LocalURL(e.Config.Listen, e.Config.TLS.Enabled())
	if err != nil {
		e.add("server", OK, "not asked: "+err.Error(), "")
		return
	}
	s := &e.Server
	s.URL = base
	ctx, cancel := context.WithTimeout(ctx, serverTime)
	defer cancel()
	requests := LocalClient(base)
	defer requests.CloseIdleConnections()
	theirs, err := daemon.Health(ctx, base, requests)
	ours := e.Depot.Fingerprint
	switch {
	case daemon.IsRefused(err):
		e.add("server", OK, "none runs at "+base, "")
		return
	case theirs != "" && ours != "" && theirs != ours:
		e.add("server", Warning,
			fmt.Sprintf("the symdepot server at %s has another depot than %s; nothing else was asked of it", base, e.Depot.Name),
			"name the depot of that server with --depot, or give the server of this depot an address of its own (key listen, --listen)")
		return
	case err != nil:
		e.add("server", Fault, fmt.Sprintf("%s: not ready: %v", base, err),
			"look at the log of the server; if another program uses the port, change the key listen")
		return
	}
	about := wire.About{}
	asked := e.ask(ctx, requests, "/-/api/v1/about", &about)
	if theirs == "" && (asked != nil || about.Version == "") {
		e.add("server", Warning, base+" is the address of a program that does not say that it is symdepot",
			"if it is another program, give the server of this depot another address (key listen); "+
				"if it is a symdepot that is older than this program, restart it")
		return
	}
	s.Running = true
	same := ""
	if theirs == "" || ours == "" {
		same = "; whether it has this depot is not known"
	}
	if asked != nil {
		e.add("server", Warning, fmt.Sprintf("%s is ready, and does not say more: %v%s", base, asked, same),
			"set "+client.TokenVariable+" to a token that may read all products")
		return
	}
	s.Version = about.Version
	if s.Version != e.Version {
		e.add("server", Warning,
			fmt.Sprintf("%s is ready and is version %s; this program is version %s%s", base, s.Version, e.Version, same),
			"restart the server, so that it runs the installed version")
	} else {
		e.add("server", OK, fmt.Sprintf("%s is ready, version %s%s", base, s.Version, same), "")
	}
	var list struct {
		Items []Upstream `json:"items"`
	}
	if e.ask(ctx, requests, "/-/api/v1/upstreams", &list) == nil {
		s.Upstreams = list.Items
	}
	_ = e.ask(ctx, requests, "/metrics", &s.Metrics)
}

// ask gets an answer of the server: as bytes, or read as JSON.
func (e *examiner) ask(ctx context.Context, requests *http.Client, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Server.URL+path, nil)
	if err != nil {
		return err
	}
	if token := e.Getenv(client.TokenVariable); token != "" {
		req.Header.Set("Authorization", wire.Bearer+" "+token)
	}
	answer, err := requests.Do(req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case answer.StatusCode != http.StatusOK:
		return errors.New("it answers " + answer.Status)
	}
	if b, ok := into.(*[]byte); ok {
		*b = body
		return nil
	}
	return json.Unmarshal(body, into)
}

// LocalClient returns a client for the server of this machine. The names of its
// certificate are not those of this machine's address, and are not checked.
func LocalClient(base string) *http.Client {
	c := localDialer.ClientFor(base)
	if t, ok := c.Transport.(*http.Transport); ok {
		t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the address is that of this machine
		t.Proxy = nil
	}
	return c
}
