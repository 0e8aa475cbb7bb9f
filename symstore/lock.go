package symstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Locking is how writers exclude each other. All writers of one store must use the
// same.
type Locking uint8

const (
	// LockOS locks a byte of 000Admin/symdepot.lock with the operating system.
	// The lock ends with the process. A file system without locks gives
	// ErrNoLocks.
	LockOS Locking = iota
	// LockFile makes the file 000Admin/symdepot.lockfile, which works on any
	// file system. After a crash the next writer waits for half a minute.
	LockFile
	// LockNone takes no lock: for a store with a single writer.
	LockNone
)

const (
	lockName     = adminDir + "/symdepot.lock"
	lockFileName = adminDir + "/symdepot.lockfile"
	// An owner renews its record every renewEvery. After silence without a
	// renewal other writers take the lock over. That allows for several
	// renewals that are lost on a slow network.
	renewEvery = 5 * time.Second
	silence    = 30 * time.Second
	// foreignStale is the age from which other tools ignore their own lock
	// files.
	foreignStale = 24 * time.Hour

	recordSize = 512
	// The bytes to be locked, all beyond the record. The guard is held briefly,
	// to change the record. Each take-over moves to the next byte after
	// firstByte, because the silent owner may still hold the old one.
	guardByte = 1 << 16
	firstByte = 1 << 20
)

// foreignLocks are the lock files of other tools, in the root of the store.
var foreignLocks = []string{"_lockfile.sem", "SymStoreAdapter.lock"}

// lockRecord is the content of the lock file.
type lockRecord struct {
	generation uint64
	token      string // empty: no owner
	owner      string // host and process, for messages
	since      time.Time
	renewed    time.Time
}

// String formats the record for the file. Padding to a fixed size lets one
// write replace it.
func (r lockRecord) String() string {
	s := fmt.Sprintf("symdepot lock\r\ngeneration %d\r\ntoken %s\r\nowner %s\r\nsince %s\r\nrenewed %s\r\n",
		r.generation, r.token, r.owner, r.since.UTC().Format(time.RFC3339), r.renewed.UTC().Format(time.RFC3339Nano))
	if len(s) > recordSize-2 {
		s = s[:recordSize-2]
	}
	return s + strings.Repeat(" ", recordSize-2-len(s)) + "\r\n"
}

