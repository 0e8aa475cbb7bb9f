package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/files/unpack/unpacktest"
	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// pail is a bucket in memory.
type pail struct {
	mu      sync.Mutex
	objects map[string]pailObject // guarded by mu
	asked   []string              // guarded by mu
	fail    error                 // of every call
	body    func(io.Reader) io.ReadCloser
}

type pailObject struct {
	content  []byte
	encoding string
	etag     string
}

func (p *pail) Name() string { return "s3://pail/symbols?endpoint=http%3A%2F%2Flocalhost" }
func (p *pail) Close() error { return nil }

func (p *pail) Get(ctx context.Context, key string, off, n int64, ifMatch string) (*bucket.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, key)
	if p.fail != nil {
		return nil, &bucket.Error{Op: "get", Key: key, Err: p.fail, Retry: time.Unix(1e9, 0)}
	}
	o, ok := p.objects[key]
	switch {
	case !ok:
		return nil, &bucket.Error{Op: "get", Key: key, Err: fs.ErrNotExist}
	case ifMatch != "" && ifMatch != o.etag:
		return nil, &bucket.Error{Op: "get", Key: key, Err: bucket.ErrPrecondition}
	case off > 0 && off >= int64(len(o.content)):
		return nil, &bucket.Error{Op: "get", Key: key, Err: bucket.ErrRange}
	}
	body := io.NopCloser(bytes.NewReader(o.content[off:]))
	if p.body != nil {
		body = p.body(body)
	}
	return &bucket.Object{
		Info:   bucket.Info{Key: key, Size: int64(len(o.content)), ETag: o.etag, ContentEncoding: o.encoding, ModTime: time.Unix(1e9, 0)},
		Offset: off, Total: int64(len(o.content)), Body: body,
	}, nil
}

func (p *pail) Head(ctx context.Context, key string) (bucket.Info, error) {
	o, err := p.Get(ctx, key, 0, -1, "")
	if err != nil {
		return bucket.Info{}, err
	}
	return o.Info, nil
}

func (p *pail) Put(context.Context, string, int64, io.Reader, bucket.PutOptions) (bucket.Info, error) {
	return bucket.Info{}, fs.ErrInvalid
}
func (p *pail) Delete(context.Context, string) error { return fs.ErrInvalid }
func (p *pail) List(context.Context, string) iter.Seq2[bucket.Info, error] {
	return func(func(bucket.Info, error) bool) {}
}

func (p *pail) put(key string, content []byte) {
	if p.objects == nil {
		p.objects = map[string]pailObject{}
	}
	p.objects[key] = pailObject{content: content, etag: fmt.Sprintf("e%d", len(content))}
}

