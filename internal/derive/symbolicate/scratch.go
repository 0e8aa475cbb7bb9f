package symbolicate

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/symdepot/symdepot/functab"
	"github.com/symdepot/symdepot/objfile"
)

const (
	// maxScratch is how many bytes the decompressed sections of one module may take
	// on the disk.
	maxScratch = 16 << 30
	// sectionMemory is the size of the largest section that is decompressed into
	// memory.
	sectionMemory = 16 << 20
)

// scratch is the temporary files in which the compressed sections of one module are
// decompressed.
type scratch struct {
	dir string // empty: the folder of the system

	mu    sync.Mutex
	files []*os.File // guarded by mu
	left  int64      // bytes that may still be written; guarded by mu
	err   error      // the first error of writing; guarded by mu
}

// sections returns how sections are decompressed.
func (s *scratch) sections() objfile.SectionOptions {
	return objfile.SectionOptions{Memory: sectionMemory, Scratch: s.create}
}

// create makes a file. On systems where an open file can be removed it has no name.
func (s *scratch) create() (objfile.Scratch, error) {
	f, err := os.CreateTemp(s.dir, ".scratch-*")
	if err != nil {
		return nil, s.fail(err)
	}
	_ = os.Remove(f.Name()) // else close removes it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files = append(s.files, f)
	return &scratchFile{f, s}, nil
}

// fail keeps the first error of writing: readers of DWARF take a section that cannot
// be decompressed for a damaged one.
func (s *scratch) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	return err
}

// failure returns the first error of writing.
func (s *scratch) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// close removes the files.
func (s *scratch) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range s.files {
		errs = append(errs, f.Close())
		if err := os.Remove(f.Name()); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	s.files = nil
	return errors.Join(errs...)
}

// scratchFile is one of the files. It implements objfile.Scratch.
type scratchFile struct {
	*os.File
	s *scratch
}

// Write implements io.Writer.
func (f *scratchFile) Write(p []byte) (int, error) {
	f.s.mu.Lock()
	f.s.left -= int64(len(p))
	full := f.s.left < 0
	f.s.mu.Unlock()
	if full {
		return 0, f.s.fail(fmt.Errorf("%w: the decompressed sections have more than %d bytes", functab.ErrLimit, int64(maxScratch)))
	}
	n, err := f.File.Write(p)
	if err != nil {
		err = f.s.fail(err)
	}
	return n, err
}
