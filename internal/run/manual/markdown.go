package manual

import (
	"fmt"
	"slices"
	"strings"
)

// Markdown returns the reference of all commands as a page: for each its usage, its text,
// its arguments and its flags. Flags that all commands have stand once, at the top.
func Markdown(root *Command) string {
	var b strings.Builder
	writeTable(&b, "For every command", root.Flags)
	for _, c := range root.all()[1:] {
		fmt.Fprintf(&b, "## %s\n\n    %s\n\n%s\n\n", c.Path, c.Usage, cell(c.Help))
		writeParagraphs(&b, c.Detail)
		writeTable(&b, "Argument", c.Args)
		writeTable(&b, "Flag", slices.DeleteFunc(slices.Clone(c.Flags), func(a Arg) bool {
			return slices.ContainsFunc(root.Flags, func(r Arg) bool { return r.Name == a.Name && r.Help == a.Help })
		}))
	}
	return b.String()
}

// writeParagraphs writes a help text, with the indented lines as examples.
func writeParagraphs(b *strings.Builder, text string) {
	for l := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		if strings.HasPrefix(l, "  ") {
			l = "    " + strings.TrimPrefix(l, "  ")
		} else {
			l = prose(l)
		}
		b.WriteString(l + "\n")
	}
	b.WriteString("\n")
}

func writeTable(b *strings.Builder, title string, list []Arg) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s | |\n|---|---|\n", title)
	for _, a := range list {
		head := "`" + a.Name
		if a.Value != "" {
			head += "=" + a.Value
		}
		head += "`"
		if a.Short != "" {
			head += ", `" + a.Short + "`"
		}
		fmt.Fprintf(b, "| %s | %s |\n", strings.ReplaceAll(head, "|", `\|`), cell(a.Help))
	}
	b.WriteString("\n")
}

// ExitCodes returns a table of the exit codes that the help of each command names.
func ExitCodes(root *Command) string {
	var b strings.Builder
	b.WriteString("| Command | Exit codes |\n|---|---|\n")
	for _, c := range root.all()[1:] {
		_, codes, ok := strings.Cut(c.Detail, "Exit codes: ")
		if !ok {
			continue
		}
		codes, _, _ = strings.Cut(codes, "\n\n")
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.Path, cell(strings.TrimSuffix(strings.TrimSpace(codes), ".")))
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
