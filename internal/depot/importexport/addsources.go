package importexport

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/files/scan"
	"github.com/symdepot/symdepot/internal/files/sources"
	"github.com/symdepot/symdepot/objfile"
)

// addSources adds the source files that the added objects name: from the folders of
// the options, and from the archives that were walked.
func (ad *adder) addSources(ctx context.Context, take taker) error {
	taken := int64(0)
	err := ad.wanted.Files(ctx, func(t sources.Text) error {
		defer t.File.Discard()
		if t.Err != nil {
			ad.skip(Event{Path: t.File.Path, Detail: t.Err.Error(), Notable: true, Unreadable: FromDisk(t.Err)})
			return nil
		}
		_, archive := absolute(t.File)
		for _, n := range t.Names {
			src := depot.Source{Path: n.Name, Label: scan.Label(n.Name), ModTime: t.File.ModTime, As: "sha1"}
			src.Content = memoryContent{bytes.NewReader(t.Bytes)}
			if t.File.Archive != "" {
				src.Path, src.Archive = archive+scan.Separator+strings.TrimLeft(n.Name, "/"), archive
			}
			got, err := take(ctx, src)
			switch {
			case errors.Is(err, objfile.ErrBroken), errors.Is(err, depot.ErrNoID), errors.Is(err, objfile.ErrNotSymbolFile):
				ad.skip(Event{Path: t.File.Path, Detail: err.Error(), Notable: true})
				continue
			case err != nil:
				return err
			}
			taken++
			for _, g := range got {
				ad.countAdded(t.File.Path, g)
			}
		}
		return nil
	})
	ad.counts.Tally = ad.wanted.Tally()
	ad.counts.Sources = taken
	if FromDisk(err) {
		err = scan.ReadError{Err: err}
	}
	return err
}

// memoryContent is a content in memory.
type memoryContent struct{ *bytes.Reader }

func (memoryContent) Changed() bool { return false }
