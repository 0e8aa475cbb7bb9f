package index

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/engine"
	"github.com/symdepot/symdepot/internal/index/lists"
	"github.com/symdepot/symdepot/internal/index/misses"
	"github.com/symdepot/symdepot/internal/index/pgtest"
	"github.com/symdepot/symdepot/internal/index/places"
	"github.com/symdepot/symdepot/internal/index/queue"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/index/tokens"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestSameAnswers runs the same random operations on both engines and compares
// every answer. The operations are divided into histories, each on a new pair of
// indexes; some run at the same time. SYMDEPOT_SEED repeats a run, SYMDEPOT_PART
// one history of it, SYMDEPOT_OPERATIONS sets the number; make torture runs half
// a million. A failing history is shortened before it is printed.
func TestSameAnswers(t *testing.T) {
	symtest.Sequential(t)
	t.Parallel()
	total := 1500
	if os.Getenv("SYMDEPOT_TORTURE") != "" {
		total = 500_000
	}
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_OPERATIONS")); err == nil {
		total = n
	}
	seed := symtest.Seed(t, 0)
	const length = 5000 // of one history
	first, end := 0, (total+length-1)/length
	if n, err := strconv.Atoi(os.Getenv("SYMDEPOT_PART")); err == nil {
		first, end = n, n+1
	}
	start := time.Now()
	var next, done atomic.Int64
	next.Store(int64(first))
	var wg sync.WaitGroup
	// A history waits for the server most of the time.
	for range min(end-first, 2*runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for part := int(next.Add(1)) - 1; part < end && !t.Failed(); part = int(next.Add(1)) - 1 {
				t.Run("part "+strconv.Itoa(part), func(t *testing.T) {
					n := length
					if part == end-1 && total > part*length {
						n = min(length, total-part*length)
					}
					sameAnswers(t, seed, part, n)
					done.Add(int64(n))
				})
			}
		})
	}
	wg.Wait()
	t.Logf("%d operations gave the same answers in %v", done.Load(), time.Since(start).Round(time.Second))
}

// sameAnswers runs one history of a seed.
func sameAnswers(t *testing.T, seed uint64, part, length int) {
	rng := rand.New(rand.NewPCG(seed, uint64(part)))
	history := make([]operation, length)
	for i := range history {
		history[i] = randomOperation(rng)
	}
	at, difference := compareAnswers(t, history)
	if at < 0 {
		return
	}
	t.Errorf("SYMDEPOT_SEED=%d SYMDEPOT_PART=%d: the engines differ after operation %d:\n%s", seed, part, at, difference)
	short := shorten(history[:at+1], func(h []operation) bool {
		at, d := compareAnswers(t, h)
		if at >= 0 {
			difference = d
		}
		return at >= 0
	})
	t.Fatalf("they differ also after these %d operations:\n%s\n%s", len(short), describeHistory(short), difference)
}

// operation is one call, with numbers that select its arguments.
type operation struct {
	verb       int
	a, b, c, d int
}

func randomOperation(rng *rand.Rand) operation {
	o := operation{a: rng.IntN(1 << 20), b: rng.IntN(1 << 20), c: rng.IntN(1 << 20), d: rng.IntN(1 << 20)}
	weight := rng.IntN(answerWeights)
	for i, v := range answerVerbs {
		if weight -= v.weight; weight < 0 {
			o.verb = i
			break
		}
	}
	return o
}

func describeHistory(history []operation) string {
	var b strings.Builder
	for _, o := range history {
		fmt.Fprintf(&b, "  %s(%d, %d, %d, %d)\n", answerVerbs[o.verb].name, o.a, o.b, o.c, o.d)
	}
	return b.String()
}

// shorten removes operations as long as fails stays true, with a limited number of
// attempts. The last operation is the one that fails.
func shorten(history []operation, fails func([]operation) bool) []operation {
	attempts := 60
	for size := len(history) / 2; size >= 1 && attempts > 0; size /= 2 {
		for at := 0; at+size < len(history) && attempts > 0; attempts-- {
			less := slices.Concat(history[:at], history[at+size:])
			if fails(less) {
				history = less
			} else {
				at += size
			}
		}
	}
	return history
}

