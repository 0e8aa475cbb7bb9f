package intake

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/depot/stage"
)

// A run of sentry-cli survives the process. Its file has a line with its facts, then
// a line for everything that happens to one of its files. Stored contents are in
// the stage, chunks are in their folder.

const (
	// runPattern matches the files of runs. The first part of the name is the hash of
	// the run's key.
	runPattern = "run-*.jsonl"
	// runAsleep is the time after its last use at which a run of a process that has ended continues
	// without a request: clients may leave while files are assembled. Processes touch
	// the files of their runs every minute.
	runAsleep = 3 * time.Minute
	// maxRunState limits the file of a run, in bytes.
	maxRunState = 128 << 20
)

// runFacts is the record of a run.
type runFacts struct {
	Key   string // principal, organization and labels
	Shelf string // the folder of its chunks
	keeper
	Product string
	Stage   string
}

// runEvent is a line of a run's file. Members of a file that are empty do not change.
type runEvent struct {
	Run       *runFacts      `json:"run,omitempty"`
	File      string         `json:"file,omitempty"` // SHA-1
	Ask       *assembleFile  `json:"ask,omitempty"`
	State     string         `json:"state,omitempty"` // ok, error or assembling
	Detail    string         `json:"detail,omitempty"`
	DIF       *dif           `json:"dif,omitempty"`
	Receipt   *stage.Receipt `json:"receipt,omitempty"`
	Delivered bool           `json:"delivered,omitempty"`
	Ended     bool           `json:"ended,omitempty"`
	// Credential is Who.Credential of a later request with others.
	Credential string `json:"credential,omitempty"`
}

// runName is the beginning of the names of the files of runs with a key.
func runName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "run-" + hex.EncodeToString(sum[:12]) + "-"
}

func runPath(h *sentryState, f *runFacts) string {
	return filepath.Join(h.cfg.Dir, runName(f.Key)+f.Stage+".jsonl")
}

// record appends lines to the file of the run. If that fails, the run does not
// survive the process. The run's mutex is held, or nobody else has the run yet.
func (r *sentryRun) record(h *sentryState, list ...runEvent) {
	if r.mute || len(list) == 0 {
		return
	}
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	var err error
	for _, e := range list {
		err = errors.Join(err, lines.Encode(e))
	}
	var n int64
	if err == nil {
		err = h.reserve(int64(b.Len()))
	}
	if err == nil {
		if n, err = appendTo(r.path, b.Bytes()); err != nil {
			h.spooled.Add(-int64(b.Len()))
		}
	}
	if err != nil {
		if r.mute = true; r.logged == 0 {
			_ = os.Remove(r.path) // it is empty, or was not made
		}
		h.log.Warn("an upload does not survive a restart of the server: its state cannot be written", "protocol", "sentry", "error", err)
		return
	}
	r.logged += n
}

// appendTo appends bytes to a file, which it makes if needed, or leaves it as it
// was. It returns the number of bytes.
func appendTo(path string, b []byte) (int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err == nil {
		if _, err = f.Write(b); err != nil {
			_ = f.Truncate(info.Size()) // a reader stops at a line without an end
		}
	}
	return int64(len(b)), errors.Join(err, f.Close())
}

// drop removes the file of the run. The run's mutex is held.
func (r *sentryRun) drop(h *sentryState) {
	if r.logged > 0 {
		_ = os.Remove(r.path) // otherwise it expires
	}
	h.spooled.Add(-r.logged)
	r.logged, r.mute = 0, true
}

// readRun reads the run in a file. A line that was not written to its end ends the
// file.
func readRun(h *sentryState, path string) (*sentryRun, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := json.NewDecoder(io.LimitReader(f, maxRunState))
	var head runEvent
	if err := lines.Decode(&head); err != nil {
		return nil, err
	}
	if head.Run == nil || runPath(h, head.Run) != path {
		return nil, errors.New("it is not the file of a run")
	}
	r := newSentryRun(h, head.Run)
	if head.Run.ID == "" {
		r.unowned = true
		r.caller = stage.Caller{ID: stage.NamedOwner + head.Run.Name, Name: head.Run.Name, Read: r.caller.Read, Write: r.caller.Write}
	}
	for r.logged = lines.InputOffset(); ; r.logged = lines.InputOffset() {
		var e runEvent
		err := lines.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if err := f.Truncate(r.logged); err != nil {
				return nil, err
			}
			if _, err := f.WriteAt([]byte{'\n'}, r.logged); err != nil {
				return nil, err
			}
			break
		}
		r.apply(&e)
	}
	r.left = map[string]*assembleFile{}
	for sum, f := range r.files {
		if f.state == stateAssembling {
			f.state, r.left[sum] = stateNotFound, &assembleFile{}
		}
	}
	return r, nil
}

