package mstools

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/symdepot/symdepot/internal/base/sorting"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot/retention"
	"github.com/symdepot/symdepot/symstore"
)

var ageSyntax = slashSyntax{rest: true, flags: append([]slashFlag{
	{name: "-keep-last", kind: slashValue},
	{name: "-keep-within", kind: slashValue},
	{name: "-hold", kind: slashEach},
	{name: "-dry-run"},
}, agestoreSyntax.flags...)}

var agestoreSyntax = slashSyntax{rest: true, flags: append([]slashFlag{
	{name: "date", kind: slashAttached},
	{name: "days", kind: slashAttached},
	{name: "size", kind: slashAttached},
	{name: "s"}, {name: "l"}, {name: "k"}, {name: "q"}, {name: "y"},
	{name: "-by", kind: slashWord, words: []string{"access", "age"}},
	{name: "-product", kind: slashValue},
	{name: "-version", kind: slashValue},
	{name: "-gone", kind: slashValue},
	{name: "-keep", kind: slashValue},
}, commonFlags...)}

// aging holds the options of age.
type aging struct {
	dir      string
	byAge    bool      // by the time of storing instead of the last use
	before   time.Time // zero: no limit
	limit    int64     // in bytes; -1: no limit
	product  string    // pattern with * and ?; empty: any
	version  string
	gone     string // folder of the builds, as recorded; empty: not asked for
	goneRoot string // the same folder on this machine
	keep     int    // number of transactions to keep of each product
	rules    keepRules
}

// byTime reports whether times decide which files are deleted.
func (g aging) byTime() bool { return !g.before.IsZero() || g.limit >= 0 }

// age deletes what has not been used for long: transactions of a store, or
// files of a folder without transactions, such as the cache of a debugger.
func (r *symstoreRun) age() error {
	g, err := r.aging()
	if err != nil {
		return err
	}
	if info, err := os.Stat(g.dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s is not a folder", errNoStore, g.dir)
	}
	admin := hasAdmin(g.dir)
	if !admin {
		if err := r.outsideStores(g); err != nil {
			return err
		}
	}
	reporting := r.args.has("size") && r.args.get("size") == ""
	if g.byTime() && !r.args.has("-by") && !reporting && !symstore.RecordsLastUse(g.dir) {
		return errors.New("this file system does not record the last read of files.\nMount it without noatime, " +
			"or use the time of storing: --by age")
	}
	var doomed []expired
	var kept []retention.Verdict
	var total int64
	if admin {
		doomed, kept, total, err = r.oldTransactions(g)
	} else {
		doomed, total, err = r.oldFiles(g)
	}
	if err != nil {
		return err
	}
	if reporting {
		r.print("%s: %d bytes (%s)\n", term.Printable(g.dir), total, term.Size(total))
		r.line(ageLine{Event: "size", Bytes: total})
		return nil
	}
	return r.ageOut(g, admin, doomed, kept, total)
}

// aging reads the options.
func (r *symstoreRun) aging() (aging, error) {
	g := aging{dir: ".", limit: -1, byAge: strings.EqualFold(r.args.get("-by"), "age"),
		product: r.args.get("-product"), version: r.args.get("-version"), gone: r.args.get("-gone")}
	if len(r.args.rest) > 1 {
		return g, term.UsageError("one folder at a time")
	}
	var err error
	if len(r.args.rest) == 1 {
		if g.dir, err = r.paths.local(r.args.rest[0]); err != nil {
			return g, fmt.Errorf("%w: %w", errNoStore, err)
		}
	}
	if g.before, err = r.before(); err != nil {
		return g, err
	}
	if err := r.agingLimits(&g); err != nil {
		return g, err
	}
	if g.rules, err = r.keepRules(); err != nil {
		return g, err
	}
	if g.gone != "" {
		if g.goneRoot, err = r.builds(g.gone); err != nil {
			return g, err
		}
	}
	return g, r.selects(g)
}

