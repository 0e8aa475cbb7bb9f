package transcode

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// Workspace is the folder in which the programs of one process work. Several
// processes may have workspaces below one root. Its methods may be called by many
// goroutines.
type Workspace struct {
	dir  string
	lock *os.File // held while the process lives

	mu    sync.Mutex
	taken map[int]bool // guarded by mu; numbers of scratch folders in use

	free func(dir string) (int64, error) // free bytes of the disk; replaced by tests
}

const lockName = "lock"

// OpenWorkspace creates a workspace below root, creates root if it does not exist,
// and removes the workspaces of processes that have ended. Programs read PDBs and
// write results there, so a root that another user owns or may write to is not
// used: the workspace is then created in a new folder beside it. The path of root
// should be short: some Windows programs fail at paths of 250 characters.
func OpenWorkspace(root string) (*Workspace, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("scratch folder: %w", err)
	}
	if root, err = privateFolder(root); err != nil {
		return nil, fmt.Errorf("scratch folder: %w", err)
	}
	if err := sweepWorkspaces(root); err != nil {
		return nil, fmt.Errorf("sweep the scratch folder: %w", err)
	}
	for range 10 {
		r := &Workspace{dir: filepath.Join(root, "w"+strings.ToLower(rand.Text()[:7])), taken: map[int]bool{}, free: diskFree}
		if err := os.Mkdir(r.dir, 0o700); errors.Is(err, fs.ErrExist) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("scratch folder: %w", err)
		}
		if r.lock, err = durable.LockFile(filepath.Join(r.dir, lockName)); err == nil {
			if _, err := os.Stat(filepath.Join(r.dir, lockName)); err == nil {
				return r, nil
			}
			_ = r.lock.Close()
		}
		// Another process swept between the two steps.
	}
	return nil, fmt.Errorf("cannot create a scratch folder in %s", root)
}

// privateFolder creates a folder that only this user may write to, unless it
// exists. If the name is taken (by a link, a file, or a folder that another user
// owns or may write to), it creates a new folder beside it.
func privateFolder(dir string) (string, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return dir, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	if info.IsDir() && ownFolder(info) {
		return dir, nil
	}
	return os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-*")
}

// DefaultRoot returns the folder to work in for a process that has no depot: in
// XDG_RUNTIME_DIR if that has room for large PDBs (it is often a small disk in
// memory), otherwise in the folder for temporary files.
func DefaultRoot() string {
	const large = 8 << 30 // bytes: several of the largest PDBs with their results
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if n, err := diskFree(dir); err == nil && n >= large {
			return filepath.Join(dir, "sd")
		}
	}
	return filepath.Join(os.TempDir(), "sd"+userSuffix())
}

// sweepWorkspaces removes the workspaces whose process has ended: their lock is
// free.
func sweepWorkspaces(root string) error {
	list, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !e.IsDir() || len(e.Name()) != 8 || e.Name()[0] != 'w' {
			continue
		}
		dir := filepath.Join(root, e.Name())
		if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
			// A foreign folder, or a workspace that is being created. An old one
			// without a lock is the rest of an interrupted removal.
			if info, err := e.Info(); err != nil || time.Since(info.ModTime()) < time.Hour || !emptyOrScratch(dir) {
				continue
			}
		}
		l, err := durable.LockFile(filepath.Join(dir, lockName))
		if err != nil {
			continue // its process runs
		}
		for _, sub := range scratchDirs(dir) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, sub)))
		}
		_ = l.Close()
		if err == nil {
			_ = os.RemoveAll(dir)
		}
	}
	return nil
}

// scratchDirs lists the entries of a workspace except its lock.
func scratchDirs(dir string) (names []string) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// emptyOrScratch reports whether a folder has only scratch folders, or nothing.
func emptyOrScratch(dir string) bool {
	for _, n := range scratchDirs(dir) {
		if _, err := strconv.Atoi(strings.TrimPrefix(n, "x")); err != nil {
			return false
		}
	}
	return true
}

// Close removes the workspace.
func (r *Workspace) Close() error {
	var err error
	for _, n := range scratchDirs(r.dir) {
		err = errors.Join(err, os.RemoveAll(filepath.Join(r.dir, n)))
	}
	return errors.Join(err, r.lock.Close(), os.RemoveAll(r.dir))
}

// Dir returns the folder of the workspace. Close deletes it with all files in it.
func (r *Workspace) Dir() string { return r.dir }

// Free returns how many bytes are free for this user on the disk of the workspace.
func (r *Workspace) Free() (int64, error) { return r.free(r.dir) }

