package buckettest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// Reader makes a user of a versitygw of S3 who may list and read the objects of its bucket
// and nothing else, and returns the access key and the secret.
func (p *Peer) Reader(t testing.TB) (user, secret string) {
	t.Helper()
	user, secret = "readinguser", "S3cretOfTheReader/+="
	cmd := exec.CommandContext(t.Context(), symtest.Tool(t, "versitygw"), "admin", "--access", p.User,
		"--secret", p.Secret, "--endpoint-url", p.Endpoint,
		"create-user", "--access", user, "--secret", secret, "--role", "user")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("versitygw makes no user: %v\n%s", err, out)
	}
	who, what := `{"Effect":"Allow","Principal":["`+user+`"],`, `"Resource":["arn:aws:s3:::`+p.Bucket
	policy := `{"Version":"2012-10-17","Statement":[` +
		who + `"Action":["s3:GetObject"],` + what + `/*"]},` +
		who + `"Action":["s3:ListBucket"],` + what + `"]}]}`
	if err := send(p.signed(t, http.MethodPut, "policy=", []byte(policy))); err != nil {
		t.Fatal(err)
	}
	return user, secret
}

// signed returns a request to the bucket of an S3 peer with a signature (AWS Signature
// Version 4).
func (p *Peer) signed(t testing.TB, method, query string, body []byte) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, p.Endpoint+"/"+p.Bucket+"?"+query, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().UTC().Format("20060102T150405Z")
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	req.Header.Set("X-Amz-Date", at)
	req.Header.Set("X-Amz-Content-Sha256", digest)
	const names = "host;x-amz-content-sha256;x-amz-date"
	canonical := strings.Join([]string{
		method, "/" + p.Bucket, query, "host:" + req.URL.Host, "x-amz-content-sha256:" + digest, "x-amz-date:" + at, "",
		names, digest,
	}, "\n")
	scope := at[:8] + "/us-east-1/s3/aws4_request"
	hashed := sha256.Sum256([]byte(canonical))
	key := []byte("AWS4" + p.Secret)
	for _, part := range []string{
		at[:8], "us-east-1", "s3", "aws4_request",
		"AWS4-HMAC-SHA256\n" + at + "\n" + scope + "\n" + hex.EncodeToString(hashed[:]),
	} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	req.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential="+p.User+"/"+scope+", SignedHeaders="+names+", Signature="+hex.EncodeToString(key))
	return req
}

// SAS returns a shared access signature for the container of an Azurite (service SAS of
// version 2021-12-02): with permissions such as "rl", until a time.
func (p *Peer) SAS(t testing.TB, permissions string, until time.Time) string {
	t.Helper()
	expiry := until.UTC().Format("2006-01-02T15:04:05Z")
	fields := []string{permissions, "", expiry, "/blob/" + p.User + "/" + p.Bucket, "", "", "", "2021-12-02", "c", "", "", "", "", "", "", ""}
	key, err := base64.StdEncoding.DecodeString(p.Secret)
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(strings.Join(fields, "\n")))
	return url.Values{
		"sp": {permissions}, "se": {expiry}, "sv": {"2021-12-02"}, "sr": {"c"},
		"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}.Encode()
}
