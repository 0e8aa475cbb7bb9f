package term

import (
	"testing"
	"time"
)

func TestSizesAndDurations(t *testing.T) {
	for text, want := range map[string]ByteSize{"0": 0, "17": 17, "1k": 1024, "1KB": 1000, "1.5 GiB": 3 << 29, "2tb": 2e12, "10B": 10} {
		var s, back ByteSize
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s: UnmarshalText: %d, error %v; want %v", text, s, err, want)
		}
		if err := back.UnmarshalText([]byte(s.String())); err != nil || back != s {
			t.Errorf("%s: UnmarshalText: %s, %v; want %v", text, s, back, s)
		}
	}
	for text, want := range map[string]time.Duration{"0s": 0, "300ms": 300 * time.Millisecond, "90m": 90 * time.Minute, "7d": 168 * time.Hour, "1.5d": 36 * time.Hour, "24h": 24 * time.Hour} {
		var s, back Duration
		if err := s.UnmarshalText([]byte(text)); err != nil || time.Duration(s) != want {
			t.Errorf("%s: UnmarshalText: %s, error %v; want time.Duration(s) %v", text, s, err, want)
		}
		if err := back.UnmarshalText([]byte(s.String())); err != nil || back != s {
			t.Errorf("%s: UnmarshalText: %s, %v; want %v", text, s, back, s)
		}
	}
	for _, text := range []string{"", "x", "-1", "NaN", "1e30", "inf", "GiB", "1XB"} {
		if err := new(ByteSize).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as a size, want an error", text)
		}
	}
	for _, text := range []string{"", "x", "-1s", "NaNd", "1e30d", "d", "5"} {
		if err := new(Duration).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as a time, want an error", text)
		}
	}
}