// compareAnswers runs a history on both engines, on new indexes. It returns the
// first operation whose answers differ, or -1.
func compareAnswers(t *testing.T, history []operation) (at int, difference string) {
	t.Helper()
	c := newClock()
	opt := c.options()
	opt.MaxMisses, opt.MaxWanted = 30, 30
	var sides []*side
	server := pgtest.Shared(t)
	database := newDatabase(t)
	defer server.Drop(t, database) // a long run needs many
	dir := memoryDir(t)
	defer func() { _ = os.RemoveAll(dir) }()
	for _, where := range []string{filepath.Join(dir, "index.db"), database} {
		db, err := Open(t.Context(), where, opt)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		s := &side{ctx: t.Context(), db: db, clock: c}
		s.state, _ = db.Generation(s.ctx)
		sides = append(sides, s)
	}
	for i, o := range history {
		v := answerVerbs[o.verb]
		c.t = c.t.Add(time.Duration(o.d%7) * time.Minute)
		now := c.t
		var answers [2]string
		for j, s := range sides {
			c.t = now
			answers[j] = s.run(v.run, v.writes, o)
		}
		if answers[0] != answers[1] {
			return i, fmt.Sprintf("SQLite:     %s\nPostgreSQL: %s", answers[0], answers[1])
		}
	}
	var problems [2][]string
	for j, s := range sides {
		var err error
		if problems[j], err = s.db.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(problems[0])+len(problems[1]) > 0 {
		return len(history) - 1, fmt.Sprintf("the check finds:\nSQLite:     %q\nPostgreSQL: %q", problems[0], problems[1])
	}
	return -1, ""
}

// memoryDir returns a new folder whose files are in memory, where the system has
// such folders: the test does not prove that writes are durable. The caller removes it.
func memoryDir(t *testing.T) string {
	t.Helper()
	if dir, err := os.MkdirTemp("/dev/shm", "symdepot-*"); err == nil {
		return dir
	}
	return t.TempDir()
}

// side is an index with what an operation may refer to.
type side struct {
	ctx     context.Context
	db      *DB
	clock   *clock
	numbers []int64     // of transactions
	jobs    []queue.Job // with the tokens of their leases
	deleted []string
	out     []string
	state   uint64 // after the last write
}

// run returns the answer of an operation as text.
func (s *side) run(fn func(*side, operation) error, writes bool, o operation) string {
	s.out, s.deleted = nil, nil
	err := fn(s, o)
	for _, class := range []error{fs.ErrNotExist, fs.ErrExist, contents.ErrImported, queue.ErrQueueFull, queue.ErrLeaseLost, engine.ErrBusy, engine.ErrCorrupt, engine.ErrUnavailable} {
		if errors.Is(err, class) {
			s.say("error %v", class)
			err = nil
		}
	}
	if err != nil {
		s.say("error %s", strings.ReplaceAll(err.Error(), nameOf(s.db), "INDEX"))
	}
	if writes {
		after, _ := s.db.Generation(s.ctx)
		s.say("changed %v", after != s.state)
		s.state = after
	}
	slices.Sort(s.deleted)
	return strings.Join(append(s.out, s.deleted...), "; ")
}

func (s *side) say(format string, args ...any) { s.out = append(s.out, fmt.Sprintf(format, args...)) }

// list says the elements of a list whose order the interface leaves open.
func list[T any](s *side, of func(T) string, elements []T, err error) error {
	var texts []string
	for _, e := range elements {
		texts = append(texts, of(e))
	}
	slices.Sort(texts)
	s.say("%d: %s", len(texts), strings.Join(texts, ", "))
	return err
}

func all2[T any](seq iter.Seq2[T, error]) (list []T, err error) {
	for e, err := range seq {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	return list, nil
}

func plus[T any](e T) string { return fmt.Sprintf("%+v", e) }

func (s *side) gone(r blob.Ref) error {
	s.deleted = append(s.deleted, fmt.Sprintf("deleted %x", r[:4]))
	return nil
}

// Small sets of arguments, so that operations meet.
func answerContent(n int) int    { return n % 40 }
func answerProduct(n int) string { return []string{"", "P", "Q", "Ä"}[n%4] }
func answerSource(n int) string  { return []string{"msdl", "other"}[n%2] }
func answerKey(n int) string {
	return []string{"k", "K", "key\x00\xff", "κλειδί", strconv.Itoa(n % 50)}[n%5]
}

// answerEntry is one file of a small set with all kinds of keys; several files
// share names, ids and contents.
func answerEntry(n int) record.Entry {
	n = answerContent(n)
	switch n % 5 {
	case 0:
		return pdbAge(n, fmt.Sprintf("Foo%d.pdb", n/10), byte(n/10), uint32(n%10+1))
	case 1:
		return elf(n, symfile.Executable, fmt.Sprintf("%040x", n/10), 0)
	case 2:
		e := elf(n, symfile.Debug, fmt.Sprintf("%040x", n/10), int64(n))
		e.Path = fmt.Sprintf("/usr/lib/debug/%d", n/10)
		return e
	case 3:
		return entryOf(symfile.PE, "App.EXE", fmt.Sprintf("5f%02d000a000", n/10), symfile.Executable, byte(n))
	}
	return figureEntry(n)
}

func answerScope(n int) record.Scope {
	switch n % 4 {
	case 0, 1:
		return all
	case 2:
		return record.Scope{Products: []string{answerProduct(n / 4)}}
	}
	return record.Scope{Products: []string{answerProduct(n / 4), answerProduct(n / 16)}}
}

func (s *side) number(n int) int64 {
	if len(s.numbers) == 0 || n%20 == 0 {
		return int64(n % 30)
	}
	return s.numbers[n%len(s.numbers)]
}

func (s *side) job(n int) (j queue.Job, ok bool) {
	if len(s.jobs) == 0 {
		return j, false
	}
	return s.jobs[n%len(s.jobs)], true
}

// jobText is a job with its position instead of its id.
func (s *side) jobText(j queue.Job) string {
	i := slices.IndexFunc(s.jobs, func(k queue.Job) bool { return k.ID == j.ID })
	j.ID, j.Token = int64(i), ""
	result := ""
	if j.Result != nil {
		result, j.Result = fmt.Sprint(*j.Result), nil
	}
	return fmt.Sprintf("%+v %s", j, result)
}

func (s *side) noteJob(j queue.Job) {
	if i := slices.IndexFunc(s.jobs, func(k queue.Job) bool { return k.ID == j.ID }); i >= 0 {
		s.jobs[i] = j
	} else {
		s.jobs = append(s.jobs, j)
	}
}

func storedText(h record.Stored) string {
	var b strings.Builder
	for i, v := 0, reflect.ValueOf(h); i < v.NumField(); i++ {
		if f := v.Type().Field(i); f.IsExported() { // engines number rows on their own
			fmt.Fprintf(&b, "%s:%+v ", f.Name, v.Field(i).Interface())
		}
	}
	return b.String()
}

func txText(tx record.Transaction) string {
	var origin record.Origin
	if tx.Origin != nil {
		origin = *tx.Origin
	}
	tx.Origin = nil
	return fmt.Sprintf("%+v %+v", tx, origin)
}

type answerVerb struct {
	name   string
	weight int
	writes bool
	run    func(*side, operation) error
}

var answerVerbs []answerVerb

var answerWeights int

func init() {
	answerVerbs = []answerVerb{
		{"commit", 40, true, (*side).commit}, {"remove", 30, true, (*side).remove}, {"fetch", 15, true, (*side).fetch}, {"touch", 8, true, (*side).touch},
		{"evict", 6, true, (*side).evict}, {"drop", 3, true, (*side).dropCached}, {"derive", 10, true, (*side).derive}, {"forgetDerived", 2, true, (*side).forgetDerived},
		{"collect", 8, true, (*side).collect}, {"putMisses", 8, true, (*side).putMisses}, {"flushMisses", 4, true, (*side).flushMisses},
		{"count", 8, true, (*side).count}, {"dropWanted", 2, true, (*side).dropWanted}, {"enqueue", 15, true, (*side).enqueue}, {"lease", 12, true, (*side).lease},
		{"finish", 12, true, (*side).finish}, {"cancel", 3, true, (*side).cancel}, {"sweepJobs", 1, true, (*side).sweepJobs},
		{"putFailure", 4, true, (*side).putFailure}, {"flushFailures", 2, true, (*side).flushFailures}, {"token", 4, true, (*side).token}, {"revoke", 3, true, (*side).revoke},
		{"scrub", 2, true, (*side).scrub},
		{"lookup", 500, false, (*side).lookup}, {"higherAge", 120, false, (*side).higherAge}, {"find", 150, false, (*side).find}, {"paths", 60, false, (*side).paths},
		{"list", 60, false, (*side).listTx}, {"show", 60, false, (*side).show}, {"stats", 40, false, (*side).stats}, {"derived", 60, false, (*side).derived},
		{"holders", 60, false, (*side).holders}, {"contents", 20, false, (*side).contents}, {"evictable", 40, false, (*side).evictable}, {"misses", 60, false, (*side).misses},
		{"wanted", 40, false, (*side).wanted}, {"jobs", 60, false, (*side).listJobs}, {"failures", 30, false, (*side).failures}, {"tokens", 30, false, (*side).tokens},
		{"hasObject", 60, false, (*side).hasObject}, {"origins", 20, false, (*side).origins}, {"objectPages", 60, false, (*side).objectPages}, {"groups", 40, false, (*side).groups},
	}
	for _, v := range answerVerbs {
		answerWeights += v.weight
	}
}

func (s *side) commit(o operation) error {
	var entries []record.Entry
	for i := range 1 + o.a%4 {
		entries = append(entries, answerEntry(o.b+i*(o.c%7)))
	}
	tx := record.Tx{Kind: "add", Product: answerProduct(o.c), Version: strconv.Itoa(o.a % 3), Comment: answerKey(o.d), Entries: entries}
	if o.d%9 == 0 {
		tx.Origin = &record.Origin{Store: `\\srv\sym`, Number: strconv.Itoa(o.a % 6), Time: s.clock.t}
	}
	number, err := s.db.Commit(s.ctx, tx, nil)
	if err == nil {
		s.numbers = append(s.numbers, number)
	}
	s.say("%d", number)
	return err
}

func (s *side) remove(o operation) error {
	tx, err := s.db.Remove(s.ctx, s.number(o.a))
	s.say("%s", txText(tx))
	return err
}

func (s *side) fetch(o operation) error {
	e := answerEntry(o.a)
	return s.db.Cached.Put(s.ctx, contents.CachedFile{Source: answerSource(o.b), Product: answerProduct(o.c), Name: e.Object.Name, URL: "http://u/" + strconv.Itoa(o.d%3), Tag: strconv.Itoa(o.d % 2),
		Ref: e.Ref, Size: e.Size, Entries: []record.Entry{e}}, nil)
}

func (s *side) touch(o operation) error {
	used := map[blob.Ref]time.Time{}
	for i := range 1 + o.a%3 {
		used[answerEntry(o.b+i).Ref] = s.clock.t.Add(time.Duration(o.c%60) * time.Minute)
	}
	return s.db.Cached.Touch(s.ctx, used)
}

func (s *side) evict(o operation) error {
	n, bytes, err := s.db.Cached.Evict(s.ctx, []blob.Ref{answerEntry(o.a).Ref, answerEntry(o.b).Ref}, s.gone)
	s.say("%d files, %d bytes", n, bytes)
	return err
}

func (s *side) dropCached(o operation) error {
	f := contents.CacheFilter{UnusedSince: s.clock.t.Add(-time.Duration(o.b%10) * time.Hour)}
	if o.a%2 == 0 {
		f.Source = answerSource(o.c)
	}
	n, bytes, err := s.db.Cached.Drop(s.ctx, f, s.gone)
	s.say("%d files, %d bytes", n, bytes)
	return err
}

func (s *side) derive(o operation) error {
	from := answerEntry(o.a).Ref
	if o.b%5 == 0 {
		return s.db.PutDerived(s.ctx, from, record.Tool{Name: "t", Version: o.c % 3}, nil)
	}
	to := record.Content{Ref: ref(100 + o.b%10), Size: int64(o.b % 10)}
	if to.Ref == from {
		return nil
	}
	return s.db.PutDerived(s.ctx, from, record.Tool{Name: "t", Version: o.c % 3}, &to)
}

func (s *side) forgetDerived(o operation) error {
	n, err := s.db.ForgetDerived(s.ctx, ref(100+o.a%10))
	s.say("%d", n)
	return err
}

func (s *side) collect(o operation) error {
	before := s.clock.t.Add(-time.Duration(o.a%30) * time.Minute)
	contents, err := all2(s.db.Unreferenced(s.ctx, before))
	if err != nil {
		return err
	}
	var refs []blob.Ref
	for _, c := range contents {
		refs = append(refs, c.Ref)
	}
	slices.SortFunc(refs, func(a, b blob.Ref) int { return cmp.Compare(a.String(), b.String()) })
	n, err := s.db.DropContents(s.ctx, refs, before, s.gone)
	s.say("%d of %d", n, len(refs))
	return err
}

func (s *side) putMisses(o operation) error {
	var list []misses.Miss
	for i := range 1 + o.a%3 {
		list = append(list, misses.Miss{Key: answerKey(o.b + i), Source: answerSource(o.c), Class: uint8(1 + o.d%3), Since: s.clock.t, Until: s.clock.t.Add(time.Duration(o.d%90) * time.Minute), Detail: answerKey(o.d)})
	}
	return s.db.Misses.Put(s.ctx, list)
}

func (s *side) flushMisses(o operation) error {
	var n int64
	var err error
	switch o.a % 4 {
	case 0:
		n, err = s.db.Misses.Sweep(s.ctx, s.clock.t)
	case 1:
		n, err = s.db.Misses.Flush(s.ctx, misses.MissFilter{Key: answerKey(o.b)})
	case 2:
		n, err = s.db.Misses.Flush(s.ctx, misses.MissFilter{KeyPrefix: string([]rune(answerKey(o.b))[:1]), Source: answerSource(o.c)})
	default:
		n, err = s.db.Misses.Flush(s.ctx, misses.MissFilter{Class: uint8(1 + o.b%3), Before: s.clock.t.Add(-time.Hour)})
	}
	s.say("%d", n)
	return err
}

func (s *side) count(o operation) error {
	var rows []misses.Wanted
	for i := range 1 + o.a%3 {
		rows = append(rows, misses.Wanted{Name: answerKey(o.b + i), ID: strconv.Itoa(o.c % 20), Client: answerSource(o.d), Kind: []string{"", "pdb"}[o.a%2], Count: int64(1 + o.d%5), Last: s.clock.t})
	}
	return s.db.Wanted.Count(s.ctx, rows)
}

func (s *side) dropWanted(o operation) error {
	n, err := s.db.Wanted.Drop(s.ctx, s.clock.t.Add(-time.Duration(o.a%5)*time.Hour))
	s.say("%d", n)
	return err
}

func (s *side) enqueue(o operation) error {
	j := queue.Job{Kind: answerSource(o.a), Key: answerKey(o.b), Variant: o.c % 3, Priority: o.d % 4, MaxAttempts: o.a % 3, MaxQueued: []int{0, 4}[o.b%2]}
	if o.c%4 == 0 {
		j.NotBefore = s.clock.t.Add(time.Duration(o.d%20) * time.Minute)
	}
	if o.d%2 == 0 {
		j.Payload = []byte(fmt.Sprintf(`{"n":%d}`, o.a))
	}
	id, existing, err := s.db.Jobs.Enqueue(s.ctx, j)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(s.jobs, func(k queue.Job) bool { return k.ID == id }) {
		s.jobs = append(s.jobs, queue.Job{ID: id})
	}
	s.say("job %d, existing %v", slices.IndexFunc(s.jobs, func(k queue.Job) bool { return k.ID == id }), existing)
	return nil
}

func (s *side) lease(o operation) error {
	var kinds []string
	if o.a%2 == 0 {
		kinds = []string{answerSource(o.b)}
	}
	var variants []int
	if o.c%3 == 0 {
		variants = []int{o.d % 3}
	}
	jobs, err := s.db.Jobs.Lease(s.ctx, "worker"+strconv.Itoa(o.b%2), kinds, variants, time.Duration(1+o.d%20)*time.Minute, 1+o.c%3)
	for _, j := range jobs {
		s.say("%s", s.jobText(j))
		s.noteJob(j)
	}
	return err
}

func (s *side) finish(o operation) error {
	j, ok := s.job(o.a)
	if !ok {
		return nil
	}
	result := ref(o.b)
	out := queue.Outcome{Class: []string{"ok", "bad"}[o.b%2], Detail: answerKey(o.c), Result: &result}
	switch o.d % 5 {
	case 0:
		return s.db.Jobs.Complete(s.ctx, j.ID, j.Worker, j.Token, out)
	case 1:
		out.Result = nil
		if o.c%2 == 0 {
			out.Retry = s.clock.t.Add(time.Duration(o.c%30) * time.Minute)
		}
		return s.db.Jobs.Fail(s.ctx, j.ID, j.Worker, j.Token, out)
	case 2:
		return s.db.Jobs.Release(s.ctx, j.ID, j.Worker, j.Token)
	case 3:
		return s.db.Jobs.Complete(s.ctx, j.ID, j.Worker, "wrong", out)
	}
	return s.db.Jobs.Heartbeat(s.ctx, j.ID, j.Worker, j.Token, 10*time.Minute)
}

func (s *side) cancel(o operation) error {
	j, ok := s.job(o.a)
	if !ok {
		return nil
	}
	was, err := s.db.Jobs.Cancel(s.ctx, j.ID)
	s.say("%v", was)
	return err
}

func (s *side) sweepJobs(o operation) error {
	n, err := s.db.Jobs.Sweep(s.ctx, s.clock.t.Add(-time.Duration(o.a%20)*time.Hour))
	s.say("%d", n)
	return err
}

func (s *side) putFailure(o operation) error {
	return s.db.Jobs.PutFailure(s.ctx, queue.Failure{Source: ref(o.a % 8), Tool: answerSource(o.b), Version: strconv.Itoa(o.c % 2), Class: answerKey(o.c), Detail: answerKey(o.d), Until: s.clock.t.Add(time.Duration(o.d%90) * time.Minute)})
}

func (s *side) flushFailures(o operation) error {
	n, err := s.db.Jobs.FlushFailures(s.ctx, queue.FailureFilter{Tool: answerSource(o.a)})
	s.say("%d", n)
	return err
}

func (s *side) token(o operation) error {
	t := tokens.TokenRow{ID: strconv.Itoa(o.a % 10), Hash: ref(o.b % 12), Name: answerKey(o.c), Scopes: []string{"read"}}
	if o.d%2 == 0 {
		t.Products = []string{answerProduct(o.d / 2)}
	}
	return s.db.Tokens.Put(s.ctx, t)
}

func (s *side) revoke(o operation) error {
	if o.b%2 == 0 {
		return s.db.Tokens.Touch(s.ctx, map[string]time.Time{strconv.Itoa(o.a % 10): s.clock.t})
	}
	return s.db.Tokens.Revoke(s.ctx, strconv.Itoa(o.a%10))
}

func (s *side) scrub(o operation) error {
	if err := s.db.Scrub.Put(s.ctx, places.ScrubState{Owner: answerKey(o.a), Updated: s.clock.t, Position: int64(o.b), Started: s.clock.t, Contents: int64(o.c)}); err != nil {
		return err
	}
	st, err := s.db.Scrub.State(s.ctx)
	s.say("%+v", st)
	return err
}

func (s *side) lookup(o operation) error {
	e := answerEntry(o.a)
	a := e.Aliases[o.b%len(e.Aliases)]
	l := symfile.Lookup{ID: symfile.Fold(a.ID), Name: symfile.Fold(a.Name), Role: []symfile.Role{symfile.AnyRole, a.Role, symfile.Debug}[o.c%3]}
	if o.d%4 == 0 {
		l.Name = ""
	}
	hits, err := s.db.Lookup(s.ctx, answerScope(o.c), l)
	for i := 1; i < len(hits); i++ {
		if hits[i].Number > hits[i-1].Number {
			s.say("not the newest first")
		}
	}
	return list(s, func(h record.Hit) string { return fmt.Sprintf("%v %s", h.Role, storedText(h.Stored)) }, hits, err)
}

func (s *side) higherAge(o operation) error {
	e := answerEntry(o.a - o.a%5)
	name := ""
	if o.b%2 == 0 {
		name = symfile.Fold(e.Object.Name)
	}
	hits, err := s.db.HigherAge(s.ctx, answerScope(o.c), name, e.Object.DebugID.GUID.Lower(), uint32(o.d%8))
	for _, h := range hits {
		s.say("age %d", h.Object.DebugID.Age)
	}
	return list(s, func(h record.Hit) string { return storedText(h.Stored) }, hits, err)
}

func (s *side) find(o operation) error {
	e := answerEntry(o.a)
	q := []record.Query{{Name: symfile.Fold(e.Object.Name)}, {Name: "*o*"}, {IDs: []string{symfile.Fold(e.Aliases[0].ID)}}, {Prefix: symfile.Fold(e.Aliases[0].ID)[:4]}, {Ref: &e.Ref}, {Name: "?oo*", Kind: symfile.PDB}}[o.b%6]
	named, err := NamedIn(s.ctx, s.db, answerScope(o.c), symfile.Fold(e.Object.Name))
	if err != nil {
		return err
	}
	s.say("named %+v", named)
	found, err := s.db.Find(s.ctx, answerScope(o.c), q, 0)
	return list(s, func(f record.Found) string { return fmt.Sprint(storedText(f.Stored), f.Transactions) }, found, err)
}

// objectPages joins all pages of a list of objects: the pages of the engines may differ,
// the list not.
func (s *side) objectPages(o operation) error {
	e := answerEntry(o.a)
	f := lists.ObjectFilter{Sort: lists.ObjectSort(o.b % 3), Limit: 1 + o.d%5}
	f.Query = []record.Query{{}, {Name: symfile.Fold(e.Object.Name)}, {Name: "*o*"}, {Name: "?oo*", Kind: symfile.PDB}, {Ref: &e.Ref}}[o.b%5]
	switch o.d % 4 {
	case 1:
		f.Product = new(answerProduct(o.d))
	case 2:
		f.Fetched = new(o.b%2 == 0)
	case 3:
		f.Since = s.clock.t.Add(-time.Duration(o.b%50) * time.Hour)
	}
	if s.db.Lists = lists.NewLists(s.db.base, lists.UsualLimits); o.a%2 == 0 {
		s.db.Lists = lists.NewLists(s.db.base, lists.Limits{Step: 5, Few: 3, Names: 1000})
	}
	var texts []string
	for {
		page, next, err := s.db.Lists.Objects(s.ctx, answerScope(o.c), f)
		if err != nil {
			return err
		}
		for _, x := range page {
			texts = append(texts, fmt.Sprint(storedText(x.Stored), x.Product, x.Transactions))
		}
		if next == nil {
			break
		}
		f.After = *next
	}
	s.say("%d in order: %s", len(texts), strings.Join(texts, ", "))
	return nil
}

func (s *side) groups(o operation) error {
	order := lists.GroupOrder(o.a % 3)
	products, _, err := s.db.Lists.Products(s.ctx, answerScope(o.c), order, nil, 100)
	if err != nil {
		return err
	}
	s.say("%+v", products)
	versions, _, err := s.db.Lists.Versions(s.ctx, answerScope(o.c), answerProduct(o.b), lists.VersionFilter{Order: order, Limit: 100})
	s.say("%+v", versions)
	return err
}

func (s *side) paths(o operation) error {
	e := answerEntry(o.a)
	q := []PathQuery{{Path: e.Path}, {Glob: "/usr/*/*/prog"}, {Glob: "/usr/lib/debug/[0-2]"}, {BuildID: string(e.Object.BuildID)}}[o.b%4]
	found, complete, err := s.db.ELFPaths(s.ctx, answerScope(o.c), q, 0)
	s.say("complete %v", complete)
	return list(s, plus, found, err)
}

func (s *side) listTx(o operation) error {
	found, err := s.db.List(s.ctx, answerScope(o.a), ListFilter{Product: []*string{nil, new("P")}[o.b%2], Limit: o.c % 5, Removed: o.d%2 == 0, Before: int64(o.d % 40)})
	for _, tx := range found {
		s.say("%s", txText(tx))
	}
	return err
}

func (s *side) show(o operation) error {
	tx, err := s.db.Show(s.ctx, s.number(o.a), func(f record.TxFile) error {
		s.say("%+v", f)
		return nil
	})
	s.say("%s", txText(tx))
	return err
}

func (s *side) stats(operation) error {
	st, err := s.db.Stats(s.ctx)
	s.say("%+v", st)
	if err != nil {
		return err
	}
	cached, err := s.db.Cached.Stats(s.ctx)
	s.say("%+v", cached)
	return err
}

func (s *side) derived(o operation) error {
	c, err := s.db.Derived(s.ctx, answerEntry(o.a).Ref, record.Tool{Name: "t", Version: o.b % 3})
	s.say("%+v", c)
	return err
}

func (s *side) holders(o operation) error {
	e := answerEntry(o.a)
	products, err := s.db.ContentProducts(s.ctx, e.Ref)
	if err := list(s, plus, products, err); err != nil {
		return err
	}
	found, err := s.db.Holders(s.ctx, e.Ref)
	if len(found) == maxHolders {
		found = nil // which of them, is open
	}
	return list(s, plus, found, err)
}

func (s *side) contents(o operation) error {
	found, err := all2(s.db.Contents(s.ctx))
	if err := list(s, plus, found, err); err != nil {
		return err
	}
	left, err := all2(s.db.Unreferenced(s.ctx, s.clock.t))
	return list(s, plus, left, err)
}

func (s *side) evictable(o operation) error {
	f := contents.CacheFilter{Name: []string{"", "foo*", "prog"}[o.a%3]}
	if o.b%2 == 0 {
		f.Source = answerSource(o.c)
	}
	found, err := all2(s.db.Cached.Evictable(s.ctx, f))
	for i := 1; i < len(found); i++ {
		if found[i].Used.Before(found[i-1].Used) {
			s.say("not the longest unused first")
		}
	}
	return list(s, plus, found, err)
}

func (s *side) misses(o operation) error {
	found, err := s.db.Misses.Of(s.ctx, answerKey(o.a))
	s.say("%+v", found)
	if err != nil {
		return err
	}
	st, err := s.db.Misses.Stats(s.ctx)
	s.say("%+v", st)
	return err
}

func (s *side) wanted(o operation) error {
	found, err := all2(s.db.Wanted.List(s.ctx, misses.WantedFilter{Client: []string{"", "msdl"}[o.a%2], Since: s.clock.t.Add(-time.Duration(o.b%100) * time.Hour), Latest: o.c%3 == 0}))
	for i := range found {
		f := &found[i] // engines number rows on their own
		*f = misses.Wanted{Name: f.Name, ID: f.ID, Kind: f.Kind, Client: f.Client, Count: f.Count, First: f.First, Last: f.Last}
	}
	return list(s, plus, found, err)
}

func (s *side) listJobs(o operation) error {
	jobs, err := s.db.Jobs.List(s.ctx, queue.JobFilter{Kind: []string{"", "msdl"}[o.a%2], States: [][]queue.JobState{nil, {queue.JobQueued, queue.JobRunning}, {queue.JobFailed}}[o.b%3], Limit: o.c % 6})
	for _, j := range jobs {
		s.say("%s", s.jobText(j))
	}
	if err != nil {
		return err
	}
	st, err := s.db.Jobs.Stats(s.ctx)
	return list(s, plus, st, err)
}

func (s *side) failures(o operation) error {
	f, err := s.db.Jobs.Failure(s.ctx, ref(o.a%8), answerSource(o.b), strconv.Itoa(o.c%2))
	s.say("%+v", f)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found, err := s.db.Jobs.Failures(s.ctx, queue.FailureFilter{}, 0)
	return list(s, plus, found, err)
}

func (s *side) tokens(o operation) error {
	t, err := s.db.Tokens.ByHash(s.ctx, ref(o.a%12))
	s.say("%+v", t)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	found, err := s.db.Tokens.List(s.ctx)
	return list(s, plus, found, err)
}

func (s *side) hasObject(o operation) error {
	e := answerEntry(o.a)
	is, err := s.db.HasObject(s.ctx, e.Object, e.Size+int64(o.b%2))
	if err != nil {
		return err
	}
	has, err := s.db.HasContent(s.ctx, e.Ref)
	s.say("object %v, content %v", is, has)
	return err
}

func (s *side) origins(operation) error {
	found, err := s.db.Origins(s.ctx, `\\srv\sym`)
	s.say("%v", found)
	return err
}
