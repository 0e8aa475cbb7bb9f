package web

import (
	"net/url"
	"time"
)

// timeOf reads a parameter that is a time or a day; the zero time if it is missing.
func timeOf(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &Problem{Word: "query", Detail: "a parameter is not valid", Fields: map[string]string{name: "a time is expected, such as 2026-12-31T10:00:00Z or 2026-12-31"}}
}