// Scratch is the folder of one run: p has the PDB, o the output, e is empty, t is
// for temporary files.
type Scratch struct {
	room   *Workspace
	number int
	dir    string
	name   string // of the PDB in p
}

// New creates a scratch folder for a PDB of that name.
func (r *Workspace) New(name string) (*Scratch, error) {
	var err error
	for range 20 {
		sc := &Scratch{room: r, number: r.take()}
		sc.dir = filepath.Join(r.dir, strconv.Itoa(sc.number))
		sc.name = sc.localName(name)
		if err = os.RemoveAll(sc.dir); err != nil {
			continue // a file of an earlier run is still open; the number stays taken
		}
		for _, d := range []string{filepath.Dir(sc.PDB()), sc.out(), sc.empty(), sc.temp()} {
			if err = os.MkdirAll(d, 0o700); err != nil {
				sc.Remove()
				return nil, fmt.Errorf("scratch folder: %w", err)
			}
		}
		return sc, nil
	}
	return nil, fmt.Errorf("scratch folder: %w", err)
}

// take reserves the lowest free number: names of folders stay short, and a Wine
// prefix is used again.
func (r *Workspace) take() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 1
	for r.taken[n] {
		n++
	}
	r.taken[n] = true
	return n
}

// longestPath is the longest path that the libraries of Windows Performance
// Toolkit open.
const longestPath = 250

// ProgramName returns the file name under which a program is given the PDB of
// that name: the name itself if it has only letters and digits of ASCII, dots,
// underscores and hyphens, does not begin with a hyphen, and is no device name
// of Windows; x.pdb otherwise. Names come from the network, and the path of the
// PDB is in the command line of a program that may be a wrapper around a shell:
// nothing in it may have a meaning there.
func ProgramName(name string) string {
	const other = "x.pdb"
	if name == "" || name[0] == '-' || strings.HasSuffix(name, ".") || len(name) > 255-24 {
		return other
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return other
		}
	}
	stem, _, _ := strings.Cut(strings.ToLower(name), ".")
	switch {
	case stem == "con", stem == "prn", stem == "aux", stem == "nul":
		return other
	case len(stem) == 4 && (strings.HasPrefix(stem, "com") || strings.HasPrefix(stem, "lpt")):
		return other
	}
	return name
}

// localName is ProgramName, or x.pdb if the path of the result would be too long.
func (s *Scratch) localName(name string) string {
	name = ProgramName(name)
	if len(s.dir)+2*len(name)+len("/o//")+40+len("/-v65535.255.255.symcache") >= longestPath {
		return ProgramName("")
	}
	return name
}

// PDB returns the path of the PDB.
func (s *Scratch) PDB() string   { return filepath.Join(s.dir, "p", s.name) }
func (s *Scratch) out() string   { return filepath.Join(s.dir, "o") }
func (s *Scratch) empty() string { return filepath.Join(s.dir, "e") }
func (s *Scratch) temp() string  { return filepath.Join(s.dir, "t") }

// winePrefix stays for the next run with the same number. No other run uses it at
// the same time, so killing one process tree kills no other.
func (s *Scratch) winePrefix() string { return filepath.Join(s.room.dir, "x"+strconv.Itoa(s.number)) }

// Remove removes the folder and its content.
func (s *Scratch) Remove() {
	err := os.RemoveAll(s.dir)
	for range 20 {
		if err == nil || runtime.GOOS != "windows" {
			break
		}
		time.Sleep(100 * time.Millisecond) // a virus scanner has a file open
		err = os.RemoveAll(s.dir)
	}
	s.room.mu.Lock()
	defer s.room.mu.Unlock()
	delete(s.room.taken, s.number)
}

// Create creates the file for the PDB.
func (s *Scratch) Create() (*os.File, error) {
	return os.OpenFile(s.PDB(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
}

// watch calls stop as soon as the program has written more than limit bytes in
// all, until ctx ends.
func (s *Scratch) watch(ctx context.Context, limit int64, stop func()) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if s.written(limit) > limit {
				stop()
				return
			}
		}
	}
}

const maxFiles = 10_000 // that a program may write

// written returns how many bytes the program wrote, or more than limit.
func (s *Scratch) written(limit int64) (sum int64) {
	files := 0
	for _, dir := range []string{s.out(), s.temp(), s.empty()} {
		_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if files++; files > maxFiles {
				sum = limit + 1
				return fs.SkipAll
			}
			if err == nil && e.Type().IsRegular() {
				if info, err := e.Info(); err == nil { // else it was removed meanwhile
					sum += info.Size()
				}
			}
			return nil
		})
	}
	return sum
}
