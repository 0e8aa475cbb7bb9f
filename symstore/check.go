package symstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/layout"
	"github.com/symdepot/symdepot/symfile"
)

// FindingKind says what is wrong, or worth noting.
type FindingKind string

// The kinds of findings. The comments name the repair after the colon.
const (
	LastIDWrong     FindingKind = "lastid"           // missing, unreadable or too low: rewritten
	ServerLine      FindingKind = "server-line"      // unreadable or truncated: restored from history.txt
	ServerMissing   FindingKind = "server-missing"   // a live transaction is not listed: the line is added
	ServerStale     FindingKind = "server-stale"     // a deleted transaction is listed: the line is removed
	HistoryLine     FindingKind = "history-line"     // unreadable or truncated: restored from server.txt
	HistoryMissing  FindingKind = "history-missing"  // a live transaction is not listed: the line is added
	TransactionLost FindingKind = "transaction-lost" // no transaction file: rebuilt from the refs.ptr files, or the transaction is removed
	TransactionCut  FindingKind = "transaction-cut"  // bad lines: rebuilt from the good lines and the refs.ptr files
	HalfDeleted     FindingKind = "half-deleted"     // history.txt lists it as deleted: the deletion is completed
	FileLost        FindingKind = "file-lost"        // a transaction lists a missing file: the entry is removed
	// RefMissing: refs.ptr misses the line of a stored file. Repair adds it. One note
	// replaces the findings of all transactions that no refs.ptr lists: a tool that
	// writes no such files, such as python-symstore, made them.
	RefMissing   FindingKind = "ref-missing"
	RefStray     FindingKind = "ref-stray"     // refs.ptr has a line of no live transaction: the line is removed
	RefLine      FindingKind = "ref-line"      // refs.ptr has an unreadable line: the line is removed
	PointerWrong FindingKind = "pointer"       // file.ptr contradicts the last line of refs.ptr: rewritten or removed
	FileUnneeded FindingKind = "file-unneeded" // a file is stored although refs.ptr has pointers only: the file is removed
	// FileStray is a file that no transaction lists. Repair removes it if
	// CheckOptions.RemoveStray is set. One note replaces the findings of all such
	// files in a store without any refs.ptr, filled by a download cache or by a tool
	// that keeps no records, and of those that are older than the first transaction.
	FileStray FindingKind = "file-stray"
	// FileHeld is a note about a file of a deleted transaction that another
	// program holds open. The first writer after that program removes it.
	FileHeld     FindingKind = "file-held"
	CabinetBad   FindingKind = "cabinet"  // a cabinet cannot be decoded: moved to the quarantine
	ContentWrong FindingKind = "content"  // a file does not have the key of its folder: moved to the quarantine
	Leftover     FindingKind = "leftover" // of an interrupted writer, or an empty folder: removed
)

// quarantineDir receives the files that Repair moves out of the store.
const quarantineDir = adminDir + "/symdepot.quarantine"

// Finding is one fault of a store, or a note about it.
type Finding struct {
	Kind   FindingKind
	ID     ID     // of the transaction; 0 if the finding is not about one
	Path   string // relative to the root of the store, with slashes
	Detail string
	// Mendable means that Repair can mend the fault, Mended that it has done
	// so.
	Mendable, Mended bool
	// Note means that the finding is not a fault.
	Note bool
}

func (f Finding) String() string {
	s := string(f.Kind)
	if f.ID != 0 {
		s += " " + f.ID.String()
	}
	if f.Path != "" {
		s += " " + f.Path
	}
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}

// CheckOptions are the options of Check and Repair.
type CheckOptions struct {
	// Contents also reads every stored file. Cabinets must decode, and each
	// file must have the key of its folder.
	Contents bool
	// RemoveStray lets Repair remove files that no transaction lists. They may
	// belong to another program or to a download cache.
	RemoveStray bool
	// Progress, if set, is called with the number of key folders read.
	Progress func(keys int)
}

// Check looks for faults and returns them. It holds the lock while it reads the
// records, so that it sees no unfinished change. Like every writer it first
// completes the changes of writers that died. It checks a read-only store
// without the lock.
func (s *Store) Check(ctx context.Context, opt CheckOptions) ([]Finding, error) {
	return s.check(ctx, opt, false)
}

