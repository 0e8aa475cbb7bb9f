package client

import (
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/symdepot/symdepot/internal/base/wire"
)

// TestCoverageRestart: a question about coverage changes nothing, so that it is sent again when a server ends during it, as when it
// restarts; what changes something is not.
func TestCoverageRestart(t *testing.T) {
	t.Parallel()
	var asked, kept atomic.Int64
	a := apiClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			kept.Add(1)
			panic(http.ErrAbortHandler)
		}
		var q wire.CoverageAsk
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(b, &q)
		}
		if err != nil || len(q.Files) != 1 || q.Files[0].Name != "app" {
			t.Errorf("asked for %s, %v; want the file", b, err)
		}
		if asked.Add(1) < 3 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items":[{"symbols":{"here":true}}]}`))
	})
	list, err := a.Coverage(t.Context(), wire.CoverageAsk{Files: []wire.CoverageFile{{Kind: "elf", Name: "app"}}})
	if err != nil || len(list) != 1 || !list[0].Symbols.Here || asked.Load() != 3 {
		t.Errorf("%+v, %v after %d questions; want the answer to the third", list, err, asked.Load())
	}
	if _, err := a.KeepCoverage(t.Context(), 1, wire.BuildCoverage{}); err == nil || kept.Load() != 1 {
		t.Errorf("a result is kept by %d requests, %v; want one that failed", kept.Load(), err)
	}
}
