// Package browser tests the pages of symdepot in Chromium. It is a module of its own, so
// that the program does not depend on a browser.
package browser

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

var (
	program string          // the path of symdepot
	chrome  context.Context // the browser; nil: there is none
)

// browsers are the names of programs that speak the DevTools protocol.
var browsers = []string{"chromium", "chromium-browser", "google-chrome", "chrome"}

const testdata = "../../testdata"

// plainHost is a name of this machine that browsers do not take for a secure one, over
// plain HTTP.
const plainHost = "symbols.test"

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "symdepot-browser")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "symdepot")
	build := exec.Command("go", "build", "-o", program, "./cmd/symdepot")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s\n%v\n", out, err)
		return 1
	}
	for _, name := range browsers {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900),
			chromedp.Flag("host-resolver-rules", "MAP "+plainHost+" 127.0.0.1"))
		alloc, cancel := chromedp.NewExecAllocator(context.Background(), opts...)
		defer cancel()
		ctx, stop := chromedp.NewContext(alloc)
		defer stop()
		if err := chromedp.Do(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "%s does not start: %v\n", path, err)
			return 1
		}
		chrome = ctx
		break
	}
	return m.Run()
}

// site is a running server with its depot.
type site struct {
	t    *testing.T
	dir  string
	url  string
	at   string // the address to listen on; after the first start, that of the first
	log  *lines
	args []string
	verb string // the command; "" is serve
	said *lines // what the server printed
	stop func()
}

// lines collects what a program prints.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// newSite makes a depot; fill adds files to it before it is served.
func newSite(t *testing.T, fill func(*site), args ...string) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), args: args}
	if fill != nil {
		fill(s)
	}
	s.serve()
	t.Cleanup(func() { s.stop() })
	return s
}

var address = regexp.MustCompile(`symdepot serves symbols at (\S+)`)

// serve starts the server and waits for its address.
func (s *site) serve() {
	s.t.Helper()
	cmd := exec.Command(program, append([]string{cmp.Or(s.verb, "serve"), "--depot", filepath.Join(s.dir, "depot"), "--listen", cmp.Or(s.at, "127.0.0.1:0")}, s.args...)...)
	cmd.Dir = s.dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.log, s.said = new(lines), new(lines)
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	found := make(chan string, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var text bytes.Buffer
		buf := make([]byte, 4096)
		for {
			n, err := out.Read(buf)
			text.Write(buf[:n])
			_, _ = s.said.Write(buf[:n])
			if m := address.FindSubmatch(text.Bytes()); m != nil && bytes.HasSuffix(text.Bytes(), []byte("\n")) {
				select {
				case found <- string(m[1]):
				default:
				}
			}
			if err != nil {
				close(found)
				return
			}
		}
	}()
	select {
	case s.url = <-found:
	case <-time.After(30 * time.Second):
	}
	s.stop = func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-done
		_ = cmd.Wait()
		s.stop = func() {}
	}
	s.at = strings.TrimPrefix(s.url, "http://")
	if s.url == "" {
		s.stop()
		s.t.Fatalf("the server did not say its address within 30 s:\n%s", s.log)
	}
}

