package watch

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/base/symtest"
)

// TestReplacedWhileServed: while a package and a file are replaced and scanned again and
// again, each answer is one of their states, whole, or none.
func TestReplacedWhileServed(t *testing.T) {
	t.Parallel()
	m := testMaterial(t)
	var progs, libs, packages [][]byte
	for i := range 3 {
		progs = append(progs, append(bytes.Clone(m.stripped), fmt.Sprintf("%0*d", 100*i, i)...))
		libs = append(libs, append(bytes.Clone(m.lib), fmt.Sprintf("%0*d", 50*i, i)...))
		packages = append(packages, makeDeb(t, i%2 == 0, entry{"usr/lib/front.so", m.prog}, entry{"usr/lib/libprog.so", libs[i]}))
	}
	dir, made := t.TempDir(), t.TempDir()
	replace := func(name string, body []byte) {
		put(t, made, name, body)
		move := func() error { return os.Rename(filepath.Join(made, name), filepath.Join(dir, name)) }
		if runtime.GOOS == "windows" { // which replaces no file that is open
			symtest.Await(t, 20*time.Second, name+" is not open", func() bool { return move() == nil })
		} else if err := move(); err != nil {
			t.Error(err)
		}
	}
	replace("prog", progs[0])
	replace("p.deb", packages[0])
	f := open(t, dir, Options{})
	scanned(t, f)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for _, want := range []struct {
		id     string
		states [][]byte
	}{{m.id, append(progs, m.prog)}, {m.libID, libs}, {m.libID, libs}, {m.id, append(progs, m.prog)}} {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				_, b, err := get(t, f, "buildid/"+want.id+"/executable")
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errChanged) {
					continue
				}
				if err != nil {
					t.Errorf("%v, want an answer or %v", err, fs.ErrNotExist)
					return
				}
				known := false
				for _, s := range want.states {
					known = known || bytes.Equal(b, s)
				}
				if !known {
					t.Errorf("%d bytes that are none of the states", len(b))
					return
				}
			}
		})
	}
	for i := range 30 {
		replace("prog", progs[i%3])
		replace("p.deb", packages[(i+1)%3])
		scanned(t, f)
	}
	close(stop)
	readers.Wait()
}