// Repair checks a store as Check does, and mends what it can in one change. A
// second Check finds the faults that remain.
func (s *Store) Repair(ctx context.Context, opt CheckOptions) ([]Finding, error) {
	if s.opt.ReadOnly {
		return nil, ErrReadOnly
	}
	return s.check(ctx, opt, true)
}

func (s *Store) check(ctx context.Context, opt CheckOptions, repair bool) ([]Finding, error) {
	if s.flat {
		return nil, fmt.Errorf("%w: %s", ErrNotStore, s.dir)
	}
	c := &checker{s: s, opt: opt, bad: map[string]string{}, deferred: s.readDeferred()}
	if opt.Contents {
		if err := c.contents(ctx); err != nil {
			return c.found, err
		}
	}
	if s.opt.ReadOnly {
		if s.exists(journalDir) {
			c.journal()
		}
		return c.found, c.records(ctx)
	}
	ws, err := s.journal.open()
	if err != nil {
		return nil, err
	}
	defer ws.release()
	p, err := c.underLock(ctx, ws, repair)
	if err != nil {
		ws.discard()
		return c.found, err
	}
	if p == nil {
		ws.discard()
		return c.found, nil
	}
	for i := range c.found {
		c.found[i].Mended = c.found[i].Mendable
	}
	return c.found, ws.settle(p)
}

func (c *checker) underLock(ctx context.Context, ws *workspace, repair bool) (*plan, error) {
	l, err := c.s.journal.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer l.unlock()
	if err := c.records(ctx); err != nil || !repair || len(c.ops) == 0 {
		return nil, err
	}
	p := &plan{Version: planVersion, What: whatRepair, ID: c.adm.max, Ops: c.ops}
	return p, ws.commit(l, p)
}

// claim is one entry of a live transaction.
type claim struct {
	id      ID
	entry   Entry
	pointer bool
	lost    bool // the file is missing
	met     bool // the folder of the key was read
}

// checker compares the records with the folders, and lists the steps that make
// them agree.
type checker struct {
	s     *Store
	opt   CheckOptions
	found []Finding
	ops   []op
	bad   map[string]string // by stored file: why its content is wrong

	adm      *admin
	before   ID // the highest transaction number before the repair
	status   map[ID]*txStatus
	claims   map[string][]*claim // by folded name and key
	byTx     map[ID][]*claim
	dirs     []*keyDir
	anyRefs  bool
	readKeys int
	deferred []deferred // files to be removed later
	first    time.Time  // start of the first transaction; zero if unknown
	// unrecorded is the number of files without a transaction that are no fault,
	// older the number of those that are in folders older than first.
	unrecorded, older int
	// unlisted counts the stored files of transactions that no refs.ptr lists.
	unlisted int
}

// txStatus has the records about one transaction.
type txStatus struct {
	server, history     string // its lines; empty if missing or truncated
	serverCut           bool
	historyCut          bool
	file                bool // the transaction file of a live transaction exists
	deleted             bool // the file was renamed, or history.txt lists a deletion
	inHistory, inServer bool
	refs                []Entry // from the refs.ptr files, if the transaction file is missing
	refsPointer         bool
	rebuild             bool // the transaction file must be rewritten
	live                bool
}

func (c *checker) add(f Finding, ops ...op) {
	f.Mendable = f.Mendable || len(ops) > 0
	c.found = append(c.found, f)
	c.ops = append(c.ops, ops...)
}

// records checks everything except the contents of stored files.
func (c *checker) records(ctx context.Context) error {
	var err error
	if c.adm, err = c.s.readAdmin(); err != nil {
		return err
	}
	c.before = c.adm.max
	c.deferred = c.s.readDeferred()
	c.status = map[ID]*txStatus{}
	c.readLines()
	if err := c.readDirs(ctx); err != nil {
		return err
	}
	c.decide()
	if err := c.readTransactions(ctx); err != nil {
		return err
	}
	for _, k := range c.dirs {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.keyDir(k)
	}
	c.notes()
	c.lostClaims()
	c.rewriteTransactions()
	c.rewriteLists()
	return nil
}

