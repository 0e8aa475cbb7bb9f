package importexport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/depot"
	"github.com/symdepot/symdepot/internal/depot/answer"
	"github.com/symdepot/symdepot/internal/store/bucket"
	"github.com/symdepot/symdepot/internal/store/bucket/buckettest"
	"github.com/symdepot/symdepot/layout"
)

// The tests do not wait for the times of a real lease.
func init() { leaseBeat, leaseLife = 200*time.Millisecond, 4*time.Second }

// s3Target returns an empty part of a bucket.
func s3Target(t *testing.T) bucket.Bucket { return partOf(t, buckettest.S3(t), "out") }

// partOf returns a part of the bucket of an S3 store.
func partOf(t *testing.T, p *buckettest.Peer, prefix string) bucket.Bucket {
	t.Helper()
	b, err := bucket.OpenS3(bucket.S3Config{Bucket: p.Bucket, Prefix: prefix, Endpoint: p.Endpoint, Region: "us-east-1", AccessKey: p.User, SecretKey: p.Secret}, buckettest.Transport(nil))
	return opened(t, b, err)
}

func opened(t *testing.T, b bucket.Bucket, err error) bucket.Bucket {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// targets are the kinds of targets.
var targets = map[string]func(t *testing.T) Target{
	"folder": func(t *testing.T) Target { return Target{Folder: filepath.Join(t.TempDir(), "new", "out")} },
	"s3":     func(t *testing.T) Target { return Target{Bucket: s3Target(t)} },
	"gcs": func(t *testing.T) Target {
		p := buckettest.GCS(t)
		b, err := bucket.OpenGCS(bucket.GCSConfig{Bucket: p.Bucket, Prefix: "out", Endpoint: p.Endpoint, Token: p.Secret}, buckettest.Transport(nil))
		return Target{Bucket: opened(t, b, err)}
	},
	"azure": func(t *testing.T) Target {
		p := buckettest.Azure(t)
		b, err := bucket.OpenAzure(bucket.AzureConfig{Account: p.User, Container: p.Bucket, Prefix: "out", Endpoint: p.Endpoint, AccountKey: p.Secret}, buckettest.Transport(nil))
		return Target{Bucket: opened(t, b, err)}
	},
}

// filesOf returns the files of a target, without those of the follower.
func filesOf(t *testing.T, to Target) map[string]string {
	t.Helper()
	w, err := to.open()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	files := map[string]string{}
	err = w.list(t.Context(), "", func(name string) error {
		if strings.HasPrefix(name, ownFolder+"/") {
			return nil
		}
		b, err := w.read(t.Context(), name)
		files[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// likeExport checks that a target has what an export of the depot into an empty folder writes.
func likeExport(t *testing.T, d *depot.Depot, to Target, opt ExportOptions) {
	t.Helper()
	txs, err := d.List(t.Context(), answer.Scope{}, depot.ListFilter{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(txs)
	fresh := Target{Folder: t.TempDir()}
	if _, err := Export(t.Context(), d, txs, fresh, opt); err != nil {
		t.Fatal(err)
	}
	want, got := filesOf(t, fresh), filesOf(t, to)
	for name, text := range want {
		if have, ok := got[name]; !ok {
			t.Errorf("the target lacks %s", name)
		} else if have != text {
			t.Errorf("the target has other bytes in %s", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("the target has %s, which no build has", name)
		}
	}
}

// run is a running Follow.
type run struct {
	rounds chan ExportResult
	end    context.CancelFunc
	ended  chan error
}

// startFollow runs Follow. The events go to event, if it is not nil.
func startFollow(t *testing.T, d *depot.Depot, to Target, opt ExportOptions) *run {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	r := &run{rounds: make(chan ExportResult, 100), end: end, ended: make(chan error, 1)}
	go func() {
		r.ended <- Follow(ctx, d, to, FollowOptions{
			ExportOptions: opt,
			Round:         func(res ExportResult, _, _ []int64) { r.rounds <- res },
			Waiting:       func(string) {}, Away: func(error, time.Duration) {}, Back: func() {},
		})
	}()
	return r
}

// round waits until the target has a change.
func (r *run) round(t *testing.T) ExportResult {
	t.Helper()
	select {
	case res := <-r.rounds:
		return res
	case err := <-r.ended:
		t.Fatalf("Follow ended: %v", err)
	case <-t.Context().Done():
	}
	return ExportResult{}
}

// stop ends it, without an error.
func (r *run) stop(t *testing.T) {
	t.Helper()
	r.end()
	if err := <-r.ended; err != nil {
		t.Errorf("Follow, ended: %v; want no error", err)
	}
}

// sym writes a Breakpad file, whose id is that of number, with functions.
func sym(t *testing.T, dir string, number, functions int) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "MODULE Linux x86_64 %032X0 lib%d.so\n", number, number)
	for i := range functions {
		fmt.Fprintf(&b, "FUNC %x 10 0 f%d\n", 0x1000+16*i, i)
	}
	at := filepath.Join(dir, fmt.Sprintf("%d-%d.sym", number, functions))
	if err := os.WriteFile(at, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestFollow: after each change of the depot, every kind of target has what an export into an empty
// folder writes.
func TestFollow(t *testing.T) {
	t.Parallel()
	for name, target := range targets {
		for _, opt := range []ExportOptions{{Layout: layout.Native, Public: true}, {Layout: layout.SSQP, Compress: true}} {
			t.Run(fmt.Sprintf("%s,public=%v", name, opt.Public), func(t *testing.T) {
				t.Parallel()
				d, dir, to := newDepot(t), t.TempDir(), target(t)
				add(t, d, depot.TxInfo{Product: "a"}, sym(t, dir, 1, 1), sym(t, dir, 2, 1), filepath.Join(testdata, "pdb/hello-x64.pdb"), filepath.Join(testdata, "ppdb/lines.pdb"))
				r := startFollow(t, d, to, opt)
				r.round(t)
				likeExport(t, d, to, opt)
				second := add(t, d, depot.TxInfo{Product: "a"}, sym(t, dir, 2, 2), sym(t, dir, 3, 1)) // 2 is replaced
				if res := r.round(t); opt.Layout == layout.Native && (res.Replaced != 1 || res.Written.Files != 2) {
					t.Errorf("%+v; want 2 files, one of them replaced", res)
				}
				likeExport(t, d, to, opt)
				if _, err := d.Retention.Remove(t.Context(), second.Transaction, ""); err != nil {
					t.Fatal(err)
				}
				if res := r.round(t); opt.Layout == layout.Native && (res.Removed != 1 || res.Replaced != 1) {
					t.Errorf("%+v; want one file removed, one as before", res)
				}
				likeExport(t, d, to, opt)
				r.stop(t)
				r = startFollow(t, d, to, opt)
				if res := r.round(t); res.Written.Files+res.Same.Files+res.Removed != 0 {
					t.Errorf("started again: %+v; want nothing to do", res)
				}
				r.stop(t)
				if _, err := Export(t.Context(), d, nil, to, opt); !errors.As(err, new(*FollowedError)) {
					t.Errorf("an export into the target: %v, want FollowedError", err)
				}
			})
		}
	}
}

// TestFollowInterrupted: wherever an export is interrupted, and whatever the depot has lost
// meanwhile, the next one brings the target to what the depot has.
func TestFollowInterrupted(t *testing.T) {
	t.Parallel()
	opt := ExportOptions{Layout: layout.BreakpadTree}
	p := buckettest.S3(t)
	for _, lost := range []int{0, 1, 2} { // the build that goes before the restart; 0: none
		for at := 1; at <= 8; at++ {
			t.Run(fmt.Sprintf("lost=%d,at=%d", lost, at), func(t *testing.T) {
				t.Parallel()
				d, dir, to := newDepot(t), t.TempDir(), Target{Bucket: partOf(t, p, fmt.Sprintf("%d/%d", lost, at))}
				numbers := []int64{0, add(t, d, depot.TxInfo{Product: "a"}, sym(t, dir, 1, 1), sym(t, dir, 2, 1)).Transaction}
				r := startFollow(t, d, to, opt)
				r.round(t)
				r.stop(t)
				gone := add(t, d, depot.TxInfo{Product: "a"}, sym(t, dir, 9, 1)).Transaction
				numbers = append(numbers, add(t, d, depot.TxInfo{Product: "a"}, sym(t, dir, 2, 2), sym(t, dir, 3, 1), sym(t, dir, 4, 1)).Transaction)
				stopped := opt
				events, cut := 0, make(chan struct{})
				var second *run
				stopped.Event = func(Event) {
					<-cut // second is set
					if events++; events == at {
						second.end()
					}
				}
				second = startFollow(t, d, to, stopped)
				close(cut)
				select {
				case <-second.rounds:
					if _, err := d.Retention.Remove(t.Context(), gone, ""); err != nil {
						t.Fatal(err)
					}
					select {
					case <-second.rounds:
						second.end()
					case err := <-second.ended:
						second.ended <- err
					}
				case err := <-second.ended:
					second.ended <- err
				}
				second.stop(t)
				if lost > 0 {
					if _, err := d.Retention.Remove(t.Context(), numbers[lost], ""); err != nil {
						t.Fatal(err)
					}
				}
				r = startFollow(t, d, to, opt)
				r.round(t)
				r.stop(t)
				likeExport(t, d, to, opt)
			})
		}
	}
}

// TestFollowWithoutState: without the state, the target is compared with the depot. What a web server
// has beside the files stays; a symbol file that no build has is a reason to stop.
func TestFollowWithoutState(t *testing.T) {
	t.Parallel()
	d, dir, to := newDepot(t), t.TempDir(), Target{Folder: t.TempDir()}
	opt := ExportOptions{Layout: layout.BreakpadTree, Public: true}
	add(t, d, depot.TxInfo{Product: "a"}, sym(t, dir, 1, 1), sym(t, dir, 2, 1))
	r := startFollow(t, d, to, opt)
	r.round(t)
	r.stop(t)
	for _, name := range []string{ownFolder + "/export.json", "lib1.so/000000000000000000000000000000010/lib1.so.sym"} {
		if err := os.Remove(filepath.Join(to.Folder, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	page := filepath.Join(to.Folder, "index.html")
	if err := os.WriteFile(page, []byte("hello"), 0o666); err != nil {
		t.Fatal(err)
	}
	r = startFollow(t, d, to, opt)
	if res := r.round(t); res.Written.Files != 1 || res.Same.Files != 1 {
		t.Errorf("%+v; want one file written, one found", res)
	}
	r.stop(t)
	if _, err := os.Stat(page); err != nil {
		t.Error(err)
	}
	// Another depot, other options, a file of somebody else.
	follow := func(d *depot.Depot, opt ExportOptions) error {
		return <-startFollow(t, d, to, opt).ended
	}
	other := newDepot(t)
	add(t, other, depot.TxInfo{Product: "a"}, sym(t, dir, 1, 1))
	if err := follow(other, opt); err == nil || !strings.Contains(err.Error(), "is of another depot") {
		t.Errorf("another depot: %v", err)
	}
	if err := follow(d, ExportOptions{Layout: layout.BreakpadTree}); !errors.As(err, new(term.UsageError)) {
		t.Errorf("whole files into a tree of public forms: %v, want a usage error", err)
	}
	if err := os.Remove(filepath.Join(to.Folder, filepath.FromSlash(statePath))); err != nil {
		t.Fatal(err)
	}
	if err := follow(other, opt); err == nil || !strings.Contains(err.Error(), "which no build has") {
		t.Errorf("a file of somebody else: %v", err)
	}
	r = startFollow(t, d, to, opt)
	r.round(t)
	if err := follow(d, opt); !errors.As(err, new(*HeldError)) {
		t.Errorf("a second one: %v, want HeldError", err)
	}
	r.stop(t)
}

// TestFollowUnreadable: a file whose stored bytes are missing does not stop the others.
func TestFollowUnreadable(t *testing.T) {
	t.Parallel()
	d, dir, to := newDepot(t), t.TempDir(), Target{Folder: t.TempDir()}
	add(t, d, depot.TxInfo{Product: "a"}, sym(t, dir, 1, 1), sym(t, dir, 2, 1))
	err := filepath.WalkDir(filepath.Join(d.Name(), "blobs"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if b, err := os.ReadFile(path); err == nil && bytes.Contains(b, []byte("lib1.so")) {
				return os.Remove(path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	r := startFollow(t, d, to, ExportOptions{Layout: layout.BreakpadTree})
	if res := r.round(t); res.Written.Files != 1 || res.Failed != 1 {
		t.Errorf("%+v; want one file written, one failed", res)
	}
	r.stop(t)
}

// TestLease: one process has a bucket; the next gets it when that ends, or when its lease does.
func TestLease(t *testing.T) {
	t.Parallel()
	w := bucketWriter{s3Target(t)}
	silent := func(string) {}
	first, err := w.hold(t.Context(), silent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.hold(t.Context(), silent); !errors.As(err, new(*HeldError)) {
		t.Errorf("a second claim: %v, want HeldError", err)
	}
	if err := first.check(); err != nil {
		t.Error(err)
	}
	first.release()
	told := false
	second, err := w.hold(t.Context(), func(string) { told = true })
	if err != nil || told {
		t.Fatalf("after the end of the first: %v, waited: %v; want neither", err, told)
	}
	l, _ := second.(*lease)
	l.stop() // as a process that was killed, or stands still
	l.done.Wait()
	third, err := w.hold(t.Context(), func(string) { told = true })
	if err != nil || !told {
		t.Fatalf("after the death of the second: %v, waited: %v; want a claim after a wait", err, told)
	}
	defer third.release()
	if err := second.check(); err == nil {
		t.Error("the one that stood still may still write")
	}
	l.renew(t.Context())
	if err := second.check(); !errors.As(err, new(*HeldError)) {
		t.Errorf("the one that stood still: %v, want HeldError", err)
	}
	if err := third.check(); err != nil {
		t.Error(err)
	}
}
