package commandtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/run/client"
	"github.com/symdepot/symdepot/internal/store/blob"
)

// pushDepot is a depot in a folder with a server that takes pushes to product app,
// reached at an address that stays when the server is restarted.
type pushDepot struct {
	*balancer
	Dir     string
	Env     map[string]string
	Token   string // may push to product app
	Serving *Serving
}

// NewPushDepot makes a depot in a temporary folder and starts its server.
func NewPushDepot(t *testing.T) *pushDepot {
	t.Helper()
	return NewPushDepotIn(t, t.TempDir())
}

// NewPushDepotIn is newPushDepot in a folder.
func NewPushDepotIn(t *testing.T, home string) *pushDepot {
	t.Helper()
	p := &pushDepot{balancer: NewBalancer(t), Dir: filepath.Join(home, "depot")}
	p.Env = map[string]string{"SYMDEPOT_DEPOT": p.Dir, "PATH": os.Getenv("PATH"), "HOME": home}
	p.Must(t, "add", "--product", "other", "../../testdata/pe")
	p.Token, _, _ = strings.Cut(p.Must(t, "token", "new", "--name", "ci", "--scope", "write", "--scope", "read", "--product", "app"), "\n")
	p.Start(t)
	t.Cleanup(func() { p.Stop(t) })
	return p
}

// Start starts the server, at the address that it had before.
func (p *pushDepot) Start(t *testing.T) {
	t.Helper()
	args := []string{"--auth", "--quiet"}
	if p.Serving != nil {
		args = append(args, "--listen", strings.TrimPrefix(p.Serving.URL, "http://"))
	}
	s, err := StartServe(func(k string) string { return p.Env[k] }, ".", args...)
	if err != nil {
		t.Fatal(err)
	}
	p.Serving = s
	p.Reset([]*Serving{s})
}

// Kill kills the server and starts another one.
func (p *pushDepot) Kill(t *testing.T) {
	t.Helper()
	_ = p.Serving.Cmd.Process.Kill()
	_ = p.Serving.Cmd.Wait()
	p.Start(t)
}

func (p *pushDepot) Stop(t *testing.T) {
	t.Helper()
	if p.Serving == nil {
		return
	}
	if err := p.Serving.Stop(); err != nil {
		t.Errorf("serve: %v\n%s", err, p.Serving.Log.String())
	}
	p.Serving = nil
}

// Command returns a command with the depot or the server and the token.
func (p *pushDepot) Command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "symdepot", args...)
	cmd.Env = append(os.Environ(), "SYMDEPOT_DEPOT="+p.Dir, "HOME="+p.Env["HOME"], "XDG_CACHE_HOME="+filepath.Join(p.Env["HOME"], ".cache"),
		"SYMDEPOT_SERVER="+p.URL, "SYMDEPOT_TOKEN="+p.Token)
	return cmd
}

// Must runs a command that must succeed.
func (p *pushDepot) Must(t *testing.T, args ...string) string {
	t.Helper()
	cmd := p.Command(t, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("symdepot %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.String())
	}
	return string(out)
}

// Pusher returns a client in this process.
func (p *pushDepot) Pusher() *client.Pusher {
	return &client.Pusher{URL: p.URL, Token: func() (string, error) { return p.Token, nil }, HTTP: &http.Client{}, Backoff: 50 * time.Millisecond, RetryFor: time.Minute}
}

// Metrics returns the metrics of the server.
func (p *pushDepot) Metrics(t *testing.T, token string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.Serving.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics: %d, %v; want 200", resp.StatusCode, err)
	}
	return string(b)
}

// Request sends a request of a push.
func (p *pushDepot) Request(t *testing.T, method, path string, body io.Reader, header ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.Serving.URL+wire.PushPath+path, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(b)
}

// Checked opens a stage with one file, and returns its id.
func (p *pushDepot) Checked(t *testing.T, version string, body []byte) (id string) {
	t.Helper()
	status, text := p.Request(t, "POST", "/stages", strings.NewReader(`{"product":"app","version":"`+version+`"}`))
	var st wire.PushState
	if err := json.Unmarshal([]byte(text), &st); err != nil || status != http.StatusCreated {
		t.Fatalf("POST /stages: %d, %s; want 201 and a stage", status, text)
	}
	entry := fmt.Sprintf(`[{"path":"a/file.sym","size":%d,"sha256":"%s"}]`, len(body), blob.Sum(body))
	if status, text := p.Request(t, "POST", "/stages/"+st.ID+"/check", strings.NewReader(entry)); status != http.StatusOK || !strings.Contains(text, `"send"`) {
		t.Fatalf("POST check: %d, %s; want 200 and a list of files to send", status, text)
	}
	return st.ID
}

// Put sends a content.
func (p *pushDepot) Put(t *testing.T, id string, body []byte, from io.Reader, header ...string) (int, string) {
	t.Helper()
	return p.Request(t, "PUT", "/stages/"+id+"/contents/"+blob.Sum(body).String(), from, header...)
}
