package tree

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// maxAdmin is the size limit of a record that is served.
const maxAdmin = 64 << 20

// Admin returns one of a store's own files: 000Admin/lastid.txt, server.txt,
// history.txt or a transaction, or the refs.ptr of a key. The paths on build
// machines in it are shortened to file names. A missing record, and any record of a
// folder without AdminFiles, is fs.ErrNotExist.
func (f *Folder) Admin(ctx context.Context, name string) (text []byte, changed time.Time, err error) {
	parts := strings.Split(name, "/")
	if !f.opt.AdminFiles || f.Layout(ctx).Records() != layout.SymStoreRecords {
		return nil, changed, fs.ErrNotExist
	}
	leaf := symfile.Fold(parts[len(parts)-1])
	switch {
	case len(parts) == 2 && strings.EqualFold(parts[0], "000Admin") && (leaf == "lastid.txt" || leaf == "server.txt" || leaf == "history.txt"):
	case len(parts) == 2 && strings.EqualFold(parts[0], "000Admin") && len(leaf) == 10 && strings.Trim(leaf, "0123456789") == "":
		if text, changed, err = f.readAdmin(parts); err != nil && f.wasNumber(leaf) {
			return []byte{}, f.opt.Now(), nil // a deletion, or deleted: readers take the list of ids as complete
		}
		return maskPaths(text, 1), changed, err
	case leaf == "refs.ptr" && len(parts) == 3:
		text, changed, err = f.readAdmin(parts)
		if err != nil {
			text, changed, err = f.readAdmin(append([]string{layout.Bucket(parts[0])}, parts...))
		}
		return maskPaths(text, 2), changed, err
	default:
		return nil, changed, fs.ErrNotExist
	}
	return f.readAdmin(parts)
}

func (f *Folder) readAdmin(parts []string) ([]byte, time.Time, error) {
	var none time.Time
	name, ok := f.tree.find(parts...)
	if !ok {
		return nil, none, fs.ErrNotExist
	}
	file, info, err := f.tree.open(name)
	if err != nil {
		return nil, none, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxAdmin+1))
	if err == nil && len(text) > maxAdmin {
		err = fmt.Errorf("%s has more than %d bytes: %w", name, maxAdmin, fs.ErrNotExist)
	}
	return text, info.ModTime(), err
}

// wasNumber reports whether the store has given out a transaction's number.
func (f *Folder) wasNumber(id string) bool {
	text, _, err := f.readAdmin([]string{"000Admin", "lastid.txt"})
	if err != nil {
		return false
	}
	last, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	n, nerr := strconv.ParseUint(id, 10, 64)
	return err == nil && nerr == nil && n > 0 && n <= last
}

// maskPaths shortens the paths from the given field of each line on to file names.
// It omits lines without that field, since their content is unknown.
func maskPaths(text []byte, field int) []byte {
	if text == nil {
		return nil
	}
	out := make([]byte, 0, len(text))
	for line := range bytes.Lines(text) {
		body := strings.TrimRight(string(line), "\r\n")
		parts := splitQuoted(body)
		if len(parts) <= field {
			continue
		}
		for i, p := range parts[field:] { // a path without quotes may contain commas
			quote := ""
			if strings.HasPrefix(p, `"`) {
				quote = `"`
			}
			parts[field+i] = quote + symfile.BaseName(strings.Trim(p, `"`)) + quote
		}
		out = append(out, strings.Join(parts, ",")...)
		out = append(out, string(line)[len(body):]...)
	}
	return out
}

// splitQuoted splits at commas outside of quotes, which it keeps.
func splitQuoted(s string) []string {
	var parts []string
	start, quoted := 0, false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			parts = append(parts, s[start:i])
			start = i + 1
		}
	}
	return append(parts, s[start:])
}
