package bucket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/jwt"
)

const (
	gcsScope    = "https://www.googleapis.com/auth/devstorage.read_write"
	gcsTokenURI = "https://oauth2.googleapis.com/token"
	gcsMetadata = "http://metadata.google.internal"
)

// keyFile is the key file of the service account. It uses the environment only
// for Google's own endpoints, or if Auth is set.
func (c *GCSConfig) keyFile(ours bool) string {
	if ours || c.Auth != "" {
		return firstOf(c.CredentialsFile, "GOOGLE_APPLICATION_CREDENTIALS", "")
	}
	return c.CredentialsFile
}

func isGoogle(base *url.URL) bool {
	return hostIn(base, "storage.googleapis.com", ".storage.googleapis.com", "www.googleapis.com")
}

// chooseAuth selects the kind of credentials.
func (c *GCSConfig) chooseAuth(base *url.URL) (string, error) {
	return choose(c.Auth, func() string {
		switch ours := isGoogle(base); {
		case c.Token != "" || c.TokenFile != "":
			return "token"
		case c.CredentialsJSON != "" || c.keyFile(ours) != "":
			return "service-account"
		case ours:
			return "metadata"
		}
		return "anonymous"
	}, "token", "service-account", "metadata", "anonymous")
}

// metadata returns the URL of the metadata server.
func (c *GCSConfig) metadata() string {
	if h := os.Getenv("GCE_METADATA_HOST"); h != "" && c.MetadataEndpoint == "" {
		return "http://" + h
	}
	return firstOf(c.MetadataEndpoint, "", gcsMetadata)
}

// Hosts implements [Config].
func (c *GCSConfig) Hosts() []string {
	u, err := parseEndpoint(firstOf(c.Endpoint, "", gcsEndpoint))
	if err != nil {
		return nil
	}
	hosts := []string{u.Host}
	switch auth, _ := c.chooseAuth(u); auth {
	case "metadata":
		hosts = append(hosts, hostOf(c.metadata())...)
	case "service-account":
		if key, err := readServiceKey(c.CredentialsJSON, c.keyFile(isGoogle(u))); err == nil {
			hosts = append(hosts, hostOf(key.TokenURI)...)
		}
	}
	return hosts
}

// gcsAuth returns the source of tokens, or nil for anonymous requests.
func gcsAuth(cfg GCSConfig, base *url.URL, via http.RoundTripper, now func() time.Time) (*tokens, error) {
	auth, err := cfg.chooseAuth(base)
	if err != nil {
		return nil, err
	}
	file := cfg.keyFile(isGoogle(base))
	if cfg.CredentialsVia != nil {
		via = cfg.CredentialsVia
	}
	client := newClient(via, credentialTimeout)
	t := &tokens{now: now}
	switch auth {
	case "anonymous":
		return nil, nil
	case "token":
		t.fetch = fixedToken(cfg.Token)
		if cfg.Token == "" {
			err = need(cfg.TokenFile != "", "auth token needs a token or a token file")
			t.fetch = tokenFile(cfg.TokenFile)
		}
	case "service-account":
		err = need(cfg.CredentialsJSON != "" || file != "", "auth service-account needs the JSON key of the account or a key file")
		t.fetch = serviceAccount(cfg.CredentialsJSON, file, client)
	case "metadata":
		t.fetch, err = metadataToken(cfg.metadata(), client, now)
	}
	return t, err
}

// serviceKey is the key of a service account, as Google issues it.
type serviceKey struct {
	Type         string `json:"type"`
	ClientEmail  string `json:"client_email"`
	PrivateKeyID string `json:"private_key_id"`
	PrivateKey   string `json:"private_key"`
	TokenURI     string `json:"token_uri"`
}

func readServiceKey(text, file string) (serviceKey, error) {
	var key serviceKey
	raw := []byte(text)
	if text == "" {
		var err error
		if raw, err = readSmall(file); err != nil {
			return key, err
		}
	}
	switch err := json.Unmarshal(raw, &key); {
	case err != nil:
		return key, errors.New("the key of the service account is not JSON")
	case key.Type != "service_account":
		return key, fmt.Errorf("credentials of type %q are not supported; use a key of type service_account", cleanCode(key.Type))
	case key.TokenURI == "":
		key.TokenURI = gcsTokenURI
	}
	return key, nil
}

// serviceAccount exchanges an assertion (JWT), signed with the key of the account,
// for a token.
func serviceAccount(text, file string, client *http.Client) func(context.Context) (token, error) {
	return func(ctx context.Context) (token, error) {
		key, err := readServiceKey(text, file)
		if err != nil {
			return token{}, err
		}
		u, err := parseEndpoint(key.TokenURI)
		if err != nil {
			return token{}, errors.New("the token_uri in the key of the service account is not a URL")
		}
		if err := mayCarrySecret(u); err != nil {
			return token{}, err
		}
		cfg := jwt.Config{
			Email: key.ClientEmail, PrivateKey: []byte(key.PrivateKey), PrivateKeyID: key.PrivateKeyID, TokenURL: key.TokenURI,
			Scopes: []string{gcsScope},
		}
		t, err := cfg.TokenSource(context.WithValue(ctx, oauth2.HTTPClient, client)).Token()
		if e := (*oauth2.RetrieveError)(nil); errors.As(err, &e) {
			return token{}, tokenStatus(&http.Request{URL: u}, e.Response.StatusCode, e.ErrorCode)
		}
		if err != nil {
			return token{}, scrub(err)
		}
		return token{value: t.AccessToken, expires: t.Expiry}, nil
	}
}

// metadataToken requests the token of the machine's service account.
func metadataToken(endpoint string, client *http.Client, now func() time.Time) (func(context.Context) (token, error), error) {
	base, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (token, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet,
			base.JoinPath("computeMetadata/v1/instance/service-accounts/default/token").String(), nil)
		if err != nil {
			return token{}, err
		}
		req.Header.Set("Metadata-Flavor", "Google")
		return askToken(client, req, now)
	}, nil
}
