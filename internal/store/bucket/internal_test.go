package bucket

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestStringToSign compares the text with the example in Azure Storage's
// description of Shared Key, and with its rules for lists and blocks.
func TestStringToSign(t *testing.T) {
	req, err := http.NewRequest(http.MethodGet, "https://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata&timeout=20", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-ms-version", "2015-02-21")
	req.Header.Set("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT")
	want := "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
	if got := stringToSign("myaccount", req); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	req, err = http.NewRequest(http.MethodPut, "https://a.blob.core.windows.net/c/k%20%2B?blockid=QQ%3D%3D&comp=block", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("If-None-Match", "*")
	req.Header.Set("Range", "bytes=0-1")
	want = "PUT\n\n\n5\n\n\n\n\n\n*\n\nbytes=0-1\n/a/c/k%20%2B\nblockid:QQ==\ncomp:block"
	if got := stringToSign("a", req); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fetched atomic.Int32
		var fail atomic.Bool
		tok := &tokens{now: time.Now, fetch: func(ctx context.Context) (token, error) {
			n := fetched.Add(1)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return token{}, ctx.Err()
			}
			if fail.Load() {
				return token{}, errors.New("no")
			}
			return token{value: strings.Repeat("x", int(n)), expires: time.Now().Add(time.Hour)}, nil
		}}
		// All callers share one request; a caller that gives up does not cancel it.
		gone, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Millisecond); cancel() }()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := tok.get(gone); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		for range 10 {
			wg.Go(func() {
				if v, err := tok.get(t.Context()); v != "x" || err != nil {
					t.Errorf(`get: %q, error %v; want "x"`, v, err)
				}
			})
		}
		wg.Wait()
		// A token is renewed before it expires, and at once when refused.
		time.Sleep(54 * time.Minute)
		if v, _ := tok.get(t.Context()); v != "x" {
			t.Errorf(`get: %q, want "x"`, v)
		}
		time.Sleep(2 * time.Minute)
		if v, _ := tok.get(t.Context()); v != "xx" {
			t.Errorf(`get: %q, want "xx"`, v)
		}
		tok.drop("x") // a different, older token
		tok.drop("xx")
		if v, _ := tok.get(t.Context()); v != "xxx" {
			t.Errorf(`get: %q, want "xxx"`, v)
		}
		// A failure is not cached.
		tok.drop("xxx")
		fail.Store(true)
		if _, err := tok.get(t.Context()); !errors.Is(err, ErrCredentials) {
			t.Error(err)
		}
		fail.Store(false)
		if v, err := tok.get(t.Context()); v != "xxxxx" || err != nil {
			t.Errorf(`get: %q, error %v; want "xxxxx"`, v, err)
		}
	})
}

func TestRetryTime(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Duration{
		"0": 0, "30": 30 * time.Second, " 5 ": 5 * time.Second, "-3": 0, "99999999999": 24 * time.Hour,
		"Sat, 21 Nov 2026 12:01:00 GMT": time.Minute, "Sun, 21 Nov 2027 12:01:00 GMT": 24 * time.Hour,
	} {
		if got := retryTime(s, now); !got.Equal(now.Add(want)) {
			t.Errorf("%q: retryTime: %v, want got.Equal(now.Add(want))", s, got)
		}
	}
	for _, s := range []string{"", "soon", "1e9"} {
		if got := retryTime(s, now); !got.IsZero() {
			t.Errorf("%q: retryTime: %v, want got.IsZero()", s, got)
		}
	}
}

func FuzzContentRange(f *testing.F) {
	for _, s := range []string{"bytes 0-9/10", "bytes 5-9/*", "bytes */10", "bytes 10-9/10", "bytes 0--1/0"} {
		f.Add(s, int64(0), int64(-1))
		f.Add(s, int64(5), int64(3))
	}
	f.Fuzz(func(t *testing.T, s string, off, n int64) {
		if off < 0 || (n > 0 && off+n < off) {
			return
		}
		r := &reply{status: http.StatusPartialContent, header: http.Header{"Content-Range": {s}}, body: http.NoBody}
		if o, err := r.object(off, n); err == nil && (o.Offset != off || (o.Total >= 0 && o.Total <= off)) {
			t.Fatalf("%q from %d: %+v; want the offset that was asked for, and a total above it", s, off, o)
		}
	})
}
