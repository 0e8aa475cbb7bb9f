package command

import (
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/symdepot/symdepot/internal/base/term"
	"github.com/symdepot/symdepot/internal/run/config"
	"github.com/symdepot/symdepot/internal/run/console"
	"github.com/symdepot/symdepot/internal/run/manual"
	"github.com/symdepot/symdepot/layout"
)

// rerun runs another command line in place of this one.
type rerun func(args []string) int

type helpCmd struct {
	Command []string `arg:"" optional:"" passthrough:"" help:"The command, such as: cab list; or all."`
}

// Run prints the help of a command, or of all. Flags may follow the command: --help-all.
func (c helpCmd) Run(again rerun) error {
	switch {
	case slices.Equal(c.Command, []string{"all"}):
		c.Command = []string{"--" + helpAllFlag}
	case !slices.Contains(c.Command, "--"+helpAllFlag):
		c.Command = append(c.Command, "--help")
	}
	return term.Exit(again(c.Command))
}

// helpAllFlag is the name of the flag that prints the whole help of a command.
const helpAllFlag = "help-all"

// helpAll is that flag.
type helpAll bool

// BeforeReset prints the help, before anything else of the command line is looked at.
func (helpAll) BeforeReset(ctx *kong.Context) error {
	opt := shortHelp
	opt.NoExpandSubcommands = false
	opt.ValueFormatter = kong.DefaultHelpValueFormatter
	if err := printHelp(opt, ctx); err != nil {
		return err
	}
	ctx.Exit(ExitOK)
	return nil
}

// shortHelp is the form of --help. That of --help-all differs in NoExpandSubcommands.
var shortHelp = kong.HelpOptions{Compact: true, FlagsLast: true, NoExpandSubcommands: true, WrapUpperBound: 100}

