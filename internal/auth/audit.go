package auth

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Event is one record: who read what, when, from where. It holds no secrets.
type Event struct {
	Time    time.Time `json:"time"`
	Who     string    `json:"who,omitempty"` // empty: anonymous
	Method  Method    `json:"method,omitempty"`
	TokenID string    `json:"token,omitempty"`
	Remote  string    `json:"remote,omitempty"` // the client's address
	Agent   string    `json:"agent,omitempty"`  // what the client says it is

	Action   string   `json:"action"` // "read" and whatever else is recorded
	Protocol string   `json:"protocol,omitempty"`
	Name     string   `json:"name,omitempty"` // of the file
	ID       string   `json:"id,omitempty"`
	Products []string `json:"products,omitempty"` // through which it was seen
	Content  string   `json:"content,omitempty"`  // SHA-256, in hex
	Status   int      `json:"status,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"` // sent

	// Lost is how many records before this one could not be kept.
	Lost int64 `json:"lost,omitempty"`
}

// By fills in who it was.
func (e *Event) By(id *Identity) {
	e.Who, e.Method, e.TokenID = id.Name, id.Method, id.TokenID
}

// AuditConfig says where records go.
type AuditConfig struct {
	// File gets a JSON object a line. Older ones stand beside it as
	// NAME-20060102T150405Z.EXT.
	File string
	// MaxBytes is the size at which a new file is begun; zero is 64 MiB.
	MaxBytes int64
	// MaxAge is the age at which a new file is begun; zero is a day.
	MaxAge time.Duration
	// Keep is how many older files are kept; zero is 90, negative is all.
	Keep int
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	// auditQueue is how many records wait for the disk at most.
	auditQueue = 4096
	// auditWait is how long a request waits when they do.
	auditWait = 50 * time.Millisecond
	// maxField bounds the texts of a record, which clients choose, in bytes.
	maxField = 512
	// maxProducts bounds the products of a record.
	maxProducts = 32
	// maxLine bounds the lines that are read back, in bytes.
	maxLine = 256 << 10
)

// Audit writes records beside the requests that they tell of. Its methods may
// be called at the same time.
type Audit struct {
	cfg   AuditConfig
	log   *slog.Logger
	queue chan Event
	flush chan chan struct{}
	lost  atomic.Int64

	mu     sync.RWMutex // held for reading while something is sent to queue
	closed bool
	done   chan struct{}
	err    error // of the end; to be read once done is closed

	// The rest belongs to the goroutine that writes.
	f       *os.File
	w       *bufio.Writer
	size    int64
	begun   time.Time
	warned  time.Time
	waiting int64 // records that are in w
	stuck   error // what the last write said
}

// OpenAudit opens the file, or makes it.
func OpenAudit(cfg AuditConfig, log *slog.Logger) (*Audit, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if cfg.MaxBytes == 0 {
		cfg.MaxBytes = 64 << 20
	}
	if cfg.MaxAge == 0 {
		cfg.MaxAge = 24 * time.Hour
	}
	if cfg.Keep == 0 {
		cfg.Keep = 90
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	a := &Audit{cfg: cfg, log: log, queue: make(chan Event, auditQueue), flush: make(chan chan struct{}), done: make(chan struct{})}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("the audit records: %w", err)
	}
	go a.run()
	return a, nil
}

// Record notes an event; a zero time is now. If the disk does not keep up it
// waits a moment, then the record is lost and counted.
func (a *Audit) Record(e Event) {
	if e.Time.IsZero() {
		e.Time = a.cfg.Now()
	}
	e.Time = e.Time.UTC()
	for _, s := range []*string{&e.Who, &e.Remote, &e.Agent, &e.Action, &e.Protocol, &e.Name, &e.ID, &e.Content} {
		*s = field(*s)
	}
	e.Products = slices.Clone(e.Products[:min(len(e.Products), maxProducts)])
	for i, p := range e.Products {
		e.Products[i] = field(p)
	}
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		a.lost.Add(1)
		return
	}
	select {
	case a.queue <- e:
		return
	default:
	}
	t := time.NewTimer(auditWait)
	defer t.Stop()
	select {
	case a.queue <- e:
	case <-t.C:
		a.lost.Add(1)
	}
}

