package tree

import (
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/symdepot/symdepot/internal/remote/fetch"
	"github.com/symdepot/symdepot/layout"
)

func wish(t *testing.T, p string) fetch.Ask {
	t.Helper()
	req, err := layout.Route(strings.Split(p, "/"))
	if err != nil {
		t.Fatal(err)
	}
	return fetch.Ask{Request: req}
}

func all(t *testing.T, s fetch.Source, ask fetch.Ask) (*fetch.Reply, []byte, error) {
	t.Helper()
	reply, err := s.Fetch(t.Context(), ask)
	if err != nil {
		return nil, nil, err
	}
	defer reply.Body.Close()
	b, err := io.ReadAll(reply.Body)
	return reply, b, err
}

func zs(b []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(b, nil)
}
