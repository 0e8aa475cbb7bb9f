package pages

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"

	"github.com/symdepot/symdepot/debugid"
	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/serve/web"
)

// pageFuncs are the functions of the templates.
var pageFuncs = template.FuncMap{
	"id": idHTML, "name": nameHTML, "when": whenHTML, "size": term.Size,
	"count": func(n int64, noun string) string { return term.Count(n, noun) },
	"day":   func(t time.Time) string { return t.UTC().Format(time.DateOnly) }, "join": strings.Join,
	"count64": func(n int, noun string) string { return term.Count(int64(n), noun) },
	"files":   fileCount,
	"ago":     agoText, "num": web.Number, "list": func(values ...string) []string { return values }, "dict": dict,
	"kept": keptText, "badges": func() []web.NamedValue { return hasList(legend) },
	"now": func() string { return time.Now().UTC().Format(minuteLayout) }, "isAll": func(products []string) bool { return products == nil },
}

// keptWords says why a plan keeps transactions, by the word of retention.Reason.
var keptWords = map[string]string{
	"hold": "on hold", "no rule": "in a class without rules", "young": "newer than min_age", "last": "among the newest (keep_last)",
	"within": "recent enough (keep_within)", "used": "read recently (keep_used)", "ref": "needed by another build",
}

// keptText says why a plan keeps transactions.
func keptText(word string) string {
	if text, ok := keptWords[word]; ok {
		return text
	}
	return word
}

// dict pairs names and values, for templates with several arguments.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		name, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: argument %d is %T, want the name of a value", i, pairs[i])
		}
		m[name] = pairs[i+1]
	}
	return m, nil
}

// wrapEvery is after how many digits a long id may be wrapped.
const wrapEvery = 8

// idHTML prints an id whole. It can be wrapped after every eighth digit; what is
// copied has no spaces.
func idHTML(id string) template.HTML {
	if !debugid.IsHex(strings.Trim(strings.ReplaceAll(id, "-", ""), "{}")) {
		return nameHTML(id)
	}
	var b strings.Builder
	b.WriteString(`<span class="id">`)
	for i := 0; i < len(id); i += wrapEvery {
		if i > 0 {
			b.WriteString("<wbr>")
		}
		b.WriteString(id[i:min(i+wrapEvery, len(id))]) // hex digits, dashes and braces only
	}
	b.WriteString("</span>")
	return template.HTML(b.String()) //nolint:gosec // hex digits, dashes, braces and our own elements
}

// nameHTML prints a name that somebody gave: its direction does not spread, and
// characters that cannot be seen are shown by their number.
func nameHTML(s string) template.HTML {
	if s == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("<bdi>")
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if isHidden(r) {
			writeHidden(&b, r)
			continue
		}
		b.WriteString(template.HTMLEscapeString(string(r)))
	}
	b.WriteString("</bdi>")
	return template.HTML(b.String()) //nolint:gosec // escaped above
}

// writeHidden prints a character that cannot be seen by its number.
func writeHidden(b *strings.Builder, r rune) { fmt.Fprintf(b, `<span class="hid">U+%04X</span>`, r) }

// isHidden reports whether a character cannot be seen, or changes the direction of
// others.
func isHidden(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) || r == '\u3164'
}

// plainName is nameHTML for places that take no elements, such as a title.
func plainName(s string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		if isHidden(r) {
			fmt.Fprintf(&b, "U+%04X", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// whenHTML prints a time in UTC and how long ago it is. In tables the style sheet shows
// the latter first, and on a phone alone; the script gives it a title with seconds.
func whenHTML(t time.Time) template.HTML { return timeHTML(t, time.Now()) }

// timeHTML is whenHTML at the time now.
func timeHTML(t, now time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	text := t.Format(minuteLayout)
	if since := sinceText(t, now.UTC()); since != "" {
		text = `<span>` + text + `</span> <small>` + since + `</small>`
	}
	element := `<time datetime="` + t.Format(time.RFC3339) + `">` + text + `</time>`
	return template.HTML(element) //nolint:gosec // digits, words and our own elements
}

// minuteLayout is how pages print a time in UTC.
const minuteLayout = "2006-01-02 15:04"

// sinceDays is how many days ago a time is told by the number of days.
const sinceDays = 30

// sinceText says how long before now a time was, both in UTC; "" for a time that is to
// come or is more than sinceDays ago.
func sinceText(t, now time.Time) string {
	d := now.Sub(t)
	days := int(now.Truncate(24*time.Hour).Sub(t.Truncate(24*time.Hour)) / (24 * time.Hour))
	switch {
	case d < -time.Minute || days > sinceDays: // a minute, because clocks of machines differ
		return ""
	case d < time.Minute:
		return "just now"
	case d < 24*time.Hour:
		return agoText(d) + " ago"
	case days == 1:
		return "yesterday"
	}
	return fmt.Sprintf("%d d ago", days)
}

// agoText prints how long something lasted or has been.
func agoText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, d/time.Second))
	case d < time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}
