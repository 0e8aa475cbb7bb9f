package credential

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/run/credential/debuggertest"
)

// logins are logins in memory: for each server its state.
type logins struct {
	mu   sync.Mutex
	turn sync.Mutex
	// queued is told when a request waits for its turn; nil: nobody.
	queued   chan struct{}
	declines bool   // the person
	before   func() // called before a turn; nil: nothing
	state    map[string]*login
	err      error // of every call
}

type login struct {
	kept     string // the kept access token
	ended    bool   // the next refresh is refused
	away     bool   // the server does not answer
	fresh    int    // refreshed so often
	signedIn int    // signed in so often
	window   int64  // of the last sign-in
}

const person = "erika@example.com"

var expires = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

func (l *logins) Covering(_ context.Context, address string) (best string, err error) {
	for server := range l.state {
		rest, ok := strings.CutPrefix(strings.Replace(address, ".example:443", ".example", 1), server)
		if ok && (rest == "" || rest[0] == '/') && len(server) > len(best) {
			best = server
		}
	}
	return best, l.err
}

func (l *logins) Access(ctx context.Context, server string, opt AccessOptions) (Access, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state[server]
	if s.away {
		<-ctx.Done()
		return Access{}, ctx.Err()
	}
	if opt.PassOverCache {
		s.kept = ""
	}
	switch {
	case s.kept != "":
	case !s.ended:
		s.fresh++
		s.kept = fmt.Sprintf("sd_fresh%d", s.fresh)
	default:
		return Access{}, fmt.Errorf("%w: type symdepot login %s", ErrSignIn, server)
	}
	return Access{Token: s.kept, Name: person, Expires: expires}, nil
}

