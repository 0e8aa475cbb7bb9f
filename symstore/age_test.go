package symstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// agedStore makes a store of four transactions in the months January to April
// of 2020: app stores x.dll, y.dll and x.dll again, lib stores a pointer under
// the key of x.dll. It returns the sizes of x.dll, y.dll and the pointer.
func agedStore(t *testing.T) (s *Store, x, y, ptr int64) {
	t.Helper()
	dir, src := t.TempDir(), t.TempDir()
	imageX, imageY := peImage(1, 0x1000, "xxxxxxxxxx"), peImage(2, 0x1000, "yyyyyyyyyyyyyyyyyyyy")
	fileX := File{Path: writeFile(t, filepath.Join(src, "x.dll"), imageX)}
	fileY := File{Path: writeFile(t, filepath.Join(src, "y.dll"), imageY)}
	const target = `\\archive\x.dll`
	pointer := File{Source: target, Keys: []Key{{"x.dll", "000000011000", Binary}}}
	for _, add := range []struct {
		when string
		opt  AddOptions
		file File
	}{
		{"2020-01-01 00:00:00", AddOptions{Product: "app"}, fileX},
		{"2020-02-01 00:00:00", AddOptions{Product: "app"}, fileY},
		{"2020-03-01 00:00:00", AddOptions{Product: "app"}, fileX},
		{"2020-04-01 00:00:00", AddOptions{Product: "lib", Pointer: true}, pointer},
	} {
		s = create(t, dir, One, Options{Now: at(add.when)})
		mustAdd(t, s, add.opt, files(add.file))
	}
	return s, int64(len(imageX)), int64(len(imageY)), int64(len(target))
}

func TestAge(t *testing.T) {
	t.Parallel()
	s, x, y, ptr := agedStore(t)
	day := func(stamp string) time.Time { return at(stamp + " 00:00:00")() }
	used := func(name, stamp string) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(s.Dir(), filepath.FromSlash(name)), day(stamp), day(stamp)); err != nil {
			t.Fatal(err)
		}
	}
	used("x.dll/000000011000/x.dll", "2021-01-01")
	used("x.dll/000000011000/file.ptr", "2020-12-01")
	used("y.dll/000000021000/y.dll", "2022-01-01")
	for _, c := range []struct {
		name  string
		opt   AgeOptions
		ids   []ID
		frees []int64
	}{
		{"all by age", AgeOptions{ByAge: true, MaxBytes: -1}, []ID{1, 2, 3, 4}, []int64{0, y, x, ptr}},
		{"all by last use", AgeOptions{MaxBytes: -1}, []ID{1, 3, 4, 2}, []int64{0, x, ptr, y}},
		{"the zero value", AgeOptions{}, []ID{1, 3, 4, 2}, []int64{0, x, ptr, y}},
		{"stored before a time", AgeOptions{ByAge: true, MaxBytes: -1, Before: day("2020-02-15")}, []ID{1, 2}, []int64{0, y}},
		{"used before a time", AgeOptions{MaxBytes: -1, Before: day("2021-06-01")}, []ID{1, 3, 4}, []int64{0, x, ptr}},
		{"a time that nothing is older than", AgeOptions{MaxBytes: -1, Before: day("2019-01-01")}, nil, nil},
		{"down to a size", AgeOptions{ByAge: true, MaxBytes: x + ptr}, []ID{1, 2}, []int64{0, y}},
		{"one byte below that size", AgeOptions{ByAge: true, MaxBytes: x + ptr - 1}, []ID{1, 2, 3}, []int64{0, y, x}},
		{"a size that is met", AgeOptions{ByAge: true, MaxBytes: x + y + ptr}, nil, nil},
		{"all but one of each product", AgeOptions{ByAge: true, MaxBytes: -1, Keep: 1}, []ID{1, 2}, []int64{0, y}},
		{"all but two of each product", AgeOptions{ByAge: true, MaxBytes: -1, Keep: 2}, []ID{1}, []int64{0}},
		{"one product", AgeOptions{ByAge: true, MaxBytes: -1, Match: func(u Upload) bool { return u.Product == "app" }}, []ID{1, 2, 3}, []int64{0, y, x}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !c.opt.ByAge && !c.opt.Before.IsZero() && symtest.Wine() != "" {
				t.Skip("Wine reads the start of a file when it lists it, which changes the time of the last read")
			}
			list, total, err := s.Age(t.Context(), c.opt)
			if err != nil {
				t.Fatalf("Age: error %v, want none", err)
			}
			if total != x+y+ptr {
				t.Errorf("total %d bytes, want %d", total, x+y+ptr)
			}
			var ids []ID
			var frees []int64
			for _, a := range list {
				ids, frees = append(ids, a.ID), append(frees, a.Frees)
			}
			if !slices.Equal(ids, c.ids) || !slices.Equal(frees, c.frees) {
				t.Errorf("transactions %v free %d bytes, want %v and %d", ids, frees, c.ids, c.frees)
			}
		})
	}
	t.Run("time of the last use", func(t *testing.T) {
		if symtest.Wine() != "" {
			t.Skip("Wine reads the start of a file when it lists it, which changes the time of the last read")
		}
		list, _, err := s.Age(t.Context(), AgeOptions{MaxBytes: -1})
		if err != nil || len(list) != 4 {
			t.Fatalf("%d transactions, error %v; want 4 and none", len(list), err)
		}
		if got, want := list[0].Used, day("2021-01-01"); !got.Equal(want) {
			t.Errorf("transaction 1 was used at %v, want %v: the later one of file and pointer", got, want)
		}
	})
	t.Run("ended context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := s.Age(ctx, AgeOptions{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Age: error %v, want context.Canceled", err)
		}
	})
}

