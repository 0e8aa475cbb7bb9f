package term

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		name  string
		total int64
		on    bool
		want  []string // the lines, as a terminal shows them one after another
	}{
		{"known total", 8 << 20, true, []string{"adding 3.0 MiB of 8.0 MiB, 37%, 1.5 MiB/s", "adding 8.0 MiB of 8.0 MiB, 100%, 2.7 MiB/s", ""}},
		{"unknown total", -1, true, []string{"adding 3.0 MiB, 1.5 MiB/s", "adding 8.0 MiB, 2.7 MiB/s", ""}},
		{"nothing to do", 0, true, []string{"adding 3.0 MiB, 1.5 MiB/s", "adding 8.0 MiB, 2.7 MiB/s", ""}},
		{"no terminal", 8 << 20, false, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				p := NewProgress(&out, "adding", tt.total)
				p.on = tt.on
				p.Set(1 << 20) // too early
				time.Sleep(2 * time.Second)
				p.Set(3 << 20)
				time.Sleep(99 * time.Millisecond)
				p.Set(4 << 20) // too soon after the last one
				time.Sleep(901 * time.Millisecond)
				p.Set(8 << 20)
				p.Done()
				var got []string
				for _, line := range strings.Split(out.String(), "\r") {
					if line != "" {
						got = append(got, strings.TrimRight(line, " "))
					}
				}
				if strings.Join(got, "\n") != strings.Join(tt.want, "\n") {
					t.Errorf("the terminal shows %q, want %q", got, tt.want)
				}
				if tt.on && !strings.HasSuffix(out.String(), " \r") {
					t.Errorf("Done leaves %q, want an empty line with the cursor at its beginning", out.String())
				}
			})
		})
	}
}

// TestProgressCovers: a shorter line leaves nothing of a longer one.
func TestProgressCovers(t *testing.T) {
	var out strings.Builder
	p := &Progress{w: &out}
	p.write("longer")
	p.write("short")
	if got, want := out.String(), "\rlonger\rshort "; got != want {
		t.Errorf("written %q, want %q", got, want)
	}
}