func (l *logins) SignIn(_ context.Context, server string, window int64) (Access, error) {
	if l.queued != nil { // all others wait
		for range cap(l.queued) {
			<-l.queued
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state[server]
	if !s.ended {
		return Access{}, errors.New("the person has signed in already")
	}
	s.signedIn++
	s.window = window
	if l.declines {
		return Access{}, errors.New("the person has declined")
	}
	s.ended, s.kept = false, fmt.Sprintf("sd_signed%d", s.signedIn)
	return Access{Token: s.kept, Name: person, Expires: expires}, nil
}

func (l *logins) Forget(_ context.Context, server, token string) error {
	if s := l.state[server]; token == "" || token == s.kept {
		s.kept = ""
	}
	return nil
}

func (l *logins) Turn(context.Context, string) (done func(), waited bool, err error) {
	if l.before != nil {
		l.before()
	}
	if l.turn.TryLock() {
		return l.turn.Unlock, false, nil
	}
	if l.queued != nil {
		l.queued <- struct{}{}
	}
	l.turn.Lock()
	return l.turn.Unlock, true, nil
}

// newLogins returns logins with kept tokens.
func newLogins() *logins {
	return &logins{state: map[string]*login{
		"https://sym.example":           {kept: "sd_root"},
		"https://sym.example:8443":      {kept: "sd_port"},
		"http://127.0.0.1:8080":         {kept: "sd_local"},
		"http://[::1]:8080":             {kept: "sd_six"},
		"https://shared.example/a%20b":  {kept: "sd_ab"},
		"https://shared.example/sym":    {kept: "sd_sym"},
		"https://shared.example/sym/in": {kept: "sd_in"},
	}}
}

func run(t *testing.T, h Helper, operation, input string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := h.Run(t.Context(), operation, strings.NewReader(input), &out)
	return out.String(), err
}

const (
	debuggerAnswer = "username=" + person + "\ncredentialkind=Bearer\nheader=Bearer sd_root\n\n"
	plainGitAnswer = "username=" + person + "\npassword=sd_root\npassword_expiry_utc=1795867200\n\n"
)

// TestAnswers: whose request it is, and the form of the answer.
func TestAnswers(t *testing.T) {
	t.Parallel()
	const here = "protocol=https\nhost=sym.example\n"
	for _, c := range []struct{ name, operation, input, want string }{
		{"git", "get", here + "\n", plainGitAnswer},
		{"git, to the end of the input", "get", "protocol=https\nhost=sym.example", plainGitAnswer},
		{"git, with what it sends for nobody", "get", "capability[]=state\nwwwauth[]=Basic realm=\"x\"\nwwwauth[]=Bearer\nurl=https://evil.example\nnew=1\n" + here + "\n", plainGitAnswer},
		{"git, with the name of the person", "get", here + "username=" + person + "\n\n", plainGitAnswer},
		{"git, with another name", "get", here + "username=max\n\n", ""},
		{"git, other server", "get", "protocol=https\nhost=github.com\n\n", ""},
		{"git, no host", "get", "protocol=cert\npath=/x\n\n", ""},
		{"git, nothing", "get", "", ""},
		{"git that takes any scheme", "get", "capability[]=authtype\ncapability[]=state\n" + here + "\n",
			"capability[]=authtype\nauthtype=Bearer\ncredential=sd_root\nephemeral=1\nusername=" + person + "\npassword_expiry_utc=1795867200\n\n"},
		{"git that takes the capability back", "get", "capability[]=authtype\ncapability[]=\n" + here + "\n", plainGitAnswer},
		{"git, store", "store", here + "username=u\npassword=p\n\n", ""},
		{"git, an operation of the future", "capability", "", ""},
		{"debugger by its operation", "Get", here + "\n", debuggerAnswer},
		{"debugger by the case of a key", "get", "Protocol=HTTPS\nHOST=Sym.Example\npAth=x\n\n", debuggerAnswer},
		{"debugger by a key", "get", here + "resourcekind=symbols\n\n", debuggerAnswer},
		{"debugger with CR LF", "GET", "protocol=https\r\nhost=sym.example\r\npath=a/b/c\r\nresourceKind=sources\r\ninteractive=0\r\nisRetry=0\r\nparentHwnd=123\r\n\r\n", debuggerAnswer},
		{"debugger, what follows the empty line", "get", "interactive=1\n" + here + "\nhost=other\x00\n", debuggerAnswer},
		{"debugger, empty values", "Get", here + "interactive=\nissilent=\nisRetry=\nparentHwnd=\n\n", debuggerAnswer},
		{"debugger, window of a signed number", "Get", here + "parentHwnd=-5\n\n", debuggerAnswer},
		{"debugger, store", "Store", here + "\n", ""},
		{"debugger, erase of an unknown server", "Erase", "protocol=https\nhost=x\n\n", ""},
		{"debugger, other server", "Get", "protocol=https\nhost=msdl.example\npath=x\n\n",
			"error=there is no login on this machine for https://msdl.example; symdepot login --list shows the logins\n\n"},
		{"debugger, plain http", "Get", "protocol=http\nhost=sym.example\n\n",
			"error=http://sym.example gets no credential, because others could read it on the way; use https\n\n"},
		{"debugger, a password before the host", "Get", "protocol=https\nhost=u:secret@sym.example\n\n",
			"error=the request has no protocol and host of a server; symdepot login --list shows the logins of this machine\n\n"},
		{"debugger, no protocol", "Get", "host=sym.example\n\n", "error=the request has no protocol\n\n"},
		{"debugger, no host", "Get", "protocol=https\n\n", "error=the request has no host\n\n"},
		{"debugger, unknown operation", "Forget", here + "\n", "error=the operation is not known: symdepot answers get, store and erase\n\n"},
		{"debugger, not 0 or 1", "Get", here + "isRetry=perhaps\n\n", "error=line 3 of the request: isretry: 0, 1, true or false is expected\n\n"},
		{"debugger, no window", "Get", here + "parentHwnd=0x12\n\n", "error=line 3 of the request: parenthwnd: a number is expected\n\n"},
		{"debugger, a key twice", "Get", here + "Host=other.example\n\n", "error=line 3 of the request gives host again\n\n"},
		{"debugger, no key", "Get", here + "secret\n\n", "error=line 3 of the request is not key=value\n\n"},
	} {
		if got, err := run(t, Helper{Logins: newLogins()}, c.operation, c.input); got != c.want || err != nil {
			t.Errorf("%s: answer %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	if got, err := run(t, Helper{Logins: newLogins(), Debugger: true}, "get", here+"\n"); got != debuggerAnswer || err != nil {
		t.Errorf("a helper for debuggers answers %q, %v; want %q", got, err, debuggerAnswer)
	}
}

// TestServers: a credential goes to exactly one of the user's servers.
func TestServers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ scheme, host, path, token string }{
		{"https", "sym.example", "", "sd_root"},
		{"https", "SYM.example", "any/../path", "sd_root"},
		{"https", "sym.example:443", "x", "sd_root"},
		{"https", "sym.example:8443", "x", "sd_port"},
		{"http", "127.0.0.1:8080", "x", "sd_local"},
		{"http", "[::1]:8080", "x", "sd_six"},
		{"https", "shared.example", "sym", "sd_sym"},
		{"https", "shared.example", "/sym/x.pdb/1/x.pdb", "sd_sym"},
		{"https", "shared.example", "sym//x?q=..", "sd_sym"},
		{"https", "shared.example", "sym/in/x", "sd_in"},
		{"https", "shared.example", "sym/x%2Fy", "sd_sym"},
		{"https", "shared.example", "sym?q=/../x", "sd_sym"},
		{"https", "shared.example", "sym#../x", "sd_sym"},
		{"https", "shared.example", "a%20b/x", "sd_ab"},
		{"https", "shared.example", "a b/x", "sd_ab"},
		{"https", "shared.example", "", ""},
		{"https", "shared.example", "symbols/x", ""},
		{"https", "shared.example", "Sym/x", ""},
		{"https", "shared.example", "sym/../x", ""},
		{"https", "shared.example", "sym/%2e%2E/x", ""},
		{"https", "shared.example", `sym\..\x`, ""},
		{"https", "shared.example", `sym/..\x`, ""},
		{"https", "shared.example", `sym/a%5c..%5c..%5cx`, ""},
		{"https", "shared.example", "sym%2Fx", ""},
		{"https", "shared.example", "sym/%zz", ""},
		{"https", "shared.example", "?/sym/x", ""},
		{"http", "sym.example", "", ""},
		{"http", "sym.example:443", "", ""},
		{"ftp", "sym.example", "", ""},
		{"", "sym.example", "", ""},
		{"https", "", "", ""},
		{"https", "127.0.0.1:8080", "", ""},
		{"http", "127.0.0.1", "", ""},
		{"http", "127.0.0.1:8081", "", ""},
		{"http", "localhost:8080", "", ""},
		{"http", "127.0.0.1.example:8080", "", ""},
		{"https", "sym.example.", "", ""},
		{"https", "sym.example.:443", "", ""},
		{"https", "sym.example.evil", "", ""},
		{"https", "evil.sym.example", "", ""},
		{"https", "sym.exampl\u0435", "", ""}, // a Cyrillic letter
		{"https", "sym\uff0eexample", "", ""}, // a wide full stop
		{"https", "sym%2eexample", "", ""},
		{"https", "sym.example ", "", ""},
		{"https", "sym.example@evil.example", "", ""},
		{"https", "evil.example@sym.example", "", ""},
		{"https", "evil.example/sym.example", "", ""},
		{"https", "sym.example/", "", ""},
		{"https", "sym.example#", "", ""},
		{"https", "sym.example:", "", ""},
		{"https", "sym.example:0443", "", ""},
		{"https", "sym.example:443:443", "", ""},
		{"https", "sym.example:+443", "", ""},
		{"https", "sym.example:9999999", "", ""},
		{"https", "[sym.example]", "", ""},
		{"http", "[::1%25lo]:8080", "", ""},
		{"http", "[::1]8080", "", ""},
		{"http", "[::1", "", ""},
	} {
		input := fmt.Sprintf("protocol=%s\nhost=%s\npath=%s\n\n", c.scheme, c.host, c.path)
		git, err := run(t, Helper{Logins: newLogins()}, "get", input)
		if want := "password=" + c.token + "\n"; err != nil || c.token == "" && git != "" || c.token != "" && !strings.Contains(git, want) {
			t.Errorf("git, %q: answer %q, %v; want token %q", input, git, err, c.token)
		}
		windows, err := run(t, Helper{Logins: newLogins()}, "Get", input)
		if want := "header=Bearer " + c.token + "\n"; err != nil || c.token == "" && !strings.HasPrefix(windows, "error=") || c.token != "" && !strings.Contains(windows, want) {
			t.Errorf("debugger, %q: answer %q, %v; want token %q", input, windows, err, c.token)
		}
	}
}

// TestBadInput: an error that has no secret, and nothing else.
func TestBadInput(t *testing.T) {
	t.Parallel()
	const secret = "s3cr3t"
	here := "protocol=https\nhost=sym.example\n"
	for name, c := range map[string]struct{ input, want string }{
		"10 MiB in one line":    {here + "path=" + secret + strings.Repeat("a", 10<<20), "longer than 4096 bytes"},
		"10 MiB of lines":       {here + strings.Repeat(strings.Repeat("x", 4000)+"=\n", 10<<8), "longer than 65536 bytes"},
		"a line of 4097 bytes":  {here + "a=" + strings.Repeat("a", 4095) + "\n\n", "line 3 of the request is longer"},
		"more than 256 lines":   {here + strings.Repeat("a=b\n", 300), "more than 256 lines"},
		"NUL in a value":        {"protocol=https\nhost=sym.example\x00" + secret + "\n\n", "line 2 of the request has a NUL"},
		"NUL in a key":          {here + secret + "\x00=\n\n", "line 3 of the request has a NUL"},
		"a lone CR":             {"protocol=https\nhost=evil.example\rhost=sym.example\n\n", "line 2 of the request has a CR"},
		"a CR at one end":       {"protocol=https\nhost=sym.example\r\n\n", "line 2 of the request has a CR"},
		"an LF at one end":      {"protocol=https\r\nhost=sym.example\n\r\n", "line 2 of the request has a CR"},
		"a lone CR among CR LF": {"protocol=https\r\nhost=a\rhost=sym.example\r\n\r\n", "line 2 of the request has a CR"},
		"two CR":                {"protocol=https\r\r\n\r\n", "line 1 of the request has a CR"},
		"a CR at the end":       {here + "path=x\r", "line 3 of the request has a CR"},
		"a password twice":      {here + "password=" + secret + "\npassword=x\n\n", "line 4 of the request gives password again"},
		"the protocol twice":    {"protocol=https\nprotocol=https\n\n", "line 2 of the request gives protocol again"},
		"no key":                {here + secret + "\n\n", "line 3 of the request is not key=value"},
		"an empty key":          {here + "=" + secret + "\n\n", "line 3 of the request is not key=value"},
	} {
		for _, operation := range []string{"get", "erase", "store"} {
			got, err := run(t, Helper{Logins: newLogins()}, operation, c.input)
			if got != "" || err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("%s, git, %s: answer %q, %v; want nothing, and %q", name, operation, got, err, c.want)
			}
		}
		got, err := run(t, Helper{Logins: newLogins()}, "Get", c.input)
		if !strings.HasPrefix(got, "error=") || !strings.Contains(got, c.want) || strings.Contains(got, secret) || strings.Count(got, "\n") != 2 || err != nil {
			t.Errorf("%s, debugger: answer %q, %v; want error=… %q", name, got, err, c.want)
		}
	}
	// At the limits all is well.
	input := here + strings.Repeat("a=b\n", maxLines-3) + "b=" + strings.Repeat("a", maxLine-2) + "\n\n"
	if got, err := run(t, Helper{Logins: newLogins()}, "get", input); got != plainGitAnswer || err != nil {
		t.Errorf("at the limits: answer %q, %v; want %q", got, err, plainGitAnswer)
	}
	broken := errors.New("broken pipe")
	if err := (Helper{Logins: newLogins()}).Run(t.Context(), "get", io.MultiReader(strings.NewReader(here), failing{broken}), io.Discard); !errors.Is(err, broken) {
		t.Errorf("input that cannot be read: %v, want %v", err, broken)
	}
	if err := (Helper{Logins: newLogins()}).Run(t.Context(), "get", strings.NewReader(here), failing{broken}); !errors.Is(err, broken) {
		t.Errorf("output that cannot be written: %v, want %v", err, broken)
	}
}

// failing can neither be read nor written.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestOpenInput: the answer comes after the empty line. The other side may keep the input open.
func TestOpenInput(t *testing.T) {
	t.Parallel()
	in, w := io.Pipe()
	defer w.Close()
	go func() { _, _ = io.WriteString(w, "protocol=https\nhost=sym.example\n\n") }()
	var out bytes.Buffer
	if err := (Helper{Logins: newLogins()}).Run(t.Context(), "get", in, &out); err != nil || out.String() != plainGitAnswer {
		t.Errorf("answer %q, %v; want %q", out.String(), err, plainGitAnswer)
	}
}

// TestWhenToAsk: the person is asked only if there is no other way and the request allows it.
func TestWhenToAsk(t *testing.T) {
	t.Parallel()
	const server = "https://sym.example"
	for name, c := range map[string]struct {
		keys          string
		ended, kept   bool
		silent        bool   // of the helper
		token         string // in the answer; empty: an error
		fresh, signed int
		window        int64
	}{
		"a kept token":                  {keys: "interactive=1", kept: true, token: "sd_kept"},
		"a kept token, silent":          {keys: "interactive=0", kept: true, token: "sd_kept"},
		"a kept token that was refused": {keys: "isRetry=1\ninteractive=0", kept: true, token: "sd_fresh1", fresh: 1},
		"the same, in words":            {keys: "isretry=TRUE\nissilent=true", kept: true, token: "sd_fresh1", fresh: 1},
		"a retry that is none":          {keys: "isRetry=false", kept: true, token: "sd_kept"},
		"no kept token":                 {keys: "issilent=true", token: "sd_fresh1", fresh: 1},
		"an ended login":                {keys: "interactive=1\nparentHwnd=4711", ended: true, token: "sd_signed1", signed: 1, window: 4711},
		"an ended login, in words":      {keys: "issilent=false\nparentHwnd=12", ended: true, token: "sd_signed1", signed: 1, window: 12},
		"an ended login, not told":      {keys: "resourceKind=symbols", ended: true, token: "sd_signed1", signed: 1},
		"an ended login, retry":         {keys: "isRetry=1\ninteractive=1", ended: true, kept: true, token: "sd_signed1", signed: 1},
		"an ended login, silent":        {keys: "interactive=0\nparentHwnd=4711", ended: true},
		"the same with issilent":        {keys: "issilent=true", ended: true},
		"both, one forbids":             {keys: "interactive=1\nissilent=true", ended: true},
		"both, the other forbids":       {keys: "issilent=0\ninteractive=false", ended: true},
		"both, in the other order":      {keys: "issilent=true\ninteractive=1", ended: true},
		"the helper forbids":            {keys: "interactive=1", ended: true, silent: true},
	} {
		l := newLogins()
		s := l.state[server]
		s.ended, s.kept = c.ended, ""
		if c.kept {
			s.kept = "sd_kept"
		}
		h := Helper{Logins: l, Silent: c.silent}
		got, err := run(t, h, "get", "protocol=https\nhost=sym.example\n"+c.keys+"\n\n")
		switch {
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case c.token == "" && got != "error=a new sign-in is needed: type symdepot login https://sym.example (the request forbids to ask)\n\n",
			c.token != "" && !strings.Contains(got, "\nheader=Bearer "+c.token+"\n"):
			t.Errorf("%s: answer %q, want token %q", name, got, c.token)
		case s.fresh != c.fresh || s.signedIn != c.signed || s.window != c.window:
			t.Errorf("%s: %d refreshes, %d sign-ins, window %d; want %d, %d, %d", name, s.fresh, s.signedIn, s.window, c.fresh, c.signed, c.window)
		}
	}
	// Git is told by the helper only; the error says that the person has to sign in.
	l := newLogins()
	l.state[server].ended, l.state[server].kept = true, ""
	if got, err := run(t, Helper{Logins: l, Silent: true}, "get", "protocol=https\nhost=sym.example\n\n"); got != "" || !errors.Is(err, ErrSignIn) {
		t.Errorf("git, silent: answer %q, %v; want ErrSignIn", got, err)
	}
	if got, err := run(t, Helper{Logins: l}, "get", "protocol=https\nhost=sym.example\n\n"); !strings.Contains(got, "password=sd_signed1\n") || err != nil {
		t.Errorf("git: answer %q, %v; want the token of a new sign-in", got, err)
	}
	// A server that the person has never signed in to asks for nothing.
	if got, err := run(t, Helper{Logins: l}, "Get", "protocol=https\nhost=new.example\ninteractive=1\n\n"); !strings.HasPrefix(got, "error=there is no login") || err != nil {
		t.Errorf("an unknown server: answer %q, %v; want an error", got, err)
	}
}

// TestOneSignIn: of many requests at once, one asks the person, also if the person declines.
func TestOneSignIn(t *testing.T) {
	t.Parallel()
	for _, declines := range []bool{false, true} {
		const others = 49
		l := newLogins()
		l.queued, l.declines = make(chan struct{}, others), declines
		s := l.state["https://sym.example"]
		s.ended, s.kept = true, ""
		want, n := "\nheader=Bearer sd_signed1\n", atomic.Int32{}
		if declines {
			want = "error=" + ErrSignIn.Error()
		}
		var wg sync.WaitGroup
		for range others + 1 {
			wg.Go(func() {
				got, err := run(t, Helper{Logins: l}, "Get", "protocol=https\nhost=sym.example\nisRetry=1\ninteractive=1\n\n")
				switch {
				case err == nil && got == "error=the person has declined\n\n":
					n.Add(1)
				case err != nil || !strings.Contains(got, want):
					t.Errorf("answer %q, %v; want %q", got, err, want)
				}
			})
		}
		wg.Wait()
		if s.signedIn != 1 || declines != (n.Load() == 1) {
			t.Errorf("declined: %v: %d sign-ins, and %d requests were told so; want 1 sign-in", declines, s.signedIn, n.Load())
		}
	}
}

// TestSignedInMeanwhile: nobody is asked after another process has signed in.
func TestSignedInMeanwhile(t *testing.T) {
	t.Parallel()
	l := newLogins()
	s := l.state["https://sym.example"]
	s.ended, s.kept = true, ""
	l.before = func() { s.ended, s.kept = false, "sd_other" }
	got, err := run(t, Helper{Logins: l}, "Get", "protocol=https\nhost=sym.example\nisRetry=1\n\n")
	if !strings.Contains(got, "header=Bearer sd_other\n") || err != nil || s.signedIn != 0 {
		t.Errorf("answer %q, %v, %d sign-ins; want the token of the other process, and none", got, err, s.signedIn)
	}
}

// TestAddress: the address is that of one server for every program, or none.
func TestAddress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ scheme, host, path, want string }{
		{"https", "Sym.Example:8443", "a/b", "https://sym.example:8443/a/b"},
		{"https", "sym_1.example", "/a%2Fb?c", "https://sym_1.example/a%2Fb"},
		{"https", "[2001:DB8::1]:443", "a b", "https://[2001:db8::1]:443/a%20b"},
		{"http", "localhost:1", "a/../b", "http://localhost:1"},
		{"http", "[::1]", `a/.\b`, "http://[::1]"},
		{"https", "sym.example", "", "https://sym.example/"},
		{"https", "sym.example.", "", ""},
		{"https", "sym.example.:443", "", ""},
		{"https", ":443", "", ""},
		{"https", "sym.example:0443", "", ""},
		{"https", "sym.example:", "", ""},
		{"https", "sym.example:123456", "", ""},
		{"https", "sym.example:8x", "", ""},
		{"https", "[fe80::1%25eth0]", "", ""},
		{"https", "[fe80::1%eth0]", "", ""},
		{"https", "[127.0.0.1]", "", ""},
		{"https", "[::1]x", "", ""},
		{"https", "[]", "", ""},
		{"https", "a]", "", ""},
		{"https", "a,b", "", ""},
	} {
		got, err := request{scheme: c.scheme, host: c.host, path: c.path}.address()
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s, %s, %s: address %q, %v; want %q", c.scheme, c.host, c.path, got, err, c.want)
		}
	}
}

