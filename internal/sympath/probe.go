package sympath

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/bucket"
	"github.com/symdepot/symdepot/internal/fetch"
	"github.com/symdepot/symdepot/internal/tree"
	"github.com/symdepot/symdepot/internal/upstream"
	"github.com/symdepot/symdepot/layout"
)

// Probed is what was found where a source is said to be.
type Probed struct {
	Reachable bool `json:"reachable"`
	// Server is the kind of server, in words; empty: unknown.
	Server string `json:"server,omitempty"`
	// TwoTier is whether index2.txt is there; nil where that means nothing.
	TwoTier *bool         `json:"two_tier,omitempty"`
	Status  int           `json:"status,omitempty"` // of the first answer
	Time    time.Duration `json:"-"`                // until the first answer
	Millis  int64         `json:"milliseconds"`
	Error   string        `json:"error,omitempty"`
}

// Probe looks whether there is a server, bucket or folder where a source is said
// to be, and what kind it is. It ends with the context.
func Probe(ctx context.Context, d *upstream.Dialer, s upstream.Spec) Probed {
	began := time.Now()
	var p Probed
	var err error
	switch s.Type {
	case upstream.TypeHTTP:
		p, err = probeHTTP(ctx, d, s, began)
	case upstream.TypeFolder:
		done := make(chan error, 1)
		go func() { // a disk may hang
			info, err := os.Stat(s.URL)
			if err == nil && !info.IsDir() {
				err = errors.New("that is no folder")
			}
			if err == nil {
				var l layout.Layout
				l, err = tree.Detect(ctx, s.URL)
				p.Server = l.Name()
			}
			done <- err
		}()
		select {
		case err = <-done:
			p.Reachable = err == nil
		case <-ctx.Done():
			p = Probed{}
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
		return errors.New("it answers 403: the credentials are wrong, or missing objects are reported as forbidden")
	case errors.Is(err, fs.ErrNotExist):
		p.Reachable, p.TwoTier = true, new(false)
	default:
		return err
	}
	return nil
}

// noSuchID is an id that nothing has.
const noSuchID = "0000000000000000000000000000000000000000"

func probeHTTP(ctx context.Context, d *upstream.Dialer, s upstream.Spec, began time.Time) (Probed, error) {
	var p Probed
	if s.Layout == layout.Debuginfod.Name() {
		// What is not there must be 404; the front page says the version.
		a, err := probeGet(ctx, d, s, "buildid/"+noSuchID+"/debuginfo")
		if err != nil {
			return p, err
		}
		p.Reachable, p.Status, p.Time = true, a.status, time.Since(began)
		p.Server = a.kind()
		if front, err := probeGet(ctx, d, s, ""); err == nil && p.Server == "" {
			p.Server = front.kind()
		}
		if a.status != http.StatusNotFound {
			return p, errors.New("it answers " + strconv.Itoa(a.status) + " for an id that nothing has; 404 is expected")
		}
		return p, nil
	}
	a, err := probeGet(ctx, d, s, "index2.txt")
	if err != nil {
		return p, err
	}
	p.Reachable, p.Status, p.Time, p.Server = true, a.status, time.Since(began), a.kind()
	switch {
	case a.status == http.StatusOK && upstream.MayBeFile(a.head):
		p.TwoTier = new(true)
	case upstream.ClassOfStatus(a.status) == fetch.ClassAbsent, a.status == http.StatusOK, a.status == http.StatusForbidden:
		p.TwoTier = new(false)
	case a.status >= 500 || a.status == http.StatusUnauthorized || a.status == http.StatusTooManyRequests:
		return p, errors.New("it answers " + strconv.Itoa(a.status))
	}
	if p.Server == "" {
		if front, err := probeGet(ctx, d, s, ""); err == nil {
			p.Server = front.kind()
		}
	}
	return p, nil
}

// probeAnswer is the beginning of an answer.
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
		req.Header.Set("Authorization", "Bearer "+k.Token)
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

// kind says in words what kind of server answered.
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
