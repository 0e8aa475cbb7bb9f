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
	"strings"
	"unicode/utf16"
)

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
	_, err = f.WriteString(firstConfig(filepath.Join(filepath.Dir(file), "depot")))
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
// every user of the machine may make files.
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
// errors to the event log too.
type Logs struct {
	file *rotated
	tell func(severity, string)
	rest []byte // a line whose end has not been written yet
}

// Write implements io.Writer.
func (l *Logs) Write(p []byte) (int, error) {
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
)

// rotated is a log file that is moved away when it is large: symdepot.log becomes
// symdepot.log.1, and so on.
type rotated struct {
	path string
	max  int64
	f    *os.File
	size int64
}

// openRotated opens or makes a log file.
func openRotated(path string, limit int64) (*rotated, error) {
	r := &rotated{path: path, max: limit}
	return r, r.open()
}

func (r *rotated) open() error {
	f, err := os.OpenFile(r.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	at, err := f.Stat()
	if err != nil {
		return err
	}
	r.f, r.size = f, at.Size()
	return nil
}

// Write implements io.Writer. A write is never divided between two files.
func (r *rotated) Write(p []byte) (int, error) {
	if r.size > 0 && r.size+int64(len(p)) > r.max {
		if err := r.f.Close(); err != nil {
			return 0, err
		}
		for i := keptLogs; i > 0; i-- {
			from := r.path
			if i > 1 {
				from = fmt.Sprintf("%s.%d", r.path, i-1)
			}
			if err := os.Rename(from, fmt.Sprintf("%s.%d", r.path, i)); err != nil && !os.IsNotExist(err) {
				break // somebody reads the file; it grows until the next attempt
			}
		}
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	n, err := r.f.Write(p)
	r.size += int64(n)
	return n, err
}

// Close closes the file.
func (r *rotated) Close() error { return r.f.Close() }
