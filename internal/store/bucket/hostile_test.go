package bucket_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// each runs a test with the three stores, all served by one handler.
func each(t *testing.T, h http.HandlerFunc, test func(*testing.T, bucket.Bucket)) {
	t.Helper()
	clearEnv(t)
	address := serve(t, h)
	for name, cfg := range map[string]bucket.Config{
		"s3":    &bucket.S3Config{Bucket: "symbols", Endpoint: address, AccessKey: "user", SecretKey: "SECRET-s3"},
		"gcs":   &bucket.GCSConfig{Bucket: "symbols", Endpoint: address, Token: "SECRET-gcs"},
		"azure": &bucket.AzureConfig{Account: "account1", Container: "symbols", Endpoint: address, SAS: "sv=1&sig=SECRET-azure"},
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t, cfg, buckettest.Transport(nil))
			test(t, b)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// errs calls every method and returns the errors.
func errs(t *testing.T, b bucket.Bucket) map[string]error {
	m := map[string]error{}
	_, m["get"] = b.Get(t.Context(), "k", 0, -1, "")
	_, m["range"] = b.Get(t.Context(), "k", 10, 10, "")
	_, m["head"] = b.Head(t.Context(), "k")
	_, m["put"] = b.Put(t.Context(), "k", 1, strings.NewReader("x"), bucket.PutOptions{})
	m["delete"] = b.Delete(t.Context(), "k")
	for _, err := range b.List(t.Context(), "") {
		if m["list"] = err; err != nil {
			break
		}
	}
	for op, err := range m {
		e := (*bucket.Error)(nil)
		if err != nil && (!errors.As(err, &e) || strings.Contains(err.Error(), "SECRET") || strings.ContainsAny(err.Error(), "\r\n") || len(err.Error()) > 500) {
			t.Errorf("%s: error %.1000v, want a bucket.Error of one line and 500 bytes at most, without the secret", op, err)
		}
	}
	return m
}

func TestStatuses(t *testing.T) {
	for status, want := range map[int]error{
		401: fs.ErrPermission, 403: fs.ErrPermission, 404: fs.ErrNotExist, 412: bucket.ErrPrecondition, 429: bucket.ErrThrottled, 503: bucket.ErrThrottled,
		300: nil, 301: nil, 307: nil, 400: nil, 409: nil, 418: nil, 500: nil, 502: nil, 504: nil,
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var asked atomic.Int32
			each(t, func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Location", "/elsewhere?SECRET")
				w.Header().Set("Retry-After", "30")
				w.Header().Set("X-Ms-Error-Code", "Odd SECRET\tcode")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "<html><title>SECRET</title>"+strings.Repeat("sorry\r\n", 100_000))
			}, func(t *testing.T, b bucket.Bucket) {
				asked.Store(0)
				before := time.Now()
				for op, err := range errs(t, b) {
					if op == "delete" && status == 404 {
						if err != nil {
							t.Error(err)
						}
						continue
					}
					e := (*bucket.Error)(nil)
					if !errors.As(err, &e) || e.Status != status || (want != nil && !errors.Is(err, want)) {
						t.Errorf("%s: %v, want %v", op, err, want)
						continue
					}
					if errors.Is(err, bucket.ErrThrottled) && (e.Retry.Before(before.Add(29*time.Second)) || e.Retry.After(time.Now().Add(31*time.Second))) {
						t.Errorf("%s: to be asked again at %v", op, e.Retry)
					}
				}
				if n := asked.Load(); n != 6 { // no retries, no redirects
					t.Errorf("%d requests for 6 calls, want 6", n)
				}
			})
		})
	}
}

// TestMismatchedResponses: responses that do not match the request are errors.
func TestMismatchedResponses(t *testing.T) {
	for name, c := range map[string]struct {
		contentRange string
		status       int
	}{
		"whole":     {"", 200},
		"no range":  {"", 206},
		"before":    {"bytes 0-9/1000", 206},
		"behind":    {"bytes 11-20/1000", 206},
		"too much":  {"bytes 10-29/1000", 206},
		"too short": {"bytes 10-14/1000", 206},
		"nonsense":  {"bytes ten-twenty/many", 206},
		"negative":  {"bytes -10-19/1000", 206},
		"total":     {"bytes 10-19/15", 206},
		"at end":    {"bytes 10-9/10", 206},
		"overflow":  {"bytes 10-99999999999999999999/99999999999999999999", 206},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(w http.ResponseWriter, _ *http.Request) {
				if c.contentRange != "" {
					w.Header().Set("Content-Range", c.contentRange)
				}
				w.Header().Set("Last-Modified", "Sat, 21 Nov 2026 09:00:00 GMT")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, "0123456789")
			}, func(t *testing.T, b bucket.Bucket) {
				o, err := b.Get(t.Context(), "k", 10, 10, "")
				if err == nil {
					o.Body.Close()
					t.Errorf("Get: %+v, want an error", o)
				}
				_, err = b.Get(t.Context(), "k", 0, -1, "tag")
				if !errors.Is(err, bucket.ErrPrecondition) && c.status == 200 {
					t.Errorf("another tag is taken: %v", err)
				}
			})
		})
	}
}

