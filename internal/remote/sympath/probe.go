package sympath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/remote/tree"
	"github.com/symdepot/symdepot/internal/remote/upstream"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/layout"
)

// Probed is the result of Probe.
type Probed struct {
	Reachable bool `json:"reachable"`
	// Server is the kind of server, in words; empty: unknown.
	Server string `json:"server,omitempty"`
	// TwoTier reports whether the server has an index2.txt; nil where tiers do not apply.
	TwoTier *bool         `json:"two_tier,omitempty"`
	Status  int           `json:"status,omitempty"` // of the first answer
	Time    time.Duration `json:"-"`                // until the first answer
	Millis  int64         `json:"milliseconds"`
	Error   string        `json:"error,omitempty"`
	// Date is the clock of the server, as it says in its first answer, and Skew by how
	// much it is ahead of this machine's; zero: it does not say.
	Date time.Time     `json:"-"`
	Skew time.Duration `json:"-"`
}

// Probe tests whether the server, bucket or folder of an upstream answers, and finds
// out what kind it is. It ends with the context.
func Probe(ctx context.Context, d *upstream.Dialer, s upstream.Spec) Probed {
	began := time.Now()
	var p Probed
	var err error
	switch s.Type {
	case upstream.TypeHTTP:
		p, err = probeHTTP(ctx, d, s, began)
	case upstream.TypeFolder:
		type result struct {
			layout layout.Layout
			err    error
		}
		done := make(chan result, 1)
		go func() { // a disk may hang
			var r result
			if info, err := os.Stat(s.URL); err != nil {
				r.err = err
			} else if !info.IsDir() {
				r.err = errors.New("it is not a folder")
			} else {
				r.layout, r.err = tree.Detect(ctx, s.URL)
			}
			done <- r
		}()
		select {
		case r := <-done:
			if err = r.err; err == nil {
				p.Reachable, p.Server = true, r.layout.Name()
			}
		case <-ctx.Done():
			err = ctx.Err()
		}
	default:
		err = probeBucket(ctx, d, s, &p)
	}
	if p.Time == 0 {
		p.Time = time.Since(began)
	}
	p.Millis = p.Time.Milliseconds()
	if err != nil {
		p.Error = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			p.Error = "no answer in time"
		}
	}
	return p
}

// SourceProbe is the result of Probe for one upstream of an element.
type SourceProbe struct {
	Upstream string `json:"upstream"`
	Address  string `json:"address"`
	Probed
}

// ProbeAll tests the upstreams of all elements at the same time, each for limit at
// most. The result has one list for each element.
func ProbeAll(ctx context.Context, elements []Element, limit time.Duration) [][]SourceProbe {
	d := upstream.NewDialer(upstream.DialerOptions{Connect: limit})
	all := make([][]SourceProbe, len(elements))
	var running sync.WaitGroup
	for i, e := range elements {
		all[i] = make([]SourceProbe, len(e.Sources))
		for j, s := range e.Sources {
			running.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, limit)
				defer cancel()
				all[i][j] = SourceProbe{s.Name, s.Shown(), Probe(ctx, d, s)}
			})
		}
	}
	running.Wait()
	return all
}

// String describes the result in words.
func (p Probed) String() string {
	if !p.Reachable {
		return "does not answer: " + p.Error
	}
	parts := []string{fmt.Sprintf("answers after %d ms", p.Millis)}
	if p.Server != "" {
		parts = append(parts, p.Server)
	}
	if p.TwoTier != nil {
		parts = append(parts, map[bool]string{true: "two tiers", false: "one tier"}[*p.TwoTier])
	}
	if p.Error != "" {
		parts = append(parts, "but "+p.Error)
	}
	return strings.Join(parts, ", ")
}

func probeBucket(ctx context.Context, d *upstream.Dialer, s upstream.Spec, p *Probed) error {
	b, err := upstream.OpenBucket(s.Bucket, d)
	if err != nil {
		return err
	}
	defer b.Close()
	p.Server = "object store"
	_, err = b.Head(ctx, "index2.txt")
	switch {
	case err == nil:
		p.Reachable, p.TwoTier = true, new(true)
	case errors.Is(err, bucket.ErrNoBucket):
		return err
	case errors.Is(err, fs.ErrPermission):
		p.Reachable = true
		return errors.New("the server answered 403: the credentials are wrong, or the bucket reports missing objects as forbidden")
	case errors.Is(err, fs.ErrNotExist):
		p.Reachable, p.TwoTier = true, new(false)
	default:
		return err
	}
	return nil
}

