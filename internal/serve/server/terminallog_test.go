package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/layout"
)

// TestTerminalLog: on a terminal, a request is one short line in columns. A miss has the
// command that says why below it, once per file; a missing source file names --sources.
func TestTerminalLog(t *testing.T) {
	var out bytes.Buffer
	lines := NewTerminalLog(&out)
	w := newWorld(t, Config{AccessLog: true, Log: slog.New(lines)})
	const id = "0123456789abcdef0123456789abcdef01234567"
	hit := w.small.path(t, layout.BreakpadTree)
	ask(w.s, "GET", gonePath)
	if strings.Contains(out.String(), "symdepot why") {
		t.Errorf("the log before the server listens is\n%s, want no command", out.String())
	}
	out.Reset()
	lines.ServedAt("http://127.0.0.1:8080")
	for _, path := range []string{
		hit, "/gone.pdb/5A9832E51000/gone.pdb", "/gone.pdb/5A9832E51000/gone.pd_", "/gone.pdb/5A9832E51000/file.ptr",
		"/buildid/" + id + "/debuginfo", "/buildid/" + id + "/debuginfo",
		"/buildid/" + id + "/source/usr/src/a.c", "/buildid/" + id + "/source/usr/src/b.c",
		"/a%20b$(x)'.pdb/5A9832E51000/a%20b$(x)'.pdb", "/nothing", "/-/nothing",
	} {
		ask(w.s, "GET", path)
	}
	const why = "                 symdepot why --server http://127.0.0.1:8080 "
	var got []string
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, " ") {
			if n, want := utf8.RuneCountInString(line), len(beforePath)+pathColumns+len(" 123456 ms"); n != want {
				t.Errorf("%q has %d characters, want %d", line, n, want)
			}
			words := strings.Fields(line)
			line = strings.Join(words[:len(words)-2], " ") // without the duration
		}
		got = append(got, line)
	}
	want := []string{
		"200 hit GET " + shorten(hit, pathColumns),
		"404 miss GET /gone.pdb/5A9832E51000/gone.pdb", why + "/gone.pdb/5A9832E51000/gone.pdb",
		"404 miss GET /gone.pdb/5A9832E51000/gone.pd_",
		"404 miss GET /gone.pdb/5A9832E51000/file.ptr",
		"404 miss GET /buildid/" + id + "/debuginfo", why + "/buildid/" + id + "/debuginfo",
		"404 miss GET /buildid/" + id + "/debuginfo",
		"404 miss GET /buildid/0123456789abcdef01234…ef01234567/source/usr/src/a.c", why + "/buildid/" + id + "/source/usr/src/a.c",
		"                 Source files come into the depot with --sources FOLDER of symdepot add, push and serve --add.",
		"404 miss GET /buildid/0123456789abcdef01234…ef01234567/source/usr/src/b.c",
		"404 miss GET /a%20b$(x)'.pdb/5A9832E51000/a%20b$(x)'.pdb", why + `'/a%20b$(x)'\''.pdb/5A9832E51000/a%20b$(x)'\''.pdb'`,
		"404 GET /nothing", "404 GET /-/nothing",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("the log is\n%s\nwant\n%s", a, b)
	}
	out.Reset()
	slog.New(lines).Warn("the disk is full", "free", 0)
	if got, want := out.String(), "level=WARN msg=\"the disk is full\" free=0\n"; got != want {
		t.Errorf("another record is %q, want %q", got, want)
	}
}

// TestTerminalLogToken: the command in the log is for the path without a token.
func TestTerminalLogToken(t *testing.T) {
	var out bytes.Buffer
	lines := NewTerminalLog(&out)
	lines.ServedAt("http://h")
	slog.New(lines).Info(accessMessage, "method", "GET", "path", "/t/sd_***/a.pdb/5A9832E51000/a.pdb", "status", 404, "result", resultMiss)
	if want := "symdepot why --server http://h /a.pdb/5A9832E51000/a.pdb\n"; !strings.HasSuffix(out.String(), " "+want) {
		t.Errorf("the log is %q, want %q at its end", out.String(), want)
	}
}

// TestRecent: the memory of names is bounded, and holds the last ones.
func TestRecent(t *testing.T) {
	r := &NewTerminalLog(nil).told
	for i := range 10 * maxRecent {
		name := fmt.Sprint(i)
		if !r.first(name) || r.first(name) {
			t.Fatalf("%s is not new the first time and known the second time", name)
		}
		if n := len(r.new) + len(r.old); n > 2*maxRecent {
			t.Fatalf("%d names are remembered, want %d at most", n, 2*maxRecent)
		}
	}
	if r.first(fmt.Sprint(9*maxRecent+1)) || !r.first("0") {
		t.Error("the last names must be known, and the first one forgotten")
	}
}

// TestDuration: the time of a request has a unit that people read.
func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0 ms", 1337 * time.Microsecond: "1.3 ms", 12 * time.Millisecond: "12 ms", 999 * time.Millisecond: "999 ms", 2340 * time.Millisecond: "2.3 s",
	} {
		if got := duration(d); got != want {
			t.Errorf("duration(%s) = %q, want %q", d, got, want)
		}
	}
}
