package buckettest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Peer is a running object store with one empty bucket in it.
type Peer struct {
	Endpoint string // http://127.0.0.1:PORT
	Bucket   string
	// User and Secret are the administrator credentials: an access key and its
	// secret for S3, the account and its key for Azure, a bearer token for
	// Google.
	User, Secret string
	// Host, for S3, is the domain for virtual-hosted requests.
	Host string
}

// start runs a peer on a free port until the test ends. It returns the base URL
// when the peer responds to the path probe.
func start(t testing.TB, name, probe string, args func(port string) []string) string {
	t.Helper()
	path := symtest.Tool(t, name)
	var said string
	for range 5 { // another program may take the port before the peer does
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(addr)
		cmd := exec.CommandContext(t.Context(), path, args(port)...) // ends with the test
		out := &output{}
		cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, t.TempDir()
		cmd.WaitDelay = time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		gone := make(chan struct{})
		go func() { _ = cmd.Wait(); close(gone) }()
		if answers(t, "http://"+addr+probe, gone) {
			t.Cleanup(func() { <-gone })
			return "http://" + addr
		}
		_ = cmd.Process.Kill()
		<-gone
		said = out.String()
	}
	t.Fatalf("%s does not start: %s", name, said)
	return ""
}

// answers waits until a server responds at url or the program has ended.
func answers(t testing.TB, url string, gone <-chan struct{}) bool {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1500 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			return true
		}
		select {
		case <-gone:
			return false
		case <-tick.C:
		}
	}
	return false
}

// output collects the output of a program.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// S3 starts versitygw.
func S3(t testing.TB) *Peer {
	t.Helper()
	p := &Peer{Bucket: "symbols", User: "symdepotuser", Secret: "S3cretOfVersitygw/+=", Host: "s3.test"}
	root, side, users := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(root, p.Bucket), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Endpoint = start(t, "versitygw", "/health", func(port string) []string {
		return []string{"--port", "127.0.0.1:" + port, "--access", p.User, "--secret", p.Secret, "--health", "/health",
			"--quiet", "--keep-alive", "--virtual-domain", p.Host + ":" + port, "--iam-dir", users, "posix", "--sidecar", side, root}
	})
	return p
}

// GCS starts fake-gcs-server, which accepts all credentials, and a proxy before it
// that checks the bearer token.
func GCS(t testing.TB) *Peer {
	t.Helper()
	p := &Peer{Bucket: "symbols", Secret: "ya29.good-token"}
	inner := start(t, "fake-gcs-server", "/_internal/healthcheck", func(port string) []string {
		return []string{"-scheme", "http", "-host", "127.0.0.1", "-port", port, "-backend", "memory", "-log-level", "error"}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, inner+"/storage/v1/b", strings.NewReader(`{"name":"`+p.Bucket+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if err := send(req); err != nil {
		t.Fatal(err)
	}
	target, _ := url.Parse(inner)
	proxy := &httputil.ReverseProxy{
		Transport:    Transport(nil),
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+p.Secret {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"code":401,"message":"Invalid Credentials","errors":[{"reason":"authError"}]}}`)
			return
		}
		// Otherwise the body of the request is closed when the answer begins. If the proxy has
		// not seen its end yet, it takes that for an error and breaks the answer off.
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(door.Close)
	p.Endpoint = door.URL
	return p
}

// Azure starts Azurite. Every Azurite has the same account and key.
func Azure(t testing.TB) *Peer {
	t.Helper()
	p := &Peer{Bucket: "symbols", User: "devstoreaccount1",
		Secret: "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="}
	addr := start(t, "azurite-blob", "/", func(port string) []string {
		return []string{"--inMemoryPersistence", "--silent", "--disableTelemetry", "--blobHost", "127.0.0.1", "--blobPort", port}
	})
	p.Endpoint = addr + "/" + p.User
	if err := makeContainer(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return p
}

// send sends the request that creates a bucket.
func send(req *http.Request) error {
	resp, err := (&http.Client{Transport: Transport(nil)}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("cannot create a bucket: %s %s", resp.Status, said)
	}
	return nil
}

func makeContainer(ctx context.Context, p *Peer) error {
	const version = "2021-12-02"
	date := time.Now().UTC().Format(http.TimeFormat)
	text := "PUT" + strings.Repeat("\n", 12) + "x-ms-date:" + date + "\nx-ms-version:" + version +
		"\n/" + p.User + "/" + p.User + "/" + p.Bucket + "\nrestype:container"
	key, err := base64.StdEncoding.DecodeString(p.Secret)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, p.Endpoint+"/"+p.Bucket+"?restype=container", nil)
	if err != nil {
		return err
	}
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", version)
	req.Header.Set("Authorization", "SharedKey "+p.User+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return send(req)
}