// noSuchID is an id that no file has.
const noSuchID = "0000000000000000000000000000000000000000"

func probeHTTP(ctx context.Context, d *upstream.Dialer, s upstream.Spec, began time.Time) (Probed, error) {
	var p Probed
	if s.Layout == layout.Debuginfod.Name() {
		// A miss must be answered 404. The front page names the version.
		a, err := probeGet(ctx, d, s, "buildid/"+noSuchID+"/debuginfo")
		if err != nil {
			return p, err
		}
		p.Reachable, p.Status, p.Time = true, a.status, time.Since(began)
		p.clock(a.header)
		p.Server = a.kind()
		if front, err := probeGet(ctx, d, s, ""); err == nil && p.Server == "" {
			p.Server = front.kind()
		}
		if a.status != http.StatusNotFound {
			return p, errors.New("the server answered " + strconv.Itoa(a.status) + " for an id that no file has; 404 is expected")
		}
		return p, nil
	}
	a, err := probeGet(ctx, d, s, "index2.txt")
	if err != nil {
		return p, err
	}
	p.Reachable, p.Status, p.Time, p.Server = true, a.status, time.Since(began), a.kind()
	p.clock(a.header)
	switch {
	case a.status == http.StatusOK && upstream.MayBeFile(a.head):
		p.TwoTier = new(true)
	case upstream.ClassOfStatus(a.status) == fetch.ClassNotFound, a.status == http.StatusOK, a.status == http.StatusForbidden:
		p.TwoTier = new(false)
	case a.status >= 500 || a.status == http.StatusUnauthorized || a.status == http.StatusTooManyRequests:
		return p, errors.New("the server answered " + strconv.Itoa(a.status))
	}
	if p.Server == "" {
		if front, err := probeGet(ctx, d, s, ""); err == nil {
			p.Server = front.kind()
		}
	}
	return p, nil
}

// clock reads the time of an answer that has just come. It is in whole seconds.
func (p *Probed) clock(h http.Header) {
	if at, err := http.ParseTime(h.Get("Date")); err == nil {
		p.Date, p.Skew = at, time.Until(at.Add(500*time.Millisecond))
	}
}

// probeAnswer is the beginning of a response.
type probeAnswer struct {
	status int
	header http.Header
	head   []byte
}

func probeGet(ctx context.Context, d *upstream.Dialer, s upstream.Spec, path string) (*probeAnswer, error) {
	u, err := url.Parse(s.URL)
	if err != nil {
		return nil, errors.New("not an http or https address")
	}
	user := u.User
	u.User = nil
	u = u.JoinPath(path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, errors.New("not an http or https address")
	}
	for k, v := range s.Header {
		req.Header[http.CanonicalHeaderKey(k)] = v
	}
	switch k := s.Credentials; {
	case k.Token != "":
		req.Header.Set("Authorization", wire.Bearer+" "+k.Token)
	case k.User != "" || k.Password != "":
		req.SetBasicAuth(k.User, k.Password)
	case user != nil:
		pass, _ := user.Password()
		req.SetBasicAuth(user.Username(), pass)
	}
	agent := s.UserAgent
	if agent == "" {
		agent = upstream.MicrosoftAgent
	}
	req.Header.Set("User-Agent", agent)
	client := d.ClientFor(u.String())
	if s.Credentials.Negotiate {
		client.Transport = upstream.WithTicket(client.Transport, u.String())
	}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address, which may carry a secret
		}
		return nil, err
	}
	defer resp.Body.Close()
	head, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return &probeAnswer{resp.StatusCode, resp.Header, head}, nil
}

// kind names the kind of server that answered.
func (a *probeAnswer) kind() string {
	text := strings.ToLower(string(a.head))
	has := func(prefix string) bool {
		for k := range a.header {
			if strings.HasPrefix(k, prefix) {
				return true
			}
		}
		return false
	}
	server := a.header.Get("Server")
	switch low := strings.ToLower(server); {
	case strings.Contains(low, "symdepot"), strings.Contains(text, "symdepot"):
		return "symdepot"
	case strings.HasPrefix(text, "debuginfod"), has("X-Debuginfod"), strings.Contains(low, "debuginfod"):
		return "debuginfod"
	case has("X-Goog-"):
		return "Google Cloud Storage"
	case has("X-Amz-"), low == "amazons3":
		return "S3"
	case has("X-Ms-"), strings.Contains(low, "azure"):
		return "Azure"
	case server != "" && len(server) < 80:
		return strings.Map(func(r rune) rune {
			if r < ' ' || r > '~' {
				return '?'
			}
			return r
		}, server)
	}
	return ""
}
