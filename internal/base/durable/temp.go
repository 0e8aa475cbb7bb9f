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

// tempPrefix starts the name of every temporary file. The dot hides it from
// listings and glob patterns of other programs.
const tempPrefix = ".tmp-"

// session distinguishes this process from an earlier one with the same process
// id. That is common in containers, where every server has process id 1.
var session = func() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}()

// tempName returns the name of this process's n-th temporary file.
func tempName(n uint64) string {
	return fmt.Sprintf("%s%d-%s-%d", tempPrefix, os.Getpid(), session, n)
}

// parseTempName is the inverse of tempName.
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

// Sweep removes temporary files in the directory dir of the tree and returns
// their number. It removes a file if it was last written before the given time
// and its process has ended. If several machines or containers write to one
// tree, the process id alone proves nothing; before must then be earlier than
// the start of the longest group that may still run.
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
		if !ok || !isDead(pid, token) {
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

// isDead reports whether the process that made a temporary file has ended.
func isDead(pid int, token string) bool {
	if pid == os.Getpid() {
		return token != session
	}
	return !Alive(pid)
}
