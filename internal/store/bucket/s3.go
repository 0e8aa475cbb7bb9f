package bucket

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// S3Config is the address of a bucket of an S3-compatible store and the
// credentials for it.
type S3Config struct {
	Bucket string
	Prefix string // only keys below it are visible; empty: all keys
	// Endpoint is the URL of the store, http or https, without a path. Empty:
	// AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, or Amazon's endpoint of the region.
	Endpoint string
	// Region is the region of the bucket, for the signature. Empty: AWS_REGION,
	// AWS_DEFAULT_REGION, the region in an Amazon endpoint, or us-east-1. It
	// is never requested from the store.
	Region string
	// Style is how requests name the bucket: "path", "virtual" (in the host
	// name), or empty: virtual for Amazon, path for other stores.
	Style string
	// Auth is the kind of credentials: "keys", "env", "web-identity", "file",
	// "role" or "anonymous". Empty: see the package comment.
	Auth                               string
	AccessKey, SecretKey, SessionToken string
	CredentialsFile, Profile           string // for file
	WebIdentityTokenFile, RoleARN      string // for web-identity
	STSEndpoint                        string // for web-identity
	RoleEndpoint                       string // for role: the metadata service
	// CredentialsVia carries the requests for credentials. Nil: the
	// RoundTripper of all other requests.
	CredentialsVia http.RoundTripper
}

const emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

const amazonEndpoint = "https://s3.amazonaws.com"

// s3 uses minio-go to send single requests, without the retries, region lookups
// and buffers of minio-go.
type s3 struct {
	core   s3Core
	bucket string
	now    func() time.Time
	// single is the largest number of bytes in one request, part the smallest
	// number in each of several.
	single, part int64
	// unchecked is set once the store has refused a checksum.
	unchecked atomic.Bool
}

// Without this, minio-go waits after a failure even if retries are disabled.
func init() { minio.DefaultRetryUnit = 0 }

