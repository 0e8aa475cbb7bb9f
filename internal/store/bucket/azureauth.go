package bucket

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// azureAuth adds credentials to a request. If refused is not nil, it is called
// when the store rejects them.
type azureAuth func(*http.Request) (refused func(), err error)

const (
	azureAuthority = "https://login.microsoftonline.com"
	azureMetadata  = "http://169.254.169.254"
	azureResource  = "https://storage.azure.com/"
)

// chooseAuth selects the kind of credentials. It fills empty fields from the
// environment if the environment variables are for this account.
func (c *AzureConfig) chooseAuth(base *url.URL) (auth string, err error) {
	ours := hostIn(base, azureHosts...)
	if os.Getenv("AZURE_STORAGE_ACCOUNT") == c.Account && (ours || c.Auth != "") {
		if c.Auth == "key" || c.Auth == "" {
			c.AccountKey = firstOf(c.AccountKey, "AZURE_STORAGE_KEY", "")
		}
		if c.Auth == "sas" || c.Auth == "" {
			c.SAS = firstOf(c.SAS, "AZURE_STORAGE_SAS_TOKEN", "")
		}
	}
	configured := c.FederatedTokenFile != ""
	c.FederatedTokenFile = firstOf(c.FederatedTokenFile, "AZURE_FEDERATED_TOKEN_FILE", "")
	c.TenantID = firstOf(c.TenantID, "AZURE_TENANT_ID", "")
	c.Authority = firstOf(c.Authority, "AZURE_AUTHORITY_HOST", azureAuthority)
	c.MetadataEndpoint = firstOf(c.MetadataEndpoint, "", azureMetadata)
	return choose(c.Auth, func() string {
		switch {
		case c.AccountKey != "":
			return "key"
		case c.SAS != "":
			return "sas"
		case c.Token != "" || c.TokenFile != "":
			return "token"
		case configured, ours && c.FederatedTokenFile != "":
			return "workload-identity"
		case ours:
			return "managed-identity"
		}
		return "anonymous"
	}, "key", "sas", "token", "workload-identity", "managed-identity", "anonymous")
}

// Hosts implements [Config].
func (c *AzureConfig) Hosts() []string {
	filled := *c
	u, err := parseEndpoint(firstOf(c.Endpoint, "", "https://"+c.Account+azureHosts[0]))
	if err != nil {
		return nil
	}
	hosts := []string{u.Host}
	switch auth, _ := filled.chooseAuth(u); auth {
	case "workload-identity":
		hosts = append(hosts, hostOf(filled.Authority)...)
	case "managed-identity":
		hosts = append(hosts, hostOf(filled.MetadataEndpoint)...)
	}
	return hosts
}

// chooseAzureAuth selects the source of credentials.
func chooseAzureAuth(cfg AzureConfig, base *url.URL, via http.RoundTripper, now func() time.Time) (azureAuth, error) {
	auth, err := cfg.chooseAuth(base)
	if err != nil {
		return nil, err
	}
	switch auth {
	case "anonymous":
		return func(*http.Request) (func(), error) { return nil, nil }, nil
	case "key":
		return sharedKey(cfg.Account, cfg.AccountKey)
	}
	if err := mayCarrySecret(base); err != nil {
		return nil, err
	}
	if auth == "sas" {
		return sas(cfg.SAS)
	}
	t := &tokens{now: now}
	if t.fetch, err = azureTokens(auth, cfg, via, now); err != nil {
		return nil, err
	}
	return func(req *http.Request) (func(), error) {
		v, err := t.get(req.Context())
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", wire.Bearer+" "+v)
		return func() { t.drop(v) }, nil
	}, nil
}

func azureTokens(auth string, cfg AzureConfig, via http.RoundTripper, now func() time.Time) (func(context.Context) (token, error), error) {
	if cfg.CredentialsVia != nil {
		via = cfg.CredentialsVia
	}
	client := newClient(via, credentialTimeout)
	switch {
	case auth == "token" && cfg.Token != "":
		return fixedToken(cfg.Token), nil
	case auth == "token":
		return tokenFile(cfg.TokenFile), need(cfg.TokenFile != "", "auth token needs a token or a token file")
	case auth == "workload-identity":
		return workloadIdentity(cfg, client, now)
	}
	return managedIdentity(cfg, client, now)
}