// before is the time that -days or -date names; zero without them.
func (r *symstoreRun) before() (time.Time, error) {
	switch {
	case r.args.has("days") && r.args.has("date"):
		return time.Time{}, term.UsageError("-days or -date, not both")
	case r.args.has("days"):
		n, err := strconv.ParseUint(r.args.get("days"), 10, 16)
		if err != nil {
			return time.Time{}, term.UsageError("-days=N wants a number")
		}
		return time.Now().Add(-time.Duration(n) * 24 * time.Hour), nil
	case r.args.has("date"):
		return parseDate(r.args.get("date"))
	}
	return time.Time{}, nil
}

// agingLimits reads -size and --keep.
func (r *symstoreRun) agingLimits(g *aging) (err error) {
	if v := r.args.get("size"); v != "" {
		if g.limit, err = strconv.ParseInt(v, 10, 64); err != nil || g.limit < 0 {
			return term.UsageError("-size=BYTES wants a number of bytes")
		}
	}
	if v := r.args.get("-keep"); r.args.has("-keep") {
		if g.keep, err = strconv.Atoi(v); err != nil || g.keep < 0 {
			return term.UsageError("--keep wants a number of transactions")
		}
	}
	return nil
}

// builds opens the folder of --gone. If its share is not mounted, no build folder exists.
func (r *symstoreRun) builds(dir string) (root string, err error) {
	if root, err = r.paths.local(dir); err != nil {
		return root, err
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) == 0 {
		return root, fmt.Errorf("the folder of the builds %s is missing or empty, perhaps not mounted: nothing is deleted", root)
	}
	return root, nil
}

// selects checks that the options select something.
func (r *symstoreRun) selects(g aging) error {
	switch {
	case g.byTime() || r.args.has("size") || g.product != "" || g.version != "" || g.gone != "" || g.keep != 0 || g.rules.choose():
		return nil
	case len(g.rules.holds) > 0:
		return term.UsageError("--hold only keeps transactions: " +
			"select others with -days=N, --keep-last, --keep-within or another option")
	}
	return term.UsageError("select transactions or files with -days=N, -date=M-D-Y, -size=BYTES, " +
		"--product, --version, --gone or --keep")
}

// parseDate parses M-D-Y, with a year of two or four digits, and Y-M-D.
func parseDate(s string) (time.Time, error) {
	for _, form := range []string{"1-2-2006", "1-2-06", "2006-1-2"} {
		if t, err := time.ParseInLocation(form, strings.ReplaceAll(s, "/", "-"), time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, term.UsageError("-date=M-D-Y wants a date, not " + s)
}

// hasAdmin reports whether a folder is a store with transactions.
func hasAdmin(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.IsDir() && strings.EqualFold(e.Name(), "000Admin")
	})
}

// outsideStores refuses two things: to delete single files of a store with
// transactions, and options that need transactions where there are none.
func (r *symstoreRun) outsideStores(g aging) error {
	if len(g.rules.holds) > 0 || g.rules.choose() {
		return fmt.Errorf("%w: %s has no transactions, which --keep-last, --keep-within and --hold keep", errNoStore, g.dir)
	}
	if g.product != "" || g.version != "" || g.gone != "" || g.keep > 0 {
		return fmt.Errorf("%w: %s has no transactions, which --product, --version, --gone and --keep choose from", errNoStore, g.dir)
	}
	for dir, i := absolute(g.dir), 0; i < 4; i++ {
		if hasAdmin(dir) {
			return term.UsageError(dir + " is a store with transactions: name the store instead of a folder in it")
		}
		dir = filepath.Dir(dir)
	}
	return nil
}

// expired is a transaction or a file that age has selected.
type expired struct {
	id    symstore.ID // 0 for a file
	path  string      // of a file
	what  string
	used  time.Time
	bytes int64 // freed by deleting it after those before it in the list
}

