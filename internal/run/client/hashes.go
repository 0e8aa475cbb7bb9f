package client

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/symdepot/symdepot/internal/base/account"
	"github.com/symdepot/symdepot/internal/base/durable"
	"github.com/symdepot/symdepot/internal/base/filestamp"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/objfile"
)

const (
	// hashesTitle is the first line of a file of Hashes.
	hashesTitle = "symdepot hashes 2"
	// maxHashes is the size of the largest such file that is read, in bytes.
	maxHashes = 256 << 20
	// stillFor is how long a file must not have changed before it was hashed. Only then has
	// every later change another time, also with a clock that ticks every two seconds or that
	// is a little behind, as on a share.
	stillFor = 10 * time.Second
	// hashDays is after how many days without a push a hash is forgotten.
	hashDays = 30
	// keptLists is how many files of Hashes a user has at most in the cache folder.
	keptLists = 16
)

// NoHashes in place of the name of a file means that all files are read.
const NoHashes = "none"

// Hashes remembers in a file the SHA-256 of files on disk, so that a push need not read again
// those that have not changed since the last one. Unchanged means: the same path, size and inode,
// the same times of the last write and of the last change of any kind, and the same ids in the file.
// Where the system does not tell all of these, nothing is remembered. Several goroutines may use it
// at the same time. A nil Hashes remembers nothing.
type Hashes struct {
	name string
	own  bool // it is in the cache folder of the user: see UserHashes
	now  func() time.Time
	mu   sync.Mutex
	all  map[string]hashed // by absolute path; guarded by mu
}

// hashed is what is remembered of a file.
type hashed struct {
	filestamp.Stamp
	ref blob.Ref
	ids uint64 // a hash of the objects in it
	day int64  // of the last push, since 1970
}

// HashesFor returns the Hashes of a push of some paths: in the file name; in none, if that is
// NoHashes; or in the one of UserHashes, if it is empty.
func HashesFor(name string, paths []string) (*Hashes, error) {
	switch name {
	case "":
		return UserHashes(paths), nil
	case NoHashes:
		return nil, nil //nolint:nilnil // none
	}
	return OpenHashes(name)
}

// UserHashes returns the Hashes of pushes of these paths in the cache folder of the user, or nil if the
// user has none. It remembers only files on file systems that are known to change a time of a file with
// every change of its bytes: see filestamp.Tells.
func UserHashes(paths []string) *Hashes {
	cache, err := os.UserCacheDir()
	if err != nil || len(paths) == 0 || !filestamp.Known {
		return nil
	}
	sum := sha256.New()
	for _, p := range paths {
		if p, err = filepath.Abs(p); err != nil {
			return nil
		}
		fmt.Fprintf(sum, "%q\n", p)
	}
	dir := filepath.Join(cache, "symdepot", "pushed")
	name := filepath.Join(dir, hex.EncodeToString(sum.Sum(nil)[:16]))
	// A home that does not exist is not made.
	if err := os.Mkdir(cache, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil
	}
	// What another user has written is not believed.
	if os.MkdirAll(dir, 0o700) != nil || !account.OwnedAlone(dir) || !account.OwnedAlone(name) {
		return nil
	}
	h, err := OpenHashes(name)
	if err != nil {
		return nil
	}
	h.own = true
	return h
}

// OpenHashes reads what the file name remembers: nothing, if there is no such file yet, or if its
// content is not that of Hashes.
func OpenHashes(name string) (*Hashes, error) {
	h := &Hashes{name: name, now: time.Now, all: map[string]hashed{}}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, maxHashes))
	if err != nil {
		return nil, err
	}
	h.parse(text)
	return h, nil
}

