package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// memory is an archive in memory.
type memory struct {
	mu    sync.Mutex
	files map[string][]byte
	fail  error
	tried chan struct{} // receives each failed attempt
}

func (m *memory) Names(context.Context) (map[string]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := map[string]bool{}
	for n := range m.files {
		names[n] = true
	}
	if m.fail != nil {
		select {
		case m.tried <- struct{}{}:
		default:
		}
	}
	return names, m.fail
}

func (m *memory) Put(_ context.Context, name string, size int64, r io.ReaderAt) error {
	b, err := io.ReadAll(io.NewSectionReader(r, 0, size))
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[name] = b
	return err
}

// TestAuditArchive: every closed file reaches the archive, the last one when the log
// is closed, and what an archive refused is stored later.
func TestAuditArchive(t *testing.T) {
	c := newClock()
	m := &memory{files: map[string][]byte{}, fail: errors.New("away"), tried: make(chan struct{}, 1)}
	file := filepath.Join(t.TempDir(), "mine.log")
	a := openAudit(t, AuditConfig{File: file, Now: c.now, MaxBytes: 500, Archive: m})
	record := func(a *Audit, from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			c.add(time.Second)
			a.Record(Event{Action: "read", Name: fmt.Sprint(i), ID: strings.Repeat("x", 100)})
			a.Flush()
		}
	}
	record(a, 0, 10)
	<-m.tried
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if len(m.files) > 0 {
		t.Fatalf("an archive that is away has %d files, want none", len(m.files))
	}
	m.mu.Lock()
	m.fail = nil
	m.mu.Unlock()
	a = openAudit(t, AuditConfig{File: file, Now: c.now, MaxBytes: 500, Archive: m})
	record(a, 10, 20)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); err == nil {
		t.Errorf("%s is still open after Close, want it closed and stored", file)
	}
	dir := t.TempDir()
	for name, b := range m.files {
		if !strings.HasPrefix(name, "audit-2") || !strings.HasSuffix(name, ".jsonl") {
			t.Errorf("a file in the archive is called %q, want audit-TIME.jsonl", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := readAll(t, file, AuditFilter{})
	var got []Event
	for e, err := range ReadAudits([]string{filepath.Join(dir, ArchiveLog), file}, AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if len(want) != 20 || len(got) != 20 {
		t.Errorf("%d records in the folder and %d of both places, want 20: each once", len(want), len(got))
	}
	if all := bytes.Join(slices.Collect(maps.Values(m.files)), nil); bytes.Count(all, []byte("\n")) != 20 {
		t.Errorf("%d records in the archive, want 20", bytes.Count(all, []byte("\n")))
	}
}
