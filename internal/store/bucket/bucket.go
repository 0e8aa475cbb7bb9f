// Package bucket is a client of object stores: S3 and compatible stores, Google
// Cloud Storage and Azure Blob Storage.
//
// All requests, including those for credentials, use the http.RoundTripper that
// is given when a bucket is opened. Proxies and connection timeouts are up to this
// RoundTripper. Redirects are not followed. One call makes one attempt; the
// caller decides about retries.
//
// # Keys
//
// A key is a path below the configured prefix: 1 to 1024 bytes of UTF-8
// (prefix included), without control characters and backslashes and without
// empty, "." and ".." segments, because some stores clean such paths and some
// do not. For any other key, reads return fs.ErrNotExist and Put returns
// fs.ErrInvalid. List yields all keys unchanged, including keys that the other
// methods do not accept.
//
// # Credentials
//
// The field Auth of each configuration selects the kind of credentials. If it is
// empty, the first kind in the store's list below with the required settings is
// used; settings in the configuration take precedence over the environment. The
// kind is selected once, when the bucket is opened, without a request. If it does
// not work later, requests fail with [ErrCredentials]; there is no fallback to
// the next kind. Files with tokens and keys are read again for each new token,
// so they may be rotated.
//
// S3, see [S3Config]:
//
//	keys          AccessKey, SecretKey and SessionToken of the configuration
//	env           AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN
//	web-identity  WebIdentityTokenFile and RoleARN, or AWS_WEB_IDENTITY_TOKEN_FILE and
//	              AWS_ROLE_ARN, exchanged at STSEndpoint (AWS_ENDPOINT_URL_STS, or Amazon's
//	              of the region)
//	file          the profile (AWS_PROFILE, or "default") of CredentialsFile, or of
//	              AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE, or of ~/.aws; keys, SSO
//	              tokens that `aws sso login` stored there, and credential_process, a program
//	              whose connections do not use the RoundTripper
//	role          the role of the container (AWS_CONTAINER_CREDENTIALS_*) or of the machine
//	              (IMDSv2 at 169.254.169.254, or AWS_EC2_METADATA_SERVICE_ENDPOINT)
//	anonymous     requests are not signed
//
// If no other kind has its settings, the default is role for Amazon's own
// endpoints and anonymous for all others. A public bucket at Amazon therefore
// needs Auth "anonymous".
//
// Google Cloud Storage, see [GCSConfig]:
//
//	token            Token, or the file TokenFile: an OAuth access token
//	service-account  the JSON key in CredentialsJSON or CredentialsFile, or in
//	                 GOOGLE_APPLICATION_CREDENTIALS; signs with RS256 and sends requests to the token_uri of the key
//	metadata         the metadata server of the machine (metadata.google.internal, or
//	                 GCE_METADATA_HOST)
//	anonymous        requests have no credentials
//
// Azure Blob Storage, see [AzureConfig]:
//
//	key                the account's key: AccountKey, or AZURE_STORAGE_KEY if
//	                   AZURE_STORAGE_ACCOUNT names the same account
//	sas                a shared access signature: SAS, or AZURE_STORAGE_SAS_TOKEN under the
//	                   same condition
//	token              Token, or the file TokenFile: an OAuth access token
//	workload-identity  TenantID, ClientID and FederatedTokenFile, or AZURE_TENANT_ID,
//	                   AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE, exchanged at
//	                   Authority (AZURE_AUTHORITY_HOST, or login.microsoftonline.com)
//	managed-identity   the metadata service of the machine at 169.254.169.254; ClientID
//	                   selects one of several identities
//	anonymous          requests have no credentials
//
// A bearer token gives full access to the account. If Auth is empty, credentials
// from the environment or a metadata service are therefore sent only to the own
// endpoints of Google and Azure; for any other endpoint, only credentials in the
// configuration are used, or none. Bearer tokens, and signatures in URLs, are not
// sent over plain HTTP, except to this machine. The default for their own
// endpoints is metadata for Google and managed-identity for Azure: a public
// bucket needs Auth "anonymous".
//
// No secret appears in the text of an error or in a name.
package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"net/http"
	"strings"
	"time"
)

// Bucket is a bucket of an object store, or the part of it below a prefix.
// All methods may be called by many goroutines. Their errors are *Error.
//
// In the three stores, every Get, Head and List after a Put sees the new object.
// Compatible stores may be only eventually consistent.
type Bucket interface {
	// Get opens an object at offset off, for n bytes, or to its end if n is
	// negative. If ifMatch is not empty and the object has a different ETag,
	// the error is ErrPrecondition. An offset at or beyond the end is ErrRange,
	// unless off is 0. The context also ends reads of Body.
	Get(ctx context.Context, key string, off, n int64, ifMatch string) (*Object, error)
	// Head describes an object.
	Head(ctx context.Context, key string) (Info, error)
	// Put writes an object of exactly size bytes from r. A reader of a
	// different length is an error. The object appears as a whole or not at
	// all. The Info has no ModTime if the store does not return it.
	Put(ctx context.Context, key string, size int64, r io.Reader, opt PutOptions) (Info, error)
	// Delete removes an object. A missing object is not an error.
	Delete(ctx context.Context, key string) error
	// List yields all objects whose keys begin with prefix, in the order of the
	// store. The prefix need not end at a slash. An error ends the list.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
	// Name is the URL of the bucket without secrets, in a form that [ParseURL]
	// accepts.
	Name() string
	// Close closes idle connections, if the RoundTripper can do that. Bodies
	// that are being read stay readable.
	Close() error
}

