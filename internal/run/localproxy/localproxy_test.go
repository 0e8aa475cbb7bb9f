package localproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestAddress: a server keeps its port, two servers have two, and a port that is taken is left out.
func TestAddress(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	address := func(server string) string {
		t.Helper()
		a, err := Address(t.Context(), own, server)
		if err != nil || !strings.HasPrefix(a, "127.0.0.1:") {
			t.Fatalf("%q, %v; want an address of this machine", a, err)
		}
		return a
	}
	first := address("https://a")
	if again := address("https://a"); again != first {
		t.Errorf("%s, and then %s", first, again)
	}
	if second := address("https://b"); second == first {
		t.Errorf("two servers have %s", second)
	}
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", first)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if again := address("https://a"); again != first {
		t.Errorf("while somebody listens there: %s, want %s", again, first)
	}
	if err := os.Remove(filepath.Join(own, "proxies.json")); err != nil {
		t.Fatal(err)
	}
	if other := address("https://a"); other == first {
		t.Errorf("%s is taken, and chosen", other)
	}
	if err := os.WriteFile(filepath.Join(own, "proxies.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Address(t.Context(), own, "https://a"); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged list: %v", err)
	}
}

// TestAddressAtOnce: processes that ask at the same time get the same port for the same server.
func TestAddressAtOnce(t *testing.T) {
	own := t.TempDir()
	var wg sync.WaitGroup
	got := make([]string, 8)
	for i := range got {
		wg.Go(func() { got[i], _ = Address(t.Context(), own, []string{"https://a", "https://b"}[i%2]) })
	}
	wg.Wait()
	for i := range got {
		if got[i] == "" || got[i] != got[i%2] {
			t.Errorf("addresses %v", got)
		}
	}
	if got[0] == got[1] {
		t.Errorf("two servers have %s", got[0])
	}
}

// guarded serves at a guarded listener, and returns its address and the clients it has refused.
func guarded(t *testing.T, who func(net.Conn) peer) (address string, refused func() int) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	g := OnlyUser(ln, func(net.Addr) { mu.Lock(); n++; mu.Unlock() }).(*guard)
	if who != nil {
		g.who = who
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })}
	go func() { _ = srv.Serve(g) }()
	t.Cleanup(func() { _ = srv.Close() })
	return ln.Addr().String(), func() int { mu.Lock(); defer mu.Unlock(); return n }
}

func get(t *testing.T, address string) (int, string) {
	t.Helper()
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + address + "/x")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestGuard: the user is served; another one gets 403 with a text, and so does one of whom the
// system should know and does not.
func TestGuard(t *testing.T) {
	address, refused := guarded(t, nil)
	if status, body := get(t, address); status != 200 || body != "secret" || refused() != 0 {
		t.Errorf("this user: %d %q, %d refused", status, body, refused())
	}
	for who, want := range map[peer]bool{peerSame: true, peerOther: false, peerUnknown: !Tells} {
		address, refused := guarded(t, func(net.Conn) peer { return who })
		status, body := get(t, address)
		if want && (status != 200 || refused() != 0) || !want && (status != 403 || body != refusal || refused() != 1) {
			t.Errorf("who %d: %d %q, %d refused; want an answer: %v", who, status, body, refused(), want)
		}
	}
}

// TestRefusalEnds: a client that sends no request, or something else, is let go.
func TestRefusalEnds(t *testing.T) {
	for _, text := range []string{"", "\x00\x01\r\n\r\n", "GET / HTTP/1.1\r\n" + strings.Repeat("A: b\r\n", maxRequest)} {
		client, server := net.Pipe()
		done := make(chan struct{})
		go func() { refuse(server); close(done) }()
		_, _ = io.Copy(client, bytes.NewReader([]byte(text)))
		_ = client.Close()
		<-done
	}
}

// TestSocket: only the user can connect to the socket; one that is in use, and another file, stay.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := ListenSocket(t.Context(), path)
	if err != nil {
		if runtime.GOOS == "windows" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	g := OnlyUser(ln, func(net.Addr) { t.Error("this user was refused") })
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })}
	go func() { _ = srv.Serve(g) }()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want mode 0600", info.Mode(), err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Get("http://localhost/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if _, err := ListenSocket(t.Context(), path); err == nil || !strings.Contains(err.Error(), "listens there already") {
		t.Errorf("in use: %v", err)
	}
	client.CloseIdleConnections()
	if err := srv.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	left.(*net.UnixListener).SetUnlinkOnClose(false) // as a killed process leaves it
	_ = left.Close()
	again, err := ListenSocket(t.Context(), path)
	if err != nil {
		t.Fatalf("one that a killed process has left: %v", err)
	}
	_ = again.Close()
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(t.Context(), path); err == nil {
		t.Error("a file is replaced")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
		t.Error(errors.New("the file was changed"), err)
	}
}
