package symstore

import (
	"errors"
	"fmt"
	"io/fs"
)

// noRefsText is the content of noRefsFile, for people who find it.
const noRefsText = "This store was created with -:NOREFS: symdepot writes no refs.ptr into it.\r\n"

// refsSample is the number of folders that are read to find out whether a store
// without noRefsFile has refs.ptr files.
const refsSample = 100

// NoRefs reports whether the store was created with AddOptions.NoRefs, by this
// package. Other tools leave no mark.
func (s *Store) NoRefs() bool { return s.exists(noRefsFile) }

// decideRefs decides whether the store keeps refs.ptr files, before the files are
// staged; sameRefs checks that again under the lock.
func (a *adder) decideRefs() error {
	var err error
	if a.noRefs = a.s.NoRefs(); a.noRefs || !a.opt.NoRefs {
		return nil
	}
	adm, err := a.s.readAdmin()
	if err == nil {
		err = a.mayOmitRefs(adm)
	}
	a.noRefs = err == nil
	return err
}

// sameRefs returns an error if another writer has decided otherwise since decideRefs.
func (a *adder) sameRefs(adm *admin) error {
	switch marked := a.s.NoRefs(); {
	case marked && !a.noRefs:
		return fmt.Errorf("%w: another writer has just created it with -:NOREFS; add the files again", ErrExists)
	case marked || !a.noRefs:
		return nil
	}
	return a.mayOmitRefs(adm)
}

// mayOmitRefs returns ErrRefs unless the store is new, or has transactions and not one
// refs.ptr: other tools create such stores, and leave no mark.
func (a *adder) mayOmitRefs(adm *admin) error {
	if adm.max == 0 {
		return nil
	}
	found, err := sampleRefs(a.s)
	if err == nil && found {
		err = ErrRefs
	}
	return err
}

// sampleRefs reports whether the folders of the oldest live transactions have any
// refs.ptr. A store without such a folder says nothing about how it was created and
// counts as one that has.
func sampleRefs(s *Store) (bool, error) {
	n := 0
	for t, err := range s.Transactions(false) {
		if err != nil || t.Deletes != 0 {
			continue // an unreadable line has no transaction
		}
		entries, _, _, err := s.readEntries(t.ID)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		for _, e := range entries {
			dir, name, ok := s.locate(e.Name, e.Key)
			if !ok {
				continue
			}
			k, err := s.readKeyDir(dir, name)
			if err != nil || k.hasRefs() {
				return true, err
			}
			if n++; n == refsSample {
				return false, nil
			}
		}
	}
	return n == 0, nil
}

// numberOps lists the steps that record the number of a transaction of this package.
func (d *disk) numberOps(id ID) []op {
	return []op{
		{Do: opWrite, Path: lastIDFile, Data: []byte(id.String()), Had: d.exists(lastIDFile)},
		{Do: opWrite, Path: lastOwnFile, Data: []byte(id.String()), Had: d.exists(lastOwnFile)},
	}
}

// LastByOther reports whether another tool than this package made the last
// transaction. Earlier versions of it left no
// trace by which this can be told: their transactions count as those of another tool.
func (s *Store) LastByOther() (bool, error) {
	adm, err := s.readAdmin()
	if err != nil {
		return false, err
	}
	text, err := s.readText(lastOwnFile)
	if err != nil {
		return false, err
	}
	own, err := ParseID(string(text))
	if err != nil {
		own = 0 // missing or damaged: nothing says that it was this package
	}
	return own < adm.max, nil
}