// OpenS3 opens a bucket of an S3-compatible store. It sends no request.
func OpenS3(cfg S3Config, via http.RoundTripper) (Bucket, error) {
	f, err := openS3(cfg, via)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func openS3(cfg S3Config, via http.RoundTripper) (*front, error) {
	if via == nil {
		return nil, errNoTransport
	}
	if err := s3utils.CheckValidBucketName(cfg.Bucket); err != nil {
		return nil, fmt.Errorf("bucket: invalid bucket name %q: %w", cfg.Bucket, err)
	}
	prefix, err := cleanPrefix(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	cfg.Endpoint = cfg.Store()
	name := "s3://" + cfg.Bucket + strings.TrimSuffix("/"+escapeKey(prefix, "/"), "/")
	if cfg.Endpoint == "" {
		cfg.Endpoint = amazonEndpoint
	} else {
		name += "?endpoint=" + url.QueryEscape(strings.TrimRight(cfg.Endpoint, "/"))
	}
	endpoint, err := parseEndpoint(cfg.Endpoint)
	if err == nil && endpoint.Path != "" {
		err = errors.New("bucket: the endpoint of an S3 store must not have a path")
	}
	if err != nil {
		return nil, err
	}
	lookup, ok := map[string]minio.BucketLookupType{
		"": minio.BucketLookupAuto, "path": minio.BucketLookupPath, "virtual": minio.BucketLookupDNS,
	}[cfg.Style]
	if !ok {
		return nil, fmt.Errorf("bucket: unknown style %q; use path or virtual", cfg.Style)
	}
	cfg.Region = s3Region(cfg.Region, endpoint)
	creds, err := s3Credentials(cfg, endpoint, via)
	if err != nil {
		return nil, err
	}
	core, err := newS3Core(endpoint.Host, &minio.Options{
		Creds: creds, Secure: endpoint.Scheme == "https", Transport: recorder{roundTripper{via}},
		Region: cfg.Region, BucketLookup: lookup, MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("bucket: endpoint %s://%s: %w", endpoint.Scheme, endpoint.Host, err)
	}
	return newFront(&s3{core: core, bucket: cfg.Bucket, now: time.Now, single: 64 << 20, part: 64 << 20}, name, prefix, via), nil
}

// Store returns the URL of the store: Endpoint, or that of the environment. Empty:
// Amazon's endpoint of the region.
func (c *S3Config) Store() string {
	return cmp.Or(c.Endpoint, os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"))
}

func s3Region(region string, endpoint *url.URL) string {
	for _, r := range []string{region, os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), s3utils.GetRegionFromURL(*endpoint)} {
		if r != "" {
			return r
		}
	}
	return "us-east-1"
}

// seen has the parts of a response that minio-go does not return.
type seen struct {
	status        int
	retry, region string
}

type seenKey struct{}

// recorder records them, and limits the size of listing pages and configurations.
type recorder struct{ next http.RoundTripper }

func (w recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	s, _ := req.Context().Value(seenKey{}).(*seen)
	if s != nil {
		*s = seen{}
	}
	resp, err := w.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if s != nil {
		*s = seen{status: resp.StatusCode, retry: resp.Header.Get("Retry-After"), region: resp.Header.Get("X-Amz-Bucket-Region")}
	}
	if req.Method != http.MethodGet || strings.Contains(req.URL.RawQuery, "list-type=") || strings.Contains(req.URL.RawQuery, "lifecycle=") {
		resp.Body = limited{io.LimitReader(resp.Body, maxPage), resp.Body}
	}
	return resp, err
}

func watch(ctx context.Context) (context.Context, *seen) {
	s := &seen{}
	return context.WithValue(ctx, seenKey{}, s), s
}

// fail converts an error of minio-go.
func (b *s3) fail(err error, s *seen) error {
	var answer minio.ErrorResponse
	if err == nil || s.status == 0 || !errors.As(err, &answer) {
		return err
	}
	e := failure(s.status, answer.Code, s.retry, b.now())
	switch answer.Code {
	case minio.NoSuchBucket, "InvalidBucketName":
		e.Err = ErrNoBucket
	case "KeyTooLongError":
		e.Err = fs.ErrNotExist
	case "SlowDown", "SlowDownRead", "SlowDownWrite", "Throttling", "ThrottlingException",
		"RequestLimitExceeded", "RequestThrottled", "TooManyRequests":
		e.Err, e.Retry = ErrThrottled, retryTime(s.retry, b.now())
	case "RequestTimeTooSkewed":
		e.Err = ErrClock
	case "ConditionalRequestConflict", minio.PreconditionFailed:
		e.Err = ErrPrecondition
	case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "XAdminUserNotFound": // the last is versitygw's, with 404
		e.Err = fs.ErrPermission
	case "PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed",
		"IllegalLocationConstraintException", "301 Moved Permanently":
		region := answer.Region
		if region == "" {
			region = s.region
		}
		if region = cleanCode(region); region != "" {
			e.Err = fmt.Errorf("the bucket is in region %s; configure this region", region)
		}
	}
	return e
}

func (b *s3) get(ctx context.Context, key, rng, ifMatch string) (*reply, error) {
	ctx, s := watch(ctx)
	var opts minio.GetObjectOptions
	if rng != "" {
		opts.Set("Range", rng)
	}
	if ifMatch != "" {
		opts.Set("If-Match", `"`+ifMatch+`"`)
	}
	body, o, header, err := b.core.GetObject(ctx, b.bucket, key, opts)
	if err != nil {
		return nil, b.fail(err, s)
	}
	return &reply{status: s.status, header: header, info: s3Info(o), body: body}, nil
}

func s3Info(o minio.ObjectInfo) Info {
	return Info{Key: o.Key, Size: o.Size, ETag: etag(o.ETag), ModTime: o.LastModified, ContentEncoding: plainEncoding(o.ContentEncoding)}
}

// plainEncoding removes the coding of signed uploads, which some stores mistake
// for one of the content.
func plainEncoding(s string) string {
	s, _ = strings.CutPrefix(s, "aws-chunked")
	return strings.TrimLeft(s, ", ")
}

func (b *s3) head(ctx context.Context, key string) (Info, error) {
	ctx, s := watch(ctx)
	o, err := b.core.StatObject(ctx, b.bucket, key, minio.StatObjectOptions{})
	if err != nil {
		return Info{}, b.fail(err, s)
	}
	return s3Info(o), nil
}

func (b *s3) put(ctx context.Context, key string, size int64, r io.Reader, opt PutOptions) (Info, error) {
	ctx, s := watch(ctx)
	opts := minio.PutObjectOptions{ContentType: opt.ContentType, ContentEncoding: opt.ContentEncoding}
	if size > b.single {
		etag, err := b.putParts(ctx, key, size, r, opts, opt)
		return Info{ETag: etag}, b.fail(err, s)
	}
	if opt.IfAbsent {
		opts.SetMatchETagExcept("*")
	}
	hash := hex.EncodeToString(opt.SHA256)
	if hash != "" {
		// The hash of the payload is part of the signature, in place of a signature
		// for each chunk.
		opts.DisableContentSha256 = true
		if !b.unchecked.Load() {
			opts.UserMetadata = map[string]string{checksumHeader: base64.StdEncoding.EncodeToString(opt.SHA256)}
		}
	}
	if size == 0 {
		// With a chunked signature, the empty body would be sent as one chunk.
		// Some stores do not read this chunk and parse it as the next request
		// on the connection.
		opts.DisableContentSha256, hash = true, emptySHA256
	}
	u, err := b.core.PutObject(ctx, b.bucket, key, r, size, "", hash, opts)
	if err != nil && opts.UserMetadata != nil && opt.at != nil && s.status == http.StatusNotImplemented {
		b.unchecked.Store(true)
		opts.UserMetadata = nil
		u, err = b.core.PutObject(ctx, b.bucket, key, io.NewSectionReader(opt.at, 0, size), size, "", hash, opts)
	}
	if err != nil {
		return Info{}, b.fail(err, s)
	}
	return Info{ETag: etag(u.ETag)}, nil
}

// checksumHeader is the header of a hash that the store checks and keeps with the
// object, or with the part of one.
const checksumHeader = "X-Amz-Checksum-Sha256"

// putParts writes in several requests, each streamed. The
// upload function of minio-go would buffer every part and omit the condition from
// the request that completes the upload.
func (b *s3) putParts(
	ctx context.Context, key string, size int64, r io.Reader, opts minio.PutObjectOptions, opt PutOptions,
) (tag string, err error) {
	const maxParts = 10000
	part := max(b.part, (size+maxParts-1)/maxParts)
	checked := opt.at != nil && !b.unchecked.Load()
	if checked {
		opts.UserMetadata = map[string]string{"X-Amz-Checksum-Algorithm": "SHA256"}
	}
	id, err := b.core.NewMultipartUpload(ctx, b.bucket, key, opts)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			abort, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), seenKey{}, nil), 30*time.Second)
			defer cancel()
			_ = b.core.AbortMultipartUpload(abort, b.bucket, key, id)
		}
	}()
	parts := make([]minio.CompletePart, (size+part-1)/part)
	if err = inParts(ctx, size, part, r, opt.at, func(ctx context.Context, i int, n int64, body io.Reader) (err error) {
		ctx, s := watch(ctx)
		parts[i], err = b.putPart(ctx, key, id, i+1, body, n, checked)
		return b.fail(err, s)
	}); err != nil {
		return "", err
	}
	var complete minio.PutObjectOptions
	if opt.IfAbsent {
		complete.SetMatchETagExcept("*")
	}
	u, err := b.core.CompleteMultipartUpload(ctx, b.bucket, key, id, parts, complete)
	return etag(u.ETag), err
}