// run runs a command on the depot, which must succeed.
func (s *site) run(args ...string) string {
	s.t.Helper()
	out, err := exec.Command(program, append([]string{args[0], "--depot", filepath.Join(s.dir, "depot")}, args[1:]...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("symdepot %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// get sends a request without a browser.
func (s *site) get(path string, headers ...string) (status int, h http.Header, body []byte) {
	s.t.Helper()
	if !strings.HasPrefix(path, "http") {
		path = s.url + path
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, body
}

// tab is a page of the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	said     []string // by the console, by the policy, by failures
	requests []string
}

// needChrome skips a test if there is no browser.
func needChrome(t *testing.T) {
	t.Helper()
	if chrome == nil {
		symtest.Missing(t, "browser", "no Chromium is installed: one of the programs %s (Debian package chromium)", strings.Join(browsers, ", "))
	}
}

// profiles are the first tabs of the tests, by their names. The tabs of one test have the
// cookies and connections of one person.
var profiles sync.Map

// newTab opens a page, with scripts unless noScript is set.
func newTab(t *testing.T, noScript ...bool) *tab {
	t.Helper()
	needChrome(t)
	from, options := chrome, []chromedp.ContextOption{chromedp.WithNewBrowserContext()}
	first, ok := profiles.Load(t.Name())
	if ok {
		from, options = first.(context.Context), nil
	}
	ctx, cancel := chromedp.NewContext(from, options...)
	t.Cleanup(cancel)
	if !ok {
		profiles.Store(t.Name(), ctx)
		t.Cleanup(func() { profiles.Delete(t.Name()) })
	}
	ctx, end := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(end)
	p := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, p.listen); err != nil {
		t.Fatal(err)
	}
	call(p, network.Enable, network.EnableParams{})
	call(p, runtime.Enable, cdp.Empty{})
	call(p, cdplog.Enable, cdp.Empty{})
	call(p, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}) // also while another tab is in front
	if len(noScript) > 0 && noScript[0] {
		call(p, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	}
	return p
}

func (p *tab) listen(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case *runtime.EventConsoleAPICalled:
		for _, a := range ev.Args {
			p.said = append(p.said, "console: "+string(a.Value)+fmt.Sprint(a.Description))
		}
	case *runtime.EventExceptionThrown:
		p.said = append(p.said, "exception: "+ev.ExceptionDetails.Text)
	case *cdplog.EventEntryAdded:
		p.said = append(p.said, string(ev.Entry.Source)+": "+ev.Entry.Text+" "+ev.Entry.URL)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(ev.Request.URL, "data:") {
			p.requests = append(p.requests, ev.Request.URL)
		}
	}
}

// do carries out actions, which must succeed.
func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatalf("the browser: %v; it said %q", err, p.told())
	}
}

// open opens an address.
func (p *tab) open(url string) {
	p.t.Helper()
	p.mu.Lock()
	p.requests = nil
	p.mu.Unlock()
	p.do(chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("main")))
}

// told returns what the console, the policy and failures said since the last time.
func (p *tab) told() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	said := p.said
	p.said = nil
	return said
}

// call sends a command of the protocol, which must succeed.
func call[P, R any](p *tab, command cdp.Command[P, R], params P) R {
	p.t.Helper()
	r, err := chromedp.Call(p.ctx, command, params)
	if err != nil {
		p.t.Fatalf("the browser: %v", err)
	}
	return r
}

// value carries out an action that returns something, and must succeed.
func value[T any](p *tab, a chromedp.Action[T]) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, a)
	if err != nil {
		p.t.Fatalf("the browser: %v; it said %q", err, p.told())
	}
	return v
}

// eval returns the value of an expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	return value(p, chromedp.Evaluate[T](expression))
}

// until waits until an expression is true. While a page is being left, an expression has
// no value.
func (p *tab) until(expression string) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		if ok, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](expression)); err == nil && ok {
			return
		}
	}
	p.t.Fatalf("after 20 s it is not so that %s; at %s", expression, p.at())
}

// at is the address of the page.
func (p *tab) at() string {
	p.t.Helper()
	return value(p, chromedp.Location())
}

// full is the depot of most tests: two products, two versions, held files.
func full(s *site) {
	s.run("add", "--product", "Game", "--version", "1.8", "--comment", "a <first> build", filepath.Join(testdata, "pe"), filepath.Join(testdata, "pdb"))
	s.run("add", "--product", "Game", "--version", "1.9-nightly", filepath.Join(testdata, "pdb"), filepath.Join(testdata, "elf"))
	s.run("add", "--product", "Tools", "--version", "2.0", filepath.Join(testdata, "macho"), filepath.Join(testdata, "ppdb"), filepath.Join(testdata, "wasm"))
}
