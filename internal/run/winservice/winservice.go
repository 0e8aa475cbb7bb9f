// Package winservice runs the server as a service of Windows: the registration with
// the service manager, the event log, the folder with configuration, depot and log.
// Only programs for Windows link it.
package winservice

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"unicode/utf16"
)

// depotName is the name of the depot of a new service, in its folder.
const depotName = "depot"

// WriteFirst writes the configuration that a new service gets, unless there is one.
// Its depot is in the same folder.
func WriteFirst(file string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if os.IsExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(firstConfig(filepath.Join(filepath.Dir(file), depotName)))
	return errors.Join(err, f.Close())
}

// firstConfig is the configuration of a new service with a depot.
func firstConfig(depot string) string {
	return `# Configuration of the service. "symdepot config print" prints every key; check a
# change with "symdepot config check FILE", then restart the service:
# "symdepot service stop" and "symdepot service start".

depot:
  dir: '` + strings.ReplaceAll(depot, "'", "''") + `'

# Only this machine reaches the server. For others: 0.0.0.0:8080, and either
# "public: true", or rights in auth.
listen: 127.0.0.1:8080

# Download what the depot does not have, for instance:
# upstreams: [microsoft]
`
}

// accountID returns the security identifier of the account that Windows gives to a
// service (NT SERVICE\NAME): a hash of its name. It exists before the service does.
func accountID(service string) string {
	h := sha1.New() // by Windows' definition
	for _, unit := range utf16.Encode([]rune(strings.ToUpper(service))) {
		_ = binary.Write(h, binary.LittleEndian, unit)
	}
	id := "S-1-5-80"
	for sum := h.Sum(nil); len(sum) >= 4; sum = sum[4:] {
		id += fmt.Sprintf("-%d", binary.LittleEndian.Uint32(sum))
	}
	return id
}

// folderRights says who may use the folder of a service: Windows itself, its
// administrators, and the service. Nothing is inherited from the folder above, where
// every user of the machine may make files. What is in the folder inherits these rights
// (OICI), whoever makes it: so the service may use what an administrator adds to its depot.
func folderRights(service string) string {
	rights := "O:BAD:P"
	for _, who := range []string{"SY", "BA", accountID(service)} {
		rights += "(A;OICI;FA;;;" + who + ")"
	}
	return rights
}

// severity is a kind of event.
type severity int

const (
	info severity = iota
	warning
	failure
)

// severityOf returns the kind of a line of the log, and whether the event log gets
// it: warnings and errors do, requests do not.
func severityOf(line []byte) (severity, bool) {
	var record struct{ Level string }
	if json.Unmarshal(line, &record) != nil {
		return failure, true // not of the log: a message of the command itself
	}
	switch record.Level {
	case "WARN":
		return warning, true
	case "ERROR":
		return failure, true
	}
	return info, false
}

// Logs takes the lines of a server's log. It writes them to a file, and warnings and
// errors to the event log too. Its methods may be called by many goroutines: the log and
// messages of the command come from several.
type Logs struct {
	file *rotated
	tell func(severity, string)

	mu   sync.Mutex // held for a whole Write
	rest []byte     // a line whose end has not been written yet
}

// Write implements io.Writer.
func (l *Logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		line, rest, ok := bytes.Cut(l.rest, []byte("\n"))
		if !ok {
			break
		}
		if kind, ok := severityOf(line); ok && len(line) > 0 {
			l.tell(kind, string(line))
		}
		l.rest = rest
	}
	return l.file.Write(p)
}

// Limits of the log.
const (
	maxLog   = 64 << 20 // bytes of one file
	keptLogs = 8        // older files
	// A file that cannot be moved away, because somebody reads it, grows by the 16th part of
	// its limit before the next attempt.
	againShare = 16
)

// rotated is a log file that is moved away when it is large: symdepot.log becomes
// symdepot.log.1, and so on.
type rotated struct {
	path   string
	max    int64
	rename func(from, to string) error
	crash  func(*os.File) // makes a file the one that gets the text of a crash; nil: none
	f      *os.File
	size   int64
	next   int64 // the size at which it is moved away
}

// openRotated opens or makes a log file.
func openRotated(path string, limit int64) (*rotated, error) {
	r := &rotated{path: path, max: limit, rename: os.Rename}
	return r, r.open()
}

func (r *rotated) open() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	at, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.f, r.size, r.next = f, at.Size(), r.max
	r.keepCrash(f)
	return nil
}

// withCrashes has the file get the text of a crash too. tell gets why it will not.
func (r *rotated) withCrashes(tell func(error)) {
	r.crash = func(f *os.File) {
		if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
			tell(err)
		}
	}
	r.keepCrash(r.f)
}

// keepCrash has a file get the text of a crash; nil: none does.
func (r *rotated) keepCrash(f *os.File) {
	if r.crash != nil {
		r.crash(f)
	}
}

// Write implements io.Writer. A write is never divided between two files.
func (r *rotated) Write(p []byte) (int, error) {
	if r.f == nil || r.size > 0 && r.size+int64(len(p)) > r.next {
		if err := r.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := r.f.Write(p)
	r.size += int64(n)
	return n, err
}

// rotate moves the file away and opens a new one. After an error there is no open file, and
// the next write tries again.
func (r *rotated) rotate() error {
	if r.f != nil {
		r.keepCrash(nil) // its copy of the open file would keep Windows from moving it
		err := r.f.Close()
		if r.f = nil; err != nil {
			return err
		}
	}
	// The file itself goes first: as long as somebody reads it, the older ones stay too.
	_ = (!exists(r.old(0)) || r.shift()) && r.rename(r.path, r.old(0)) == nil && r.shift()
	if err := r.open(); err != nil {
		return err
	}
	if r.size > 0 { // it is where it was
		r.next = r.size + max(r.max/againShare, 1)
	}
	return nil
}

// old is the path of an older file; 0 is the one that was moved away last, until shift.
func (r *rotated) old(i int) string { return fmt.Sprintf("%s.%d", r.path, i) }

// shift gives each older file the next number, up to the first number that is free; if none
// is, the oldest file is forgotten. It reports whether it could.
func (r *rotated) shift() bool {
	free := 1
	for free < keptLogs && exists(r.old(free)) {
		free++
	}
	for i := free; i > 0; i-- {
		if r.rename(r.old(i-1), r.old(i)) != nil {
			return false
		}
	}
	return true
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Close closes the file.
func (r *rotated) Close() error {
	if r.f == nil {
		return nil
	}
	r.keepCrash(nil)
	return r.f.Close()
}
