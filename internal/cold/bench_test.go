//go:build unix

package cold

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func series(t testing.TB, name string) [][]byte {
	paths, _ := filepath.Glob(filepath.Join(os.Getenv("SYMDEPOT_COLD_SERIES"), name, "[0-9][0-9]"))
	var out [][]byte
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b)
	}
	return out
}

func TestQuick(t *testing.T) {
	for _, name := range []string{"A", "B", "C", "D"} {
		s := series(t, name)
		if len(s) < 2 {
			continue
		}
		if len(s) > 4 {
			s = s[:4]
		}
		key := s[0]
		e1 := func(b, base []byte) (Stats, []byte, float64) {
			var out bytes.Buffer
			out.Grow(len(b) / 2)
			var st Stats
			var err error
			src, bs := Source{bytes.NewReader(b), int64(len(b)), [32]byte{}}, Source{bytes.NewReader(base), int64(len(base)), [32]byte{}}
			from := cpu()
			if base == nil {
				st, err = EncodeKey(context.Background(), &out, src, nil)
			} else {
				st, err = EncodeDelta(context.Background(), &out, src, bs, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			return st, out.Bytes(), float64(len(b)) / 1e6 / (cpu() - from).Seconds()
		}
		if os.Getenv("KEY") != "" {
			st, file, v := e1(key, nil)
			from := cpu()
			if !bytes.Equal(restored(t, open(t, file, nil)), key) {
				t.Fatal("key")
			}
			t.Logf("%s key %.2f %% encode %.1f MB/s decode %.0f", name, 100*float64(st.Bytes)/float64(len(key)), v, float64(len(key))/1e6/(cpu()-from).Seconds())
		}
		var sum, plain int64
		for i := 1; i < len(s); i++ {
			st, file, v := e1(s[i], key)
			from := cpu()
			if !bytes.Equal(restored(t, open(t, file, key)), s[i]) {
				t.Fatal("delta")
			}
			dv := float64(len(key)) / 1e6 / (cpu() - from).Seconds()
			p, _ := Inspect(bytes.NewReader(file), int64(len(file)))
			sum += st.Bytes
			plain += int64(len(s[i]))
			t.Logf("%s %d: %.3f %% encode %.1f MB/s decode %.0f MB/s, units %.1f a block, most %d  %+v", name, i, 100*float64(st.Bytes)/float64(len(s[i])), v, dv, float64(p.Units)/float64(st.Blocks), p.Most, st)
		}
		t.Logf("%s mean %.3f %%", name, 100*float64(sum)/float64(plain))
	}
}