// notes adds the notes that each stand for many files.
func (c *checker) notes() {
	if n := c.unrecorded - c.older; n > 0 {
		detail := fmt.Sprintf("no transaction has %d of the stored files; the store has no refs.ptr, so this is no fault", n)
		c.add(Finding{Kind: FileStray, Detail: detail, Note: true})
	}
	if c.older > 0 {
		detail := fmt.Sprintf(
			"no transaction has %d of the stored files; they were there before the first transaction, so this is no fault", c.older)
		c.add(Finding{Kind: FileStray, Detail: detail, Note: true})
	}
	if c.unlisted > 0 {
		detail := fmt.Sprintf("%d of the stored files have no line in refs.ptr: a tool that writes none stored them, so this is no fault. "+
			"symstore.exe does not count them when it deletes; --repair adds the lines", c.unlisted)
		c.add(Finding{Kind: RefMissing, Detail: detail, Note: true, Mendable: true})
	}
}

func (c *checker) tx(id ID) *txStatus {
	t := c.status[id]
	if t == nil {
		t = &txStatus{}
		c.status[id] = t
	}
	return t
}

// whole reports whether a line of server.txt or history.txt has all its fields.
func whole(r record) bool {
	return r.Deletes != 0 || len(fields(decode(r.raw))) >= 8 && !r.Time.IsZero()
}

// readLines reads server.txt, history.txt and the names in 000Admin.
func (c *checker) readLines() {
	for _, r := range c.adm.server {
		if r.err != nil {
			c.add(Finding{Kind: ServerLine, Path: serverFile, Detail: r.err.Error(), Mendable: true})
			continue
		}
		if r.Deletes != 0 {
			continue
		}
		t := c.tx(r.ID)
		t.inServer = true
		if whole(r) {
			t.server = string(r.raw)
		} else {
			t.serverCut = true
		}
	}
	for _, r := range c.adm.history {
		if r.err != nil {
			c.add(Finding{Kind: HistoryLine, Path: historyFile, Detail: r.err.Error(), Mendable: true})
			continue
		}
		t := c.tx(r.ID)
		t.inHistory = true
		if c.first.IsZero() || !r.Time.IsZero() && r.Time.Before(c.first) {
			c.first = r.Time
		}
		switch {
		case r.Deletes != 0:
			c.tx(r.Deletes).deleted = true
			t.history = string(r.raw)
		case whole(r):
			t.history = string(r.raw)
		default:
			t.historyCut = true
		}
	}
	for id, ext := range c.adm.files {
		switch ext {
		case "":
			c.tx(id).file = true
		case deletedExt:
			c.tx(id).deleted = true
		}
	}
}

