package depot

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/remote/upstream"
)

// TestSignatureWhileDownloading: clients that get a file while it is being downloaded have
// read the header when the upstream has not sent the end yet.
func TestSignatureWhileDownloading(t *testing.T) {
	prog, err := os.ReadFile("../../testdata/elf/prog-sha1")
	if err != nil {
		t.Fatal(err)
	}
	prog = append(prog, make([]byte, 1<<20)...)
	const path = "buildid/adac45aa231bba3143d7af433767c61f31021c16/executable"
	for sent, want := range map[string]string{
		"030204D0A1B2C30002ABCD":       "030204d0a1b2c30002abcd",
		"":                             "",
		"not hex":                      "",
		"030":                          "",
		strings.Repeat("ab", 10<<10/2): "",
	} {
		end := make(chan struct{})
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/"+path {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(prog)))
			w.Header()["X-DEBUGINFOD-IMASIGNATURE"] = []string{sent}
			half := len(prog) / 2
			_, _ = w.Write(prog[:half])
			w.(http.Flusher).Flush()
			<-end
			_, _ = w.Write(prog[half:])
		}))
		t.Cleanup(server.Close)
		src, err := upstream.NewHTTP(upstream.HTTPConfig{Name: "far", URL: server.URL, Layout: "debuginfod"}, upstream.NewDialer(upstream.DialerOptions{}))
		if err != nil {
			t.Fatal(err)
		}
		d, _ := withUpstreams(t, Options{Upstreams: []Upstream{{Source: src}}})
		q := answer.Question{Request: request(t, path)}
		f, err := d.places.Download(t.Context(), q)
		if err != nil {
			close(end)
			t.Fatal(err)
		}
		if !f.Growing || f.Signature != want {
			t.Errorf("%.20q: growing %t, signature %q; want a growing file with %q", sent, f.Growing, f.Signature, want)
		}
		close(end)
		if got, err := readAll(f); err != nil || !bytes.Equal(got, prog) {
			t.Errorf("%.20q: %d bytes, error %v; want the file", sent, len(got), err)
		}
		_ = f.Close()
		held, err := d.Open(t.Context(), answer.Scope{}, q.Request)
		if err != nil {
			t.Fatal(err)
		}
		if held.Signature != want {
			t.Errorf("%.20q: the downloaded file has the signature %q, want %q", sent, held.Signature, want)
		}
		_ = held.Close()
	}
}
