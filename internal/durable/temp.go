package durable

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// tempPrefix begins the name of every temporary file. The dot keeps it out of
// listings and globs of folders that other programs read.
const tempPrefix = ".tmp-"

// session tells this process from an earlier one of the same number, which is
// the usual case in a container, where every server is process 1.
var session = func() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}()

// tempName is the name of this process' n-th temporary file.
func tempName(n uint64) string {
	return fmt.Sprintf("%s%d-%s-%d", tempPrefix, os.Getpid(), session, n)
}

// parseTempName undoes tempName.
func parseTempName(name string) (pid int, token string, ok bool) {
	rest, ok := strings.CutPrefix(name, tempPrefix)
	parts := strings.Split(rest, "-")
	if !ok || len(parts) != 3 {
		return 0, "", false
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid <= 0 || len(parts[1]) != len(session) {
		return 0, "", false
	}
	if _, err := hex.DecodeString(parts[1]); err != nil {
		return 0, "", false
	}
	if _, err := strconv.ParseUint(parts[2], 10, 64); err != nil {
		return 0, "", false
	}
	return pid, parts[1], true
}

// Sweep removes the temporary files in the directory dir of the tree that were
// last written before the time given and whose process is gone, and returns
// their number. Where processes of several machines or containers write to
// one tree a process is judged by its number alone, so that the time must then
// lie before the beginning of the longest group that may be under way.
func (t *Tree) Sweep(ctx context.Context, dir string, before time.Time) (int, error) {
	d, err := t.root.Open(dir)
	if err != nil {
		return 0, err
	}
	entries, err := d.ReadDir(-1)
	_ = d.Close() // opened for reading
	if err != nil {
		return 0, err
	}
	var removed int
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return removed, err
		}
		pid, token, ok := parseTempName(entry.Name())
		if !ok || !gone(pid, token) {
			continue
		}
		name := path.Join(dir, entry.Name())
		info, err := t.root.Lstat(name)
		if err == nil && info.Mode().IsRegular() && info.ModTime().Before(before) {
			err = t.root.Remove(name)
			if err == nil {
				removed++
			}
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
	}
	return removed, nil
}

// gone says whether the process that made a temporary file has ended.
func gone(pid int, token string) bool {
	if pid == os.Getpid() {
		return token != session
	}
	return !Alive(pid)
}
