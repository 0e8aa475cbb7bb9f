package bucket_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
)

// serve runs a handler on loopback.
func serve(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func write(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// works writes and reads through cfg.
func works(t *testing.T, cfg bucket.Config) *tape {
	t.Helper()
	via := &tape{next: buckettest.Transport(nil)}
	b := open(t, cfg, via)
	if _, err := b.Put(t.Context(), "auth/"+t.Name(), 5, strings.NewReader("hello"), bucket.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	o, err := b.Get(t.Context(), "auth/"+t.Name(), 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	if data, err := io.ReadAll(o.Body); string(data) != "hello" || err != nil {
		t.Fatalf(`got %q, error %v; want "hello"`, data, err)
	}
	return via
}

// fails checks that all methods return want and that no error contains a secret.
func fails(t *testing.T, cfg bucket.Config, want error, secrets ...string) {
	t.Helper()
	b := open(t, cfg, buckettest.Transport(nil))
	_, err1 := b.Head(t.Context(), "k")
	_, err2 := b.Get(t.Context(), "k", 0, -1, "")
	_, err3 := b.Put(t.Context(), "k", 1, strings.NewReader("x"), bucket.PutOptions{})
	for _, err := range []error{err1, err2, err3} {
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
		for _, s := range secrets {
			if err != nil && strings.Contains(err.Error(), s) {
				t.Errorf("a secret in %q, want none", err)
			}
		}
	}
}

func TestS3Credentials(t *testing.T) {
	clearEnv(t)
	p := buckettest.S3(t)
	base := func() *bucket.S3Config { return &bucket.S3Config{Bucket: p.Bucket, Endpoint: p.Endpoint} }
	keys := fmt.Sprintf("[default]\naws_access_key_id = %[1]s\naws_secret_access_key = nothing\n[ci]\naws_access_key_id = %[1]s\naws_secret_access_key = %[2]s\n", p.User, p.Secret)

	t.Run("keys", func(t *testing.T) { works(t, s3Config(p)) })
	t.Run("env", func(t *testing.T) {
		t.Setenv("AWS_ACCESS_KEY_ID", p.User)
		t.Setenv("AWS_SECRET_ACCESS_KEY", p.Secret)
		works(t, base())
		cfg := base()
		cfg.Auth = "anonymous"
		fails(t, cfg, fs.ErrPermission)
	})
	t.Run("file", func(t *testing.T) {
		cfg := base()
		cfg.CredentialsFile, cfg.Profile = write(t, keys), "ci"
		works(t, cfg)
		cfg.Profile = ""
		fails(t, cfg, fs.ErrPermission, "nothing")
		cfg.Profile = "absent"
		fails(t, cfg, bucket.ErrCredentials)
		cfg.CredentialsFile = "/does/not/exist"
		fails(t, cfg, bucket.ErrCredentials)
	})
	t.Run("shared file", func(t *testing.T) {
		t.Setenv("AWS_SHARED_CREDENTIALS_FILE", write(t, keys))
		t.Setenv("AWS_PROFILE", "ci")
		works(t, base())
	})
	t.Run("web identity", func(t *testing.T) {
		sts := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("Action") != "AssumeRoleWithWebIdentity" || r.FormValue("WebIdentityToken") != "cluster-token" || r.FormValue("RoleArn") != "arn:aws:iam::1:role/symbols" {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Code>InvalidIdentityToken</Code><Message>cluster-wrong</Message></Error></ErrorResponse>`)
				return
			}
			_, _ = fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
				p.User, p.Secret, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		})
		t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", write(t, "cluster-token\n"))
		t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/symbols")
		t.Setenv("AWS_ENDPOINT_URL_STS", sts)
		via := works(t, base())
		if n := strings.Count(strings.Join(via.all(), "\n"), sts); n != 1 {
			t.Errorf("the token was exchanged %d times: %q, want 1", n, via.all())
		}
		cfg := base()
		cfg.WebIdentityTokenFile = write(t, "cluster-wrong")
		fails(t, cfg, bucket.ErrCredentials, "cluster-wrong")
	})
	t.Run("role", func(t *testing.T) {
		imds := serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
				_, _ = io.WriteString(w, "session-of-imds")
			case r.Header.Get("X-aws-ec2-metadata-token") != "session-of-imds":
				w.WriteHeader(http.StatusUnauthorized)
			case strings.HasSuffix(r.URL.Path, "/security-credentials/"):
				_, _ = io.WriteString(w, "symbols-role")
			default:
				_, _ = fmt.Fprintf(w, `{"Code":"Success","AccessKeyId":%q,"SecretAccessKey":%q,"Expiration":%q}`, p.User, p.Secret, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
			}
		})
		cfg := base()
		cfg.Auth, cfg.RoleEndpoint = "role", imds
		works(t, cfg)
		cfg.RoleEndpoint = serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		fails(t, cfg, bucket.ErrCredentials)
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://metadata.example/creds")
		cfg.RoleEndpoint = ""
		if _, err := cfg.Open(refusing{}); err == nil {
			t.Error("a container's address elsewhere without a token file is taken")
		}
	})
	t.Run("session token", func(t *testing.T) {
		var token atomic.Value
		cfg := s3Config(&buckettest.Peer{Bucket: "symbols", User: "u", Secret: "s", Endpoint: serve(t, func(w http.ResponseWriter, r *http.Request) {
			token.Store(r.Header.Get("X-Amz-Security-Token"))
			w.WriteHeader(http.StatusForbidden)
		})})
		cfg.SessionToken = "session-token"
		fails(t, cfg, fs.ErrPermission, "session-token")
		if token.Load() != "session-token" {
			t.Errorf("sent %q, want %q", token.Load(), "session-token")
		}
	})
}

// TestS3LastResort: the default is the role of the machine for Amazon, and anonymous
// for other stores.
func TestS3LastResort(t *testing.T) {
	clearEnv(t)
	via := &tape{next: refusing{}}
	_, err := open(t, &bucket.S3Config{Bucket: "symbols", Region: "eu-west-1"}, via).Head(t.Context(), "k")
	if !errors.Is(err, bucket.ErrCredentials) || len(via.all()) == 0 || !strings.Contains(via.all()[0], "http://169.254.169.254/") {
		t.Errorf(`Head("k"): error %v, %q; want bucket.ErrCredentials, length not 0, via.all()[0] with "http://169.254.169.254/"`, err, via.all())
	}
	for _, cfg := range []*bucket.S3Config{{Bucket: "symbols", Endpoint: "https://store.example"}, {Bucket: "symbols", Auth: "anonymous"}, {Bucket: "symbols", Auth: "anonymous", Region: "cn-north-1"}} {
		via := &tape{next: refusing{}}
		if _, err := open(t, cfg, via).Head(t.Context(), "k"); errors.Is(err, bucket.ErrCredentials) || len(via.all()) != 1 {
			t.Errorf(`Head("k"): error %v, %q; want not bucket.ErrCredentials, length 1`, err, via.all())
		}
	}
}

func TestGCSCredentials(t *testing.T) {
	clearEnv(t)
	p := buckettest.GCS(t)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	var address string
	address = serve(t, func(w http.ResponseWriter, r *http.Request) {
		if err := checkAssertion(r.FormValue("assertion"), &key.PublicKey, address); err != nil || r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
			t.Errorf("assertion: %v; want a signed one and the grant type jwt-bearer", err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":3600,"token_type":"Bearer"}`, p.Secret)
	})
	account, _ := json.Marshal(map[string]string{"type": "service_account", "client_email": "symdepot@project.iam", "private_key_id": "k1", "private_key": private, "token_uri": address})
	base := func() *bucket.GCSConfig { return &bucket.GCSConfig{Bucket: p.Bucket, Endpoint: p.Endpoint} }

	t.Run("service account", func(t *testing.T) {
		cfg := base()
		cfg.CredentialsJSON = string(account)
		via := works(t, cfg)
		if n := strings.Count(strings.Join(via.all(), "\n"), address); n != 1 {
			t.Errorf("%d tokens for two requests, want 1", n)
		}
		cfg = base()
		cfg.CredentialsFile = write(t, string(account))
		works(t, cfg)
		// The key from the environment is used for other endpoints only if auth is set.
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", cfg.CredentialsFile)
		fails(t, base(), fs.ErrPermission)
		cfg = base()
		cfg.Auth = "service-account"
		works(t, cfg)
	})
	t.Run("broken keys", func(t *testing.T) {
		for _, text := range []string{"SECRET", `{"type":"authorized_user","refresh_token":"SECRET"}`, `{"type":"service_account","private_key":"SECRET"}`,
			`{"type":"service_account","token_uri":"http://user:SECRET@host/"}`, strings.Replace(string(account), address, "http://far.example", 1)} {
			cfg := base()
			cfg.CredentialsJSON = text
			fails(t, cfg, bucket.ErrCredentials, "SECRET")
		}
	})
	t.Run("metadata", func(t *testing.T) {
		cfg := base()
		cfg.Auth = "metadata"
		cfg.MetadataEndpoint = serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token" || r.Header.Get("Metadata-Flavor") != "Google" {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"expires_in":1800}`, p.Secret)
		})
		works(t, cfg)
		for _, answer := range []string{`{}`, `[]`, `SECRET`, `{"access_token":"SECRET\r\nx: y"}`, `{"access_token":"a","expires_in":"SECRET"}`} {
			cfg.MetadataEndpoint = serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
			fails(t, cfg, bucket.ErrCredentials, "SECRET")
		}
	})
	t.Run("token file", func(t *testing.T) {
		cfg := base()
		cfg.TokenFile = write(t, p.Secret+"\n")
		works(t, cfg)
	})
	t.Run("anonymous", func(t *testing.T) { fails(t, base(), fs.ErrPermission) })
}

// checkAssertion verifies a signed statement the way the token service does.
func checkAssertion(s string, key *rsa.PublicKey, audience string) error {
	parts := strings.Split(s, ".")
	if len(parts) != 3 {
		return errors.New("not three parts")
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], sig); err != nil {
		return err
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claims struct{ Iss, Scope, Aud string }
	if err := json.Unmarshal(raw, &claims); err != nil {
		return err
	}
	if claims.Iss != "symdepot@project.iam" || claims.Aud != audience || !strings.Contains(claims.Scope, "devstorage") {
		return fmt.Errorf("claims %+v", claims)
	}
	return nil
}

func TestAzureSAS(t *testing.T) {
	clearEnv(t)
	p := buckettest.Azure(t)
	sign := func(permissions string) string { return p.SAS(t, permissions, time.Now().Add(time.Hour)) }
	cfg := &bucket.AzureConfig{Account: p.User, Container: p.Bucket, Endpoint: p.Endpoint, SAS: "?" + sign("racwdl")}
	works(t, cfg)
	b := open(t, cfg, buckettest.Transport(nil))
	for _, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Error(err)
		}
	}
	read, _ := url.ParseQuery(sign("r"))
	sig := read.Get("sig")
	cfg.SAS = read.Encode()
	b = open(t, cfg, buckettest.Transport(nil))
	_, err := b.Put(t.Context(), "k", 1, strings.NewReader("x"), bucket.PutOptions{})
	if !errors.Is(err, fs.ErrPermission) || strings.Contains(err.Error(), sig) {
		t.Error(err)
	}
	// A connection error does not contain the signature either.
	b = open(t, cfg, refusing{})
	_, err = b.Head(t.Context(), "k")
	for _, s := range []string{sig, url.QueryEscape(sig), "sig="} {
		if err == nil || strings.Contains(err.Error(), s) || strings.Contains(b.Name(), s) {
			t.Errorf("got error %v, %s; want an error, not strings.Contains(err.Error(), s), not strings.Contains(b.Name(), s)", err, b.Name())
		}
	}
	for _, bad := range []string{"sv=1", "sig=a b", "sig=a\r\nx: y", "sig=%zz"} {
		cfg.SAS = bad
		if _, err := cfg.Open(refusing{}); err == nil || strings.Contains(err.Error(), bad) {
			t.Errorf("%q: Open: error %v, want an error, not strings.Contains(err.Error(), bad)", bad, err)
		}
	}
}