// sas adds a shared access signature to the URL.
func sas(s string) (azureAuth, error) {
	s = strings.TrimPrefix(strings.TrimSpace(s), "?")
	if q, err := url.ParseQuery(s); err != nil || q.Get("sig") == "" || !validHeader(s) || strings.ContainsAny(s, " #") {
		return nil, errors.New("bucket: the shared access signature is invalid or has no sig= parameter")
	}
	return func(req *http.Request) (func(), error) {
		if req.URL.RawQuery != "" {
			req.URL.RawQuery += "&"
		}
		req.URL.RawQuery += s
		return nil, nil
	}, nil
}

// sharedKey signs requests with the key of the account.
func sharedKey(account, key string) (azureAuth, error) {
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	if err != nil || len(secret) == 0 {
		return nil, errors.New("bucket: auth key needs the account key in base64")
	}
	return func(req *http.Request) (func(), error) {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(stringToSign(account, req)))
		req.Header.Set("Authorization", "SharedKey "+account+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		return nil, nil
	}, nil
}

// stringToSign returns the text that a Shared Key signature covers (Azure
// Storage, authorize with Shared Key, versions since 2015-02-21). Header values
// are used as sent, the path as escaped.
func stringToSign(account string, req *http.Request) string {
	var b strings.Builder
	length := ""
	if req.ContentLength > 0 {
		length = strconv.FormatInt(req.ContentLength, 10)
	}
	h := req.Header
	for _, v := range []string{req.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), length,
		h.Get("Content-MD5"), h.Get("Content-Type"), h.Get("Date"), h.Get("If-Modified-Since"),
		h.Get("If-Match"), h.Get("If-None-Match"), h.Get("If-Unmodified-Since"), h.Get("Range")} {
		b.WriteString(v + "\n")
	}
	var names []string
	for k := range h {
		if k = strings.ToLower(k); strings.HasPrefix(k, "x-ms-") {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	for _, k := range names {
		b.WriteString(k + ":" + h.Get(k) + "\n")
	}
	b.WriteString("/" + account + req.URL.EscapedPath())
	query := req.URL.Query()
	params := make([]string, 0, len(query))
	for k, v := range query {
		slices.Sort(v)
		params = append(params, "\n"+strings.ToLower(k)+":"+strings.Join(v, ","))
	}
	slices.Sort(params)
	return b.String() + strings.Join(params, "")
}

// workloadIdentity exchanges the federated token of this process, which the
// cluster issued, for an access token of the tenant.
func workloadIdentity(cfg AzureConfig, client *http.Client, now func() time.Time) (func(context.Context) (token, error), error) {
	clientID := firstOf(cfg.ClientID, "AZURE_CLIENT_ID", "")
	if err := need(cfg.TenantID != "" && clientID != "" && cfg.FederatedTokenFile != "",
		"auth workload-identity needs a tenant id, a client id and a federated token file"); err != nil {
		return nil, err
	}
	base, err := parseEndpoint(cfg.Authority)
	if err == nil {
		err = mayCarrySecret(base)
	}
	if err != nil {
		return nil, fmt.Errorf("authority URL: %w", err)
	}
	address := base.JoinPath(url.PathEscape(cfg.TenantID), "oauth2/v2.0/token").String()
	return func(ctx context.Context) (token, error) {
		assertion, err := readSmall(cfg.FederatedTokenFile)
		if err != nil {
			return token{}, err
		}
		form := url.Values{
			"grant_type":            {"client_credentials"},
			"client_id":             {clientID},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			"client_assertion":      {strings.TrimSpace(string(assertion))},
			"scope":                 {azureResource + ".default"},
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
		if err != nil {
			return token{}, err
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return askToken(client, req, now)
	}, nil
}

// managedIdentity requests a token for the managed identity of the machine.
func managedIdentity(cfg AzureConfig, client *http.Client, now func() time.Time) (func(context.Context) (token, error), error) {
	base, err := parseEndpoint(cfg.MetadataEndpoint)
	if err != nil {
		return nil, err
	}
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {azureResource}}
	if cfg.ClientID != "" {
		query.Set("client_id", cfg.ClientID)
	}
	u := base.JoinPath("metadata/identity/oauth2/token")
	u.RawQuery = query.Encode()
	return func(ctx context.Context) (token, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
		if err != nil {
			return token{}, err
		}
		req.Header.Set("Metadata", "true")
		return askToken(client, req, now)
	}, nil
}
