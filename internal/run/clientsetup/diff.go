package clientsetup

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/symdepot/symdepot/internal/base/term"
)

// tokens are the access tokens of symdepot, and any other token in a header field or in .netrc.
var tokens = regexp.MustCompile(`sd_[A-Za-z0-9_-]{43}|(?i:bearer|password) +[^ \t\r\n"]+`)

// masked hides the tokens of a text.
func masked(text []byte) []byte {
	return tokens.ReplaceAllFunc(text, func(t []byte) []byte {
		if word, _, ok := bytes.Cut(t, []byte(" ")); ok {
			return append(bytes.Clone(word), " ..."...)
		}
		return []byte("...")
	})
}

// maxCompared bounds the comparison of two texts, in pairs of lines.
const maxCompared = 4 << 20

// Diff prints what the change removes (-) and adds (+), and at which line of the file. Tokens
// are hidden.
func (e Edit) Diff() string {
	before, after := lines(e.Before), lines(e.After)
	head := 0
	for head < len(before) && head < len(after) && before[head] == after[head] {
		head++
	}
	for len(before) > head && len(after) > head && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	before, after = before[head:], after[head:]
	// common[i][j] is how many lines before[i:] and after[j:] have in common, in order.
	common := make([][]int32, len(before)+1)
	if (len(before)+1)*(len(after)+1) <= maxCompared {
		for i := range common {
			common[i] = make([]int32, len(after)+1)
		}
		for i := len(before) - 1; i >= 0; i-- {
			for j := len(after) - 1; j >= 0; j-- {
				if common[i][j] = max(common[i+1][j], common[i][j+1]); before[i] == after[j] {
					common[i][j] = common[i+1][j+1] + 1
				}
			}
		}
	}
	var out strings.Builder
	same := true // the last line is in both texts
	for i, j := 0, 0; i < len(before) || j < len(after); {
		if i < len(before) && j < len(after) && before[i] == after[j] && common[0] != nil {
			i, j, same = i+1, j+1, true
			continue
		}
		if same && (e.Existed || head+i > 0) {
			fmt.Fprintf(&out, "@@ line %d @@\n", head+i+1)
		}
		same = false
		if i < len(before) && (j == len(after) || common[0] == nil || common[i+1][j] >= common[i][j+1]) {
			out.WriteString("-" + before[i] + "\n")
			i++
			continue
		}
		out.WriteString("+" + after[j] + "\n")
		j++
	}
	return out.String()
}

// lines are the lines of a text, masked and without what could act on a terminal.
func lines(text []byte) []string {
	var out []string
	for line := range strings.Lines(string(masked(text))) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		out = append(out, term.Printable(line))
	}
	return out
}
