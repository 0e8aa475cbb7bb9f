package auth

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// AuditStep asks for a part of an audit log, the newest records first. However long
// the log is, a step reads a limited part of it.
type AuditStep struct {
	Filter AuditFilter
	// Oldest: the oldest records come first.
	Oldest bool
	// After is AuditPage.Next of the step before; empty: the step is the first one.
	After string
	// Limit is the number of records at most, Bytes how much of the log is read at most,
	// rounded to whole records. Zero is 100, and 64 MiB.
	Limit int
	Bytes int64
}

// AuditPage is a part of an audit log.
type AuditPage struct {
	Events []Event
	// Next is where the next step goes on; empty: the log has no more. Without any
	// record a step may have read as much as it may.
	Next    string
	Read    int64 // bytes of the log that were read
	Damaged int   // lines that are no records
}

// Defaults of a step.
const (
	stepRecords = 100
	stepBytes   = 64 << 20
	stepChunk   = 256 << 10 // bytes that are read at once
)

// ErrAuditCursor means that AuditStep.After is not the Next of a step.
var ErrAuditCursor = errors.New("this is not a position in an audit log")

// Step reads a part of the log, with all earlier records.
func (a *Audit) Step(q AuditStep) (AuditPage, error) {
	a.Flush()
	return ReadAuditStep(a.cfg.File, q)
}

// ReadAuditStep reads a part of a file and its rotated files.
func ReadAuditStep(file string, q AuditStep) (page AuditPage, err error) {
	if q.Limit <= 0 {
		q.Limit = stepRecords
	}
	if q.Bytes <= 0 {
		q.Bytes = stepBytes
	}
	files, err := openLog(file)
	if err != nil {
		return page, err
	}
	defer files.close()
	at, offset, err := files.find(q.After, q.Oldest)
	if err != nil {
		return page, err
	}
	step := 1
	if !q.Oldest {
		step = -1
	}
	for ; at >= 0 && at < len(files.list); at, offset = at+step, -1 {
		l := &files.list[at]
		if l.live == nil && l.before(q.Filter.Since) {
			continue // the file has no records since then
		}
		err := files.read(l, func(f io.ReaderAt, size int64, id string) {
			s := auditScan{q: &q, page: &page, f: f, at: offset, size: size, words: q.Filter.words()}
			if q.Oldest {
				s.forward()
			} else {
				s.backward()
			}
			if s.stopped {
				page.Next = id + "-" + strconv.FormatInt(s.at, 10)
			}
		})
		if err != nil {
			return page, err
		}
		if page.Next != "" {
			break
		}
	}
	return page, nil
}

// auditFiles are the files of a log, the oldest first.
type auditFiles struct{ list []auditFile }

type auditFile struct {
	aside
	live *os.File // the file to which records are added; nil: a rotated one
}

// openLog lists the files of a log. The newest is opened before the others are listed,
// so that none is missed if the server begins a new one meanwhile.
func openLog(file string) (files auditFiles, err error) {
	live, err := durable.OpenShared(file)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return files, err
	}
	defer func() {
		if err != nil && live != nil {
			_ = live.Close()
		}
	}()
	old, err := olderFiles(file)
	if err != nil {
		return files, err
	}
	if missing && len(old) == 0 {
		return files, fmt.Errorf("%s: %w", file, fs.ErrNotExist)
	}
	for _, o := range old {
		files.list = append(files.list, auditFile{aside: o})
	}
	if missing {
		return files, nil // the server has closed the last file too
	}
	is, err := live.Stat()
	if err != nil {
		return files, err
	}
	if n := len(old); n > 0 {
		if last, err := os.Stat(old[n-1].name); err == nil && os.SameFile(is, last) {
			files.list = files.list[:n-1] // it was renamed after it was opened
		}
	}
	files.list = append(files.list, auditFile{aside: aside{name: file}, live: live})
	return files, nil
}

func (fs auditFiles) close() {
	for _, l := range fs.list {
		if l.live != nil {
			_ = l.live.Close()
		}
	}
}

// read calls fn with a file, its size and what identifies it whatever its name is. A
// file that is empty or was removed is omitted.
func (auditFiles) read(l *auditFile, fn func(f io.ReaderAt, size int64, id string)) error {
	f := l.live
	if f == nil {
		var err error
		if f, err = durable.OpenShared(l.name); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		defer f.Close()
	}
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 {
		return err
	}
	// The first record identifies a file: it has a time in nanoseconds.
	first := make([]byte, min(fi.Size(), 4<<10))
	if _, err := f.ReadAt(first, 0); err != nil && err != io.EOF {
		return err
	}
	if i := bytes.IndexByte(first, '\n'); i >= 0 {
		first = first[:i]
	}
	sum := sha256.Sum256(first)
	fn(f, fi.Size(), hex.EncodeToString(sum[:8]))
	return nil
}