// field makes a text fit for a record.
func field(s string) string {
	s = Redact(s)
	if len(s) <= maxField {
		return s
	}
	n := maxField
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// Flush returns once what was recorded before is with the system.
func (a *Audit) Flush() {
	c := make(chan struct{})
	select {
	case a.flush <- c:
		<-c
	case <-a.done:
	}
}

// Close writes what waits, durably. What is recorded afterwards is lost.
func (a *Audit) Close() error {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.queue)
	}
	a.mu.Unlock()
	<-a.done
	return a.err
}

func (a *Audit) run() {
	defer close(a.done)
	for {
		select {
		case e, ok := <-a.queue:
			if !ok {
				a.err = a.end()
				if n := a.lost.Load(); n > 0 {
					a.log.Error("audit records were lost", "count", n)
				}
				return
			}
			a.write(e)
			if len(a.queue) == 0 {
				a.push()
			}
		case c := <-a.flush:
			for n := len(a.queue); n > 0; n-- {
				if e, ok := <-a.queue; ok {
					a.write(e)
				}
			}
			a.push()
			close(c)
		}
	}
}

// push hands what waits to the system.
func (a *Audit) push() {
	err := a.w.Flush()
	a.check(err)
	if err == nil {
		a.waiting = 0
	}
}

// end closes the file, durably.
func (a *Audit) end() error {
	err := errors.Join(a.w.Flush(), a.f.Sync())
	return errors.Join(err, a.f.Close())
}

// write writes a record, into a new file if it is time for one.
func (a *Audit) write(e Event) {
	e.Lost = a.lost.Swap(0)
	b, err := json.Marshal(e)
	if err != nil {
		a.check(err)
		return
	}
	b = append(b, '\n')
	if a.size > 0 && (a.size+int64(len(b)) > a.cfg.MaxBytes || e.Time.Sub(a.begun) > a.cfg.MaxAge) || a.stuck != nil {
		a.check(a.rotate())
	}
	a.waiting += 1 + e.Lost
	_, err = a.w.Write(b)
	a.check(err)
	a.size += int64(len(b))
}

// check tells of a failure, at most once a minute. What was on the way is
// counted as lost, though some of it may have arrived.
func (a *Audit) check(err error) {
	a.stuck = err
	if err != nil {
		a.lost.Add(a.waiting)
		a.waiting = 0
	}
	if now := a.cfg.Now(); err != nil && !fresh(a.warned, now, time.Minute) {
		a.warned = now
		a.log.Error("audit records cannot be written", "error", err)
	}
}

// open opens the file to append to it.
func (a *Audit) open() error {
	f, err := os.OpenFile(a.cfg.File, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	size, begun, err := resume(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if begun.IsZero() {
		begun = a.cfg.Now()
	}
	a.f, a.w, a.size, a.begun, a.stuck = f, bufio.NewWriterSize(f, 64<<10), size, begun, nil
	return nil
}

// resume looks at a file that may have been written to before: how long it is,
// and from when its first record is. A line that a crash cut short is ended.
func resume(f *os.File) (size int64, begun time.Time, err error) {
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 {
		return 0, time.Time{}, err
	}
	line, err := bufio.NewReaderSize(io.NewSectionReader(f, 0, maxLine), 4096).ReadBytes('\n')
	if err != nil && err != io.EOF {
		return 0, time.Time{}, err
	}
	var first struct{ Time time.Time }
	if json.Unmarshal(line, &first) == nil {
		begun = first.Time
	}
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, fi.Size()-1); err != nil {
		return 0, time.Time{}, err
	}
	if last[0] != '\n' {
		if _, err := f.WriteString("\n"); err != nil {
			return 0, time.Time{}, err
		}
	}
	return fi.Size(), begun, nil
}

// split splits the file's path for the names of older ones.
func split(file string) (stem, ext string) {
	ext = filepath.Ext(file)
	return strings.TrimSuffix(file, ext), ext
}

const stamp = "20060102T150405Z"

// rotate puts the file aside and begins a new one. After a failure it tries to
// open it anew.
func (a *Audit) rotate() error {
	if a.stuck != nil {
		_ = a.end() // it has failed, and that was told
		return a.open()
	}
	err := a.end()
	if err == nil {
		a.waiting = 0
		err = a.putAside()
	}
	return errors.Join(err, a.open())
}

// putAside renames the closed file, and removes older ones beyond those that
// are kept.
func (a *Audit) putAside() error {
	old, err := olderFiles(a.cfg.File)
	if err != nil {
		return err
	}
	next := aside{at: a.cfg.Now().UTC().Truncate(time.Second), n: 1}
	if len(old) > 0 {
		// The names keep the order, whatever the clock does.
		if last := old[len(old)-1]; !last.at.Before(next.at) {
			next.at, next.n = last.at, last.n+1
		}
	}
	stem, ext := split(a.cfg.File)
	name := stem + "-" + next.at.Format(stamp)
	if next.n > 1 {
		name += "." + strconv.Itoa(next.n)
	}
	if err := os.Rename(a.cfg.File, name+ext); err != nil {
		return err
	}
	if drop := len(old) + 1 - a.cfg.Keep; a.cfg.Keep > 0 && drop > 0 {
		for _, o := range old[:drop] {
			err = errors.Join(err, os.Remove(o.name))
		}
	}
	return err
}

// aside is a file that was put aside, and when; n counts those of one second.
type aside struct {
	name string
	at   time.Time
	n    int
}

// olderFiles returns the files that were put aside, the oldest first.
func olderFiles(file string) ([]aside, error) {
	stem, ext := split(file)
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	var out []aside
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), filepath.Base(stem)+"-")
		if !ok {
			continue
		}
		if rest, ok = strings.CutSuffix(rest, ext); !ok {
			continue
		}
		when, count, numbered := strings.Cut(rest, ".")
		o := aside{name: filepath.Join(filepath.Dir(file), e.Name()), n: 1}
		if o.at, err = time.Parse(stamp, when); err != nil {
			continue
		}
		if numbered {
			if o.n, err = strconv.Atoi(count); err != nil {
				continue
			}
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b aside) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.n, b.n)) })
	return out, nil
}