// mostFlags is how many flags of its own a command may have whose --help prints them all. Of a
// command with more, it leaves out those with the tag "more", which are not of the first day.
const mostFlags = 12

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"bash, zsh, fish or powershell."`
}

// Run prints the script.
func (c completionCmd) Run(a *console.Console, app *kong.Kong) error {
	root := describeNode(app.Model.Node)
	_, err := io.WriteString(a.Stdout, manual.Completion(c.Shell, &root))
	return err
}

type manCmd struct {
	Dir string `arg:"" help:"Folder to write to."`
}

// Run writes the pages.
func (c manCmd) Run(app *kong.Kong) error {
	root := describeNode(app.Model.Node)
	return manual.WritePages(c.Dir, &root)
}

// flagTexts are the help texts that are too long for tags, whose tag is help:"text:NAME"; see
// manual.Texts. They are no variables of kong, which would expand each of them again for each
// flag of each command.
//
//go:embed flags.txt
var flagTexts string

// helpTexts are the long help texts of commands: a line with ## and the name of the command,
// and then its text.
//
//go:embed help.txt
var helpTexts string

// addHelp gives a node, and the commands below it, their long help texts and those of their
// flags and arguments. A tag that names no text is an error.
func addHelp(root *kong.Node) error {
	details := map[string]string{}
	all := strings.ReplaceAll("\n"+helpTexts, "${program_syntax}", config.ProgramSyntax)
	for part := range strings.SplitSeq(all, "\n## ") {
		command, text, _ := strings.Cut(part, "\n")
		details[command] = strings.TrimSpace(text)
	}
	texts, words := manual.Texts(flagTexts), helpWords()
	return kong.Visit(root, func(node kong.Visitable, next kong.Next) error {
		var help *string
		switch node := node.(type) {
		case *kong.Node:
			if node.Parent != root {
				node.Group = nil // the groups are those of the commands, not of what is below them
			}
			if node != root {
				node.Detail = details[strings.TrimPrefix(node.Path(), "symdepot ")]
			}
			help = &node.Help
		case *kong.Flag:
			node.Group = nil
			help = &node.Help
		case *kong.Value:
			help = &node.Help
		default:
			return next(nil)
		}
		if name, long := strings.CutPrefix(*help, "text:"); long {
			text, ok := texts[name]
			if !ok {
				return fmt.Errorf("flags.txt has no text %q", name)
			}
			*help = text
		}
		*help = words.Replace(*help)
		return next(nil)
	})
}

// helpWords replaces {NAME} in help texts by lists of layouts. Variables of kong would be
// looked for again in every text of every flag at each start.
func helpWords() *strings.Replacer {
	names := func(list []layout.Layout) string { return strings.Join(layout.Names(list), ", ") }
	packed := func(how layout.Packing) string {
		return names(slices.DeleteFunc(layout.All(), func(l layout.Layout) bool { return l.Packing() != how }))
	}
	return strings.NewReplacer("{layouts}", names(layout.All()), "{folder_layouts}", names(layout.Folders()),
		"{cabinet_layouts}", packed(layout.PackCabinet), "{zstd_layouts}", packed(layout.PackZstd))
}

// describeNode describes a command and those below it.
func describeNode(n *kong.Node) manual.Command {
	c := manual.Command{Name: n.Name, Path: n.FullPath(), Usage: strings.TrimSpace("symdepot " + n.Summary()), Help: n.Help, Detail: n.Detail}
	if first, rest, ok := strings.Cut(n.Help, "\n\n"); ok { // the program's own description
		c.Help, c.Detail = first, rest
	}
	if n.Group != nil {
		c.Group = n.Group.Title
	}
	for _, p := range n.Positional {
		c.Args = append(c.Args, manual.Arg{Name: p.Name, Help: p.Help})
	}
	for _, group := range n.AllFlags(true) {
		for _, f := range group {
			if depotFlags[f.Name] && noDepot(n) {
				continue
			}
			a := manual.Arg{Name: "--" + f.Name, Help: kong.DefaultHelpValueFormatter(f.Value)}
			if f.Short != 0 {
				a.Short = "-" + string(f.Short)
			}
			if !f.IsBool() {
				a.Value = f.FormatPlaceHolder()
			}
			for _, v := range f.EnumSlice() {
				if v != "" {
					a.Values = append(a.Values, v)
				}
			}
			c.Flags = append(c.Flags, a)
		}
	}
	for _, s := range n.Children {
		if !s.Hidden {
			c.Subs = append(c.Subs, describeNode(s))
		}
	}
	return c
}

// depotFlags are the flags of commands that use a depot.
var depotFlags = map[string]bool{"depot": true, "blobs": true}

// noDepot reports whether a command, or one above it, has the tag of commands
// without a depot.
func noDepot(n *kong.Node) bool {
	for ; n != nil; n = n.Parent {
		if n.Tag != nil && n.Tag.Has("nodepot") {
			return true
		}
	}
	return false
}

// printHelp prints the help of a command, without the flags of the depot if it has none. A
// command of a group without a text of its own has that of the group. Below a short help stands
// what it left out.
func printHelp(opt kong.HelpOptions, ctx *kong.Context) error {
	n, short := ctx.Selected(), opt.NoExpandSubcommands
	if n == nil {
		n = ctx.Model.Node
	}
	for _, f := range ctx.Model.Flags {
		if depotFlags[f.Name] {
			f.Hidden = noDepot(n)
		}
	}
	left := 0
	if short && n.Parent != nil && len(n.Flags) > mostFlags {
		for _, f := range n.Flags {
			if f.Tag.Has("more") {
				f.Hidden = true
				left++
			}
		}
	}
	for _, f := range ctx.Model.Flags {
		f.Hidden = f.Hidden || f.Name == helpAllFlag && left == 0 && n != ctx.Model.Node
	}
	if n.Parent != nil && n.Parent.Type == kong.CommandNode && n.Detail == "" {
		n.Detail = n.Parent.Detail // a group of commands has one text
	}
	if n.Parent == ctx.Model.Node {
		n.Group = nil // a heading is for the list of all commands
	}
	if err := kong.DefaultHelpPrinter(opt, ctx); err != nil {
		return err
	}
	var err error
	switch {
	case left > 0:
		_, err = fmt.Fprintf(ctx.Stdout, "\n%d more flags: %s --%s\n", left, n.FullPath(), helpAllFlag)
	case short && n == ctx.Model.Node:
		_, err = fmt.Fprintln(ctx.Stdout, `Run "symdepot help all" for all commands with those below them.`)
	}
	return err
}
