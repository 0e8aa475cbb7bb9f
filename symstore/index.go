package symstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
)

// An index file passes keys and paths from a first run, which reads the files, to a
// second run, which stores them, perhaps from a different path (options /x and
// /y). The format of the genuine tool is not published; this is our own:
//
//	; symdepot-index 1
//	"name\key","path","type","size"
//
// Lines end with CR LF. Paths are relative to the share. Quotes are optional.
const indexHead = "; symdepot-index 1"

// IndexEntry is one line of an index file.
type IndexEntry struct {
	Key  Key
	Path string // relative to the share of the first run, or absolute
	Size int64  // in bytes; -1 if the line has no size
	Line int    // line number, from 1; 0 if the entry was not read from a file
}

// LineError is the error for an unusable line of an index file.
type LineError struct {
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("index line %d: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// IndexOptions are the options of WriteIndex.
type IndexOptions struct {
	// Share is the folder that is removed from the paths (/g). It must contain
	// all files. Empty: paths are written as they are.
	Share string
	// Bare writes fields without quotes (/q).
	Bare bool
	// Append omits the first line, for appending to an existing index (/a).
	Append   bool
	Filter   Type // /z
	AllKinds bool
	Event    func(Event)
}

// WriteIndex writes the keys of files to w and stores nothing. The result counts
// the files as Add does.
func WriteIndex(ctx context.Context, w io.Writer, opt IndexOptions, files iter.Seq2[File, error]) (AddResult, error) {
	var result AddResult
	out := bufio.NewWriter(w)
	if !opt.Append {
		fmt.Fprint(out, indexHead, "\r\n")
	}
	tell := func(e Event) {
		if opt.Event != nil {
			opt.Event(e)
		}
	}
	for f, err := range files {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return result, errors.Join(err, out.Flush())
		}
		lines, err := opt.lines(f)
		switch {
		case err != nil && ignored(err):
			result.Ignored++
			tell(Event{Kind: EventIgnored, Path: f.Path, Err: err})
			continue
		case err != nil:
			result.Failed++
			if result.Err == nil {
				result.Err = fmt.Errorf("%s: %w", f.Path, err)
			}
			tell(Event{Kind: EventFailed, Path: f.Path, Err: err})
			continue
		}
		result.Stored++
		for _, e := range lines {
			result.Bytes += e.Size
			fmt.Fprint(out, e.line(opt.Bare), "\r\n")
			tell(Event{Kind: EventStore, Path: f.Path, Name: e.Key.Name, Key: e.Key.Key})
		}
	}
	return result, out.Flush()
}

// lines returns the entries of one file.
func (opt IndexOptions) lines(f File) ([]IndexEntry, error) {
	recorded := f.Source
	if recorded == "" {
		recorded = f.Path
	}
	if opt.Share != "" {
		rest, ok := below(strings.ReplaceAll(recorded, `\`, "/"), strings.TrimRight(strings.ReplaceAll(opt.Share, `\`, "/"), "/"))
		if !ok {
			return nil, fmt.Errorf("%s is not below the share %s", recorded, opt.Share)
		}
		recorded = filepath.ToSlash(recorded[len(recorded)-len(rest):])
	}
	if clean(recorded) != recorded {
		return nil, fmt.Errorf("%w: an index cannot represent the path %q", ErrName, truncate.Text(recorded))
	}
	in, _, err := openInput(File{Path: f.Path})
	if err != nil {
		return nil, err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return nil, err
	}
	keys, err := Identify(in, info.Size(), f.Path, opt.AllKinds)
	if err != nil {
		return nil, err
	}
	var list []IndexEntry
	for _, k := range keys {
		if err := checkName(k.Name); err != nil {
			return nil, err
		}
		if passes(opt.Filter, k.Type) {
			list = append(list, IndexEntry{Key: k, Path: recorded, Size: info.Size()})
		}
	}
	if len(list) == 0 {
		return nil, filtered(opt.Filter)
	}
	return list, nil
}

func (e IndexEntry) line(bare bool) string {
	parts := []string{e.Key.String(), e.Path, string(e.Key.Type), strconv.FormatInt(e.Size, 10)}
	if bare && !strings.Contains(e.Path, ",") {
		return strings.Join(parts, ",")
	}
	return `"` + strings.Join(parts, `","`) + `"`
}

// maxIndexLine is the maximum length in bytes of a line of an index.
const maxIndexLine = 64 << 10

// ReadIndex yields the entries of an index file. It skips empty lines and comments,
// which begin with ; or #. It yields a *LineError for an unreadable line and
// continues. Any other error is from r and ends the iteration.
func ReadIndex(r io.Reader) iter.Seq2[IndexEntry, error] {
	return func(yield func(IndexEntry, error) bool) {
		in := bufio.NewReaderSize(r, maxIndexLine)
		for n := 1; ; n++ {
			raw, long, err := nextLine(in)
			if err != nil && !errors.Is(err, io.EOF) {
				yield(IndexEntry{}, fmt.Errorf("index: %w", err))
				return
			}
			ended := err != nil
			line := strings.Trim(decode(raw), " \t\r\n\ufeff\x1a")
			if line != "" && line[0] != ';' && line[0] != '#' {
				e, err := parseIndexLine(line)
				if long {
					err = fmt.Errorf("longer than %d bytes", maxIndexLine)
				}
				e.Line = n
				if err != nil {
					e, err = IndexEntry{}, &LineError{n, err}
				}
				if !yield(e, err) {
					return
				}
			}
			if ended {
				return
			}
		}
	}
}

// nextLine returns a line, which is valid until the next call. It truncates a line
// that is longer than the reader's buffer.
func nextLine(in *bufio.Reader) (line []byte, long bool, err error) {
	line, err = in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, long = bytes.Clone(line[:min(len(line), 200)]), true
	}
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = in.ReadSlice('\n')
	}
	return line, long, err
}

func parseIndexLine(line string) (IndexEntry, error) {
	f := fields(line)
	if len(f) < 2 || f[1] == "" {
		return IndexEntry{}, fmt.Errorf("%q has no path", truncate.Text(line))
	}
	i := strings.LastIndexAny(f[0], `\/`)
	if i < 0 {
		return IndexEntry{}, fmt.Errorf("%q has no key", truncate.Text(line))
	}
	e := IndexEntry{Key: Key{Name: f[0][:i], Key: f[0][i+1:]}, Path: f[1], Size: -1}
	if err := checkName(e.Key.Name); err != nil {
		return e, err
	}
	if !validKey(e.Key.Key) {
		return e, fmt.Errorf("%w: the key %q", ErrName, truncate.Text(e.Key.Key))
	}
	if len(f) > 2 {
		e.Key.Type = Type(f[2])
	}
	if len(f) > 3 {
		if n, err := strconv.ParseInt(f[3], 10, 64); err == nil && n >= 0 {
			e.Size = n
		}
	}
	switch e.Key.Type {
	case Private, Public, TypeOnly, Binary:
	default:
		e.Key.Type = guessType(e.Key.Name)
	}
	return e, nil
}

// guessType guesses the type of a file from its name, for index lines of other
// tools, which have no type.
func guessType(name string) Type {
	if strings.HasSuffix(strings.ToLower(name), ".pdb") || strings.HasSuffix(strings.ToLower(name), ".dbg") {
		return Private
	}
	return Binary
}

// FromIndex converts the entries of an index to files for Add. share is the
// present folder of the files, as the records shall name it; dir is the path of
// that folder on this machine, or empty if it equals share. Consecutive entries
// with the same path become one file. FromIndex passes errors on, yields a
// *LineError for an entry outside the share, and continues after both. A caller
// that wants to add the remaining files filters these errors out.
func FromIndex(entries iter.Seq2[IndexEntry, error], share, dir string) iter.Seq2[File, error] {
	if dir == "" {
		dir = share
	}
	return func(yield func(File, error) bool) {
		var pending *File
		var last string
		for e, err := range entries {
			if err != nil {
				if !yield(File{}, err) {
					return
				}
				continue
			}
			if pending != nil && last == e.Path {
				pending.Keys = append(pending.Keys, e.Key)
				continue
			}
			if pending != nil && !yield(*pending, nil) {
				return
			}
			pending = nil
			f, err := indexed(e, share, dir)
			if err != nil {
				if !yield(File{}, &LineError{e.Line, err}) {
					return
				}
				continue
			}
			pending, last = &f, e.Path
		}
		if pending != nil {
			yield(*pending, nil)
		}
	}
}

// indexed joins the share and the path of an entry.
func indexed(e IndexEntry, share, dir string) (File, error) {
	f := File{Path: e.Path, Source: e.Path, Keys: []Key{e.Key}}
	slashed := strings.ReplaceAll(e.Path, `\`, "/")
	if isAbsolute(slashed) || share == "" {
		return f, nil
	}
	local, err := filepath.Localize(slashed)
	if err != nil {
		return f, fmt.Errorf("%w: the index path %q is outside the share", ErrName, truncate.Text(e.Path))
	}
	f.Path = filepath.Join(dir, local)
	sep := "/"
	if strings.Contains(share, `\`) {
		sep = `\`
	}
	f.Source = strings.TrimRight(share, `\/`) + sep + strings.ReplaceAll(slashed, "/", sep)
	return f, nil
}

// IsIndex reports whether the content that r begins with is that of an index of this
// package. An index of another tool has no such first line.
func IsIndex(r io.Reader) (bool, error) {
	head := make([]byte, len("\ufeff")+len(indexHead))
	n, err := io.ReadFull(r, head)
	if fileEnd(err) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return bytes.HasPrefix(bytes.TrimPrefix(head[:n], []byte("\ufeff")), []byte(indexHead)), err
}

// IndexComment returns the line that is appended to an index file after its files
// were stored (/yi).
func IndexComment(id ID) string { return "; transaction " + id.String() + "\r\n" }
