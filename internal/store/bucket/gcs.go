package bucket

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// GCSConfig is the address of a bucket of Google Cloud Storage and the
// credentials for it.
type GCSConfig struct {
	Bucket string
	Prefix string // only keys below it are visible; empty: all keys
	// Endpoint is the URL of the store. Empty: https://storage.googleapis.com.
	Endpoint string
	// Auth is the kind of credentials: "token", "service-account", "metadata"
	// or "anonymous". Empty: see the package comment.
	Auth            string
	Token           string // an OAuth access token
	TokenFile       string // a file with a token, read once a minute
	CredentialsJSON string // the key of a service account
	CredentialsFile string // a file with such a key
	// MetadataEndpoint is the metadata server of the machine. Empty:
	// GCE_METADATA_HOST, or else http://metadata.google.internal.
	MetadataEndpoint string
	// CredentialsVia carries the requests for tokens. Nil: the RoundTripper of
	// all other requests.
	CredentialsVia http.RoundTripper
}

const gcsEndpoint = "https://storage.googleapis.com"

// gcs uses the JSON API of Google Cloud Storage.
type gcs struct {
	base   *url.URL
	bucket string
	client *http.Client
	auth   *tokens // nil: anonymous
	now    func() time.Time
}

// OpenGCS opens a bucket of Google Cloud Storage. It sends no request.
func OpenGCS(cfg GCSConfig, via http.RoundTripper) (Bucket, error) {
	f, err := openGCS(cfg, via, time.Now)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func openGCS(cfg GCSConfig, via http.RoundTripper, now func() time.Time) (*front, error) {
	if via == nil {
		return nil, errNoTransport
	}
	if !gcsBucketName(cfg.Bucket) {
		return nil, fmt.Errorf("bucket: invalid bucket name %q", cfg.Bucket)
	}
	prefix, err := cleanPrefix(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	base, name, err := locate("gs://"+cfg.Bucket, prefix, cfg.Endpoint, gcsEndpoint)
	if err != nil {
		return nil, err
	}
	g := &gcs{base: base, bucket: cfg.Bucket, now: now, client: newClient(via, 0)}
	if g.auth, err = gcsAuth(cfg, base, via, now); err != nil {
		return nil, err
	}
	if g.auth != nil {
		if err := mayCarrySecret(base); err != nil {
			return nil, err
		}
	}
	return newFront(g, name, prefix, via), nil
}

// gcsBucketName reports whether s is a valid name of a bucket.
func gcsBucketName(s string) bool {
	return len(s) >= 3 && len(s) <= 222 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == "" &&
		!strings.Contains(s, "..") && s[0] != '.' && s[len(s)-1] != '.'
}

// do sends a request for the bucket or, if key is not empty, for that object.
func (g *gcs) do(
	ctx context.Context, method, root, key string, query url.Values, body io.Reader, prepare func(*http.Request),
) (*http.Response, error) {
	path := g.base.Path + root + "/b/" + g.bucket + "/o"
	u := *g.base
	u.Path, u.RawPath = path, path
	if key != "" {
		u.Path, u.RawPath = path+"/"+key, path+"/"+escapeKey(key, "")
	}
	u.RawQuery = query.Encode()
	return g.send(ctx, method, &u, body, prepare)
}

// send sends a request with the credentials.
func (g *gcs) send(ctx context.Context, method string, u *url.URL, body io.Reader, prepare func(*http.Request)) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, errors.New("cannot build a request URL from the endpoint and the key")
	}
	if prepare != nil {
		prepare(req)
	}
	var token string
	if g.auth != nil {
		if token, err = g.auth.get(ctx); err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", wire.Bearer+" "+token)
	}
	refused := func() {
		if g.auth != nil {
			g.auth.drop(token)
		}
	}
	return exchange(g.client, req, refused, func(resp *http.Response) error {
		return failure(resp.StatusCode, gcsCode(resp.Body), resp.Header.Get("Retry-After"), g.now())
	})
}

