package commandtest

import (
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/remote/proxytest"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// BucketDepot is a depot in a folder whose contents are in a bucket behind a
// proxy that can be cut.
type BucketDepot struct {
	Dir, Blobs string
	Times      string // see hasten
	Peer       *buckettest.Peer
	Line       *proxytest.Proxy
}

// NewBucketDepot makes a depot whose contents are in a bucket, behind a line that can be cut.
func NewBucketDepot(t *testing.T) *BucketDepot {
	t.Helper()
	p := buckettest.S3(t)
	l := proxytest.New(t, strings.TrimPrefix(p.Endpoint, "http://"))
	return &BucketDepot{Dir: filepath.Join(t.TempDir(), "depot"), Peer: p, Line: l,
		Blobs: "s3://" + p.Bucket + "/depot?endpoint=" + url.QueryEscape("http://"+l.Addr())}
}

// Env returns the credentials of the bucket.
func (b *BucketDepot) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=" + b.Peer.User, "AWS_SECRET_ACCESS_KEY=" + b.Peer.Secret}
}

// Command returns a command on the depot.
func (b *BucketDepot) Command(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "symdepot", append([]string{"--depot", b.Dir, "--blobs", b.Blobs}, args...)...)
	cmd.Env = append(os.Environ(), append(b.Env(), "SYMDEPOT_TEST_TIMES="+b.Times)...)
	return cmd
}

// Run runs the real command and returns its exit code and output.
func (b *BucketDepot) Run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	out, err := b.Command(t, args...).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), string(out)
	case err != nil:
		t.Fatal(err)
	}
	return 0, string(out)
}

// Must runs a command that must succeed, and returns its output.
func (b *BucketDepot) Must(t *testing.T, args ...string) string {
	t.Helper()
	code, out := b.Run(t, args...)
	if code != 0 {
		t.Fatalf("symdepot %s: exit %d, want 0\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// Open opens the bucket past the depot.
func (b *BucketDepot) Open(t *testing.T) bucket.Bucket {
	t.Helper()
	s3, err := bucket.OpenS3(bucket.S3Config{Bucket: b.Peer.Bucket, Prefix: "depot", Endpoint: "http://" + b.Line.Addr(), AccessKey: b.Peer.User, SecretKey: b.Peer.Secret}, buckettest.Transport(nil))
	if err != nil {
		t.Fatal(err)
	}
	return s3
}

// Objects returns the number of objects of contents in the bucket.
func (b *BucketDepot) Objects(t *testing.T) (n int) {
	t.Helper()
	s3 := b.Open(t)
	defer s3.Close()
	for _, err := range s3.List(t.Context(), "c/") {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

// Collect collects as if it were later.
func (b *BucketDepot) Collect(t *testing.T, later time.Duration) {
	t.Helper()
	d, err := depot.Open(t.Context(), b.Dir, depot.Options{MustExist: true, Bucket: b.Open(t), Now: func() time.Time { return time.Now().Add(later) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err := d.Collect(t.Context(), 0, false); err != nil {
		t.Fatalf("collect %v later: %v", later, err)
	}
}
