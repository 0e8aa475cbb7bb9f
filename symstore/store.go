package symstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symstore/internal/lockfile"
)

// Tiers is the number of folder levels of a store.
type Tiers uint8

// The kinds of stores.
const (
	Flat Tiers = iota // a folder of files without keys
	One               // name/key/name
	Two               // na/name/key/name, marked by index2.txt
)

// String returns "flat", "one-tier" or "two-tier".
func (t Tiers) String() string {
	switch t {
	case One:
		return "one-tier"
	case Two:
		return "two-tier"
	}
	return "flat"
}

// Options of a store. The zero value opens it for reading and writing.
type Options struct {
	// ReadOnly makes every change fail with ErrReadOnly.
	ReadOnly bool
	Locking  Locking
	// LockWait is how long a writer waits for other writers. 0: one minute.
	LockWait time.Duration
	// PointerRoots are the folders that pointers may lead to. If empty, only
	// relative pointers inside the store are followed.
	PointerRoots []PointerRoot
	// Now is the clock of the records. Nil: time.Now.
	Now func() time.Time
	// Token returns a new unique name. Nil: 16 random bytes in hex.
	Token func() string

	// step is for tests. It is called before each change that other processes
	// can see. Its error stops the writer as a crash would.
	step func(what string) error
	// osLock is for tests. It replaces the operating system's lock.
	osLock func(f *os.File, offset int64) (bool, error)
	// stageFault is for tests. It is called before the file of that name is
	// staged. Its error counts as one of the disk.
	stageFault func(name string) error
	// removeFault is for tests. It is called before each attempt to remove a
	// stored file of a deleted transaction. Its error counts as one of the disk.
	removeFault func(name string) error
	// maxDeferred is for tests. It replaces the constant of that name.
	maxDeferred int
}

// Store is an open store. Its methods may be used by several goroutines, and
// several Stores, in one process or in many, may be open on one directory.
type Store struct {
	disk
	dir     string // absolute
	journal *journal
	names   listings
	flat    bool
	opened  Tiers // at Open; Convert may have changed it since
	made    maker
}

// Open opens the store in dir. A directory that is not a store is opened as a
// flat folder, for reading only.
func Open(dir string, opt Options) (*Store, error) {
	s, err := openDir(dir, opt)
	if err != nil {
		return nil, err
	}
	tiers, err := s.detect()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.flat, s.opened = tiers == Flat, tiers
	return s, nil
}

// Create opens the store in dir, or creates one of tiers One or Two. An
// existing store keeps its tiers.
func Create(dir string, tiers Tiers, opt Options) (*Store, error) {
	if opt.ReadOnly {
		return Open(dir, opt)
	}
	missing := missingDirs(dir)
	if err := durable.MkdirAll(dir, 0o777); err != nil {
		removeDirs(missing)
		return nil, wrapError(err)
	}
	s, err := openDir(dir, opt)
	if err != nil {
		removeDirs(missing)
		return nil, err
	}
	s.opened, err = s.detect()
	if err == nil && s.opened == Flat {
		s.opened = tiers
		s.made.begin(tiers, missing)
		if err = s.create(tiers); err != nil {
			s.undoCreate()
		}
		s.names.caseless = isCaseless(s.root)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func openDir(dir string, opt Options) (*Store, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	tree, err := durable.OpenTree(abs)
	if err != nil {
		return nil, wrapError(err)
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		abs = real
	}
	if opt.LockWait == 0 {
		opt.LockWait = time.Minute
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	if opt.osLock == nil {
		opt.osLock = lockfile.TryByte
	}
	if opt.Token == nil {
		opt.Token = randomToken
	}
	s := &Store{disk: disk{tree.Root(), tree, &opt}, dir: abs}
	s.journal = &journal{disk: s.disk, path: abs, restore: s.recreate, resume: s.resumeConversion}
	s.journal.removeDeferred = func(ctx context.Context, l *lock) error { return remover{s, l}.run(ctx) }
	s.names.caseless = isCaseless(s.root)
	return s, nil
}

func randomToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// Close closes the directory.
func (s *Store) Close() error {
	err := s.tree.Close()
	s.made.end()
	return err
}

// Dir returns the absolute path of the root.
func (s *Store) Dir() string { return s.dir }

// Tiers returns the current number of tiers, which Convert may change.
func (s *Store) Tiers() Tiers {
	switch {
	case s.flat:
		return Flat
	case s.exists(index2File):
		return Two
	}
	return One
}

// IsNoSpace reports whether an error of this package means a full disk or an
// exhausted quota.
func IsNoSpace(err error) bool { return durable.IsNoSpace(err) }

// Detect returns the kind of store in dir.
func Detect(dir string) (Tiers, error) {
	s, err := openDir(dir, Options{ReadOnly: true})
	if err != nil {
		return Flat, err
	}
	tiers, err := s.detect()
	return tiers, errors.Join(err, s.Close())
}

// detect looks for the marker files first, then at the folders.
func (s *Store) detect() (Tiers, error) {
	if !s.exists(index2File) && (s.exists(adminDir) || s.exists(pingmeFile) || s.exists(pingbackFile)) {
		return One, nil // saves reading a root with many names
	}
	if s.names.find(s.root, ".", index2File) != "" {
		return Two, nil
	}
	for _, marker := range []string{pingmeFile, pingbackFile, adminDir} {
		if s.names.find(s.root, ".", marker) != "" {
			return One, nil
		}
	}
	return s.guess(context.Background())
}

// guessed limits the number of folders that guess reads.
const guessed = 200

// guess looks for a folder name/key that holds name, at the root or below a
// folder of two characters.
func (d *disk) guess(ctx context.Context) (Tiers, error) {
	dirs, err := d.subdirs(".", guessed)
	if err != nil {
		return Flat, err
	}
	for _, name := range dirs {
		if ok, err := looksLikeName(d, name, name); ok || err != nil {
			return One, err
		}
	}
	for _, bucket := range dirs {
		if len([]rune(bucket)) > 2 {
			continue
		}
		names, err := d.subdirs(bucket, guessed)
		if err != nil {
			return Flat, err
		}
		for _, name := range names {
			if !strings.HasPrefix(strings.ToLower(name), strings.ToLower(strings.TrimRight(bucket, "."))) {
				continue
			}
			if ok, err := looksLikeName(d, path.Join(bucket, name), name); ok || err != nil {
				return Two, err
			}
		}
		if err := ctx.Err(); err != nil {
			return Flat, err
		}
	}
	return Flat, nil
}

// looksLikeName reports whether dir has a key folder that holds a file called
// name.
func looksLikeName(d *disk, dir, name string) (bool, error) {
	keys, err := d.subdirs(dir, 8)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if looksLikeKey(key) && (d.exists(path.Join(dir, key, name)) || d.exists(path.Join(dir, key, layout.CabinetName(name)))) {
			return true, nil
		}
	}
	return false, nil
}

// looksLikeKey reports whether a folder's name can be a key of any kind of
// file.
func looksLikeKey(key string) bool {
	if _, rest, ok := cutLast(key, "-"); ok {
		key = rest // elf-buildid-sym-HEX and similar
	}
	return len(key) >= 9 && len(key) <= 2*debugid.MaxBuildID && debugid.IsHex(key)
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// dirOf returns the folder of a key in a store of these tiers.
func dirOf(tiers Tiers, name, key string) string {
	if tiers == Two {
		return path.Join(layout.Bucket(name), name, key)
	}
	return path.Join(name, key)
}
