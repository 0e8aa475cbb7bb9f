package bucket

import (
	"context"
	"crypto/md5" //nolint:gosec // the only checksum that the store checks
	"crypto/rand"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// AzureConfig is the address of a container of Azure Blob Storage and the
// credentials for it.
type AzureConfig struct {
	Account   string
	Container string
	Prefix    string // only keys below it are visible; empty: all keys
	// Endpoint is the URL of the account. Empty:
	// https://ACCOUNT.blob.core.windows.net. If the path of the URL selects the
	// account, it must include the account: http://127.0.0.1:10000/ACCOUNT.
	Endpoint string
	// Auth is the kind of credentials: "key", "sas", "token",
	// "workload-identity", "managed-identity" or "anonymous". Empty: see the
	// package comment.
	Auth       string
	AccountKey string // base64
	SAS        string // the query of a shared access signature, as issued
	Token      string // an OAuth access token
	TokenFile  string // a file with a token, read once a minute
	// For workload-identity. Empty fields are read from the environment.
	TenantID, FederatedTokenFile, Authority string
	ClientID                                string // also for managed-identity
	// MetadataEndpoint is the metadata service of the machine. Empty:
	// http://169.254.169.254.
	MetadataEndpoint string
	// CredentialsVia carries the requests for tokens. Nil: the RoundTripper of
	// all other requests.
	CredentialsVia http.RoundTripper
}

// azureVersion pins the version of the service, on which the meaning of
// requests depends.
const azureVersion = "2021-12-02"

// azure uses the REST API of Azure Blob Storage.
type azure struct {
	base      *url.URL // of the container
	client    *http.Client
	authorize azureAuth
	now       func() time.Time
	// single is the largest number of bytes in one request, block the smallest
	// number in each of several.
	single, block int64
}

// OpenAzure opens a container of Azure Blob Storage. It sends no request.
func OpenAzure(cfg AzureConfig, via http.RoundTripper) (Bucket, error) {
	f, err := openAzure(cfg, via, time.Now)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func openAzure(cfg AzureConfig, via http.RoundTripper, now func() time.Time) (*front, error) {
	if via == nil {
		return nil, errNoTransport
	}
	if !azureAccountName(cfg.Account) || !azureContainerName(cfg.Container) {
		return nil, fmt.Errorf("bucket: invalid account name %q or container name %q", cfg.Account, cfg.Container)
	}
	prefix, err := cleanPrefix(cfg.Prefix)
	if err != nil {
		return nil, err
	}
	base, name, err := locate("az://"+cfg.Account+"/"+cfg.Container, prefix, cfg.Endpoint, "https://"+cfg.Account+azureHosts[0])
	if err != nil {
		return nil, err
	}
	a := &azure{now: now, single: 256 << 20, block: 64 << 20, client: newClient(via, 0)}
	if a.authorize, err = chooseAzureAuth(cfg, base, via, now); err != nil {
		return nil, err
	}
	a.base = base.JoinPath(cfg.Container)
	return newFront(a, name, prefix, via), nil
}

// azureHosts are the host suffixes of the public and the national clouds.
var azureHosts = []string{
	".blob.core.windows.net", ".blob.storage.azure.net", ".blob.core.usgovcloudapi.net", ".blob.core.chinacloudapi.cn",
}

func azureAccountName(s string) bool {
	return len(s) >= 3 && len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func azureContainerName(s string) bool {
	return s == "$root" || s == "$web" || azureAccountName(s)
}

// do sends a request for the container or, if key is not empty, for that blob.
func (a *azure) do(
	ctx context.Context, method, key string, query url.Values, body io.Reader, size int64, header http.Header,
) (*http.Response, error) {
	u := *a.base
	if key != "" {
		u.RawPath = u.EscapedPath() + "/" + escapeKey(key, "/")
		u.Path += "/" + key
	}
	u.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	if size == 0 && body != nil {
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, errors.New("cannot build a request URL from the endpoint and the key")
	}
	req.ContentLength = size
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("X-Ms-Version", azureVersion)
	req.Header.Set("X-Ms-Date", a.now().UTC().Format(http.TimeFormat))
	refused, err := a.authorize(req)
	if err != nil {
		return nil, err
	}
	return exchange(a.client, req, refused, func(resp *http.Response) error {
		e := failure(resp.StatusCode, resp.Header.Get("X-Ms-Error-Code"), resp.Header.Get("Retry-After"), a.now())
		switch e.Code {
		case "ContainerNotFound", "ContainerBeingDeleted":
			e.Err = ErrNoBucket
		case "BlobAlreadyExists":
			e.Err = ErrPrecondition
		}
		return e
	})
}

func (a *azure) get(ctx context.Context, key, rng, ifMatch string) (*reply, error) {
	header := http.Header{}
	if rng != "" {
		header.Set("Range", rng)
	}
	if ifMatch != "" {
		header.Set("If-Match", `"`+ifMatch+`"`)
	}
	resp, err := a.do(ctx, http.MethodGet, key, nil, nil, 0, header) //nolint:bodyclose // the reader of the reply closes it
	if err != nil {
		return nil, err
	}
	return &reply{status: resp.StatusCode, header: resp.Header, body: resp.Body, info: azureInfo(key, resp)}, nil
}

func azureInfo(key string, resp *http.Response) Info {
	h := resp.Header
	return Info{Key: key, Size: resp.ContentLength, ETag: etag(h.Get("ETag")),
		ModTime: httpTime(h.Get("Last-Modified")), ContentEncoding: h.Get("Content-Encoding")}
}

func (a *azure) head(ctx context.Context, key string) (Info, error) {
	resp, err := a.do(ctx, http.MethodHead, key, nil, nil, 0, nil)
	if err != nil {
		return Info{}, err
	}
	closeBody(resp)
	return azureInfo(key, resp), nil
}

func (a *azure) put(ctx context.Context, key string, size int64, r io.Reader, opt PutOptions) (Info, error) {
	header := http.Header{"X-Ms-Blob-Content-Type": {opt.ContentType}}
	if opt.ContentEncoding != "" {
		header.Set("X-Ms-Blob-Content-Encoding", opt.ContentEncoding)
	}
	if opt.IfAbsent {
		header.Set("If-None-Match", "*")
	}
	if size > a.single {
		return a.putBlocks(ctx, key, size, r, opt.at, header)
	}
	header.Set("X-Ms-Blob-Type", "BlockBlob")
	if opt.at != nil {
		sum, err := md5At(opt.at, size)
		if err != nil {
			return Info{}, err
		}
		header.Set("Content-Md5", sum) // checked, and kept with the blob
	}
	return a.write(ctx, key, nil, r, size, header)
}

// write sends the request that creates a blob.
func (a *azure) write(ctx context.Context, key string, query url.Values, body io.Reader, size int64, header http.Header) (Info, error) {
	resp, err := a.do(ctx, http.MethodPut, key, query, body, size, header)
	if err != nil {
		return Info{}, bucketError(err)
	}
	closeBody(resp)
	return Info{ETag: etag(resp.Header.Get("ETag")), ModTime: httpTime(resp.Header.Get("Last-Modified"))}, nil
}

// maxBlocks is the largest number of blocks of a blob.
const maxBlocks = 50000

// putBlocks writes a blob in several requests. After a week the store deletes
// blocks that no block list refers to.
func (a *azure) putBlocks(ctx context.Context, key string, size int64, r io.Reader, at io.ReaderAt, header http.Header) (Info, error) {
	block := max(a.block, (size+maxBlocks-1)/maxBlocks)
	// Two writers of one key must not use each other's blocks.
	session := rand.Text()
	blockID := func(i int) string {
		return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%05d", session, i))
	}
	if err := inParts(ctx, size, block, r, at, func(ctx context.Context, i int, n int64, body io.Reader) error {
		header := http.Header{}
		if at, ok := body.(io.ReaderAt); ok {
			sum, err := md5At(at, n)
			if err != nil {
				return err
			}
			header.Set("Content-Md5", sum)
		}
		resp, err := a.do(ctx, http.MethodPut, key, url.Values{"comp": {"block"}, "blockid": {blockID(i)}}, body, n, header)
		if err == nil {
			closeBody(resp)
		}
		return err
	}); err != nil {
		return Info{}, bucketError(err)
	}
	var list strings.Builder
	list.WriteString(xml.Header + "<BlockList>")
	for i := range int((size + block - 1) / block) {
		list.WriteString("<Latest>" + blockID(i) + "</Latest>")
	}
	list.WriteString("</BlockList>")
	return a.write(ctx, key, url.Values{"comp": {"blocklist"}}, strings.NewReader(list.String()), int64(list.Len()), header)
}

// md5At returns the MD5 of the first n bytes of a content in the form of the
// header Content-MD5.
func md5At(at io.ReaderAt, n int64) (string, error) {
	h := md5.New() //nolint:gosec // a checksum of the transfer
	if err := hashAt(h, at, n); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

func (a *azure) remove(ctx context.Context, key string) error {
	// Without this header, snapshots of the blob would prevent its deletion.
	resp, err := a.do(ctx, http.MethodDelete, key, nil, nil, 0, http.Header{"X-Ms-Delete-Snapshots": {"include"}})
	if err == nil {
		closeBody(resp)
	}
	return err
}

// azurePage is a page of a listing.
type azurePage struct {
	Blobs []struct {
		Name struct {
			Text    string `xml:",chardata"`
			Encoded bool   `xml:"Encoded,attr"` // percent-encoded, where XML cannot hold it
		} `xml:"Name"`
		Properties struct {
			Size     string `xml:"Content-Length"`
			ETag     string `xml:"Etag"`
			Modified string `xml:"Last-Modified"`
			Encoding string `xml:"Content-Encoding"`
		} `xml:"Properties"`
	} `xml:"Blobs>Blob"`
	NextMarker string `xml:"NextMarker"`
}

func (a *azure) list(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	query := url.Values{"restype": {"container"}, "comp": {"list"}, "maxresults": {strconv.Itoa(pageKeys)}}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	return pages(query, "marker", func(query url.Values) (list []Info, next string, err error) {
		page, err := a.page(ctx, query)
		if err != nil {
			return nil, "", err
		}
		for _, b := range page.Blobs {
			if b.Name.Encoded {
				if s, err := url.PathUnescape(b.Name.Text); err == nil {
					b.Name.Text = s
				}
			}
			list = append(list, Info{Key: b.Name.Text, Size: parseSize(b.Properties.Size), ETag: etag(b.Properties.ETag),
				ModTime: httpTime(b.Properties.Modified), ContentEncoding: b.Properties.Encoding})
		}
		return list, page.NextMarker, nil
	})
}

func (a *azure) page(ctx context.Context, query url.Values) (*azurePage, error) {
	resp, err := a.do(ctx, http.MethodGet, "", query, nil, 0, nil)
	if err != nil {
		return nil, bucketError(err)
	}
	defer closeBody(resp)
	var page azurePage
	if err := xml.NewDecoder(io.LimitReader(resp.Body, maxPage)).Decode(&page); err != nil {
		return nil, unexpected(resp, err)
	}
	return &page, nil
}
