package transcode

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/pdb"
	"github.com/symdepot/symdepot/symcache"
)

// Job is a PDB to transcode.
type Job struct {
	Name string // of the PDB
	ID   debugid.ID
	// Major is the major version to make, in the newest minor version.
	Major int
}

// Made is a SymCache file that a program made, in the scratch folder.
type Made struct {
	Path    string
	Size    int64
	Version symcache.Version
	Age     uint32 // that the program gave the file
	Program string
	Output  string // the end of what the program printed
	Took    time.Duration
}

// CheckPDB checks that a file is a PDB with this GUID that a program can read:
// native, complete, and usable on other machines than its build machine. It
// returns the ages of the PDB; programs use one or the other. The error is a
// *ProgramError.
func CheckPDB(name string, guid debugid.GUID) (ages []uint32, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &ProgramError{Class: ClassInfra, Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, &ProgramError{Class: ClassInfra, Err: err}
	}
	var magic [4]byte
	if n, _ := f.ReadAt(magic[:], 0); n == len(magic) && string(magic[:]) == "BSJB" {
		return nil, fault(ClassBadSource, "the file is a portable PDB, which has no native symbols")
	}
	p, err := pdb.Open(f, info.Size())
	switch {
	case errors.Is(err, pdb.ErrFormat):
		return nil, fault(ClassBadSource, "the file is not a PDB")
	case err != nil:
		return nil, fault(ClassBadSource, "the PDB is damaged: %w", err)
	case p.Format == pdb.MSFZ:
		return nil, fault(ClassBadSource, "the file is a compressed PDB (MSFZ), which no known transcoder reads")
	case p.Format != pdb.MSF:
		return nil, fault(ClassBadSource, "the file is a PDB of format 2.0, which has no GUID")
	case p.GUID != guid:
		return nil, fault(ClassBadSource, "the PDB has GUID %s instead of %s", p.GUID.Upper(), guid.Upper())
	case p.Truncated > 0:
		return nil, fault(ClassBadSource, "the PDB is truncated: %d bytes are missing", p.Truncated)
	}
	if fast, err := p.FastLink(); err == nil && fast {
		return nil, fault(ClassBadSource,
			"the PDB was linked with /DEBUG:FASTLINK and refers to object files of its build machine; convert it with mspdbcmf")
	}
	return []uint32{p.DBIAge, p.InfoAge}, nil
}

// result finds the one file that a program made of the PDB with that GUID and one
// of the ages; without ages, any age is right.
func (s *Scratch) result(guid debugid.GUID, ages []uint32) (*Made, error) {
	var found []string
	n := 0
	err := filepath.WalkDir(s.out(), func(name string, e fs.DirEntry, err error) error {
		if n++; n > maxFiles {
			return fault(ClassBadOutput, "the program wrote more than %d files", maxFiles)
		}
		if err == nil && e.Type().IsRegular() && strings.EqualFold(filepath.Ext(name), ".symcache") {
			found = append(found, name)
		}
		return err
	})
	switch _, own := errors.AsType[*ProgramError](err); {
	case own:
		return nil, err
	case err != nil:
		return nil, &ProgramError{Class: ClassInfra, Err: err}
	case len(found) == 0:
		return nil, fault(ClassNoOutput, "the program wrote no .symcache file")
	case len(found) > 1:
		return nil, fault(ClassBadOutput, "the program wrote %d .symcache files instead of one", len(found))
	}
	return accept(found[0], guid, ages)
}

// accept checks the path and the first bytes of a result. The rest of the format is
// not public.
func accept(path string, guid debugid.GUID, ages []uint32) (*Made, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &ProgramError{Class: ClassInfra, Err: err}
	}
	m := &Made{Path: path, Size: info.Size()}
	if m.Size == 0 {
		return nil, fault(ClassBadOutput, "the .symcache file that the program wrote is empty")
	}
	if _, m.Version, err = symcache.ParseFileName(filepath.Base(path)); err != nil || m.Version.Compare(symcache.MinVersion) < 0 {
		return nil, fault(ClassBadOutput, "the name of the .symcache file that the program wrote has no known version: %s",
			Printable(filepath.Base(path)))
	}
	folder := filepath.Base(filepath.Dir(path))
	got, err := symcache.ParseFolder(folder)
	if err != nil {
		return nil, fault(ClassBadOutput, "the .symcache file is in a folder whose name is not a GUID with an age: %s", Printable(folder))
	}
	if got.GUID != guid {
		return nil, fault(ClassBadOutput, "the .symcache file has the GUID %s", got.GUID.Upper())
	}
	if m.Age = got.Age; len(ages) > 0 && !slices.Contains(ages, got.Age) {
		return nil, fault(ClassBadOutput, "the .symcache file has the age %d instead of %d", got.Age, ages[0])
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &ProgramError{Class: ClassInfra, Err: err}
	}
	defer f.Close()
	var head [symcache.SniffLen]byte
	n, err := f.ReadAt(head[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, &ProgramError{Class: ClassInfra, Err: err}
	}
	if err := symcache.Detect(head[:n]); err != nil {
		return nil, fault(ClassBadOutput, "the .symcache file that the program wrote: %w", err)
	}
	return m, nil
}