// oldTransactions selects transactions of a store, least recently used first. kept
// are those that a keep rule or a hold spares.
func (r *symstoreRun) oldTransactions(g aging) (list []expired, kept []retention.Verdict, total int64, err error) {
	// Listing must not open the store for writing.
	s, err := symstore.Open(g.dir, symstore.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, 0, err
	}
	defer s.Close()
	if kept, err = g.rules.keeps(s, time.Now()); err != nil {
		return nil, nil, 0, err
	}
	spared := map[symstore.ID]bool{}
	for _, v := range kept {
		spared[symstore.ID(v.Number)] = true
	}
	chosen, total, err := s.Age(r.ctx, symstore.AgeOptions{
		ByAge: g.byAge, Before: g.before, MaxBytes: g.limit, Keep: g.keep,
		Match:   func(u symstore.Upload) bool { return !spared[u.ID] && g.selects(u) },
		Problem: func(id symstore.ID, err error) { r.problem(id.String(), err) },
	})
	if err != nil {
		return nil, nil, 0, err
	}
	for _, c := range chosen {
		list = append(list, expired{id: c.ID, what: strings.TrimSpace(c.Product + " " + c.Version), used: c.Used, bytes: c.Frees})
	}
	return list, kept, total, nil
}

// selects reports whether the options other than times select a transaction.
func (g aging) selects(u symstore.Upload) bool {
	if g.product != "" && !wildcardMatch(g.product, u.Product) || g.version != "" && !wildcardMatch(g.version, u.Version) {
		return false
	}
	return g.gone == "" || g.buildMissing(u)
}

