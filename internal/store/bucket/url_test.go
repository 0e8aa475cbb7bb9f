package bucket_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

func TestParseURL(t *testing.T) {
	clearEnv(t)
	for _, c := range []struct {
		url  string
		want bucket.Config
		name string // empty: it cannot be opened
	}{
		{"s3://symbols", &bucket.S3Config{Bucket: "symbols"}, "s3://symbols"},
		{"S3://symbols/a/b/", &bucket.S3Config{Bucket: "symbols", Prefix: "a/b/"}, "s3://symbols/a/b"},
		{"s3://symbols/a%20b?endpoint=http://minio:9000&region=eu-west-1&style=path&anonymous=true",
			&bucket.S3Config{Bucket: "symbols", Prefix: "a b", Endpoint: "http://minio:9000", Region: "eu-west-1", Style: "path", Auth: "anonymous"},
			"s3://symbols/a%20b?endpoint=http%3A%2F%2Fminio%3A9000"},
		{"s3://symbols?profile=ci&auth=file", &bucket.S3Config{Bucket: "symbols", Profile: "ci", Auth: "file"}, "s3://symbols"},
		{"s3://symbols?style=dns", &bucket.S3Config{Bucket: "symbols", Style: "dns"}, ""},
		{"s3://symbols?auth=password", &bucket.S3Config{Bucket: "symbols", Auth: "password"}, ""},
		{"s3://a", &bucket.S3Config{Bucket: "a"}, ""},
		{"s3://symbols/../x", &bucket.S3Config{Bucket: "symbols", Prefix: "../x"}, ""},
		{"s3://symbols?endpoint=https://host/path", &bucket.S3Config{Bucket: "symbols", Endpoint: "https://host/path"}, ""},
		{"s3://symbols?endpoint=ftp://host", &bucket.S3Config{Bucket: "symbols", Endpoint: "ftp://host"}, ""},
		{"gs://chromium-browser-symsrv/x", &bucket.GCSConfig{Bucket: "chromium-browser-symsrv", Prefix: "x"}, "gs://chromium-browser-symsrv/x"},
		{"gs://b_1.example?endpoint=http://127.0.0.1:4443/&anonymous=false", &bucket.GCSConfig{Bucket: "b_1.example", Endpoint: "http://127.0.0.1:4443/"},
			"gs://b_1.example?endpoint=http%3A%2F%2F127.0.0.1%3A4443"},
		{"az://account1/symbols/p/q", &bucket.AzureConfig{Account: "account1", Container: "symbols", Prefix: "p/q"}, "az://account1/symbols/p/q"},
		{"az://account1", &bucket.AzureConfig{Account: "account1"}, ""},
		{"https://account1.blob.core.windows.net/symbols", &bucket.AzureConfig{Account: "account1", Container: "symbols"}, "az://account1/symbols"},
		{"https://Account1.blob.core.windows.net/symbols/p?sv=2021-12-02&sig=secret%2Bsig",
			&bucket.AzureConfig{Account: "account1", Container: "symbols", Prefix: "p", SAS: "sv=2021-12-02&sig=secret%2Bsig"}, "az://account1/symbols/p"},
		{"https://account1.z01.blob.storage.azure.net/symbols",
			&bucket.AzureConfig{Account: "account1", Container: "symbols", Endpoint: "https://account1.z01.blob.storage.azure.net"},
			"az://account1/symbols?endpoint=https%3A%2F%2Faccount1.z01.blob.storage.azure.net"},
	} {
		got, err := bucket.ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: ParseURL: error %v, want no error", c.url, err)
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf(`%s: Diff: %s, want ""`, c.url, d)
		}
		b, err := got.Open(buckettest.Transport(nil))
		if (err == nil) != (c.name != "") {
			t.Errorf("%s: Open: error %v, want one: %v", c.url, err, c.name == "")
		}
		if err != nil {
			continue
		}
		if b.Name() != c.name {
			t.Errorf("%s is called %s, want %s", c.url, b.Name(), c.name)
		}
		again, err := bucket.ParseURL(b.Name())
		if err != nil {
			t.Errorf("the name %s: %v", b.Name(), err)
			continue
		}
		if b2, err := again.Open(buckettest.Transport(nil)); err != nil || b2.Name() != b.Name() {
			t.Errorf("the name %s does not come back: %v", b.Name(), err)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	for url, other := range map[string]bool{
		"": true, "symbols": true, "/srv/symbols": true, "https://msdl.microsoft.com/download/symbols": true, "http://account1.blob.core.windows.net/c": true,
		"https://blob.core.windows.net.evil.example/c": true, "://": true, "s3:secret": false,
		"s3://AKIA:secret@bucket": false, "https://user:secret@account1.blob.core.windows.net/c": false, "s3://bucket?secret=secret": false,
		"s3://bucket?region=a&region=b": false, "gs://bucket?region=x": false, "az://a/b?sig=secret": false, "s3://bucket#secret": false,
		"s3://bucket?anonymous=secret": false, "s3://bucket?anonymous=1&auth=env": false, "s3://bucket?%zz=secret": false,
	} {
		c, err := bucket.ParseURL(url)
		if err == nil || c != nil {
			t.Errorf("%s gives %v, want an error", url, c)
			continue
		}
		if errors.Is(err, bucket.ErrNotBucket) != other || strings.Contains(err.Error(), "secret") {
			t.Errorf(`%s: got error %v, want errors.Is(err, bucket.ErrNotBucket) %v, not strings.Contains(err.Error(), "secret")`, url, err, other)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"s3://b/p?endpoint=http://h:1&anonymous=1", "gs://bucket/p", "az://account/container/p?auth=sas", "https://account.blob.core.windows.net/c/p?sig=x&se=1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := bucket.ParseURL(s)
		if err != nil {
			return
		}
		if a, ok := c.(*bucket.AzureConfig); ok && a.SAS == "" {
			a.Auth = "anonymous"
		}
		b, err := c.Open(refusing{})
		if err != nil {
			return
		}
		again, err := bucket.ParseURL(b.Name())
		if err != nil {
			t.Fatalf("%q is called %q: %v", s, b.Name(), err)
		}
		if b2, err := again.Open(refusing{}); err == nil && b2.Name() != b.Name() {
			t.Fatalf("%q is called %q and %q, want one name", s, b.Name(), b2.Name())
		}
	})
}
