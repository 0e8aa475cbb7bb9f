package term

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// RenamedFlags replaces the flags of an earlier release in a command line, and
// writes a warning to warn for each. names are the old flags with their new
// names, such as "--source" with "--upstream".
func RenamedFlags(args []string, names map[string]string, warn io.Writer) []string {
	args = slices.Clone(args)
	for i, a := range args {
		if a == "--" {
			break
		}
		flag, value, with := strings.Cut(a, "=")
		to, ok := names[flag]
		if !ok {
			continue
		}
		fmt.Fprintf(warn, "symdepot: %s is now %s\n", flag, to)
		args[i] = to
		if with {
			args[i] += "=" + value
		}
	}
	return args
}
