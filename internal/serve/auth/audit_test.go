package auth

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

func openAudit(t *testing.T, c AuditConfig) *Audit {
	t.Helper()
	if c.File == "" {
		c.File = filepath.Join(t.TempDir(), "audit.jsonl")
	}
	a, err := OpenAudit(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func readAll(t *testing.T, file string, f AuditFilter) []Event {
	t.Helper()
	var out []Event
	for e, err := range ReadAudit(file, f) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

func TestAudit(t *testing.T) {
	c := newClock()
	a := openAudit(t, AuditConfig{Now: c.now})
	secret := NewToken()
	id := Identity{Name: "ci", Method: MethodToken, TokenID: "abc"}
	e := Event{Action: "read", Remote: "10.0.0.7:1234", Name: "Game.pdb", ID: "K1", Products: []string{"Game"}, Agent: "curl/8 " + secret, Status: 200, Bytes: 5}
	e.By(&id)
	a.Record(e)
	c.add(time.Hour)
	a.Record(Event{Action: "read", Remote: "10.0.0.8:1", Name: "app.pdb\n\x00\xff{", Products: []string{"App", "Game"}})
	c.add(time.Hour)
	a.Record(Event{Action: "write", Who: "alice@CORP", Method: MethodNegotiate, Name: strings.Repeat("ä", 1000) + secret})
	a.Flush()
	b, err := os.ReadFile(a.cfg.File)
	if err != nil || bytes.Count(b, []byte("\n")) != 3 || bytes.Contains(b, []byte(secret)) || len(b) > 2000 {
		t.Fatalf(`os.ReadFile: error %v, %s; want bytes.Count(b, []byte("\n")) 3, one without []byte(secret), length at most 2000`, err, b)
	}
	if fi, err := os.Stat(a.cfg.File); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
		t.Errorf("the audit file has the mode %v, error %v; want 0600", fi.Mode(), err)
	}
	begin := newClock().now()
	for _, test := range []struct {
		f    AuditFilter
		want int
	}{
		{AuditFilter{}, 3},
		{AuditFilter{Since: begin}, 3},
		{AuditFilter{Since: begin.Add(1)}, 2},
		{AuditFilter{Until: begin.Add(time.Hour)}, 1},
		{AuditFilter{Who: "ci"}, 1},
		{AuditFilter{Who: "abc"}, 1},
		{AuditFilter{Who: "*@CORP"}, 1},
		{AuditFilter{Who: "*"}, 3},
		{AuditFilter{Product: "Game"}, 2},
		{AuditFilter{Product: "game"}, 0},
		{AuditFilter{Name: "game.PDB"}, 1},
		{AuditFilter{Name: "*.pdb"}, 1},
		{AuditFilter{Name: "a*pdb*"}, 1},
		{AuditFilter{ID: "k1"}, 1},
		{AuditFilter{Action: "read"}, 2},
		{AuditFilter{Remote: "10.0.0.8"}, 1},
		{AuditFilter{Action: "read", Product: "App"}, 1},
	} {
		if got := readAll(t, a.cfg.File, test.f); len(got) != test.want {
			t.Errorf("%+v: readAll: length %d, want %v", test.f, len(got), test.want)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	a.Record(e)
	a.Flush()
	if err := a.Close(); err != nil || len(readAll(t, a.cfg.File, AuditFilter{})) != 3 {
		t.Error("after the end")
	}
}

// TestAuditRotatesWhileRead: a reader of the file does not keep the server from
// beginning a new one, which Windows would otherwise forbid.
func TestAuditRotatesWhileRead(t *testing.T) {
	c := newClock()
	a := openAudit(t, AuditConfig{Now: c.now, MaxBytes: 2000})
	write := func() {
		for i := range 10 {
			a.Record(Event{Action: "read", Name: fmt.Sprint(i), ID: strings.Repeat("x", 100)})
		}
		a.Flush()
	}
	write()
	if old, err := olderFiles(a.cfg.File); err != nil || len(old) != 0 {
		t.Fatalf("rotated files after ten records: %v, %v; want none", old, err)
	}
	for _, err := range ReadAudit(a.cfg.File, AuditFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		write()
		break
	}
	old, err := olderFiles(a.cfg.File)
	if err != nil || len(old) == 0 {
		t.Errorf("rotated files while one is read: %v, %v; want at least one", old, err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got := readAll(t, a.cfg.File, AuditFilter{}); len(got) != 20 {
		t.Errorf("%d records, want 20", len(got))
	}
}

func TestAuditRotates(t *testing.T) {
	c := newClock()
	a := openAudit(t, AuditConfig{Now: c.now, MaxBytes: 2000, MaxAge: time.Hour, Keep: 3})
	dir := filepath.Dir(a.cfg.File)
	for _, name := range []string{"audit-notes.jsonl", "audit-20260101T000000Z.txt", "audit-20260101T000000Zx.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		if i == 50 {
			c.add(2 * time.Hour)
		}
		a.Record(Event{Action: "read", Name: fmt.Sprint(i), ID: strings.Repeat("x", 100)})
		a.Flush()
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	got := readAll(t, a.cfg.File, AuditFilter{})
	last := 100 - len(got)
	for i, e := range got {
		if e.Name != fmt.Sprint(last+i) {
			t.Fatalf("%d: got %s, length %d; want fmt.Sprint(last + i)", i, e.Name, len(got))
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 4+3 || len(got) < 30 || len(got) > 60 {
		t.Errorf("%v, %d records; want 4+3 files and 30 to 60 records", files, len(got))
	}
	for _, f := range files {
		if fi, err := f.Info(); err != nil || fi.Size() > 2000 {
			t.Errorf("%s has %d bytes, want at most 2000", f.Name(), fi.Size())
		}
	}
	if n := len(readAll(t, a.cfg.File, AuditFilter{Since: c.now()})); n == 0 || n > 50 {
		t.Errorf("%d records since, want not 0, at most 50", n)
	}
	// The next one goes on where this one ended, and begins anew by age.
	c.add(2 * time.Hour)
	b := openAudit(t, AuditConfig{File: a.cfg.File, Now: c.now, MaxAge: time.Hour})
	b.Record(Event{Action: "read", Name: "next"})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(a.cfg.File)
	if err != nil || bytes.Count(text, []byte("\n")) != 1 {
		t.Errorf(`os.ReadFile: error %v, %s; want bytes.Count(text, []byte("\n")) 1`, err, text)
	}
}

// TestAuditAfterCrash: a line that was cut short spoils no other.
func TestAuditAfterCrash(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(file, []byte("{\"action\":\"read\"}\n{\"action\":\"re"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := openAudit(t, AuditConfig{File: file})
	a.Record(Event{Action: "read"})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	good, bad := 0, 0
	for _, err := range ReadAudit(file, AuditFilter{}) {
		if err != nil {
			bad++
			if !strings.Contains(err.Error(), "audit.jsonl:2") {
				t.Error(err)
			}
		} else {
			good++
		}
	}
	if good != 2 || bad != 1 {
		t.Errorf("%d good, %d bad; want 2, 1", good, bad)
	}
	for range ReadAudit(file, AuditFilter{}) {
		break
	}
	for _, err := range ReadAudit(filepath.Join(t.TempDir(), "none"), AuditFilter{}) {
		if !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	if _, err := OpenAudit(AuditConfig{File: t.TempDir()}, nil); err == nil {
		t.Error("a folder is taken for a file")
	}
}

// TestAuditFull: a full disk does not block requests, and the lost records are
// counted when the disk has space again.
func TestAuditFull(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	c := newClock()
	var logged bytes.Buffer
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	symtest.Symlink(t, "/dev/full", file)
	a, err := OpenAudit(AuditConfig{File: file, Now: c.now}, slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		a.Record(Event{Action: "read", Name: "lost"})
		a.Flush()
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	a.Record(Event{Action: "read", Name: "last"})
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(logged.String(), "cannot write audit records"); n != 1 {
		t.Errorf("the failure was logged %d times, want once: %s", n, logged.String())
	}
	got := readAll(t, file, AuditFilter{})
	if len(got) != 1 || got[0].Name != "last" || got[0].Lost != 10 {
		t.Errorf(`readAll: %+v, %s; want length 1, got[0].Name "last", got[0].Lost 10`, got, logged.String())
	}
}

// TestAuditDoesNotBlock: if the writer is blocked, a request waits only
// briefly.
func TestAuditDoesNotBlock(t *testing.T) {
	a := &Audit{cfg: AuditConfig{Now: time.Now}, queue: make(chan Event, 1), done: make(chan struct{})}
	a.Record(Event{})
	begin := time.Now()
	a.Record(Event{})
	if d := time.Since(begin); d > 5*time.Second || a.lost.Load() != 1 {
		t.Errorf("waited %v, %d lost", d, a.lost.Load())
	}
}

func TestAuditConcurrent(t *testing.T) {
	a := openAudit(t, AuditConfig{MaxBytes: 50 << 10, Keep: -1})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				a.Record(Event{Action: "read", Name: fmt.Sprintf("%d-%d", i, j)})
				if j%100 == 0 {
					a.Flush()
				}
			}
		})
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	var lost int64
	for _, e := range readAll(t, a.cfg.File, AuditFilter{}) {
		if seen[e.Name] {
			t.Fatalf("%s twice", e.Name)
		}
		seen[e.Name] = true
		lost += e.Lost
	}
	if int64(len(seen))+lost+a.lost.Load() != 4000 {
		t.Errorf("%d records, %d lost", len(seen), lost)
	}
}

func FuzzReadAudit(f *testing.F) {
	f.Add([]byte("{\"time\":\"2026-01-02T15:04:05Z\",\"action\":\"read\"}\n{}\nx\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		file := filepath.Join(t.TempDir(), "a.jsonl")
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		for range ReadAudit(file, AuditFilter{Name: "*x*"}) {
			n++
		}
		if n > bytes.Count(b, []byte("\n"))+2 {
			t.Fatalf(`got %v, want at most bytes.Count(b, []byte("\n")) + 2`, n)
		}
		a, err := OpenAudit(AuditConfig{File: file, MaxBytes: 1 << 40, MaxAge: 1 << 62}, nil)
		if err != nil {
			t.Fatal(err)
		}
		a.Record(Event{Action: "mark", Name: "xyz"})
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(collect(file), func(e Event) bool { return e.Action == "mark" })
		if !found && !bytes.Contains(b, bytes.Repeat([]byte("a"), maxLine)) {
			t.Fatal("the record is not found")
		}
	})
}

func collect(file string) (out []Event) {
	for e, err := range ReadAudit(file, AuditFilter{}) {
		if err == nil {
			out = append(out, e)
		}
	}
	return out
}
