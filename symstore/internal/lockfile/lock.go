// Package lockfile lets one of many writers change a folder at a time, on one machine or on
// many that share a disk. It keeps out writers of other tools too, as far as their lock
// files are known.
package lockfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

var (
	// ErrLocked is wrapped when another writer has the lock for longer than Options.Wait.
	ErrLocked = errors.New("the store is locked")
	// ErrLost is wrapped when this writer failed to renew its lock and another writer
	// took it over.
	ErrLost = errors.New("the lock was taken over by another writer")
	// ErrNoLocks is wrapped when the file system does not support locks of bytes.
	ErrNoLocks = errors.New("the file system does not support locks")
)

// Mode is how writers exclude each other. All writers of one folder must use the same.
type Mode uint8

// The modes.
const (
	Bytes Mode = iota // the operating system locks a byte of the file Name
	File              // the file FileName exists while a writer has the lock
	None              // there is a single writer
)

const (
	// Name is the path of the file whose bytes are locked, from the root of the store.
	Name = "000Admin/symdepot.lock"
	// FileName is the path of the file that exists while a writer has the lock.
	FileName = "000Admin/symdepot.lockfile"

	// foreignStale is the age from which other tools ignore their own lock
	// files.
	foreignStale = 24 * time.Hour

	// The bytes to be locked, all beyond the record. The guard is held briefly,
	// to change the record. Each take-over moves to the next byte after
	// firstByte, because the silent owner may still hold the old one.
	guardByte = 1 << 16
	firstByte = 1 << 20
)

// foreignLocks are the lock files of other tools, in the root of the store.
var foreignLocks = []string{"_lockfile.sem", "SymStoreAdapter.lock"}

// Options say which folder is locked, and how.
type Options struct {
	Tree  *durable.Tree // the root of the store
	Path  string        // its absolute path
	Mode  Mode
	Wait  time.Duration // how long Acquire waits at most
	Now   func() time.Time
	Token func() string // returns a new unique name
	// LockByte is TryByte, or a replacement of it for tests.
	LockByte func(f *os.File, offset int64) (bool, error)
}

// turns has a channel of one place for each path. The writers of one process queue there
// first, so that a process never has the lock file open twice.
var turns sync.Map

// Lock is the right to change a folder. It is renewed until Release.
type Lock struct {
	opt    Options
	token  string
	record record
	file   *os.File // of Bytes
	lost   atomic.Bool
	stop   chan struct{}
	renew  sync.WaitGroup
	turn   chan struct{}
}

