package cluster

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/run/command/commandtest"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// TestPublicReplica: a server for people outside works on a depot whose lookups a standby of the
// database answers, and gives whole files to nobody; the server beside it, on the same depot, does.
func TestPublicReplica(t *testing.T) {
	t.Parallel()
	pg := pgtest.New(t)
	name := "outside"
	pg.SQL(t, "CREATE DATABASE "+name)
	s3 := buckettest.S3(t)
	env := map[string]string{
		"PATH": os.Getenv("PATH"), "HOME": t.TempDir(), "SYMDEPOT_TEST_REACH": "60s",
		"SYMDEPOT_DEPOT":       fmt.Sprintf("postgres://symdepot@%s/%s?sslmode=disable", pg.Addr(), name),
		"SYMDEPOT_DEPOT_BLOBS": "s3://" + s3.Bucket + "/depot",
		"AWS_ENDPOINT_URL":     s3.Endpoint, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": s3.User, "AWS_SECRET_ACCESS_KEY": s3.Secret,
	}
	c := &commandtest.Cluster{Killed: map[*commandtest.Serving]bool{}}
	for k, v := range env {
		c.Env = append(c.Env, k+"="+v)
	}
	c.Run(t, "add", "--product", "engine", "--version", "1", "../../testdata/pdb/hello-x64.pdb")
	standby := pg.Standby(t)
	conf := filepath.Join(t.TempDir(), "symdepot.yaml")
	commandtest.Write(t, conf, fmt.Sprintf("depot: {dir: '%s', replicas: ['postgres://symdepot@%s/%s?sslmode=disable']}\n", env["SYMDEPOT_DEPOT"], standby.Addr(), name))
	whole := commandtest.Testdata(t, "pdb/hello-x64.pdb")
	outside, err := c.Start(t, "--config", conf, "--audience", "public")
	if err != nil {
		t.Fatal(err)
	}
	inside, err := c.Start(t, "--config", conf)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/hello-x64.pdb/F9EFE0B6AE7500394C4C44205044422E1/hello-x64.pdb"
	for range 2 { // it is made, then found
		if status, got := ask(t, outside.URL+path); status != http.StatusOK || len(got) == 0 || bytes.Equal(got, whole) {
			t.Errorf("the server for people outside: status %d, the private file: %v; want 200 and the public form", status, bytes.Equal(got, whole))
		}
	}
	if status, got := ask(t, inside.URL+path); status != http.StatusOK || !bytes.Equal(got, whole) {
		t.Errorf("the other server: status %d, the file: %v; want 200 and the file", status, bytes.Equal(got, whole))
	}
}

// ask returns what a server answers.
func ask(t *testing.T, url string) (status int, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err = io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, body
}
