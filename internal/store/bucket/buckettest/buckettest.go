// Package buckettest tests implementations of bucket.Bucket against their contract,
// and starts real object stores for these tests.
package buckettest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
	"github.com/symdepot/symdepot/internal/store/bucket"
)

// Want describes the bucket that a test needs.
type Want struct {
	Prefix         string
	NoBucket       bool // a bucket that does not exist
	BadCredentials bool
}

// Store is an implementation under test.
type Store struct {
	Open func(t testing.TB, want Want, via http.RoundTripper) bucket.Bucket
	// Secrets must not appear in any error or name.
	Secrets []string
}

// suite is one run over a store.
type suite struct {
	Store
}

type step struct {
	name string
	test func(*testing.T)
}

// RunShort tests the parts of the contract that depend on how requests are
// addressed, signed and split.
func RunShort(t *testing.T, s Store) {
	symtest.Sequential(t)
	u := &suite{s}
	for _, c := range []step{
		{"objects", u.objects}, {"big", u.big}, {"if absent", u.ifAbsent}, {"keys", u.keys}, {"prefix", u.prefix},
		{"lengths", u.lengths}, {"encoding", u.encoding}, {"no bucket", u.noBucket}, {"bad credentials", u.badCredentials},
		{"cancelled", u.cancelled},
	} {
		t.Run(c.name, c.test)
	}
}

// Run tests a store against the contract. Under the race detector it runs only the
// tests that use the store from several goroutines.
func Run(t *testing.T, s Store) {
	u := &suite{s}
	concurrent := []string{"objects", "race", "cancelled", "stalls", "breaks off"}
	for _, c := range []step{
		{"objects", u.objects}, {"ranges", u.ranges}, {"zero", u.zero}, {"big", u.big}, {"if match", u.ifMatch},
		{"if absent", u.ifAbsent}, {"race", u.race}, {"keys", u.keys}, {"bad keys", u.badKeys}, {"list", u.list},
		{"prefix", u.prefix}, {"lengths", u.lengths}, {"encoding", u.encoding}, {"no bucket", u.noBucket},
		{"bad credentials", u.badCredentials}, {"cancelled", u.cancelled}, {"stalls", u.stalls}, {"breaks off", u.breaksOff},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !slices.Contains(concurrent, c.name) {
				symtest.Sequential(t)
			}
			c.test(t)
		})
	}
}

func (u *suite) open(t *testing.T) bucket.Bucket {
	return u.with(t, Want{Prefix: strings.ReplaceAll(t.Name(), " ", "-")}, nil)
}

func (u *suite) with(t *testing.T, want Want, via http.RoundTripper) bucket.Bucket {
	t.Helper()
	if via == nil {
		via = Transport(nil)
	}
	b := u.Open(t, want, via)
	t.Cleanup(func() { b.Close() })
	u.clean(t, b.Name())
	return b
}

// clean checks that a text contains no secret.
func (u *suite) clean(t *testing.T, text string) {
	t.Helper()
	for _, s := range u.Secrets {
		if strings.Contains(text, s) {
			t.Errorf("a secret in %q", text)
		}
	}
}

// fails checks the value, type and text of an error.
func (u *suite) fails(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, want %v", err, want)
	}
	e := (*bucket.Error)(nil)
	if err != nil && (!errors.As(err, &e) || e.Op == "" || !strings.Contains(e.Error(), e.Bucket)) {
		t.Errorf("%v is not a complete *bucket.Error", err)
	}
	if err != nil {
		u.clean(t, err.Error())
	}
}

// Content returns n pseudo-random bytes.
func Content(seed uint64, n int) []byte {
	b := make([]byte, n)
	c := rand.NewChaCha8(sha256.Sum256(fmt.Append(nil, seed)))
	_, _ = c.Read(b)
	return b
}