func store(t *testing.T, p bucket.Bucket, cfg StoreConfig) *Store {
	t.Helper()
	cfg.Name, cfg.TempDir = "pail", t.TempDir()
	s, err := NewStore(p, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// all fetches a whole file.
func all(t *testing.T, s fetch.Source, ask fetch.Ask) (*fetch.Reply, []byte, error) {
	t.Helper()
	reply, err := s.Fetch(t.Context(), ask)
	if err != nil {
		return nil, nil, err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	return reply, b, err
}

func TestStoreForms(t *testing.T) {
	pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
	elf := symtest.Testdata(t, "elf/prog-sha1")
	packed := unpacktest.Cabinet(t, "hello-x64.pdb", pdb)
	key := "hello-x64.pdb/" + pdbKey + "/"
	for _, c := range []struct {
		name   string
		cfg    StoreConfig
		key    string
		body   []byte
		enc    string
		path   string
		want   []byte
		resume bool
	}{
		{"plain", StoreConfig{}, key + "hello-x64.pdb", pdb, "", pdbPath, pdb, true},
		{"two tiers", StoreConfig{Layout: "symstore_index2"}, "he/" + key + "hello-x64.pdb", pdb, "", pdbPath, pdb, true},
		{"lower case", StoreConfig{Layout: "ssqp", Casing: "lowercase"}, strings.ToLower(key) + "hello-x64.pdb", pdb, "", pdbPath, pdb, true},
		{"gzip content", StoreConfig{}, key + "hello-x64.pdb", gz(pdb), "gzip", pdbPath, pdb, false},
		{"zstd file", StoreConfig{}, key + "hello-x64.pdb", zs(pdb), "", pdbPath, pdb, false},
		{"zip", StoreConfig{}, key + "hello-x64.pdb", zp(pdb), "", pdbPath, pdb, false},
		{"cabinet", StoreConfig{}, key + "hello-x64.pd_", packed, "", pdbPath, pdb, false},
		{"unified", StoreConfig{Layout: "unified"}, "ad/" + progID[2:] + "/executable", elf, "", "buildid/" + progID + "/executable", elf, true},
		{"debuginfod", StoreConfig{Layout: "debuginfod"}, "buildid/" + progID + "/executable", elf, "", "buildid/" + progID + "/executable", elf, true},
		{"breakpad", StoreConfig{Layout: "breakpad"}, key + "hello-x64.sym", []byte("MODULE windows x86_64 1 hello-x64.pdb\n"), "", key + "hello-x64.sym", []byte("MODULE windows x86_64 1 hello-x64.pdb\n"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &pail{}
			p.put(c.key, c.body)
			o := p.objects[c.key]
			o.encoding = c.enc
			p.objects[c.key] = o
			s := store(t, p, c.cfg)
			reply, got, err := all(t, s, wish(t, c.path))
			if err != nil {
				t.Fatalf("%v; asked for %q; want no error", err, p.asked)
			}
			if !bytes.Equal(got, c.want) {
				t.Errorf("%d bytes, want %d", len(got), len(c.want))
			}
			if reply.Path != "s3://pail/symbols/"+c.key || (reply.Tag != "") != c.resume || reply.Local {
				t.Errorf("reply %+v, want the path of %s, not local, with a tag: %v", reply, c.key, c.resume)
			}
			if c.resume && reply.Size != int64(len(got)) {
				t.Errorf("size %d, want %d", reply.Size, len(got))
			}
			if !c.resume {
				return
			}
			ask := wish(t, c.path)
			ask.Resume = &fetch.Resume{Path: reply.Path, Tag: reply.Tag, Offset: 7}
			reply, got, err = all(t, s, ask)
			if err != nil || reply.Offset != 7 || !bytes.Equal(got, c.want[7:]) || reply.Size != int64(len(c.want)) {
				t.Errorf("resumed: %d bytes, %+v, %v; want those from byte 7", len(got), reply, err)
			}
			// Another file by now: it begins anew.
			ask.Resume.Tag = "other"
			if reply, got, err = all(t, s, ask); err != nil || reply.Offset != 0 || !bytes.Equal(got, c.want) {
				t.Errorf("resumed, but the object has changed: %d bytes, %v; want all of the new one", len(got), err)
			}
		})
	}
}

func TestStoreTiers(t *testing.T) {
	p := &pail{}
	p.put("index2.txt", nil)
	p.put("he/"+pdbPath, []byte("pdb"))
	s := store(t, p, StoreConfig{Layout: "symstore"})
	for range 3 {
		if _, b, err := all(t, s, wish(t, pdbPath)); err != nil || string(b) != "pdb" {
			t.Fatal(err)
		}
	}
	if n := len(p.asked); n != 4 {
		t.Errorf("asked for %q, want 4 requests", p.asked)
	}
	for _, bad := range []StoreConfig{{Layout: "heap"}, {Layout: "symcache"}, {Casing: "camel"}} {
		if _, err := NewStore(p, bad); err == nil {
			t.Errorf("%+v is taken, want an error", bad)
		}
	}
}

func TestStoreFailures(t *testing.T) {
	for _, c := range []struct {
		err  error
		cfg  StoreConfig
		want fetch.Class
	}{
		{fs.ErrNotExist, StoreConfig{}, fetch.ClassNotFound},
		{bucket.ErrNoBucket, StoreConfig{}, fetch.ClassBroken},
		{fs.ErrPermission, StoreConfig{}, fetch.ClassForbidden},
		{fs.ErrPermission, StoreConfig{Forbidden403: true}, fetch.ClassNotFound},
		{bucket.ErrThrottled, StoreConfig{}, fetch.ClassBusy},
		{bucket.ErrCredentials, StoreConfig{}, fetch.ClassBroken},
		{fmt.Errorf("dial: %w", ErrNoEgress), StoreConfig{}, fetch.ClassSkipped},
		{errors.New("status 500"), StoreConfig{}, fetch.ClassBroken},
		{context.DeadlineExceeded, StoreConfig{}, fetch.ClassTimeout},
	} {
		for _, tiers := range []string{TwoTierAuto, TwoTierNo} {
			c.cfg.TwoTier = tiers
			_, _, err := all(t, store(t, &pail{fail: c.err}, c.cfg), wish(t, pdbPath))
			f, ok := errors.AsType[*fetch.Failure](err)
			if !ok || f.Class != c.want || f.Source != "pail" || (f.Class == fetch.ClassBusy) != !f.Retry.IsZero() {
				t.Errorf("%v, tiers %s: %v (%v), want class %v", c.err, tiers, err, fetch.ClassOf(err), c.want)
			}
		}
	}
	p := &pail{}
	p.put(pdbPath, bytes.Repeat([]byte("a"), 1000))
	ask := wish(t, pdbPath)
	ask.Limit = 999
	if _, _, err := all(t, store(t, p, StoreConfig{}), ask); fetch.ClassOf(err) != fetch.ClassTooLarge {
		t.Errorf("too large: %v", err)
	}
	p.put(pdbPath, gz(make([]byte, 100_000)))
	if _, _, err := all(t, store(t, p, StoreConfig{MaxBytes: 5000}), wish(t, pdbPath)); fetch.ClassOf(err) != fetch.ClassTooLarge {
		t.Errorf("a bomb: %v, want too large", err)
	}
	p.put(pdbPath, gz([]byte(strings.Repeat("text ", 1000)))[:60])
	if _, _, err := all(t, store(t, p, StoreConfig{}), wish(t, pdbPath)); fetch.ClassOf(err) != fetch.ClassBroken {
		t.Errorf("cut off: %v, want broken", err)
	}
	p.put(pdbPath, nil)
	if _, _, err := all(t, store(t, p, StoreConfig{}), wish(t, pdbPath)); fetch.ClassOf(err) != fetch.ClassNotFound {
		t.Errorf("empty: %v, want not found", err)
	}
	if _, _, err := all(t, store(t, p, StoreConfig{}), wish(t, "buildid/"+progID+"/section/.text")); fetch.ClassOf(err) != fetch.ClassSkipped {
		t.Errorf("a section: %v, want skipped", err)
	}
	p.put(pdbPath, bytes.Repeat([]byte("a"), 1000))
	p.body = func(r io.Reader) io.ReadCloser { return io.NopCloser(io.LimitReader(r, 10)) }
	if _, _, err := all(t, store(t, p, StoreConfig{}), wish(t, pdbPath)); fetch.ClassOf(err) != fetch.ClassBroken {
		t.Errorf("ends too early: %v", err)
	}
}

// stalls gives some bytes and then waits for its context, as a connection would.
type stalls struct {
	pail
	first int
}

func (s *stalls) Get(ctx context.Context, key string, off, n int64, tag string) (*bucket.Object, error) {
	o, err := s.pail.Get(ctx, key, off, n, tag)
	if err == nil {
		o.Body = io.NopCloser(io.MultiReader(io.LimitReader(o.Body, int64(s.first)), waits{ctx}))
	}
	return o, err
}

func TestStoreStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &stalls{}
		p.put(pdbPath, make([]byte, 1<<20))
		s := store(t, p, StoreConfig{Timeouts: Timeouts{Header: 4 * time.Second, Idle: 6 * time.Second}})
		start := time.Now()
		if _, _, err := all(t, s, wish(t, pdbPath)); fetch.ClassOf(err) != fetch.ClassTimeout || time.Since(start) != 4*time.Second {
			t.Errorf("no first byte: %v after %v", err, time.Since(start))
		}
		p.first = 300_000
		start = time.Now()
		if _, b, err := all(t, s, wish(t, pdbPath)); fetch.ClassOf(err) != fetch.ClassTimeout || time.Since(start) != 6*time.Second || len(b) == 0 {
			t.Errorf("stops: %v after %v; want some bytes and a timeout after 6 s", err, time.Since(start))
		}
		reply, err := s.Fetch(t.Context(), wish(t, pdbPath))
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { _ = reply.Body.Close() })
		if _, err := io.Copy(io.Discard, reply.Body); err == nil {
			t.Error("a closed body ends cleanly")
		}
	})
}

