// Package support collects what a report of a problem needs into one file, without
// secrets, names of people and contents of symbol files.
package support

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/auth"
)

// Scrubber removes secrets and names of people from texts.
type Scrubber struct{ replace *strings.Replacer }

// hiddenMark stands for what was removed.
const hiddenMark = "***"

// shortSecret is the length below which a secret is not searched for: it would be found
// in ordinary words.
const shortSecret = 4

// secretName matches the names of variables whose values are secrets.
var secretName = regexp.MustCompile(`(?i)pass|secret|token|_key|credential|cookie|headers`)

// NewScrubber returns a Scrubber for the secrets of a configuration and of an
// environment, "NAME=VALUE" each.
func NewScrubber(hidden, environ []string) *Scrubber {
	list := slices.Clone(hidden)
	for _, e := range environ {
		if name, value, _ := strings.Cut(e, "="); secretName.MatchString(name) && !strings.HasSuffix(strings.ToUpper(name), "_FILE") {
			list = append(list, value)
			list = append(list, strings.FieldsFunc(value, func(r rune) bool { return r == '=' || r == ',' })...)
		}
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < shortSecret })
	// The longest first: one may be a part of another.
	slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	if home, err := os.UserHomeDir(); err == nil && len(home) > 3 {
		pairs = append(pairs, home, "~")
	}
	for _, s := range list {
		quoted, _ := json.Marshal(s) // as it stands in JSON
		pairs = append(pairs, s, hiddenMark, strings.Trim(string(quoted), `"`), hiddenMark)
	}
	return &Scrubber{strings.NewReplacer(pairs...)}
}

// rules are what is removed whatever the configuration says, and what stands there
// instead.
var rules = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`://[^/\s"'@]*@`), "://" + hiddenMark + "@"},
	{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate|authToken)(\s+)[A-Za-z0-9+/=_.~-]{8,}`), "$1$2" + hiddenMark},
	{regexp.MustCompile(`(?i)\b(authorization|cookie|x-api-key|password|passwd|secret|token|sig|signature|access_token)("?\s*[:=]\s*"?)[^\s"&,;]+`), "$1$2" + hiddenMark},
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), hiddenMark},
	{regexp.MustCompile(`AKIA[0-9A-Z]{16}`), hiddenMark},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), hiddenMark},
	{regexp.MustCompile(`([/\\](?:home|Users)[/\\])[^/\\\s"']+`), "${1}USER"},
	{regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`), "NAME@HOST"},
}

// Text returns a text without secrets and names of people.
func (s *Scrubber) Text(text string) string {
	text = s.replace.Replace(text)
	for _, r := range rules {
		text = r.what.ReplaceAllString(text, r.by)
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(auth.Redact(line))
	}
	return b.String()
}

// personal are the attributes of log lines that say who did something.
var personal = []string{"who", "by", "remote", "client", "user", "token_id", "name_of", "principal"}

// personalText matches them in lines that are no JSON.
var personalText = regexp.MustCompile(`\b(` + strings.Join(personal, "|") + `)=("(?:[^"\\]|\\.)*"|\S+)`)

// LogLine returns a line of the log without secrets and names of people.
func (s *Scrubber) LogLine(line string) string {
	var record map[string]any
	if json.Unmarshal([]byte(line), &record) == nil {
		for _, key := range personal {
			delete(record, key)
		}
		if b, err := json.Marshal(record); err == nil {
			return s.Text(string(b))
		}
	}
	return s.Text(personalText.ReplaceAllString(line, "$1="+hiddenMark))
}