// gcsCode returns the reason in an error response.
func gcsCode(body io.Reader) string {
	var answer struct {
		Error struct {
			Errors []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(body, maxErrorBody)).Decode(&answer) != nil || len(answer.Error.Errors) == 0 {
		return ""
	}
	return answer.Error.Errors[0].Reason
}

const gcsRoot, gcsUpload = "/storage/v1", "/upload/storage/v1"

func (g *gcs) get(ctx context.Context, key, rng, ifMatch string) (*reply, error) {
	query := url.Values{"alt": {"media"}}
	if ifMatch != "" {
		if _, err := strconv.ParseInt(ifMatch, 10, 64); err != nil {
			return nil, ErrPrecondition // no generation
		}
		query.Set("ifGenerationMatch", ifMatch)
	}
	resp, err := g.do(ctx, http.MethodGet, gcsRoot, key, query, nil, func(req *http.Request) {
		// Without this header the store decompresses objects that were stored
		// compressed.
		req.Header.Set("Accept-Encoding", "gzip")
		if rng != "" {
			req.Header.Set("Range", rng)
		}
	})
	if err != nil {
		return nil, err
	}
	h := resp.Header
	encoding, stored := h.Get("Content-Encoding"), h.Get("X-Goog-Stored-Content-Encoding")
	if stored == "identity" {
		stored = ""
	}
	if stored != encoding && h.Get("X-Goog-Stored-Content-Encoding") != "" {
		resp.Body.Close()
		return nil, &Error{
			Status: resp.StatusCode,
			Err:    fmt.Errorf("the store sent the content with coding %q but stores it with coding %q", encoding, stored),
		}
	}
	return &reply{status: resp.StatusCode, header: h, body: resp.Body, info: Info{
		Key: key, Size: resp.ContentLength, ETag: h.Get("X-Goog-Generation"),
		ModTime: httpTime(h.Get("Last-Modified")), ContentEncoding: encoding,
	}}, nil
}

// gcsObject is the store's description of an object.
type gcsObject struct {
	Name            string    `json:"name"`
	Size            string    `json:"size"`
	Generation      string    `json:"generation"`
	Updated         time.Time `json:"updated"`
	ContentEncoding string    `json:"contentEncoding"`
	CRC32C          string    `json:"crc32c"` // base64 of the big-endian value; only put asks for it
}

const gcsFields = "name,size,generation,updated,contentEncoding"

func (o *gcsObject) info() Info {
	return Info{Key: o.Name, Size: parseSize(o.Size), ETag: o.Generation, ModTime: o.Updated, ContentEncoding: o.ContentEncoding}
}

// ask sends a request and parses the JSON response.
func (g *gcs) ask(
	ctx context.Context, method, root, key string, query url.Values, body io.Reader, prepare func(*http.Request), into any,
) error {
	resp, err := g.do(ctx, method, root, key, query, body, prepare)
	if err != nil {
		return err
	}
	defer closeBody(resp)
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPage)).Decode(into); err != nil {
		return unexpected(resp, err)
	}
	return nil
}

func (g *gcs) head(ctx context.Context, key string) (Info, error) {
	var o gcsObject
	if err := g.ask(ctx, http.MethodGet, gcsRoot, key, url.Values{"fields": {gcsFields}}, nil, nil, &o); err != nil {
		return Info{}, err
	}
	return o.info(), nil
}

func (g *gcs) put(ctx context.Context, key string, size int64, r io.Reader, opt PutOptions) (Info, error) {
	query := url.Values{"uploadType": {"media"}, "name": {key}, "fields": {gcsFields + ",crc32c"}}
	if opt.ContentEncoding != "" {
		query.Set("contentEncoding", opt.ContentEncoding)
	}
	if opt.IfAbsent {
		query.Set("ifGenerationMatch", "0")
	}
	var o gcsObject
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	err := g.ask(ctx, http.MethodPost, gcsUpload, "", query, io.TeeReader(r, sum), func(req *http.Request) {
		if req.ContentLength = size; size == 0 {
			req.Body = http.NoBody
		}
		req.Header.Set("Content-Type", opt.ContentType)
	}, &o)
	if err != nil {
		return Info{}, bucketError(err)
	}
	info := o.info()
	if info.Size != size {
		return Info{}, &Error{Err: fmt.Errorf("the store wrote %d of %d bytes", info.Size, size)}
	}
	if sent := base64.StdEncoding.EncodeToString(sum.Sum(nil)); o.CRC32C != "" && o.CRC32C != sent {
		return Info{}, &Error{Err: fmt.Errorf("the store wrote bytes with CRC-32C %q instead of %s", o.CRC32C, sent)}
	}
	return info, nil
}

func (g *gcs) remove(ctx context.Context, key string) error {
	resp, err := g.do(ctx, http.MethodDelete, gcsRoot, key, nil, nil, nil)
	if err == nil {
		closeBody(resp)
	}
	return err
}

func (g *gcs) list(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	query := url.Values{"maxResults": {strconv.Itoa(pageKeys)}, "fields": {"nextPageToken,items(" + gcsFields + ")"}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return pages(query, "pageToken", func(query url.Values) (list []Info, next string, err error) {
		var page struct {
			Items         []gcsObject `json:"items"`
			NextPageToken string      `json:"nextPageToken"`
		}
		if err := g.ask(ctx, http.MethodGet, gcsRoot, "", query, nil, nil, &page); err != nil {
			return nil, "", bucketError(err)
		}
		for i := range page.Items {
			list = append(list, page.Items[i].info())
		}
		return list, page.NextPageToken, nil
	})
}
