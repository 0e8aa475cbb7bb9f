package clientsetup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/symdepot/symdepot/internal/base/durable"
)

// Records are the changes that were made for a user, and what stood in the files before. They
// are files that only the user can read: what stood in .netrc is a secret.
type Records struct {
	dir string
}

// RecordsIn returns the records in the configuration folder of this program.
func RecordsIn(own string) *Records { return &Records{dir: filepath.Join(own, "setup")} }

const (
	listName = "changes.json"
	lockTime = 20 * time.Second
)

// entry is the record of one file.
type entry struct {
	Path    string `json:"path"`
	Existed bool   `json:"existed"`
	// Before is the file in the folder of the records with what stood in the file; Sum is its hash.
	Before string `json:"before,omitempty"`
	Sum    string `json:"before_sha256,omitempty"`
	// Folders were made for the file, the outermost first.
	Folders []string `json:"folders,omitempty"`
	// Written are the hashes of what was written last, and before that.
	Written []string `json:"written_sha256"`
	// Changed is set if the user had changed the file between two changes of this program: then
	// the file is not put back as a whole.
	Changed bool  `json:"changed_by_user,omitempty"`
	Whole   bool  `json:"whole"` // all of the file is of this program
	Uses    []use `json:"uses"`
}

// use says what a file was changed for.
type use struct {
	Server string `json:"server"`
	Target string `json:"target"`
	Form   string `json:"form,omitempty"` // how it is written again for a new token
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// wrote reports whether content is what this program has written.
func (e *entry) wrote(content []byte) bool { return slices.Contains(e.Written, sum(content)) }

// others reports whether the file has something for another server.
func (e *entry) others(server string) bool {
	return slices.ContainsFunc(e.Uses, func(u use) bool { return u.Server != server })
}

// locked does something with the list of records, and writes the list if it says so.
func (r *Records) locked(ctx context.Context, do func(list *[]*entry) (write bool, err error)) error {
	if _, err := os.Stat(filepath.Dir(r.dir)); errors.Is(err, fs.ErrNotExist) {
		if err := durable.MkdirAll(filepath.Dir(r.dir), 0o700); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := durable.AwaitLock(ctx, r.dir+".lock")
	if err != nil {
		return fmt.Errorf("%s.lock: %w", r.dir, err)
	}
	defer func() { _ = lock.Close() }()
	list, err := r.read()
	if err != nil {
		return err
	}
	write, err := do(&list)
	if write {
		err = errors.Join(err, r.write(list))
	}
	return err
}

func (r *Records) read() ([]*entry, error) {
	name := filepath.Join(r.dir, listName)
	b, err := durable.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []*entry
	if err := json.Unmarshal(b, &list); err != nil || slices.Contains(list, nil) {
		return nil, fmt.Errorf("%s is damaged; the files beside it have what stood in the changed files before: %w", name, err)
	}
	return list, nil
}

// write replaces the list, and removes the folder of the records with the last entry.
func (r *Records) write(list []*entry) error {
	if len(list) == 0 {
		for _, name := range []string{filepath.Join(r.dir, listName), r.dir} {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	b, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(r.dir, listName), append(b, '\n'), 0o600)
}

// Debuginfod returns the server for which debuginfod clients are set up; empty: none.
func (r *Records) Debuginfod() (server string, err error) {
	list, err := r.read()
	for _, e := range list {
		for _, u := range e.Uses {
			if u.Form == formHeaders {
				server = u.Server
			}
		}
	}
	return server, err
}

// Servers are the servers for which something is set up.
func (r *Records) Servers() ([]string, error) {
	list, err := r.read()
	var out []string
	for _, e := range list {
		for _, u := range e.Uses {
			out = append(out, u.Server)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// WithTokens are the servers whose access token stands in a file that this program keeps fresh.
func (r *Records) WithTokens() ([]string, error) {
	list, err := r.read()
	var out []string
	for _, e := range list {
		for _, u := range e.Uses {
			if u.Form != "" {
				out = append(out, u.Server)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

// Apply makes changes, all or none: if one fails, those before it are taken back. A file that
// is no longer as it was when the change was planned is not changed.
func (r *Records) Apply(ctx context.Context, edits []Edit) error {
	return r.locked(ctx, func(list *[]*entry) (bool, error) {
		stood, err := json.Marshal(*list)
		if err != nil {
			return false, err
		}
		for i, e := range edits {
			if err := r.apply(list, e); err != nil {
				return true, errors.Join(err, r.takeBack(list, edits[:i+1], stood))
			}
		}
		return true, nil
	})
}

func (r *Records) apply(list *[]*entry, e Edit) error {
	now, existed, err := content(e.Path)
	if err != nil {
		return err
	}
	if existed != e.Existed || !bytes.Equal(now, e.Before) {
		return fmt.Errorf("%s was changed meanwhile: run the command again", e.Path)
	}
	i := slices.IndexFunc(*list, func(x *entry) bool { return x.Path == e.Path })
	if i >= 0 && !existed { // the user has removed it
		*list = slices.Delete(*list, i, i+1)
		i = -1
	}
	if i < 0 {
		x := &entry{Path: e.Path, Existed: existed, Whole: e.whole}
		if existed {
			x.Sum = sum(now)
			x.Before = "before-" + sum([]byte(e.Path))[:16]
			if err := durable.MkdirAll(r.dir, 0o700); err != nil {
				return err
			}
			if err := durable.WriteFile(filepath.Join(r.dir, x.Before), now, 0o600); err != nil {
				return err
			}
		}
		x.Folders = missingFolders(filepath.Dir(e.Path))
		*list = append(*list, x)
		i = len(*list) - 1
	}
	x := (*list)[i]
	x.Changed = x.Changed || len(x.Written) > 0 && !x.wrote(now)
	x.Written = lastTwo(x.Written, sum(e.After))
	if u := (use{Server: e.server, Target: e.Target, Form: e.form}); !slices.Contains(x.Uses, u) {
		x.Uses = append(x.Uses, u)
	}
	// The record is there before the file is: after a crash, --undo knows of the file.
	if err := r.write(*list); err != nil {
		return err
	}
	perm := fs.FileMode(0o644)
	if e.private {
		perm = 0o600
	}
	if err := durable.MkdirAll(filepath.Dir(e.Path), 0o755); err != nil {
		return err
	}
	return durable.ReplaceFile(e.Path, e.After, perm)
}

// takeBack undoes changes that were made a moment ago; the last of them may have failed. stood is
// the list of records before them.
func (r *Records) takeBack(list *[]*entry, edits []Edit, stood []byte) error {
	var errs []error
	for _, e := range slices.Backward(edits) {
		i := slices.IndexFunc(*list, func(x *entry) bool { return x.Path == e.Path })
		now, _, err := content(e.Path)
		switch {
		case i < 0 || err != nil: // nothing was done to it
			errs = append(errs, err)
		case e.Existed && !bytes.Equal(now, e.Before):
			errs = append(errs, durable.ReplaceFile(e.Path, e.Before, 0o600))
		case !e.Existed:
			errs = append(errs, removeFile((*list)[i]))
		}
	}
	made := *list
	*list = nil
	if err := json.Unmarshal(stood, list); err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, x := range made {
		if !slices.ContainsFunc(*list, func(old *entry) bool { return old.Before == x.Before }) {
			errs = append(errs, r.forget(x, false))
		}
	}
	return errors.Join(errs...)
}

// removeFile removes a file, and the folders that were made for it.
func removeFile(x *entry) error {
	if err := durable.Remove(x.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, dir := range slices.Backward(x.Folders) {
		if os.Remove(dir) != nil { // somebody else has files there
			break
		}
	}
	return nil
}

// lastTwo adds a hash, and keeps the one before it: a crash may come before the file is written.
func lastTwo(list []string, h string) []string {
	list = append(list, h)
	return list[max(0, len(list)-2):]
}

// content reads a file that may be missing.
func content(path string) (b []byte, exists bool, err error) {
	b, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return b, err == nil, err
}

// missingFolders are the folders that must be made for dir to exist, the outermost first.
func missingFolders(dir string) []string {
	var out []string
	for {
		if _, err := os.Stat(dir); err == nil || filepath.Dir(dir) == dir {
			return out
		}
		out = slices.Insert(out, 0, dir)
		dir = filepath.Dir(dir)
	}
}

// putBack restores what stood in a file before its first change.
func (r *Records) putBack(x *entry) error {
	if !x.Existed {
		return removeFile(x)
	}
	kept := filepath.Join(r.dir, filepath.Base(x.Before))
	before, err := os.ReadFile(kept)
	if err != nil {
		return err
	}
	if sum(before) != x.Sum {
		return fmt.Errorf("%s is damaged: it should have what stood in %s before", kept, x.Path)
	}
	if err := durable.ReplaceFile(x.Path, before, 0o600); err != nil {
		return err
	}
	return os.Remove(kept)
}

// Undone is what became of a changed file.
type Undone struct {
	Path string
	// Done is what is done: "put back", "removed", "symdepot's lines taken out", or "left as it is".
	Done string
	// Left is what the user should do by hand; empty: nothing.
	Left string
}

// What Undone says was done.
const (
	donePutBack  = "put back as it was"
	doneRemoved  = "removed"
	doneTakenOut = "the lines of symdepot were taken out; other changes stay"
	doneLeft     = "left as it is"
)

// Undo puts back what stood in the files before they were changed for a server; dry only says
// what it would do. From a file that was changed since, or that has lines for another server,
// it takes out the lines of symdepot only.
func (r *Records) Undo(ctx context.Context, server string, dry bool) (out []Undone, err error) {
	err = r.locked(ctx, func(list *[]*entry) (bool, error) {
		var keep []*entry
		var errs []error
		for _, x := range slices.Backward(*list) {
			if !slices.ContainsFunc(x.Uses, func(u use) bool { return u.Server == server }) {
				keep = append(keep, x)
				continue
			}
			done, gone, err := r.undo(x, server, dry)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", x.Path, err))
			}
			if !gone || err != nil {
				keep = append(keep, x)
			}
			if done.Done != "" {
				out = append(out, done)
			}
		}
		slices.Reverse(keep)
		*list = keep
		return !dry, errors.Join(errs...)
	})
	return out, err
}

// undo takes back what was done to a file for a server. gone means that its record ends.
func (r *Records) undo(x *entry, server string, dry bool) (done Undone, gone bool, err error) {
	done.Path = x.Path
	now, exists, err := content(x.Path)
	if err != nil {
		return done, false, err
	}
	as := !x.Changed && exists && x.wrote(now)
	switch {
	case !x.others(server) && as:
		if done.Done = doneRemoved; x.Existed {
			done.Done = donePutBack
		}
		if dry {
			return done, true, nil
		}
		return done, true, r.putBack(x)
	case x.others(server) && x.Whole: // another server needs the file as it is
		x.Uses = slices.DeleteFunc(x.Uses, func(u use) bool { return u.Server == server })
		return Undone{}, false, nil
	case !exists, sum(now) == x.Sum:
		return Undone{}, true, r.forget(x, dry)
	case x.Whole:
		done.Done, done.Left = doneLeft, "it was changed since symdepot wrote it: remove it if nothing in it is needed"
		return done, true, r.forget(x, dry)
	}
	after, found, err := withoutBlocks(now, server)
	if err != nil {
		done.Done, done.Left = doneLeft, err.Error()
		return done, false, nil //nolint:nilerr // done says it
	}
	if !found {
		return Undone{}, !x.others(server), r.forgetLast(x, server, dry)
	}
	done.Done = doneTakenOut
	if dry {
		return done, true, nil
	}
	gone = !x.others(server)
	if gone && !x.Existed && len(bytes.TrimSpace(after)) == 0 {
		done.Done = doneRemoved
		return done, true, r.putBack(x)
	}
	x.Written = lastTwo(x.Written, sum(after))
	if err := durable.ReplaceFile(x.Path, after, 0o600); err != nil {
		return done, false, err
	}
	return done, gone, r.forgetLast(x, server, dry)
}

// forgetLast drops the uses for a server, and what is kept of the file with the last one.
func (r *Records) forgetLast(x *entry, server string, dry bool) error {
	if dry {
		return nil
	}
	x.Uses = slices.DeleteFunc(x.Uses, func(u use) bool { return u.Server == server })
	if len(x.Uses) > 0 {
		return nil
	}
	return r.forget(x, dry)
}

// forget drops what is kept of a file.
func (r *Records) forget(x *entry, dry bool) error {
	if dry || x.Before == "" {
		return nil
	}
	if err := os.Remove(filepath.Join(r.dir, filepath.Base(x.Before))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Refresh writes a new access token of a server into the files that have one. A file that the
// user has removed, or that has no lines of symdepot any more, stays as it is.
func (r *Records) Refresh(ctx context.Context, server, token string) error {
	if has, err := r.WithTokens(); err != nil || !slices.Contains(has, server) {
		return err
	}
	return r.locked(ctx, func(list *[]*entry) (write bool, err error) {
		var errs []error
		for _, x := range *list {
			for _, u := range x.Uses {
				if u.Server != server || u.Form == "" {
					continue
				}
				done, err := r.refresh(*list, x, u, token)
				errs = append(errs, err)
				write = write || done
			}
		}
		return write, errors.Join(errs...)
	})
}

func (r *Records) refresh(list []*entry, x *entry, u use, token string) (bool, error) {
	now, exists, err := content(x.Path)
	if err != nil || !exists {
		return false, err
	}
	var after []byte
	switch u.Form {
	case formHeaders:
		after = headersText(now, token)
	case formNetrc:
		if _, to, err := findBlock(now, u.Server); err != nil || to == 0 {
			return false, err
		}
		b, err := netrcBlock(u.Server, token)
		if err != nil {
			return false, err
		}
		if after, err = b.in(now, u.Server); err != nil {
			return false, err
		}
	default:
		return false, nil // of a later version
	}
	if bytes.Equal(now, after) {
		return false, nil
	}
	x.Changed = x.Changed || !x.wrote(now)
	x.Written = lastTwo(x.Written, sum(after))
	if err := r.write(list); err != nil {
		return false, err
	}
	return true, durable.ReplaceFile(x.Path, after, 0o600)
}
