package display

import (
	"strings"
	"testing"
	"time"

	"github.com/symdepot/symdepot/internal/depot/coldstore"
)

// TestColdTexts: what people read about cold files.
func TestColdTexts(t *testing.T) {
	s := coldstore.ColdStats{Contents: 6, Plain: 6 << 20, Keys: 1, KeyBytes: 300 << 10, Deltas: 5, Bytes: 360 << 10}
	if got, want := ColdText(s), "6 contents, 6.0 MiB kept in 360.0 KiB (5.9 %): 1 key (300.0 KiB), 5 deltas"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Pinned, s.PinnedBytes, s.Both, s.BothBytes = 1, 300<<10, 2, 2<<20
	if got, want := ColdText(s), "; 1 base only for deltas: 300.0 KiB; 2 still plain too: 2.0 MiB"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q at the end", got, want)
	}
	c := Cost{Bytes: 1_000_000_000_000}
	c.At(0.023)
	if got := c.Text(); !strings.Contains(got, "about 23.00 USD per month, at 0.023 USD per GB") {
		t.Errorf("%q, want 23.00 USD per month", got)
	}
	f := ColdFile{Bytes: 30 << 10, Base: strings.Repeat("ab", 32), PlainToo: true}
	if got, want := f.Text(), "cold: delta of abababababab, 30.0 KiB stored, plain too"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for again, want := range map[int64]string{
		0: "3 contents made plain: 1.0 MiB",
		2: "3 contents made plain: 1.0 MiB; servers have made 2 contents cold meanwhile: run symdepot cool --pause first",
	} {
		if got := WarmedText(coldstore.Warmed{Contents: 3, Bytes: 1 << 20, Again: again}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var st coldstore.ColdStatus
	if got, want := ColdAbout(st, 0), "none becomes cold, because cold.after is not set"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	st.Work.Paused, st.Work.Started = true, time.Now()
	if got := ColdAbout(st, 14*24*time.Hour); !strings.Contains(got, "not used for 14d become cold; paused until symdepot cool --resume; under way since ") {
		t.Errorf("%q, want the time, the pause and the pass", got)
	}
}
