// Command pyroscope-upload sends files with debug information to a server as Pyroscope's
// uploaders do, with the client that Pyroscope generates for its protocol. For each
// argument ID=FILE it prints one of: OK, NO and the reason, ERROR and the reason.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"
	debuginfo "github.com/grafana/pyroscope/api/gen/proto/go/debuginfo/v1alpha1"
	"github.com/grafana/pyroscope/api/gen/proto/go/debuginfo/v1alpha1/debuginfov1alpha1connect"
)

// sign adds the token and the tenant to requests.
type sign struct{ token, tenant string }

func (s sign) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("X-Scope-OrgID", s.tenant)
	return http.DefaultTransport.RoundTrip(r)
}

func main() {
	url := flag.String("url", "", "the server")
	s := sign{}
	flag.StringVar(&s.token, "token", "", "the token")
	flag.StringVar(&s.tenant, "tenant", "", "the tenant")
	flag.Parse()
	u := uploader{&http.Client{Transport: s}, *url, debuginfov1alpha1connect.NewDebuginfoServiceClient(&http.Client{Transport: s}, *url)}
	for _, arg := range flag.Args() {
		id, path, _ := strings.Cut(arg, "=")
		fmt.Println(u.upload(context.Background(), id, path))
	}
}

type uploader struct {
	http    *http.Client
	url     string
	service debuginfov1alpha1connect.DebuginfoServiceClient
}

func (u *uploader) upload(ctx context.Context, id, path string) string {
	failed := func(err error) string { return "ERROR " + strings.ReplaceAll(err.Error(), "\n", " ") }
	body, err := os.ReadFile(path)
	if err != nil {
		return failed(err)
	}
	file := &debuginfo.FileMetadata{GnuBuildId: id, Name: filepath.Base(path), Type: debuginfo.FileMetadata_TYPE_EXECUTABLE_FULL}
	asked, err := u.service.ShouldInitiateUpload(ctx, connect.NewRequest(&debuginfo.ShouldInitiateUploadRequest{File: file}))
	if err != nil {
		return failed(err)
	}
	if !asked.Msg.ShouldInitiateUpload {
		return "NO " + asked.Msg.Reason
	}
	if err := u.send(ctx, id, body); err != nil {
		return failed(err)
	}
	if _, err := u.service.UploadFinished(ctx, connect.NewRequest(&debuginfo.UploadFinishedRequest{GnuBuildId: id})); err != nil {
		return failed(err)
	}
	return "OK"
}

// send sends the file, which is a plain body in this protocol.
func (u *uploader) send(ctx context.Context, id string, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		u.url+"/"+debuginfov1alpha1connect.DebuginfoServiceName+"/Upload/"+id, bytes.NewReader(body))
	if err != nil {
		return err
	}
	res, err := u.http.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // only read
	if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	return nil
}
