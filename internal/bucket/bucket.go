// Package bucket speaks to object stores: S3 and what is compatible with it,
// Google Cloud Storage and Azure Blob Storage.
//
// Nothing here opens a connection of its own. Every request, those for
// credentials included, goes through the http.RoundTripper that a store is
// opened with; redirects are not followed; proxies, time limits on connecting
// and the like are that RoundTripper's business. One call is one attempt:
// repeating it is left to the caller, who alone knows whether it is worth it.
//
// # Keys
//
// A key is a path below the configured prefix: 1 to 1024 bytes of UTF-8
// (prefix included), without control characters and backslashes and without
// empty, "." and ".." segments, because some stores clean such paths and some
// do not. Any other key is absent for reads and refused by Put with fs.ErrInvalid. List
// gives keys as they stand in the store, even such as no other method takes.
//
// # Credentials
//
// Each configuration has a field Auth that says where credentials come from.
// Left empty, the first of its store's list is taken that has something to
// offer, what the configuration holds before what the surroundings do. That is
// judged once, when the store is opened: nothing is tried out, and when the
// choice fails later, the request fails with [ErrCredentials] rather than
// going on to the next. Files with tokens and keys are read again for each
// new token, so they may be rotated.
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
//	              tokens that `aws sso login` left there, and credential_process, which is
//	              run as a program of its own and whose connections are its own affair
//	role          the role of the container (AWS_CONTAINER_CREDENTIALS_*) or of the machine
//	              (IMDSv2 at 169.254.169.254, or AWS_EC2_METADATA_SERVICE_ENDPOINT)
//	anonymous     requests are not signed
//
// Without a word from the operator, role is the last resort for Amazon's own
// endpoints and anonymous for all others. A public bucket at Amazon therefore
// needs Auth "anonymous".
//
// Google Cloud Storage, see [GCSConfig]:
//
//	token            Token, or the file TokenFile: an OAuth access token
//	service-account  the JSON key in CredentialsJSON or CredentialsFile, or in
//	                 GOOGLE_APPLICATION_CREDENTIALS; signs with RS256, asks its token_uri
//	metadata         the metadata server of the machine (metadata.google.internal, or
//	                 GCE_METADATA_HOST)
//	anonymous        nothing is sent
//
// Azure Blob Storage, see [AzureConfig]:
//
//	key                the account's key: AccountKey, or AZURE_STORAGE_KEY if
//	                   AZURE_STORAGE_ACCOUNT names the same account
//	sas                a shared access signature: SAS, or AZURE_STORAGE_SAS_TOKEN likewise
//	token              Token, or the file TokenFile: an OAuth access token
//	workload-identity  TenantID, ClientID and FederatedTokenFile, or AZURE_TENANT_ID,
//	                   AZURE_CLIENT_ID and AZURE_FEDERATED_TOKEN_FILE, exchanged at
//	                   Authority (AZURE_AUTHORITY_HOST, or login.microsoftonline.com)
//	managed-identity   the metadata service of the machine at 169.254.169.254; ClientID
//	                   chooses among several identities
//	anonymous          nothing is sent
//
// A bearer token is as good as the account, so for Google and Azure whatever
// comes from the surroundings (environment, metadata) is only used unasked
// with their own endpoints; with a configured endpoint of somebody else the
// choice falls to what the configuration itself holds, or to anonymous. Tokens
// and signatures in the address are refused over plain HTTP, except to this
// machine. The last resort at their own endpoints is metadata for Google and
// managed-identity for Azure: a public bucket needs Auth "anonymous".
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
// A store answers as it pleases with regard to time: what Put has written is
// there for every later Get, Head and List of the three stores spoken to here,
// but lesser imitations of them may lag.
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
}

// Errors that an *Error may wrap, besides fs.ErrNotExist, fs.ErrPermission and
// fs.ErrInvalid.
var (
	// ErrNoBucket wraps fs.ErrNotExist. Stores do not always distinguish a
	// missing bucket from a missing object.
	ErrNoBucket     = fmt.Errorf("no such bucket: %w", fs.ErrNotExist)
	ErrPrecondition = errors.New("the condition does not hold")
	ErrRange        = errors.New("the offset is beyond the end")
	// ErrThrottled means that the store limits the rate of requests: see
	// Error.Retry.
	ErrThrottled = errors.New("the store asks to be left alone for a while")
	// ErrCredentials means that no credentials could be obtained, so that no
	// request was sent.
	ErrCredentials = errors.New("no credentials")
)

// Error is the error of every method of a Bucket.
type Error struct {
	Bucket string // Bucket.Name
	Op     string // "get", "head", "put", "delete", "list"
	Key    string
	Status int    // of the HTTP response; 0 if there was none
	Code   string // error code of the store; may be empty
	// Retry is the earliest time for the next request; zero if the store did
	// not send it.
	Retry time.Time
	Err   error // for errors.Is
}

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
