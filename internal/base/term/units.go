package term

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ByteSize is a number of bytes that users write with a unit. It implements
// encoding.TextUnmarshaler for flags and configuration keys.
type ByteSize int64

// SizeSyntax describes the syntax of a size, for error messages.
const SizeSyntax = "a size is expected, such as 500MB, 20GiB or a number of bytes"

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

// UnmarshalText parses a size: 500MB, 20GiB, 8G, 1024. Single letters and units
// with an i are powers of 1024, the others powers of 1000.
func (s *ByteSize) UnmarshalText(text []byte) error {
	t, unit := strings.TrimSpace(string(text)), 1.0
	whole := t
	for _, u := range sizeUnits {
		if len(t) > len(u.name) && strings.EqualFold(t[len(t)-len(u.name):], u.name) {
			t, unit = strings.TrimSpace(t[:len(t)-len(u.name)]), u.bytes
			break
		}
	}
	n, err := strconv.ParseFloat(t, 64)
	if err != nil || n < 0 || math.IsNaN(n) || n*unit >= 1<<62 {
		return fmt.Errorf("%s, not %q", SizeSyntax, whole)
	}
	*s = ByteSize(n * unit)
	return nil
}

// String prints the size with the largest binary unit that divides it.
// UnmarshalText reads it back.
func (s ByteSize) String() string {
	for _, u := range []struct {
		name  string
		bytes ByteSize
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText is the inverse of UnmarshalText.
func (s ByteSize) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Duration is a length of time that users write, possibly in days. It implements
// encoding.TextUnmarshaler for flags and configuration keys.
type Duration time.Duration

// DurationSyntax describes the syntax of a duration, for error messages.
const DurationSyntax = "a duration is expected, such as 300ms, 10s, 5m, 24h or 7d"

// maxDays limits a duration, to about 100 years.
const maxDays = 36500

// UnmarshalText parses a duration in the syntax of time.ParseDuration, or a
// number of days such as 7d. Negative durations are an error.
func (d *Duration) UnmarshalText(text []byte) error {
	t := strings.TrimSpace(string(text))
	if days, ok := strings.CutSuffix(t, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n < 0 || !(n < maxDays) {
			return fmt.Errorf("%s, not %q", DurationSyntax, t)
		}
		*d = Duration(n * 24 * float64(time.Hour))
		return nil
	}
	v, err := time.ParseDuration(t)
	if err != nil || v < 0 {
		return fmt.Errorf("%s, not %q", DurationSyntax, t)
	}
	*d = Duration(v)
	return nil
}

// String prints the duration in its largest whole unit. UnmarshalText reads it
// back.
func (d Duration) String() string {
	const day = 24 * time.Hour
	switch v := time.Duration(d); {
	case v >= 2*day && v%day == 0:
		return strconv.Itoa(int(v/day)) + "d"
	case v >= time.Hour && v%time.Hour == 0:
		return strconv.Itoa(int(v/time.Hour)) + "h"
	case v >= time.Minute && v%time.Minute == 0:
		return strconv.Itoa(int(v/time.Minute)) + "m"
	default:
		return v.String()
	}
}

// MarshalText is the inverse of UnmarshalText.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// MomentSyntax describes the syntax of a point in time, for error messages.
const MomentSyntax = "a time is expected, such as 24h, 7d, 2026-11-21 or 2026-11-21T08:00:00Z"

// ParseMoment reads a point in time, or how long before now one was. A time without a
// zone is one of now's. Empty is the zero time.
func ParseMoment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	var d Duration
	if d.UnmarshalText([]byte(text)) == nil {
		return now.Add(-time.Duration(d)), nil
	}
	for _, form := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(form, text, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New(MomentSyntax)
}
