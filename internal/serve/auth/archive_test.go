package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
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
	stored := archivedFiles(m)
	for _, f := range stored {
		if !strings.HasPrefix(f.Name, "audit-2") || !strings.HasSuffix(f.Name, ".jsonl") {
			t.Errorf("a file in the archive is called %q, want audit-TIME.jsonl", f.Name)
		}
	}
	want := readAll(t, file, AuditFilter{})
	var got []Event
	for e, err := range MergeAudits([]iter.Seq2[Event, error]{ReadArchive(stored, AuditFilter{}), ReadAudit(file, AuditFilter{})}) {
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

// archivedFiles are the files of an archive, in no order.
func archivedFiles(m *memory) (list []ArchivedFile) {
	for name, b := range m.files {
		list = append(list, ArchivedFile{name, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }})
	}
	return list
}

// TestReadArchive: files of other names and files before the time are not opened, an
// invalid line is reported and omitted, one file is open at a time, and a file that
// cannot be read ends the list with an error.
func TestReadArchive(t *testing.T) {
	t.Parallel()
	line := func(name string) string {
		return `{"time":"2026-11-21T08:00:00Z","action":"read","name":"` + name + `"}` + "\n"
	}
	open := 0
	file := func(name, text string, fail error) ArchivedFile {
		return ArchivedFile{name, func() (io.ReadCloser, error) {
			if open++; open > 1 {
				t.Errorf("%s is opened while %d other files are open, want none", name, open-1)
			}
			var r io.Reader = strings.NewReader(text)
			if fail != nil {
				r = io.MultiReader(r, iotest.ErrReader(fail))
			}
			return closing{r, &open}, nil
		}}
	}
	never := func(name string) ArchivedFile {
		return ArchivedFile{name, func() (io.ReadCloser, error) {
			t.Errorf("%s is opened, want that it is not", name)
			return nil, io.EOF
		}}
	}
	read := func(since time.Time, files ...ArchivedFile) (names []string, faults []error) {
		for e, err := range ReadArchive(files, AuditFilter{Since: since}) {
			if err != nil {
				faults = append(faults, err)
				continue
			}
			names = append(names, e.Name)
		}
		return names, faults
	}
	since := time.Date(2026, 11, 21, 7, 0, 0, 0, time.UTC)
	names, faults := read(since, file("audit-20261121T090000Z.2.jsonl", line("d"), nil), file("audit-20261121T090000Z.jsonl", line("b")+"{\n"+line("c"), nil),
		never("audit-20261121T060000Z.jsonl"), file("audit-20261121T080000Z.jsonl", line("a"), nil), never("../x"), never("audit.jsonl"))
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(names, want) || len(faults) != 1 || errors.Is(faults[0], ErrArchive) {
		t.Errorf("records %q, errors %v; want %q and one damaged record", names, faults, want)
	}
	names, faults = read(since, file("audit-20261121T080000Z.jsonl", line("a"), errors.New("away")), never("audit-20261121T090000Z.jsonl"))
	if want := []string{"a"}; !slices.Equal(names, want) || len(faults) != 1 || !errors.Is(faults[0], ErrArchive) {
		t.Errorf("records %q, errors %v of a file that cannot be read; want %q and %v", names, faults, want, ErrArchive)
	}
	if open != 0 {
		t.Errorf("%d files are open at the end, want 0", open)
	}
}

// closing counts open files.
type closing struct {
	io.Reader
	open *int
}

func (c closing) Close() error {
	*c.open--
	return nil
}

// TestAppendAudit: records of a command stand in the file of a running server, each
// on a line of its own, also after a truncated line.
func TestAppendAudit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(file, []byte(`{"time":"2026-`), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := AppendAudit(file)
	if err != nil {
		t.Fatal(err)
	}
	server := openAudit(t, AuditConfig{File: file})
	for i := range 3 {
		server.Record(Event{Action: ActionRead, Name: "app.pdb"})
		server.Flush()
		if err := l.Record(PurgeEvent(int64(i), "Game", strings.Repeat("x", 2*maxField), 7)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Record(Event{}); err == nil {
		t.Error("a record after Close: no error, want one")
	}
	var got []string
	damaged := 0
	for e, err := range ReadAudit(file, AuditFilter{}) {
		if err != nil {
			damaged++
			continue
		}
		got = append(got, e.Action+" "+e.Name)
		if e.Action == ActionPurge && (len(e.Detail) != maxField || e.Products[0] != "Game" || e.Bytes != 7) {
			t.Errorf("purge: %+v, want the product, the bytes and a shortened reason", e)
		}
	}
	want := []string{"read app.pdb", "purge build 0", "read app.pdb", "purge build 1", "read app.pdb", "purge build 2"}
	if !slices.Equal(got, want) || damaged != 1 {
		t.Errorf("records %q and %d damaged ones, want %q and 1", got, damaged, want)
	}
	if _, err := AppendAudit(t.TempDir()); err == nil {
		t.Error("a folder is opened as an audit file: no error, want one")
	}
}
