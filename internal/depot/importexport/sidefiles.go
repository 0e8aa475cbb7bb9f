package importexport

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
	"github.com/symdepot/symdepot/symstore"
)

// symstore writes a symbol store with its records: each transaction of the depot
// becomes a transaction of the store with the same date.
func (ex *exporter) symstore() error {
	tiers := symstore.One
	if ex.layout.Tiers() == layout.TiersTwo {
		tiers = symstore.Two
	}
	ex.stored = map[string]chosen{}
	if ex.opt.DryRun {
		return ex.trySymstore()
	}
	st, err := symstore.Create(ex.to.Folder, tiers, symstore.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	if st.Tiers() != tiers {
		return term.UsageError(fmt.Sprintf("%s is a %s store; symdepot symstore convert changes that", ex.to.Folder, st.Tiers()))
	}
	have := map[string]int{}
	for t, err := range st.Transactions(false) {
		if err != nil {
			return err
		}
		have[sameTransaction(t.Time, t.Product, t.Version, t.Comment)]++
	}
	for _, tx := range ex.txs {
		k := sameTransaction(tx.Time, tx.Product, tx.Version, tx.Comment)
		if have[k] > 0 {
			have[k]--
			ex.result.Before++
			if err := ex.choose(tx, true); err != nil {
				return err
			}
			continue
		}
		if err := ex.oneTransaction(st, tx); err != nil {
			return err
		}
		ex.progress(ex.result.Written.Bytes, -1)
	}
	return nil
}

// sameTransaction returns a key that is equal for a transaction and its copy in a
// store, which keeps local time in seconds and no quotes.
func sameTransaction(at time.Time, words ...string) string {
	k := at.Local().Format("2006-01-02 15:04:05")
	for _, w := range words {
		k += "\x00" + strings.Join(strings.FieldsFunc(w, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '\'' }), " ")
	}
	return k
}

