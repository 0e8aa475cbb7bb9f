package index

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/index/contents"
	"github.com/symdepot/symdepot/internal/index/record"
	"github.com/symdepot/symdepot/internal/store/blob"
	"github.com/symdepot/symdepot/symfile"
)

// TestDumps: dumps are listed, found, and removed when their time is over or there are too many. Their contents have
// a reference as long as a dump has them, and no lookup finds them.
func TestDumps(t *testing.T) { onEngines(t, testDumps) }

func testDumps(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	put := func(id string, n int, life time.Duration) {
		t.Helper()
		d := contents.Dump{
			ID: id, Name: "a\x00" + id + ".dmp", Who: "anna", Key: "k", Reason: "SIGSEGV", At: c.t, Until: c.t.Add(life),
			Content: record.Content{Ref: ref(n), Size: int64(1000 + n)},
		}
		if err := db.Dumps.Put(t.Context(), &d, nil); err != nil {
			t.Fatal(err)
		}
		c.hours(1)
	}
	list := func() string {
		t.Helper()
		var ids []string
		before := int64(0)
		for {
			page, err := db.Dumps.List(t.Context(), before, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range page {
				ids, before = append(ids, d.ID), d.No
			}
			if len(page) < 2 {
				return strings.Join(ids, " ")
			}
		}
	}
	refs := func(list []blob.Ref, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for n := range 10 {
			for _, r := range list {
				if r == ref(n) {
					text = append(text, fmt.Sprint(n))
				}
			}
		}
		return strings.Join(text, " ")
	}
	dropped := func(ns ...int) (deleted []blob.Ref) {
		t.Helper()
		var list []blob.Ref
		for _, n := range ns {
			list = append(list, ref(n))
		}
		if _, err := db.DropContents(t.Context(), list, c.t, func(r blob.Ref) error { deleted = append(deleted, r); return nil }); err != nil {
			t.Fatal(err)
		}
		return deleted
	}
	sound := func() {
		t.Helper()
		if problems, err := db.Check(t.Context()); err != nil || len(problems) > 0 {
			t.Errorf("the check finds %q, error %v; want nothing", problems, err)
		}
	}
	begin := c.t
	put("one", 1, 24*time.Hour)
	put("two", 2, 48*time.Hour)
	put("three", 1, 72*time.Hour) // the same bytes
	put("four", 4, 72*time.Hour)
	if got := list(); got != "four three two one" {
		t.Errorf("the dumps are %s, want four three two one", got)
	}
	d, err := db.Dumps.Find(t.Context(), "two")
	if err != nil || d.Name != "a\ufffdtwo.dmp" && d.Name != "atwo.dmp" || d.Who != "anna" || d.Key != "k" || d.Reason != "SIGSEGV" || d.Content.Ref != ref(2) ||
		d.Content.Size != 1002 || !d.At.Equal(begin.Add(time.Hour)) || !d.Until.Equal(d.At.Add(48*time.Hour)) {
		t.Errorf("two is %+v, error %v", d, err)
	}
	if _, err := db.Dumps.Find(t.Context(), "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v, want not found", err)
	}
	if got := dropped(1, 2, 4); len(got) > 0 {
		t.Errorf("contents of dumps that are kept were dropped: %x", got)
	}
	sound()
	if hits, err := db.Lookup(t.Context(), record.Scope{All: true}, symfile.Lookup{ID: "two", Role: ^symfile.Role(0)}); err != nil || len(hits) > 0 {
		t.Errorf("a lookup finds %v, error %v; want nothing", hits, err)
	}
	if got := refs(db.Dumps.Expire(t.Context(), begin.Add(30*time.Hour), 100, 1<<40)); got != "1" || list() != "four three two" {
		t.Errorf("after a day: the contents %s, left are %s; want 1, and four three two", got, list())
	}
	if got := dropped(1); len(got) > 0 {
		t.Errorf("a content that another dump has was dropped: %x", got)
	}
	if got := refs(db.Dumps.Expire(t.Context(), begin, 2, 1<<40)); got != "2" || list() != "four three" {
		t.Errorf("above two dumps: the contents %s, left are %s; want 2, and four three", got, list())
	}
	if got := refs(db.Dumps.Expire(t.Context(), begin, 100, 2004)); got != "1" || list() != "four" {
		t.Errorf("above 2,004 bytes: the contents %s, left are %s; want 1, and four", got, list())
	}
	if got := dropped(1, 2, 4); len(got) != 2 {
		t.Errorf("%d contents were dropped, want two", len(got))
	}
	sound()
	if got := refs(db.Dumps.Remove(t.Context(), "four")); got != "4" || list() != "" {
		t.Errorf("removed: the contents %s, left are %s; want 4 and none", got, list())
	}
	if _, err := db.Dumps.Remove(t.Context(), "four"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed again: %v, want not found", err)
	}
	sound()
}

// TestDumpShares: who sends many dumps pushes out their own, and not those of others.
func TestDumpShares(t *testing.T) { onEngines(t, testDumpShares) }

func testDumpShares(t *testing.T) {
	c := newClock()
	db := openTest(t, c.options())
	n := 0
	put := func(who string, size int64) {
		t.Helper()
		n++
		d := contents.Dump{
			ID: fmt.Sprint(n), Name: "a.dmp", Who: who, At: c.t, Until: c.t.Add(time.Hour), Content: record.Content{Ref: ref(n), Size: size},
		}
		if err := db.Dumps.Put(t.Context(), &d, nil); err != nil {
			t.Fatal(err)
		}
	}
	left := func(most int, bytes int64, want string) {
		t.Helper()
		if _, err := db.Dumps.Expire(t.Context(), c.t, most, bytes); err != nil {
			t.Fatal(err)
		}
		list, err := db.Dumps.List(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, d := range list {
			ids = append(ids, d.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("of at most %d dumps and %d bytes are left: %s, want %s", most, bytes, got, want)
		}
	}
	put("anna", 100) // 1
	put("bert", 100) // 2
	for range 5 {
		put("", 100) // 3 to 7
	}
	left(6, 1<<40, "7 6 5 4 2 1")
	left(100, 500, "7 6 5 2 1")
	put("anna", 400) // 8
	left(100, 800, "8 7 6 5 2")
	left(3, 1<<40, "8 7 2")
}