func parseLockRecord(data []byte) lockRecord {
	var r lockRecord
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

func (r lockRecord) describe() string {
	if r.token == "" {
		return "by a writer that has not written its name yet"
	}
	return fmt.Sprintf("by %s since %s", r.owner, r.since.Local().Format(time.DateTime))
}

// processLock is shared by the writers of one process for one store. They queue
// here first, so that a process never has the lock file open twice.
type processLock struct{ turn chan struct{} }

var processLocks sync.Map // absolute root to *processLock

func processLockOf(root string) *processLock {
	l, _ := processLocks.LoadOrStore(root, &processLock{turn: make(chan struct{}, 1)})
	return l.(*processLock)
}

// lock is the right to publish changes of a store.
type lock struct {
	j      *journal
	mode   Locking
	token  string
	record lockRecord
	file   *os.File // of LockOS
	lost   atomic.Bool
	stop   chan struct{}
	renew  sync.WaitGroup
	dead   []*workspace // folders of dead writers, to be removed after the lock
}

// lock waits for the right to publish.
func (j *journal) lock(ctx context.Context) (*lock, error) {
	if j.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	limit := time.NewTimer(j.opt.LockWait)
	defer limit.Stop()
	select {
	case j.process.turn <- struct{}{}:
	case <-limit.C:
		return nil, fmt.Errorf("%w by this process", ErrLocked)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l, err := j.lockQueued(ctx, limit.C)
	if err != nil {
		<-j.process.turn
		return nil, err
	}
	if err := j.recoverAll(ctx, l); err != nil {
		l.unlock()
		return nil, err
	}
	return l, nil
}

func (j *journal) lockQueued(ctx context.Context, limit <-chan time.Time) (*lock, error) {
	if err := j.tree.MkdirAll(adminDir, 0o777); err != nil {
		return nil, wrapError(err)
	}
	l := &lock{j: j, mode: j.opt.Locking, token: j.opt.Token(), stop: make(chan struct{})}
	now := j.opt.Now()
	host, _ := os.Hostname() // for messages only
	l.record = lockRecord{token: l.token, owner: fmt.Sprintf("%s process %d", host, os.Getpid()), since: now, renewed: now}
	if l.mode == LockOS {
		var err error
		if l.file, err = j.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
			return nil, wrapError(err)
		}
	}
	err := l.acquire(ctx, limit)
	if err != nil {
		if l.file != nil {
			l.file.Close()
		}
		return nil, err
	}
	if l.mode != LockNone {
		l.renew.Go(l.keep)
	}
	return l, nil
}

// acquire retries until it has the lock. The pauses grow from 1 to 20 ms and are
// random, so that many writers do not retry at the same time.
func (l *lock) acquire(ctx context.Context, limit <-chan time.Time) error {
	var watch watcher
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		held, err := l.try(&watch)
		if err != nil || held == "" {
			return err
		}
		timer := time.NewTimer(wait/2 + rand.N(wait))
		select {
		case <-timer.C:
		case <-limit:
			timer.Stop()
			return fmt.Errorf("%w %s", ErrLocked, held)
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
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

// try tries once to get the lock. held describes the present owner; it is empty
// if l has the lock.
func (l *lock) try(watch *watcher) (held string, err error) {
	if name := l.j.foreignLock(l.mode); name != "" {
		return "by another tool: " + name + " exists", nil
	}
	switch l.mode {
	case LockOS:
		return l.tryOS(watch)
	case LockFile:
		return l.tryFile(watch)
	}
	return "", nil
}

// foreignLock returns the name of another tool's lock file that is still valid.
func (j *journal) foreignLock(mode Locking) string {
	for _, name := range foreignLocks {
		if info, err := j.root.Stat(name); err == nil && j.opt.Now().Sub(info.ModTime()) < foreignStale {
			return name
		}
	}
	if mode == LockOS {
		// This is a writer with LockFile. The limit of a minute is longer than
		// the silence after which other writers with LockFile take over.
		if info, err := j.root.Stat(lockFileName); err == nil && j.opt.Now().Sub(info.ModTime()) < 2*silence {
			return lockFileName
		}
	}
	return ""
}

func (l *lock) readRecord() ([]byte, error) {
	buf := make([]byte, recordSize)
	n, err := l.file.ReadAt(buf, 0)
	if fileEnd(err) {
		err = nil // a new file, or a file of another program
	}
	return buf[:n], err
}

func (l *lock) tryOS(watch *watcher) (string, error) {
	raw, err := l.readRecord()
	if err != nil {
		return "", wrapError(err)
	}
	have := parseLockRecord(raw)
	at := firstByte + int64(have.generation)
	ok, err := l.j.opt.osLock(l.file, at)
	if err != nil {
		if refusesLocks(err) {
			return "", fmt.Errorf("%w: %w", ErrNoLocks, err)
		}
		return "", err
	}
	if ok {
		again, err := l.readRecord()
		if err == nil && parseLockRecord(again).generation == have.generation {
			l.record.generation = have.generation
			return "", l.sign()
		}
		_ = unlock(l.file, at) // a lock of an outdated byte
		return "in turn", err
	}
	if !watch.silent(raw) {
		return have.describe(), nil
	}
	return l.takeOver(raw, have)
}

// takeOver takes the lock of a silent owner and moves it to the next byte.
func (l *lock) takeOver(raw []byte, have lockRecord) (string, error) {
	if ok, err := tryLock(l.file, guardByte); err != nil || !ok {
		return have.describe(), err
	}
	defer func() { _ = unlock(l.file, guardByte) }()
	now, err := l.readRecord()
	if err != nil || string(now) != string(raw) {
		return have.describe(), err
	}
	next := (have.generation + 1) % (1 << 16)
	ok, err := tryLock(l.file, firstByte+int64(next))
	if err != nil || !ok {
		return have.describe(), err
	}
	l.record.generation = next
	_, err = l.file.WriteAt([]byte(l.record.String()), 0)
	return "", err
}

// sign writes the owner into the record.
func (l *lock) sign() error {
	_, err := l.file.WriteAt([]byte(l.record.String()), 0)
	return wrapError(err)
}

func (l *lock) tryFile(watch *watcher) (string, error) {
	root := l.j.root
	f, err := root.OpenFile(lockFileName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = f.WriteString(l.record.String())
		return "", errors.Join(err, f.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", wrapError(err)
	}
	raw, err := root.ReadFile(lockFileName)
	if err != nil {
		return "in turn", ignoreNotExist(err)
	}
	have := parseLockRecord(raw)
	if !watch.silent(raw) {
		return have.describe(), nil
	}
	// Several writers may try this; one succeeds. It may have moved the record
	// of a new owner, who notices that and stops.
	aside := lockFileName + "." + l.token
	if err := root.Rename(lockFileName, aside); err != nil {
		return "in turn", ignoreNotExist(err)
	}
	return "in turn", root.Remove(aside)
}

// keep renews the lock until it is released or lost.
func (l *lock) keep() {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.renewOnce()
		}
	}
}

func (l *lock) renewOnce() {
	if l.mode == LockOS {
		if ok, err := tryLock(l.file, guardByte); err != nil || !ok {
			return // a take-over is in progress; the next renewal will notice
		}
		defer func() { _ = unlock(l.file, guardByte) }()
	}
	if l.check() != nil {
		return
	}
	r := l.record
	r.renewed = l.j.opt.Now()
	if l.mode == LockOS {
		_, _ = l.file.WriteAt([]byte(r.String()), 0) // if it fails often, other writers take over
		return
	}
	f, err := l.j.root.OpenFile(lockFileName, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt([]byte(r.String()), 0)
	f.Close()
}

// check returns an error if this writer has lost the lock.
func (l *lock) check() error {
	if l.mode == LockNone {
		return nil
	}
	if !l.lost.Load() {
		var raw []byte
		var err error
		if l.mode == LockOS {
			raw, err = l.readRecord()
		} else {
			raw, err = l.j.root.ReadFile(lockFileName)
		}
		if err == nil && parseLockRecord(raw).token == l.token {
			return nil
		}
		l.lost.Store(true)
	}
	return ErrLockLost
}

// unlock releases the lock.
func (l *lock) unlock() {
	close(l.stop)
	l.renew.Wait()
	switch l.mode {
	case LockOS:
		l.file.Close() // releases the lock
	case LockFile:
		if l.check() == nil {
			// If this fails, the lock is taken over after the silence.
			_ = l.j.root.Remove(lockFileName)
		}
	}
	<-l.j.process.turn
	for _, ws := range l.dead {
		ws.discard()
	}
}