// find returns the file and the offset of a position; -1 is the end where reading
// begins. If its file was removed, what follows was too, or is all that is left.
func (fs auditFiles) find(position string, oldest bool) (at int, offset int64, err error) {
	if position == "" {
		if oldest {
			return 0, -1, nil
		}
		return len(fs.list) - 1, -1, nil
	}
	id, text, ok := strings.Cut(position, "-")
	offset, err = strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || offset < 0 || len(id) != 16 {
		return 0, 0, ErrAuditCursor
	}
	for at := range slices.Backward(fs.list) {
		found := false
		if err := fs.read(&fs.list[at], func(_ io.ReaderAt, size int64, is string) { found = is == id && offset <= size }); err != nil {
			return 0, 0, err
		}
		if found {
			return at, offset, nil
		}
	}
	if oldest {
		return 0, -1, nil
	}
	return -1, -1, nil
}

// auditScan reads the lines of one file.
type auditScan struct {
	q       *AuditStep
	page    *AuditPage
	f       io.ReaderAt
	at      int64 // where it goes on; -1 is the end where reading begins
	size    int64
	stopped bool     // the step has all that it may have
	words   [][]byte // of the filter
}

// words returns what the line of every record contains that a filter selects, as the
// log spells it. Most lines of a large log need not be decoded then.
func (f *AuditFilter) words() (list [][]byte) {
	for _, s := range []string{f.Who, f.Product, f.Node, f.Action} {
		if b, err := json.Marshal(s); err == nil && s != "" && !strings.ContainsAny(s, `*?\`) {
			list = append(list, b)
		}
	}
	return list
}

// line reads a line.
func (s *auditScan) line(b []byte) {
	if b = bytes.TrimSpace(b); len(b) == 0 {
		return
	}
	lacks := func(w []byte) bool { return !bytes.Contains(b, w) }
	if bytes.HasPrefix(b, []byte("{")) && bytes.HasSuffix(b, []byte("}")) && slices.ContainsFunc(s.words, lacks) {
		return
	}
	var e Event
	if len(b) > maxLine || json.Unmarshal(b, &e) != nil {
		s.page.Damaged++
		return
	}
	if s.q.Filter.Match(&e) {
		s.page.Events = append(s.page.Events, e)
	}
}

// full stops the scan if the step has all that it may have.
func (s *auditScan) full() bool {
	s.stopped = len(s.page.Events) >= s.q.Limit || s.page.Read >= s.q.Bytes
	return s.stopped
}

// forward reads from s.at on. A line without an end, which is being written, is left.
func (s *auditScan) forward() {
	s.at = max(s.at, 0)
	r := bufio.NewReaderSize(io.NewSectionReader(s.f, s.at, s.size-s.at), stepChunk)
	for !s.full() {
		b, err := r.ReadSlice('\n')
		n := int64(len(b))
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			b, err = r.ReadSlice('\n')
			n += int64(len(b))
		}
		if err != nil {
			return
		}
		if s.at, s.page.Read = s.at+n, s.page.Read+n; long {
			s.page.Damaged++
			continue
		}
		s.line(b)
	}
	s.stopped = s.stopped && s.at < s.size
}

// backward reads the lines that end at s.at or before.
func (s *auditScan) backward() {
	if s.at < 0 {
		s.at = s.size
	}
	var buf []byte  // what was read before s.at
	cut := false    // s.at is inside of a line
	longer := false // which is longer than a line may be
	low := s.at     // where buf begins
	if last := make([]byte, 1); s.at > 0 {
		_, err := s.f.ReadAt(last, s.at-1)
		cut = err != nil || last[0] != '\n'
		longer = cut && s.at < s.size // a step ended there
	}
	for s.at > 0 && !s.full() {
		end := len(buf)
		if !cut && end > 0 {
			end-- // the end of the line itself
		}
		i := bytes.LastIndexByte(buf[:end], '\n')
		if i < 0 && low > 0 {
			if len(buf) > maxLine {
				s.page.Read += int64(len(buf))
				s.at, buf, cut, longer = low, nil, true, true
			}
			more := make([]byte, min(low, stepChunk))
			if _, err := s.f.ReadAt(more, low-int64(len(more))); err != nil {
				return
			}
			low -= int64(len(more))
			buf = append(more, buf...)
			continue
		}
		line := buf[i+1 : end] // up to the beginning of the file if i is -1
		s.page.Read += int64(len(buf) - (i + 1))
		s.at, buf = low+int64(i+1), buf[:i+1]
		switch {
		case longer:
			s.page.Damaged++
		case !cut: // else it is being written
			s.line(line)
		}
		cut, longer = false, false
	}
	s.stopped = s.stopped && s.at > 0
}