// apply changes a run that is read by a line of its file.
func (r *sentryRun) apply(e *runEvent) {
	r.ended = r.ended || e.Ended
	if e.Credential != "" {
		r.credential.Store(&e.Credential)
	}
	if e.File == "" {
		return
	}
	f := r.files[e.File]
	if f == nil {
		f = &sentryFile{state: stateNotFound}
		r.files[e.File] = f
	}
	if e.Ask != nil {
		f.assembleFile = *e.Ask
	}
	if e.State != "" {
		f.state, f.detail, f.dif, f.receipt = e.State, e.Detail, e.DIF, e.Receipt
	}
	f.delivered = f.delivered || e.Delivered
}

// wake loads the runs of processes that have ended whose files' names match a
// pattern, unless they were used a short time ago, and continues their work.
// Damaged files are removed.
func (s *sentryState) wake(pattern string, while time.Duration) (n int) {
	s.waking.Lock()
	defer s.waking.Unlock()
	now := s.now()
	for _, path := range filesOf(s.service, pattern) {
		info, err := os.Stat(path)
		if err != nil || now.Sub(info.ModTime()) < while || s.awake(path) {
			continue
		}
		r, err := readRun(s, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			s.log.Warn("the state of an upload cannot be read", "protocol", "sentry", "file", path, "error", err)
			_ = os.Remove(path) // it would be read again
			continue
		}
		s.spooled.Add(r.logged)
		if r.unowned {
			r.recheck(s)
			r.close(s)
			continue
		}
		r.used = info.ModTime()
		s.mu.Lock()
		s.runs = append(s.runs, r)
		slices.SortStableFunc(s.runs, func(a, b *sentryRun) int { return a.used.Compare(b.used) })
		s.mu.Unlock()
		r.recheck(s)
		r.begin(s, r.left)
		n++
	}
	return n
}

// recheck looks for the files that a process before this one has stored and has no
// receipt of: earlier versions kept one of several files of a name. What the stage does
// not have is sent again, or ends the run without it.
func (r *sentryRun) recheck(h *sentryState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	for sum, f := range r.files {
		if f.state != stateOK || f.receipt != nil {
			continue
		}
		receipt, held, err := h.stages.Staged(h.ctx, r.caller, r.stage, sum)
		switch {
		case err != nil:
			h.log.Warn("an upload that continues cannot be checked", "protocol", "sentry", "error", err)
			return
		case held:
			f.receipt = &receipt
			r.record(h, runEvent{File: sum, State: f.state, DIF: f.dif, Receipt: f.receipt})
		default:
			h.log.Warn("a file that an earlier version of this program had accepted is not there", "protocol", "sentry", "sha1", sum, "name", f.Name)
			f.state, f.dif, f.delivered, r.left[sum] = stateNotFound, nil, false, &assembleFile{}
		}
	}
}

// close ends a run of an earlier version, which did not keep whose credentials it has: nobody
// can go on with it. What its client was told to be stored is committed.
func (r *sentryRun) close(h *sentryState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.commit(h)
	}
	if r.ended {
		h.log.Info("an upload that an earlier version began has ended; its client sends the rest as a new one", "protocol",
			"sentry", "stage", r.stage)
		r.drop(h)
	}
}

// awake reports whether this process has the run of a file.
func (s *sentryState) awake(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.runs, func(r *sentryRun) bool { return r.path == path })
}

// resume continues runs of processes that have ended, whose clients may have
// left, and keeps those of this process from being taken over.
func (s *sentryState) resume() {
	now := s.now()
	s.mu.Lock()
	own := slices.Clone(s.runs)
	s.mu.Unlock()
	for _, r := range own {
		r.mu.Lock()
		if r.logged > 0 {
			_ = os.Chtimes(r.path, now, now) // another process might continue, too: a commit is made once
		}
		r.mu.Unlock()
	}
	s.wake(runPattern, runAsleep)
}