// readDirs reads the folders of all keys.
func (c *checker) readDirs(ctx context.Context) error {
	tiers := c.s.Tiers()
	err := eachKeyDir(&c.s.disk, tiers, func(name, _, dir string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := c.s.readKeyDir(dir, name)
		if err != nil {
			return err
		}
		c.dirs = append(c.dirs, k)
		c.anyRefs = c.anyRefs || k.hasRefs() && !c.s.NoRefs()
		for _, r := range k.refs {
			t := c.tx(r.ID)
			t.refs = append(t.refs, Entry{Name: name, Key: path.Base(dir), Source: r.Path})
			t.refsPointer = t.refsPointer || r.Pointer
		}
		if c.readKeys++; c.opt.Progress != nil {
			c.opt.Progress(c.readKeys)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return c.emptyDirs(tiers)
}

// emptyDirs finds empty folders.
func (c *checker) emptyDirs(tiers Tiers) error {
	var walk func(dir string, depth int) (empty bool, err error)
	walk = func(dir string, depth int) (bool, error) {
		d, err := c.s.root.Open(dir)
		if err != nil {
			return false, err
		}
		entries, err := d.ReadDir(-1)
		d.Close()
		if err != nil {
			return false, err
		}
		empty := true
		for _, e := range entries {
			sub := path.Join(dir, e.Name())
			if !e.IsDir() || depth == 0 {
				empty = false
				continue
			}
			if dir == "." && strings.EqualFold(e.Name(), adminDir) {
				continue
			}
			gone, err := walk(sub, depth-1)
			if err != nil {
				return false, err
			}
			if !gone {
				empty = false
				continue
			}
			c.add(Finding{Kind: Leftover, Path: sub, Detail: "empty folder"}, op{Do: opRmdir, Path: sub})
		}
		return empty, nil
	}
	depth := 2
	if tiers == Two {
		depth = 3
	}
	_, err := walk(".", depth)
	return err
}

// decide finds out which numbers are live transactions.
func (c *checker) decide() {
	for _, id := range c.ids() {
		t := c.status[id]
		switch {
		case t.file && t.deleted && !t.inServer:
			c.add(Finding{Kind: HalfDeleted, ID: id, Path: txFile(id), Detail: "deleted according to history.txt"},
				op{Do: opMove, From: txFile(id), Path: txFile(id) + deletedExt})
		case t.file:
			t.live = true
		case t.deleted && t.inServer:
			c.add(Finding{Kind: ServerStale, ID: id, Path: serverFile, Detail: "the transaction was deleted", Mendable: true})
		case t.deleted:
		case len(t.refs) > 0:
			t.live, t.rebuild = true, true
			c.add(Finding{
				Kind: TransactionLost, ID: id, Path: txFile(id), Detail: fmt.Sprintf("%d refs.ptr files list it", len(t.refs)), Mendable: true,
			})
		case t.inServer:
			c.add(Finding{Kind: TransactionLost, ID: id, Path: txFile(id), Detail: "no refs.ptr lists it either", Mendable: true})
		}
		if t.live && !t.inServer {
			c.add(Finding{Kind: ServerMissing, ID: id, Path: serverFile, Mendable: true})
		}
		if t.serverCut {
			c.add(Finding{Kind: ServerLine, ID: id, Path: serverFile, Detail: "the line is truncated", Mendable: true})
		}
		if t.live && !t.inHistory {
			c.add(Finding{Kind: HistoryMissing, ID: id, Path: historyFile, Mendable: true})
		}
		if t.historyCut {
			c.add(Finding{Kind: HistoryLine, ID: id, Path: historyFile, Detail: "the line is truncated", Mendable: true})
		}
	}
}

func (c *checker) ids() []ID {
	ids := make([]ID, 0, len(c.status))
	for id := range c.status {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// readTransactions reads the entries of the live transactions.
func (c *checker) readTransactions(ctx context.Context) error {
	c.claims, c.byTx = map[string][]*claim{}, map[ID][]*claim{}
	for _, id := range c.ids() {
		t := c.status[id]
		if !t.live {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		// Folders are listed in any order.
		sorting.By(t.refs, func(a, b Entry) int { return strings.Compare(a.Name+"/"+a.Key, b.Name+"/"+b.Key) })
		entries := t.refs
		if t.file {
			list, bad, cut, err := c.s.readEntries(id)
			if err != nil {
				return err
			}
			entries = list
			if cut || len(bad) > 0 {
				detail := "the last line has no end"
				if len(bad) > 0 {
					detail = bad[0].Error()
				}
				c.add(Finding{Kind: TransactionCut, ID: id, Path: txFile(id), Detail: detail, Mendable: true})
				t.rebuild = true
				entries = union(list, t.refs)
			}
		}
		for _, e := range entries {
			cl := &claim{id: id, entry: e, pointer: c.isPointer(id)}
			k := symfile.Fold(e.Name + "/" + e.Key)
			c.claims[k] = append(c.claims[k], cl)
			c.byTx[id] = append(c.byTx[id], cl)
		}
	}
	return nil
}

// union adds the entries that only the refs.ptr files have. Entries keep the order of
// list, with the source paths of refs: that of a truncated line may be cut.
func union(list, refs []Entry) []Entry {
	key := func(e Entry) string { return symfile.Fold(e.Name + "/" + e.Key) }
	whole := map[string]Entry{}
	for _, e := range refs {
		if _, ok := whole[key(e)]; !ok {
			whole[key(e)] = e
		}
	}
	var out []Entry
	seen := map[string]bool{}
	for _, e := range slices.Concat(list, refs) {
		k := key(e)
		if seen[k] {
			continue
		}
		seen[k] = true
		if w, ok := whole[k]; ok {
			e = w
		}
		out = append(out, e)
	}
	return out
}

func (c *checker) isPointer(id ID) bool {
	t := c.status[id]
	for _, line := range []string{t.server, t.history} {
		if line == "" {
			continue
		}
		if r, err := parseTransaction(line); err == nil {
			return r.Pointer
		}
	}
	return t.refsPointer
}

// journal reports the leftovers of other writers. It is used if they must not
// be removed.
func (c *checker) journal() {
	list, err := c.s.subdirs(journalDir, 0)
	if err != nil {
		return // no journal, no leftovers
	}
	for _, name := range list {
		c.add(Finding{Kind: Leftover, Path: path.Join(journalDir, name), Detail: "of a writer that is at work or was killed"})
	}
}

// rewriteTransactions writes the files of transactions that lost entries. It
// deletes a transaction that lost all of them.
func (c *checker) rewriteTransactions() {
	for _, id := range c.ids() {
		t := c.status[id]
		if !t.live {
			continue
		}
		var left []Entry
		lost := 0
		for _, cl := range c.byTx[id] {
			if cl.lost {
				lost++
				continue
			}
			left = append(left, cl.entry)
		}
		if lost == 0 && !t.rebuild {
			continue
		}
		if len(left) == 0 && lost > 0 {
			t.live = false
			if t.file {
				c.ops = append(c.ops, op{Do: opMove, From: txFile(id), Path: txFile(id) + deletedExt})
			}
			if next, err := c.adm.next(); err == nil {
				c.adm.max = next
				n := c.tx(next)
				n.inHistory, n.history = true, Transaction{ID: next, Deletes: id}.line()
			}
			continue
		}
		c.ops = append(c.ops, op{Do: opWrite, Path: txFile(id), Data: printEntries(left), Had: t.file})
	}
}

// rewriteLists writes server.txt, history.txt and lastid.txt if their content is
// wrong.
func (c *checker) rewriteLists() {
	var server, history []record
	for _, id := range c.ids() {
		t := c.status[id]
		line := t.server
		if line == "" {
			line = t.history
		}
		if line == "" && t.live {
			line = c.placeholderLine(id)
		}
		if t.live {
			server = append(server, record{raw: []byte(line)})
		}
		own := t.history
		if own == "" {
			own = line
		}
		if own != "" && (t.inHistory || t.live) {
			history = append(history, record{raw: []byte(own)})
		}
	}
	if !sameRecords(server, c.adm.server) {
		c.ops = append(c.ops, op{Do: opWrite, Path: serverFile, Data: printServer(server), Had: c.s.exists(serverFile)})
	}
	if !sameRecords(history, c.adm.history) {
		var data []byte
		for _, r := range history {
			data = appendLine(data, string(r.raw), false)
		}
		c.ops = append(c.ops, op{Do: opWrite, Path: historyFile, Data: data, Had: c.s.exists(historyFile)})
	}
	write := op{Do: opWrite, Path: lastIDFile, Data: []byte(c.adm.max.String()), Had: c.s.exists(lastIDFile)}
	switch {
	case c.adm.last == c.adm.max:
	case c.adm.last == c.before && c.before > 0:
		c.ops = append(c.ops, c.s.numberOps(c.adm.max)...) // assigned during the check
	default:
		c.add(Finding{Kind: LastIDWrong, ID: c.adm.max, Path: lastIDFile, Detail: fmt.Sprintf("it has the number %s", c.adm.last)}, write)
	}
}

// sameRecords compares two lists regardless of their order.
func sameRecords(a, b []record) bool {
	if len(a) != len(b) {
		return false
	}
	count := map[string]int{}
	for _, r := range a {
		count[string(r.raw)]++
	}
	for _, r := range b {
		if count[string(r.raw)]--; count[string(r.raw)] < 0 {
			return false
		}
	}
	return true
}

// placeholderLine returns a line for a transaction of which only the entries are known.
func (c *checker) placeholderLine(id ID) string {
	when := c.s.opt.Now()
	if info, err := c.s.root.Stat(txFile(id)); err == nil {
		when = info.ModTime()
	}
	return Transaction{ID: id, Pointer: c.status[id].refsPointer, Time: when}.line()
}

// contents reads all stored files.
func (c *checker) contents(ctx context.Context) error {
	n := 0
	return eachKeyDir(&c.s.disk, c.s.Tiers(), func(name, key, dir string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := c.s.readKeyDir(dir, name)
		if err != nil {
			return err
		}
		if n++; c.opt.Progress != nil {
			c.opt.Progress(n)
		}
		for _, leaf := range []string{k.leaf(name), k.leaf(layout.CabinetName(name))} {
			if leaf == "" || c.bad[leaf] != "" || c.defers(name, key, leaf) {
				continue
			}
			kind, err := verify(&c.s.disk, leaf, name, key)
			if errors.Is(err, fs.ErrNotExist) {
				continue // deleted during the check
			}
			if kind == "" && err != nil {
				return err
			}
			if kind != "" {
				c.bad[leaf] = err.Error()
				c.found = append(c.found, Finding{Kind: kind, Path: leaf, Detail: err.Error(), Mendable: true})
			}
		}
		return nil
	})
}
