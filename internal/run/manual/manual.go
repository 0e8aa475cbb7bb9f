// Package manual generates man pages, shell completions and the reference from a description of
// the command line, and says what an unknown word may mean. The description comes from the same
// model as --help.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Command describes a command.
type Command struct {
	Name   string // its own name: "list"
	Path   string // with the program and the parent commands: "symdepot cab list"
	Group  string // heading in the list of all commands; empty for commands below others
	Usage  string // Path with its arguments
	Help   string // one sentence
	Detail string // paragraphs; indented lines are examples
	Args   []Arg
	Flags  []Arg // including those of the parent commands
	Subs   []Command
}

// Arg describes a flag or an argument.
type Arg struct {
	Name   string // a flag with its hyphens
	Short  string // the short flag with its hyphen; may be empty
	Value  string // placeholder of the flag's value; empty for a flag without a value
	Values []string
	Help   string
}

// all lists a command and its subcommands at all levels.
func (c *Command) all() []*Command {
	list := []*Command{c}
	for i := range c.Subs {
		list = append(list, c.Subs[i].all()...)
	}
	return list
}

// WritePages writes one man page (section 1) per command into a folder, named
// like symdepot-cab-list.1.
func WritePages(dir string, root *Command) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, c := range root.all() {
		name := strings.ReplaceAll(c.Path, " ", "-") + ".1"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(Page(c)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Page returns the man page of a command.
func Page(c *Command) string {
	var b strings.Builder
	title := strings.ReplaceAll(c.Path, " ", "-")
	fmt.Fprintf(&b, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n", strings.ToUpper(escape(title)), escape(title),
		escape(strings.TrimSuffix(c.Help, ".")), escape(c.Usage))
	b.WriteString(".SH DESCRIPTION\n")
	writeText(&b, c.Help)
	writeText(&b, c.Detail)
	writeArgs(&b, "ARGUMENTS", c.Args)
	writeArgs(&b, "OPTIONS", c.Flags)
	if len(c.Subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, s := range c.Subs {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", escape(strings.ReplaceAll(s.Path, " ", "-")), line(s.Help))
		}
	}
	return b.String()
}

func writeArgs(b *strings.Builder, title string, list []Arg) {
	if len(list) == 0 {
		return
	}
	b.WriteString(".SH " + title + "\n")
	for _, a := range list {
		head := a.Name
		if a.Short != "" {
			head = a.Short + ", " + head
		}
		if a.Value != "" {
			head += "=" + a.Value
		}
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR\n%s\n", escape(head), line(a.Help))
	}
}

// writeText writes paragraphs. Indented lines are kept as they are.
func writeText(b *strings.Builder, text string) {
	example := false
	for l := range strings.SplitSeq(text, "\n") {
		indented := strings.HasPrefix(l, "  ")
		if indented != example && (indented || l != "") {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[indented])
			example = indented
		}
		if l == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(line(l) + "\n")
	}
	if example {
		b.WriteString(".fi\n")
	}
	b.WriteString(".PP\n")
}

// line escapes a line so that roff does not read it as a request.
func line(s string) string {
	s = escape(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}

func escape(s string) string {
	return strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`).Replace(s)
}
