package term

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	noValue    = regexp.MustCompile(`^(.*): expected [a-z]+ value but got "(.*)" \([^()]*\)(?:; perhaps try .*)?$`)
	noArgument = regexp.MustCompile(`^expected "(<[^"]+>)(?: \.\.\.)?"$`)
	oneOf      = regexp.MustCompile(`must be one of ("[^"]*"(?:,"[^"]*")*)`)
)

// FlagText rewrites the texts of the command line parser for a flag without a
// value, or with a value that is not one of its list, and for missing arguments.
func FlagText(s string) string {
	if m := noValue.FindStringSubmatch(s); m != nil {
		if m[2] == "EOL" {
			return m[1] + ": a value is expected"
		}
		return fmt.Sprintf("%s: a value is expected, not %s; a value that begins with - is written as %s=%s", m[1], m[2], m[1], m[2])
	}
	if m := noArgument.FindStringSubmatch(s); m != nil {
		if strings.Contains(m[1], " ") {
			return "the arguments " + m[1] + " are missing"
		}
		return "the argument " + m[1] + " is missing"
	}
	return oneOf.ReplaceAllStringFunc(s, func(list string) string {
		list = strings.TrimPrefix(list, "must be one of ")
		var words []string
		for w := range strings.SplitSeq(list, ",") {
			if w = strings.Trim(w, `"`); w != "" {
				words = append(words, w)
			}
		}
		return "must be one of " + strings.Join(words, ", ") + ","
	})
}
