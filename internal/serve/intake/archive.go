package intake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/symdepot/symdepot/internal/base/truncate"
	"github.com/symdepot/symdepot/internal/depot/stage"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/objfile"
	"github.com/symdepot/symdepot/symfile"
)

// maxEntries limits the members of one uploaded archive.
const maxEntries = 250_000

// options are those for reading uploaded archives. The archives in a package are
// payload, and not opened.
func (x *exchange) options() scan.Options {
	opt := scan.Options{
		TempDir: x.cfg.Dir, MaxEntries: maxEntries, MaxMember: x.limit, MaxDepth: 3,
		MemberMemory: 4 << 20, TotalMemory: 16 << 20,
	}
	if x.t.face == nugetFace {
		opt.MaxDepth = 1
	}
	return opt
}

// stored is one file of an archive that the stage has accepted.
type stored struct {
	path string
	stage.Arrived
}

// taking says what expand does with the members of an archive.
type taking struct {
	// check may be nil; it gets the path in the archive and the bytes.
	check func(path string, a stage.Arrived, f *scan.Content) error
	// refused gets a member that the stage refuses, under its path there; nil: the archive
	// is refused.
	refused func(path string, a stage.Arrived, err error) error
	// unwanted is called for a member that is no symbol file; it may be nil.
	unwanted func()
}

// expand puts the symbol files of an archive, or the one compressed or plain file
// that it is, into a stage. name is the file's own name. An archive without symbol files
// is refused.
func (x *exchange) expand(ctx context.Context, u *upload, s *spool, name string, how taking) ([]stored, error) {
	archive, err := cleanPath(name)
	if err != nil {
		return nil, err
	}
	opt := x.options()
	opt.Want = objfile.Detect
	if x.t.face == sentryFace {
		opt.Want = func(head []byte, name string) error {
			if isMappingName(name) {
				return nil
			}
			return objfile.Detect(head, name)
		}
	}
	var list []stored
	unwanted := ""
	err = x.walk(ctx, s, name, opt, func(path string, f *scan.File) error {
		// The name of a compressed member lacks the suffix of the compression.
		safe, err := cleanPath(strings.TrimSuffix(path, symfile.BaseName(path)) + symfile.BaseName(f.Name))
		if err != nil {
			return err
		}
		if f.Archive == "" { // the body is one file
			if safe, err = cleanPath(path); err != nil {
				return err
			}
		} else {
			safe = archive + scan.Separator + safe
		}
		content, err := f.Open(ctx)
		if err != nil {
			return x.skipped(s, name, err)
		}
		defer content.Close()
		e := stage.Entry{Path: safe, ModTime: f.ModTime, Size: content.Size()}
		if x.t.face == sentryFace && isMapping(path) {
			e.As = asProGuard
		}
		a, err := u.put(ctx, e, io.NewSectionReader(content, 0, content.Size()), func(a stage.Arrived) error {
			if how.check == nil {
				return nil
			}
			return how.check(path, a, content)
		})
		if err != nil && how.refused != nil {
			return how.refused(safe, a, err)
		}
		if err != nil {
			return named(path, err)
		}
		list = append(list, stored{path, a})
		return nil
	}, func(path string) {
		unwanted = first(unwanted, path)
		if how.unwanted != nil {
			how.unwanted()
		}
	})
	if err == nil && len(list) == 0 {
		err = &stage.Refusal{Kind: stage.NotSymbol, Text: "there is no symbol file in " + truncate.Text(name)}
		if unwanted != "" && unwanted != name {
			err = &stage.Refusal{
				Kind: stage.NotSymbol,
				Text: fmt.Sprintf("there is no symbol file in %s (%s is none)", truncate.Text(name), truncate.Text(unwanted)),
			}
		}
	}
	return list, err
}

// named puts the path of a member in front of a refusal.
func named(path string, err error) error {
	var r *stage.Refusal
	if errors.As(err, &r) && !strings.Contains(r.Text, path) {
		return &stage.Refusal{Kind: r.Kind, Text: truncate.Text(truncate.Name(path)) + ": " + r.Text, Missing: r.Missing}
	}
	return err
}

// walk calls each for the files in an archive, and unwanted for those that
// opt.Want refuses. Everything else that cannot be read ends the walk: an archive
// is accepted whole or not at all.
func (x *exchange) walk(
	ctx context.Context, s *spool, name string, opt scan.Options, each func(path string, f *scan.File) error,
	unwanted func(path string),
) error {
	for f, err := range scan.Walk(ctx, []string{s.Name()}, opt) {
		var skip *scan.Skip
		switch {
		case errors.As(err, &skip):
			if skip.Reason == scan.ReasonUnwanted || skip.Reason == scan.ReasonDepth && opt.MaxDepth == 1 ||
				skip.Reason == scan.ReasonSymlink || skip.Reason == scan.ReasonIrregular {
				if unwanted != nil {
					unwanted(memberOf(s, name, skip.Path))
				}
				continue
			}
			return x.skipped(s, name, err)
		case err != nil:
			return err
		}
		err = each(memberOf(s, name, f.Path), f)
		f.Discard()
		if err != nil {
			return err
		}
	}
	return nil
}

// memberOf returns the path in an archive of a path of the walk, or the archive's
// own name if it is a single file.
func memberOf(s *spool, name, path string) string {
	member, ok := strings.CutPrefix(path, s.Name()+scan.Separator)
	if ok {
		return member
	}
	for _, suffix := range []string{".gz", ".zst", ".xz", ".bz2", ".zz", ".zlib"} {
		if t, ok := strings.CutSuffix(name, suffix); ok && t != "" {
			return t
		}
	}
	return name
}

// skipped turns an error of the walk into an answer.
func (x *exchange) skipped(s *spool, name string, err error) error {
	var skip *scan.Skip
	if !errors.As(err, &skip) {
		return err
	}
	member := truncate.Text(truncate.Name(memberOf(s, name, skip.Path)))
	if skip.Reason == scan.ReasonNoSpace {
		return &stage.Refusal{Kind: stage.NoSpace, Text: member + ": there is no space to unpack it"}
	}
	text := fmt.Sprintf("%s: %s", member, skip.Reason)
	if skip.Err != nil {
		text += ": " + truncate.Text(strings.ReplaceAll(skip.Err.Error(), s.Name(), name))
	}
	return &failure{http.StatusBadRequest, text}
}

// isArchive reports whether a body is a zip archive, a tar archive or another one
// that package scan opens, judging by its first bytes.
func isArchive(s *spool) bool {
	var head [archiveHead]byte
	n, _ := s.ReadAt(head[:], 0)
	return beginsArchive(head[:n])
}

// archiveHead is how many of its first bytes show that a file is an archive.
const archiveHead = 264

// beginsArchive reports whether a file with these first bytes is an archive.
func beginsArchive(head []byte) bool {
	b := string(head)
	for _, magic := range []string{
		"PK\x03\x04", "PK\x05\x06", "\x1f\x8b", "\x28\xb5\x2f\xfd", "\xfd7zXZ\x00", "BZh", "MSCF\x00\x00\x00\x00",
		"!<arch>\n", "070701",
	} {
		if strings.HasPrefix(b, magic) {
			return true
		}
	}
	return len(b) > 262 && b[257:262] == "ustar"
}
