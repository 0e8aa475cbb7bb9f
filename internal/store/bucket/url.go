package bucket

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Config is a *S3Config, *GCSConfig or *AzureConfig.
type Config interface {
	// Open opens the bucket. It sends no request. See OpenS3, OpenGCS and
	// OpenAzure.
	Open(via http.RoundTripper) (Bucket, error)
	// Hosts returns the hosts of the store and of the services that issue its
	// credentials, some with a port, for a RoundTripper that restricts
	// connections. The operator has configured these hosts, by name or by the
	// choice of credentials; metadata services are included. Hosts of the
	// cloud provider that depend on the region may be missing.
	Hosts() []string
}

// Open is [OpenS3].
func (c *S3Config) Open(via http.RoundTripper) (Bucket, error) { return OpenS3(*c, via) }

// Open is [OpenGCS].
func (c *GCSConfig) Open(via http.RoundTripper) (Bucket, error) { return OpenGCS(*c, via) }

// Open is [OpenAzure].
func (c *AzureConfig) Open(via http.RoundTripper) (Bucket, error) { return OpenAzure(*c, via) }

// ErrNotBucket means that a URL is not the URL of a bucket.
var ErrNotBucket = errors.New("not a bucket URL")

// ParseURL parses the URL of a bucket:
//
//	s3://BUCKET/PREFIX      ?endpoint= region= style= auth= profile= anonymous=
//	gs://BUCKET/PREFIX      ?endpoint= auth= anonymous=
//	az://ACCOUNT/CONTAINER/PREFIX   ?endpoint= auth= anonymous= (or azblob://)
//	https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX   and a shared access signature, if any, as the query
//
// endpoint is the URL of a store that the cloud provider does not run. The first
// three forms must not contain secrets, and no form may contain a user name or
// password. The error wraps ErrNotBucket for any other URL. No error contains the
// URL.
func ParseURL(s string) (Config, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, fmt.Errorf("%w: invalid URL", ErrNotBucket)
	}
	var c Config
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme == "s3" || scheme == "gs" || scheme == "az":
		c, err = parseBucket(scheme, u)
	case scheme == "azblob":
		c, err = parseBucket("az", u)
	case scheme == "https" && hostIn(u, azureHosts...):
		c, err = parseAzureURL(u)
	default:
		return nil, fmt.Errorf("%w: want s3://, gs://, az:// or https://ACCOUNT%s", ErrNotBucket, azureHosts[0])
	}
	if err == nil && (u.User != nil || u.Fragment != "" || u.Opaque != "") {
		err = errors.New("bucket: the URL of a bucket must not have a user name, password or fragment; " +
			"credentials are read from the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and the like)")
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

func parseBucket(scheme string, u *url.URL) (Config, error) {
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("bucket: the query of the bucket URL is invalid")
	}
	known := map[string][]string{
		"s3": {"endpoint", "region", "style", "auth", "profile", "anonymous"},
		"gs": {"endpoint", "auth", "anonymous"},
		"az": {"endpoint", "auth", "anonymous"},
	}[scheme]
	for k, v := range q {
		if !slices.Contains(known, k) || len(v) != 1 {
			return nil, fmt.Errorf("bucket: the query of a %s:// URL may only have %s, each once", scheme, strings.Join(known, ", "))
		}
	}
	auth := q.Get("auth")
	if a := q.Get("anonymous"); a != "" {
		yes, err := strconv.ParseBool(a)
		if err != nil || (auth != "" && yes) {
			return nil, errors.New("bucket: anonymous must be true or false and excludes auth")
		}
		if yes {
			auth = "anonymous"
		}
	}
	path := strings.TrimPrefix(u.Path, "/")
	switch scheme {
	case "s3":
		return &S3Config{Bucket: u.Host, Prefix: path, Endpoint: q.Get("endpoint"), Region: q.Get("region"),
			Style: q.Get("style"), Profile: q.Get("profile"), Auth: auth}, nil
	case "gs":
		return &GCSConfig{Bucket: u.Host, Prefix: path, Endpoint: q.Get("endpoint"), Auth: auth}, nil
	}
	container, prefix, _ := strings.Cut(path, "/")
	return &AzureConfig{Account: u.Host, Container: container, Prefix: prefix, Endpoint: q.Get("endpoint"), Auth: auth}, nil
}

func parseAzureURL(u *url.URL) (Config, error) {
	host := strings.ToLower(u.Host)
	account, _, _ := strings.Cut(host, ".")
	container, prefix, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	c := &AzureConfig{Account: account, Container: container, Prefix: prefix, SAS: u.RawQuery}
	if host != account+azureHosts[0] {
		c.Endpoint = "https://" + host
	}
	return c, nil
}
