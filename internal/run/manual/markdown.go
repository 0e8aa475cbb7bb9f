package manual

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Markdown returns a page of all commands to look things up: for each its sentence, its usage,
// its examples and the names of its flags. What the flags do, the help and the man pages say.
// Flags that all commands have stand once, at the top.
func Markdown(root *Command) string {
	var b strings.Builder
	writeNames(&b, "Flags of every command", root.Flags)
	for _, c := range root.all()[1:] {
		fmt.Fprintf(&b, "## %s\n\n%s\n\n    %s\n\n", c.Path, cell(c.Help), c.Usage)
		for _, e := range examples(c.Detail) {
			b.WriteString("    " + e + "\n")
		}
		b.WriteString("\n")
		writeNames(&b, "Flags", slices.DeleteFunc(slices.Clone(c.Flags), func(a Arg) bool {
			return slices.ContainsFunc(root.Flags, func(r Arg) bool { return r.Name == a.Name && r.Help == a.Help })
		}))
	}
	return b.String()
}

// examples returns the command lines of a help text: its indented lines, but for output, which
// begins with a prompt.
func examples(text string) (list []string) {
	output := false
	for l := range strings.SplitSeq(text, "\n") {
		e, indented := strings.CutPrefix(l, "  ")
		if output = indented && (output || strings.HasPrefix(e, "$ ")); indented && !output {
			list = append(list, e)
		}
	}
	return list
}

// writeNames writes the names of flags in one paragraph.
func writeNames(b *strings.Builder, title string, list []Arg) {
	var names []string
	for _, a := range list {
		name := "`" + a.Name + "`"
		if a.Short != "" {
			name += " (`" + a.Short + "`)"
		}
		names = append(names, name)
	}
	if len(names) > 0 {
		fmt.Fprintf(b, "%s: %s\n\n", title, strings.Join(names, ", "))
	}
}

// usualCodes are the exit codes that mean the same for nearly all commands.
var usualCodes = regexp.MustCompile(`^(0 done|2 wrong command line( or none)?|3 failed|` +
	`4 (no depot|depot (missing|damaged)(, damaged| or damaged)?( or newer)?)|` +
	`5 credentials refused|7 server not reachable|130 interrupted)$`)

// nextCode is where the text of the next exit code begins.
var nextCode = regexp.MustCompile(`[,;:] (\d+ )`)

// ExitCodes returns a table of the exit codes that the help of each command names, without those
// that mean what they mean everywhere.
func ExitCodes(root *Command) string {
	var b strings.Builder
	b.WriteString("| Command | Exit codes |\n|---|---|\n")
	for _, c := range root.all()[1:] {
		_, codes, ok := strings.Cut(c.Detail, "Exit codes: ")
		if !ok {
			continue
		}
		codes, _, _ = strings.Cut(codes, "\n\n")
		codes = strings.TrimSuffix(strings.Join(strings.Fields(codes), " "), ".")
		list := strings.Split(nextCode.ReplaceAllString(codes, "\n$1"), "\n")
		if list = slices.DeleteFunc(list, usualCodes.MatchString); len(list) > 0 {
			fmt.Fprintf(&b, "| `%s` | %s |\n", c.Path, cell(strings.Join(list, "; ")))
		}
	}
	return b.String()
}

// cell is a text in a cell of a table.
func cell(s string) string {
	return strings.ReplaceAll(prose(strings.Join(strings.Fields(s), " ")), "|", `\|`)
}

// prose escapes the characters of a plain text that mean something in Markdown.
func prose(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, `<`, `\<`, "`", "\\`").Replace(s)
}
