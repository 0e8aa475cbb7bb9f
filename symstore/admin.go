package symstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/symdepot/symdepot/symstore/internal/dircache"
)

// admin has the parsed records of a store, read under the lock.
type admin struct {
	max     ID // the highest number in any record
	last    ID // the number in lastid.txt; 0 if it is unreadable
	server  []record
	history []record
	files   map[ID]string // transaction files: "" if live, else the extension
}

// readAdmin reads 000Admin. It omits damaged records, but max includes every
// number in any record, so that no number is used twice.
func (d *disk) readAdmin() (*admin, error) {
	a := &admin{files: map[ID]string{}}
	text, err := d.readText(lastIDFile)
	if err != nil {
		return nil, err
	}
	if id, err := ParseID(string(text)); err == nil {
		a.last, a.max = id, id
	}
	for _, f := range []struct {
		name string
		list *[]record
	}{{serverFile, &a.server}, {historyFile, &a.history}} {
		data, err := d.readText(f.name)
		if err != nil {
			return nil, err
		}
		*f.list = parseRecords(data)
		for _, r := range *f.list {
			a.max = max(a.max, r.ID)
		}
	}
	names, err := dircache.ReadNames(d.root, adminDir)
	for _, n := range names {
		digits, ext := n, ""
		if i := strings.IndexByte(n, '.'); i >= 0 {
			digits, ext = n[:i], n[i:]
		}
		if id, err := ParseID(digits); err == nil && len(digits) == 10 {
			a.max = max(a.max, id)
			if have, ok := a.files[id]; !ok || have != "" {
				a.files[id] = ext
			}
		}
	}
	return a, ignoreNotExist(err)
}

// next returns the number of the next transaction.
func (a *admin) next() (ID, error) {
	if a.max >= maxID {
		return 0, fmt.Errorf("%w: no transaction number is left after %s", ErrDamaged, a.max)
	}
	return a.max + 1, nil
}

// guessID returns the number of the next transaction, provided that no other writer
// commits first.
func (d *disk) guessID() ID {
	text, err := d.readText(lastIDFile)
	if err != nil {
		return 1
	}
	id, err := ParseID(string(text))
	if err != nil || id >= maxID {
		return 1
	}
	return id + 1
}

func txFile(id ID) string { return path.Join(adminDir, id.String()) }

// readEntries reads the file of a live transaction.
func (d *disk) readEntries(id ID) (list []Entry, bad []error, cut bool, err error) {
	f, err := d.root.Open(txFile(id))
	if err != nil {
		return nil, nil, false, err
	}
	f.Close()
	data, err := d.readText(txFile(id))
	if err != nil {
		return nil, nil, false, err
	}
	list, bad, cut = parseEntries(data)
	return list, bad, cut, nil
}

// Transactions yields the live transactions in the order of server.txt or, with
// history, all transactions of history.txt, including deletions. It yields an
// error for each unreadable line.
func (s *Store) Transactions(history bool) iter.Seq2[Transaction, error] {
	return s.transactions(history)
}

// transactions is Transactions of the Store.
func (d *disk) transactions(history bool) iter.Seq2[Transaction, error] {
	return func(yield func(Transaction, error) bool) {
		name := serverFile
		if history {
			name = historyFile
		}
		data, err := d.readText(name)
		if err != nil {
			yield(Transaction{}, err)
			return
		}
		for _, r := range parseRecords(data) {
			if r.err != nil {
				r.err = fmt.Errorf("%s: %w: %w", name, ErrDamaged, r.err)
			}
			if !yield(r.Transaction, r.err) {
				return
			}
		}
	}
}

// Entries returns the entries of a live transaction in the order of its file. The
// error wraps ErrNoTransaction if no live transaction has this number. If the
// file is truncated or has unreadable lines, Entries returns the readable entries
// and an error that wraps ErrDamaged.
func (s *Store) Entries(id ID) ([]Entry, error) {
	list, bad, cut, err := s.readEntries(id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %s", ErrNoTransaction, id)
	case err != nil:
		return nil, err
	case len(bad) > 0:
		return list, fmt.Errorf("%w: transaction %s: %w", ErrDamaged, id, bad[0])
	case cut:
		return list, fmt.Errorf("%w: the file of transaction %s is truncated", ErrDamaged, id)
	}
	return list, nil
}

// Reported returns the next transaction number according to lastid.txt and
// according to history.txt: the highest number in the file plus one. The number
// of a new transaction is at least the larger of the two.
func (s *Store) Reported() (byLastID, byHistory ID, err error) {
	text, err := s.readText(lastIDFile)
	if err != nil {
		return 0, 0, err
	}
	if byLastID, err = ParseID(string(text)); err != nil {
		byLastID = 0 // damaged; history.txt still counts
	}
	text, err = s.readText(historyFile)
	if err != nil {
		return 0, 0, err
	}
	for _, r := range parseRecords(text) {
		byHistory = max(byHistory, r.ID)
	}
	return byLastID + 1, byHistory + 1, nil
}

// Upload is a live transaction with its entries.
type Upload struct {
	Transaction
	Entries []Entry
}

// Walk yields the live transactions with their entries, oldest first. An error
// yielded with an Upload names its unreadable part; the iteration continues.
func (s *Store) Walk(ctx context.Context) iter.Seq2[Upload, error] {
	return func(yield func(Upload, error) bool) {
		for t, err := range s.Transactions(false) {
			if ctx.Err() != nil {
				yield(Upload{}, ctx.Err())
				return
			}
			u := Upload{Transaction: t}
			if err == nil && t.Deletes == 0 {
				u.Entries, err = s.Entries(t.ID)
			}
			if !yield(u, err) {
				return
			}
		}
	}
}
