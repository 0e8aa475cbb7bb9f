package server

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
)

// TerminalLog is a log for people at a terminal: a request is one short line, in columns. A
// request that finds nothing has a second line, once per file: the command that says why. All
// other records have the form of slog.TextHandler, without the time.
type TerminalLog struct {
	slog.Handler // of all records but those of requests
	w            io.Writer
	mu           sync.Mutex // guards base
	base         string
	told         recent
}

// NewTerminalLog returns a TerminalLog that writes each record to w at once.
func NewTerminalLog(w io.Writer) *TerminalLog {
	withoutTime := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	text := slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: withoutTime})
	return &TerminalLog{Handler: text, w: w, told: recent{seed: maphash.MakeSeed()}}
}

// ServedAt sets the base URL of the server, for the commands in the log. Until then, the log
// has none.
func (l *TerminalLog) ServedAt(base string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base = base
}

// accessLine is what a TerminalLog prints of an access record.
type accessLine struct {
	method, path, protocol, result, problem string
	status                                  int64
	took                                    time.Duration
}

// read takes an attribute of the record.
func (a *accessLine) read(at slog.Attr) bool {
	text := term.Printable(at.Value.String())
	switch at.Key {
	case "method":
		a.method = text
	case "path":
		a.path = text
	case "status":
		a.status = at.Value.Int64()
	case "seconds":
		a.took = time.Duration(at.Value.Float64() * float64(time.Second))
	case "protocol":
		a.protocol = text
	case "result":
		a.result = text
	case "refused", "error":
		a.problem = text
	}
	return true
}

// Widths of columns, in characters. That of the path has the build-id of a debuginfod client
// and the GUID and short name of a PDB.
const (
	pathColumns = 60
	beforePath  = "                 " // status, result and method
)

// Handle implements slog.Handler.
func (l *TerminalLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != accessMessage {
		return l.Handler.Handle(ctx, r)
	}
	var a accessLine
	r.Attrs(a.read)
	line := fmt.Sprintf("%3d %-5s %-6s %-*s %9s", a.status, a.result, a.method, pathColumns, shorten(a.path, pathColumns), duration(a.took))
	if a.problem != "" {
		line += "  " + a.problem
	}
	_, err := io.WriteString(l.w, line+"\n"+l.help(&a))
	return err
}

// help returns the lines that say what to do about a miss; nothing for other requests, and if
// they were printed for the same file.
func (l *TerminalLog) help(a *accessLine) string {
	l.mu.Lock()
	base := l.base
	l.mu.Unlock()
	if a.result != resultMiss || a.protocol == protocolOwn || base == "" || strings.HasSuffix(a.path, "…") {
		return ""
	}
	asked := a.path
	if strings.HasPrefix(asked, "/t/") { // the token is not in the log
		_, rest, _ := strings.Cut(asked[len("/t/"):], "/")
		asked = "/" + rest
	}
	file, source := path.Dir(asked), false                        // WinDbg asks for app.pdb, app.pd_ and file.ptr in one folder
	if build, _, found := strings.Cut(asked, "/source/"); found { // gdb asks for each source file of a build
		file, source = build+"/source/", true
	}
	if !l.told.first(strings.ToLower(file)) {
		return ""
	}
	text := beforePath + "symdepot why --server " + term.ShellWord(base) + " " + term.ShellWord(asked) + "\n"
	if source {
		text += beforePath + "Source files come into the depot with --sources FOLDER of symdepot add, push and serve --add.\n"
	}
	return text
}

// shorten returns a text of n characters at most, without its middle if it is longer.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n/2]) + "…" + string(r[len(r)-(n-n/2-1):])
}

// duration prints how long a request took.
func duration(d time.Duration) string {
	switch ms := d.Seconds() * 1000; {
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
}

// maxRecent bounds each of the two sets of recent.
const maxRecent = 2048

// recent remembers the last names that it was told of, at least maxRecent and at most twice as
// many.
type recent struct {
	seed     maphash.Seed
	mu       sync.Mutex // guards new and old
	new, old map[uint64]bool
}

// first reports whether name is not among the last ones.
func (r *recent) first(name string) bool {
	key := maphash.String(r.seed, name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.new[key] || r.old[key] {
		return false
	}
	if r.new == nil || len(r.new) == maxRecent {
		r.new, r.old = map[uint64]bool{}, r.new
	}
	r.new[key] = true
	return true
}