func TestAzureCredentials(t *testing.T) {
	clearEnv(t)
	store := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer directory-token" || r.Header.Get("X-Ms-Version") == "":
			w.Header().Set("X-Ms-Error-Code", "NoAuthenticationInformation")
			w.WriteHeader(http.StatusUnauthorized)
		case r.Method == http.MethodPut:
			w.WriteHeader(http.StatusCreated)
		default:
			_, _ = io.WriteString(w, "hello")
		}
	})
	base := func() *bucket.AzureConfig {
		return &bucket.AzureConfig{Account: "account1", Container: "symbols", Endpoint: store}
	}
	t.Run("workload identity", func(t *testing.T) {
		authority := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/tenant-1/oauth2/v2.0/token" || r.FormValue("client_id") != "client-1" || r.FormValue("client_assertion") != "SECRET-federated" ||
				r.FormValue("scope") != "https://storage.azure.com/.default" || r.FormValue("grant_type") != "client_credentials" {
				w.WriteHeader(http.StatusUnauthorized)
				_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"SECRET-wrong"}`)
				return
			}
			_, _ = io.WriteString(w, `{"access_token":"directory-token","expires_in":3599,"token_type":"Bearer"}`)
		})
		t.Setenv("AZURE_TENANT_ID", "tenant-1")
		t.Setenv("AZURE_CLIENT_ID", "client-1")
		t.Setenv("AZURE_AUTHORITY_HOST", authority+"/")
		t.Setenv("AZURE_FEDERATED_TOKEN_FILE", write(t, "SECRET-federated\n"))
		cfg := base()
		cfg.Auth = "workload-identity"
		works(t, cfg)
		if got := cfg.Hosts(); len(got) != 2 || "http://"+got[1] != authority {
			t.Errorf("hosts %q; want two, the second %s", got, authority)
		}
		fails(t, base(), fs.ErrPermission) // used for other endpoints only if auth is set
		cfg = base()
		cfg.FederatedTokenFile = write(t, "SECRET-wrong")
		fails(t, cfg, bucket.ErrCredentials, "SECRET")
		cfg.FederatedTokenFile = "/does/not/exist"
		fails(t, cfg, bucket.ErrCredentials)
	})
	t.Run("managed identity", func(t *testing.T) {
		cfg := base()
		cfg.Auth, cfg.ClientID = "managed-identity", "client 2"
		cfg.MetadataEndpoint = serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metadata/identity/oauth2/token" || r.Header.Get("Metadata") != "true" || r.FormValue("client_id") != "client 2" || r.FormValue("resource") != "https://storage.azure.com/" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			_, _ = io.WriteString(w, `{"access_token":"directory-token","expires_in":"86400"}`)
		})
		works(t, cfg)
	})
	t.Run("environment", func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_ACCOUNT", "account1")
		t.Setenv("AZURE_STORAGE_KEY", "bm8gcmVhbCBrZXk=")
		var sent atomic.Value
		via := rewrite{t, func(r *http.Request) { sent.Store(r.Header.Get("Authorization")) }}
		for account, want := range map[string]string{"account1": "SharedKey account1:", "account2": ""} {
			cfg := &bucket.AzureConfig{Account: account, Container: "symbols"}
			if account == "account2" {
				cfg.Auth = "anonymous"
			}
			_, _ = open(t, cfg, via).Head(t.Context(), "k")
			if s, _ := sent.Load().(string); !strings.HasPrefix(s, want) || (want == "" && s != "") {
				t.Errorf("%s: sent %q; want it to begin with %q", account, s, want)
			}
		}
	})
	t.Run("key", func(t *testing.T) {
		cfg := base()
		cfg.AccountKey = "not base64: SECRET"
		if _, err := cfg.Open(refusing{}); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Error(err)
		}
	})
}

// rewrite passes requests to a check and responds with 404.
type rewrite struct {
	t    testing.TB
	look func(*http.Request)
}

func (w rewrite) RoundTrip(r *http.Request) (*http.Response, error) {
	w.look(r)
	return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// TestSecretsNotInTheClear: tokens and signed URLs are not sent over plain HTTP.
func TestSecretsNotInTheClear(t *testing.T) {
	clearEnv(t)
	for _, cfg := range []bucket.Config{
		&bucket.GCSConfig{Bucket: "symbols", Endpoint: "http://store.example", Token: "SECRET"},
		&bucket.AzureConfig{Account: "account1", Container: "symbols", Endpoint: "http://store.example", Token: "SECRET"},
		&bucket.AzureConfig{Account: "account1", Container: "symbols", Endpoint: "http://192.0.2.1/account1", SAS: "sig=SECRET"},
		&bucket.AzureConfig{Account: "account1", Container: "symbols", Authority: "http://login.example", TenantID: "t", ClientID: "c", FederatedTokenFile: "/var/run/token"},
		&bucket.S3Config{Bucket: "symbols", STSEndpoint: "http://sts.example", RoleARN: "arn:aws:iam::1:role/symbols", WebIdentityTokenFile: "/var/run/token"},
	} {
		if _, err := cfg.Open(refusing{}); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf(`%T: Open: error %v, want an error, not strings.Contains(err.Error(), "SECRET")`, cfg, err)
		}
		if _, err := cfg.Open(nil); err == nil {
			t.Errorf("%T opens without a RoundTripper, want an error", cfg)
		}
	}
	for _, cfg := range []bucket.Config{
		&bucket.S3Config{Bucket: "symbols", Endpoint: "http://store.example", AccessKey: "a", SecretKey: "b"},
		&bucket.AzureConfig{Account: "account1", Container: "symbols", Endpoint: "http://store.example", AccountKey: "a2V5"},
	} {
		if _, err := cfg.Open(refusing{}); err != nil {
			t.Errorf("%T: Open: error %v, want no error", cfg, err)
		}
	}
}