// Acquire waits for the right to change a folder.
func Acquire(ctx context.Context, opt Options) (*Lock, error) {
	turn, _ := turns.LoadOrStore(opt.Path, make(chan struct{}, 1))
	l := &Lock{opt: opt, turn: turn.(chan struct{}), stop: make(chan struct{})}
	limit := time.NewTimer(opt.Wait)
	defer limit.Stop()
	select {
	case l.turn <- struct{}{}:
	case <-limit.C:
		return nil, fmt.Errorf("%w by this process", ErrLocked)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := l.acquireQueued(ctx, limit.C); err != nil {
		<-l.turn
		return nil, err
	}
	return l, nil
}

func (l *Lock) acquireQueued(ctx context.Context, limit <-chan time.Time) error {
	if err := l.opt.Tree.MkdirAll(path.Dir(Name), 0o777); err != nil {
		return err
	}
	l.token = l.opt.Token()
	now := l.opt.Now()
	host, _ := os.Hostname() // for messages only
	l.record = record{token: l.token, owner: fmt.Sprintf("%s process %d", host, os.Getpid()), since: now, renewed: now}
	if l.opt.Mode == Bytes {
		var err error
		if l.file, err = l.opt.Tree.Root().OpenFile(Name, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
			return err
		}
	}
	err := l.acquire(ctx, limit)
	if err != nil {
		if l.file != nil {
			l.file.Close()
		}
		return err
	}
	if l.opt.Mode != None {
		l.renew.Go(l.keep)
	}
	return nil
}

// acquire retries until it has the lock. The pauses grow from 1 to 20 ms and are
// random, so that many writers do not retry at the same time.
func (l *Lock) acquire(ctx context.Context, limit <-chan time.Time) error {
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

// try tries once to get the lock. held describes the present owner; it is empty
// if l has the lock.
func (l *Lock) try(watch *watcher) (held string, err error) {
	if name := l.foreignLock(); name != "" {
		return "by another tool: " + name + " exists", nil
	}
	switch l.opt.Mode {
	case Bytes:
		return l.tryOS(watch)
	case File:
		return l.tryFile(watch)
	}
	return "", nil
}

// foreignLock returns the name of another tool's lock file that is still valid.
func (l *Lock) foreignLock() string {
	root := l.opt.Tree.Root()
	for _, name := range foreignLocks {
		if info, err := root.Stat(name); err == nil && l.opt.Now().Sub(info.ModTime()) < foreignStale {
			return name
		}
	}
	if l.opt.Mode == Bytes {
		// This is a writer with File. The limit of a minute is longer than
		// the silence after which other writers with File take over.
		if info, err := root.Stat(FileName); err == nil && l.opt.Now().Sub(info.ModTime()) < 2*silence {
			return FileName
		}
	}
	return ""
}

func (l *Lock) readRecord() ([]byte, error) {
	buf := make([]byte, recordSize)
	n, err := l.file.ReadAt(buf, 0)
	if errors.Is(err, io.EOF) {
		err = nil // a new file, or a file of another program
	}
	return buf[:n], err
}

func (l *Lock) tryOS(watch *watcher) (string, error) {
	raw, err := l.readRecord()
	if err != nil {
		return "", err
	}
	have := parseRecord(raw)
	at := firstByte + int64(have.generation)
	ok, err := l.opt.LockByte(l.file, at)
	if err != nil {
		if RefusesLocks(err) {
			return "", fmt.Errorf("%w: %w", ErrNoLocks, err)
		}
		return "", err
	}
	if ok {
		again, err := l.readRecord()
		if err == nil && parseRecord(again).generation == have.generation {
			l.record.generation = have.generation
			return "", l.sign()
		}
		_ = unlockByte(l.file, at) // a lock of an outdated byte
		return "in turn", err
	}
	if !watch.silent(raw) {
		return have.describe(), nil
	}
	return l.takeOver(raw, have)
}

// takeOver takes the lock of a silent owner and moves it to the next byte.
func (l *Lock) takeOver(raw []byte, have record) (string, error) {
	if ok, err := TryByte(l.file, guardByte); err != nil || !ok {
		return have.describe(), err
	}
	defer func() { _ = unlockByte(l.file, guardByte) }()
	now, err := l.readRecord()
	if err != nil || string(now) != string(raw) {
		return have.describe(), err
	}
	next := (have.generation + 1) % (1 << 16)
	ok, err := TryByte(l.file, firstByte+int64(next))
	if err != nil || !ok {
		return have.describe(), err
	}
	l.record.generation = next
	_, err = l.file.WriteAt([]byte(l.record.String()), 0)
	return "", err
}

// sign writes the owner into the record.
func (l *Lock) sign() error {
	_, err := l.file.WriteAt([]byte(l.record.String()), 0)
	return err
}

func (l *Lock) tryFile(watch *watcher) (string, error) {
	root := l.opt.Tree.Root()
	f, err := root.OpenFile(FileName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err == nil {
		_, err = f.WriteString(l.record.String())
		return "", errors.Join(err, f.Close())
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	raw, err := root.ReadFile(FileName)
	if err != nil {
		return "in turn", unlessGone(err)
	}
	have := parseRecord(raw)
	if !watch.silent(raw) {
		return have.describe(), nil
	}
	// Several writers may try this; one succeeds. It may have moved the record
	// of a new owner, who notices that and stops.
	aside := FileName + "." + l.token
	if err := root.Rename(FileName, aside); err != nil {
		return "in turn", unlessGone(err)
	}
	return "in turn", root.Remove(aside)
}

// unlessGone turns fs.ErrNotExist into success: another writer has removed the file.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// keep renews the lock until it is released or lost.
func (l *Lock) keep() {
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

func (l *Lock) renewOnce() {
	if l.opt.Mode == Bytes {
		if ok, err := TryByte(l.file, guardByte); err != nil || !ok {
			return // a take-over is in progress; the next renewal will notice
		}
		defer func() { _ = unlockByte(l.file, guardByte) }()
	}
	if l.Check() != nil {
		return
	}
	r := l.record
	r.renewed = l.opt.Now()
	if l.opt.Mode == Bytes {
		_, _ = l.file.WriteAt([]byte(r.String()), 0) // if it fails often, other writers take over
		return
	}
	f, err := l.opt.Tree.Root().OpenFile(FileName, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	_, _ = f.WriteAt([]byte(r.String()), 0)
	f.Close()
}

// Check returns ErrLost if this writer has lost the lock.
func (l *Lock) Check() error {
	if l.opt.Mode == None {
		return nil
	}
	if !l.lost.Load() {
		var raw []byte
		var err error
		if l.opt.Mode == Bytes {
			raw, err = l.readRecord()
		} else {
			raw, err = l.opt.Tree.Root().ReadFile(FileName)
		}
		if err == nil && parseRecord(raw).token == l.token {
			return nil
		}
		l.lost.Store(true)
	}
	return ErrLost
}

// Release releases the lock.
func (l *Lock) Release() {
	close(l.stop)
	l.renew.Wait()
	switch l.opt.Mode {
	case Bytes:
		l.file.Close() // releases the lock
	case File:
		if l.Check() == nil {
			// If this fails, the lock is taken over after the silence.
			_ = l.opt.Tree.Root().Remove(FileName)
		}
	}
	<-l.turn
}