// Real object stores, each from one end to the other.
func TestStorePeers(t *testing.T) {
	dialer := NewDialer(DialerOptions{})
	via := func(p *buckettest.Peer) http.RoundTripper {
		return dialer.Transport(strings.TrimPrefix(p.Endpoint, "http://"))
	}
	for name, open := range map[string]func(t *testing.T) (bucket.Bucket, error){
		"s3": func(t *testing.T) (bucket.Bucket, error) {
			p := buckettest.S3(t)
			return bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: "a b/sym", Endpoint: p.Endpoint, AccessKey: p.User, SecretKey: p.Secret}, via(p))
		},
		"gcs": func(t *testing.T) (bucket.Bucket, error) {
			p := buckettest.GCS(t)
			return bucket.OpenGCS(bucket.GCSConfig{Bucket: p.Bucket, Prefix: "sym", Endpoint: p.Endpoint, Token: p.Secret}, via(p))
		},
		"azure": func(t *testing.T) (bucket.Bucket, error) {
			p := buckettest.Azure(t)
			p.Endpoint = strings.TrimSuffix(p.Endpoint, "/"+p.User)
			return bucket.OpenAzure(bucket.AzureConfig{Account: p.User, Container: p.Bucket, Prefix: "sym", Endpoint: p.Endpoint + "/" + p.User, AccountKey: p.Secret}, via(p))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			pdb := symtest.Testdata(t, "pdb/hello-x64.pdb")
			for key, body := range map[string][]byte{pdbPath: pdb, "elf+x.so/elf-buildid-" + progID + "/elf+x.so": zs(pdb)} {
				if _, err := b.Put(t.Context(), key, int64(len(body)), bytes.NewReader(body), bucket.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			s := store(t, b, StoreConfig{Layout: "symstore"})
			defer s.Close()
			g := Guard(s, GuardOptions{Executables: true})
			reply, got, err := all(t, g, wish(t, pdbPath))
			if err != nil || !bytes.Equal(got, pdb) || reply.Tag == "" || reply.Size != int64(len(pdb)) || reply.ModTime.IsZero() {
				t.Fatalf("%d bytes, %+v, %v; want the PDB with tag, size and time", len(got), reply, err)
			}
			ask := wish(t, pdbPath)
			ask.Resume = &fetch.Resume{Path: reply.Path, Tag: reply.Tag, Offset: 5000}
			if reply, got, err = all(t, g, ask); err != nil || reply.Offset != 5000 || !bytes.Equal(got, pdb[5000:]) {
				t.Errorf("resumed: %d bytes, %v; want the rest from byte 5000", len(got), err)
			}
			if _, got, err = all(t, g, wish(t, "elf+x.so/elf-buildid-"+progID+"/elf+x.so")); err != nil || !bytes.Equal(got, pdb) {
				t.Errorf("packed: %d bytes, %v; want the file", len(got), err)
			}
			if _, _, err = all(t, g, wish(t, "other.pdb/"+pdbKey+"/other.pdb")); fetch.ClassOf(err) != fetch.ClassNotFound {
				t.Errorf("absent: %v, want not found", err)
			}
		})
	}
}