// TestErase: the next get refreshes; a token that is no longer kept erases none.
func TestErase(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{
		"":                                      "sd_fresh1",
		"username=x\npassword=sd_root\n":        "sd_fresh1",
		"authtype=Bearer\ncredential=sd_root\n": "sd_fresh1",
		"username=x\npassword=sd_before\n":      "sd_root",
	} {
		h := Helper{Logins: newLogins()}
		if got, err := run(t, h, "erase", "protocol=https\nhost=sym.example\n"+input+"\n"); got != "" || err != nil {
			t.Errorf("erase %q: answer %q, %v; want nothing", input, got, err)
		}
		if got, err := run(t, h, "get", "protocol=https\nhost=sym.example\n\n"); !strings.Contains(got, "password="+want+"\n") || err != nil {
			t.Errorf("get after erase %q: answer %q, %v; want %s", input, got, err, want)
		}
	}
}

// TestServerAway: a server that does not answer is an error in time.
func TestServerAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLogins()
		l.state["https://sym.example"].away = true
		const want = "error=https://sym.example has not answered within 30s; try again later: context deadline exceeded\n\n"
		if got, err := run(t, Helper{Logins: l}, "Get", "protocol=https\nhost=sym.example\ninteractive=0\n\n"); got != want || err != nil {
			t.Errorf("answer %q, %v; want %q", got, err, want)
		}
	})
}

