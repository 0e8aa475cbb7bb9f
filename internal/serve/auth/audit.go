package auth

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/glob"
	"github.com/symdepot/symdepot/internal/base/sorting"
)

// Event is one audit record: who read which file, when, from which address. It
// contains no secrets.
type Event struct {
	Time    time.Time `json:"time"`
	Node    string    `json:"node,omitempty"` // the server, of several
	Who     string    `json:"who,omitempty"`  // empty: anonymous
	Method  Method    `json:"method,omitempty"`
	TokenID string    `json:"token,omitempty"`
	Login   string    `json:"login,omitempty"`  // the id of the login of a program
	Remote  string    `json:"remote,omitempty"` // the client's address
	Agent   string    `json:"agent,omitempty"`  // the client's User-Agent

	Action   string   `json:"action"` // one of the actions
	Protocol string   `json:"protocol,omitempty"`
	Name     string   `json:"name,omitempty"` // of the file
	ID       string   `json:"id,omitempty"`
	Products []string `json:"products,omitempty"` // products that made the file visible
	Content  string   `json:"content,omitempty"`  // SHA-256, in hex
	Detail   string   `json:"detail,omitempty"`   // why, if a person said so
	Audience string   `json:"audience,omitempty"` // "public": the public form was sent; empty: the file
	Status   int      `json:"status,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"` // sent

	// Lost is the number of lost records before this one.
	Lost int64 `json:"lost,omitempty"`
}

// The actions of records.
const (
	ActionRead  = "read"  // a download of a file
	ActionPurge = "purge" // a transaction was purged: Name and ID name it, Detail says why
	// ActionForce is a promotion of a transaction whose coverage is less than its class demands: Name and ID
	// name it, Detail has both.
	ActionForce = "force"
	// ActionDump is what was done with a crash dump that is kept: Name and ID name it, Detail is read, stack or
	// delete.
	ActionDump = "dump"
)

// By fills in the identity.
func (e *Event) By(id *Identity) {
	e.Who, e.Method, e.TokenID, e.Login = id.Name, id.Method, id.TokenID, id.Login
}

// AuditConfig configures the audit log.
type AuditConfig struct {
	// File receives one JSON object a line. Rotated files are in the same
	// folder, as NAME-20060102T150405Z.EXT.
	File string
	// Node is the name of this server in every record; empty: none.
	Node string
	// MaxBytes is the size at which the file is rotated; zero is 64 MiB.
	MaxBytes int64
	// MaxAge is the age at which the file is rotated; zero is a day.
	MaxAge time.Duration
	// Keep is the number of rotated files that are kept; zero is 90, negative
	// is all.
	Keep int
	// Archive gets each closed file; nil: none. Close then closes the current
	// file too, because the folder may end with this machine.
	Archive Archive
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

const (
	// auditQueue bounds the records that wait for the disk.
	auditQueue = 4096
	// auditWait is how long a request waits if the queue is full.
	auditWait = 50 * time.Millisecond
	// maxField bounds the texts of a record, which clients choose, in bytes.
	maxField = 512
	// maxProducts bounds the products of a record.
	maxProducts = 32
	// maxLine bounds the lines that are read back, in bytes.
	maxLine = 256 << 10
)

// Audit writes audit records in the background. It is safe for concurrent use.
type Audit struct {
	off   bool // see NoAudit
	cfg   AuditConfig
	log   *slog.Logger
	queue chan Event
	flush chan chan struct{}
	lost  atomic.Int64

	mu     sync.RWMutex // held for reading while something is sent to queue
	closed bool
	done   chan struct{}
	err    error // of Close; valid once done is closed

	rotated  chan struct{} // tells archive that a file was closed
	archived chan struct{} // closed when archive has ended

	// The rest is used by the writing goroutine only.
	f       *os.File
	w       *bufio.Writer
	size    int64
	begun   time.Time // time of the first record in the file
	warned  time.Time // time of the last logged error
	waiting int64     // records in w
	stuck   error     // error of the last write
}

// OpenAudit opens or creates the file.
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
	a := &Audit{cfg: cfg, log: log, queue: make(chan Event, auditQueue), flush: make(chan chan struct{}), done: make(chan struct{}),
		rotated: make(chan struct{}, 1), archived: make(chan struct{})}
	if err := a.open(); err != nil {
		return nil, fmt.Errorf("cannot open the audit log: %w", err)
	}
	go a.run()
	if a.cfg.Archive == nil {
		close(a.archived)
	} else {
		go a.archive()
	}
	return a, nil
}