// TestEndlessListing: a listing that repeats a page, or has a page above the size
// limit, is an error.
func TestEndlessListing(t *testing.T) {
	const s3Page = `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>same</NextContinuationToken><Contents><Key>k</Key></Contents></ListBucketResult>`
	var asked atomic.Int32
	clearEnv(t)
	for name, page := range map[string]string{
		"gcs":   `{"nextPageToken":"same","items":[{"name":"k","size":"1","generation":"1"},{"name":"m","size":"-5"},{"name":"n","size":"many"}]}`,
		"azure": `<EnumerationResults><Blobs><Blob><Name>k</Name></Blob><Blob><Name Encoded="true">m%EF%BF%BE</Name></Blob></Blobs><NextMarker>same</NextMarker></EnumerationResults>`,
		"s3":    s3Page,
	} {
		t.Run(name, func(t *testing.T) {
			asked.Store(0)
			address := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); _, _ = io.WriteString(w, page) })
			b := open(t, config(name, address), buckettest.Transport(nil))
			n, last := 0, error(nil)
			for _, err := range b.List(t.Context(), "") {
				if last = err; n > 100 {
					break
				}
				n++
			}
			if name != "s3" && (last == nil || asked.Load() > 3) {
				t.Errorf("%d keys in %d requests, then %v; want an error after at most 3", n, asked.Load(), last)
			}
		})
	}
	for _, name := range []string{"s3", "gcs", "azure"} {
		t.Run("large page/"+name, func(t *testing.T) {
			symtest.Sequential(t) // parsing up to the limit of a page takes long under the race detector
			address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				head, item := `{"items":[{"name":"k"}`, `,{"name":"`+strings.Repeat("k", 1000)+`"}`
				if name != "gcs" {
					head, item = "<x>", "<Contents><Key>"+strings.Repeat("k", 1000)+"</Key></Contents>"
				}
				_, _ = io.WriteString(w, head)
				for range 100_000 { // 100 MB in all
					if _, err := io.WriteString(w, item); err != nil {
						return
					}
				}
			})
			b := open(t, config(name, address), buckettest.Transport(nil))
			for _, err := range b.List(t.Context(), "") {
				if err == nil {
					t.Fatal("a key of a broken page, want an error")
				}
			}
		})
	}
}

func config(name, address string) bucket.Config {
	switch name {
	case "s3":
		return &bucket.S3Config{Bucket: "symbols", Endpoint: address, Auth: "anonymous"}
	case "gcs":
		return &bucket.GCSConfig{Bucket: "symbols", Endpoint: address}
	}
	return &bucket.AzureConfig{Account: "account1", Container: "symbols", Endpoint: address}
}

func TestGCSRecoded(t *testing.T) {
	clearEnv(t)
	for _, c := range [][2]string{{"gzip", ""}, {"identity", "gzip"}} {
		address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Goog-Stored-Content-Encoding", c[0])
			if c[1] != "" {
				w.Header().Set("Content-Encoding", c[1])
			}
			_, _ = io.WriteString(w, "other bytes than those that are kept")
		})
		if o, err := open(t, config("gcs", address), buckettest.Transport(nil)).Get(t.Context(), "k", 0, -1, ""); err == nil {
			o.Body.Close()
			t.Errorf("%q sent as %q is taken, want an error", c[0], c[1])
		}
	}
}

func TestS3WrongRegion(t *testing.T) {
	clearEnv(t)
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
		w.WriteHeader(http.StatusMovedPermanently)
		_, _ = io.WriteString(w, `<Error><Code>PermanentRedirect</Code><Endpoint>symbols.s3.eu-central-1.amazonaws.com</Endpoint></Error>`)
	})
	_, err := open(t, config("s3", address), buckettest.Transport(nil)).Get(t.Context(), "k", 0, -1, "")
	if err == nil || !strings.Contains(err.Error(), "eu-central-1") {
		t.Error(err)
	}
}

func TestS3CodesThatNeedWords(t *testing.T) {
	clearEnv(t)
	for code, want := range map[string]error{"SlowDown": bucket.ErrThrottled, "ExpiredToken": fs.ErrPermission, "NoSuchBucket": bucket.ErrNoBucket, "KeyTooLongError": fs.ErrNotExist, "ConditionalRequestConflict": bucket.ErrPrecondition} {
		address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `<Error><Code>`+code+`</Code><Message>SECRET</Message></Error>`)
		})
		if _, err := open(t, config("s3", address), buckettest.Transport(nil)).Get(t.Context(), "k", 0, -1, ""); !errors.Is(err, want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf(`%s: Get("k", 0, ""): error %v, want %v, not strings.Contains(err.Error(), "SECRET")`, code, err, want)
		}
	}
}