// AuditFilter chooses records. What is empty chooses all.
type AuditFilter struct {
	Since, Until time.Time // until is not included
	Who          string    // a name, a token's id, or a pattern with *
	Remote       string    // an address or the beginning of one
	Action       string
	Product      string
	Name         string // of a file, without regard to case; a pattern with *
	ID           string // without regard to case
}

// Match reports whether a record is chosen.
func (f *AuditFilter) Match(e *Event) bool {
	return (f.Since.IsZero() || !e.Time.Before(f.Since)) &&
		(f.Until.IsZero() || e.Time.Before(f.Until)) &&
		(f.Who == "" || e.TokenID == f.Who || anyGlob(f.Who, e.Who)) &&
		strings.HasPrefix(e.Remote, f.Remote) &&
		(f.Action == "" || e.Action == f.Action) &&
		(f.Product == "" || slices.Contains(e.Products, f.Product)) &&
		(f.Name == "" || anyGlob(strings.ToLower(f.Name), strings.ToLower(e.Name))) &&
		(f.ID == "" || strings.EqualFold(f.ID, e.ID))
}

// anyGlob is a pattern in which * stands for anything.
func anyGlob(glob, s string) bool {
	parts := strings.Split(glob, "*")
	if len(parts) == 1 {
		return glob == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, parts[len(parts)-1])
}

// ReadAudit yields the records of a file and of the older ones beside it that
// the filter chooses, the oldest first. A line that cannot be read, such as
// the one that is just being written, yields an error and reading goes on;
// after a file that cannot be read, too.
func ReadAudit(file string, filter AuditFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		files, err := olderFiles(file)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for _, o := range files {
			// What was put aside before Since has nothing to say.
			if o.at.Add(time.Second).Before(filter.Since) {
				continue
			}
			if !readAudit(o.name, &filter, yield) {
				return
			}
		}
		readAudit(file, &filter, yield)
	}
}

func readAudit(name string, filter *AuditFilter, yield func(Event, error) bool) bool {
	f, err := os.Open(name)
	if err != nil {
		return yield(Event{}, err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	for n := 1; s.Scan(); n++ {
		var e Event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			if !yield(Event{}, fmt.Errorf("%s:%d: no audit record: %w", name, n, err)) {
				return false
			}
			continue
		}
		if filter.Match(&e) && !yield(e, nil) {
			return false
		}
	}
	if err := s.Err(); err != nil {
		return yield(Event{}, fmt.Errorf("%s: %w", name, err))
	}
	return true
}