// putPart writes one part. A body that is an io.ReaderAt is hashed first.
func (b *s3) putPart(ctx context.Context, key, id string, number int, body io.Reader, n int64, checked bool) (minio.CompletePart, error) {
	var opts minio.PutObjectPartOptions
	var sum string
	if at, ok := body.(io.ReaderAt); ok {
		h := sha256.New()
		if err := hashAt(h, at, n); err != nil {
			return minio.CompletePart{}, err
		}
		opts.Sha256Hex, opts.DisableContentSha256 = hex.EncodeToString(h.Sum(nil)), true
		if checked {
			sum = base64.StdEncoding.EncodeToString(h.Sum(nil))
			opts.CustomHeader = http.Header{checksumHeader: {sum}}
		}
	}
	p, err := b.core.PutObjectPart(ctx, b.bucket, key, id, number, body, n, opts)
	return minio.CompletePart{PartNumber: number, ETag: p.ETag, ChecksumSHA256: sum}, err
}

func (b *s3) removeMany(ctx context.Context, keys []string) ([]error, error) {
	ctx, s := watch(ctx)
	errs, index := make([]error, len(keys)), make(map[string]int, len(keys))
	for i, k := range keys {
		errs[i], index[k] = errors.New("the store did not say whether it removed the object"), i
	}
	results, err := b.core.RemoveObjectsWithIter(ctx, b.bucket, func(yield func(minio.ObjectInfo) bool) {
		for _, k := range keys {
			if !yield(minio.ObjectInfo{Key: k}) {
				return
			}
		}
	}, minio.RemoveObjectsOptions{})
	if err != nil {
		return nil, err
	}
	for r := range results {
		i, ok := index[r.ObjectName]
		if !ok {
			continue
		}
		errs[i] = b.fail(r.Err, s)
		switch e, _ := errors.AsType[*Error](errs[i]); {
		case r.Err == nil, e == nil:
		case e.Status == http.StatusNotImplemented || e.Status == http.StatusMethodNotAllowed:
			return nil, errNoBulk
		case e.Code == "NoSuchKey":
			errs[i] = nil
		case e.Code == "AccessDenied":
			e.Err = fs.ErrPermission
		}
	}
	return errs, nil
}

func (b *s3) remove(ctx context.Context, key string) error {
	ctx, s := watch(ctx)
	return b.fail(b.core.RemoveObject(ctx, b.bucket, key, minio.RemoveObjectOptions{}), s)
}

func (b *s3) list(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		ctx, s := watch(ctx)
		owner := false
		for o := range b.core.ListObjectsIter(ctx, b.bucket,
			minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: pageKeys, FetchOwner: &owner}) {
			if o.Err != nil {
				yield(Info{}, b.fail(o.Err, s))
				return
			}
			if !yield(s3Info(o), nil) {
				return
			}
		}
	}
}
