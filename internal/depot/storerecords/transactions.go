package storerecords

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/depot/content"
	"github.com/symdepot/symdepot/internal/index"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// maxStoreRecord is the size limit of the record of one transaction, in bytes.
const maxStoreRecord = 64 << 20

// isStoreRecord reports whether a request is for a record of transactions.
func isStoreRecord(req layout.Request) bool {
	return req.Form == layout.FormAdmin && len(req.Part) > len(storeAdmin) && strings.EqualFold(req.Part[:len(storeAdmin)], storeAdmin)
}

// storeAdmin is the folder of a symbol store's records, with a slash.
const storeAdmin = "000Admin/"

// transactions answers 000Admin/lastid.txt and 000Admin/NNNNNNNNNN as a symbol store has them:
// the number of the last transaction, and the keys of one. Symbolicator reads them as
// the index of a source (has_index) and asks for nothing else. A transaction that is
// removed, out of the scope or not there yet has an empty record, because readers take
// a missing one for a fault.
func (r *Records) transactions(ctx context.Context, scope answer.Scope, part string) (*answer.File, error) {
	name := part[len(storeAdmin):]
	newest, err := r.db.List(ctx, scope.Index(), index.ListFilter{Limit: 1, Removed: true})
	if err != nil {
		return nil, err
	}
	var last int64
	changed := time.Unix(0, 0)
	if len(newest) > 0 {
		last, changed = newest[0].Number, newest[0].Time
	}
	if strings.EqualFold(name, "lastid.txt") {
		return answer.Text(fmt.Appendf(nil, "%010d", last), changed), nil
	}
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || len(name) != 10 || n <= 0 || n > last {
		return nil, fs.ErrNotExist
	}
	t, err := r.db.Show(ctx, n, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !scope.Sees(t.Product):
		return answer.Text(nil, changed), nil
	case err != nil:
		return nil, err
	}
	var text bytes.Buffer
	_, err = r.db.Show(ctx, n, func(f record.TxFile) error {
		for _, key := range storeKeys(f.Object) {
			fmt.Fprintf(&text, "\"%s\\%s\",\"%s\"\r\n", key[0], key[1], strings.ReplaceAll(symfile.BaseName(f.Path), `"`, "'"))
		}
		if text.Len() > maxStoreRecord {
			return fmt.Errorf("the record of transaction %d has more than %d bytes: %w", n, maxStoreRecord, content.ErrUnavailable)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answer.Text(text.Bytes(), t.Time), nil
}

// storeKeys lists the names and keys of an object in a symbol store. A portable PDB has
// its key in both letters: readers compare them as they are, and Symbolicator writes
// ffffffff.
func storeKeys(o symfile.Object) (keys [][2]string) {
	for _, p := range layout.SymStore.Paths(o) {
		parts := strings.Split(p, "/")
		if len(parts) != 3 || parts[0] != parts[2] || strings.ContainsAny(p, "\"\\\r\n") {
			continue
		}
		keys = append(keys, [2]string{parts[0], parts[1]})
		if guid, ok := strings.CutSuffix(parts[1], symfile.PortableAge); ok {
			keys = append(keys, [2]string{parts[0], guid + symfile.Fold(symfile.PortableAge)})
		}
	}
	return keys
}
