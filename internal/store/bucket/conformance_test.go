package bucket_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// clearEnv removes the environment variables that select credentials.
func clearEnv(t testing.TB) {
	t.Helper()
	for _, k := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "AWS_ENDPOINT_URL_STS",
		"GOOGLE_APPLICATION_CREDENTIALS", "GCE_METADATA_HOST", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN",
		"AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST",
	} {
		t.Setenv(k, "")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	t.Setenv("AWS_CONFIG_FILE", home+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", home+"/none")
}

func open(t testing.TB, cfg bucket.Config, via http.RoundTripper) bucket.Bucket {
	t.Helper()
	b, err := cfg.Open(via)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func s3Config(p *buckettest.Peer) *bucket.S3Config {
	return &bucket.S3Config{Bucket: p.Bucket, Endpoint: p.Endpoint, AccessKey: p.User, SecretKey: p.Secret}
}

func TestS3(t *testing.T) {
	clearEnv(t)
	p := buckettest.S3(t)
	store := func(style string, single int64) buckettest.Store {
		return buckettest.Store{Secrets: []string{p.Secret, "wrong-secret"}, Open: func(t testing.TB, want buckettest.Want, via http.RoundTripper) bucket.Bucket {
			cfg := s3Config(p)
			cfg.Style, cfg.Prefix = style, want.Prefix
			if style == "virtual" {
				cfg.Endpoint = strings.Replace(p.Endpoint, "127.0.0.1", p.Host, 1)
			}
			if want.NoBucket {
				cfg.Bucket = "nowhere"
			}
			if want.BadCredentials {
				cfg.SecretKey = "wrong-secret"
			}
			b := open(t, cfg, via)
			if single > 0 {
				cfg.Prefix += "/parts"
				bucket.SetSingle(b, single)
			}
			return b
		}}
	}
	t.Run("path", func(t *testing.T) { buckettest.Run(t, store("path", 0)) })
	t.Run("virtual", func(t *testing.T) { buckettest.RunShort(t, store("virtual", 0)) })
	t.Run("parts", func(t *testing.T) { buckettest.RunShort(t, store("", 5<<20)) })
}

func TestGCS(t *testing.T) {
	clearEnv(t)
	p := buckettest.GCS(t)
	buckettest.Run(t, buckettest.Store{Secrets: []string{p.Secret, "ya29.bad"}, Open: func(t testing.TB, want buckettest.Want, via http.RoundTripper) bucket.Bucket {
		cfg := &bucket.GCSConfig{Bucket: p.Bucket, Endpoint: p.Endpoint, Token: p.Secret, Prefix: want.Prefix}
		if want.NoBucket {
			cfg.Bucket = "nowhere"
		}
		if want.BadCredentials {
			cfg.Token = "ya29.bad"
		}
		return open(t, cfg, via)
	}})
}

func TestAzure(t *testing.T) {
	clearEnv(t)
	p := buckettest.Azure(t)
	const wrong = "d3Jvbmcga2V5IHdyb25nIGtleQ=="
	store := func(single int64) buckettest.Store {
		return buckettest.Store{Secrets: []string{p.Secret, wrong}, Open: func(t testing.TB, want buckettest.Want, via http.RoundTripper) bucket.Bucket {
			cfg := &bucket.AzureConfig{Account: p.User, Container: p.Bucket, Endpoint: p.Endpoint, AccountKey: p.Secret, Prefix: want.Prefix}
			if want.NoBucket {
				cfg.Container = "nowhere"
			}
			if want.BadCredentials {
				cfg.AccountKey = wrong
			}
			b := open(t, cfg, via)
			if single > 0 {
				bucket.SetSingle(b, single)
			}
			return b
		}}
	}
	t.Run("single", func(t *testing.T) { buckettest.Run(t, store(0)) })
	t.Run("blocks", func(t *testing.T) { buckettest.RunShort(t, store(1<<20)) })
}
