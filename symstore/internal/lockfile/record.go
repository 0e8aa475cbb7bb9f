package lockfile

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	recordSize = 512 // bytes
	// An owner renews its record every renewEvery. After silence without a
	// renewal other writers take the lock over. That allows for several
	// renewals that are lost on a slow network.
	renewEvery = 5 * time.Second
	silence    = 30 * time.Second
)

// record is the content of the lock file.
type record struct {
	generation uint64
	token      string // empty: no owner
	owner      string // host and process, for messages
	since      time.Time
	renewed    time.Time
}

// String formats the record for the file. Padding to a fixed size lets one
// write replace it.
func (r record) String() string {
	s := fmt.Sprintf("symdepot lock\r\ngeneration %d\r\ntoken %s\r\nowner %s\r\nsince %s\r\nrenewed %s\r\n",
		r.generation, r.token, r.owner, r.since.UTC().Format(time.RFC3339), r.renewed.UTC().Format(time.RFC3339Nano))
	if len(s) > recordSize-2 {
		s = s[:recordSize-2]
	}
	return s + strings.Repeat(" ", recordSize-2-len(s)) + "\r\n"
}

func parseRecord(data []byte) record {
	var r record
	for line := range strings.Lines(string(data)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "generation":
			// An unreadable record has generation 0.
			r.generation, _ = strconv.ParseUint(rest, 10, 32)
		case "token":
			r.token = rest
		case "owner":
			r.owner = rest
		case "since":
			r.since, _ = time.Parse(time.RFC3339, rest)
		case "renewed":
			r.renewed, _ = time.Parse(time.RFC3339Nano, rest)
		}
	}
	return r
}

func (r record) describe() string {
	if r.token == "" {
		return "by a writer that has not written its name yet"
	}
	return fmt.Sprintf("by %s since %s", r.owner, r.since.Local().Format(time.DateTime))
}

// watcher measures how long a record has not changed. It uses the clock of this
// machine only, because the clocks of others may be wrong.
type watcher struct {
	seen  string
	since time.Time
}

// silent reports whether the record has not changed for too long.
func (w *watcher) silent(record []byte) bool {
	if w.since.IsZero() || w.seen != string(record) {
		w.seen, w.since = string(record), time.Now()
	}
	return time.Since(w.since) >= silence
}
