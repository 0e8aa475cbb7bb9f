package importexport

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// Pointers of a symbol store that belong to none of its transactions: tools that
// keep no records write them.

// pointerKey returns the name and the key of the path of a file.ptr.
func pointerKey(rel string) (name, key string, ok bool) {
	parts := strings.Split(rel, "/")
	n := len(parts)
	if n != 3 && n != 4 || symfile.Fold(parts[n-1]) != "file.ptr" {
		return "", "", false
	}
	return parts[n-3], parts[n-2], true
}

func (im *importer) isPointer(rel string) bool {
	_, _, ok := pointerKey(rel)
	return ok && im.symbols != nil
}

// errHasFile is the error for a pointer beside the file itself, which is used
// instead.
var errHasFile = errors.New("the store has the file itself, so its pointer is not followed")

// pointerHint says how a pointer that was refused for its folder is followed.
func pointerHint(err error) string {
	if !errors.Is(err, symstore.ErrPointer) || errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return "; --pointer-root [PREFIX=]DIR allows a folder"
}

// followLoose opens the target of a file.ptr.
func (im *importer) followLoose(rel string) (*os.File, error) {
	name, key, _ := pointerKey(rel)
	found, err := im.symbols.Find(name, key)
	if err != nil {
		return nil, err
	}
	if found.Plain != "" || found.Compressed != "" {
		return nil, errHasFile
	}
	return im.symbols.Follow(found)
}

// pointed reports whether the target of a file.ptr is imported.
func (im *importer) pointed(rel string, have map[string]bool) (looseFile, bool) {
	var none looseFile
	if im.covered[symfile.Fold(keyOf(rel))] {
		return none, false
	}
	name, _, _ := pointerKey(rel)
	l := looseFile{rel: rel, pointer: true, src: depot.Source{Path: im.store + "/" + rel, Name: name}}
	f, err := im.followLoose(rel)
	if err != nil {
		if !errors.Is(err, errHasFile) {
			im.countSkipped(l.src.Path, err.Error()+pointerHint(err), true)
		}
		return none, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		im.countSkipped(l.src.Path, err.Error(), true)
		return none, false
	}
	if have[fileKey(l.src.Path, info.ModTime())] {
		im.before++
		return none, false
	}
	l.size = info.Size()
	return l, true
}

// onePointed imports the target of a file.ptr.
func (im *importer) onePointed(ctx context.Context, take taker, l looseFile) error {
	f, err := im.followLoose(l.rel)
	if errors.Is(err, symstore.ErrPointer) || errors.Is(err, errHasFile) { // the pointer changed meanwhile
		im.countSkipped(l.src.Path, err.Error(), true)
		return nil
	}
	if err != nil {
		return im.judgeOpen(ctx, l.src.Path, err)
	}
	defer f.Close()
	return im.opened(ctx, take, f, l.src, path.Dir(l.rel)+"/"+l.src.Name)
}
