package symbolicate

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/symdepot/symdepot/internal/store/blob"
)

// memoryFile is a file of a depot in memory.
type memoryFile struct {
	*bytes.Reader
	closed int
}

func (f *memoryFile) Close() error                       { f.closed++; return nil }
func (f *memoryFile) Tag() string                        { return "tag" }
func (f *memoryFile) Content() (string, blob.Ref, int64) { return "f.gsym", blob.Ref{}, f.Size() }
func (f *memoryFile) open(context.Context) (File, error) { return f, nil }
func failsToOpen(context.Context) (File, error)          { return nil, errors.New("for the test") }
func useModule(t *testing.T, ms *modules, n byte, f *memoryFile) *openModule {
	t.Helper()
	m, err := ms.get(t.Context(), blob.Ref{n}, f.open)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// gsymFiles returns n GSYM files of one function.
func gsymFiles(t *testing.T, n int) (list []*memoryFile) {
	t.Helper()
	text := "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 prog\nFUNC 1000 10 0 f\n"
	table, err := Read(t.Context(), []Input{{strings.NewReader(text), int64(len(text)), "prog.sym"}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := Write(t.Context(), &b, GSYM, table); err != nil {
		t.Fatal(err)
	}
	for range n {
		list = append(list, &memoryFile{Reader: bytes.NewReader(b.Bytes())})
	}
	return list
}

// TestModulesLimit: the least recently used modules are closed when there are too many
// or when they are idle; none that somebody uses.
func TestModulesLimit(t *testing.T) {
	files := gsymFiles(t, 4)
	synctest.Test(t, func(t *testing.T) {
		closed := func(what string, want ...int) {
			t.Helper()
			for i, n := range want {
				if files[i].closed != n {
					t.Errorf("%s: file %d was closed %d times, want %d", what, i, files[i].closed, n)
				}
			}
		}
		ms := &modules{max: 2}
		held := useModule(t, ms, 0, files[0])
		for i := 1; i < 4; i++ {
			time.Sleep(time.Second)
			m := useModule(t, ms, byte(i), files[i])
			if a, ok := m.looker.Lookup(0x1004); !ok || a.Frames[0].Function != "f" {
				t.Errorf("module %d: %+v, %t; want the function f", i, a, ok)
			}
			ms.put(blob.Ref{byte(i)}, m)
		}
		closed("the fourth module", 0, 1, 1, 0)
		if again := useModule(t, ms, 3, files[2]); again.file != File(files[3]) {
			t.Error("an open module was opened again")
		} else {
			ms.put(blob.Ref{3}, again)
		}
		ms.put(blob.Ref{0}, held)
		time.Sleep(2 * idleModule)
		synctest.Wait()
		closed("when idle, without another request", 1, 1, 1, 1)
		m := useModule(t, ms, 1, files[1])
		ms.put(blob.Ref{1}, m)
		if _, err := ms.get(t.Context(), blob.Ref{9}, failsToOpen); err == nil || len(ms.open) != 1 {
			t.Errorf("a file that cannot be opened: error %v, %d modules; want an error, and one module", err, len(ms.open))
		}
		if err := ms.close(); err != nil {
			t.Error(err)
		}
		closed("at the end", 1, 2, 1, 1)
	})
}

// TestModulesShared: clients who ask for one module at the same time share it.
func TestModulesShared(t *testing.T) {
	f := gsymFiles(t, 1)[0]
	ms := &modules{max: 2}
	opened := 0
	begin := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			m, err := ms.get(t.Context(), blob.Ref{1}, func(context.Context) (File, error) {
				opened++ // by one of them
				<-begin
				return f, nil
			})
			if err != nil {
				t.Error(err)
				return
			}
			ms.put(blob.Ref{1}, m)
		})
	}
	close(begin)
	all.Wait()
	if opened != 1 {
		t.Errorf("the file was opened %d times, want once", opened)
	}
}

// TestClientTimes: the time of all attempts at a job is charged to the client that entered
// it first, and runs out.
func TestClientTimes(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	c := clientTimes{limit: 5 * time.Minute, every: 10 * time.Minute, now: func() time.Time { return now }, of: map[string]clientTime{}, jobs: map[string]clientJob{}}
	admits := func(what, client string, want bool) {
		t.Helper()
		if got := c.admit(client); got != want {
			t.Errorf("%s: the client %q is admitted: %t, want %t", what, client, got, want)
		}
	}
	c.began("a", "one")
	c.began("a", "two")        // waits for the same job
	c.charge("a", time.Minute) // an attempt that failed
	c.charge("a", 3*time.Minute)
	c.done("a")
	c.charge("a", time.Hour) // of a job that nobody entered here
	admits("four minutes", "one", true)
	c.began("b", "one")
	c.charge("b", time.Minute)
	c.done("b")
	admits("five minutes", "one", false)
	admits("five minutes", "two", true)
	admits("five minutes", "", true)
	now = now.Add(3 * time.Second)
	admits("three seconds later", "one", true)
	c.began("c", "two")() // the queue was full
	c.charge("c", time.Hour)
	admits("after a refused job", "two", true)
	c.began("d", "one")
	c.charge("d", time.Hour)
	c.done("d")
	now = now.Add(119 * time.Minute)
	admits("after 119 of 120 minutes", "one", false)
	now = now.Add(time.Minute)
	admits("after 120 minutes", "one", true)
	c.began("e", "one") // another process does it, and it fails
	now = now.Add(10 * time.Minute)
	c.began("e", "two")
	c.charge("e", time.Hour)
	admits("after an hour of work for another client", "one", true)
	admits("after an hour of work", "two", false)
	c.done("e")
	if len(c.jobs) != 0 {
		t.Errorf("jobs %v are still known, want none", c.jobs)
	}
}