// Record records an event; a zero time means now. If the queue stays full for
// auditWait, the record is dropped and counted as lost.
func (a *Audit) Record(e Event) {
	if a.off {
		return
	}
	if e.Time.IsZero() {
		e.Time = a.cfg.Now()
	}
	e.Node = a.cfg.Node
	e.shorten()
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

// shorten redacts the texts of a record and limits their lengths.
func (e *Event) shorten() {
	e.Time = e.Time.UTC()
	for _, s := range []*string{&e.Who, &e.Remote, &e.Agent, &e.Action, &e.Protocol, &e.Name, &e.ID, &e.Content, &e.Detail} {
		*s = field(*s)
	}
	e.Products = slices.Clone(e.Products[:min(len(e.Products), maxProducts)])
	for i, p := range e.Products {
		e.Products[i] = field(p)
	}
}

// field redacts a text and limits its length.
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

// Flush returns once all earlier records have been written to the file.
func (a *Audit) Flush() {
	c := make(chan struct{})
	select {
	case a.flush <- c:
		<-c
	case <-a.done:
	}
}

// Close writes all queued records durably, and stores the file in the archive, if
// there is one. Later records are lost.
func (a *Audit) Close() error {
	a.mu.Lock()
	if !a.closed {
		a.closed = true
		close(a.queue)
	}
	a.mu.Unlock()
	<-a.done
	<-a.archived
	return a.err
}

func (a *Audit) run() {
	defer close(a.done)
	for {
		select {
		case e, ok := <-a.queue:
			if !ok {
				if a.err = a.end(); a.err == nil && a.cfg.Archive != nil && a.size > 0 {
					a.err = a.putAside()
				}
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

// push writes the buffered records to the file.
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

// write writes a record and rotates the file if it is due.
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

// check logs a failure, at most once a minute. All buffered records count as lost,
// although some may have been written.
func (a *Audit) check(err error) {
	a.stuck = err
	if err != nil {
		a.lost.Add(a.waiting)
		a.waiting = 0
	}
	if now := a.cfg.Now(); err != nil && !fresh(a.warned, now, time.Minute) {
		a.warned = now
		a.log.Error("cannot write audit records", "error", err)
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

// resume returns the size of an existing file and the time of its first record. It
// ends a line that a crash truncated.
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

// split splits the file's path for the names of rotated files.
func split(file string) (stem, ext string) {
	ext = filepath.Ext(file)
	return strings.TrimSuffix(file, ext), ext
}

const stamp = "20060102T150405Z"

// rotate renames the file and begins a new one. After a failed write it opens the
// file again.
func (a *Audit) rotate() error {
	if a.stuck != nil {
		_ = a.end() // the failure was logged
		return a.open()
	}
	err := a.end()
	if err == nil {
		a.waiting = 0
		err = a.putAside()
	}
	return errors.Join(err, a.open())
}

// putAside renames the closed file and removes the oldest rotated files.
func (a *Audit) putAside() error {
	old, err := olderFiles(a.cfg.File)
	if err != nil {
		return err
	}
	next := aside{at: a.cfg.Now().UTC().Truncate(time.Second), n: 1}
	if len(old) > 0 {
		// The names keep the order even if the clock is set back.
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
	select {
	case a.rotated <- struct{}{}:
	default:
	}
	if drop := len(old) + 1 - a.cfg.Keep; a.cfg.Keep > 0 && drop > 0 {
		for _, o := range old[:drop] {
			err = errors.Join(err, os.Remove(o.name))
		}
	}
	return err
}

// aside is a rotated file and its time; n numbers those of one second.
type aside struct {
	name string
	at   time.Time
	n    int
}

// olderFiles returns the rotated files, the oldest first.
func olderFiles(file string) ([]aside, error) {
	stem, ext := split(file)
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	var out []aside
	for _, e := range entries {
		if o, ok := parseAside(filepath.Base(stem), ext, e.Name()); ok {
			o.name = filepath.Join(filepath.Dir(file), e.Name())
			out = append(out, o)
		}
	}
	sorting.By(out, aside.compare)
	return out, nil
}

// compare orders rotated files by age, the oldest first.
func (a aside) compare(b aside) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.n, b.n)) }

// parseAside reads the name of a rotated file without its folder.
func parseAside(stem, ext, name string) (a aside, ok bool) {
	rest, ok := strings.CutPrefix(name, stem+"-")
	if !ok {
		return a, false
	}
	if rest, ok = strings.CutSuffix(rest, ext); !ok {
		return a, false
	}
	when, count, numbered := strings.Cut(rest, ".")
	a.name, a.n = name, 1
	var err error
	if a.at, err = time.Parse(stamp, when); err != nil {
		return a, false
	}
	if numbered {
		if a.n, err = strconv.Atoi(count); err != nil {
			return a, false
		}
	}
	return a, true
}

// AuditFilter selects records. Empty fields select all.
type AuditFilter struct {
	Since, Until time.Time // Until is exclusive
	Who          string    // a name, a token's id, or a pattern with * and ?
	Node         string    // the name of a server
	Remote       string    // an address or the beginning of one
	Action       string
	Product      string
	Name         string // of a file, without regard to case; a pattern with * and ?
	ID           string // without regard to case
}

// Match reports whether the filter selects a record.
func (f *AuditFilter) Match(e *Event) bool {
	return (f.Since.IsZero() || !e.Time.Before(f.Since)) &&
		(f.Until.IsZero() || e.Time.Before(f.Until)) &&
		(f.Who == "" || e.TokenID == f.Who || glob.Match(f.Who, e.Who)) &&
		(f.Node == "" || e.Node == f.Node) &&
		strings.HasPrefix(e.Remote, f.Remote) &&
		(f.Action == "" || e.Action == f.Action) &&
		(f.Product == "" || slices.Contains(e.Products, f.Product)) &&
		(f.Name == "" || glob.Match(strings.ToLower(f.Name), strings.ToLower(e.Name))) &&
		(f.ID == "" || strings.EqualFold(f.ID, e.ID))
}

// ReadAudit yields the records that the filter selects from a file and its
// rotated files, oldest first. For an invalid line, such as one that is being
// written, and for an unreadable file it yields an error and continues.
func ReadAudit(file string, filter AuditFilter) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		files, err := olderFiles(file)
		if err != nil {
			yield(Event{}, err)
			return
		}
		for _, o := range files {
			if o.before(filter.Since) {
				continue
			}
			if !readAudit(o.name, &filter, yield) {
				return
			}
		}
		if _, err := os.Stat(file); len(files) > 0 && errors.Is(err, fs.ErrNotExist) {
			return // the server has closed the last file too
		}
		readAudit(file, &filter, yield)
	}
}

// before reports whether a file was rotated before a time: it has no records since
// then.
func (a aside) before(since time.Time) bool { return a.at.Add(time.Second).Before(since) }

// ReadAudits is ReadAudit for the files of several servers, merged by time. Records of
// the same nanosecond are ordered by the name of their server; those of one server keep
// the order of its file. So the order does not depend on that of files. A record that
// two of the logs have is yielded once.
func ReadAudits(files []string, filter AuditFilter) iter.Seq2[Event, error] {
	logs := make([]iter.Seq2[Event, error], len(files))
	for i, f := range files {
		logs[i] = ReadAudit(f, filter)
	}
	return MergeAudits(logs)
}

// MergeAudits merges the records of several servers, each of which comes in the order
// of time, as ReadAudits does.
func MergeAudits(logs []iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	if len(logs) == 1 {
		return logs[0]
	}
	type source struct {
		next  func() (Event, error, bool)
		event Event // the next one
	}
	return func(yield func(Event, error) bool) {
		var sources []*source
		var last Event   // the last record that was yielded
		var from *source // its source
		// advance reads the next record of a source. It returns false at its end, and
		// stops the whole reading if yield does.
		stopped := false
		advance := func(s *source) bool {
			for {
				e, err, ok := s.next()
				if !ok {
					return false
				}
				if err == nil {
					s.event = e
					return true
				}
				if !yield(e, err) {
					stopped = true
					return false
				}
			}
		}
		for _, log := range logs {
			next, stop := iter.Pull2(log)
			defer stop()
			s := &source{next: next}
			if advance(s) {
				sources = append(sources, s)
			}
			if stopped {
				return
			}
		}
		for len(sources) > 0 {
			first := slices.MinFunc(sources, func(a, b *source) int {
				return cmp.Or(a.event.Time.Compare(b.event.Time), cmp.Compare(a.event.Node, b.event.Node))
			})
			// A closed file may be read from its folder and from an archive.
			if again := from != nil && from != first && reflect.DeepEqual(first.event, last); !again {
				if !yield(first.event, nil) {
					return
				}
				last, from = first.event, first
			}
			if !advance(first) {
				sources = slices.DeleteFunc(sources, func(s *source) bool { return s == first })
			}
			if stopped {
				return
			}
		}
	}
}

func readAudit(name string, filter *AuditFilter, yield func(Event, error) bool) bool {
	f, err := durable.OpenShared(name) // the server may rename and remove it meanwhile
	if err != nil {
		return yield(Event{}, err)
	}
	defer f.Close()
	return readRecords(f, name, filter, yield)
}

func readRecords(f io.Reader, name string, filter *AuditFilter, yield func(Event, error) bool) bool {
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 0, 4096), maxLine)
	for n := 1; s.Scan(); n++ {
		var e Event
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			if !yield(Event{}, fmt.Errorf("%s:%d: not an audit record: %w", name, n, err)) {
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

// Archive keeps closed audit files at a place that outlives this machine.
type Archive interface {
	// Names returns the names of this server's files in the archive.
	Names(ctx context.Context) (map[string]bool, error)
	// Put stores a file. Storing the same file twice is no error.
	Put(ctx context.Context, name string, size int64, r io.ReaderAt) error
}
