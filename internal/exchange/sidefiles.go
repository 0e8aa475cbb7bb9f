package exchange

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/blob"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/term"
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
	if ex.opt.DryRun {
		return ex.trySymstore()
	}
	st, err := symstore.Create(ex.dir, tiers, symstore.Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	if st.Tiers() != tiers {
		return term.UsageError(fmt.Sprintf("%s is a %s store; symdepot symstore convert changes that", ex.dir, st.Tiers()))
	}
	ex.stored = map[string]blob.Ref{}
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
			continue
		}
		if err := ex.oneTransaction(st, tx); err != nil {
			return err
		}
		ex.progress(ex.result.Written.Bytes, -1)
	}
	return nil
}

// sameTransaction returns the key by which a transaction is recognised in a store,
// which keeps local time in seconds and no quotes.
func sameTransaction(at time.Time, words ...string) string {
	k := at.Local().Format("2006-01-02 15:04:05")
	for _, w := range words {
		k += "\x00" + strings.Join(strings.FieldsFunc(w, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '\'' }), " ")
	}
	return k
}

func (ex *exporter) oneTransaction(st *symstore.Store, tx depot.Transaction) error {
	origin := map[string]string{} // of each blob: the file that was added
	opt := symstore.AddOptions{
		Product: tx.Product, Version: tx.Version, Comment: tx.Comment, Time: tx.Time, OversizePlain: true,
		Event: func(e symstore.Event) {
			switch e.Kind {
			case symstore.EventStore:
				ex.event(EventWritten, e.Dest, "", false)
			case symstore.EventFailed:
				ex.event(EventFailedFile, fmt.Sprintf("%s in transaction %d", cmp.Or(origin[e.Path], e.Path), tx.Number), e.Err.Error(), true)
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
			p, err := ex.blobPath(f)
			if err != nil {
				return err
			}
			origin[p] = f.Path
			for _, k := range keys {
				at := symfile.Fold(k.Name + "/" + k.Key)
				if have, ok := ex.stored[at]; ok && have != f.Ref {
					ex.result.Replaced++
					ex.event(EventReplaced, k.Name+"/"+k.Key, "an earlier transaction had different content under this key", true)
				}
				ex.stored[at] = f.Ref
			}
			if !yield(symstore.File{Path: p, Source: f.Path, Keys: keys}, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield(symstore.File{}, err)
		}
	})
	ex.result.Written.Files += int64(result.Stored - result.Repeated)
	ex.result.Written.Bytes += result.Bytes
	ex.result.Failed += int64(result.Failed)
	return err
}

// trySymstore counts what would be stored.
func (ex *exporter) trySymstore() error {
	for _, tx := range ex.txs {
		err := ex.d.Files(ex.ctx, tx.Number, func(f depot.TxFile) error {
			if len(ex.keys(f)) == 0 {
				ex.countOmitted(tx, f)
				return nil
			}
			ex.result.Written.Files++
			ex.result.Written.Bytes += f.Size
			ex.event(EventWritten, f.Path, "", false)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blobPath returns where the bytes of a file are on this machine.
func (ex *exporter) blobPath(f depot.TxFile) (string, error) {
	c, err := ex.d.Content(ex.ctx, f.Ref)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if c.OSFile() == nil {
		return "", fmt.Errorf("content %s of %s is not on this disk", f.Ref, f.Object.Name)
	}
	return c.OSFile().Name(), nil
}

// keys returns the keys of a file in a symbol store.
func (ex *exporter) keys(f depot.TxFile) []symstore.Key {
	limit, l := 0, layout.SymStore
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
			limit, l = 100, layout.SSQP
		}
	}
	var keys []symstore.Key
	for _, p := range l.Paths(f.Object) {
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

// formatWords are symsorter's words for the kinds of files.
var formatWords = map[symfile.Kind]string{
	symfile.PE: "pe", symfile.PDB: "pdb", symfile.PDB20: "pdb", symfile.PortablePDB: "portablepdb", symfile.ELF: "elf", symfile.MachO: "macho",
	symfile.WASM: "wasm", symfile.Breakpad: "breakpad", symfile.SourceBundle: "sourcebundle",
}

// sideFiles writes the records of symsorter: the names of the files, and the run
// that each file belongs to.
func (ex *exporter) sideFiles(w *treeWriter, list []*place) error {
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
		if err := w.small(ex.ctx, p.path+".meta", b); err != nil {
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
					if err := w.small(ex.ctx, parts[0]+"/"+parts[1]+"/refs/"+id, nil); err != nil {
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
func (ex *exporter) bundleList(w *treeWriter, b *bundleFile) error {
	if len(b.DebugIDs) == 0 {
		return nil
	}
	if data, err := fs.ReadFile(w.tree.Root().FS(), "bundles/"+b.Name); err == nil {
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
	return w.small(ex.ctx, "bundles/"+b.Name, data)
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