func (ex *exporter) oneTransaction(st *symstore.Store, tx depot.Transaction) error {
	if err := ex.choose(tx, false); err != nil {
		return err
	}
	var (
		mu     sync.Mutex
		origin = map[string]depot.TxFile{} // of each blob: the file that was added; guarded by mu
		copies = map[string]bool{}         // temporary files that are still needed; guarded by mu
		files  int64
		plain  int64
	)
	defer func() {
		for p := range copies { // of an export that was interrupted
			_ = os.Remove(p)
		}
	}()
	opt := symstore.AddOptions{
		Product: tx.Product, Version: tx.Version, Comment: tx.Comment, Time: tx.Time, OversizePlain: true,
		Event: func(e symstore.Event) {
			mu.Lock()
			from := origin[e.Path]
			if copies[e.Path] && e.Kind != symstore.EventPlain { // else EventStore follows
				delete(copies, e.Path)
				_ = os.Remove(e.Path) // one that stays is swept with the temporary files of the system
			}
			mu.Unlock()
			switch e.Kind {
			case symstore.EventStore:
				files++
				plain += from.Size
				ex.event(EventWritten, e.Dest, "", false)
			case symstore.EventFailed:
				ex.event(EventFailedFile, fmt.Sprintf("%s in build %d", cmp.Or(from.Path, e.Path), tx.Number), e.Err.Error(), true)
			}
		},
	}
	if ex.opt.Compress {
		opt.Compress = symstore.MSZIP
	}
	result, err := st.Add(ex.ctx, opt, func(yield func(symstore.File, error) bool) {
		stop := errors.New("enough")
		err := ex.d.Files(ex.ctx, tx.Number, func(f depot.TxFile) error {
			keys := ex.keys(f)
			if len(keys) == 0 {
				ex.countOmitted(tx, f)
				return nil
			}
			if keys = ex.best(f, keys); len(keys) == 0 {
				return nil
			}
			p, copied, err := ex.blobPath(f)
			if err != nil {
				return err
			}
			mu.Lock()
			origin[p] = f
			if copied {
				copies[p] = true
			}
			mu.Unlock()
			if !yield(symstore.File{Path: p, Source: f.Path, Keys: keys}, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(symstore.File{}, err)
		}
	})
	if result.ID != 0 {
		ex.result.Written.Files += files
		ex.result.Written.Bytes += result.Written
		ex.result.Plain += plain
	}
	ex.result.Failed += int64(result.Failed)
	return err
}

// choose finds the best file for each key of a transaction, among its own files and
// those of the transactions before it. A store has one file under a key; the depot
// answers with the same one. known means that the store already has the transaction.
func (ex *exporter) choose(tx depot.Transaction, known bool) error {
	return ex.d.Files(ex.ctx, tx.Number, func(f depot.TxFile) error {
		r := answer.RankedIn(tx, f)
		for _, k := range ex.keys(f) {
			at := keyPath(k)
			have, ok := ex.stored[symfile.Fold(at)]
			if ok && have.Ref == f.Ref {
				have.Try = have.Try && r.Try
				ex.stored[symfile.Fold(at)] = have
				continue
			}
			if ok && !answer.Better(r, have.Ranked, roleOf(keyLayout(f.Object.Kind), at+"/"+k.Name)) {
				if !known {
					ex.shadow(at, f, have)
				}
				continue
			}
			ex.stored[symfile.Fold(at)] = chosen{r, tx.Number}
			switch {
			case !ok || known:
			case have.tx == tx.Number:
				ex.shadow(at, have.TxFile, chosen{r, tx.Number})
			default:
				ex.result.Replaced++
				ex.event(EventReplaced, at,
					fmt.Sprintf("%s of build %d replaces the different content of %s of build %d", f.Path, tx.Number, have.Path, have.tx),
					true)
			}
		}
		return nil
	})
}

// shadow counts a file that is not written under a key because of a better one.
func (ex *exporter) shadow(at string, f depot.TxFile, better chosen) {
	ex.result.Shadowed++
	ex.event(EventShadowed, at,
		fmt.Sprintf("%s is not written: %s of build %d is the better file for this key", f.Path, better.Path, better.tx),
		false)
}

// best returns the keys for which a file was chosen.
func (ex *exporter) best(f depot.TxFile, keys []symstore.Key) []symstore.Key {
	return slices.DeleteFunc(keys, func(k symstore.Key) bool { return ex.stored[symfile.Fold(keyPath(k))].Ref != f.Ref })
}

func keyPath(k symstore.Key) string { return k.Name + "/" + k.Key }

// trySymstore counts what would be stored.
func (ex *exporter) trySymstore() error {
	for _, tx := range ex.txs {
		if err := ex.choose(tx, false); err != nil {
			return err
		}
		err := ex.d.Files(ex.ctx, tx.Number, func(f depot.TxFile) error {
			keys := ex.keys(f)
			if len(keys) == 0 {
				ex.countOmitted(tx, f)
				return nil
			}
			if n := int64(len(ex.best(f, keys))); n > 0 {
				ex.result.Written.Files += n
				ex.result.Written.Bytes += n * f.Size
				ex.result.Plain += n * f.Size
				ex.event(EventWritten, f.Path, "", false)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blobPath returns where the bytes of a file are on this machine. copied means that the
// caller removes the file: it is a copy of a cold content.
func (ex *exporter) blobPath(f depot.TxFile) (path string, copied bool, err error) {
	c, err := ex.d.Content(ex.ctx, f.Ref)
	if err != nil {
		return "", false, err
	}
	defer c.Close()
	if _, err := ex.d.Cold.Of(ex.ctx, f.Ref); err == nil {
		path, err = copyOf(c)
		return path, true, err
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", false, err
	}
	if c.OSFile() == nil {
		return "", false, fmt.Errorf("content %s of %s is not on this disk", f.Ref, f.Object.Name)
	}
	return c.OSFile().Name(), false, nil
}

// copyOf writes a content to a temporary file and returns its name.
func copyOf(c *answer.File) (path string, err error) {
	temp, err := os.CreateTemp("", "symdepot-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(temp, io.NewSectionReader(c, 0, c.Size))
	if err = errors.Join(err, temp.Close()); err != nil {
		return "", errors.Join(err, os.Remove(temp.Name()))
	}
	return temp.Name(), nil
}

// keys returns the keys of a file in a symbol store.
func (ex *exporter) keys(f depot.TxFile) []symstore.Key {
	limit := 0
	t := symstore.Binary
	switch f.Object.Kind {
	case symfile.PE:
		limit = 1
	case symfile.PDB, symfile.PDB20, symfile.DBG, symfile.PortablePDB:
		limit, t = 1, symstore.Private
		if f.Object.Kind == symfile.PortablePDB {
			limit = 2
		}
		switch {
		case slices.Contains(f.Features, "public"):
			t = symstore.Public
		case slices.Contains(f.Features, "type-only"):
			t = symstore.TypeOnly
		}
	case symfile.ELF, symfile.MachO, symfile.WASM:
		if ex.opt.All {
			limit = 100
		}
	}
	var keys []symstore.Key
	for _, p := range keyLayout(f.Object.Kind).Paths(f.Object) {
		parts := strings.Split(p, "/")
		if len(parts) != 3 || len(keys) == limit {
			continue
		}
		if ex.opt.Lower {
			parts[0], parts[1] = symfile.Fold(parts[0]), symfile.Fold(parts[1])
		}
		keys = append(keys, symstore.Key{Name: parts[0], Key: parts[1], Type: t})
	}
	return keys
}

// keyLayout returns the layout whose paths give the keys of a kind of file.
func keyLayout(k symfile.Kind) layout.Layout {
	switch k {
	case symfile.ELF, symfile.MachO, symfile.WASM:
		return layout.SSQP
	}
	return layout.SymStore
}

// formatWords are symsorter's words for the kinds of files.
var formatWords = map[symfile.Kind]string{
	symfile.PE: "pe", symfile.PDB: "pdb", symfile.PDB20: "pdb", symfile.PortablePDB: "portablepdb", symfile.ELF: "elf", symfile.MachO: "macho",
	symfile.WASM: "wasm", symfile.Breakpad: "breakpad", symfile.SourceBundle: "sourcebundle",
}

// sideFiles writes the records of symsorter: the names of the files, and the run
// that each file belongs to.
func (ex *exporter) sideFiles(w writer, list []*place) error {
	for _, p := range list {
		format := formatWords[p.file.Object.Kind]
		if format == "" {
			format = "unknown"
		}
		arch := p.file.Arch
		if arch == "" {
			arch = "unknown"
		}
		b, err := json.Marshal(meta{p.file.Object.Name, arch, format})
		if err != nil {
			return err
		}
		if err := small(ex.ctx, w, p.path+".meta", b); err != nil {
			return err
		}
	}
	lists := map[string]*bundleFile{}
	for _, tx := range ex.txs {
		id := bundleID(tx)
		b := lists[id]
		if b == nil {
			b = &bundleFile{Name: id}
			lists[id] = b
		}
		if tx.Time.After(b.Timestamp) {
			b.Timestamp = tx.Time.UTC()
		}
		seen := map[string]bool{}
		err := ex.d.Files(ex.ctx, tx.Number, func(f depot.TxFile) error {
			for _, p := range ex.layout.Paths(f.Object) {
				parts := strings.Split(p, "/")
				if u := parts[0] + parts[1]; len(parts) == 3 && !seen[u] {
					seen[u] = true
					b.DebugIDs = append(b.DebugIDs, u)
					if err := small(ex.ctx, w, parts[0]+"/"+parts[1]+"/refs/"+id, nil); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(lists)) {
		if err := ex.bundleList(w, lists[id]); err != nil {
			return err
		}
	}
	return nil
}

// bundleList writes the list of a bundle. The ids of an existing list are kept.
func (ex *exporter) bundleList(w writer, b *bundleFile) error {
	if len(b.DebugIDs) == 0 {
		return nil
	}
	if data, err := w.read(ex.ctx, "bundles/"+b.Name); err == nil {
		var old bundleFile
		if json.Unmarshal(data, &old) == nil {
			b.DebugIDs = append(old.DebugIDs, b.DebugIDs...)
		}
	}
	slices.Sort(b.DebugIDs)
	b.DebugIDs = slices.Compact(b.DebugIDs)
	data, err := json.Marshal(b)
	if err != nil {
		return err
	}
	return small(ex.ctx, w, "bundles/"+b.Name, data)
}

// bundleID names the bundle of a transaction: the name it was imported under,
// else product and version, else its number.
func bundleID(tx depot.Transaction) string {
	if o := tx.Origin; o != nil && tx.Comment == o.Number && cleanBundle(o.Number) == o.Number && symfile.ValidName(o.Number) {
		return o.Number
	}
	if id := cleanBundle(tx.Product + "_" + tx.Version); id != "" && symfile.ValidName(id) {
		return id
	}
	return fmt.Sprintf("symdepot_%d", tx.Number)
}

// cleanBundle makes a text a bundle's name, by the rule of Sentry's symsorter:
// runs of other characters become one underscore, and underscores at both ends
// are removed.
func cleanBundle(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == ',', r == '+', r == '-':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "_"):
			b.WriteByte('_')
		}
	}
	return strings.Trim(b.String(), "_")
}