func put(t testing.TB, b bucket.Bucket, key string, content []byte) bucket.Info {
	t.Helper()
	info, err := b.Put(t.Context(), key, int64(len(content)), bytes.NewReader(content), bucket.PutOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Key != key || info.Size != int64(len(content)) || info.ETag == "" {
		t.Fatalf("Put: %+v", info)
	}
	return info
}

func get(t testing.TB, b bucket.Bucket, key string, off, n int64) (*bucket.Object, []byte) {
	t.Helper()
	o, err := b.Get(t.Context(), key, off, n, "")
	if err != nil {
		t.Fatal(err)
	}
	defer o.Body.Close()
	data, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	return o, data
}

func (u *suite) objects(t *testing.T) {
	b := u.open(t)
	const key = "foo.pdb/497B72F6390A44FC878E5A2D63B6CC4B1/foo.pdb"
	_, err := b.Get(t.Context(), key, 0, -1, "")
	u.fails(t, err, fs.ErrNotExist)
	_, err = b.Get(t.Context(), key, 10, 10, "")
	u.fails(t, err, fs.ErrNotExist)
	_, err = b.Head(t.Context(), key)
	u.fails(t, err, fs.ErrNotExist)

	content := Content(1, 100_000)
	before := time.Now().Add(-time.Minute)
	written := put(t, b, key, content)
	o, data := get(t, b, key, 0, -1)
	if !bytes.Equal(data, content) || o.Key != key || o.Total != int64(len(content)) || o.Offset != 0 {
		t.Errorf("Get: %d bytes, %+v", len(data), o)
	}
	head, err := b.Head(t.Context(), key)
	if err != nil || head.Size != int64(len(content)) || head.ETag != written.ETag || head.Key != key {
		t.Errorf("Head: %+v, %v", head, err)
	}
	if o.ETag != head.ETag || o.Size != head.Size || !o.ModTime.Truncate(time.Second).Equal(head.ModTime.Truncate(time.Second)) {
		t.Errorf("Get says %+v, Head %+v", o.Info, head)
	}
	if head.ModTime.Before(before) || head.ModTime.After(time.Now().Add(time.Minute)) {
		t.Errorf("ModTime %v", head.ModTime)
	}
	// Different content has a different tag.
	if again := put(t, b, key, content[:5]); again.ETag == written.ETag {
		t.Errorf("two contents with the tag %s", again.ETag)
	}
	if _, data = get(t, b, key, 0, -1); !bytes.Equal(data, content[:5]) {
		t.Errorf("%d bytes after overwriting", len(data))
	}
	for range 2 { // deleting a missing object is no error
		if err := b.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	_, err = b.Get(t.Context(), key, 0, -1, "")
	u.fails(t, err, fs.ErrNotExist)
}

func (u *suite) ranges(t *testing.T) {
	b := u.open(t)
	content := Content(2, 1000)
	put(t, b, "k", content)
	for _, c := range []struct{ off, n int64 }{
		{0, -1}, {0, 0}, {0, 1}, {0, 999}, {0, 1000}, {0, 5000}, {1, -1}, {500, 0}, {500, 100}, {999, -1}, {999, 1}, {999, 100}, {1000, 0},
		{0, 1<<63 - 1}, {500, 1<<63 - 1},
	} {
		o, data := get(t, b, "k", c.off, c.n)
		want := content[c.off:]
		if c.n >= 0 && c.n < int64(len(want)) {
			want = want[:c.n]
		}
		if !bytes.Equal(data, want) || o.Offset != c.off || o.Total != 1000 || o.Size != 1000 {
			t.Errorf("%d+%d: %d bytes, want %d; %+v", c.off, c.n, len(data), len(want), o)
		}
	}
	for _, c := range []struct{ off, n int64 }{{1000, -1}, {1000, 1}, {1001, 0}, {5000, -1}, {1 << 40, 10}} {
		_, err := b.Get(t.Context(), "k", c.off, c.n, "")
		u.fails(t, err, bucket.ErrRange)
	}
	_, err := b.Get(t.Context(), "k", -1, 5, "")
	u.fails(t, err, fs.ErrInvalid)
}

func (u *suite) zero(t *testing.T) {
	b := u.open(t)
	info := put(t, b, "empty", nil)
	for _, n := range []int64{-1, 0, 1, 100} {
		o, data := get(t, b, "empty", 0, n)
		if len(data) != 0 || o.Total != 0 || o.ETag != info.ETag {
			t.Errorf("n=%d: %d bytes, %+v", n, len(data), o)
		}
	}
	if head, err := b.Head(t.Context(), "empty"); err != nil || head.Size != 0 {
		t.Errorf("%+v, %v", head, err)
	}
	_, err := b.Get(t.Context(), "empty", 1, -1, "")
	u.fails(t, err, bucket.ErrRange)
	_, err = b.Put(t.Context(), "more", 0, strings.NewReader("x"), bucket.PutOptions{})
	if err == nil {
		t.Error("Put of one byte with size 0: no error")
	}
}

func (u *suite) big(t *testing.T) {
	b := u.open(t)
	content := Content(3, 20<<20)
	put(t, b, "big", content)
	if _, data := get(t, b, "big", 0, -1); !bytes.Equal(data, content) {
		t.Errorf("%d bytes", len(data))
	}
	if _, data := get(t, b, "big", 17<<20, 1<<20); !bytes.Equal(data, content[17<<20:18<<20]) {
		t.Errorf("%d bytes of the range", len(data))
	}
	// Closing a body early does not disturb the next request.
	o, err := b.Get(t.Context(), "big", 0, -1, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(o.Body, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	o.Body.Close()
	if _, err := b.Head(t.Context(), "big"); err != nil {
		t.Error(err)
	}
}

func (u *suite) ifMatch(t *testing.T) {
	b := u.open(t)
	old := put(t, b, "k", []byte("old content"))
	o, err := b.Get(t.Context(), "k", 4, -1, old.ETag)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(o.Body)
	o.Body.Close()
	if string(data) != "content" || err != nil || o.ETag != old.ETag {
		t.Errorf("%q, %v", data, err)
	}
	put(t, b, "k", []byte("new content"))
	for _, n := range []int64{-1, 0, 3} {
		_, err = b.Get(t.Context(), "k", 0, n, old.ETag)
		u.fails(t, err, bucket.ErrPrecondition)
	}
	for _, tag := range []string{"0x8D0000000000000", "d41d8cd98f00b204e9800998ecf8427e", "1", "quote\"d", "line\r\nX-Header: 1", "ü"} {
		_, err = b.Get(t.Context(), "k", 0, -1, tag)
		u.fails(t, err, bucket.ErrPrecondition)
	}
	_, err = b.Get(t.Context(), "absent", 0, -1, old.ETag)
	if !errors.Is(err, fs.ErrNotExist) {
		u.fails(t, err, bucket.ErrPrecondition)
	}
}

func (u *suite) ifAbsent(t *testing.T) {
	b := u.open(t)
	opt := bucket.PutOptions{IfAbsent: true}
	if _, err := b.Put(t.Context(), "k", 5, strings.NewReader("first"), opt); err != nil {
		t.Fatal(err)
	}
	for _, content := range [][]byte{[]byte("second"), Content(4, 4<<20)} {
		_, err := b.Put(t.Context(), "k", int64(len(content)), bytes.NewReader(content), opt)
		u.fails(t, err, bucket.ErrPrecondition)
	}
	if _, data := get(t, b, "k", 0, -1); string(data) != "first" {
		t.Errorf("%q", data)
	}
	if err := b.Delete(t.Context(), "k"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Put(t.Context(), "k", 5, strings.NewReader("third"), opt); err != nil {
		t.Error(err)
	}
}

func (u *suite) race(t *testing.T) {
	const racers, rounds = 16, 4
	b := u.open(t)
	for round := range rounds {
		key := fmt.Sprint("race/", round)
		gate := make(chan struct{})
		errs := make([]error, racers)
		var wg sync.WaitGroup
		for i := range racers {
			wg.Go(func() {
				<-gate
				content := bytes.Repeat([]byte{byte('a' + i)}, 10_000)
				_, errs[i] = b.Put(t.Context(), key, int64(len(content)), bytes.NewReader(content), bucket.PutOptions{IfAbsent: true})
			})
		}
		close(gate)
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Errorf("round %d: writers %d and %d both succeeded", round, winner, i)
			case err == nil:
				winner = i
			default:
				u.fails(t, err, bucket.ErrPrecondition)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: no writer succeeded", round)
		}
		if _, data := get(t, b, key, 0, -1); !bytes.Equal(data, bytes.Repeat([]byte{byte('a' + winner)}, 10_000)) {
			t.Errorf("round %d: not the content of the winner", round)
		}
	}
}

var oddKeys = []string{
	"plain", "with space/a b  c.pdb", "unicode/ü/日本語/\U0001F600.pdb", "decomposed/u\u0308", "plus+plus/a+b", "percent/%41%2F%zz/100%",
	"hash#1/a#b", "query?x=1&y=2", "quotes'\"", "brackets/()[]{}<>", "signs/;:,@!$*=|^`", "tilde~/under_score",
	"UPPER/lower/MiXed", "dots/a..b/...c/.hidden",
	"long/" + strings.Repeat("segment of 200 bytes", 10) + "/" + strings.Repeat(strings.Repeat("x", 199)+"/", 3) + "end",
}

func (u *suite) keys(t *testing.T) {
	b := u.open(t)
	for _, key := range oddKeys {
		put(t, b, key, []byte(key))
	}
	var listed []string
	for info, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, info.Key)
		if info.Size != int64(len(info.Key)) {
			t.Errorf("%q has size %d", info.Key, info.Size)
		}
	}
	slices.Sort(listed)
	if want := slices.Sorted(slices.Values(oddKeys)); !slices.Equal(listed, want) {
		t.Errorf("listed %q\nwant   %q", listed, want)
	}
	for _, key := range oddKeys {
		if _, data := get(t, b, key, 0, -1); string(data) != key {
			t.Errorf("%q holds %q", key, data)
		}
		if _, data := get(t, b, key, 1, 3); string(data) != key[1:4] {
			t.Errorf("%q from 1 holds %q", key, data)
		}
		if _, err := b.Head(t.Context(), key); err != nil {
			t.Error(err)
		}
		for info, err := range b.List(t.Context(), key) {
			if err != nil || info.Key != key {
				t.Errorf("listing %q yields %q, %v", key, info.Key, err)
			}
		}
		if err := b.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
		_, err := b.Head(t.Context(), key)
		u.fails(t, err, fs.ErrNotExist)
	}
}

func (u *suite) badKeys(t *testing.T) {
	b := u.open(t)
	for _, key := range []string{
		"", "/", "a//b", "/a", "a/", ".", "..", "a/../b", "a/./b", "../../etc/passwd", "nul\x00", "back\\slash",
		"line\nbreak", "\xff\xfe", strings.Repeat("a/", 600) + "a",
	} {
		_, err := b.Get(t.Context(), key, 0, -1, "")
		u.fails(t, err, fs.ErrNotExist)
		_, err = b.Head(t.Context(), key)
		u.fails(t, err, fs.ErrNotExist)
		_, err = b.Put(t.Context(), key, 1, strings.NewReader("x"), bucket.PutOptions{})
		u.fails(t, err, fs.ErrInvalid)
		if err := b.Delete(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	// A key with a segment that some stores do not allow is not found; it is not a failure.
	_, err := b.Head(t.Context(), strings.Repeat("n", 300))
	u.fails(t, err, fs.ErrNotExist)
}

func (u *suite) list(t *testing.T) {
	const many = 1100
	b := u.open(t)
	putMany(t, b, many)
	put(t, b, "other", []byte("x"))
	put(t, b, "many.not", []byte("x"))
	listsOnce(t, b, many)
	prefixes := map[string]int{"": many + 2, "many": many + 1, "many/10": 100, "many/1000": 1, "nothing": 0, "man\xff": 0}
	for prefix, want := range prefixes {
		n := 0
		for _, err := range b.List(t.Context(), prefix) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != want {
			t.Errorf("%d keys begin with %q, want %d", n, prefix, want)
		}
	}
	// Listed tags are valid in conditions.
	for info, err := range b.List(t.Context(), "many/0007") {
		if err != nil {
			t.Fatal(err)
		}
		o, err := b.Get(t.Context(), info.Key, 0, -1, info.ETag)
		if err != nil {
			t.Fatal(err)
		}
		o.Body.Close()
	}
	u.listsEnd(t, b)
}

// putMany puts n contents with keys below many/, eight at a time.
func putMany(t *testing.T, b bucket.Bucket, n int) {
	t.Helper()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range next {
				key, content := fmt.Sprintf("many/%04d", i), []byte(fmt.Sprint(i))
				if _, err := b.Put(t.Context(), key, int64(len(content)), bytes.NewReader(content), bucket.PutOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// listsOnce checks that each of the contents of putMany is listed once, with all its facts.
func listsOnce(t *testing.T, b bucket.Bucket, many int) {
	t.Helper()
	seen := map[string]bool{}
	for info, err := range b.List(t.Context(), "many/") {
		if err != nil {
			t.Fatal(err)
		}
		if seen[info.Key] {
			t.Errorf("%q twice", info.Key)
		}
		seen[info.Key] = true
		if info.ETag == "" || info.ModTime.IsZero() || info.Size < 1 || info.Size > 4 {
			t.Fatalf("%+v", info)
		}
	}
	if len(seen) != many || !seen["many/0000"] || !seen[fmt.Sprintf("many/%04d", many-1)] {
		t.Errorf("%d keys", len(seen))
	}
}

// listsEnd checks that a list ends when its reader stops, and when its context ends.
func (u *suite) listsEnd(t *testing.T, b bucket.Bucket) {
	t.Helper()
	for _, err := range b.List(t.Context(), "many/") { // stop after the first
		if err != nil {
			t.Error(err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, last := 0, error(nil)
	for _, err := range b.List(ctx, "many/") {
		if last = err; err == nil {
			n++
		}
		if n == 10 {
			cancel()
		}
	}
	u.fails(t, last, context.Canceled)
	if n > 1000 {
		t.Errorf("%d keys after the context ended", n)
	}
}

func (u *suite) prefix(t *testing.T) {
	put(t, u.with(t, Want{Prefix: "prefixes/a b"}, nil), "k", []byte("below"))
	for want, ok := range map[string]bool{"prefixes/a b": true, "/prefixes/a b/": true, "prefixes/a": false, "prefixes": false} {
		_, err := u.with(t, Want{Prefix: want}, nil).Head(t.Context(), "k")
		if ok != (err == nil) {
			t.Errorf("%q: %v", want, err)
		}
	}
	above := u.with(t, Want{Prefix: "prefixes"}, nil)
	if _, data := get(t, above, "a b/k", 0, -1); string(data) != "below" {
		t.Errorf("%q", data)
	}
	for info, err := range above.List(t.Context(), "a") {
		if err != nil || info.Key != "a b/k" {
			t.Errorf("%q, %v", info.Key, err)
		}
	}
}

func (u *suite) lengths(t *testing.T) {
	b := u.open(t)
	for _, size := range []int{1, 10, 1000, 3 << 20} {
		content := Content(5, size)
		for name, r := range map[string]io.Reader{"more": bytes.NewReader(append(content, 'x')), "less": bytes.NewReader(content[:size-1]),
			"broken": io.MultiReader(bytes.NewReader(content[:size/2]), iotest.ErrReader(errTest)), "none": iotest.ErrReader(io.ErrUnexpectedEOF)} {
			_, err := b.Put(t.Context(), "k", int64(size), r, bucket.PutOptions{})
			if err == nil {
				t.Errorf("%d bytes, %s: no error", size, name)
				continue
			}
			u.fails(t, err, err)
			if name == "broken" && !errors.Is(err, errTest) {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
			_, err = b.Head(t.Context(), "k")
			u.fails(t, err, fs.ErrNotExist)
		}
		if _, err := b.Put(t.Context(), "slow", int64(size),
			iotest.DataErrReader(iotest.HalfReader(bytes.NewReader(content))), bucket.PutOptions{}); err != nil {
			t.Error(err)
		}
		if _, data := get(t, b, "slow", 0, -1); !bytes.Equal(data, content) {
			t.Errorf("%d of %d bytes", len(data), size)
		}
	}
	_, err := b.Put(t.Context(), "k", -1, strings.NewReader(""), bucket.PutOptions{})
	u.fails(t, err, fs.ErrInvalid)
}

var errTest = errors.New("the disk is on fire")

func (u *suite) encoding(t *testing.T) {
	b := u.open(t)
	// The store must not decompress a gzip stream.
	gz := []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xcaH\xcd\xc9\xc9\x07\x04\x00\x00\xff\xff\x86\xa6\x106\x05\x00\x00\x00")
	for _, coding := range []string{"gzip", "zstd", ""} {
		key := "coded/" + coding + "x"
		info, err := b.Put(t.Context(), key, int64(len(gz)), bytes.NewReader(gz),
			bucket.PutOptions{ContentEncoding: coding, ContentType: "text/plain"})
		if err != nil || info.ContentEncoding != coding {
			t.Fatal(info, err)
		}
		o, data := get(t, b, key, 0, -1)
		if !bytes.Equal(data, gz) || o.ContentEncoding != coding || o.Total != int64(len(gz)) {
			t.Errorf("%q: %q, %+v", coding, data, o.Info)
		}
		if _, data := get(t, b, key, 3, 5); !bytes.Equal(data, gz[3:8]) {
			t.Errorf("%q: range is %q", coding, data)
		}
		if head, err := b.Head(t.Context(), key); err != nil || head.ContentEncoding != coding {
			t.Errorf("%+v, %v", head, err)
		}
	}
	for _, bad := range []string{"a\r\nb: c", " x"} {
		_, err := b.Put(t.Context(), "k", 0, strings.NewReader(""), bucket.PutOptions{ContentEncoding: bad})
		u.fails(t, err, fs.ErrInvalid)
		_, err = b.Put(t.Context(), "k", 0, strings.NewReader(""), bucket.PutOptions{ContentType: bad})
		u.fails(t, err, fs.ErrInvalid)
	}
}

// all calls every method and returns the errors.
func all(ctx context.Context, b bucket.Bucket) map[string]error {
	errs := map[string]error{}
	_, errs["get"] = b.Get(ctx, "k", 0, -1, "")
	_, errs["range"] = b.Get(ctx, "k", 5, 5, "")
	_, errs["head"] = b.Head(ctx, "k")
	_, errs["put"] = b.Put(ctx, "k", 5, strings.NewReader("hello"), bucket.PutOptions{})
	errs["delete"] = b.Delete(ctx, "k")
	for _, err := range b.List(ctx, "") {
		errs["list"] = err
	}
	return errs
}

func (u *suite) noBucket(t *testing.T) {
	b := u.with(t, Want{NoBucket: true}, nil)
	errs := all(t.Context(), b)
	delete(errs, "delete") // some stores return no error
	for op, err := range errs {
		t.Run(op, func(t *testing.T) { u.fails(t, err, fs.ErrNotExist) })
	}
	u.fails(t, errs["put"], bucket.ErrNoBucket)
	u.fails(t, errs["list"], bucket.ErrNoBucket)
	for _, op := range []string{"put", "list"} {
		if text := fmt.Sprint(errs[op]); !strings.Contains(text, "create the bucket") {
			t.Errorf("%s: %q, want what to do: create the bucket", op, text)
		}
	}
}

func (u *suite) badCredentials(t *testing.T) {
	for op, err := range all(t.Context(), u.with(t, Want{BadCredentials: true}, nil)) {
		t.Run(op, func(t *testing.T) { u.fails(t, err, fs.ErrPermission) })
	}
}

func (u *suite) cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for op, err := range all(ctx, u.open(t)) {
		t.Run(op, func(t *testing.T) { u.fails(t, err, context.Canceled) })
	}
}

func (u *suite) stalls(t *testing.T) {
	put(t, u.with(t, Want{Prefix: "stalls"}, nil), "k", Content(6, 1<<20))
	// Without a response, every method ends with its context.
	for _, op := range []string{"get", "head", "put", "delete", "list"} {
		t.Run(op, func(t *testing.T) {
			line := NewLine(0, Stall)
			b := u.with(t, Want{Prefix: "stalls"}, Transport(line))
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-line.Reached; cancel() }()
			done := make(chan error, 1)
			go func() { done <- one(ctx, b, op) }()
			select {
			case err := <-done:
				u.fails(t, err, context.Canceled)
			case <-time.After(20 * time.Second):
				t.Fatal("hangs")
			}
		})
	}
	t.Run("body", func(t *testing.T) {
		line := NewLine(300<<10, Stall)
		b := u.with(t, Want{Prefix: "stalls"}, Transport(line))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		o, err := b.Get(ctx, "k", 0, -1, "")
		if err != nil {
			t.Fatal(err)
		}
		defer o.Body.Close()
		go func() { <-line.Reached; cancel() }()
		n, err := io.Copy(io.Discard, o.Body)
		if !errors.Is(err, context.Canceled) || n == 0 || n >= 1<<20 {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

func one(ctx context.Context, b bucket.Bucket, op string) error {
	switch op {
	case "get":
		_, err := b.Get(ctx, "k", 0, -1, "")
		return err
	case "head":
		_, err := b.Head(ctx, "k")
		return err
	case "put":
		_, err := b.Put(ctx, "new", 5, strings.NewReader("hello"), bucket.PutOptions{})
		return err
	case "delete":
		return b.Delete(ctx, "other") // it may succeed
	}
	var last error
	for _, err := range b.List(ctx, "") {
		last = err
	}
	return last
}

func (u *suite) breaksOff(t *testing.T) {
	put(t, u.with(t, Want{Prefix: "breaks"}, nil), "k", Content(7, 1<<20))
	for how, fault := range map[string]Fault{"reset": Reset, "closed": Shut} {
		t.Run(how, func(t *testing.T) {
			b := u.with(t, Want{Prefix: "breaks"}, Transport(NewLine(300<<10, fault)))
			o, err := b.Get(t.Context(), "k", 0, -1, "")
			if err != nil {
				t.Fatal(err)
			}
			defer o.Body.Close()
			if n, err := io.Copy(io.Discard, o.Body); err == nil {
				t.Errorf("%d bytes and no error", n)
			}
			for _, op := range []string{"get", "head", "put", "delete", "list"} {
				b := u.with(t, Want{Prefix: "breaks"}, Transport(NewLine(0, fault)))
				if err := one(t.Context(), b, op); err == nil {
					t.Errorf("%s without an answer: no error", op)
				} else {
					u.fails(t, err, err)
				}
			}
		})
	}
}
