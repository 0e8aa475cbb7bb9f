package upstream

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// headersFile is a file of header fields that is read again when it changes.
type headersFile struct {
	path string

	mu      sync.Mutex
	size    int64       // guarded by mu
	changed time.Time   // guarded by mu
	have    http.Header // guarded by mu; nil: never read
}

// get returns the header fields. If the file can no longer be read, for example
// during its replacement, it returns the previous ones.
func (f *headersFile) get() (http.Header, error) {
	if f.path == "" {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.have != nil && info.Size() == f.size && info.ModTime().Equal(f.changed) {
		return f.have, nil
	}
	var text []byte
	if err == nil {
		var in *os.File
		if in, err = os.Open(f.path); err == nil {
			text, err = io.ReadAll(io.LimitReader(in, maxText))
			_ = in.Close()
		}
	}
	if err == nil {
		var next http.Header
		if next, err = parseHeaders(text); err == nil {
			f.have, f.size, f.changed = next, info.Size(), info.ModTime()
		}
	}
	if f.have != nil {
		return f.have, nil
	}
	return nil, fmt.Errorf("headers file %s: %w", f.path, err)
}

func parseHeaders(text []byte) (http.Header, error) {
	out, n := http.Header{}, 0
	for line := range strings.Lines(string(text)) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, v, ok := strings.Cut(line, ":")
		if k = strings.TrimSpace(k); !ok || !isToken(k) || strings.Contains(k, ":") {
			return nil, fmt.Errorf("line %d is not \"Name: value\"", n)
		}
		out.Add(k, strings.TrimSpace(v))
	}
	return out, nil
}