// Info describes an object.
type Info struct {
	Key  string // relative to the prefix of the bucket
	Size int64  // size in bytes as stored; -1 if unknown
	// ETag identifies this content of this key, for ifMatch and within one
	// bucket only. It is empty if the store has no reliable one. For Google it
	// is the generation.
	ETag    string
	ModTime time.Time // zero if unknown
	// ContentEncoding is the coding of the stored bytes ("gzip", "zstd", "").
	// They are always returned as stored. S3 listings do not have it.
	ContentEncoding string
}

// Object is an object that is being read.
type Object struct {
	Info
	Offset int64 // of the first byte of Body
	Total  int64 // size of the whole object; -1 if unknown
	// Body has the requested bytes. An interrupted transfer ends with an error,
	// never with io.EOF.
	Body io.ReadCloser
}

// PutOptions are for [Bucket.Put].
type PutOptions struct {
	// IfAbsent creates the object only if it does not exist; otherwise the
	// error is ErrPrecondition. Of many simultaneous attempts one succeeds. (S3
	// may reject the others before the first one has succeeded.)
	IfAbsent        bool
	ContentType     string // empty: application/octet-stream
	ContentEncoding string // of the bytes as given
	// SHA256 is the hash of the content; nil if it is not known. S3 stores
	// reject an object in one part that has another hash, and keep the hash with
	// the object.
	SHA256 []byte

	// at reads the content, if the reader of Put can; otherwise nil. The content
	// may then be read several times: for checksums, and by several requests at
	// once.
	at io.ReaderAt
}

// Errors that an *Error may wrap, besides fs.ErrNotExist, fs.ErrPermission and
// fs.ErrInvalid.
var (
	// ErrNoBucket wraps fs.ErrNotExist. Stores do not always distinguish a
	// missing bucket from a missing object.
	ErrNoBucket error = noBucket{}

	ErrPrecondition = errors.New("precondition failed")
	ErrRange        = errors.New("the offset is beyond the end of the object")
	// ErrThrottled means that the store limits the rate of requests: see
	// Error.Retry.
	ErrThrottled = errors.New("the store limits the request rate")
	// ErrClock means that the store refuses signatures because the clock of this
	// machine differs too much from its own. It wraps fs.ErrPermission.
	ErrClock = fmt.Errorf("the clock of this machine differs too much from the store's: %w", fs.ErrPermission)
	// ErrCredentials means that no credentials could be obtained, so that no
	// request was sent.
	ErrCredentials = errors.New("cannot obtain credentials")
)

// Error is the error of every method of a Bucket.
type Error struct {
	Bucket string // Bucket.Name
	Op     string // "get", "head", "put", "delete", "list", "lifecycle"
	Key    string
	Status int    // of the HTTP response; 0 if there was none
	Code   string // error code of the store; may be empty
	// Retry is the earliest time for the next request; zero if the store did
	// not send it.
	Retry time.Time
	Err   error // for errors.Is
}

// NoBucketAdvice is what to do about ErrNoBucket. Its message ends with it.
const NoBucketAdvice = "create the bucket (Azure: the container), or correct its name or the address of the store"

type noBucket struct{}

func (noBucket) Error() string { return "no such bucket; " + NoBucketAdvice }
func (noBucket) Unwrap() error { return fs.ErrNotExist }

// Error returns the message.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Bucket, e.Op)
	if e.Key != "" {
		fmt.Fprintf(&b, " %q", e.Key)
	}
	fmt.Fprintf(&b, ": %v", e.Err)
	switch {
	case e.Status != 0 && e.Code != "":
		fmt.Fprintf(&b, " (%d %s)", e.Status, e.Code)
	case e.Status != 0:
		fmt.Fprintf(&b, " (%d %s)", e.Status, http.StatusText(e.Status))
	}
	return b.String()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// maxKey is the largest size in bytes of a key that all three stores accept.
const maxKey = 1024

// validKey reports whether a key means the same in every store.
func validKey(key string) bool {
	if key == "" || len(key) > maxKey || !validText(key) || strings.Contains(key, `\`) {
		return false
	}
	for s := range strings.SplitSeq(key, "/") {
		if s == "" || s == "." || s == ".." {
			return false
		}
	}
	return true
}
