package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// serveFrom runs a server with an upstream and the environment of a store.
func serveFrom(t *testing.T, source string, env map[string]string, args ...string) *commandtest.Serving {
	t.Helper()
	dir := t.TempDir()
	all := map[string]string{"SYMDEPOT_DEPOT": filepath.Join(dir, "depot"), "PATH": os.Getenv("PATH"), "HOME": dir, "AWS_REGION": "us-east-1"}
	for k, v := range env {
		all[k] = v
	}
	s, err := commandtest.StartServe(func(k string) string { return all[k] }, dir, append([]string{"--upstream", source}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stopCommand(s.Cmd) })
	return s
}

// TestBucketUpstreamEnvironment: an upstream finds its store by the variables of the
// environment, as the bucket of a depot does.
func TestBucketUpstreamEnvironment(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	want, err := os.ReadFile("../../testdata/pdb/hello-x64.pdb")
	if err != nil {
		t.Fatal(err)
	}
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: "deep", Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Put(t.Context(), strings.TrimPrefix(farPDB, "/"), int64(len(want)), bytes.NewReader(want), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s := serveFrom(t, "s3://"+p.Bucket+"/deep,layout=symstore", map[string]string{"AWS_ENDPOINT_URL": p.Endpoint, "AWS_ACCESS_KEY_ID": p.User, "AWS_SECRET_ACCESS_KEY": p.Secret})
	if status, got := answerOf(t, s.URL+farPDB); status != http.StatusOK || !bytes.Equal(got, want) {
		t.Errorf("status %d, %d bytes; want 200 and the %d bytes of the PDB", status, len(got), len(want))
	}
}

// TestBucketUpstreamFails: a bucket that cannot be read is an error in the log, which has
// one line for all requests, and in the metrics, and no miss.
func TestBucketUpstreamFails(t *testing.T) {
	t.Parallel()
	p := buckettest.S3(t)
	for name, c := range map[string]struct {
		source, endpoint, secret string
		says                     string
	}{
		"no such bucket": {"s3://nowhere/x", p.Endpoint, p.Secret, "no such bucket"},
		"a wrong secret": {"s3://" + p.Bucket + "/x", p.Endpoint, "notTheSecret", "403"},
		"nobody there":   {"s3://" + p.Bucket + "/x", "http://127.0.0.1:9", p.Secret, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serveFrom(t, c.source+",name=far,layout=symstore", map[string]string{"AWS_ENDPOINT_URL": c.endpoint, "AWS_ACCESS_KEY_ID": p.User, "AWS_SECRET_ACCESS_KEY": c.secret})
			for _, path := range []string{farPDB, strings.Replace(farPDB, "F9EF", "F9EE", 1)} {
				if status, _ := answerOf(t, s.URL+path); status != http.StatusNotFound {
					t.Errorf("%s: status %d, want 404", path, status)
				}
			}
			_, metrics := answerOf(t, s.URL+"/metrics")
			for _, want := range []string{`{result="error",upstream="far"} 2`, `{result="miss",upstream="far"} 0`} {
				if !strings.Contains(string(metrics), "symdepot_upstream_requests_total"+want) {
					t.Errorf("the metrics lack %s", want)
				}
			}
			if err := s.Stop(); err != nil {
				t.Error(err)
			}
			log := s.Log.String()
			if strings.Count(log, "an upstream fails") != 1 || !strings.Contains(log, c.says) || strings.Contains(log, c.secret) {
				t.Errorf("the log is\n%s\nwant one line that an upstream fails, with %q, without the secret", log, c.says)
			}
		})
	}
}