// TestAgeFrees deletes what Age selects, in its order: Frees is exact, pointers
// that are removed or brought back included.
func TestAgeFrees(t *testing.T) {
	t.Parallel()
	product := func(name string) func(Upload) bool { return func(u Upload) bool { return u.Product == name } }
	for _, c := range []struct {
		name    string
		later   bool // a file is stored after the pointer, which removes file.ptr
		selects []AgeOptions
		left    func(x, ptr int64) int64
	}{
		{"oldest first", false, []AgeOptions{{ByAge: true, MaxBytes: -1}}, func(x, ptr int64) int64 { return 0 }},
		{"the pointer first", false, []AgeOptions{{ByAge: true, MaxBytes: -1, Match: product("lib")}, {ByAge: true, MaxBytes: -1}}, func(x, ptr int64) int64 { return 0 }},
		{"a pointer that comes back", true, []AgeOptions{{ByAge: true, MaxBytes: -1, Match: product("late")}, {ByAge: true, MaxBytes: -1, Match: product("app")}}, func(x, ptr int64) int64 { return ptr }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, x, _, ptr := agedStore(t)
			if c.later {
				again := writeFile(t, filepath.Join(t.TempDir(), "x.dll"), peImage(1, 0x1000, "xxxxxxxxxx"))
				s = create(t, s.Dir(), One, Options{Now: at("2020-05-01 00:00:00")})
				mustAdd(t, s, AddOptions{Product: "late"}, files(File{Path: again}))
			}
			var left int64
			for _, opt := range c.selects {
				list, total, err := s.Age(t.Context(), opt)
				if err != nil || len(list) == 0 {
					t.Fatalf("Age selects %d transactions, error %v; want some and no error", len(list), err)
				}
				left = total
				for _, a := range list {
					mustDel(t, s, a.ID)
					_, total, err := s.Age(t.Context(), AgeOptions{})
					if left -= a.Frees; total != left || err != nil {
						t.Errorf("after the deletion of %s, said to free %d bytes: %d bytes, error %v; want %d and none", a.ID, a.Frees, total, err, left)
					}
				}
			}
			if want := c.left(x, ptr); left != want {
				t.Errorf("%d bytes are left, want %d", left, want)
			}
		})
	}
}

func TestAgeOfDamagedTransaction(t *testing.T) {
	t.Parallel()
	s, _, _, _ := agedStore(t)
	if err := os.Remove(filepath.Join(s.Dir(), filepath.FromSlash(txFile(2)))); err != nil {
		t.Fatal(err)
	}
	var bad []ID
	list, _, err := s.Age(t.Context(), AgeOptions{ByAge: true, MaxBytes: -1, Problem: func(id ID, err error) {
		if err == nil {
			t.Errorf("problem of %s without an error, want an error", id)
		}
		bad = append(bad, id)
	}})
	if err != nil || !slices.Equal(bad, []ID{2}) {
		t.Errorf("problems of %v, error %v; want those of 2 and no error", bad, err)
	}
	for _, a := range list {
		if a.ID == 2 {
			t.Error("the transaction that cannot be read is selected for deletion")
		}
	}
}
