package server

import (
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/symdepot/symdepot/internal/depot"
)

// TestAnswerBytes: the usual answers are these bytes, from disk as from memory, with the time left
// out.
func TestAnswerBytes(t *testing.T) {
	d := newDepot(t)
	body := sym(smallID, "small.pdb", "", 2000)
	add(t, d, depot.Source{Path: "small.sym"}, body)
	addr := listen(t, newServer(t, Config{Depot: d}))
	hit, gone := "/small.pdb/"+smallID+"/small.sym", "/gone.pdb/"+smallID+"/gone.pdb"
	times := regexp.MustCompile(`(?m)^(Date|Last-Modified): .*? GMT\r\n|^Etag: "[^"]*"\r\n`)
	for _, c := range []struct{ request, want string }{
		{"GET " + gone, "HTTP/1.1 404 Not Found\r\nCache-Control: no-cache\r\nContent-Length: 10\r\nContent-Type: text/plain; charset=utf-8\r\n" +
			"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nnot found\n"},
		{"HEAD " + gone, "HTTP/1.1 404 Not Found\r\nCache-Control: no-cache\r\nContent-Length: 10\r\nContent-Type: text/plain; charset=utf-8\r\n" +
			"X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"},
		{"GET " + hit, "HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\nCache-Control: public, max-age=31536000, immutable\r\nContent-Length: 2000\r\n" +
			"Content-Type: text/plain; charset=utf-8\r\nVary: Accept-Encoding\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n" + string(body)},
	} {
		for _, from := range []string{"first", "second", "third"} {
			nc, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(nc, c.request+" HTTP/1.1\r\nHost: "+addr+"\r\nConnection: close\r\n\r\n")
			answer, err := io.ReadAll(nc)
			_ = nc.Close()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(answer), "\r\nDate: ") {
				t.Errorf("%s: the %s answer has no Date", c.request, from)
			}
			if got := times.ReplaceAllString(string(answer), ""); got != c.want {
				t.Errorf("%s: the %s answer is %.600q, want %.600q", c.request, from, got, c.want)
			}
		}
	}
}