// given are logins with one access token.
type given struct {
	logins
	access Access
}

func (g *given) Access(context.Context, string, AccessOptions) (Access, error) { return g.access, nil }

// TestAnswerLines: nothing from elsewhere adds a line to an answer.
func TestAnswerLines(t *testing.T) {
	t.Parallel()
	h := func(a Access, err error) Helper {
		l := newLogins()
		l.err = err
		return Helper{Logins: &given{logins: logins{state: l.state, err: l.err}, access: a}}
	}
	const here = "protocol=https\nhost=sym.example\n\n"
	for _, c := range []struct {
		a    Access
		err  error
		want string
	}{
		{Access{Token: "sd_1", Name: "a\nheader=Bearer x\r\n\nb\x1b"}, nil, "username=a; header=Bearer x; b?\ncredentialkind=Bearer\nheader=Bearer sd_1\n\n"},
		{Access{Token: "sd_1"}, nil, "username=token\ncredentialkind=Bearer\nheader=Bearer sd_1\n\n"},
		{Access{Token: "eyJ.a_b.c-d=="}, nil, "username=token\ncredentialkind=Bearer\nheader=Bearer eyJ.a_b.c-d==\n\n"},
		{Access{Token: "sd_1\nx=y"}, nil, "error=the token of the login for https://sym.example has characters that no request can carry; type: symdepot login https://sym.example\n\n"},
		{Access{Token: ""}, nil, "error=the token of the login for https://sym.example has characters that no request can carry; type: symdepot login https://sym.example\n\n"},
		{Access{}, errors.New("locked\n\nheader=Bearer x"), "error=locked; header=Bearer x\n\n"},
	} {
		if got, err := run(t, h(c.a, c.err), "Get", here); got != c.want || err != nil {
			t.Errorf("%+v, %v: answer %q, %v; want %q", c.a, c.err, got, err, c.want)
		}
	}
	if got, err := run(t, h(Access{Token: "sd_1", Name: "a\nb"}, nil), "get", here); got != "username=a; b\npassword=sd_1\n\n" || err != nil {
		t.Errorf("git: answer %q, %v; want no line of the name", got, err)
	}
}

