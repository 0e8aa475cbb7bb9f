package command

import (
	"regexp"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/base/term"
)

// What the parser says of words that it does not know, with those that are spelled alike.
var (
	unknownWord = regexp.MustCompile(`^(unexpected argument|unknown flag) (.*?)(?:, did you mean (.*)\?)?$`)
	spelled     = regexp.MustCompile(`"([^"]+)"`)
)

// commandLineText says what is wrong with a command line, and what may have been meant.
func commandLineText(err *kong.ParseError) string {
	text := err.Error()
	node := err.Context.Model.Node
	if n := err.Context.Selected(); n != nil {
		node = n
	}
	m := unknownWord.FindStringSubmatch(text)
	if m == nil && (len(node.Children) == 0 || !strings.HasPrefix(text, "expected ")) {
		return term.FlagText(text)
	}
	if group := node.Parent; m != nil && m[1] != "unknown flag" && len(node.Children) == 0 && group != nil && group.DefaultCmd == node {
		node = group // its default command has taken the word
	}
	c := describeNode(node)
	if m == nil {
		return c.Missing()
	}
	var alike []string
	for _, s := range spelled.FindAllStringSubmatch(m[3], -1) {
		alike = append(alike, s[1])
	}
	switch {
	case m[1] == "unknown flag":
		return c.UnknownFlag(m[2], alike)
	case len(node.Children) == 0:
		return c.NoArgument(m[2])
	}
	return c.Unknown(m[2], alike)
}
