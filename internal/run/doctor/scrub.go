package doctor

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/symdepot/symdepot/internal/serve/auth"
)

// scrubber removes secrets and names of people from texts.
type scrubber struct{ replace *strings.Replacer }

// hiddenMark stands for what was removed.
const hiddenMark = "***"

// shortSecret is the length below which a secret is not searched for: it would be found
// in ordinary words.
const shortSecret = 4

// secretName matches the names of variables whose values are secrets.
var secretName = regexp.MustCompile(`(?i)pass|secret|token|_key|credential|cookie|headers`)

// newScrubber returns a scrubber for the secrets of a configuration and of an
// environment, "NAME=VALUE" each.
func newScrubber(hidden, environ []string) *scrubber {
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
		pairs = append(pairs, home, "~", inJSON(home), "~")
	}
	for _, s := range list {
		pairs = append(pairs, s, hiddenMark, inJSON(s), hiddenMark)
	}
	return &scrubber{strings.NewReplacer(pairs...)}
}

// inJSON returns a text as it stands in JSON, without the quotation marks.
func inJSON(s string) string {
	b, _ := json.Marshal(s) // of a text: it cannot fail
	return strings.TrimSuffix(strings.TrimPrefix(string(b), `"`), `"`)
}

// rules are what is removed whatever the configuration says, and what stands there
// instead.
var rules = []struct {
	what *regexp.Regexp
	by   string
}{
	// Up to the last @: a password that should have been escaped may have / and @.
	{regexp.MustCompile(`://[^\s"']*@`), "://" + hiddenMark + "@"},
	{regexp.MustCompile(`(invalid port \\?")[^"\\]+`), "${1}" + hiddenMark}, // the beginning of such a password
	{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate|authToken)(\s+)[A-Za-z0-9+/=_.~-]{8,}`), "$1$2" + hiddenMark},
	{regexp.MustCompile(`(?i)\b(authorization|cookie|x-api-key|password|passwd|secret|token|sig|signature|access_token)` +
		`("?\s*[:=]\s*"?)[^\s"&,;]+`), "$1$2" + hiddenMark},
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`), hiddenMark},
	{regexp.MustCompile(`AKIA[0-9A-Z]{16}`), hiddenMark},
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), hiddenMark},
	// In JSON a backslash is two. A name may have blanks if a separator follows.
	{regexp.MustCompile(`((?:/|\\{1,2})(?:home|Users)(?:/|\\{1,2}))(?:[^/\\\s"']+(?: [^/\\\s"']+){1,2}([/\\])|[^/\\\s"']+)`), "${1}USER${2}"},
	{regexp.MustCompile(`[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+`), "NAME@HOST"},
}

// text returns a text without secrets and names of people.
func (s *scrubber) text(text string) string {
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

// connection matches the far end of a connection in errors, "read tcp HERE->THERE: …": mostly
// it is a client. In JSON the > may be escaped.
var connection = regexp.MustCompile(`-(>|\\u003e)(?:[0-9.]+|\[[0-9A-Fa-f:.%a-z]+\]):[0-9]+`)

// logLine returns a line of the log without secrets, names of people and addresses of
// clients.
func (s *scrubber) logLine(line string) string {
	var record map[string]any
	if json.Unmarshal([]byte(line), &record) == nil {
		for _, key := range personal {
			delete(record, key)
		}
		if b, err := json.Marshal(record); err == nil {
			line = string(b)
		}
	} else {
		line = personalText.ReplaceAllString(line, "$1="+hiddenMark)
	}
	return s.text(connection.ReplaceAllString(line, "-$1"+hiddenMark))
}