// buildMissing reports whether all source folders of a transaction are missing.
// They must be below the folder of the builds.
func (g aging) buildMissing(u symstore.Upload) bool {
	root := pathMap{{Prefix: g.gone, Dir: g.goneRoot}}
	if g.gone == g.goneRoot {
		root[0].Prefix = absolute(g.gone)
	}
	checked := map[string]bool{}
	for _, e := range u.Entries {
		local, ok := root.mapped(e.Source)
		if !ok {
			return false
		}
		dir := filepath.Dir(local)
		if checked[dir] {
			continue
		}
		checked[dir] = true
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return len(checked) > 0
}

// oldFiles selects files of a folder.
func (r *symstoreRun) oldFiles(g aging) ([]expired, int64, error) {
	var all []expired
	var total int64
	err := filepath.WalkDir(g.dir, func(p string, e fs.DirEntry, err error) error {
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if err != nil {
			r.problem(p, err)
			return nil
		}
		if e.IsDir() {
			if p != g.dir && !r.args.has("s") {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil //nolint:nilerr // deleted meanwhile
		}
		total += info.Size()
		used := symstore.LastUse(info)
		if g.byAge {
			used = info.ModTime()
		}
		marker := strings.ToLower(e.Name())
		if filepath.Dir(p) == filepath.Clean(g.dir) && slices.Contains([]string{"pingme.txt", "pingback.txt", "index2.txt"}, marker) {
			return nil // the marker files of the folder
		}
		all = append(all, expired{path: p, what: p, used: used, bytes: info.Size()})
		return nil
	})
	sorting.Stable(all, func(a, b expired) int { return a.used.Compare(b.used) })
	var out []expired
	left := total
	for _, d := range all {
		if !g.before.IsZero() && !d.used.Before(g.before) || g.limit >= 0 && left <= g.limit {
			continue
		}
		left -= d.bytes
		out = append(out, d)
	}
	return out, total, err
}

// ageLine is one line of JSON output. Its keys are a public interface.
type ageLine struct {
	Event   string `json:"event"` // kept, would-delete, deleted, failed, size, done
	ID      string `json:"id,omitempty"`
	Path    string `json:"path,omitempty"`
	What    string `json:"what,omitempty"`
	Used    string `json:"used,omitempty"`
	Bytes   int64  `json:"bytes"`
	Deleted int    `json:"deleted,omitempty"`
	Reason  string `json:"reason,omitempty"` // of kept: hold, young (dated in the future), last, within
}

func (d expired) line(event string) ageLine {
	l := ageLine{Event: event, Path: d.path, Used: d.used.UTC().Format(time.RFC3339), Bytes: d.bytes}
	if d.id != 0 {
		l.ID, l.What = d.id.String(), d.what
	}
	return l
}

func (d expired) text() string {
	if d.id == 0 {
		return fmt.Sprintf("%s  (%s, last used %s)", term.Printable(d.path), term.Size(d.bytes), d.used.Format(time.DateOnly))
	}
	return fmt.Sprintf("%s  %s  (%s, last used %s)", d.id, term.Printable(d.what), term.Size(d.bytes), d.used.Format(time.DateOnly))
}

// ageOut lists or deletes the selection.
func (r *symstoreRun) ageOut(g aging, admin bool, list []expired, kept []retention.Verdict, total int64) error {
	var freed int64
	for _, d := range list {
		freed += d.bytes
	}
	noun := "file"
	if admin {
		noun = "transaction"
	}
	summary := fmt.Sprintf("%s of %s", term.Size(freed), term.Size(total))
	if r.args.has("l") || r.args.has("-dry-run") {
		r.printKept(kept)
		for _, d := range list {
			r.print("%s\n", d.text())
			r.line(d.line("would-delete"))
		}
		r.print("%s would be deleted, which frees %s (%d bytes)\n", term.Count(int64(len(list)), noun), summary, freed)
		r.line(ageLine{Event: "done", Bytes: freed})
		return r.ageCode()
	}
	if len(list) > 0 && !r.args.has("y") &&
		!r.confirm(fmt.Sprintf("This deletes %s, which frees %s.", term.Count(int64(len(list)), noun), summary)) {
		r.print("nothing was deleted\n")
		return term.Exit(ssFailed)
	}
	deleted, freed, err := r.ageDelete(g, admin, list)
	r.print("%s deleted, %s (%d bytes) freed\n", term.Count(int64(deleted), noun), term.Size(freed), freed)
	r.line(ageLine{Event: "done", Bytes: freed, Deleted: deleted})
	if err != nil {
		return err
	}
	return r.ageCode()
}

func (r *symstoreRun) ageCode() error {
	if r.errors > 0 {
		return term.Exit(ssFailed)
	}
	return nil
}

// confirm asks the user for confirmation.
func (r *symstoreRun) confirm(question string) bool {
	fmt.Fprintf(r.env.Stderr, "%s Are you sure? (y/n) ", question)
	answer, _ := bufio.NewReader(r.env.Stdin).ReadString('\n') // an error counts as no
	fmt.Fprintln(r.env.Stderr)
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y")
}

// ageDelete deletes the selection and reports how much of it was deleted.
func (r *symstoreRun) ageDelete(g aging, admin bool, list []expired) (deleted int, freed int64, err error) {
	var s *symstore.Store
	if admin && len(list) > 0 {
		if s, err = symstore.Open(g.dir, r.opt); err != nil {
			return 0, 0, err
		}
		defer s.Close()
	}
	for _, d := range list {
		if err := r.ctx.Err(); err != nil {
			return deleted, freed, err
		}
		if admin {
			var result symstore.DelResult
			if result, err = s.Del(r.ctx, d.id); err == nil {
				r.deferred(result)
			}
		} else {
			err = os.Remove(d.path)
		}
		switch {
		case errors.Is(err, symstore.ErrNoTransaction), errors.Is(err, fs.ErrNotExist) && !admin:
			continue // deleted by another process
		case errors.Is(err, symstore.ErrDamaged), err != nil && !admin:
			r.problem(cmp.Or(d.path, d.id.String()), err)
			continue
		case err != nil:
			return deleted, freed, err
		}
		deleted++
		freed += d.bytes
		if !r.args.has("q") {
			r.print("%s\n", d.text())
		}
		r.line(d.line("deleted"))
	}
	if !admin && deleted > 0 && r.args.has("s") && !r.args.has("k") {
		removeEmptyDirs(g.dir)
	}
	return deleted, freed, nil
}

// removeEmptyDirs removes folders that are empty or contain only empty folders.
func removeEmptyDirs(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() {
			removeEmptyDirs(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir) // fails if the folder is not empty
}