// parse reads the lines of a file, up to the first that is not valid.
func (h *Hashes) parse(text []byte) {
	title, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(title) != hashesTitle {
		return
	}
	for line := range bytes.Lines(rest) {
		fields := strings.SplitN(strings.TrimSuffix(string(line), "\n"), " ", 8)
		if len(fields) != 8 {
			return
		}
		var e hashed
		var errs [8]error
		var path string
		e.ref, errs[0] = blob.ParseRef(fields[0])
		e.Size, errs[1] = strconv.ParseInt(fields[1], 10, 64)
		e.Inode, errs[2] = strconv.ParseUint(fields[2], 10, 64)
		e.Written, errs[3] = strconv.ParseInt(fields[3], 10, 64)
		e.Changed, errs[4] = strconv.ParseInt(fields[4], 10, 64)
		e.ids, errs[5] = strconv.ParseUint(fields[5], 10, 64)
		e.day, errs[6] = strconv.ParseInt(fields[6], 10, 64)
		path, errs[7] = strconv.Unquote(fields[7])
		if errors.Join(errs[:]...) != nil {
			return
		}
		h.all[path] = e
	}
}

func (h *Hashes) today() int64 { return h.now().Unix() / (24 * 60 * 60) }

// of returns the hash of a file that has not changed.
func (h *Hashes) of(path string, s filestamp.Stamp, ids uint64) (ref blob.Ref, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.all[path]
	if !ok || e.Stamp != s || e.ids != ids {
		return ref, false
	}
	e.day = h.today()
	h.all[path] = e
	return e.ref, true
}

// put remembers the hash of a file that had the stamp before and after it was read, which began
// at a time. One that had just changed is not remembered, so that the next push reads it again.
func (h *Hashes) put(path string, s filestamp.Stamp, ids uint64, ref blob.Ref, began time.Time) {
	if s.Inode == 0 || s.Changed == 0 || began.Sub(time.Unix(0, s.Changed)) < stillFor {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all[path] = hashed{s, ref, ids, h.today()}
}

// forget forgets a file.
func (h *Hashes) forget(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, path)
}

// Save writes the file anew, which only its owner may read. Hashes that no push has used for a
// month are left out. In the cache folder of the user, it removes the oldest files
// of Hashes, so that keptLists are left.
func (h *Hashes) Save() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	oldest := h.today() - hashDays
	err := durable.WriteTo(h.name, 0o600, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		fmt.Fprintln(b, hashesTitle)
		for path, e := range h.all {
			if e.day >= oldest {
				fmt.Fprintln(b, e.ref, e.Size, e.Inode, e.Written, e.Changed, e.ids, e.day, strconv.Quote(path))
			}
		}
		return b.Flush()
	})
	if err == nil && h.own {
		h.removeOthers()
	}
	return err
}

// removeOthers removes the oldest files beside the file.
func (h *Hashes) removeOthers() {
	dir := filepath.Dir(h.name)
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	written := func(e os.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil { // it is gone
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(list, func(a, b os.DirEntry) int { return written(b).Compare(written(a)) })
	for i, e := range list {
		if i >= keptLists || h.now().Sub(written(e)) > hashDays*24*time.Hour {
			_ = os.Remove(filepath.Join(dir, e.Name())) // the next push tries again
		}
	}
}

// sum returns the SHA-256 of a content with these objects, and how many bytes it has. It reads a
// content, unless that is a file on disk of which the hash is remembered.
func (p *Pusher) sum(ctx context.Context, c *scan.Content, objects []objfile.Object) (blob.Ref, int64, error) {
	if p.Hashes == nil {
		return blob.Hash(ctx, c.Reader())
	}
	ids := hashOf(objects)
	path, before, ok := c.Stamp()
	if ok {
		if ref, known := p.Hashes.of(path, before, ids); known {
			return ref, before.Size, nil
		}
	}
	began := p.Hashes.now()
	ref, n, err := blob.Hash(ctx, c.Reader())
	if err == nil && ok && n == before.Size && (!p.Hashes.own || c.Tells()) {
		if _, after, ok := c.Stamp(); ok && after == before {
			p.Hashes.put(path, before, ids, ref, began)
		}
	}
	return ref, n, err
}

// hashOf returns a hash of what identifies the objects of a file.
func hashOf(objects []objfile.Object) uint64 {
	sum := xxhash.New()
	for _, o := range objects {
		fmt.Fprintf(sum, "%+v %d %d %d\n", o.Object, o.Offset, o.Size, o.Deflated)
	}
	return sum.Sum64()
}

// unhash forgets the hash of a content that the server has found to be another one.
func (p *Pusher) unhash(c *scan.Content) {
	if path, _, ok := c.Stamp(); ok && p.Hashes != nil {
		p.Hashes.forget(path)
	}
}
