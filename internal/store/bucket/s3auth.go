package bucket

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/symdepot/symdepot/internal/base/glob"
)

// chooseAuth selects the kind of credentials.
func (c *S3Config) chooseAuth(endpoint *url.URL) (string, error) {
	return choose(c.Auth, func() string {
		switch {
		case c.AccessKey != "" || c.SecretKey != "":
			return "keys"
		case c.WebIdentityTokenFile != "":
			return "web-identity"
		case c.CredentialsFile != "" || c.Profile != "":
			return "file"
		case os.Getenv("AWS_ACCESS_KEY_ID") != "":
			return "env"
		case os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "":
			return "web-identity"
		case sharedFiles():
			return "file"
		case s3utils.IsAmazonEndpoint(*endpoint):
			return "role"
		}
		return "anonymous"
	}, "keys", "env", "web-identity", "file", "role", "anonymous")
}

// Hosts implements [Config].
func (c *S3Config) Hosts() []string {
	endpoint := firstOf(c.Store(), "", amazonEndpoint)
	u, err := parseEndpoint(endpoint)
	if err != nil {
		return nil
	}
	hosts := []string{u.Host, c.Bucket + "." + u.Host}
	switch auth, _ := c.chooseAuth(u); auth {
	case "web-identity":
		hosts = append(hosts, hostOf(c.sts(s3Region(c.Region, u)))...)
	case "role":
		hosts = append(hosts, hostOf(c.RoleEndpoint, os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
			os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"), credentials.DefaultIAMRoleEndpoint, credentials.DefaultECSRoleEndpoint)...)
	}
	return hosts
}

// s3Credentials returns the credentials, or nil for unsigned requests.
func s3Credentials(cfg S3Config, endpoint *url.URL, via http.RoundTripper) (*credentials.Credentials, error) {
	auth, err := cfg.chooseAuth(endpoint)
	if err != nil {
		return nil, err
	}
	tokenFile := firstOf(cfg.WebIdentityTokenFile, "AWS_WEB_IDENTITY_TOKEN_FILE", "")
	var p credentials.Provider
	switch auth {
	case "anonymous":
		return nil, nil
	case "keys":
		err = need(cfg.AccessKey != "" && cfg.SecretKey != "", "auth keys needs both the access key and the secret key")
		p = &credentials.Static{Value: credentials.Value{AccessKeyID: cfg.AccessKey, SecretAccessKey: cfg.SecretKey,
			SessionToken: cfg.SessionToken, SignerType: credentials.SignatureV4}}
	case "env":
		err = need(os.Getenv("AWS_ACCESS_KEY_ID") != "" && os.Getenv("AWS_SECRET_ACCESS_KEY") != "",
			"auth env needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
		p = &credentials.EnvAWS{}
	case "web-identity":
		sts := cfg.sts(cfg.Region)
		if err = need(tokenFile != "", "auth web-identity needs a token file"); err == nil {
			err = checkSTS(sts)
		}
		p = &credentials.STSWebIdentity{
			STSEndpoint: sts,
			RoleARN:     firstOf(cfg.RoleARN, "AWS_ROLE_ARN", ""),
			GetWebIDTokenExpiry: func() (*credentials.WebIdentityToken, error) {
				b, err := readSmall(tokenFile)
				return &credentials.WebIdentityToken{Token: strings.TrimSpace(string(b))}, err
			},
		}
	case "file":
		p = &credentials.FileAWSCredentials{Filename: cfg.CredentialsFile, Profile: cfg.Profile}
	case "role":
		p, err = machineRole(cfg)
	}
	if err != nil {
		return nil, err
	}
	if cfg.CredentialsVia != nil {
		via = cfg.CredentialsVia
	}
	client := newClient(via, credentialTimeout)
	return credentials.New(&minioProvider{Provider: p, client: client}), nil
}

// sharedFiles reports whether the credential files of Amazon's tools exist.
func sharedFiles() bool {
	names := []string{os.Getenv("AWS_SHARED_CREDENTIALS_FILE"), os.Getenv("AWS_CONFIG_FILE")}
	if home, err := os.UserHomeDir(); err == nil {
		if names[0] == "" {
			names[0] = filepath.Join(home, ".aws", "credentials")
		}
		if names[1] == "" {
			names[1] = filepath.Join(home, ".aws", "config")
		}
	}
	for _, name := range names {
		if name == "" {
			continue
		}
		if fi, err := os.Stat(name); err == nil && fi.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// sts returns the URL of the token exchange.
func (c *S3Config) sts(region string) string {
	amazon := "https://sts." + region + ".amazonaws.com"
	if strings.HasPrefix(region, "cn-") {
		amazon += ".cn"
	}
	return firstOf(c.STSEndpoint, "AWS_ENDPOINT_URL_STS", amazon)
}

// checkSTS refuses a URL to which the token of the cluster would be sent unencrypted.
func checkSTS(endpoint string) error {
	u, err := parseEndpoint(endpoint)
	if err == nil {
		err = mayCarrySecret(u)
	}
	if err != nil {
		return fmt.Errorf("token exchange (AWS_ENDPOINT_URL_STS): %w", err)
	}
	return nil
}

// machineRole returns the credentials of the role of the container or machine.
func machineRole(cfg S3Config) (credentials.Provider, error) {
	if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" { // minio-go would prefer it
		return nil, errors.New("bucket: auth role cannot be used while AWS_WEB_IDENTITY_TOKEN_FILE is set; unset it or use auth web-identity")
	}
	p := &credentials.IAM{Endpoint: cfg.RoleEndpoint}
	full := os.Getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI")
	switch {
	case p.Endpoint != "" || os.Getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "":
	case full != "" && os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") == "":
		// minio-go would resolve the host without the RoundTripper to check
		// that it is a loopback address.
		u, err := url.Parse(full)
		if err != nil || !glob.IsLoopback(u.Hostname()) {
			return nil, errors.New("bucket: AWS_CONTAINER_CREDENTIALS_FULL_URI must name a loopback address unless " +
				"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE is set")
		}
		p.Endpoint = full
	case full == "":
		p.Endpoint = os.Getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT")
	}
	return p, nil
}

// minioProvider makes a provider of minio-go use our client and return an error if the
// credentials are empty: minio-go would send unsigned requests.
type minioProvider struct {
	credentials.Provider
	client *http.Client
}

func (c *minioProvider) RetrieveWithCredContext(cc *credentials.CredContext) (credentials.Value, error) {
	ours := &credentials.CredContext{Client: c.client, Endpoint: cc.Endpoint, Context: cc.Context}
	if ours.Context == nil {
		ours.Context = context.Background()
	}
	var cancel context.CancelFunc
	ours.Context, cancel = context.WithTimeout(ours.Context, credentialTimeout)
	defer cancel()
	v, err := c.Provider.RetrieveWithCredContext(ours)
	if answer := (credentials.ErrorResponse{}); errors.As(err, &answer) {
		err = fmt.Errorf("the token service returned the error %s", cleanCode(answer.STSError.Code))
	}
	if err == nil && (v.AccessKeyID == "" || v.SecretAccessKey == "") {
		err = errors.New("the credential provider returned empty credentials")
	}
	if err != nil {
		return credentials.Value{}, fmt.Errorf("%w: %w", ErrCredentials, scrub(err))
	}
	return v, nil
}

func (c *minioProvider) Retrieve() (credentials.Value, error) {
	return c.RetrieveWithCredContext(&credentials.CredContext{})
}