// FuzzRequest: any input gets one answer of the right form; a credential goes to a server of
// the user only; no error has a secret of the input.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"protocol=https\nhost=sym.example\npath=a/b\nusername=u\npassword=SECRET\n\n",
		"capability[]=authtype\nprotocol=https\nhost=shared.example\npath=sym/../x\nwwwauth[]=Basic\n\n",
		"Protocol=HTTPS\r\nHost=sym.example:8443\r\nresourceKind=symbols\r\ninteractive=1\r\nisRetry=1\r\nparentHwnd=77\r\n\r\n",
		"protocol=http\nhost=[::1]:8080\nissilent=true\nisRetry=false\n\n",
		"protocol=https\nhost=evil\rhost=sym.example\n\n", "=\n", "a\x00b=c\n",
	} {
		f.Add("get", s)
		f.Add("Erase", s)
	}
	f.Fuzz(func(t *testing.T, operation, input string) {
		var out bytes.Buffer
		l := newLogins()
		err := Helper{Logins: l}.Run(t.Context(), operation, strings.NewReader(input), &out)
		got := out.String()
		if got != "" && (!strings.HasSuffix(got, "\n\n") || strings.Count(got, "\n\n") != 1 || strings.ContainsAny(got, "\r\x00")) {
			t.Errorf("answer %q: want lines, and one empty line at the end", got)
		}
		if err != nil && got != "" {
			t.Errorf("answer %q and error %v; want one of them", got, err)
		}
		if strings.ToLower(operation) != "get" && strings.Contains(got, "sd_") {
			t.Errorf("%q is answered with a token: %q", operation, got)
		}
		if err != nil && strings.Contains(input, "SECRET") && strings.Contains(err.Error(), "SECRET") {
			t.Errorf("the error has a secret: %v", err)
		}
		if strings.Contains(got, "sd_") && !strings.Contains(strings.ToLower(input), ".example") && !strings.Contains(input, ":8080") {
			t.Errorf("a token for none of the servers: %q gets %q", input, got)
		}
	})
}

// FuzzAnswer: a debugger reads the token out of an answer, whatever name and token a server has
// given.
func FuzzAnswer(f *testing.F) {
	f.Add("erika", "sd_1")
	f.Add("a\nerror=x", "sd_1\r\n\nheader=Bearer y")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, name, token string) {
		h := Helper{Logins: &given{logins: logins{state: newLogins().state}, access: Access{Token: token, Name: name}}}
		var out bytes.Buffer
		if err := h.Run(t.Context(), "Get", strings.NewReader("protocol=https\nhost=sym.example\n\n"), &out); err != nil {
			t.Fatal(err)
		}
		answer := out.String()
		header, err := debuggertest.ReadAnswer(&out)
		if isBearerToken(token) != (err == nil) || err == nil && header != "Bearer "+token {
			t.Errorf("name %q, token %q: the debugger reads %q, %v out of %q", name, token, header, err, answer)
		}
	})
}
